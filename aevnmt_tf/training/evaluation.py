"""The development set during training: bounds, scores and examples."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aevnmt_tf import data
from aevnmt_tf.analysis import metrics, plots
from aevnmt_tf.data.corpora import names_of, prefixes
from aevnmt_tf.errors import UserError
from aevnmt_tf.training.bounds import BoundsFunction
from aevnmt_tf.translator import Decoding, Translator

SHOWN = 5  # translations, attention images, pairs from the prior
PROJECTED = 2000  # the most sentences in the projector


@dataclass
class Evaluation:
    """An evaluation on the development set; the names in `values` start with dev_."""

    values: dict
    bleu: float
    translations: list = field(default_factory=list)  # (source, reference, translation)
    prior_samples: list = field(default_factory=list)  # (source, target)
    attention: list = field(default_factory=list)  # [height, width, 3] uint8
    kl_by_dimension: np.ndarray | None = None  # [Z]
    projection: dict | None = None  # vectors and metadata, as analysis.projector takes them


def score_names(hp):
    """Return the scores of an evaluation: BLEU, chrF and what the setting `metrics` adds."""
    return tuple(dict.fromkeys(("bleu", "chrf", *hp.metrics)))


class Evaluator:
    """Evaluates a model on the development set; several sets count as one, and each alone.

    Args:
        prepared: a data.prepare.Prepared, whose settings name the development set.
        model: the model in training.
    """

    def __init__(self, prepared, *, model):
        hp = prepared.hp
        self._hp = hp
        self._prefixes = prefixes(hp.dev_prefix)
        languages = {"src": hp.src, "tgt": hp.tgt}
        tokenizers = {
            "x_tokenizer": prepared.x_tokenizer,
            "y_tokenizer": prepared.y_tokenizer,
        }
        # What the model reads, and what people read: they differ after the Moses pipeline.
        read = [data.read_pairs(prefix, **languages) for prefix in self._prefixes]
        self._encoded = [data.encode_pairs(pairs, **tokenizers)[0] for pairs in read]
        raw = [data.read_pairs(prefix, **languages) for prefix in prepared.raw["dev"]]
        self._pairs = [list(pairs) for pairs in raw]
        if not any(self._pairs):
            raise UserError(f"the development set {', '.join(self._prefixes)} is empty")
        self._bounds = BoundsFunction(model, samples=hp.iw_samples, seed=hp.random_seed)
        self._translator = Translator(
            model,
            *tokenizers.values(),
            hp,
            x_moses=prepared.x_moses,
            y_moses=prepared.y_moses,
        )
        # The best translation, found by search: a random one would make checks a lottery.
        self._decoding = Decoding.of(
            hp, search="beam" if hp.beam_width else "greedy", n_best=1, z="mean"
        )

    def __call__(self, step, interrupted=lambda: False):
        """Return the Evaluation, None where `interrupted()` became true on the way."""
        bounds = self._bounds(
            self._encoded, batch_size=self._hp.batch_size, interrupted=interrupted
        )
        translated = None if bounds is None else self._translate(interrupted)
        if translated is None:
            return None
        values = {f"dev_{name}": value for name, value in bounds.values.items()}
        if bounds.locs is not None:
            values["dev_active_units"] = metrics.active_units(bounds.locs)
        values.update(self._scores(translated))
        pairs = sum(self._pairs, start=[])
        lines = sum(translated, start=[])
        return Evaluation(
            values=values,
            bleu=values["dev_bleu"],
            translations=[
                (source, reference, line)
                for (source, reference), line in zip(pairs[:SHOWN], lines, strict=False)
            ],
            prior_samples=self._prior_samples(),
            attention=self._attention([source for source, _ in pairs[:SHOWN]]),
            kl_by_dimension=bounds.kl_by_dimension,
            projection=self._projection(bounds.locs),
        )

    def _translate(self, interrupted):
        """The translations of each set, None where `interrupted()` became true."""
        translated = []
        for pairs in self._pairs:
            sources = (source for source, _ in pairs)
            translated.append([])
            for result in self._translator.stream(sources, decoding=self._decoding):
                if interrupted():
                    return None
                translated[-1].append(result.translations[0].text)
        return translated

    def _scores(self, translated):
        names = score_names(self._hp)
        references = [[reference for _, reference in pairs] for pairs in self._pairs]
        scores = metrics.score(sum(translated, []), sum(references, []), names=names)
        values = {f"dev_{name}": score.value for name, score in scores.items()}
        if len(self._prefixes) > 1:
            for number, prefix in enumerate(self._prefixes):
                alone = metrics.score(translated[number], references[number], names=("bleu",))
                values[f"dev_bleu_{number}_{Path(prefix).name}"] = alone["bleu"].value
        return values

    def _prior_samples(self):
        if self._translator.model.source_lm is None:
            return []
        return self._translator.sample(SHOWN, seed=self._hp.random_seed)

    def _attention(self, sources):
        images = []
        for result in self._translator.stream(sources, decoding=self._decoding, details=True):
            best = result.translations[0]
            if best.target_pieces:
                images.append(
                    plots.attention(
                        best.attention, source=result.source_pieces, target=best.target_pieces
                    )
                )
        return images

    def _projection(self, locs):
        if locs is None:
            return None
        names = names_of(self._prefixes)
        columns = {"corpus": [], "length": [], "text": []}
        for number, (name, encoded) in enumerate(zip(names, self._encoded, strict=True)):
            columns["corpus"] += [name] * len(encoded)
            columns["length"] += (encoded.x.lengths - 1).tolist()  # </s> is no word
            columns["text"] += [source for source, _ in self._pairs[number]]
        # Every n-th sentence, so that each corpus has its share.
        stride = slice(None, None, -(-len(locs) // PROJECTED))
        metadata = {name: values[stride] for name, values in columns.items()}
        return {"vectors": locs[stride], "metadata": metadata}
