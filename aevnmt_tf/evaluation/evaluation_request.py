"""The options of an evaluation, and their checks."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option
from aevnmt_tf.evaluation import external_metrics, metrics
from aevnmt_tf.evaluation.external_metrics import Programs

_file = partial(option, str, None, metavar="FILE")
_number = partial(option, int, at_most=2**31 - 1)
_SEVERAL, _LATENT = "several systems", "the latent variable"  # groups of flags


@dataclass
class EvaluationRequest:
    """The options of an evaluation; fields with a help text are flags of the command.

    Attributes:
        systems: (is it a model?, name or None, path) of each system. The path of an ensemble
            has commas between its runs.
        sets: (name or None, prefix) of each test set; `src` and `ref` are the alternative.
        checkpoint: Weights to load: "best", "last" or "average".
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
    src: str | None = _file("source text, plain or .gz (not a language, as in train)")
    ref: str | None = _file("reference translations, plain or .gz")
    metrics: tuple[str, ...] = option(
        str,
        metrics.DEFAULT,
        f"metrics to compute: {', '.join(external_metrics.KNOWN)}",
        many=True,
    )
    output: str | None = _file(
        "write the translations to this file; with several models or test sets, to "
        "SYSTEM/SET.txt in this folder"
    )
    sentences: str | None = _file("write the scores of every sentence to this TSV file")
    seed: int = _number(1, "random seed", at_least=0)
    significance: str | None = option(
        str,
        None,
        "paired significance test: bootstrap resampling or approximate randomisation",
        choices=("bootstrap", "ar"),
        group=_SEVERAL,
    )
    resamples: int | None = _number(
        None,
        "number of resamples (default: 1000 for bootstrap, 10000 for ar)",
        at_least=1,
        group=_SEVERAL,
    )
    language: str | None = option(
        str,
        None,
        "target language, for meteor, multi_bleu, and --test without a model (default: that "
        "of the run)",
        metavar="LANG",
    )
    latent: bool = option(bool, False, "report whether the model uses z", group=_LATENT)
    samples: int | None = _number(
        None, "with --latent: samples of z per line (default: 10)", at_least=1, group=_LATENT
    )
    plot: str | None = _file("with --latent: write a plot to this .png file", group=_LATENT)

    def __post_init__(self) -> None:
        check_options(self)
        # The path of a program implies its metric.
        names = [name.lower() for name in self.metrics]
        self.metrics = tuple(dict.fromkeys([*names, *self.programs.names]))

    def check(self) -> None:
        """Raise a UserError if the options are inconsistent; no file is read."""
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
        metrics.check_names(self.metrics, known=external_metrics.KNOWN)
