"""The settings of a run: defaults, overridden by a JSON file, overridden by flags."""

import argparse
import functools
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.settings import add_flag
from aevnmt_tf.hparams import settings_files, tf_nmt_names
from aevnmt_tf.hparams.conflicts import Clash, resolve, supersede
from aevnmt_tf.hparams.declarations import DEFAULTS, GROUPS, SETTINGS
from aevnmt_tf.hparams.settings_files import Layer
from aevnmt_tf.storage import atomic_writes


class Hparams:
    """The settings of a run: frozen, read as attributes, equal and hashed by value."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]):
        object.__setattr__(self, "_values", MappingProxyType(dict(values)))

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS)
            raise AttributeError(f"there is no setting called {name}{hint}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"settings are frozen; use replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("settings are frozen")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *SETTINGS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hparams) and dict(self._values) == dict(other._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        items = [f"{k}={v!r}" for k, v in self._values.items() if v != DEFAULTS[k]]
        return f"Hparams({', '.join(items)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Hparams, (dict(self._values),)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings in JSON's types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self._values.items()}

    def replace(self, **overrides: Any) -> "Hparams":
        """Return a copy with some settings changed; the copy is checked like a new one."""
        return _merge([Layer(self.to_dict()), Layer(overrides)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a settings file that `load` can read."""
        atomic_writes.write_json(path, self.to_dict())


def load(path: str | os.PathLike[str] | None = None, **overrides: Any) -> Hparams:
    """Return the settings of a file; `overrides` replace them, and defaults fill the gaps."""
    return _merge([*settings_files.read(path), Layer(overrides)])


def add_flags(
    parser: argparse.ArgumentParser, groups: Iterable[str] | None = None, *, file: bool = True
) -> None:
    """Add --hparams and a flag for each setting of the groups.

    Commands that load a run have no --hparams (`file` is false): its settings are the defaults.
    """
    if file:
        parser.add_argument(
            "--hparams",
            metavar="FILE",
            help="settings file, or the name of one that comes with the package, such as demo",
        )
    wanted = GROUPS if groups is None else {group: GROUPS[group] for group in groups}
    names = []
    for group, settings in wanted.items():
        about = None if file else "By default, as in the run."
        section = parser.add_argument_group(f"settings: {group}", about)
        for setting in settings:
            check = functools.partial(_check_flag, setting.name)
            add_flag(section, setting, check=check, show_default=file)
            names.append(setting.name)
    for old, (new, _) in tf_nmt_names.ALIASES.items():
        if new in names:
            parser.add_argument(f"--{old}", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            names.append(old)
    parser.set_defaults(settings_flags=tuple(names))


def overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that flags have set."""
    return {name: getattr(args, name) for name in args.settings_flags if name in vars(args)}


def from_args(args: argparse.Namespace, *, below: Mapping[str, Any] | None = None) -> Hparams:
    """Return the settings of a command line: its flags, then its --hparams file.

    Values in `below` replace defaults.
    """
    layers = settings_files.read(getattr(args, "hparams", None))
    return _merge([Layer(dict(below or {})), *layers, Layer(overrides(args), _flag)])


def _merge(layers: Iterable[Layer]) -> Hparams:
    given: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        ours = _checked(layer)
        supersede(given, later=ours)
        for name, value in ours.items():
            given[name], places[name] = value, layer.where(name)
    given.pop("num_layers", None)  # both depths already follow it
    try:
        return Hparams(resolve({**DEFAULTS, **given}, given=given))
    except Clash as error:
        place = next((places[name] for name in error.names if name in places), "")
        raise UserError(f"{place}{error}") from None


def _checked(layer: Layer) -> dict[str, Any]:
    ours = tf_nmt_names.translate(layer.values, where=layer.where, defaults=DEFAULTS)
    for name, value in ours.items():
        if name not in SETTINGS:
            known = [*SETTINGS, "base", *tf_nmt_names.ALIASES]
            hint = did_you_mean(name, known) or "; aevnmt train --help lists them all."
            raise UserError(f"{layer.where(name)}there is no setting called {name}{hint}")
        try:
            ours[name] = SETTINGS[name].check(value)
        except ValueError as error:
            raise UserError(f"{layer.where(name)}{error}") from None
    return ours


def _check_flag(name: str, value: Any) -> Any:
    return _checked(Layer({name: value}, _flag))[name]


def _flag(name: str) -> str:
    return f"--{name}: "
