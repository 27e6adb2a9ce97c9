"""From a source text to a target text: the one decode path.

translate, evaluate, the dev BLEU of training and the exported model share it. graph.py has all
that is TensorFlow; lines.py, scoring.py and sampling.py have what people call.
"""

from aevnmt_tf.translator.decoding import Decoding
from aevnmt_tf.translator.ensemble import Ensemble
from aevnmt_tf.translator.graph import Graph
from aevnmt_tf.translator.lines import Result, Translation, Translator
from aevnmt_tf.translator.loading import load
from aevnmt_tf.translator.scoring import Score

__all__ = [
    "Decoding",
    "Ensemble",
    "Graph",
    "Result",
    "Score",
    "Translation",
    "Translator",
    "load",
]
