"""The keys of a plan file, what their values may be, and one sentence about each mistake."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aevnmt_tf import hparams
from aevnmt_tf.analysis import tables
from aevnmt_tf.errors import UserError
from aevnmt_tf.hparams_checks import did_you_mean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]*")  # it becomes a folder


class Key(NamedTuple):
    """A key: whether a value is good for it, what that is in words, and the default."""

    is_good: Callable[[Any], bool]
    words: str
    default: Any = None


def is_text(value: Any) -> bool:
    """Whether it is text, and not empty."""
    return isinstance(value, str) and bool(value)


def is_name(value: Any) -> bool:
    """Whether it can be the name of a folder."""
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def is_test_name(value: Any) -> bool:
    """Whether it can be the name of a test set, which becomes a file; spaces are fine."""
    return is_text(value) and value != "all" and not re.search(r"^[-.\s]|[=/,\0]|\s$", value)


def is_number(value: Any, *, least: int = 1) -> bool:
    """Whether it is a whole number of at least `least`."""
    return type(value) is int and value >= least


def is_list(value: Any, is_good: Callable[[Any], bool]) -> bool:
    """Whether it is a list of different good values, and not empty."""
    if not isinstance(value, list) or not value or not all(map(is_good, value)):
        return False
    return len(set(value)) == len(value)


def is_object(value: Any, is_good: Callable[[Any], bool] = lambda _: True) -> bool:
    """Whether it is an object whose values are good and whose keys are not empty."""
    return isinstance(value, dict) and all(value) and all(map(is_good, value.values()))


def _is_seed(value: Any) -> bool:
    return is_number(value, least=0) and value < 2**31


def _is_grid(value: Any) -> bool:
    return is_object(value, lambda points: isinstance(points, list) and points) and value


TEXT, NAME = Key(is_text, "text"), Key(is_name, "a name of letters, digits and _.+=-")
TEXTS = Key(lambda v: is_list(v, is_text), "a list of different texts")
NAMES = Key(lambda v: is_list(v, is_name), "a list of different names")
SETTINGS = Key(is_object, 'settings, {"name": value, ...}', {})
SEEDS = Key(lambda v: is_list(v, _is_seed), "a list of different whole numbers from 0")
METRICS = Key(
    lambda v: is_list(v, lambda name: is_text(name) and name in tables.METRICS),
    f"a list of different ones of {', '.join(tables.METRICS)}",
)
OBJECTS = Key(
    lambda v: isinstance(v, list) and v and all(isinstance(item, dict) for item in v),
    "a list of objects",
)

PLAN = {
    "note": TEXT,
    "out_dir": TEXT,
    "runs_dir": TEXT,
    "seeds": SEEDS._replace(default=[1]),
    "data": SETTINGS,
    "settings": SETTINGS,
    "metrics": METRICS._replace(default=["bleu", "chrf"]),
    "tests": Key(
        lambda v: is_object(v, is_text) and v and all(map(is_test_name, v)),
        'test sets, {"name": "prefix", ...}, names without / = and comma, and no - in front',
        {"test": "@test"},
    ),
    "synthetic": Key(
        lambda v: is_object(v, lambda one: isinstance(one, dict)) and all(map(is_name, v)),
        'back-translations, {"name": {...}, ...}',
        {},
    ),
    "systems": OBJECTS,
    "tables": OBJECTS._replace(default=[{}]),
}
SYSTEM = {
    "name": NAME,
    "note": TEXT,
    "hparams": TEXT,
    "settings": SETTINGS,
    "seeds": SEEDS,
    "tests": TEXTS,
    "labels": Key(lambda v: is_object(v, is_text), 'labels, {"name": "text", ...}', {}),
    "in_tables": Key(lambda v: isinstance(v, bool), "true or false", True),
    "grid": Key(_is_grid, 'a grid, {"setting": [value, ...], ...}', {}),
    "grid_seeds": SEEDS,
    "grid_of": NAME,
    "synthetic": NAME,
}
SYNTHETIC = {
    "note": TEXT,
    "model": NAME,
    "seed": Key(_is_seed, "a whole number from 0"),
    "mono": TEXT,
    "num_lines": Key(is_number, "a whole number from 1"),
    "search": Key(lambda v: v in ("beam", "greedy"), '"beam" or "greedy"', "beam"),
    "tag": TEXT,
}
TABLE = {
    "caption": TEXT._replace(default=""),
    "label": TEXT._replace(default=""),
    "rows": TEXTS._replace(default=["system"]),
    "columns": TEXTS._replace(default=["test", "metric"]),
    "compare": TEXT,
    "systems": NAMES,
    "tests": TEXTS,
    "metrics": METRICS,
    "decimals": Key(lambda v: is_number(v, least=0) and v < 10, "a number from 0 to 9", 1),
}


def checked(
    values: Mapping[str, Any],
    keys: Mapping[str, Key],
    *,
    where: Callable[[str], str],
    needed: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of all keys, defaults included; a UserError at the first mistake.

    `where(key)` starts a sentence about a key; null is the same as no key at all.
    """
    for key, value in values.items():
        if key not in keys:
            hint = did_you_mean(key, keys) or f"; there are {', '.join(keys)}"
            raise UserError(f"{where(key)}there is no key called {key}{hint}")
        if value is not None and not keys[key].is_good(value):
            shown = json.dumps(value, ensure_ascii=False)
            shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
            hint = _hint(keys[key], value)
            raise UserError(f"{where(key)}{key} must be {keys[key].words}, not {shown}{hint}")
    for key in needed:
        if values.get(key) is None:
            raise UserError(f"{where(key)}the key {key} is missing")
    given = {key: value for key, value in values.items() if value is not None}
    return {key: given.get(key, known.default) for key, known in keys.items()}


def _hint(key: Key, value: Any) -> str:
    """The nearest metric for one that does not exist."""
    if key.words != METRICS.words or not is_list(value, is_text):
        return ""
    wrong = next((name for name in value if name not in tables.METRICS), "")
    return did_you_mean(wrong, tables.METRICS)


def check_settings(
    values: Mapping[str, Any], *, where: str, groups: Iterable[str] = ()
) -> None:
    """A UserError for a name that is no setting, or none of the groups' where they are given.

    Values are checked when the settings are put together.
    """
    known = [s.name for group in groups for s in hparams.GROUPS[group]] or hparams.SETTINGS
    for name in values:
        if name not in known:
            what = f"{' or '.join(groups)} setting" if groups else "setting"
            hint = did_you_mean(name, known)
            raise UserError(f"{where}there is no {what} called {name}{hint}")
        if name in ("out_dir", "random_seed"):
            instead = {"out_dir": "out_dir of the plan", "random_seed": "seeds"}[name]
            raise UserError(f"{where}{name} is set by the experiment: use {instead}")


def must_know(name, known, sentence) -> None:
    """Raise a UserError with the sentence, and the nearest name, where a name is unknown."""
    if name not in known:
        raise UserError(sentence + did_you_mean(name, known))
