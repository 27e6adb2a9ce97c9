"""The keys of a plan file: fields of dataclasses, with type, default and help.

`python -m aevnmt_tf.experiments.plan_keys` prints the table of hparams/plans/README.md.
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
    """A key of a plan: a setting, whose lists have no duplicates, or a JSON object or list.

    `is_good` checks more than the type; `words` then describe the valid values.
    """

    words: str = ""
    is_good: Callable[[Any], object] = lambda value: True
    required: bool = False

    def describe(self) -> str:
        """Describe the valid values."""
        return self.words or super().describe()

    def check(self, value: Any) -> Any:
        """Return the value in the type of this key; a ValueError if it is invalid."""
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
    """Declare a field that is a key of the same name."""
    return dataclasses.field(metadata={"key": PlanKey("", kind, default, help, **more)})


def _is_name(value: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.+=-]*", value, re.ASCII))


def _are_tests(value: Mapping[str, Any]) -> bool:
    """Return whether test sets have valid names, which are file names too, and prefixes."""
    bad = re.compile(r"^all$|^$|^[-.\s]|[=/,\0]|\s$")
    return bool(value) and not any(map(bad.search, value)) and _all(str, value.values())


def _all(kind: type, items: Iterable[Any]) -> bool:
    """Return whether all items have a type, and none but objects is empty."""
    return all(isinstance(item, kind) and (item or kind is dict) for item in items)


def _named(value: Mapping[str, Any]) -> bool:
    return all(map(_is_name, value)) and _all(dict, value.values())


_NOTE: Any = {"kind": str, "help": "a description"}
_NAME: Any = {"words": "a name of letters, digits and _.+=-", "is_good": _is_name}
_SEED: Any = {"words": "a whole number from 0", "at_least": 0, "below": 2**31}
_SEEDS: Any = {**_SEED, "words": "a list of different whole numbers from 0", "many": True}
_SETTINGS: Any = {"default": {}, "words": 'an object, {"name": value, ...}', "is_good": all}
_METRICS: Any = {"choices": tuple(METRICS), "many": True}
_PARTS: Any = {"words": "a list of objects", "is_good": lambda v: v and _all(dict, v)}


@dataclass(frozen=True)
class PlannedSystem:
    """A system: a settings file, changes to it, and the seeds of its runs."""

    name: str = _key(str, "name of its folder", required=True, **_NAME)
    note: str | None = _key(**_NOTE)
    hparams: Path | None = _key(str, "settings file, relative to the plan; null: the defaults")
    settings: Mapping[str, Any] = _key(dict, "changes to these settings", **_SETTINGS)
    seeds: tuple[int, ...] = _key(int, "seeds; null: the plan's", **_SEEDS)
    tests: tuple[str, ...] = _key(str, "test sets to evaluate on; null: all", many=True)
    labels: Mapping[str, str] = _key(
        dict,
        "labels for tables",
        **{**_SETTINGS, "is_good": lambda value: _all(str, value.values())},
    )
    in_tables: bool = _key(bool, "whether it appears in tables", True)
    grid: Mapping[str, list[Any]] = _key(
        dict,
        "values by setting, tried in all combinations; `seeds` are run with the best on dev",
        {},
        words='a grid, {"setting": [value, ...], ...}',
        is_good=lambda value: value and _all(list, value.values()),
    )
    grid_seeds: tuple[int, ...] = _key(
        int, "seeds of the search, which maximises mean dev BLEU; null: the first", **_SEEDS
    )
    grid_of: str | None = _key(str, "another system whose grid search it follows", **_NAME)
    synthetic: str | None = _key(
        str, "additional back-translation to train on (see `mono_real_ratio`)", **_NAME
    )


@dataclass(frozen=True)
class MonolingualText:
    """Text of one language: all lines of PREFIX.LANG, or a random sample."""

    mono: str = _key(str, "prefix of the text in that language", required=True)
    num_lines: int | None = _key(
        int, "number of lines of 1 to 50 words to draw at random; null: all lines", at_least=1
    )
    seed: int = _key(int, "seed of the draw", 1, **_SEED)


@dataclass(frozen=True, kw_only=True)
class BackTranslation(MonolingualText):
    """A back-translation of text in the target language, by a model of the plan."""

    name: str
    note: str | None = _key(**_NOTE)
    mono: str = _key(str, "prefix of the text in the target language", required=True)
    seed: int = _key(int, "seed of the model's run, and of the draw", 1, **_SEED)
    model: str = _key(str, "system from target to source", required=True, **_NAME)
    search: str = _key(str, "kind of search", "beam", choices=("beam", "greedy"))
    tag: str | None = _key(str, "tag in front of synthetic sources, such as `<bt>`")


@dataclass(frozen=True)
class SharedText:
    """The text that shared truecasers, subword models and vocabularies are learnt from."""

    note: str | None = _key(**_NOTE)
    hparams: Path | None = _key(
        str, "settings file, relative to the plan; its `train_prefix` is learnt from"
    )
    settings: Mapping[str, Any] = _key(dict, "changes to these settings", **_SETTINGS)
    mono: Mapping[str, MonolingualText] = _key(
        dict,
        "additional text to learn from, by language: below",
        {},
        words='monolingual text, {"language": {...}, ...}',
        is_good=_named,
    )


@dataclass(frozen=True)
class PlannedTable:
    """A table: the labels of its rows and columns, and the scores in it."""

    caption: str = _key(str, "caption", "")
    label: str = _key(str, "label for LaTeX", "")
    rows: tuple[str, ...] = _key(
        str, "labels of systems, `system`, `test` or `metric`", ("system",), many=True
    )
    columns: tuple[str, ...] = _key(str, "the same for columns", ("test", "metric"), many=True)
    compare: str | None = _key(str, "label whose values are compared: the best is bold")
    significance: bool = _key(
        bool,
        "whether to add p-values of each value of `compare` against the first, by an exact "
        "permutation test over seeds and by paired bootstrap per seed",
        False,
    )
    systems: tuple[str, ...] = _key(str, "systems; null: all", many=True)
    tests: tuple[str, ...] = _key(str, "test sets; null: all", many=True)
    metrics: tuple[str, ...] = _key(str, "metrics; null: the plan's", **_METRICS)
    decimals: int = _key(int, "number of decimals", 1, at_least=0, at_most=9)


@dataclass(frozen=True)
class ExperimentPlan:
    """A plan file that has been checked."""

    path: Path
    note: str | None = _key(**_NOTE)
    out_dir: str | None = _key(str, "folder for tables, plots and logs; `--out` overrides it")
    runs_dir: str | None = _key(
        str, "folder of the runs, which plans can share; `--runs` overrides it; null: OUT/runs"
    )
    seeds: tuple[int, ...] = _key(int, "seeds of the runs of each system", (1,), **_SEEDS)
    data: Mapping[str, Any] = _key(dict, "data settings of all systems", **_SETTINGS)
    settings: Mapping[str, Any] = _key(dict, "settings of all systems", **_SETTINGS)
    metrics: tuple[str, ...] = _key(
        str,
        "on test sets `bleu`, `chrf`, `ter`, `meteor`, `beer`; on `@dev` `bleu`, `chrf`, `kl`, "
        "`elbo`, `iw_log_pxy`, `information`, `active_units` and those of the setting "
        "`metrics` (`ter`, `bleu_other_z`)",
        ("bleu", "chrf"),
        **_METRICS,
    )
    tests: Mapping[str, str] = _key(
        dict,
        "prefixes by name; `@test` is the system's own `test_prefix`, `@dev` the best "
        "evaluation on dev during training",
        {"test": "@test"},
        words='test sets, {"name": "prefix", ...}, names without / = , and not starting with -',
        is_good=_are_tests,
    )
    prepare: SharedText | None = _key(
        dict, "truecasers, BPE and vocabularies that all systems share: below"
    )
    synthetic: Mapping[str, BackTranslation] = _key(
        dict,
        "back-translations by name: below",
        {},
        words='back-translations, {"name": {...}, ...}',
        is_good=_named,
    )
    systems: Mapping[str, PlannedSystem] = _key(list, "systems: below", required=True, **_PARTS)
    tables: tuple[PlannedTable, ...] = _key(list, "tables: below", [{}], **_PARTS)

    def with_tests(self, names: Collection[str]) -> "ExperimentPlan":
        """Return the plan with these test sets only, and the tables that have one of them."""
        must_know(names, self.tests, what="test set", where=f"{self.path}: ")

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
        """Return the settings of a part; order: file < data < settings < its own < changes."""
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
    """Return the values of all keys of a part, including defaults, or raise a UserError.

    `where(key)` is the start of an error message about a key. A null value is ignored.
    """
    keys, given = keys_of(part), {}
    for name, value in values.items():
        must_know([name], keys, what="key", where=where(name))
        if value is not None:
            try:
                given[name] = keys[name].check(value)
            except ValueError as error:
                raise UserError(f"{where(name)}{error}") from None
    for name, key in keys.items():
        if key.required and name not in given:
            raise UserError(f"{where(name)}the key {name} is missing.")
    return {name: given.get(name, key.default) for name, key in keys.items()}


def must_know(
    names: Iterable[str] | None, known: Collection[str], *, what: str, where: str
) -> None:
    """Raise a UserError that suggests the nearest name if one of the names is unknown."""
    for name in names or ():
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
            default = "required" if key.required else f"`{json.dumps(key.default)}`"
            rows.append((title, f"`{key.name}`", default, key.help))
            title = ""
    return tables.markdown(("part", "key", "default", "meaning"), rows)


if __name__ == "__main__":
    print(table(), end="")
