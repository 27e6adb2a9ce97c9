"""What is wanted of an evaluation, and what can be wrong with that."""

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option
from aevnmt_tf.evaluation import metrics, translated_sets
from aevnmt_tf.evaluation.external_metrics import Programs
from aevnmt_tf.storage import line_streams

_path = partial(option, str, None)
_several = partial(option, group="several systems")
_latent = partial(option, group="the latent variable")


@dataclass
class EvaluationRequest:
    """What is wanted; the other fields are the flags of the command.

    Attributes:
        systems: (is a model, name or None, path) for each; a model's path may be several runs
            with commas between them.
        sets: (name or None, prefix) of the test sets; src and ref are files in their place.
        checkpoint, decoding: as in loaded_models.load.
        errors: "strict", or "replace" for bytes that are not UTF-8.
        options: sacreBLEU's, see metrics.OPTIONS.
        programs: of METEOR and BEER.
    """

    systems: list[tuple[bool, str | None, str]]
    sets: list[tuple[str | None, str]] = field(default_factory=list)
    checkpoint: str | None = None
    errors: str = "strict"
    decoding: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    programs: Programs = Programs()
    src: str | None = _path("source text: a file (a language in train), plain or .gz")
    ref: str | None = _path("reference translations: a file, plain or .gz")
    metrics: tuple[str, ...] = option(
        str, metrics.DEFAULT, f"metrics to compute: {', '.join(metrics.NAMES)}", many=True
    )
    output: str | None = _path(
        "store translations: a file for one model and set, else a folder of SYSTEM/SET.txt"
    )
    sentences: str | None = _path("store the scores of each sentence as TSV")
    seed: int = option(int, 1, "random seed", at_least=0, at_most=2**31 - 1)
    significance: str | None = _several(
        str,
        None,
        "significance test of sacreBLEU: paired bootstrap or approximate randomisation",
        choices=("bootstrap", "ar"),
    )
    resamples: int | None = _several(
        int,
        None,
        "resamples of --significance (default: 1000 for bootstrap, 10000 for ar)",
        at_least=1,
        at_most=2**31 - 1,
    )
    language: str | None = _path(
        "target language, for METEOR, multi_bleu and --test without a model (default: that of "
        "the run)"
    )
    latent: bool = _latent(bool, False, "report whether z is in use")
    samples: int | None = _latent(
        int, None, "with --latent: draws of z (default: 10)", at_least=1, at_most=2**31 - 1
    )
    plot: str | None = _latent(str, None, "with --latent: write a plot to FILE.png")

    def __post_init__(self) -> None:
        check_options(self)
        # A path that is given says that its metric is wanted.
        names = [name.lower() for name in self.metrics]
        self.metrics = tuple(dict.fromkeys([*names, *self.programs.names]))

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
                not has_model and self.sets and not self.language
            ),
            "--significance compares systems: give two or more --model or --hyp.": (
                self.significance and len(self.systems) < 2
            ),
            "--latent looks at one --model alone.": (
                self.latent and (len(self.systems) > 1 or not has_model)
            ),
            "--samples is how often --latent draws z: give both.": (
                self.samples and not self.latent
            ),
            "--resamples is for --significance: give both.": (
                self.resamples and not self.significance
            ),
            "--plot draws what --latent finds: give both.": picture and not self.latent,
            f"{picture} is no picture: --plot ends in .png.": (
                picture and not picture.endswith(".png")
            ),
            "evaluate scores one translation of each line: leave --num_translations_per_input "
            "out.": "num_translations_per_input" in self.decoding,
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
