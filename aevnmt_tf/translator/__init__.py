"""From a source text to a target text: the one decode path.

translate, evaluate, the dev BLEU of training and the exported model share it:

    rules.py -> decision.py -> decode_path.py -> search

rules.py declares the decision rules, decision.py runs them, and decode_path.py has the model
and its tokenizers as TensorFlow operations. line_translator.py, scorer.py, sampler.py and
embedder.py are the Python interface. The corpus_ modules are what commands do with whole files.
TensorFlow is imported with the first name that needs it, not with the package.
"""

import importlib
from typing import TYPE_CHECKING, Any

from aevnmt_tf.translator.rules import Decoding

if TYPE_CHECKING:
    from aevnmt_tf.translator.decode_path import Graph
    from aevnmt_tf.translator.line_translator import Translator
    from aevnmt_tf.translator.loading import load
    from aevnmt_tf.translator.translated_lines import TranslatedLine, Translation

__all__ = ["Decoding", "Graph", "TranslatedLine", "Translation", "Translator", "load"]
_HOMES = {
    "Graph": "decode_path",
    "TranslatedLine": "translated_lines",
    "Translation": "translated_lines",
    "Translator": "line_translator",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
