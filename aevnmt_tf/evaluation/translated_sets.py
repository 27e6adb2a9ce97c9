"""Systems under evaluation: their translations of the test sets, and their scores.

The result of a system is a dict for JSON with unrounded scores. "all" is the concatenation of
the sets, even if there is only one:

    {"name", "model", "weights", "model_type", "decoding", "seed",
     "sets": {NAME: {"lines", "source", "reference", "translations",
                     "scores": {METRIC: {"score", "signature"}}}},
     "all": {"lines", "scores": {METRIC: {"score", "signature"}}}}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aevnmt_tf.cli.progress import track
from aevnmt_tf.evaluation import external_metrics, metrics
from aevnmt_tf.evaluation.evaluation_sets import ALL, EvaluationSet

KNOWN = (*metrics.NAMES, *external_metrics.NAMES)

Report = Callable[[str], object]
Scores = dict[str, dict[str, Any]]


@dataclass
class System:
    """A system, its translations and their scores.

    Attributes:
        name: Name of the system.
        translations: Translated lines, by set.
        about: Description of the system for the result.
        files: Files of the translations, by set.
        result: The result for JSON; `SystemScoring` fills it in, and what follows.
        statistics: sacreBLEU's statistics, by set and metric.
        sentences: Sentence scores of external programs, by set and metric.
    """

    name: str
    translations: dict[str, list[str]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, dict[str, metrics.Rows]] = field(default_factory=dict)
    sentences: dict[str, dict[str, list[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemScoring:
    """Scores systems with the metrics of these names, see KNOWN."""

    names: Sequence[str]
    protocol: metrics.Protocol
    programs: external_metrics.Programs

    @property
    def sacrebleu_names(self) -> list[str]:
        """The metrics that sacreBLEU computes."""
        return [name for name in self.names if name in metrics.NAMES]

    def check(self) -> None:
        """Raise a UserError if a metric cannot be computed."""
        self.protocol.check(self.sacrebleu_names)
        self.programs.check(self.names)

    def __call__(
        self, system: System, sets: Sequence[EvaluationSet], *, report: Report
    ) -> None:
        """Score a system's translations and store the result in it."""
        described = {
            one.name: {
                "lines": len(one),
                "source": one.source_file,
                "reference": one.reference_file,
                "translations": system.files.get(one.name),
                "scores": self._score(system, one, report=report),
            }
            for one in sets
        }
        together: Any = described[sets[0].name]["scores"]
        if len(sets) > 1:
            # The statistics of all sets are those of the single sets.
            system.translations[ALL] = [t for s in sets for t in system.translations[s.name]]
            system.statistics[ALL] = {
                name: [row for one in sets for row in system.statistics[one.name][name]]
                for name in self.sacrebleu_names
            }
            whole = EvaluationSet(ALL, [line for one in sets for line in one.references])
            together = self._score(system, whole, report=report)
        system.result = {
            "name": system.name,
            **system.about,
            "sets": described,
            "all": {"lines": sum(map(len, sets)), "scores": dict(together)},
        }

    def _score(self, system: System, one: EvaluationSet, *, report: Report) -> Scores:
        """Return the scores of one set, by metric."""
        lines, scores = system.translations[one.name], {}
        counted = system.statistics.setdefault(one.name, {})
        how: dict[str, Any] = {"protocol": self.protocol}
        for name in self.names:
            doing = f"computing {metrics.TITLES[name]} on {one.name}"
            if name in external_metrics.NAMES:
                report(doing)
                found = self.programs.score(name, lines, one.references)
                system.sentences.setdefault(one.name, {})[name] = found.sentences
                value, signature = found.score, found.signature
            else:
                if name not in counted:
                    tracked = track(lines, doing, total=len(lines), report=report)
                    counted[name] = metrics.statistics(
                        tracked, one.references, name=name, **how
                    )
                value, signature = metrics.from_statistics(counted[name], name=name, **how)
            scores[name] = {"score": float(value), "signature": signature}
        return scores
