"""From text to text inside the graph, for offline translation and for serving alike.

text -> ids -> z -> encoder -> search -> ids -> text
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf import search, text
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.model import importance

# Streams of random numbers of a seed; those from 0 on belong to the words of a sentence.
Z_STREAM = -2
SCORE_STREAM = -3  # and below: one per sample

# Inputs of traced functions.
IDS = tf.TensorSpec([None, None], tf.int32)  # [B, T]
LENGTHS = tf.TensorSpec([None], tf.int32)  # [B]
SEEDS = tf.TensorSpec([None], tf.int64)  # [B]
STRINGS = tf.TensorSpec([None], tf.string)  # [B]
PAIRS = {"x": IDS, "x_len": LENGTHS, "y": IDS, "y_len": LENGTHS}

Encoded = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
Batch = dict[str, tf.Tensor]  # x [B, Tx], x_len [B], y [B, Ty], y_len [B]


def traced(function: Callable[..., Any], signature: Sequence[search.Nest]) -> Any:
    """Return a function that TensorFlow traces once, when it is first called."""
    return tf.function(function, input_signature=signature, autograph=False)


class Graph(tf.Module):
    """A model with its tokenizers, as TensorFlow operations from text to text."""

    def __init__(
        self,
        model: models.Aevnmt,
        x_tokenizer: text.Tokenizer,
        y_tokenizer: text.Tokenizer,
        hp: Hparams,
    ) -> None:
        super().__init__(name="translator")
        self.model: Any = model  # parts of it may be None
        self.x_tokenizer = x_tokenizer
        self.y_tokenizer = y_tokenizer
        self.hp = hp

    @property
    def members(self) -> "list[Graph]":
        """The graphs of an ensemble; of a single model, the graph itself."""
        return [self]

    def word_table(self) -> search.Nest:
        """Return what each word adds to the sums of the decoder, or None if it has no table."""
        if self.model.decoder is None:
            return None
        return self.model.decoder.word_table(self.model.emb_y)

    def encode(self, source: tf.Tensor) -> Encoded:
        """Return x [B, Tx], x_len [B] and whether the line was cut [B], for strings [B]."""
        return _ids(self.x_tokenizer, source, limit=self.hp.src_max_len_infer)

    def encode_target(self, target: tf.Tensor) -> Encoded:
        """Return y [B, Ty], y_len [B] and whether the line was cut [B], for strings [B]."""
        limit = max(self.hp.src_max_len_infer, self.hp.tgt_max_len_infer or 0)
        return _ids(self.y_tokenizer, target, limit=limit)

    def z(
        self,
        x: tf.Tensor,
        x_len: tf.Tensor,
        *,
        kind: str | None = "mean",
        seeds: tf.Tensor | None = None,
    ) -> search.Nest:
        """Return the z [B, Z] to predict with, or None without a latent variable."""
        q = self.model.predict_z(x, x_len)
        if q is None:
            return None
        if kind == "zero":
            return tf.zeros_like(q.mean())
        return _z(self.model.predictor, q, kind=kind, seeds=seeds)

    def prior_z(
        self,
        seeds: tf.Tensor,
        *,
        kind: str | None,
        x: tf.Tensor | None = None,
        x_len: tf.Tensor | None = None,
    ) -> search.Nest:
        """Return z [B, Z] for seeds [B]: a draw from p(z) or p(z|x) ("sample"), or its mean."""
        p = self.model.prior({} if x is None else {"x": (self.model.emb_x.words(x), x_len)})
        z = _z(self.model.prior, p, kind=kind, seeds=seeds)
        return tf.broadcast_to(z, [tf.size(seeds), self.model.prior.z_size])

    def posterior_z(self, batch: Batch, *, kind: str | None, seeds: tf.Tensor) -> search.Nest:
        """Return z [B, Z]: a draw from q(z|x, y) ("sample"), or its mean."""
        return _z(self.model.posterior, self.model.infer(batch), kind=kind, seeds=seeds)

    @property
    def draws_z(self) -> bool:
        """Whether z has a distribution to draw from, rather than being a point or absent."""
        return self.model.posterior is not None and not self.model.predictor.is_point

    def begin(
        self,
        x: tf.Tensor,
        x_len: tf.Tensor,
        z: search.Nest,
        *,
        width: int,
        words: search.Nest = None,
    ) -> tuple[search.Step, search.Nest, search.Nest]:
        """Return step, memory and initial state of a search for `width` hypotheses.

        A VAE does not translate: it reconstructs x by P(x|z).
        """
        if self.model.decoder is None:
            return self.begin_source(z, x_len, attended=tf.shape(x)[1])
        step = self.model.decoder.search_step(self.model.emb_y, width=width, words=words)
        memory, state = self.model.start(x, x_len, z)
        return step, step.memory(memory), state

    def begin_source(
        self, z: search.Nest, limits: tf.Tensor, *, attended: tf.Tensor | int = 1
    ) -> tuple[search.Step, search.Nest, search.Nest]:
        """Return step, memory and initial state of a search for a source by P(x|z).

        Its attention to `attended` words is 0.
        """
        language_model, emb_x = self.model.source_lm, self.model.emb_x

        def step(memory: search.Nest, states: search.Nest, x: tf.Tensor) -> search.Nest:
            logits, states = language_model.step(states, emb_x(x))
            return logits, states, tf.zeros([tf.size(x), attended])

        return step, (), language_model.begin(z, limits)

    def translations(
        self, hypotheses: search.Hypotheses, x_len: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return texts and scores [B, N]; those of an empty source are "" and 0."""
        texts = self.y_tokenizer.decode(hypotheses.ids)
        is_empty = (x_len == 1)[:, None]
        return tf.where(is_empty, "", texts), tf.where(is_empty, 0.0, hypotheses.scores)

    def embed_batch(self, x: tf.Tensor, x_len: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and scale [B, Z] of z given the source; the scale of a point is 0."""
        q = self.model.predict_z(x, x_len)
        return q.mean(), q.stddev()

    def score_batch(
        self, batch: Batch, seeds: tf.Tensor, samples: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return log-probabilities and bounds [B] of pairs by name, as in Translator.score."""
        model = self.model
        at_mean = model.loss_terms(batch, z=self.z(batch["x"], batch["x_len"]))
        if model.posterior is None:
            if model.source_lm is None:
                return {"log_py": -at_mean.nll_y}
            scores = {"log_px": -at_mean.nll_x, "log_py": -at_mean.nll_y}
            return {"elbo": scores["log_px"] + scores["log_py"], **scores}

        def noise(number: tf.Tensor) -> tf.Tensor:
            return search.normals(seeds, stream=SCORE_STREAM - number, count=model.noise_size)

        draws = importance.sample(model, batch, noise, samples)
        log_px, log_py, kl = (tf.reduce_mean(term, 0) for term in draws.terms[:3])
        log_px, log_py, kl = -log_px, -log_py, tf.reduce_sum(kl, -1)
        iw_log_pxy = importance.importance_weighted(draws.log_w_xy)
        ess = importance.effective_sample_size(draws.log_w_xy)
        if model.source_lm is None:  # the weights are p(y, z|x) / q(z)
            found = {"elbo": log_py - kl, "log_py": log_py, "kl": kl, "iw_log_py": iw_log_pxy}
            return {**found, "ess": ess, "log_py_at_mean": -at_mean.nll_y}
        iw_log_px = importance.importance_weighted(draws.log_w_x)
        if model.decoder is None:
            found = {"elbo": log_px - kl, "log_px": log_px, "kl": kl, "iw_log_px": iw_log_px}
            return {**found, "ess": ess}
        return {
            "elbo": log_px + log_py - kl,
            "log_px": log_px,
            "log_py": log_py,
            "kl": kl,
            "iw_log_pxy": iw_log_pxy,
            "iw_log_px": iw_log_px,
            "iw_log_py": iw_log_pxy - iw_log_px,
            "ess": ess,
            "log_py_at_mean": -at_mean.nll_y,
        }


def _z(part: Any, distribution: Any, *, kind: str | None, seeds: tf.Tensor | None) -> tf.Tensor:
    """Return a draw from a distribution of a part of the model ("sample"), or its mean."""
    if kind != "sample":
        return part.draw(distribution, None)
    epsilon = search.normals(seeds, stream=Z_STREAM, count=part.noise_size)
    return part.draw(distribution, epsilon)


def _ids(tokenizer: text.Tokenizer, lines: tf.Tensor, *, limit: int) -> Encoded:
    ids = tokenizer.encode(lines)
    was_cut = ids.row_lengths() > limit
    ids = text.append_eos(ids[:, :limit])
    return ids.to_tensor(text.EOS), tf.cast(ids.row_lengths(), tf.int32), was_cut
