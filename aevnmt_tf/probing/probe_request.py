"""What is asked of a probe, and the defaults of the command."""

import dataclasses
import os

from aevnmt_tf.cli.errors import UserError

FEATURES = ("mean", "sample", "both")
QUALITY = ("chrf", "meteor")  # scores of single sentences
QUALITY_OF = ("translations", "back_translations")
PICTURES = (".png", ".pdf", ".svg")


@dataclasses.dataclass(frozen=True)
class ProbeRequest:
    """What is asked of a probe.

    Attributes:
        model: the run whose z is probed.
        data: words NAME=PREFIX.
        checkpoint: of the run; None: the one that translate takes.
        labels: files of labels, one for each of data; None: the names are the labels.
        target: a number to predict in place of a label: length, one of QUALITY, or a file.
        quality_of: what a metric is of, one of QUALITY_OF; None: translations.
        search: how to translate; None: as the run's settings say.
        meteor_jar: of METEOR.
        java: to run it.
        features: one of FEATURES.
        baseline_model: a run whose average encoder state is probed, too.
        held_out: which share of the sentences is held out.
        max_lines: of each set; 0: all.
        prior_scale: standard deviation of a weight before any data are seen.
        chains, num_warmup, num_draws: as in hmc_chains.SamplerOptions.
        seed: of all that is drawn.
        plot: where a picture goes.
        projector: where files for TensorBoard's projector go.
    """

    model: str
    data: list[str]
    checkpoint: str | None = None
    labels: list[str] | None = None
    target: str | None = None
    quality_of: str | None = None
    search: str | None = None
    meteor_jar: str | None = None
    java: str | None = None
    features: str = "both"
    baseline_model: str | None = None
    held_out: float = 0.2
    max_lines: int = 2000
    prior_scale: float = 1.0
    chains: int = 4
    num_warmup: int = 500
    num_draws: int = 500
    seed: int = 1
    plot: str | None = None
    projector: str | None = None

    def __post_init__(self) -> None:
        count = len(self.labels or ())
        plot, projector, target = self.plot or "", self.projector or "", self.target or ""
        wrong = {
            "--labels are of classes and --target of numbers: give one of the two.": (
                self.target and self.labels
            ),
            f"there are {count} --labels for {len(self.data)} --data: give one file of labels "
            "for each, in their order.": self.labels and count != len(self.data),
            "a --target FILE has the numbers of one set: give one --data.": (
                self.target_is_file and len(self.data) > 1
            ),
            f"--target {target} is no file: give length, chrf, meteor, or a file with one "
            "number per line.": self.target_is_file and not os.path.isfile(target),
            f"{plot} is no picture: --plot ends in .png, .pdf or .svg.": (
                self.plot and not plot.endswith(PICTURES)
            ),
            f"{projector} is no folder: give another --projector.": os.path.isfile(projector),
        }
        # What would change nothing is refused.
        is_meteor = target == "meteor"
        used = {
            "quality_of": (self.is_quality, "--target chrf or meteor"),
            "search": (self.is_quality and not self.is_back, "--quality_of translations"),
            "meteor_jar": (is_meteor, "--target meteor"),
            "java": (is_meteor, "--target meteor"),
        }
        for name, (is_used, what) in used.items():
            is_idle = getattr(self, name) is not None and not is_used
            wrong[f"--{name} is for {what}: leave it out, or give that."] = is_idle
        for name in ("plot", "projector"):
            folder = os.path.dirname(os.path.abspath(getattr(self, name) or "."))
            wrong[f"there is no folder {folder} for --{name}."] = not os.path.isdir(folder)
        for sentence, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(sentence)

    @property
    def target_is_file(self) -> bool:
        """Whether the target is a file with one number per line."""
        return self.target not in (None, "length", *QUALITY)

    @property
    def is_quality(self) -> bool:
        """Whether the target is the score of a translation."""
        return self.target in QUALITY

    @property
    def is_back(self) -> bool:
        """Whether the sentences are back-translations, which are scored."""
        return self.quality_of == "back_translations"
