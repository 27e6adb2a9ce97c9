"""Lines of text in, lines of text out: the graph for people and files."""

import dataclasses
import types
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.data.length_batches import length_batches
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator.decoding import Decoding
from aevnmt_tf.translator.graph import Z_STREAM, Graph

WINDOW = 20  # batches among which sentences are sorted by length


@dataclasses.dataclass
class Translation:
    """One translation of a sentence."""

    text: str
    score: float
    log_prob: float  # log P(y|x, z)
    target_pieces: list[str] | None = None
    attention: np.ndarray | None = None  # [Ty, Tx]


@dataclasses.dataclass
class Result:
    """What became of a line: its translations, best first; at least one."""

    translations: list[Translation]
    was_cut: bool = False  # it was longer than src_max_len_infer
    source_pieces: list[str] | None = None
    z: np.ndarray | None = None  # [Z], of z "mean"


class Translator(Graph):
    """Translates lines of text, and more.

    Args:
        model: a model.Aevnmt.
        x_tokenizer: the source's text.Tokenizer.
        y_tokenizer: the target's.
        hp: the run's settings.
        x_moses: what turns raw text into what x_tokenizer reads, or None.
        y_moses: what turns what y_tokenizer writes into raw text, or None.
    """

    def __init__(self, model, x_tokenizer, y_tokenizer, hp, *, x_moses=None, y_moses=None):
        super().__init__(model, x_tokenizer, y_tokenizer, hp)
        self._x_moses = x_moses
        self._y_moses = y_moses
        self._traced = types.SimpleNamespace(functions={})  # hidden from SavedModel

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
        lines = list(lines)
        run = self._function("embed", self.embed_batch, [_MATRIX, _VECTOR])
        loc, scale = (np.zeros([len(lines), self.hp.z_dim], np.float32) for _ in range(2))
        for rows, _, x, x_len in self._batches(lines):
            loc[rows], scale[rows] = run(x, x_len)
        return loc, scale

    def score(
        self, sources: Iterable[str], targets: Iterable[str], *, samples=10, seed=1
    ) -> dict[str, np.ndarray]:
        """Log-probabilities and bounds of pairs, in nats: arrays [N] by name.

        log_px and log_py are means over `samples` draws of z ~ q; elbo = log_px + log_py - kl.
        log_py_at_mean is log P(y|x, z) with the z of translation. iw_ are importance-weighted
        bounds with all the samples, and ess is how many of them count. A system without z has
        log_px and log_py alone, and their sum as elbo; cond has log_py.
        """
        sources, targets = list(sources), list(targets)
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources have {len(targets)} targets")
        run = self._function(
            ("score", samples),
            lambda x, x_len, y, y_len, seeds: self.score_batch(
                {"x": x, "x_len": x_len, "y": y, "y_len": y_len}, seeds=seeds, samples=samples
            ),
            [_MATRIX, _VECTOR, _MATRIX, _VECTOR, _SEEDS],
        )
        if self._y_moses is not None:
            targets = [self._y_moses.forward(line) for line in targets]
        scores = {}
        for rows, _, x, x_len in self._batches(sources):
            ids = self.y_tokenizer.encode(_strings([targets[row] for row in rows]))
            y = text.append_eos(ids)
            y_len = tf.cast(y.row_lengths(), tf.int32)
            found = run(x, x_len, y.to_tensor(text.EOS), y_len, _seeds(seed, rows))
            for name, values in found.items():
                scores.setdefault(name, np.zeros(len(sources), np.float32))[rows] = values
        return scores

    def sample(self, number: int, *, seed=1, temperature=1.0, top_k=0, top_p=1.0):
        """Pairs (x, y) from the prior: z ~ p(z), x ~ P(x|z), y ~ P(y|x, z)."""
        decoding = Decoding(
            search="sample", temperature=temperature, top_k=top_k, top_p=top_p, z="mean"
        )
        run = self._generator(decoding)
        pairs = []
        while len(pairs) < number:
            rows = np.arange(len(pairs), min(number, len(pairs) + self.hp.infer_batch_size))
            seeds = _seeds(seed, rows)
            z = search.normals(seeds, stream=Z_STREAM, count=self.hp.z_dim)
            pairs += self._pairs(run(z, seeds))
        return pairs

    def interpolate(self, first: str, last: str, *, steps: int):
        """Pairs (x, y), greedily decoded, on the way between two sentences' mean z."""
        loc, _ = self.embed([first, last])
        share = np.linspace(0, 1, steps, dtype=np.float32)[:, None]
        z = (1 - share) * loc[:1] + share * loc[1:]  # [steps, Z]
        run = self._generator(Decoding(search="greedy"))
        return self._pairs(run(tf.constant(z), _seeds(0, np.arange(steps))))

    def _generator(self, decoding):
        if self.model.source_lm is None:
            raise UserError("a cond model has no P(x): only joint and aevnmt can make sources")
        has_z = self.model.posterior is not None

        def generate(z, seeds):
            return self.generate(z if has_z else None, seeds=seeds, decoding=decoding)

        z = tf.TensorSpec([None, self.hp.z_dim], tf.float32)
        return self._function(("generate", decoding), generate, [z, _SEEDS])

    def _pairs(self, texts):
        x, y = (_text(side.numpy()) for side in texts)
        if self._x_moses is not None:
            x, y = map(self._x_moses.inverse, x), map(self._y_moses.inverse, y)
        return list(zip(x, y, strict=True))

    def stream(
        self,
        lines: Iterable[str],
        *,
        decoding: Decoding,
        seed: int = 1,
        details: bool = False,
        window: int | None = None,
    ) -> Iterator[Result]:
        """Translate lines in constant memory; results come in their order.

        Args:
            lines: raw text.
            decoding: how to search.
            seed: of whatever is random; a line's numbers depend on it and on the line's number.
            details: also give pieces, attention and z.
            window: how many lines are read and sorted by length before any is translated.
                None: one batch first, so that the first results come soon, then more.
        """
        lines, start = iter(lines), 0
        batch_size = self.hp.infer_batch_size
        size = window or batch_size
        while chunk := list(islice(lines, size)):
            yield from self._translate(chunk, start, decoding, seed=seed, details=details)
            start += len(chunk)
            size = window or min(2 * size, WINDOW * batch_size)

    def _translate(self, lines, start, decoding, *, seed, details):
        """The results of some lines, the first of which is number `start` (from 0)."""
        run = self._function(
            ("search", decoding, details),
            lambda x, x_len, seeds: self._search_batch(
                x, x_len, seeds, decoding=decoding, details=details
            ),
            [_MATRIX, _VECTOR, _SEEDS],
        )
        results = [None] * len(lines)
        for rows, was_cut, x, x_len in self._batches(lines, draws=decoding.draws):
            found = run(x, x_len, _seeds(seed, start + rows))
            found = {name: value.numpy() for name, value in found.items()}
            for i, row in enumerate(rows):
                results[row] = self._result(found, i, was_cut=bool(was_cut[i]))
        return results

    def _search_batch(self, x, x_len, seeds, *, decoding, details):
        found = self.search(x, x_len, seeds=seeds, decoding=decoding, with_attention=details)
        texts, scores = self.translations(found, x_len)
        outputs = {"texts": texts, "scores": scores, "log_probs": found.log_probs}
        outputs.update(lengths=found.lengths, x_len=x_len)
        if details:
            outputs["source_pieces"] = self.x_tokenizer.pieces(x)
            outputs["target_pieces"] = self.y_tokenizer.pieces(found.ids)
            outputs["attention"] = found.attention
            z = self.z(x, x_len)
            if z is not None:
                outputs["z"] = z
        return outputs

    def _batches(self, lines, *, draws=1):
        """Lines as batches of similar lengths: rows (places in `lines`), was_cut, x, x_len."""
        if not lines:
            return
        if self._x_moses is not None:
            lines = [self._x_moses.forward(line) for line in lines]
        encode = self._function("encode", self.encode, [tf.TensorSpec([None], tf.string)])
        x, x_len, was_cut = (v.numpy() for v in encode(_strings(lines)))
        batch_size = max(1, self.hp.infer_batch_size // draws)
        for rows in length_batches(x_len, batch_size=batch_size):
            time = x_len[rows].max()
            yield rows, was_cut[rows], tf.constant(x[rows, :time]), tf.constant(x_len[rows])

    def _result(self, found, row, *, was_cut):
        """Row `row` of a batch's outputs as a Result."""
        translations = []
        time_x = found["x_len"][row]
        for k, length in enumerate(found["lengths"][row]):
            if length == 0:
                break
            line = found["texts"][row, k].decode("utf-8", errors="replace")
            translation = Translation(
                text=line if self._y_moses is None else self._y_moses.inverse(line),
                score=float(found["scores"][row, k]),
                log_prob=float(found["log_probs"][row, k]),
            )
            if "attention" in found:
                translation.attention = found["attention"][row, k, :length, :time_x]
                translation.target_pieces = _text(found["target_pieces"][row, k, :length])
            translations.append(translation)
        result = Result(translations, was_cut=was_cut)
        if "source_pieces" in found:
            result.source_pieces = _text(found["source_pieces"][row, :time_x])
        if "z" in found:
            result.z = found["z"][row]
        return result

    def _function(self, key, function, signature):
        """One traced function for each way of decoding, whatever the shapes."""
        functions = self._traced.functions
        if key not in functions:
            traced = tf.function(function, input_signature=signature, autograph=False)
            functions[key] = traced.get_concrete_function()
        return functions[key]


_MATRIX = tf.TensorSpec([None, None], tf.int32)
_VECTOR = tf.TensorSpec([None], tf.int32)
_SEEDS = tf.TensorSpec([None], tf.int64)


def _seeds(seed, numbers):
    """A seed for each line: the given one in one half, the line's number in the other."""
    return tf.constant((np.int64(seed) << 32) + numbers, tf.int64)


def _strings(lines):
    # NumPy's own string type would cut zero bytes at the end.
    array = np.empty(len(lines), object)
    array[:] = [line.encode("utf-8", errors="replace") for line in lines]
    return tf.constant(array)


def _text(pieces):
    return [piece.decode("utf-8", errors="replace") for piece in pieces]
