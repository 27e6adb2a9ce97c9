"""What an evaluation is asked for, and the checks on that."""

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
    """What an evaluation is asked for; fields with a help text are flags of the command.

    Attributes:
        systems: (whether it is a model, name or None, path) of each system. The path of an
            ensemble has commas between its runs.
        sets: (name or None, prefix) of each test set; `src` and `ref` are the alternative.
        checkpoint: Which weights to load: "best", "last" or "average".
        errors: "strict", or "replace" for invalid UTF-8.
        decoding: Flags for decoding: settings of the run and fields of Decoding.
        options: Options of sacreBLEU, see metrics.OPTIONS.
        programs: The programs of METEOR and BEER.
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
        "write translations: a file for one model and set, otherwise a folder with "
        "SYSTEM/SET.txt"
    )
    sentences: str | None = _path("write the scores of each sentence as TSV")
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
        "target language, for METEOR, multi_bleu, and --test without a model (default: the "
        "run's)"
    )
    latent: bool = _latent(bool, False, "report whether z is in use")
    samples: int | None = _latent(
        int, None, "with --latent: draws of z (default: 10)", at_least=1, at_most=2**31 - 1
    )
    plot: str | None = _latent(str, None, "with --latent: write a plot to FILE.png")

    def __post_init__(self) -> None:
        check_options(self)
        # The path of a program asks for its metric.
        names = [name.lower() for name in self.metrics]
        self.metrics = tuple(dict.fromkeys([*names, *self.programs.names]))

    def check(self) -> None:
        """Raise a UserError for what is wrong with the request, before any file is read."""
        has_model = any(is_model for is_model, *_ in self.systems)
        picture = self.plot
        wrong = {
            "give --model RUN or --hyp FILE (see --help).": not self.systems,
            "give either --test or --src and --ref, not both.": (
                self.sets and (self.src or self.ref)
            ),
            "--src needs --ref, the file of references.": self.src and not self.ref,
            "--ref needs --src, the file that the model translates.": (
                self.ref and has_model and not self.src
            ),
            "--hyp needs --ref FILE or --test PREFIX.": not (
                has_model or self.ref or self.sets
            ),
            "--test without a model needs --language, the ending of the references.": (
                not has_model and self.sets and not self.language
            ),
            "--significance compares systems: give two or more --model or --hyp.": (
                self.significance and len(self.systems) < 2
            ),
            "--latent needs exactly one --model.": (
                self.latent and (len(self.systems) > 1 or not has_model)
            ),
            "--samples needs --latent.": self.samples and not self.latent,
            "--resamples needs --significance.": self.resamples and not self.significance,
            "--plot needs --latent.": picture and not self.latent,
            f"--plot {picture} must end in .png.": picture and not picture.endswith(".png"),
            "--num_translations_per_input has no effect: evaluate scores one translation per "
            "line; leave it out.": "num_translations_per_input" in self.decoding,
            "--significance needs one of sacreBLEU's metrics: add bleu to --metrics.": (
                self.significance and not set(self.metrics) & set(metrics.NAMES)
            ),
        }
        for sentence, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(sentence)
        idle = [*self.decoding, *(n for n in ("checkpoint", "output") if getattr(self, n))]
        if idle and not has_model:
            raise UserError(f"--{idle[0]} has no effect without --model: leave it out.")
        metrics.check_names(self.metrics, known=translated_sets.KNOWN)
        inputs = [self.src, self.ref, *(path for *_, path in self.systems)]
        for path in (self.output, self.sentences, self.plot):
            line_streams.refuse_inputs(path, inputs)
        for path in filter(None, (self.sentences, self.plot)):
            check_writable(path)


def check_writable(path: str) -> None:
    """Raise a UserError if a file cannot be written."""
    folder = Path(path).absolute().parent
    is_folder = os.path.isdir(path) or path.endswith("/")
    if is_folder or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise UserError(f"cannot write {path}: it is a folder or read-only.")
    if not os.path.exists(path) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UserError(f"cannot write {path}: {folder} does not exist or is read-only.")
