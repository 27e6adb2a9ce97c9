"""Lines of text in, lines of text out: the graph for people and files."""

import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.data.length_batches import length_batches
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import mbr, side_by_side, tensors
from aevnmt_tf.translator.decoding import Decoding
from aevnmt_tf.translator.graph import Graph
from aevnmt_tf.translator.sampling import Sampling
from aevnmt_tf.translator.scoring import Scoring


@dataclasses.dataclass
class Translation:
    """One translation of a sentence."""

    text: str
    score: float  # of mbr: the expected utility, else log_prob / length penalty
    log_prob: float  # log P(y|x, z)
    length: int = 0  # in subwords; </s> counts
    target_pieces: list[str] | None = None
    attention: np.ndarray | None = None  # [Ty, Tx]
    z: Any = None  # [Z], what it was made with; of an ensemble a tuple, one for each model


@dataclasses.dataclass
class Result:
    """What became of a line: its translations, best first; at least one."""

    translations: list[Translation]
    was_cut: bool = False  # it was longer than src_max_len_infer
    source_pieces: list[str] | None = None


class Translator(Scoring, Sampling, Graph):
    """Translates lines of text, scores pairs of lines and makes up new ones.

    Args:
        model: a model.Aevnmt.
        x_tokenizer: the source's text.Tokenizer.
        y_tokenizer: the target's.
        hp: the run's settings.
        x_moses: what turns raw text into what x_tokenizer reads, or None.
        y_moses: what turns what y_tokenizer writes into raw text, or None.
        is_final: whether the weights change no more. Then what all sentences share is computed
            once, when the first full batch comes: it is not worth it for a few lines.
    """

    def __init__(
        self,
        model,
        x_tokenizer,
        y_tokenizer,
        hp,
        *,
        x_moses=None,
        y_moses=None,
        is_final=False,
    ):
        super().__init__(model, x_tokenizer, y_tokenizer, hp)
        self._x_moses = x_moses
        self._y_moses = y_moses
        self.is_final = is_final
        self._kept = types.SimpleNamespace(functions={}, words=None)  # hidden from SavedModel

    def translate(self, lines: Iterable[str], *, seed=1, **changes) -> list[str]:
        """The best translation of each line; `changes` to the run's settings as in Decoding."""
        decoding = Decoding.of(self.hp, **{"n_best": 1, **changes})
        results = self.stream(lines, decoding=decoding, seed=seed)
        return [result.translations[0].text for result in results]

    def n_best(self, lines: Iterable[str], *, seed=1, **changes) -> list[list[Translation]]:
        """The n_best translations of each line, best first; fewer where there are no more."""
        decoding = Decoding.of(self.hp, **changes)
        results = self.stream(lines, decoding=decoding, seed=seed)
        return [result.translations for result in results]

    def embed(self, lines: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale [N, Z] of r(z|x), or of q(z|x), for each line."""
        if self.model.posterior is None:
            raise UserError(f"a {self.hp.model_type} model has no z to embed a sentence with")
        lines = list(tensors.several(lines))
        run = self._function("embed", self.embed_batch, [tensors.MATRIX, tensors.VECTOR])
        loc, scale = (np.zeros([len(lines), self.hp.z_dim], np.float32) for _ in range(2))
        for rows, _, x, x_len in self.batches(lines):
            loc[rows], scale[rows] = run(x, x_len)
        return loc, scale

    def draw_z(self, lines: Iterable[str], *, seed=1) -> np.ndarray:
        """The z [N, Z] that each line is translated with where z is "sample"."""
        lines = list(tensors.several(lines))

        def draw(x, x_len, seeds):
            return self.z(x, x_len, kind="sample", seeds=seeds)

        signature = [tensors.MATRIX, tensors.VECTOR, tensors.SEEDS]
        run = self._function("draw_z", draw, signature)
        z = np.zeros([len(lines), self.hp.z_dim], np.float32)
        for rows, _, x, x_len in self.batches(lines):
            z[rows] = run(x, x_len, tensors.seeds(seed, rows))
        return z

    def stream(
        self,
        lines: Iterable[str],
        *,
        decoding: Decoding,
        seed: int = 1,
        details: bool = False,
        window: int | None = None,
        is_ready: Callable[[], bool] = lambda: True,
        z: np.ndarray | None = None,
    ) -> Iterator[Result]:
        """Translate lines in constant memory; results come in their order.

        Args:
            lines: raw text.
            decoding: how to search.
            seed: of whatever is random; a line's numbers depend on it and on the line's number.
            details: also give pieces, attention and z.
            window: how many lines are read and sorted by length before any is translated.
                None: one batch first, so that the first results come soon, then more.
            is_ready: whether another line can be read at once; where it cannot, those that are
                there are translated.
            z: [N, Z], what to translate each line with in place of the z that `decoding` says;
                of a single model.
        """
        self.check(decoding)
        size = self.hp.infer_batch_size
        options = {"seed": seed, "details": details}
        read = {"batch_size": size, "window": window, "is_ready": is_ready}
        for start, chunk in tensors.windows(tensors.several(lines), **read):
            part = None if z is None else z[start : start + len(chunk)]
            yield from self._translate(chunk, start, decoding, z=part, **options)

    def _translate(self, lines, start, decoding, *, seed, details, z=None):
        """The results of some lines, the first of which is number `start` (from 0)."""
        rule, decoding = decoding, decoding.candidates
        words = self._words(len(lines))
        run = self._search_function(decoding, words, details=details, with_z=z is not None)
        results = [None] * len(lines)

        def search(batch):
            rows, was_cut, x, x_len = batch
            given = [] if z is None else [tf.constant(z[rows], tf.float32)]
            found = run(x, x_len, tensors.seeds(seed, start + rows), *given, *_tables(words))
            return rows, was_cut, _map(lambda v: v.numpy(), found)

        # The longest first: in the end no core waits for it.
        hypotheses = decoding.draws * decoding.width
        batches = list(self.batches(lines, hypotheses=hypotheses))[::-1]
        for rows, was_cut, found in side_by_side.run(search, batches):
            for i, row in enumerate(rows):
                results[row] = self._result(found, i, was_cut=bool(was_cut[i]))
        if rule.search == "mbr":
            for result in results:
                result.translations = mbr.rank(
                    result.translations, utility=rule.utility, n_best=rule.n_best
                )
        return results

    def _words(self, num_lines):
        """The word_table for so many lines, or None."""
        is_worth_it = num_lines >= self.hp.infer_batch_size
        if self._kept.words is None and self.is_final and is_worth_it:
            self._kept.words = self.word_table()
        return self._kept.words

    def _search_function(self, decoding, words, *, details, with_z):
        """A traced search of x, x_len, seeds, z where it is given, and the tables of words.

        Tables are arguments: TensorFlow never forgets what a traced function has captured.
        """

        def search(x, x_len, seeds, *others):
            others = iter(others)
            z = next(others) if with_z else None
            tables = _map(lambda _: next(others), words)
            options = {"decoding": decoding, "details": details, "z": z, "words": tables}
            return self._search_batch(x, x_len, seeds, **options)

        signature = [tensors.MATRIX, tensors.VECTOR, tensors.SEEDS]
        if with_z:
            signature.append(tensors.vectors(self.hp.z_dim))
        signature += [tf.TensorSpec.from_tensor(table) for table in _tables(words)]
        key = ("search", decoding, details, with_z, words is not None)
        return self._function(key, search, signature)

    def _search_batch(self, x, x_len, seeds, *, decoding, details, z, words):
        options = {"with_attention": details, "z": z, "words": words}
        found, z = self.search_and_z(x, x_len, seeds=seeds, decoding=decoding, **options)
        texts, scores = self.translations(found, x_len)
        outputs = {"texts": texts, "scores": scores, "log_probs": found.log_probs}
        outputs.update(lengths=found.lengths, x_len=x_len)
        if details:
            outputs["source_pieces"] = self.x_tokenizer.pieces(x)
            outputs["target_pieces"] = self.y_tokenizer.pieces(found.ids)
            outputs["attention"] = found.attention
            outputs["z"] = z
        return outputs

    def batches(self, lines, *, hypotheses=1):
        """Lines as batches of similar lengths: rows (places in `lines`), was_cut, x, x_len.

        Lines with many `hypotheses` come in smaller batches.
        """
        if not lines:
            return
        x, x_len, was_cut = self._ids(lines, moses=self._x_moses, side="source")
        most = side_by_side.fitting_size(self.hp.infer_batch_size, hypotheses=hypotheses)
        batch_size = side_by_side.even_size(len(lines), most=most)
        for rows in length_batches(x_len, batch_size=batch_size):
            time = x_len[rows].max()
            yield rows, was_cut[rows], tf.constant(x[rows, :time]), tf.constant(x_len[rows])

    def _result(self, found, row, *, was_cut):
        """Row `row` of a batch's outputs as a Result."""
        is_empty = found["x_len"][row] == 1
        # An empty line has one translation, an empty one.
        lengths = [0] if is_empty else [n for n in found["lengths"][row] if n > 0]
        translations = [self._translation(found, row, k, n) for k, n in enumerate(lengths)]
        if is_empty:
            translations[0].score = translations[0].log_prob = 0.0
        result = Result(translations, was_cut=was_cut)
        if "source_pieces" in found:
            pieces = found["source_pieces"][row, : found["x_len"][row]]
            result.source_pieces = tensors.texts(pieces)
        return result

    def _translation(self, found, row, k, length):
        """Hypothesis `k` of row `row`, `length` subwords long, as a Translation."""
        line = found["texts"][row, k].decode("utf-8", errors="replace")
        translation = Translation(
            text=line if self._y_moses is None else self._y_moses.inverse(line),
            score=float(found["scores"][row, k]),
            log_prob=float(found["log_probs"][row, k]),
            length=int(length),
        )
        if "attention" in found:
            time_x = found["x_len"][row]
            # A copy: a view would keep the whole batch until its window is written.
            translation.attention = found["attention"][row, k, :length, :time_x].copy()
            translation.target_pieces = tensors.texts(found["target_pieces"][row, k, :length])
            translation.z = _map(lambda v: v[row, k], found["z"])
        return translation

    def _function(self, key, function, signature):
        """One traced function for each way of decoding, whatever the shapes."""
        functions = self._kept.functions
        if key not in functions:
            traced = tf.function(function, input_signature=signature, autograph=False)
            functions[key] = traced.get_concrete_function()
        return functions[key]


def _tables(words):
    """The tensors of a word_table."""
    return [table for table in tf.nest.flatten(words) if table is not None]


def _map(function, nest):
    """What function makes of the tensors or arrays of a nest; None stays."""
    return tf.nest.map_structure(lambda v: None if v is None else function(v), nest)
