"""The data of a probe: sentences of several files, each with a label or a number.

NAME=PREFIX means the sentences of PREFIX.SRC (or of the file PREFIX) with the label NAME. Files
of labels or numbers are aligned with them line by line.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import text_files

TRANSLATION = "translation"  # back-translations are in PREFIX.translation.SRC


@dataclasses.dataclass(frozen=True)
class ProbeSet:
    """A data set: the prefix of its files, and its name, which is the default label."""

    name: str
    prefix: str

    @classmethod
    def parse(cls, word: str) -> "ProbeSet":
        """Parse NAME=PREFIX, or PREFIX alone, whose last part is then the name."""
        name, equals, prefix = word.partition("=")
        if not equals or "/" in name:  # a folder may have an = in its name
            name, prefix = Path(word).name, word
        if not name or not prefix:
            raise UserError(
                f"{word!r} is not a data set: give NAME=PREFIX, such as news=data/news/dev."
            )
        return cls(name, prefix)

    def origin(self, lang: str) -> str:
        """Return the absolute prefix of the original text: PREFIX for PREFIX.translation."""
        prefix = self.prefix.removesuffix(f".{lang}").removesuffix(f".{TRANSLATION}")
        folder, name = os.path.split(prefix)
        return os.path.join(os.path.realpath(folder), name)

    def back_translated(self, lang: str) -> "ProbeSet":
        """Return the set of back-translations, PREFIX.translation.LANG."""
        prefix = f"{self.prefix}.{TRANSLATION}"
        path = f"{prefix}.{lang}"
        if not Path(path).is_file() and not Path(f"{path}.gz").is_file():
            raise UserError(
                f"there are no back-translations {path}: create them with aevnmt translate and "
                f"a model that translates into {lang}."
            )
        return ProbeSet(self.name, prefix)

    def read(self, lang: str) -> text_files.TextLines:
        """Return the lines of PREFIX.LANG, plain or .gz, or of the file PREFIX."""
        with_language = f"{self.prefix}.{lang}"
        names = (with_language, f"{with_language}.gz", self.prefix)
        for path in names:
            if Path(path).is_file():
                return text_files.read_lines(path)
        raise UserError(f"none of the files {', '.join(names)} exists: check --data.")


@dataclasses.dataclass
class ProbeSentences:
    """N sentences in the order of their files, and N values per column.

    Origins are equal for a sentence and its back-translation. Further columns, such as label
    and reference, are stored by name.
    """

    texts: list[str] = dataclasses.field(default_factory=list)
    sets: list[str] = dataclasses.field(default_factory=list)  # names
    lines: list[int] = dataclasses.field(default_factory=list)  # line numbers, from 1
    origins: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    left_out: int = 0  # number of empty lines

    def __len__(self) -> int:
        return len(self.texts)


def read(
    sets: Sequence[ProbeSet],
    *,
    lang: str,
    beside: Sequence[Mapping[str, str]],
    max_lines: int,
    seed: int,
) -> ProbeSentences:
    """Read sentences and their further columns.

    Args:
        sets: The data sets.
        lang: The language of the sentences.
        beside: For each set, the files of its columns by name.
        max_lines: Number of lines per set, drawn at random, and the same from a text and its
            back-translation; 0: all.
        seed: Random seed.
    """
    found = ProbeSentences()
    origins = [one.origin(lang) for one in sets]
    for one, origin, paths in zip(sets, origins, beside, strict=True):
        source = one.read(lang)
        columns = {name: _column(path, source, name=name) for name, path in paths.items()}
        rows = [row for row, text in enumerate(source) if text.strip()]
        if not rows:
            raise UserError(f"{source.name} has no sentences: give a file with text.")
        found.left_out += len(source) - len(rows)
        if 0 < max_lines < len(rows):
            dice = np.random.default_rng([seed, 5, origins.index(origin)])
            lots = dice.random(len(source))
            rows = sorted(sorted(rows, key=lots.__getitem__)[:max_lines])
        found.texts += [source[row] for row in rows]
        found.sets += [one.name] * len(rows)
        found.lines += [row + 1 for row in rows]
        found.origins += [(origin, row + 1) for row in rows]
        for name, values in columns.items():
            found.columns.setdefault(name, []).extend(values[row] for row in rows)
    return found


def _column(path: str, source: text_files.TextLines, *, name: str) -> list[Any]:
    """Return the labels, numbers or references of a file, one per line of the source."""
    lines = text_files.read_lines(path)
    if len(lines) != len(source):
        raise UserError(
            f"{lines.name} has {len(lines)} lines but {source.name} has {len(source)}: give "
            f"one {name} per sentence."
        )
    if name == "reference":
        return list(lines)
    found: list[Any] = []
    for number, line in enumerate(lines, 1):
        where = f"{lines.name}, line {number}"
        value = line.strip() if name == "label" else _number(line)
        if value == "":
            raise UserError(f"{where}: the label is missing; give one per line.")
        if value is None:
            raise UserError(f"{where}: {line!r} is not a number.")
        found.append(value)
    return found


def _number(line: str) -> float | None:
    try:
        value = float(line)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
