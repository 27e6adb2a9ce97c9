"""Settings: each declares its type, values, default and help once; its flag derives from it."""

import argparse
import dataclasses
import functools
import json
import math
import operator
from collections.abc import Callable
from typing import Any, Literal

from aevnmt_tf.cli.errors import UserError, did_you_mean

# The limits of a number: how they are described and checked.
_LIMITS = {
    "at_least": ("of at least", operator.ge),
    "above": ("above", operator.gt),
    "at_most": ("of at most", operator.le),
    "below": ("below", operator.lt),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    `also` lists values of another type. `many` is True if the value is a list, and "either" if
    it may be a single value or a list. `metavar` stands for the value in the help.
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    also: tuple[Any, ...] = ()
    many: bool | Literal["either"] = False
    group: str = ""
    metavar: str = ""

    @property
    def nullable(self) -> bool:
        """Whether the setting may be null."""
        return self.default is None

    def describe(self) -> str:
        """Return the valid values in words: `a whole number of at least 1`."""
        if self.choices:
            words = " or ".join(map(json.dumps, self.choices))
        elif self.type is bool:
            words = "true or false"
        else:
            words = {int: "whole number", float: "number", str: "text"}[self.type]
            words = f"{words}s" if self.many is True else f"a {words}"
            limits = " and ".join(f"{text} {limit:.12g}" for text, _, limit in self._limits())
            words = f"{words} {limits}".rstrip()
        if self.many:
            words = f"a list of {words}" if self.many is True else f"{words} or a list of them"
        words += "".join(f" or {json.dumps(value)}" for value in self.also)
        return words + (" or null" if self.nullable else "")

    def _limits(self) -> list[tuple[str, Callable[[float, float], bool], float]]:
        given = {name: getattr(self, name) for name in _LIMITS}
        return [(*_LIMITS[name], limit) for name, limit in given.items() if limit is not None]

    def check(self, value: Any) -> Any:
        """Return the value in the type of this setting; raise ValueError if it is invalid."""
        if value is None and self.nullable:
            return None
        if any(type(value) is type(other) and value == other for other in self.also):
            return value
        if self.many and isinstance(value, (list, tuple)) and value:
            return tuple(self._check_one(item) for item in value)
        if self.many is True:
            # TF-NMT also writes lists as text: "bleu,rouge".
            if self.type is not str or not isinstance(value, str) or not value.strip(","):
                raise ValueError(self._complaint(value))
            return tuple(self._check_one(item) for item in _split(value))
        return self._check_one(value)

    def read(self, text: str) -> Any:
        """Return the value that the text of a flag stands for, unchecked."""
        is_null = text.lower() in ("null", "none") and text not in self.choices
        if is_null and (self.nullable or self.type is not str):
            return None
        if self.many and text.lstrip().startswith("["):
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                raise ValueError(self._complaint(text)) from None
        if self.many and (self.many is True or "," in text):
            return [self._from_text(item) for item in _split(text)]
        return self._from_text(text)

    def _from_text(self, text: Any) -> Any:
        if self.type is bool or self.also:
            text = {"true": True, "false": False}.get(text.lower(), text)
        if self.type in (int, float) and isinstance(text, str):
            for number in (int, float):
                try:
                    return number(text)
                except ValueError:
                    pass
        return text

    def _check_one(self, value: Any) -> Any:
        if self.type is str and self.choices and isinstance(value, bool):
            value = json.dumps(value)  # jit_compile: true
        if self.type is float and type(value) is int and abs(value) < 1e300:
            value = float(value)
        if self.type is int and type(value) is float and value.is_integer():
            value = int(value)
        good = type(value) is self.type and (not self.choices or value in self.choices)
        if good and self.type in (int, float):
            is_within = (holds(value, limit) for _, holds, limit in self._limits())
            good = math.isfinite(value) and all(is_within)
        if good and self.type is str and not self.choices:
            good = bool(value)
        if not good:
            raise ValueError(self._complaint(value))
        return value

    def _complaint(self, value: Any) -> str:
        hint = did_you_mean(value, self.choices) if isinstance(value, str) else ""
        shown = json.dumps(value, ensure_ascii=False, default=repr)
        return f"{self.name} must be {self.describe()}, not {shown}{hint or '.'}"


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def add_flag(
    parser: argparse._ActionsContainer,
    setting: Setting,
    *,
    check: Callable[[Any], Any] | None = None,
    show_default: bool = True,
) -> None:
    """Add the flag of a setting; if it is not given, the parsed arguments do not have it.

    `check` replaces the setting's own check.
    """
    has_default = show_default and not setting.nullable
    shown = f" (default: {show(setting.default)})" if has_default else ""
    parser.add_argument(
        f"--{setting.name}",
        type=functools.partial(_parse, setting, check or setting.check),
        default=argparse.SUPPRESS,
        metavar=_metavar(setting),
        help=(setting.help + shown).replace("%", "%%"),
        nargs="?" if setting.type is bool else None,
        const=True if setting.type is bool else None,
    )


def show(value: Any) -> str:
    """Return a value as one would write it in a flag."""
    if isinstance(value, tuple):
        return ",".join(map(show, value))
    return value if isinstance(value, str) and value else json.dumps(value)


def _parse(setting: Setting, check: Callable[[Any], Any], text: str) -> Any:
    try:
        return check(setting.read(text))
    except ValueError as error:
        raise UserError(f"--{setting.name}: {error}") from None


def _metavar(setting: Setting) -> str:
    one = setting.metavar or {int: "N", float: "X", bool: "BOOL", str: "TEXT"}[setting.type]
    if setting.choices:
        one = "{" + ",".join(show(choice) for choice in setting.choices) + "}"
    return f"{one},..." if setting.many else one


def option(type: type, default: Any, help: str, **values: Any) -> Any:
    """Return a dataclass field that declares a setting; `values` are fields of Setting."""
    return dataclasses.field(default=default, metadata={"type": type, "help": help, **values})


def declared(options: type) -> list[Setting]:
    """Return the settings that a dataclass declares with `option`."""
    return [
        Setting(field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(options)
        if field.metadata
    ]


def check_options(options: Any) -> None:
    """Check and convert the values of a dataclass; raise UserError if one is invalid."""
    for setting in declared(type(options)):
        try:
            object.__setattr__(
                options, setting.name, setting.check(getattr(options, setting.name))
            )
        except ValueError as error:
            raise UserError(str(error)) from None


def add_flags(parser: argparse._ActionsContainer, options: type) -> None:
    """Add the flags of all settings that a dataclass declares, group by group."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for setting in declared(options):
        if setting.group not in groups:
            assert isinstance(parser, argparse.ArgumentParser)
            groups[setting.group] = parser.add_argument_group(setting.group)
        add_flag(groups[setting.group], setting)


def given(args: argparse.Namespace, options: type) -> dict[str, Any]:
    """Return the settings of a dataclass that flags have set."""
    names = [setting.name for setting in declared(options)]
    return {name: getattr(args, name) for name in names if hasattr(args, name)}
