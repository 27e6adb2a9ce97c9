"""Lines of raw text as batches of ids, and a model's text as raw text again."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.batch_shapes import length_batches
from aevnmt_tf.translator import concurrent_batches, traced
from aevnmt_tf.translator.decode_path import Graph

if TYPE_CHECKING:  # slow to import, and few need it
    from aevnmt_tf.text.moses import MosesPipeline

MOST_WORDS = 4096  # of a side of a batch of pairs: output layers take a vocabulary for each


class LineBatch(NamedTuple):
    """Lines of similar lengths."""

    rows: np.ndarray  # [B], their places among all lines
    was_cut: np.ndarray  # [B]
    x: tf.Tensor  # [B, Tx]
    x_len: tf.Tensor  # [B]


class PairBatch(NamedTuple):
    """Pairs of lines of similar lengths."""

    rows: np.ndarray  # [B], their places among all pairs
    ids: tuple[np.ndarray, ...]  # x [B, Tx], x_len [B], y [B, Ty], y_len [B]
    was_cut: tuple[np.ndarray, np.ndarray]  # of x and y: [B]


class LineEncoder:
    """What turns lines into ids for a graph, and its translations into lines.

    Args:
        graph: the graph.
        x_moses: what turns raw text into what the source's tokenizer reads, or None.
        y_moses: what turns what the target's tokenizer writes into raw text, or None.
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
        self._functions = traced.TracedFunctions()

    def batches(self, lines: Sequence[str], *, hypotheses: int = 1) -> Iterator[LineBatch]:
        """Return source lines as batches; those with many `hypotheses` in smaller ones."""
        if not lines:
            return
        x, x_len, was_cut = self._ids(lines, "source")
        most = self._graph.hp.infer_batch_size
        most = concurrent_batches.fitting_size(most, hypotheses=hypotheses)
        batch_size = concurrent_batches.even_size(len(lines), most=most)
        for rows in length_batches(x_len, batch_size=batch_size):
            ids = x[rows, : x_len[rows].max()]
            yield LineBatch(rows, was_cut[rows], tf.constant(ids), tf.constant(x_len[rows]))

    def pair_batches(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[PairBatch]:
        """Return pairs as batches."""
        x, x_len, x_cut = self._ids(sources, "source")
        y, y_len, y_cut = self._ids(targets, "target")
        size = self._graph.hp.infer_batch_size
        lengths = np.maximum(x_len, y_len)
        for rows in length_batches(lengths, batch_size=size, most_words=MOST_WORDS):
            x_rows, y_rows = x[rows, : x_len[rows].max()], y[rows, : y_len[rows].max()]
            ids = (x_rows, x_len[rows], y_rows, y_len[rows])
            yield PairBatch(rows, ids, (x_cut[rows], y_cut[rows]))

    def _ids(self, lines: Sequence[str], side: str) -> tuple[np.ndarray, ...]:
        """Return ids [N, T], lengths [N] and whether a line was cut [N]."""
        pipeline = {"source": self.x_moses, "target": self.y_moses}[side]
        if pipeline is not None:
            lines = [pipeline.forward(line) for line in lines]
        graph = self._graph
        encode = {"source": graph.encode, "target": graph.encode_target}[side]
        run = self._functions.get(side, encode, [traced.STRINGS])
        return tuple(value.numpy() for value in run(strings(lines)))

    def raw_source(self, line: str) -> str:
        """Return what the source's tokenizer wrote as raw text."""
        return line if self.x_moses is None else self.x_moses.inverse(line)

    def raw_target(self, line: str) -> str:
        """Return what the target's tokenizer wrote as raw text."""
        return line if self.y_moses is None else self.y_moses.inverse(line)

    @property
    def source_form(self) -> str:
        """What lines must be, in words."""
        if self.x_moses is not None:
            return "raw text"
        return text_form(self._graph.x_tokenizer, is_source=True)


def text_form(tokenizer: text.Tokenizer, *, is_source: bool, is_moses: bool = False) -> str:
    """Return what text a tokenizer reads or writes; `is_moses`: after that pipeline."""
    if tokenizer.takes_raw_text:
        return "raw text"
    words = "words separated by spaces"
    if is_moses:
        words = f"Moses tokens, truecased: {words}"
    if getattr(tokenizer, "subword_option", "") == "bpe":
        joined = "subwords are joined again"
        cut = "each cut into BPE subwords, `@@` at the end of all but a word's last one"
        words = f"{words}, {cut if is_source else joined}"
    return words


def checked(lines: Iterable[str]) -> Iterator[str]:
    """Return the lines; a UserError at the first that is no string."""
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        kind = "one string" if isinstance(lines, str) else f"of type {type(lines).__name__}"
        raise UserError(f"lines must be a list of strings, not {kind}: pass [line].")
    return (_checked_line(line, f"lines[{place}]") for place, line in enumerate(lines))


def checked_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Return the pairs; a UserError at the first with a side that is no string."""
    for place, (source, target) in enumerate(pairs):
        yield (
            _checked_line(source, f"sources[{place}]"),
            _checked_line(target, f"targets[{place}]"),
        )


def _checked_line(line: Any, name: str) -> str:
    if not isinstance(line, str):
        raise UserError(f"{name} must be a string, not {line!r}.")
    return line


def line_seeds(seed: int, numbers: np.ndarray) -> tf.Tensor:
    """Return a seed for each line: `seed` in one half, the line's number in the other."""
    return tf.constant((np.int64(seed) << 32) + numbers, tf.int64)


def strings(lines: Sequence[str]) -> tf.Tensor:
    """Return lines of text as a tensor [N]."""
    # NumPy's own string type would cut zero bytes at the end.
    array = np.empty(len(lines), object)
    array[:] = [line.encode("utf-8", errors="replace") for line in lines]
    return tf.constant(array)


def decoded(pieces: Iterable[bytes]) -> list[str]:
    """Return an array of bytes [N] as lines of text."""
    return [piece.decode("utf-8", errors="replace") for piece in pieces]
