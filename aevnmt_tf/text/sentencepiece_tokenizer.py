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
from aevnmt_tf.text.tokenizer import EOS, PREFIX, SOS, UNK, Ids, Strings, Tokenizer

# The result depends on the number of threads, so it must not depend on the machine.
NUM_THREADS = 8
# Scores of pieces are rounded to multiples of 2**-7.
SCORE_BITS = 7


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece through tensorflow-text.

    Args:
      model_proto: A serialised model of the sentencepiece package, whose ids of <unk>, <s>
        and </s> are 0, 1 and 2.
    """

    def __init__(self, model_proto: bytes):
        super().__init__(name="sentencepiece_tokenizer")
        self.model_proto = model_proto
        self.vocab_size = _processor(model_proto).vocab_size()
        self.fingerprint = hashlib.sha256(model_proto).hexdigest()
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(model_proto)
        self._tokenizer._model_resource = _SharedModel(model_proto)

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Return the tokenizer of a .model file."""
        try:
            return cls(Path(path).read_bytes())
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""
        return self._tokenizer.tokenize(text)

    def sample(self, lines: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of each line, drawn by forward filtering and backward sampling."""
        model = _parsed(self.model_proto)
        if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
            return super().sample(lines, alpha=alpha, seed=seed)
        # tensorflow-text samples without a seed. The sentencepiece package has a generator per
        # thread, seeded at the first draw of the thread: hence a new thread.
        options: dict[str, Any] = dict(
            enable_sampling=True, nbest_size=-1, alpha=alpha, num_threads=1
        )
        processor = _processor(self.model_proto)
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(1) as pool:
            sampled = pool.submit(processor.encode, list(lines), **options).result()
        symbols = {
            number
            for number, piece in enumerate(model.pieces)
            if piece.type == piece.USER_DEFINED
        }
        return _with_symbols(sampled, symbols, best=lambda: processor.encode(list(lines)))

    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write vocab.LANG.model into the folder."""
        path = Path(folder) / f"{PREFIX}.{lang}.model"
        return [atomic_writes.write(path, self.model_proto)]

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._tokenizer.detokenize(ids)

    def _lookup(self, ids: Ids) -> Ids:
        return self._tokenizer.id_to_string(ids)


class _SharedModel(tf.saved_model.experimental.TrackableResource):
    """The resource of the model, with a name.

    The unnamed resource of tensorflow-text belongs to a cached kernel, and
    tf.random.set_seed and clear_session of Keras empty that cache. A named one persists. Equal
    models have equal names and share a resource.
    """

    def __init__(self, model_proto: bytes) -> None:
        super().__init__()
        self._model_proto = model_proto
        self._shared_name = "sentencepiece_" + hashlib.sha256(model_proto).hexdigest()
        _ = self.resource_handle  # creates the resource

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
    """Return a serialised SentencePiece model of the lines. Training is deterministic.

    Text with fewer distinct pieces than vocab_size yields a smaller model.

    Args:
      lines: Raw text.
      vocab_size: The number of pieces, including <unk>, <s>, </s> and 256 bytes.
      symbols: Words that are never split.
      name: The name of the text in error messages.
    """
    filled = (line for line in lines if line.strip())
    first = next(filled, None)
    if first is None:
        raise UserError(f"{name} has no lines to learn a subword model from.")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain([first], filled),
            model_writer=model,
            # Only unigram models can sample segmentations.
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=0.9995,
            normalization_rule_name="nmt_nfkc",
            # With the mark of a word's start, the word is one piece instead of two.
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
    """Replace samples that split a user-defined symbol by the best segmentation."""
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
            "with the defaults, --unk_id=0 --bos_id=1 --eos_id=2 --pad_id=-1."
        )
    return processor


def _parsed(model_proto: bytes) -> Any:
    # The module creates its classes when it is imported.
    return sentencepiece_model_pb2.ModelProto.FromString(model_proto)  # type: ignore[attr-defined]


def _round_scores(model_proto: bytes) -> bytes:
    """Round the scores so that their sums are exact in float32.

    A unigram model splits "ooo" as "oo o" or "o oo" with the same probability. Unrounded, the
    order of float additions decides. Exact sums are real ties, which tensorflow-text and the
    sentencepiece package break in the same way.
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
            f"vocab_size {vocab_size} is too small for the characters of {name} and 256 bytes: "
            f"give a vocab_size{least}."
        )
    return f"Cannot learn a subword model from {name}: {message.splitlines()[0].rstrip('.')}."
