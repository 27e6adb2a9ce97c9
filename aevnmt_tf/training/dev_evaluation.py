"""The development set during training: bounds, scores and examples."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aevnmt_tf.cli import extras
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import demo_corpus
from aevnmt_tf.data.corpora import names_of, prefixes
from aevnmt_tf.data.corpus_preparation import Prepared
from aevnmt_tf.data.pair_encoding import encode_pairs
from aevnmt_tf.data.pairs import read_pairs
from aevnmt_tf.evaluation import latent_use, metrics
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.model import Aevnmt
from aevnmt_tf.plots import attention_plot
from aevnmt_tf.text import subwords
from aevnmt_tf.training import schedules, train_step
from aevnmt_tf.training.dev_bounds import BoundsFunction
from aevnmt_tf.translator import Decoding, Graph, Translator

SHOWN = 5  # translations, attention images, pairs from the prior
OTHER_Z = "bleu_other_z"  # BLEU of translations made with the z of another sentence
MOST = 2000  # sentences in the projector, and in the estimate of the information


@dataclass
class DevEvaluation:
    """An evaluation on the development set; the names in `values` start with dev_."""

    values: dict[str, Any]
    translations: list[tuple[str, str, str]]  # source, reference, translation
    prior_samples: list[tuple[str, str]] = field(default_factory=list)  # source, target
    attention: list[np.ndarray] = field(default_factory=list)  # [height, width, 3] uint8
    kl_by_dimension: np.ndarray | None = None  # [Z]
    projection: dict[str, Any] | None = None  # vectors and metadata, for plots.projector


def score_names(hp: Hparams) -> tuple[str, ...]:
    """Return the scores of an evaluation: BLEU, chrF and those of the setting `metrics`."""
    names = dict.fromkeys(("bleu", "chrf", *hp.metrics))
    return tuple(name for name in names if name != OTHER_Z)


class DevEvaluator:
    """Evaluates a model on the development set; several sets as one, and BLEU of each set."""

    def __init__(self, prepared: Prepared, *, model: Aevnmt) -> None:
        hp = prepared.hp
        self._hp = hp
        self._prefixes = prefixes(hp.dev_prefix)
        languages = {"src": hp.src, "tgt": hp.tgt}
        x_tokenizer, y_tokenizer = prepared.x_tokenizer, prepared.y_tokenizer
        # What the model reads, and what people read: they differ after the Moses pipeline.
        self._encoded = []
        for prefix in self._prefixes:
            pairs = read_pairs(prefix, **languages)
            tokenizers = {"x_tokenizer": x_tokenizer, "y_tokenizer": y_tokenizer}
            self._encoded.append(encode_pairs(pairs, **tokenizers))
        self._pairs = []
        for prefix in prepared.raw["dev"]:
            pairs = read_pairs(prefix, **languages)
            # Translations have no subwords, so references must not have them either.
            references = subwords.join((y for _, y in pairs), hp.subword_option)
            self._pairs.append([(x, y) for (x, _), y in zip(pairs, references, strict=True)])
        if not any(self._pairs):
            raise UserError(f"the development set {', '.join(self._prefixes)} is empty.")
        self._bounds = BoundsFunction(
            model, samples=hp.iw_samples, seed=hp.random_seed, loss=train_step.objective_of(hp)
        )
        self._translator = Translator(
            Graph(model, x_tokenizer, y_tokenizer, hp),
            x_moses=prepared.x_moses,
            y_moses=prepared.y_moses,
        )
        # Search, never sampling: random translations would make early stopping random.
        self._decoding = Decoding.of(
            hp, search="beam" if hp.beam_width else "greedy", n_best=1, z="mean"
        )

    def __call__(
        self, step: int, interrupted: Callable[[], bool] = lambda: False
    ) -> DevEvaluation | None:
        """Return the DevEvaluation, None if `interrupted()` became true on the way."""
        bounds = self._bounds(
            self._encoded,
            batch_size=self._hp.batch_size,
            kl_weight=schedules.kl_weight(
                step, self._hp.KL_annealing_steps, self._hp.KL_annealing_cycles
            ),
            interrupted=interrupted,
        )
        if bounds is None:
            return None
        translated = self._translate(interrupted)
        if translated is None:
            return None
        values = {f"dev_{name}": value for name, value in bounds.values.items()}
        if bounds.locs is not None and bounds.scales is not None:
            some = _some_of(bounds.locs)
            information = latent_use.mutual_information(bounds.locs[some], bounds.scales[some])
            values["dev_information"] = information
            values["dev_active_units"] = metrics.active_units(bounds.locs)
            values["dev_collapsed"] = information < latent_use.LITTLE
        values.update(self._scores(translated))
        if OTHER_Z in self._hp.metrics and bounds.locs is not None:
            others = self._translate(interrupted, other_z=True)
            if others is None:
                return None
            values[f"dev_{OTHER_Z}"] = self._scores(others)["dev_bleu"]
        pairs = sum(self._pairs, start=[])
        lines = sum(translated, start=[])
        rows = [(*pair, line) for pair, line in zip(pairs, lines, strict=True)]
        model, samples = self._translator.model, []
        attended = [] if model.decoder is None else pairs[:SHOWN]
        if model.source_lm is not None:
            samples = self._translator.sample(SHOWN, seed=self._hp.random_seed)
        return DevEvaluation(
            values=values,
            translations=rows,
            prior_samples=samples,
            attention=self._attention([source for source, _ in attended]),
            kl_by_dimension=bounds.kl_by_dimension,
            projection=self._projection(bounds.locs),
        )

    def _translate(
        self, interrupted: Callable[[], bool], *, other_z: bool = False
    ) -> list[list[str]] | None:
        """Return the translations of each set, None if `interrupted()` became true.

        With `other_z`, each sentence gets the z of another one.
        """
        translated: list[list[str]] = []
        for pairs in self._pairs:
            sources = [source for source, _ in pairs]
            z = None
            if other_z:
                others = latent_use.derangement(len(sources), seed=self._hp.random_seed)
                z = self._translator.embed(sources)[0][others]
            translated.append([])
            for result in self._translator.stream(sources, decoding=self._decoding, z=z):
                if interrupted():
                    return None
                translated[-1].append(result.translations[0].text)
        return translated

    def _scores(self, translated: list[list[str]]) -> dict[str, float]:
        # DEVIATION: the authors' code selects weights by TF-NMT's BLEU of tokenised text; ours
        # by sacreBLEU of detokenised text.
        names = score_names(self._hp)
        references = [[reference for _, reference in pairs] for pairs in self._pairs]
        scores = metrics.score(sum(translated, []), sum(references, []), names=names)
        values = {f"dev_{name}": score.value for name, score in scores.items()}
        if len(self._prefixes) > 1:
            for number, prefix in enumerate(self._prefixes):
                alone = metrics.score(translated[number], references[number], names=("bleu",))
                values[f"dev_bleu_{number}_{Path(prefix).name}"] = alone["bleu"].value
        return values

    def _attention(self, sources: list[str]) -> list[np.ndarray]:
        if not extras.is_installed("matplotlib"):
            warnings.warn(
                "attention images need matplotlib: pip install 'aevnmt_tf[plots]'.",
                stacklevel=2,
            )
            return []
        images = []
        for result in self._translator.stream(sources, decoding=self._decoding, details=True):
            best = result.translations[0]
            if best.target_pieces and result.source_pieces:
                images.append(
                    attention_plot.attention(
                        best.attention, source=result.source_pieces, target=best.target_pieces
                    )
                )
        return images

    def _projection(self, locs: np.ndarray | None) -> dict[str, Any] | None:
        if locs is None:
            return None
        names = names_of(self._prefixes)
        # The projector labels points with the first column.
        columns: dict[str, list[Any]] = {"text": [], "corpus": [], "length": []}
        for number, (name, encoded) in enumerate(zip(names, self._encoded, strict=True)):
            columns["text"] += [source for source, _ in self._pairs[number]]
            columns["corpus"] += [name] * len(encoded)
            columns["length"] += (encoded.x.lengths - 1).tolist()  # </s> is no word
        if registers := self._registers():
            columns["register"] = registers
        some = _some_of(locs)
        metadata = {name: values[some] for name, values in columns.items()}
        return {"vectors": locs[some], "metadata": metadata}

    def _registers(self) -> list[str]:
        """Return the register of each sentence, which only the demo corpus has."""
        found: list[str] = []
        for prefix, pairs in zip(self._prefixes, self._pairs, strict=True):
            path = Path(f"{prefix}.{demo_corpus.REGISTER}")
            lines = path.read_text(encoding="utf-8").split() if path.is_file() else []
            if len(lines) != len(pairs):
                return []
            found += [demo_corpus.REGISTERS.get(line, line) for line in lines]
        return found


def _some_of(locs: np.ndarray) -> slice:
    """Return every n-th sentence, at most MOST of them, so that each corpus has its share."""
    return slice(None, None, -(-len(locs) // MOST))
