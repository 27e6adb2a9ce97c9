"""What is wanted of an evaluation, and what can be wrong with that."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics, translated_sets
from aevnmt_tf.storage import line_streams


@dataclass
class EvaluationRequest:
    """What is wanted.

    Attributes:
        systems: (is a model, name or None, path) for each; a model's path may be several runs
            with commas between them.
        sets: (name or None, prefix) of the test sets.
        src, ref: the files of the one set, in place of `sets`.
        metrics: names.
        options: sacreBLEU's, see metrics.OPTIONS.
        checkpoint, decoding: as in loaded_models.load.
        seed: of whatever is drawn.
        errors: "strict", or "replace" for bytes that are not UTF-8.
        output: where translations are kept: a file for one model and one set, else a folder.
        sentences: where the scores of each sentence go, as TSV.
        plot: where the picture of z goes, as PNG.
        programs: the fields of external_metrics.Programs.
        significance: None, "bootstrap" or "ar".
        resamples: how many; None: sacreBLEU's own numbers.
        latent: whether to look at z, with so many `samples`.
    """

    systems: list[tuple[bool, str | None, str]]
    sets: list[tuple[str | None, str]] = field(default_factory=list)
    src: str | None = None
    ref: str | None = None
    metrics: Sequence[str] = metrics.DEFAULT
    options: dict[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None
    decoding: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    errors: str = "strict"
    output: str | None = None
    sentences: str | None = None
    plot: str | None = None
    programs: dict[str, Any] = field(default_factory=dict)
    significance: str | None = None
    resamples: int | None = None
    latent: bool = False
    samples: int = 10

    def check(self) -> None:
        """Raise a UserError about what can be known before anything is read."""
        has_model = any(is_model for is_model, *_ in self.systems)
        picture = self.plot
        wrong = {
            "give --model RUN or --hyp FILE (see --help).": not self.systems,
            "give either --test or --src and --ref, not both.": (
                self.sets and (self.src or self.ref)
            ),
            "--src has no --ref: give the references.": self.src and not self.ref,
            "--ref has no --src: give the sources that the model translates.": (
                self.ref and has_model and not self.src
            ),
            "--hyp needs --ref FILE or --test PREFIX.": not (
                has_model or self.ref or self.sets
            ),
            "--test without a model needs --language, the ending of its references.": (
                not has_model and self.sets and not self.programs.get("language")
            ),
            "--significance compares systems: give two or more --model or --hyp.": (
                self.significance and len(self.systems) < 2
            ),
            "--latent looks at one --model alone.": (
                self.latent and (len(self.systems) > 1 or not has_model)
            ),
            "--plot draws what --latent finds: give both.": picture and not self.latent,
            f"{picture} is no picture: --plot ends in .png.": (
                picture and not picture.endswith(".png")
            ),
            "evaluate scores one translation of each line: leave --num_translations_per_input "
            "out.": "num_translations_per_input" in self.decoding,
            "--metrics names no metric: give some of bleu, chrf and ter.": not self.metrics,
            "--significance is for sacreBLEU's metrics: add bleu, chrf or ter to --metrics.": (
                self.significance and not set(self.metrics) & set(metrics.NAMES)
            ),
        }
        for sentence, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(sentence)
        idle = [*self.decoding, *(n for n in ("checkpoint", "output") if getattr(self, n))]
        if idle and not has_model:
            raise UserError(f"--{idle[0]} is for --model: --hyp is translated already.")
        metrics.check_names(self.metrics, known=translated_sets.KNOWN)
        inputs = [self.src, self.ref, *(path for *_, path in self.systems)]
        for path in (self.output, self.sentences, self.plot):
            line_streams.refuse_inputs(path, inputs)
        for path in filter(None, (self.sentences, self.plot)):
            check_writable(path)


def check_writable(path: str) -> None:
    """Raise a UserError where a file cannot be written."""
    folder = Path(path).absolute().parent
    is_folder = os.path.isdir(path) or path.endswith("/")
    if is_folder or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise UserError(f"cannot write {path}: it is no file to write to.")
    if not os.path.exists(path) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UserError(f"cannot write {path}: {folder} is no folder to write in.")
