"""What the exported model can be asked: a function from text for each signature.

All go through translator.decision, so what is served is what is translated offline. A row's
answer does not depend on the other rows: whatever is drawn comes from a seed of the row's own.
"""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from aevnmt_tf.translator import Decoding, decision, pooling

DEFAULT = "serving_default"
N_BEST = 5  # unless told otherwise, and where a search finds so many
NUM_SAMPLES = 5
MBR_SAMPLES = 30
SCORE_SAMPLES = 10

# The seed of all that is drawn where the client gives none: that of the first line offline.
FIRST_LINE = 1 << 32
# The score of a translation that is not there; JSON has no infinity.
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

# Without a model of the source, z has a prior that reads it.
CONDITIONAL_SCORES = {
    "elbo": "log_py - kl",
    "log_py": SCORES["log_py"],
    "kl": "KL(q(z|x, y) || p(z|x))",
    "iw_log_py": "importance-weighted bound on log P(y|x)",
}


@dataclasses.dataclass(frozen=True)
class Choices:
    """What is fixed when a model is exported.

    Attributes:
        translate: how serving_default and attention search.
        nbest: how nbest does.
        sample: how sample does.
        mbr: how mbr does.
        score_samples: how many draws of z score makes.
    """

    translate: Decoding
    nbest: Decoding
    sample: Decoding
    mbr: Decoding
    score_samples: int = SCORE_SAMPLES

    @classmethod
    def of(
        cls,
        translator,
        *,
        n_best=None,
        num_samples=NUM_SAMPLES,
        mbr_samples=MBR_SAMPLES,
        score_samples=SCORE_SAMPLES,
        sampling=None,
        **changes,
    ):
        """Return what the translator's settings say.

        Args:
            translator: a translator.Translator.
            n_best: N of nbest; None: 5, or as many as the search finds.
            num_samples: N of sample.
            mbr_samples: how many samples mbr chooses among.
            score_samples: how many draws of z score makes.
            sampling: how sample and mbr draw words, such as temperature, where it is given.
            changes: to how translations are searched, as in Decoding.
        """
        drawn = {
            "z": "sample" if translator.graph.draws_z else "mean",
            "temperature": translator.hp.sampling_temperature or 1.0,
            **(sampling or {}),
        }
        # Utilities of pairs are computed outside of the graph.
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
    """One thing that the model can be asked.

    Attributes:
        doc: what it does, in a sentence.
        inputs: TensorSpecs, each of them [B].
        outputs: what each output is, by name: its shape and a sentence.
        function: tensors of one row or more to a dict of tensors.
    """

    doc: str
    inputs: tuple[tf.TensorSpec, ...]
    outputs: dict[str, tuple[str, str]]
    function: Callable[..., dict[str, tf.Tensor]]

    def traced(self):
        """Return the concrete function that is exported; it takes an empty batch, too."""

        @functools.wraps(self.function)
        def function(*inputs):
            rows = tf.size(inputs[0])
            for spec, value in zip(self.inputs[1:], inputs[1:], strict=True):
                words = f"{self.inputs[0].name} and {spec.name} must have as many rows"
                tf.debugging.assert_equal(tf.size(value), rows, message=words)
            outputs = self.function(*(_clean(_not_empty(value)) for value in inputs))
            return {name: _clean(outputs[name])[:rows] for name in self.outputs}

        # Never jit-compiled: a server does not compile unless its flags allow it.
        traced = tf.function(function, input_signature=self.inputs, autograph=False)
        return traced.get_concrete_function()


def make(translator, choices) -> dict[str, Signature]:
    """Return the signatures that a translator can give, by name.

    Args:
        translator: a translator.Translator.
        choices: Choices.
    """
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
        x, x_len, _ = graph.encode(source)
        found, _ = decision.decide(graph, x, x_len, seeds=_first_line(x_len), decoding=decoding)
        texts, scores = graph.translations(found, x_len)
        return {"translation": texts[:, 0], "score": scores[:, 0]}

    outputs = {
        "translation": ("[B]", "the best translation; empty for an empty source"),
        "score": ("[B]", "log P(y|x, z) / length penalty; 0 for an empty source"),
    }
    return Signature("Translates.", (SOURCE,), outputs, translate)


def _nbest(graph, decoding):
    def nbest(source):
        x, x_len, _ = graph.encode(source)
        found, _ = decision.decide(graph, x, x_len, seeds=_first_line(x_len), decoding=decoding)
        if decoding.search == "sample":  # comes as it was drawn, a text perhaps twice
            texts = graph.y_tokenizer.decode(found.ids)
            found, _ = pooling.best_texts(found, None, texts, n_best=decoding.n_best)
        texts, scores = graph.translations(found, x_len)
        # As offline, an empty source has one translation.
        is_first = tf.range(decoding.n_best) == 0
        is_there = is_first | ((found.lengths > 0) & (x_len > 1)[:, None])  # [B, N]
        texts, scores = tf.where(is_there, texts, ""), tf.where(is_there, scores, LOWEST)
        shape = [None, decoding.n_best]
        return {
            "translations": tf.ensure_shape(texts, shape),
            "scores": tf.ensure_shape(scores, shape),
        }

    count = decoding.n_best
    outputs = {
        "translations": (f"[B, {count}]", "best first, none twice; empty: there are no more"),
        "scores": (f"[B, {count}]", f"theirs; {LOWEST:.8g} where there are no more"),
    }
    return Signature(f"The {count} best translations.", (SOURCE,), outputs, nbest)


def _sample(graph, decoding):
    def sample(source, seed):
        x, x_len, _ = graph.encode(source)
        seeds = _line_seeds(seed)
        found, _ = decision.decide(graph, x, x_len, seeds=seeds, decoding=decoding)
        texts, _ = graph.translations(found, x_len)
        return {"translations": tf.ensure_shape(texts, [None, decoding.n_best])}

    count = decoding.n_best
    outputs = {"translations": (f"[B, {count}]", "in the order in which they were drawn")}
    return Signature(
        f"Draws {count} translations, each with a z of its own; the same seed draws the same.",
        (SOURCE, SEED),
        outputs,
        sample,
    )


def _mbr(graph, decoding):
    def mbr(source, seed):
        x, x_len, _ = graph.encode(source)
        seeds = _line_seeds(seed)
        found, _ = decision.decide(graph, x, x_len, seeds=seeds, decoding=decoding)
        texts, scores = graph.translations(found, x_len)
        return {"translation": texts[:, 0], "score": scores[:, 0]}

    outputs = {
        "translation": ("[B]", "the sample with the highest expected chrF"),
        "score": ("[B]", "its chrF against the samples' average; 0 for an empty source"),
    }
    words = f"Draws {decoding.num_samples} translations and takes the most typical one"
    return Signature(f"{words} (minimum Bayes risk).", (SOURCE, SEED), outputs, mbr)


def _attention(graph, decoding):
    def attention(source):
        x, x_len, _ = graph.encode(source)
        seeds = _first_line(x_len)
        found, _ = decision.decide(
            graph, x, x_len, seeds=seeds, decoding=decoding, with_attention=True
        )
        texts, _ = graph.translations(found, x_len)
        lengths = tf.where(x_len == 1, 0, found.lengths[:, 0])  # [B]
        time = tf.reduce_max(lengths)
        in_x = tf.sequence_mask(x_len, tf.shape(x)[1])  # [B, Tx]
        in_y = tf.sequence_mask(lengths, time)  # [B, Ty]
        weights = found.attention[:, 0, :time]  # type: ignore[index]  # [B, Ty, Tx]
        is_real = in_y[:, :, None] & in_x[:, None]
        return {
            "translation": texts[:, 0],
            "source_pieces": tf.where(in_x, graph.x_tokenizer.pieces(x), ""),
            "target_pieces": tf.where(
                in_y, graph.y_tokenizer.pieces(found.ids[:, 0, :time]), ""
            ),
            "attention": tf.where(is_real, tf.cast(weights, tf.float32), 0.0),
        }

    outputs = {
        "translation": ("[B]", "as serving_default has it"),
        "source_pieces": ("[B, Tx]", "subwords, </s> last; empty strings fill the row"),
        "target_pieces": ("[B, Ty]", "the same for the translation"),
        "attention": ("[B, Ty, Tx]", "how much each target piece looks at each source piece"),
    }
    return Signature("Translates and shows the alignment.", (SOURCE,), outputs, attention)


def _score(graph, samples):
    def score(source, target):
        x, x_len, _ = graph.encode(source)
        y, y_len, _ = graph.encode_target(target)
        batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
        return graph.score_batch(batch, seeds=_first_line(x_len), samples=tf.constant(samples))

    if graph.model.source_lm is None and graph.model.posterior is None:
        docs = {"log_py": "log P(y|x)"}
    elif graph.model.source_lm is None:
        docs = CONDITIONAL_SCORES
    elif graph.model.posterior is None:
        docs = {"elbo": "log_px + log_py", "log_px": "log P(x)", "log_py": "log P(y|x)"}
    else:
        docs = SCORES
    draws = "" if graph.model.posterior is None else f", with {samples} draws of z"
    return Signature(
        f"How probable a pair is, in nats{draws}.",
        (SOURCE, TARGET),
        {name: ("[B]", doc) for name, doc in docs.items()},
        score,
    )


def _embed(graph):
    def embed(source):
        x, x_len, _ = graph.encode(source)
        loc, scale = graph.embed_batch(x, x_len)
        return {"loc": loc, "scale": scale}

    z = graph.hp.z_dim
    outputs = {
        "loc": (f"[B, {z}]", "the mean of z given the source"),
        "scale": (f"[B, {z}]", "its standard deviation; 0 where z is predicted as a point"),
    }
    return Signature("What z is, given the source.", (SOURCE,), outputs, embed)


def _line_seeds(seed):
    """Return the seed of the first line with `translate --seed`."""
    return tf.bitwise.left_shift(tf.cast(seed, tf.int64), tf.constant(32, tf.int64))


def _first_line(x_len):
    return tf.fill(tf.shape(x_len), tf.constant(FIRST_LINE, tf.int64))


def _not_empty(value):
    """Return one row more, of nothing, where there is none."""
    missing = tf.cast(tf.size(value) == 0, tf.int32)
    return tf.concat([value, tf.zeros([missing], value.dtype)], 0)


def _clean(value):
    """Return text that is valid UTF-8 and numbers that JSON has."""
    if value.dtype == tf.string:
        shape = value.shape
        value = tf.strings.unicode_transcode(value, "UTF-8", "UTF-8", errors="replace")
        return tf.ensure_shape(value, shape)
    return tf.maximum(value, LOWEST) if value.dtype == tf.float32 else value
