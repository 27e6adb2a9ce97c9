"""Strings to ids and back inside the graph, and the paper's Moses pipeline."""

from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from aevnmt_tf.text.tokenizer import EOS, SOS, UNK, Tokenizer, append_eos
from aevnmt_tf.text.tokenizer_files import load, load_prefix
from aevnmt_tf.text.vocabulary_tokenizer import VocabularyTokenizer

__all__ = [
    "EOS",
    "SOS",
    "UNK",
    "SentencePieceTokenizer",
    "Tokenizer",
    "VocabularyTokenizer",
    "append_eos",
    "load",
    "load_prefix",
]
