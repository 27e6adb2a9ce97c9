"""The options of a probe and their defaults."""

import dataclasses
import functools
import os
from collections.abc import Iterator

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option

FEATURES = ("mean", "sample", "both")
QUALITY = ("chrf", "meteor")  # sentence-level scores
QUALITY_OF = ("translations", "back_translations")
PICTURES = (".png", ".pdf", ".svg")


_count = functools.partial(option, int, at_most=2**31 - 1)
_text = functools.partial(option, str, None)


@dataclasses.dataclass(frozen=True)
class ProbeRequest:
    """The options of a probe, which are the flags of the command."""

    model: str  # run whose z is probed
    data: list[str]  # NAME=PREFIX
    checkpoint: str | None = None  # None: as in translate
    labels: list[str] | None = None  # one file per data set; None: the names are the labels
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
        for sentence in self._faults():
            raise UserError(sentence)

    def _faults(self) -> Iterator[str]:
        """Yield what is wrong with the options, one sentence each."""
        target, count = self.target or "", len(self.labels or ())
        if self.target and self.labels:
            yield "--labels is for classes and --target for numbers: give only one of them."
        if self.labels and count != len(self.data):
            yield f"{count} --labels do not match {len(self.data)} --data: give one for each."
        if self.target_is_file and len(self.data) > 1:
            yield "--target FILE has the numbers of one data set: give one --data."
        if self.target_is_file and not os.path.isfile(target):
            yield (
                f"--target {target} does not exist: give length, chrf, meteor, or a file with "
                "one number per line."
            )
        if self.plot and not self.plot.endswith(PICTURES):
            yield f"--plot {self.plot} is not an image file: use .png, .pdf or .svg."
        if os.path.isfile(self.projector or ""):
            yield f"--projector {self.projector} is a file: give a folder."
        # An option without effect is an error.
        used = {
            "quality_of": (self.is_quality, "--target chrf or meteor"),
            "search": (self.is_quality and not self.is_back, "--quality_of translations"),
            "meteor_jar": (target == "meteor", "--target meteor"),
            "java": (target == "meteor", "--target meteor"),
        }
        for name, (is_used, what) in used.items():
            if getattr(self, name) is not None and not is_used:
                yield f"--{name} only has an effect with {what}: omit it, or add that."
        for name in ("plot", "projector"):
            folder = os.path.dirname(os.path.abspath(getattr(self, name) or "."))
            if not os.path.isdir(folder):
                yield f"there is no folder {folder} for --{name}."

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
        """Whether back-translations are scored."""
        return self.quality_of == "back_translations"
