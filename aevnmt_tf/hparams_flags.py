"""Settings as flags: one for each, read and shown as its declaration says."""

import argparse
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aevnmt_tf.errors import UserError
from aevnmt_tf.hparams_checks import Setting

Check = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def add(
    parser: argparse.ArgumentParser,
    groups: Mapping[str, Iterable[Setting]],
    *,
    aliases: Mapping[str, tuple[str, Any]],
    check: Check,
) -> tuple[str, ...]:
    """Adds a section for each group and a flag for each setting; returns the flags' names.

    Args:
        parser: where to.
        groups: the settings by group.
        aliases: other names: (the setting's own, what it does to a value). They are not shown.
        check: from given values to good ones, or a UserError.
    """
    names: list[str] = []
    for group, settings in groups.items():
        section = parser.add_argument_group(f"settings: {group}")
        for setting in settings:
            default = "" if setting.nullable else f" (default: {_shown(setting.default)})"
            section.add_argument(
                f"--{setting.name}",
                type=functools.partial(_parse, setting, check),
                default=argparse.SUPPRESS,
                metavar=_metavar(setting),
                help=(setting.help + default).replace("%", "%%"),
                nargs="?" if setting.type is bool else None,
                const=True if setting.type is bool else None,
            )
            names.append(setting.name)
    for old, (new, _) in aliases.items():
        if new in names:
            parser.add_argument(f"--{old}", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            names.append(old)
    return tuple(names)


def _parse(setting: Setting, check: Check, text: str) -> Any:
    try:
        value = setting.read(text)
    except ValueError as error:
        raise UserError(f"--{setting.name}: {error}") from None
    return check({setting.name: value})[setting.name]


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "{" + ",".join(_shown(choice) for choice in setting.choices) + "}"
    one = {int: "N", float: "X", bool: "BOOL", str: "TEXT"}[setting.type]
    return f"{one},..." if setting.many else one


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_shown, value))
    return value if isinstance(value, str) and value else json.dumps(value)
