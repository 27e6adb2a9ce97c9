"""The signatures of the SavedModel: one function from text to tensors each.

They decode with translator.decision, so the server returns what `translate` returns. No row
depends on the rest of its batch, because random numbers come from a seed per row.
"""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from aevnmt_tf.translator import Decoding, decision, pooling

DEFAULT = "serving_default"
N_BEST = 5  # or fewer, if the search finds fewer

# The seed that `translate` uses for its first line: for signatures without an input for it.
FIRST_LINE = 1 << 32
# The score of padding; JSON has no infinity.
LOWEST = tf.float32.min

SOURCE = tf.TensorSpec([None], tf.string, name="source")
TARGET = tf.TensorSpec([None], tf.string, name="target")
SEED = tf.TensorSpec([None], tf.int32, name="seed")

SCORES = {
    "elbo": "log_px + log_py - kl",
    "log_px": "log P(x|z), the mean over the draws of z",
    "log_py": "log P(y|x, z), the mean over the draws of z",
    "kl": "KL(q(z|.) || p(z))",
    "iw_log_pxy": "importance-weighted bound on log P(x, y)",
    "iw_log_px": "importance-weighted bound on log P(x)",
}

# For models without a source language model; the prior of z depends on the source.
CONDITIONAL_SCORES = {
    "elbo": "log_py - kl",
    "log_py": SCORES["log_py"],
    "kl": "KL(q(z|x, y) || p(z|x))",
    "iw_log_py": "importance-weighted bound on log P(y|x)",
}


@dataclasses.dataclass(frozen=True)
class Choices:
    """What is fixed at export: how each signature decodes, and the draws of z of `score`.

    `translate` is for serving_default and attention.
    """

    translate: Decoding
    nbest: Decoding
    sample: Decoding
    mbr: Decoding
    score_samples: int

    @classmethod
    def of(
        cls,
        translator,
        *,
        n_best=None,
        num_samples=5,
        mbr_samples=30,
        score_samples=10,
        sampling=None,
        **changes,
    ):
        """Return the settings of a translator, with changes.

        Args:
            translator: a translator.Translator.
            n_best: translations of nbest; None: 5, or as many as the search finds.
            num_samples: translations of sample.
            mbr_samples: samples that mbr chooses from.
            score_samples: draws of z of score.
            sampling: options of sample and mbr, such as temperature.
            changes: options of serving_default, nbest and attention, as in Decoding.
        """
        drawn = {
            "z": "sample" if translator.graph.draws_z else "mean",
            "temperature": translator.hp.sampling_temperature or 1.0,
            **(sampling or {}),
        }
        # Pairwise utilities are computed outside of the graph.
        choice = {"search": "mbr", "references": "aggregate", "num_samples": mbr_samples}
        if changes.get("search") == "mbr":
            changes = {**changes, **choice, **drawn}
        translate = Decoding.of(translator.hp, **{**changes, "n_best": 1})
        translator.check(translate)
        if n_best is None:
            n_best = min(N_BEST, translate.most or N_BEST)
        drawn["max_length"] = translate.max_length
        return cls(
            translate=translate,
            nbest=dataclasses.replace(translate, n_best=n_best),
            sample=Decoding(search="sample", n_best=num_samples, **drawn),
            mbr=Decoding(**choice, **drawn),
            score_samples=score_samples,
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of the SavedModel.

    Attributes:
        doc: what it does, in one sentence.
        inputs: TensorSpecs, all of shape [B].
        outputs: shape and description of each output, by name.
        function: maps the inputs, at least one row of each, to a dict of outputs.
    """

    doc: str
    inputs: tuple[tf.TensorSpec, ...]
    outputs: dict[str, tuple[str, str]]
    function: Callable[..., dict[str, tf.Tensor]]

    def traced(self):
        """Return the concrete function to export, which also accepts an empty batch."""

        @functools.wraps(self.function)
        def function(*inputs):
            rows = tf.size(inputs[0])
            for spec, value in zip(self.inputs[1:], inputs[1:], strict=True):
                message = (
                    f"{self.inputs[0].name} and {spec.name} must have the same number of rows."
                )
                tf.debugging.assert_equal(tf.size(value), rows, message=message)
            outputs = self.function(*(_clean(_not_empty(value)) for value in inputs))
            return {name: _clean(outputs[name])[:rows] for name in self.outputs}

        # Not jit-compiled: a stock server refuses to run XLA functions.
        traced = tf.function(function, input_signature=self.inputs, autograph=False)
        return traced.get_concrete_function()


def make(translator, choices) -> dict[str, Signature]:
    """Return the signatures that a translator supports, by name."""
    graph = translator.graph
    found = {
        DEFAULT: _translate(graph, choices.translate),
        "nbest": _nbest(graph, choices.nbest),
        "sample": _sample(graph, choices.sample),
        "mbr": _mbr(graph, choices.mbr),
    }
    if all(member.model.decoder.has_attention for member in graph.members):
        found["attention"] = _attention(graph, choices.translate)
    if len(graph.members) == 1:  # no ensemble
        found["score"] = _score(graph, choices.score_samples)
        if graph.model.posterior is not None:
            found["embed"] = _embed(graph)
    return found


def _translate(graph, decoding):
    def translate(source):
        return _best(graph, source, decoding)

    outputs = {
        "translation": ("[B]", "the best translation; empty for an empty source"),
        "score": ("[B]", "log P(y|x, z) / length penalty; 0 for an empty source"),
    }
    return Signature("Translates.", (SOURCE,), outputs, translate)


def _mbr(graph, decoding):
    def mbr(source, seed):
        return _best(graph, source, decoding, seed)

    outputs = {
        "translation": ("[B]", "the sample with the highest expected chrF"),
        "score": ("[B]", "its chrF against the average of the samples; 0 for an empty source"),
    }
    doc = f"Returns the best of {decoding.num_samples} samples by minimum Bayes risk."
    return Signature(doc, (SOURCE, SEED), outputs, mbr)


def _nbest(graph, decoding):
    count = decoding.n_best

    def nbest(source):
        found, _, x_len = _decide(graph, source, decoding)
        if decoding.search == "sample":  # unsorted, and may contain duplicates
            texts = graph.y_tokenizer.decode(found.ids)
            found, _ = pooling.best_texts(found, None, texts, n_best=count)
        texts, scores = graph.translations(found, x_len)
        # An empty source has one translation.
        is_first = tf.range(count) == 0
        is_there = is_first | ((found.lengths > 0) & (x_len > 1)[:, None])  # [B, N]
        texts, scores = tf.where(is_there, texts, ""), tf.where(is_there, scores, LOWEST)
        return {
            "translations": tf.ensure_shape(texts, [None, count]),
            "scores": tf.ensure_shape(scores, [None, count]),
        }

    outputs = {
        "translations": (f"[B, {count}]", "distinct, best first, padded with empty strings"),
        "scores": (f"[B, {count}]", f"their scores, padded with {LOWEST:.8g}"),
    }
    return Signature(f"Returns the {count} best translations.", (SOURCE,), outputs, nbest)


def _sample(graph, decoding):
    count = decoding.n_best

    def sample(source, seed):
        found, _, x_len = _decide(graph, source, decoding, seed)
        texts, _ = graph.translations(found, x_len)
        return {"translations": tf.ensure_shape(texts, [None, count])}

    outputs = {"translations": (f"[B, {count}]", "in the order in which they were drawn")}
    doc = f"Draws {count} translations, each with its own z; reproducible for a fixed seed."
    return Signature(doc, (SOURCE, SEED), outputs, sample)


def _attention(graph, decoding):
    def attention(source):
        found, x, x_len = _decide(graph, source, decoding, with_attention=True)
        texts, _ = graph.translations(found, x_len)
        lengths = tf.where(x_len == 1, 0, found.lengths[:, 0])  # [B]
        time = tf.reduce_max(lengths)
        in_x = tf.sequence_mask(x_len, tf.shape(x)[1])  # [B, Tx]
        in_y = tf.sequence_mask(lengths, time)  # [B, Ty]
        y_pieces = graph.y_tokenizer.pieces(found.ids[:, 0, :time])
        weights = found.attention[:, 0, :time]  # type: ignore[index]  # [B, Ty, Tx]
        is_real = in_y[:, :, None] & in_x[:, None]
        return {
            "translation": texts[:, 0],
            "source_pieces": tf.where(in_x, graph.x_tokenizer.pieces(x), ""),
            "target_pieces": tf.where(in_y, y_pieces, ""),
            "attention": tf.where(is_real, tf.cast(weights, tf.float32), 0.0),
        }

    outputs = {
        "translation": ("[B]", "as in serving_default"),
        "source_pieces": ("[B, Tx]", "subwords, including </s>, padded with empty strings"),
        "target_pieces": ("[B, Ty]", "the same for the translation"),
        "attention": ("[B, Ty, Tx]", "attention weights of each target subword"),
    }
    doc = "Translates and returns the attention weights."
    return Signature(doc, (SOURCE,), outputs, attention)


def _score(graph, samples):
    def score(source, target):
        x, x_len, _ = graph.encode(source)
        y, y_len, _ = graph.encode_target(target)
        batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
        return graph.score_batch(batch, seeds=_seeds(x_len), samples=tf.constant(samples))

    if graph.model.source_lm is None and graph.model.posterior is None:
        docs = {"log_py": "log P(y|x)"}
    elif graph.model.source_lm is None:
        docs = CONDITIONAL_SCORES
    elif graph.model.posterior is None:
        docs = {"elbo": "log_px + log_py", "log_px": "log P(x)", "log_py": "log P(y|x)"}
    else:
        docs = SCORES
    draws = "" if graph.model.posterior is None else f", with {samples} draws of z"
    outputs = {name: ("[B]", doc) for name, doc in docs.items()}
    doc = f"Returns log-probabilities of a sentence pair in nats{draws}."
    return Signature(doc, (SOURCE, TARGET), outputs, score)


def _embed(graph):
    def embed(source):
        x, x_len, _ = graph.encode(source)
        loc, scale = graph.embed_batch(x, x_len)
        return {"loc": loc, "scale": scale}

    z = graph.hp.z_dim
    outputs = {
        "loc": (f"[B, {z}]", "the mean of z given the source"),
        "scale": (f"[B, {z}]", "its standard deviation; 0 if the model predicts a point"),
    }
    return Signature(
        "Returns the distribution of z given the source.", (SOURCE,), outputs, embed
    )


def _best(graph, source, decoding, seed=None):
    """Return the best translation of each row and its score."""
    found, _, x_len = _decide(graph, source, decoding, seed)
    texts, scores = graph.translations(found, x_len)
    return {"translation": texts[:, 0], "score": scores[:, 0]}


def _decide(graph, source, decoding, seed=None, **options):
    """Return the hypotheses of each row, and the ids and lengths of the source."""
    x, x_len, _ = graph.encode(source)
    seeds = _seeds(x_len, seed)
    found, _ = decision.decide(graph, x, x_len, seeds=seeds, decoding=decoding, **options)
    return found, x, x_len


def _seeds(x_len, seed=None):
    """Return the seeds that `translate --seed` uses for its first line."""
    if seed is None:
        return tf.fill(tf.shape(x_len), tf.constant(FIRST_LINE, tf.int64))
    return tf.bitwise.left_shift(tf.cast(seed, tf.int64), tf.constant(32, tf.int64))


def _not_empty(value):
    """Add an empty row if there are no rows."""
    missing = tf.cast(tf.size(value) == 0, tf.int32)
    return tf.concat([value, tf.zeros([missing], value.dtype)], 0)


def _clean(value):
    """Replace invalid UTF-8, and negative infinity, which JSON does not have."""
    if value.dtype == tf.string:
        shape = value.shape
        value = tf.strings.unicode_transcode(value, "UTF-8", "UTF-8", errors="replace")
        return tf.ensure_shape(value, shape)
    return tf.maximum(value, LOWEST) if value.dtype == tf.float32 else value
