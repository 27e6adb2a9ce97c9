"""Keras layers: what the equations of the paper's Appendix A are made of. They know sizes,
never settings."""

from aevnmt_tf.nets.attention import Bahdanau, Memory
from aevnmt_tf.nets.decoder import DECODERS, DecoderState, PaperDecoder, TfNmtDecoder
from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.encoder import Encoder
from aevnmt_tf.nets.latent import GaussianNetwork, PointNetwork
from aevnmt_tf.nets.output import Output
from aevnmt_tf.nets.recurrent import GRU, BiGRU
from aevnmt_tf.nets.source_lm import SourceLM

__all__ = [
    "DECODERS",
    "GRU",
    "Bahdanau",
    "BiGRU",
    "DecoderState",
    "Embedding",
    "Encoder",
    "GaussianNetwork",
    "Memory",
    "Output",
    "PaperDecoder",
    "PointNetwork",
    "SourceLM",
    "TfNmtDecoder",
]
