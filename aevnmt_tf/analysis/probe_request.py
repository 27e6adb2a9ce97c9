"""What is asked of a probe: which sentences, what to predict of them, from which features."""

import dataclasses
import os

from aevnmt_tf.analysis import features, probe_data, probing, sentence_quality
from aevnmt_tf.analysis.external_metrics import Programs
from aevnmt_tf.errors import UserError
from aevnmt_tf.text import progress
from aevnmt_tf.translator import Decoding


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of a probe.

    Attributes:
        data: words NAME=PREFIX.
        labels: files of labels, one for each of data, or None: the names are the labels.
        target: a number to predict in place of a label: length, a metric of sentence_quality,
            or a file.
        quality_of: what a metric is of: "translations" (None) or "back_translations".
        search: how to translate; None: as the run's settings say.
        meteor_jar: of METEOR.
        java: to run it.
        features: one of features.KINDS.
        held_out: which part of the sentences is held out.
        max_lines: of each set; 0: all.
        seed: of all that is drawn.
    """

    data: list[str]
    labels: list[str] | None = None
    target: str | None = None
    quality_of: str | None = None
    search: str | None = None
    meteor_jar: str | None = None
    java: str | None = None
    features: str = "both"
    held_out: float = 0.2
    max_lines: int = 0
    seed: int = 1

    def __post_init__(self):
        if self.target and self.labels:
            raise UserError(
                "--labels are of classes and --target of numbers: give one of the two"
            )
        if self.labels and len(self.labels) != len(self.data):
            raise UserError(
                f"there are {len(self.labels)} --labels for {len(self.data)} --data: give one "
                "file of labels for each, in their order"
            )
        if self._target_is_file and len(self.data) > 1:
            raise UserError("a --target FILE has the numbers of one set: give one --data")
        if self._target_is_file and not os.path.isfile(self.target):
            raise UserError(
                f"--target {self.target} is no file: give length, chrf, meteor, or a file with "
                "one number a line"
            )

        self._refuse_idle()

    def _refuse_idle(self):
        """Raise a UserError about what would change nothing."""
        wanted = {
            "quality_of": (self._is_quality, "--target chrf or meteor"),
            "search": (self._is_quality and not self._is_back, "--quality_of translations"),
            "meteor_jar": (self.target == "meteor", "--target meteor"),
            "java": (self.target == "meteor", "--target meteor"),
        }
        for name, (is_used, what) in wanted.items():
            if getattr(self, name) is not None and not is_used:
                raise UserError(f"--{name} is for {what}: leave it out, or give that")

    @property
    def _target_is_file(self):
        known = (None, "length", *sentence_quality.METRICS)
        return self.target not in known

    @property
    def _is_quality(self):
        return self.target in sentence_quality.METRICS

    @property
    def _is_back(self):
        return self.quality_of == "back_translations"

    def _programs(self, hp):
        language = hp.src if self._is_back else hp.tgt
        java = self.java or "java"
        return Programs(meteor_jar=self.meteor_jar, java=java, language=language)

    def sentences(self, hp):
        """Read the sentences of a model's source language, as probe_data.Sentences.

        Args:
            hp: the model's settings.
        """
        sets = [probe_data.Set.parse(word) for word in self.data]
        beside = [{} for _ in sets]
        if self.labels:
            beside = [{"label": path} for path in self.labels]
        elif self._target_is_file:
            beside = [{"number": self.target}]
        elif self._is_quality:
            self._programs(hp).check([self.target])
            lang = hp.src if self._is_back else hp.tgt
            beside = [{"reference": f"{one.prefix}.{lang}"} for one in sets]
            if self._is_back:
                sets = [one.back_translated(hp.src) for one in sets]
        options = {"max_lines": self.max_lines, "seed": self.seed}
        return probe_data.read(sets, lang=hp.src, beside=beside, **options)

    def task(self, translator, sentences):
        """What is to be predicted of the sentences, as a probing.Task."""
        split = {"share": self.held_out, "seed": self.seed, "origins": sentences.origins}
        if self.target is None:
            labels = sentences.columns.get("label", sentences.sets)
            return probing.class_task(sentences.texts, labels, **split)
        name = self.target
        if name == "length":
            numbers = features.lengths(translator, sentences.texts)
        elif self._is_quality:
            numbers = self._quality(translator, sentences)
        else:
            name, numbers = os.path.basename(name), sentences.columns["number"]
        return probing.number_task(sentences.texts, numbers, name=name, **split)

    def _quality(self, translator, sentences):
        """The score of each sentence's translation, or of a sentence that is one."""
        texts = sentences.texts
        if not self._is_back:
            changes = {} if self.search is None else {"search": self.search}
            decoding = Decoding.of(translator.hp, **{"n_best": 1, **changes})
            found = translator.stream(texts, decoding=decoding, seed=self.seed)
            found = progress.track(found, "translating", total=len(texts))
            texts = [result.translations[0].text for result in found]
        return sentence_quality.scores(
            self.target,
            texts,
            sentences.columns["reference"],
            programs=self._programs(translator.hp),
        )

    def all_features(self, translator, baseline, sentences):
        """Yield the kinds of features: z, the encoder of a baseline, random numbers.

        Args:
            translator: of a model with z.
            baseline: another translator, or None.
            sentences: probe_data.Sentences.
        """
        texts = sentences.texts
        yield from features.z_features(translator, texts, kind=self.features, seed=self.seed)
        if baseline is not None:
            name = f"encoder average ({baseline.hp.model_type})"
            values = features.encoder_average(baseline, texts)
            yield features.Features(name, values, is_baseline=True)
        size = translator.hp.z_dim
        values = features.random_features(len(texts), size=size, seed=self.seed)
        yield features.Features("random", values, is_baseline=True)
