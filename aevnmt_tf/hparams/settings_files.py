"""Settings as files: JSON with a `base`, and the page hparams/README.md."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.settings import Setting
from aevnmt_tf.cli.tables import markdown
from aevnmt_tf.hparams import tf_nmt_names

# Settings files that come with the package: inside of it in a wheel, beside it in a checkout.
_PLACES = (Path(__file__).parents[1] / "shipped_hparams", Path(__file__).parents[2] / "hparams")


class Layer(NamedTuple):
    """Settings from one place; `where(key)` is the start of a sentence about a key of it."""

    values: dict[str, Any]
    where: Callable[[str], str] = lambda key: ""


def find(name: str | os.PathLike[str], *, folder: str = ".") -> Path:
    """Return the file of that name, or the shipped file that a bare name means.

    `demo` is hparams/demo.json, unless there is a file called demo here.
    """
    path = Path(name)
    if path.exists() or path.name != str(name) or path.suffix:
        return path
    shipped = {file.stem: file for place in _PLACES for file in (place / folder).glob("*.json")}
    if path.name not in shipped:
        hint = did_you_mean(path.name, shipped) or "."
        raise UserError(
            f"{name} is neither a file here nor a settings file of the package{hint}"
        )
    return shipped[path.name]


def read(path: str | os.PathLike[str]) -> list[Layer]:
    """Return the layers of a file: its base's base first, the file itself last."""
    path = find(path)
    layers: list[Layer] = []
    seen: list[Path] = []
    current: Path | None = Path(path)
    while current is not None:
        if current.resolve() in [file.resolve() for file in seen]:
            chain = " -> ".join(str(file) for file in [*seen, current])
            raise UserError(f"{seen[-1]}: base goes in a circle: {chain}.")
        seen.append(current)
        layer = read_one(current, named_by=seen[-2] if len(seen) > 1 else None)
        base = layer.values.pop("base", None)
        if base is not None and not (isinstance(base, str) and base):
            shown = json.dumps(base)
            raise UserError(f"{layer.where('base')}base must be a file's name, not {shown}.")
        if layers:
            # A note is about the file that it stands in.
            layer.values.pop("note", None)
        layers.append(layer)
        current = None if base is None else current.parent / base
    return layers[::-1]


def read_one(path: Path, *, named_by: Path | None = None) -> Layer:
    """Return the object of one JSON file, its `base` included.

    `named_by` is a file that says it.
    """
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in items]
        twice.extend(key for key in keys if keys.count(key) > 1)
        return dict(items)

    source = f" (the base of {named_by})" if named_by else ""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        what = f"{error.msg} at column {error.colno}"
        raise UserError(f"{path}, line {error.lineno}: this is not JSON: {what}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason}.") from None
    except ValueError as error:  # A number with thousands of digits.
        raise UserError(f"{path}: this is not JSON: {error}.") from None
    except OSError as error:
        raise UserError(f"{path}{source} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply: settings are flat.") from None
    if not isinstance(values, dict):
        raise UserError(f'{path} must hold one JSON object, {{"name": value, ...}}.')

    def where(key: str) -> str:
        found = re.search(rf"{re.escape(json.dumps(key))}\s*:", text)
        line = f", line {text.count(chr(10), 0, found.start()) + 1}" if found else ""
        return f"{path}{line}: "

    if twice:
        raise UserError(f"{where(twice[0])}{twice[0]} is given twice: keep one of them.")
    return Layer(values, where)


_INTRODUCTION = """\
# Settings

Made by `python -m aevnmt_tf.hparams.declarations > hparams/README.md`; do not edit it.

A file holds one flat JSON object with the names below. Settings come from the defaults, then
from the file, then from the command line, where each one is a flag: `--batch_size 32`.
`"base": "other.json"` starts from another file, found relative to the one that names it.
A list is `["a", "b"]` in a file and `a,b` or `'["a", "b"]'` as a flag; true, false and null are
written so in both. An unknown name or a bad value is an error that names the place.
"""

_TFNMT = """\
## Files of TF-NMT

The authors' files for the paper's models (`joint_model_type` dvae, dsimple or baseline) load as
they are. Their files for the continuous models, and TF-NMT's own (iwslt15, wmt16 and the two of
wmt16_gnmt), are refused with a sentence that names the key: LSTMs, other attentions, GNMT's
architecture and the decoder that starts from the encoder's state are not built. A key that
would change the model is never ignored. These names are accepted for ours:
"""


def readme(groups: Mapping[str, Iterable[Setting]], *, folder: Path) -> str:
    """Return the text of hparams/README.md, with the files that `folder` holds."""
    parts = [_INTRODUCTION]
    for group, settings in groups.items():
        rows: list[tuple[str, ...]] = [
            (f"`{s.name}`", f"`{json.dumps(_plain(s.default))}`", s.describe(), s.help)
            for s in settings
        ]
        parts.append(f"## {group.capitalize()}\n")
        parts.append(markdown(("name", "default", "values", "meaning"), rows))
    parts.append(_TFNMT)
    rows = [
        (f"`{old}`", f"`{new}`", ", ".join(f"{json.dumps(a)} = {b}" for a, b in values.items()))
        for old, (new, values) in tf_nmt_names.ALIASES.items()
    ]
    parts.append(markdown(("TF-NMT", "here", "values"), rows))
    refused = ", ".join(tf_nmt_names.CONTINUOUS)
    parts.append(f"{refused} are refused: they are not in the paper.\n")
    parts.append("These have no meaning here; each gives one warning line:\n")
    rows = [(f"`{key}`", why) for key, why in tf_nmt_names.IGNORED.items()]
    parts.append(markdown(("TF-NMT", "why"), rows))
    parts.append("Other values of these are refused:\n")
    rows = [
        (f"`{key}`", ", ".join(f"`{json.dumps(value)}`" for value in fine), why)
        for key, (fine, why) in tf_nmt_names.REFUSED.items()
    ]
    parts.append(markdown(("name", "accepted", "why others are not"), rows))
    parts.append("## The files here\n")
    files = [(f"`{file.name}`", _note(file)) for file in sorted(folder.glob("*.json"))]
    parts.append(markdown(("file", "what it is"), files))
    return "\n".join(parts).rstrip("\n") + "\n"


def _note(path: Path) -> str:
    return str(read(path)[-1].values.get("note", ""))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
