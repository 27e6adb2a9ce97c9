"""From a source text to a target text: the one decode path.

    text -> ids -> z -> encoder -> search -> ids -> text

The methods encode, search and translations are made of TensorFlow operations alone: translate,
evaluate, the dev BLEU of training and the exported model share them.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from aevnmt_tf import hparams, nets, run_directory, search, text
from aevnmt_tf import model as models
from aevnmt_tf.errors import UserError
from aevnmt_tf.nets import search_step

Z_STREAM = -2  # of a seed's random numbers; those from 0 are the words'
MOST_WORDS = 8192  # source words of a batch: long sentences come in smaller batches
WINDOW = 20  # batches among which sentences are sorted by length


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How to search.

    Attributes:
        search: "beam", "greedy" or "sample".
        beam_width: how many hypotheses are alive in a beam.
        length_penalty_weight: w in score = log P(y|x, z) / ((5 + length) / 6) ** w.
        n_best: how many translations of each sentence.
        z: "mean" of r(z|x), or of q(z|x) where that is how z is predicted; "sample" from it;
            "zero", the prior's mean.
        num_z: with z "sample" how many draws for each sentence, whose translations compete.
            Samples have a z each.
        temperature: of sampling.
        top_k: sample among the k most probable words; 0: all.
        top_p: sample among the fewest words that have this much probability together.
        max_length: the longest translation; None: 2 x the source's length + 10.
        force_length: the length of every translation, for benchmarks; None: free.
    """

    search: str = "beam"
    beam_width: int = 10
    length_penalty_weight: float = 1.0
    n_best: int = 1
    z: str = "mean"
    num_z: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_length: int | None = None
    force_length: int | None = None

    @classmethod
    def of(cls, hp, **changes):
        """What the settings say, with changes."""
        kind = "beam" if hp.beam_width else "greedy"
        values = {
            "search": "sample" if hp.sampling_temperature > 0 else kind,
            "beam_width": hp.beam_width or 1,
            "length_penalty_weight": hp.length_penalty_weight,
            "n_best": hp.num_translations_per_input,
            "temperature": hp.sampling_temperature or 1.0,
            "max_length": hp.tgt_max_len_infer,
        }
        return cls(**{**values, **changes})

    def __post_init__(self):
        for name, choices in (
            ("search", ("beam", "greedy", "sample")),
            ("z", ("mean", "sample", "zero")),
        ):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be {' or '.join(choices)}")
        if self.num_z > 1 and (self.z != "sample" or self.search == "sample"):
            raise UserError("num_z above 1 needs z sample, and beam or greedy search")
        found = {"beam": self.beam_width, "greedy": 1, "sample": self.n_best}[self.search]
        if not 1 <= self.n_best <= found * self.num_z:
            raise UserError(
                f"n_best {self.n_best} is more than {self.search} search finds: give a larger "
                "beam_width, or search sample"
            )

    @property
    def width(self):
        """How many hypotheses a search has alive."""
        if self.search == "sample":
            return self.n_best // self.draws
        return self.beam_width if self.search == "beam" else 1

    @property
    def draws(self):
        """How many times a sentence is searched, with a z of its own each time."""
        if self.z != "sample":
            return 1
        return self.n_best if self.search == "sample" else self.num_z

    def run(self, task, *, seeds):
        """The hypotheses [R, n_best / draws] of a search.Task, in graph."""
        penalty = {"length_penalty_weight": self.length_penalty_weight}
        if self.search == "greedy":
            return search.greedy(task, **penalty)
        if self.search == "beam":
            n_best = min(self.n_best, self.beam_width)
            return search.beam(task, width=self.beam_width, n_best=n_best, **penalty)
        return search.sample(
            task,
            seeds=seeds,
            num_samples=self.width,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            **penalty,
        )

    def limits(self, x_len):
        """How long translations of sources of x_len words may be; </s> counts in both: [B]."""
        if self.force_length is not None:
            return tf.fill(tf.shape(x_len), self.force_length)
        limits = 2 * (x_len - 1) + 10
        if self.max_length is not None:
            limits = tf.fill(tf.shape(x_len), self.max_length)
        return tf.where(x_len == 1, 1, limits)  # nothing to translate

    def pool(self, found):
        """The translations of all draws of z together: [B * draws, n] to [B, n_best]."""
        if self.draws == 1:
            return found
        count = self.draws * found.scores.shape[1]

        def together(values):
            return tf.reshape(values, tf.concat([[-1, count], tf.shape(values)[2:]], 0))

        pooled = search.Hypotheses(*(v if v is None else together(v) for v in found))
        if self.search == "sample":
            return pooled
        best = tf.math.top_k(pooled.scores, self.n_best).indices
        return search.Hypotheses(
            *(v if v is None else tf.gather(v, best, batch_dims=1) for v in pooled)
        )


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


class Translator(tf.Module):
    """A model with its tokenizers.

    Args:
        model: a model.Aevnmt.
        x_tokenizer: the source's text.Tokenizer.
        y_tokenizer: the target's.
        hp: the run's settings.
        x_moses: what turns raw text into what x_tokenizer reads, or None.
        y_moses: what turns what y_tokenizer writes into raw text, or None.
    """

    def __init__(self, model, x_tokenizer, y_tokenizer, hp, *, x_moses=None, y_moses=None):
        super().__init__(name="translator")
        self.model = model
        self.x_tokenizer = x_tokenizer
        self.y_tokenizer = y_tokenizer
        self.hp = hp
        self._x_moses = x_moses
        self._y_moses = y_moses
        self._functions = {}

    # In graph.

    def encode(self, source):
        """Strings [B] -> x [B, Tx], x_len [B], and whether a line was cut [B]."""
        ids = self.x_tokenizer.encode(source)
        was_cut = ids.row_lengths() > self.hp.src_max_len_infer
        ids = text.append_eos(ids[:, : self.hp.src_max_len_infer])
        x_len = tf.cast(ids.row_lengths(), tf.int32)
        return ids.to_tensor(text.EOS), x_len, was_cut

    def z(self, x, x_len, *, kind="mean", seeds=None):
        """What to predict with: z [B, Z], or None without a latent variable."""
        q = self.model.predict_z(x, x_len)
        if q is None:
            return None
        mean = q.mean()
        if kind == "zero":
            return tf.zeros_like(mean)
        if kind == "mean" or isinstance(self.model.prediction, nets.PointNetwork):
            return mean
        epsilon = search.normals(seeds, stream=Z_STREAM, count=mean.shape[1])
        return models.reparameterise(q, epsilon)

    def search(self, x, x_len, *, seeds, decoding, with_attention=False):
        """x [B, Tx], x_len [B], seeds [B] -> search.Hypotheses with K = n_best."""
        draws = decoding.draws
        if draws > 1:
            seeds = tf.reshape(search.split_seeds(seeds, count=draws), [-1])
            x, x_len = (tf.repeat(v, draws, axis=0) for v in (x, x_len))  # [B * draws, ...]
        z = self.z(x, x_len, kind=decoding.z, seeds=seeds)
        step = search_step.make(self.model.decoder, self.model.emb_y, width=decoding.width)
        memory, state = self.model.start(x, x_len, z)
        task = search.Task(
            step,
            step.memory(memory),
            state,
            limits=decoding.limits(x_len),
            min_length=decoding.force_length,
            with_attention=with_attention,
            sos=text.SOS,
            eos=text.EOS,
        )
        return decoding.pool(decoding.run(task, seeds=seeds))

    def embed_batch(self, x, x_len):
        """Location and scale [B, Z] of what z is predicted with; a point has the scale 0."""
        q = self.model.predict_z(x, x_len)
        if isinstance(self.model.prediction, nets.PointNetwork):
            return q.mean(), tf.zeros_like(q.mean())
        return q.distribution.loc, q.distribution.scale

    def translations(self, hypotheses, x_len):
        """Texts and scores [B, N]; an empty source has an empty translation of score 0."""
        texts = self.y_tokenizer.decode(hypotheses.ids)
        is_empty = (x_len == 1)[:, None]
        return tf.where(is_empty, "", texts), tf.where(is_empty, 0.0, hypotheses.scores)

    # In Python.

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
            [_MATRIX, _VECTOR, tf.TensorSpec([None], tf.int64)],
        )
        results = [None] * len(lines)
        for rows, was_cut, x, x_len in self._batches(lines):
            # The run's seed is one half of a line's, the line's number the other.
            seeds = (np.int64(seed) << 32) + start + rows
            found = {k: v.numpy() for k, v in run(x, x_len, tf.constant(seeds)).items()}
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
        order, first = np.argsort(x_len, kind="stable"), 0
        most = max(1, self.hp.infer_batch_size // draws)
        while first < len(order):
            last = first + 1
            while (
                last < min(len(order), first + most)
                and (last + 1 - first) * x_len[order[last]] <= MOST_WORDS
            ):
                last += 1
            rows = order[first:last]
            time = x_len[rows].max()
            yield rows, was_cut[rows], tf.constant(x[rows, :time]), tf.constant(x_len[rows])
            first = last

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
        if key not in self._functions:
            traced = tf.function(function, input_signature=signature, autograph=False)
            self._functions[key] = traced.get_concrete_function()
        return self._functions[key]


_MATRIX = tf.TensorSpec([None, None], tf.int32)
_VECTOR = tf.TensorSpec([None], tf.int32)


def _strings(lines):
    # NumPy's own string type would cut zero bytes at the end.
    array = np.empty(len(lines), object)
    array[:] = [line.encode("utf-8", errors="replace") for line in lines]
    return tf.constant(array)


def _text(pieces):
    return [piece.decode("utf-8", errors="replace") for piece in pieces]


def load(run, *, checkpoint=None, **overrides) -> Translator:
    """The translator of a run's directory.

    Args:
        run: the out_dir of a training run.
        checkpoint: "best", "last" or "average"; None: best where there is one, else last.
        overrides: settings to change, such as beam_width.
    """
    run = Path(run)
    if not (run / run_directory.HPARAMS).is_file():
        raise UserError(
            f"{run} is not a run: it has no {run_directory.HPARAMS}; give the out_dir of a "
            "training run"
        )
    hp = hparams.load(run / run_directory.HPARAMS, **overrides)
    weights = run_directory.find_weights(run, checkpoint=checkpoint)
    folder = run / run_directory.TEXT
    marks = {"sos": hp.sos, "eos": hp.eos}
    x_tokenizer = text.load(folder, hp.src, **marks)
    y_tokenizer = x_tokenizer if hp.share_vocab else text.load(folder, hp.tgt, **marks)
    model = models.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
    run_directory.load_weights(model, weights)
    pipelines = {}
    if hp.text_pipeline == "moses":
        from aevnmt_tf.text import moses  # slow to import, and few need it

        pipelines = {
            "x_moses": moses.load(folder, hp.src),
            "y_moses": moses.load(folder, hp.tgt),
        }
    return Translator(model, x_tokenizer, y_tokenizer, hp, **pipelines)
