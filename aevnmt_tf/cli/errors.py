"""The one exception that is meant for people, and the hint that many of them end in."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake of the person at the keyboard: one sentence, exit code 2, no traceback."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the half-sentence that offers the nearest known word, or nothing."""
    # Case is ignored: kl_annealing_steps should find KL_annealing_steps.
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
