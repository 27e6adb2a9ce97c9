"""Summaries of a corpus: total scores and perplexities, or the share of unknown words.

The `state` of a summary is JSON, so that the summaries of parts can be stored and merged.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

MANY = 0.1  # the share of unknown words above which the text looks like another kind of text
# The tokens over which a perplexity averages.
PER_TOKEN = {
    "elbo": ("source_tokens", "target_tokens"),
    "log_px": ("source_tokens",),
    "log_py": ("target_tokens",),
    "iw_log_pxy": ("source_tokens", "target_tokens"),
    "iw_log_px": ("source_tokens",),
    "iw_log_py": ("target_tokens",),
    "log_py_at_mean": ("target_tokens",),
}
NAMED = 5  # the number of lines that a warning lists


class UnknownWords:
    """The unknown words of translated lines; `form` describes the text that the model takes."""

    def __init__(self, form: str = "") -> None:
        self.state: dict[str, Any] = {"words": 0, "unknown": 0, "form": form}

    def add(self, numbers: Mapping[str, float]) -> None:
        """Add the counts of a line: "words", and "unknown" ones among them."""
        for name, value in numbers.items():
            self.state[name] += value

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the state of another summary."""
        self.add({name: state[name] for name in ("words", "unknown")})
        self.state["form"] = state["form"]

    def lines(self) -> Iterator[str]:
        """Yield a message if there are unknown words."""
        words, unknown = self.state["words"], self.state["unknown"]
        if not unknown:
            return
        counted = f"{unknown} of {words} source words are unknown to the model"
        if unknown > MANY * words:
            counted += f", which takes {self.state['form']}. Is the input such text?"
        yield counted


def low_ess(samples: int) -> float:
    """Return the effective sample size below which a bound rests on a few draws."""
    return min(max(2.0, samples / 100), samples / 2)  # two draws say nothing about it


class CorpusScores:
    """Sums over pairs that are scored with `samples` draws of z."""

    def __init__(self, *, samples: int) -> None:
        self._samples = samples
        # few: the numbers of pairs with a low effective sample size, from 1
        self.state: dict[str, Any] = {"count": 0, "few": [], "sums": {}}

    def add(self, numbers: Mapping[str, float]) -> None:
        """Add the scores and token counts of a pair."""
        few = [1] if numbers.get("ess", math.inf) < low_ess(self._samples) else []
        self.merge({"count": 1, "few": few, "sums": numbers})

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the state of a summary of the pairs that follow."""
        mine = self.state
        mine["few"] += [mine["count"] + number for number in state["few"]]
        mine["count"] += state["count"]
        for name, value in state["sums"].items():
            mine["sums"][name] = mine["sums"].get(name, 0.0) + value

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table of sums, and a warning if there is one."""
        count, sums = self.state["count"], self.state["sums"]
        pairs = "1 pair" if count == 1 else f"{count} pairs"
        source, target = (f"{sums.get(f'{s}_tokens', 0):.0f}" for s in ("source", "target"))
        has_tokens = not count or "target_tokens" in sums  # an export does not count them
        counted = f", {source} source and {target} target subwords (</s> counts)"
        yield pairs + (counted if has_tokens else "")
        if not count:
            return
        yield f"{'':16}{'total':>16}{'a pair':>14}{'perplexity':>14}"
        for name, total in sums.items():
            if name.endswith("_tokens"):
                continue
            shown = "" if name == "ess" else f"{total:.3f}"  # a total ess has no meaning
            mean, perplexity = f"{total / count:.3f}", self._perplexity(name)
            yield f"{name:16}{shown:>16}{mean:>14}{perplexity:>14}".rstrip()
        if warning := self.warning():
            yield warning

    def warning(self) -> str:
        """Return a warning about unreliable importance-weighted bounds, or ""."""
        few = self.state["few"]
        if not few:
            return ""
        named = ", ".join(map(str, few[:NAMED])) + (", ..." if len(few) > NAMED else "")
        return (
            f"{len(few)} of {self.state['count']} pairs have an effective sample size (ess) "
            f"below {low_ess(self._samples):g} (lines {named}): their iw_ bounds rest on a few "
            f"of the {self._samples} draws and are not reliable. Give more --samples."
        )

    def _perplexity(self, name: str) -> str:
        sums, sides = self.state["sums"], PER_TOKEN.get(name, ())
        if not sides or "target_tokens" not in sums:
            return ""
        if "log_px" not in sums:  # vnmt: even the ELBO is about the target only
            sides = ("target_tokens",)
        try:
            return f"{math.exp(-sums[name] / sum(sums[side] for side in sides)):.3f}"
        except OverflowError:
            return "inf"
