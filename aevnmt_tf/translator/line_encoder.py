"""Lines of raw text to batches of ids, and text of the model to raw text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.batch_shapes import length_batches
from aevnmt_tf.translator import line_batches
from aevnmt_tf.translator.decode_path import STRINGS, Batch, Graph, traced

if TYPE_CHECKING:  # slow to import
    from aevnmt_tf.text.moses import MosesPipeline

MOST_WORDS = 4096  # per side of a batch of pairs: each has a row of logits


class LineBatch(NamedTuple):
    """Lines of similar length."""

    rows: np.ndarray  # [B], their positions among all lines
    was_cut: np.ndarray  # [B]
    x: tf.Tensor  # [B, Tx]
    x_len: tf.Tensor  # [B]


class PairBatch(NamedTuple):
    """Pairs of lines of similar length."""

    rows: np.ndarray  # [B], their positions among all pairs
    batch: Batch
    was_cut: tuple[np.ndarray, np.ndarray]  # of x and y: [B]


class LineEncoder:
    """Turns lines into ids for a graph, and its translations into lines.

    Args:
        graph: The model and its tokenizers.
        x_moses: The pipeline from raw text to the input of the source tokenizer, or None.
        y_moses: The pipeline whose inverse makes raw text of translations, or None.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        x_moses: "MosesPipeline | None" = None,
        y_moses: "MosesPipeline | None" = None,
    ) -> None:
        self.x_moses, self.y_moses = x_moses, y_moses
        self._graph = graph
        self._encode_source = traced(graph.encode, [STRINGS])
        self._encode_target = traced(graph.encode_target, [STRINGS])

    def batches(self, lines: Sequence[str], *, hypotheses: int = 1) -> Iterator[LineBatch]:
        """Yield batches of source lines, smaller ones for many `hypotheses` per line."""
        if not lines:
            return
        x, x_len, was_cut = _ids(lines, self.x_moses, self._encode_source)
        most = self._graph.hp.infer_batch_size
        most = line_batches.fitting_size(most, hypotheses=hypotheses)
        batch_size = line_batches.even_size(len(lines), most=most)
        for rows in length_batches(x_len, batch_size=batch_size):
            ids = x[rows, : x_len[rows].max()]
            yield LineBatch(rows, was_cut[rows], tf.constant(ids), tf.constant(x_len[rows]))

    def pair_batches(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[PairBatch]:
        """Yield batches of pairs."""
        x, x_len, x_cut = _ids(sources, self.x_moses, self._encode_source)
        y, y_len, y_cut = _ids(targets, self.y_moses, self._encode_target)
        size = self._graph.hp.infer_batch_size
        lengths = np.maximum(x_len, y_len)
        for rows in length_batches(lengths, batch_size=size, most_words=MOST_WORDS):
            batch = {"x": x[rows, : x_len[rows].max()], "x_len": x_len[rows]}
            batch |= {"y": y[rows, : y_len[rows].max()], "y_len": y_len[rows]}
            batch = {name: tf.constant(values) for name, values in batch.items()}
            yield PairBatch(rows, batch, (x_cut[rows], y_cut[rows]))

    def raw_source(self, line: str) -> str:
        """Return output of the source tokenizer as raw text."""
        return line if self.x_moses is None else self.x_moses.inverse(line)

    def raw_target(self, line: str) -> str:
        """Return output of the target tokenizer as raw text."""
        return line if self.y_moses is None else self.y_moses.inverse(line)

    @property
    def source_form(self) -> str:
        """A description of the text that the model takes."""
        if self.x_moses is not None:
            return "raw text"
        return text_form(self._graph.x_tokenizer, is_source=True)


def _ids(
    lines: Sequence[str], pipeline: "MosesPipeline | None", encode: Any
) -> tuple[np.ndarray, ...]:
    """Return ids [N, T], lengths [N] and whether each line was cut [N]."""
    if pipeline is not None:
        lines = [pipeline.forward(line) for line in lines]
    return tuple(value.numpy() for value in encode(strings(lines)))


def text_form(tokenizer: text.Tokenizer, *, is_source: bool, is_moses: bool = False) -> str:
    """Describe the text that a tokenizer reads or writes; `is_moses`: after that pipeline."""
    if tokenizer.takes_raw_text:
        return "raw text"
    words = "words separated by spaces"
    if is_moses:
        words = f"Moses tokens, truecased: {words}"
    if getattr(tokenizer, "subword_option", "") == "bpe":
        split = "each split into BPE subwords that end in `@@`, except for a word's last one"
        words = f"{words}, {split if is_source else 'with subwords joined'}"
    return words


def checked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; raise a UserError if they are no list, or at the first non-string."""
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        kind = "one string" if isinstance(lines, str) else f"of type {type(lines).__name__}"
        raise UserError(f"lines must be a list of strings, not {kind}: pass [line].")
    for place, line in enumerate(lines):
        if not isinstance(line, str):
            raise UserError(f"lines[{place}] must be a string, not {line!r}.")
        yield line


def line_seeds(seed: int, numbers: np.ndarray) -> tf.Tensor:
    """Return a seed per line: `seed` in the high half, the line number in the low half."""
    return tf.constant((np.int64(seed) << 32) + numbers, tf.int64)


def strings(lines: Sequence[str]) -> tf.Tensor:
    """Return lines of text as a tensor [N]."""
    # NumPy's own string type drops trailing zero bytes.
    array = np.empty(len(lines), object)
    array[:] = [line.encode("utf-8", errors="replace") for line in lines]
    return tf.constant(array)


def decoded(pieces: Iterable[bytes]) -> list[str]:
    """Return an array of bytes [N] as lines of text."""
    return [piece.decode("utf-8", errors="replace") for piece in pieces]
