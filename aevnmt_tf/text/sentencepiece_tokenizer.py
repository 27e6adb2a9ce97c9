"""SentencePiece inside the graph: raw text in, raw text out."""

import hashlib
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sentencepiece
import tensorflow as tf
import tensorflow_text
from sentencepiece import sentencepiece_model_pb2
from tensorflow_text.python.ops.sentencepiece_tokenizer import (
    gen_sentencepiece_tokenizer as sentencepiece_ops,
)

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes
from aevnmt_tf.text import tokenizer_files
from aevnmt_tf.text.tokenizer import EOS, SOS, UNK, Ids, Strings, Tokenizer

# The result depends on the number of threads, so it is fixed and not taken from the machine.
NUM_THREADS = 8
# Pieces' scores are multiples of 2**-7.
SCORE_BITS = 7


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece through tensorflow-text.

    Args:
      model_proto: a serialised model, as the sentencepiece package writes it, whose ids of
        <unk>, <s> and </s> are 0, 1 and 2.
    """

    def __init__(self, model_proto: bytes):
        super().__init__(name="sentencepiece_tokenizer")
        processor = _processor(model_proto)
        self._model_proto = model_proto
        self._vocab_size = processor.vocab_size()
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(model_proto)
        self._tokenizer._model_resource = _SharedModel(model_proto)

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Return the tokenizer of a .model file."""
        try:
            return cls(Path(path).read_bytes())
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        return self._vocab_size

    @property
    def model_proto(self) -> bytes:
        """The serialised model."""
        return self._model_proto

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the ids."""
        return hashlib.sha256(self._model_proto).hexdigest()

    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""
        return self._tokenizer.tokenize(text)

    def sample(self, lines: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of each line, drawn by forward filtering and backward sampling."""
        model = _parsed(self._model_proto)
        if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
            return super().sample(lines, alpha=alpha, seed=seed)
        # tensorflow-text can sample but takes no seed. The sentencepiece package keeps a random
        # generator a thread, which takes the seed when its thread first draws: a new thread.
        options: dict[str, Any] = dict(
            enable_sampling=True, nbest_size=-1, alpha=alpha, num_threads=1
        )
        processor = _processor(self._model_proto)
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(1) as pool:
            sampled = pool.submit(processor.encode, list(lines), **options).result()
        symbols = {
            number
            for number, piece in enumerate(model.pieces)
            if piece.type == piece.USER_DEFINED
        }
        return _with_symbols(sampled, symbols, best=lambda: processor.encode(list(lines)))

    def pieces(self, ids: Ids) -> Ids:
        """Return the piece of every id, in the shape of ids: for tables and plots."""
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.convert_to_tensor(ids)
        return self._tokenizer.id_to_string(self._existing(ids))

    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write vocab.LANG.model into the folder."""
        path = Path(folder) / f"{tokenizer_files.PREFIX}.{lang}.model"
        return [atomic_writes.write(path, self._model_proto)]

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._tokenizer.detokenize(ids)


class _SharedModel(tf.saved_model.experimental.TrackableResource):
    """The model's resource under a name of its own.

    The resource that tensorflow-text makes belongs to a cached kernel and vanishes with it:
    tf.random.set_seed and keras' clear_session empty that cache. A named one stays. Equal
    models have equal names and share one resource.
    """

    def __init__(self, model_proto: bytes) -> None:
        super().__init__()
        self._model_proto = model_proto
        self._shared_name = "sentencepiece_" + hashlib.sha256(model_proto).hexdigest()
        _ = self.resource_handle  # Reading it makes the resource.

    def _create_resource(self) -> tf.Tensor:
        return sentencepiece_ops.sentencepiece_op(
            model=self._model_proto, shared_name=self._shared_name
        )


def train(
    lines: Iterable[str],
    *,
    vocab_size: int,
    symbols: Sequence[str] = (),
    name: str = "the text",
) -> bytes:
    """Return the serialised SentencePiece model of the lines; same lines, same model.

    Text with fewer distinct pieces than vocab_size gives a smaller model.

    Args:
      lines: raw text.
      vocab_size: the number of pieces wanted, <unk>, <s>, </s> and 256 bytes included.
      symbols: words that are one piece wherever they stand alone.
      name: what the text is called in an error message.
    """
    filled = (line for line in lines if line.strip())
    first = next(filled, None)
    if first is None:
        raise UserError(f"{name} has no lines to make a subword model from.")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain([first], filled),
            model_writer=model,
            # unigram rather than bpe: it is the one that can sample segmentations.
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=0.9995,
            normalization_rule_name="nmt_nfkc",
            # A word starts with this mark; with it, the word is one piece and not two.
            user_defined_symbols=[f"\N{LOWER ONE EIGHTH BLOCK}{word}" for word in symbols],
            unk_id=UNK,
            bos_id=SOS,
            eos_id=EOS,
            pad_id=-1,
            num_threads=NUM_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise UserError(_training_error(str(error), vocab_size, name)) from None
    return _round_scores(model.getvalue())


def _with_symbols(
    sampled: list[list[int]], symbols: set[int], *, best: Callable[[], list[list[int]]]
) -> list[list[int]]:
    """Return the samples; the best segmentation where one has cut a symbol of the user."""
    if not symbols:
        return sampled

    def found(row: list[int]) -> Counter[int]:
        return Counter(number for number in row if number in symbols)

    return [
        row if found(row) == found(other) else other
        for row, other in zip(sampled, best(), strict=True)
    ]


def _processor(model_proto: bytes) -> sentencepiece.SentencePieceProcessor:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto)
    except RuntimeError:
        raise UserError("This is not a SentencePiece model.") from None
    ids = processor.unk_id(), processor.bos_id(), processor.eos_id()
    if ids != (UNK, SOS, EOS):
        raise UserError(
            f"The ids of <unk>, <s> and </s> are {ids} and must be (0, 1, 2): train the model "
            "with --unk_id=0 --bos_id=1 --eos_id=2 --pad_id=-1, which are the defaults."
        )
    return processor


def _parsed(model_proto: bytes) -> Any:
    # The generated module builds its classes when it is imported.
    return sentencepiece_model_pb2.ModelProto.FromString(model_proto)  # type: ignore[attr-defined]


def _round_scores(model_proto: bytes) -> bytes:
    """Round the scores so that sums of them are exact in float32.

    A unigram model splits "ooo" as "oo o" or "o oo" with the same probability, and the order of
    float additions decided which. Exact sums make these real ties, which tensorflow-text and
    the sentencepiece package break in the same way: the same ids everywhere.
    """
    model = _parsed(model_proto)
    for piece in model.pieces:
        piece.score = round(piece.score * 2**SCORE_BITS) / 2**SCORE_BITS
    return model.SerializeToString(deterministic=True)


def _training_error(message: str, vocab_size: int, name: str) -> str:
    if "required_chars" in message:
        needed = [int(word) for word in message.replace(".", " ").split() if word.isdigit()]
        least = f" of at least {max(needed)}" if needed else " that is larger"
        return (
            f"vocab_size {vocab_size} has no room for the characters of {name} and 256 bytes: "
            f"give a vocab_size{least}."
        )
    return f"No subword model could be made of {name}: {message.splitlines()[0].rstrip('.')}."
