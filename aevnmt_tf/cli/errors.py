"""The exception for user errors, and helpers for messages about names."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A user error: commands print its one-line message and exit with code 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint at the most similar known word, or an empty string."""
    # Case is ignored: kl_annealing_steps should find KL_annealing_steps.
    by_lower = {name.lower(): name for name in known}
    near = [name for name in by_lower if word and name.startswith(word.lower())]
    near = near or difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice, or None."""
    listed = list(names)
    return next((name for number, name in enumerate(listed) if name in listed[:number]), None)
