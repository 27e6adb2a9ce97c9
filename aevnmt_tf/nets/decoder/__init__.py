"""The target decoder, P(y|x, z): one file for each form, by the value of decoder_style."""

from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, SearchStep
from aevnmt_tf.nets.decoder.paper_decoder import PaperDecoder
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtDecoder

__all__ = [
    "Decoder",
    "DecoderState",
    "PaperDecoder",
    "SearchStep",
    "TfNmtDecoder",
]
