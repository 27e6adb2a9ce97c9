"""Keras layers: what the equations of the paper's Appendix A are made of.

They know sizes, never settings.
"""

from aevnmt_tf.nets.bag_of_words import BagOfWords
from aevnmt_tf.nets.decoder import Decoder, DecoderState, PaperDecoder, TfNmtDecoder
from aevnmt_tf.nets.decoder.bahdanau import Bahdanau, Memory
from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.encoder import Encoder
from aevnmt_tf.nets.latent_networks import (
    GaussianNetwork,
    LatentPart,
    PointNetwork,
    SentenceNetwork,
    Sides,
)
from aevnmt_tf.nets.mean_normalisation import NormalisedGaussianNetwork
from aevnmt_tf.nets.output_layer import Counts, OutputLayer
from aevnmt_tf.nets.priors import (
    PRIORS,
    ConditionalPrior,
    GaussianPrior,
    MixturePrior,
    Prior,
    StandardNormal,
)
from aevnmt_tf.nets.recurrent import GRU, BiGRU, Noise
from aevnmt_tf.nets.source_lm import SourceLM
from aevnmt_tf.nets.tf_nmt.given_embedding import GivenEmbedding
from aevnmt_tf.nets.tf_nmt.gnmt_decoder import GnmtDecoder
from aevnmt_tf.nets.tf_nmt.plain_decoder import PlainDecoder
from aevnmt_tf.nets.tf_nmt.silent_encoder import SilentEncoder
from aevnmt_tf.nets.tf_nmt.tf_nmt_encoder import TfNmtEncoder

__all__ = [
    "GRU",
    "PRIORS",
    "BagOfWords",
    "Bahdanau",
    "BiGRU",
    "ConditionalPrior",
    "Counts",
    "Decoder",
    "DecoderState",
    "Embedding",
    "Encoder",
    "GaussianNetwork",
    "GaussianPrior",
    "GivenEmbedding",
    "GnmtDecoder",
    "MixturePrior",
    "LatentPart",
    "Memory",
    "Noise",
    "NormalisedGaussianNetwork",
    "OutputLayer",
    "PaperDecoder",
    "PlainDecoder",
    "PointNetwork",
    "Prior",
    "SentenceNetwork",
    "Sides",
    "SilentEncoder",
    "SourceLM",
    "StandardNormal",
    "TfNmtDecoder",
    "TfNmtEncoder",
]
