"""The parts of a plan file; their fields are its keys, with values, default and meaning.

`python -m aevnmt_tf.experiments.plan_keys` prints them as the table of hparams/plans/README.md.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.settings import Setting
from aevnmt_tf.experiments.score_tables import METRICS


@dataclass(frozen=True)
class PlanKey(Setting):
    """A key of a plan: a setting whose lists have no value twice, or a JSON object or list.

    `is_good` checks what the type does not say, and `words` describe the values then.
    """

    words: str = ""
    is_good: Callable[[Any], object] = lambda value: True
    needed: bool = False

    def describe(self) -> str:
        """Return the values allowed, in words."""
        return self.words or super().describe()

    def check(self, value: Any) -> Any:
        """Return the value in the type of this key; ValueError for none of its values."""
        if self.type in (dict, list):
            good = isinstance(value, self.type)
        else:
            value = super().check(value)
            good = not self.many or len(set(value)) == len(value)
        if not good or not self.is_good(value):
            shown = json.dumps(value, ensure_ascii=False)
            shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
            raise ValueError(f"{self.name} must be {self.describe()}, not {shown}.")
        return value


def _key(kind: type, help: str, default: Any = None, **more: Any) -> Any:
    """Return a field that is a key; its name is that of the field."""
    return dataclasses.field(metadata={"key": PlanKey("", kind, default, help, **more)})


def _is_name(value: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.+=-]*", value, re.ASCII))


def _are_tests(value: Mapping[str, Any]) -> bool:
    """Return whether they can be test sets; a name becomes a file, and may have spaces."""
    bad = re.compile(r"^all$|^$|^[-.\s]|[=/,\0]|\s$")
    return bool(value) and not any(map(bad.search, value)) and _all(str, value.values())


def _all(kind: type, items: Iterable[Any]) -> bool:
    """Return whether all items are of a type, and none is empty but objects."""
    return all(isinstance(item, kind) and (item or kind is dict) for item in items)


def _named(value: Mapping[str, Any]) -> bool:
    return all(map(_is_name, value)) and _all(dict, value.values())


_NOTE: Any = {"kind": str, "help": "a sentence"}
_NAME: Any = {"words": "a name of letters, digits and _.+=-", "is_good": _is_name}
_SEED: Any = {"words": "a whole number from 0", "at_least": 0, "below": 2**31}
_SEEDS: Any = {**_SEED, "words": "a list of different whole numbers from 0", "many": True}
_SETTINGS: Any = {"default": {}, "words": 'an object, {"name": value, ...}', "is_good": all}
_METRICS: Any = {"choices": tuple(METRICS), "many": True}
_PARTS: Any = {"words": "a list of objects", "is_good": lambda v: v and _all(dict, v)}


@dataclass(frozen=True)
class PlannedSystem:
    """A system: a settings file, what changes in it, and the seeds of its runs.

    Seeds, grid_seeds and tests are the plan's where the system has none.
    """

    name: str = _key(str, "of its folder", needed=True, **_NAME)
    note: str | None = _key(**_NOTE)
    hparams: Path | None = _key(
        str, "its settings file, relative to the plan; null: the defaults"
    )
    settings: Mapping[str, Any] = _key(
        dict, "what the plan changes for this system", **_SETTINGS
    )
    seeds: tuple[int, ...] = _key(int, "its own seeds", **_SEEDS)
    tests: tuple[str, ...] = _key(
        str, "the test sets that it is evaluated on; null: all", many=True
    )
    labels: Mapping[str, str] = _key(
        dict,
        "what tables call it",
        **{**_SETTINGS, "is_good": lambda value: _all(str, value.values())},
    )
    in_tables: bool = _key(bool, "whether it stands in tables", True)
    grid: Mapping[str, list[Any]] = _key(
        dict,
        "values to try, by setting, in all combinations; `seeds` run with the best on dev",
        {},
        words='a grid, {"setting": [value, ...], ...}',
        is_good=lambda value: value and _all(list, value.values()),
    )
    grid_seeds: tuple[int, ...] = _key(
        int, "seeds that search; the best mean dev BLEU is taken", **_SEEDS
    )
    grid_of: str | None = _key(str, "another system, whose choice is taken over", **_NAME)
    synthetic: str | None = _key(
        str, "a back-translation to train on, too, in the ratio `mono_real_ratio`", **_NAME
    )


@dataclass(frozen=True)
class MonolingualText:
    """Text of one language: all lines of PREFIX.LANG, or so many drawn with a seed."""

    mono: str = _key(str, "the prefix of text in that language", needed=True)
    num_lines: int | None = _key(
        int,
        "how many of its lines of 1 to 50 words to draw at random; null: all lines",
        at_least=1,
    )
    seed: int = _key(int, "draws the lines", 1, **_SEED)


@dataclass(frozen=True, kw_only=True)
class BackTranslation(MonolingualText):
    """A back-translation: text of the target language, translated by a model of the plan."""

    name: str
    note: str | None = _key(**_NOTE)
    mono: str = _key(str, "the prefix of text in the target language", needed=True)
    seed: int = _key(
        int, "which of the model's runs translates; it also draws the lines", 1, **_SEED
    )
    model: str = _key(
        str, "the system that translates, from target to source", needed=True, **_NAME
    )
    search: str = _key(str, "how it translates", "beam", choices=("beam", "greedy"))
    tag: str | None = _key(str, "a word in front of synthetic sources, such as `<bt>`")


@dataclass(frozen=True)
class SharedText:
    """What the truecasers, subword models and vocabularies of all systems are learnt from."""

    note: str | None = _key(**_NOTE)
    hparams: Path | None = _key(
        str, "settings whose `train_prefix` is learnt from, relative to the plan"
    )
    settings: Mapping[str, Any] = _key(dict, "what the plan changes in them", **_SETTINGS)
    mono: Mapping[str, MonolingualText] = _key(
        dict,
        "text to learn from, too, by language: below",
        {},
        words='monolingual text, {"language": {...}, ...}',
        is_good=_named,
    )


@dataclass(frozen=True)
class PlannedTable:
    """A table: which labels make rows and columns, and which scores are in it."""

    caption: str = _key(str, "stands under it", "")
    label: str = _key(str, "for LaTeX", "")
    rows: tuple[str, ...] = _key(
        str, "labels, `system`, `test` or `metric`", ("system",), many=True
    )
    columns: tuple[str, ...] = _key(str, "the same for columns", ("test", "metric"), many=True)
    compare: str | None = _key(str, "the label whose values compete for bold")
    significance: bool = _key(
        bool,
        "whether p-values stand under it: each value of `compare` against the first, by an "
        "exact permutation test over seeds and by paired bootstrap for each seed",
        False,
    )
    systems: tuple[str, ...] = _key(str, "null: all", many=True)
    tests: tuple[str, ...] = _key(str, "null: all", many=True)
    metrics: tuple[str, ...] = _key(str, "null: the plan's", **_METRICS)
    decimals: int = _key(int, "of the numbers", 1, at_least=0, at_most=9)


@dataclass(frozen=True)
class ExperimentPlan:
    """A plan file that has been checked."""

    path: Path
    note: str | None = _key(**_NOTE)
    out_dir: str | None = _key(str, "where tables, plots and logs go; `--out` beats it")
    runs_dir: str | None = _key(
        str, "the runs, which plans may share; `--runs` beats it; null: OUT/runs"
    )
    seeds: tuple[int, ...] = _key(
        int, "one run for each, unless a system says otherwise", (1,), **_SEEDS
    )
    data: Mapping[str, Any] = _key(dict, "settings about data, for all systems", **_SETTINGS)
    settings: Mapping[str, Any] = _key(dict, "settings for all systems", **_SETTINGS)
    metrics: tuple[str, ...] = _key(
        str,
        "`bleu`, `chrf`, `ter`, `meteor`, `beer` of test sets; of `@dev` `bleu`, `chrf`, `kl`, "
        "`elbo`, `iw_log_pxy`, `information`, `active_units` and what the setting `metrics` "
        "adds (`ter`, `bleu_other_z`)",
        ("bleu", "chrf"),
        **_METRICS,
    )
    tests: Mapping[str, str] = _key(
        dict,
        "prefixes by name; `@test` is the system's own `test_prefix`, `@dev` what training "
        "reached on its dev set",
        {"test": "@test"},
        words='test sets, {"name": "prefix", ...}, names without / = and comma, no - in front',
        is_good=_are_tests,
    )
    prepare: SharedText | None = _key(
        dict, "one truecaser, BPE and vocabulary for all systems: below"
    )
    synthetic: Mapping[str, BackTranslation] = _key(
        dict,
        "back-translations by name: below",
        {},
        words='back-translations, {"name": {...}, ...}',
        is_good=_named,
    )
    systems: Mapping[str, PlannedSystem] = _key(
        list, "the systems: below", needed=True, **_PARTS
    )
    tables: tuple[PlannedTable, ...] = _key(list, "the tables: below", [{}], **_PARTS)

    def with_tests(self, names: Collection[str]) -> "ExperimentPlan":
        """Return the plan with these test sets alone, and the tables that have one of them."""
        for name in names:
            must_know(name, self.tests, what="test set", where=f"{self.path}: ")

        def some(found: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in found if name in names)

        tables = [replace(table, tests=some(table.tests)) for table in self.tables]
        systems = self.systems.items()
        return replace(
            self,
            tests={name: prefix for name, prefix in self.tests.items() if name in names},
            systems={name: replace(one, tests=some(one.tests)) for name, one in systems},
            tables=tuple(table for table in tables if table.tests),
        )

    def settings_of(
        self, part: PlannedSystem | SharedText, changes: Mapping[str, Any]
    ) -> hparams.Hparams:
        """Return the settings of a part: its file < data < settings < its own < changes."""
        layers = {**self.data, **self.settings, **part.settings, **changes}
        try:
            return hparams.load(part.hparams, **layers)
        except UserError as error:
            what = f"system {part.name}" if isinstance(part, PlannedSystem) else "prepare"
            raise UserError(f"{self.path}, {what}: {error}") from None


def keys_of(part: type) -> dict[str, PlanKey]:
    """Return the keys of a part of the plan."""
    fields = [field for field in dataclasses.fields(part) if "key" in field.metadata]
    return {field.name: replace(field.metadata["key"], name=field.name) for field in fields}


def checked(
    values: Mapping[str, Any], part: type, *, where: Callable[[str], str]
) -> dict[str, Any]:
    """Return the values of all keys of a part, defaults included.

    A UserError at the first mistake. `where(key)` starts a sentence about a key; null is the
    same as no key at all.
    """
    keys, given = keys_of(part), {}
    for name, value in values.items():
        must_know(name, keys, what="key", where=where(name))
        if value is not None:
            try:
                given[name] = keys[name].check(value)
            except ValueError as error:
                raise UserError(f"{where(name)}{error}") from None
    for name, key in keys.items():
        if key.needed and name not in given:
            raise UserError(f"{where(name)}the key {name} is missing.")
    return {name: given.get(name, key.default) for name, key in keys.items()}


def must_know(name: str, known: Collection[str], *, what: str, where: str) -> None:
    """Raise a UserError with the nearest name where a name is unknown."""
    if name not in known:
        hint = did_you_mean(name, known) or "."
        raise UserError(f"{where}there is no {what} called {name}{hint}")


def table() -> str:
    """Return the keys of all parts as Markdown."""
    parts = {
        "The plan": ExperimentPlan,
        "A system": PlannedSystem,
        "A back-translation": BackTranslation,
        "prepare": SharedText,
        "Monolingual text of prepare": MonolingualText,
        "A table": PlannedTable,
    }
    rows = []
    for title, part in parts.items():
        for key in keys_of(part).values():
            default = "needed" if key.needed else f"`{json.dumps(key.default)}`"
            rows.append((title, f"`{key.name}`", default, key.help))
            title = ""
    return tables.markdown(("part", "key", "default", "what it is"), rows)


if __name__ == "__main__":
    print(table(), end="")
