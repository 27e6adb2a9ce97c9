"""What is asked of a probe, and the defaults of the command."""

import dataclasses
import functools
import os

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option

FEATURES = ("mean", "sample", "both")
QUALITY = ("chrf", "meteor")  # scores of single sentences
QUALITY_OF = ("translations", "back_translations")
PICTURES = (".png", ".pdf", ".svg")


_count = functools.partial(option, int, at_most=2**31 - 1)
_text = functools.partial(option, str, None)


@dataclasses.dataclass(frozen=True)
class ProbeRequest:
    """What is asked of a probe; the other fields are the flags of the command.

    Attributes:
        model: the run whose z is probed.
        data: words NAME=PREFIX.
        checkpoint: of the run; None: the one that translate takes.
        labels: files of labels, one for each of data; None: the names are the labels.
    """

    model: str
    data: list[str]
    checkpoint: str | None = None
    labels: list[str] | None = None
    target: str | None = _text(
        "predict a number instead of a label: length (subwords), chrf, meteor, or a file with "
        "one number per line"
    )
    quality_of: str | None = _text(
        "with --target chrf or meteor: score the model's translations of PREFIX.SRC against "
        "PREFIX.TGT (default), or PREFIX.translation.SRC against PREFIX.SRC",
        choices=QUALITY_OF,
    )
    search: str | None = _text(
        "search for the translations (default: that of the run)", choices=("beam", "greedy")
    )
    meteor_jar: str | None = _text("meteor-1.5.jar")
    java: str | None = _text("the java program (default: java)")
    features: str = option(
        str, "both", "the mean of q(z|x), a draw from it, or both", choices=FEATURES
    )
    baseline_model: str | None = _text(
        "cond run whose average encoder state is probed as a baseline"
    )
    held_out: float = option(float, 0.2, "share of the sentences to hold out", above=0, below=1)
    max_lines: int = _count(2000, "sentences per data set, drawn at random; 0: all", at_least=0)
    chains: int = _count(4, "number of HMC chains", at_least=2)
    num_warmup: int = _count(500, "warm-up steps per chain", at_least=1)
    num_draws: int = _count(500, "draws per chain", at_least=10)
    prior_scale: float = option(
        float, 1.0, "standard deviation of the prior of a weight", above=0
    )
    seed: int = _count(1, "random seed", at_least=0)
    plot: str | None = _text("write a plot: .png, .pdf or .svg")
    projector: str | None = _text("folder for the files of TensorBoard's projector")

    def __post_init__(self) -> None:
        check_options(self)
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
