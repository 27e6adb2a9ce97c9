"""How many words of a text a model does not know: raw text where it takes tokens has many."""

from collections.abc import Iterator, Mapping
from typing import Any

MANY = 0.1  # the share above which a text looks like another kind than the model takes


class UnknownWords:
    """The unknown words of translated lines.

    Args:
        form: what the text should be, in words.
    """

    def __init__(self, form: str = "") -> None:
        self._state: dict[str, Any] = {"words": 0, "unknown": 0, "form": form}

    def add(self, numbers: Mapping[str, float]) -> None:
        """Count the "words" and the "unknown" ones of one more line."""
        for name, value in numbers.items():
            self._state[name] += value

    def state(self) -> dict[str, Any]:
        """Return all that `merge` needs, as JSON has it."""
        return dict(self._state)

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what was counted elsewhere."""
        self.add({name: state[name] for name in ("words", "unknown")})
        self._state["form"] = state["form"]

    def lines(self) -> Iterator[str]:
        """Return what to say about them, if anything."""
        words, unknown = self._state["words"], self._state["unknown"]
        if not unknown:
            return
        counted = f"{unknown} of {words} source words are unknown to the model"
        if unknown > MANY * words:
            counted += f", which takes {self._state['form']}: is this text of that form?"
        yield counted
