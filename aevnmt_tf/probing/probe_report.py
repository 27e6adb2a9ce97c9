"""The report of a probe: a table, JSON, a plot, and files for TensorBoard's projector."""

import dataclasses
import math
from typing import Any

import numpy as np

from aevnmt_tf.cli import tables
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.probing.comparison import ProbeResult
from aevnmt_tf.probing.features import Features
from aevnmt_tf.probing.probe_data import ProbeSentences
from aevnmt_tf.probing.probe_request import ProbeRequest
from aevnmt_tf.probing.probe_task import ProbeTask

NOTHING = "-"
# Options that the JSON repeats.
SETTINGS = (
    *("model", "checkpoint", "data", "labels", "quality_of", "baseline_model"),
    *("max_lines", "prior_scale", "chains", "num_warmup", "num_draws", "seed"),
)


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """The results of a probe."""

    request: ProbeRequest
    sentences: ProbeSentences
    task: ProbeTask
    z: Features  # the first kind of features
    origin: str  # the distribution that z comes from
    results: list[ProbeResult]  # one per kind of features, baselines last
    seconds: float

    def show(self) -> None:
        """Print a table."""
        titles = [f">{title}" for title in self.task.titles.values()]
        spread = [">95 %", ">new sentences", ">averaged"]
        headers = ["features", ">dim", titles[0], *spread, *titles[1:]]
        tables.show(
            [*headers, ">R-hat", ">ESS", ">seconds"],
            [_row(result) for result in self.results],
            faint=[n for n, result in enumerate(self.results) if result.is_baseline],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all results for JSON, unrounded; infinite values are null."""
        task, sentences = self.task, self.sentences
        places = np.flatnonzero(task.held_out).tolist()
        return {
            **{name: getattr(self.request, name) for name in SETTINGS},
            "z": self.origin,
            "seconds": self.seconds,
            "target": task.name,
            "classes": task.classes,
            "sentences": len(sentences),
            "empty_lines": sentences.left_out,
            "train": len(task.train),
            "held_out": len(places),
            "counts": task.counts(),
            "results": [_result(result, task) for result in self.results],
            "warnings": [warning for result in self.results for warning in result.warnings],
            "held_out_sentences": {
                "set": [sentences.sets[place] for place in places],
                "line": [sentences.lines[place] for place in places],
                "target": task.named(task.test),
            },
        }

    def write(self) -> None:
        """Write the plot and the projector's files, if requested."""
        if self.request.plot:
            from aevnmt_tf.plots import figures, probe_plot

            figures.save(probe_plot.draw(self.results, self.task), self.request.plot)
        if self.request.projector:
            self._write_projector(self.request.projector)

    def _write_projector(self, folder: str) -> None:
        """Write the vectors and metadata of all sentences."""
        from aevnmt_tf.plots import projector

        metadata = {
            self.task.name: self.task.named(self.task.values),
            "set": self.sentences.sets,
            "line": self.sentences.lines,
            "part": ["held out" if out else "train" for out in self.task.held_out],
            "text": self.sentences.texts,
        }
        name = self.z.name.replace(" ", "_")
        try:
            projector.write(folder, vectors=self.z.values, metadata=metadata, name=name)
        except OSError as error:
            raise UserError(f"cannot write {folder}: {error.strerror}.") from None


def _row(result: ProbeResult) -> list[str]:
    """Return the cells of a result: the main measure in full, others averaged over draws."""
    measure, *others = result.measures.values()
    interval = averaged = r_hat = ess = seconds = NOTHING
    if result.posterior is not None:
        interval, averaged = _range(measure.low, measure.high), _number(measure.averaged)
        r_hat = f"{result.posterior.diagnostics.r_hat:.3f}"
        ess = f"{result.posterior.diagnostics.ess:.0f}"
        seconds = f"{result.posterior.draws.seconds:.1f}"
    size = NOTHING if result.dimensions is None else str(result.dimensions)
    new = _range(measure.new_low, measure.new_high)
    more = [_number(other.averaged) for other in others]
    return [
        *(result.name, size, _number(measure.mean), interval, new, averaged),
        *(*more, r_hat, ess, seconds),
    ]


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _range(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"{_number(low)} to {_number(high)}"


def _result(result: ProbeResult, task: ProbeTask) -> dict[str, Any]:
    found: dict[str, Any] = {
        "features": result.name,
        "dimensions": result.dimensions,
        "baseline": result.is_baseline,
        **{name: dataclasses.asdict(measure) for name, measure in result.measures.items()},
    }
    if task.classes is None:
        names = ("predicted", "predicted_low", "predicted_high")
        found |= dict(zip(names, result.predictions.tolist(), strict=True))
    else:
        chosen = result.predictions.argmax(axis=1)
        # Rows are true classes, columns predicted ones.
        confusion = np.zeros([len(task.classes)] * 2, int)
        np.add.at(confusion, (task.test, chosen), 1)
        found["confusion"] = confusion.tolist()
        found["predicted"] = task.named(chosen)
        found["probability"] = result.predictions.tolist()
    if result.posterior is not None:
        (r_hat, ess), draws = result.posterior.diagnostics, result.posterior.draws._asdict()
        del draws["values"]
        found |= {"r_hat": r_hat if math.isfinite(r_hat) else None, "ess": ess, **draws}
    return found
