"""The scores of a whole corpus: sums, perplexities, and which bounds are not to be trusted."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What a perplexity divides by.
PER_TOKEN = {
    "elbo": ("source_tokens", "target_tokens"),
    "log_px": ("source_tokens",),
    "log_py": ("target_tokens",),
    "iw_log_pxy": ("source_tokens", "target_tokens"),
    "iw_log_px": ("source_tokens",),
    "iw_log_py": ("target_tokens",),
    "log_py_at_mean": ("target_tokens",),
}
NAMED = 5  # lines that a warning names


def low_ess(samples: int) -> float:
    """Return below which effective sample size a bound rests on a few draws of `samples`."""
    return min(max(2.0, samples / 100), samples / 2)  # two draws say nothing about it


class CorpusScores:
    """Sums over pairs.

    Args:
        names: of the scores of a pair.
        samples: how many draws of z each pair has.
    """

    def __init__(self, names: Sequence[str], *, samples: int) -> None:
        self._count = 0
        self._samples = samples
        self._few: list[int] = []  # pairs with a low effective sample size, from 1
        self._sums = dict.fromkeys([*names, "source_tokens", "target_tokens"], 0.0)

    def add(self, row: Mapping[str, float]) -> None:
        """Add one more pair."""
        self._count += 1
        for name, value in row.items():
            self._sums[name] += value
        if row.get("ess", math.inf) < low_ess(self._samples):
            self._few.append(self._count)

    def state(self) -> dict[str, Any]:
        """Return all that `merge` needs, as JSON has it."""
        return {"count": self._count, "few": self._few, "sums": self._sums}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the sums of the pairs that follow."""
        self._few += [self._count + number for number in state["few"]]
        self._count += state["count"]
        for name, value in state["sums"].items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def lines(self) -> Iterator[str]:
        """Return the table of sums and a warning, if there is one, a line at a time."""
        yield from self._table()
        if warning := self.warning():
            yield warning

    def _table(self) -> Iterator[str]:
        pairs = "1 pair" if self._count == 1 else f"{self._count} pairs"
        source, target = (f"{self._sums[f'{s}_tokens']:.0f}" for s in ("source", "target"))
        yield f"{pairs}, {source} source and {target} target subwords (</s> counts)"
        if not self._count:
            return
        yield f"{'':16}{'total':>16}{'a pair':>14}{'perplexity':>14}"
        for name, total in self._sums.items():
            if name.endswith("_tokens"):
                continue
            # A sum of effective sample sizes says nothing.
            shown = "" if name == "ess" else f"{total:.3f}"
            yield (
                f"{name:16}{shown:>16}{total / self._count:14.3f}{self._perplexity(name):>14}"
            ).rstrip()

    def warning(self) -> str:
        """Return what to say about importance-weighted bounds, if anything."""
        if not self._few:
            return ""
        named = ", ".join(map(str, self._few[:NAMED]))
        named += ", ..." if len(self._few) > NAMED else ""
        return (
            f"{len(self._few)} of {self._count} pairs have an effective sample size (ess) "
            f"below {low_ess(self._samples):g} (lines {named}): a few of the {self._samples} "
            "draws decide their iw_ bounds, which are not to be trusted; give more --samples."
        )

    def _perplexity(self, name: str) -> str:
        if name not in PER_TOKEN:
            return ""
        sides = PER_TOKEN[name]
        if "log_px" not in self._sums:  # vnmt: even the ELBO is about the target alone
            sides = ("target_tokens",)
        tokens = sum(self._sums[side] for side in sides)
        try:
            return f"{math.exp(-self._sums[name] / tokens):.3f}"
        except OverflowError:
            return "inf"
