"""Keras layers for the equations of the paper's Appendix A. They know sizes, never settings."""

from aevnmt_tf.nets.bag_of_words import BagOfWords
from aevnmt_tf.nets.decoder.attention import Memory
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState
from aevnmt_tf.nets.decoder.paper_decoder import PaperDecoder
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtDecoder
from aevnmt_tf.nets.embedding import Embedding, GivenEmbedding
from aevnmt_tf.nets.encoder import Encoder
from aevnmt_tf.nets.latent_networks import (
    GaussianNetwork,
    PointNetwork,
    SentenceNetwork,
    Sides,
)
from aevnmt_tf.nets.mean_normalisation import NormalisedGaussianNetwork
from aevnmt_tf.nets.output_layer import Counts, OutputLayer
from aevnmt_tf.nets.priors import (
    PRIORS,
    ConditionalPrior,
    MixturePrior,
    Prior,
    StandardNormal,
)
from aevnmt_tf.nets.recurrent import GRU, BiGRU, Noise
from aevnmt_tf.nets.source_lm import SourceLM
from aevnmt_tf.nets.tf_nmt.gnmt_decoder import GnmtDecoder
from aevnmt_tf.nets.tf_nmt.plain_decoder import PlainDecoder
from aevnmt_tf.nets.tf_nmt.tf_nmt_encoder import SilentEncoder, TfNmtEncoder

__all__ = [
    "GRU",
    "PRIORS",
    "BagOfWords",
    "BiGRU",
    "ConditionalPrior",
    "Counts",
    "Decoder",
    "DecoderState",
    "Embedding",
    "Encoder",
    "GaussianNetwork",
    "GivenEmbedding",
    "GnmtDecoder",
    "Memory",
    "MixturePrior",
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
