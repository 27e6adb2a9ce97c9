"""What a probe learns from: sentences of several files, each with a label or a number.

A set is NAME=PREFIX: the sentences of PREFIX.SRC (or of the file PREFIX), whose label is NAME.
Files of labels or numbers have one per line, for the same line of the sentences.
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
    """A named file of sentences, and files with the same lines.

    Attributes:
        name: the label of its sentences, unless a file has others.
        prefix: of its files.
    """

    name: str
    prefix: str

    @classmethod
    def parse(cls, word: str) -> "ProbeSet":
        """Return the set of NAME=PREFIX, or of PREFIX, whose last part is the name then."""
        name, equals, prefix = word.partition("=")
        if not equals or "/" in name:  # a folder may have an = in its name
            name, prefix = Path(word).name, word
        if not name or not prefix:
            raise UserError(
                f"{word!r} is no set: give NAME=PREFIX, such as news=data/news/dev."
            )
        return cls(name, prefix)

    def origin(self, lang: str) -> str:
        """Return the prefix of the text that this is a version of, its folder resolved.

        It is PREFIX for PREFIX.translation, and the set's own prefix otherwise.
        """
        prefix = self.prefix.removesuffix(f".{lang}").removesuffix(f".{TRANSLATION}")
        folder, name = os.path.split(prefix)
        return os.path.join(os.path.realpath(folder), name)

    def back_translated(self, lang: str) -> "ProbeSet":
        """Return the set of its back-translations, PREFIX.translation.LANG."""
        prefix = f"{self.prefix}.{TRANSLATION}"
        path = f"{prefix}.{lang}"
        if not Path(path).is_file() and not Path(f"{path}.gz").is_file():
            raise UserError(
                f"there are no back-translations {path}: make them with aevnmt translate and a "
                f"model from the target to {lang}."
            )
        return ProbeSet(self.name, prefix)

    def read(self, lang: str) -> text_files.TextLines:
        """Return the lines of PREFIX.LANG, plain or .gz, or else of the file PREFIX."""
        with_language = f"{self.prefix}.{lang}"
        names = (with_language, f"{with_language}.gz", self.prefix)
        for path in names:
            if Path(path).is_file():
                return text_files.read_lines(path)
        raise UserError(f"there is no file {' and no file '.join(names)}: check --data.")


@dataclasses.dataclass
class ProbeSentences:
    """Sentences in the order of their files; all columns have N values.

    Attributes:
        texts: the sentences.
        sets: the name of each one's set.
        lines: each one's line in its file, from 1.
        origins: equal for a sentence and its back-translation.
        columns: further ones by name, such as label and reference.
        left_out: how many lines were empty.
    """

    texts: list[str] = dataclasses.field(default_factory=list)
    sets: list[str] = dataclasses.field(default_factory=list)
    lines: list[int] = dataclasses.field(default_factory=list)
    origins: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    left_out: int = 0

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
    """Read sentences and the columns beside them.

    Args:
        sets: whose sentences are read.
        lang: ends the names of the files of sentences.
        beside: for each set, paths by column name: files with the same lines.
        max_lines: of each set, drawn at random, the same of a text and of its back-translation;
            0: all.
        seed: of what is drawn.
    """
    found = ProbeSentences()
    origins = [one.origin(lang) for one in sets]
    for one, origin, paths in zip(sets, origins, beside, strict=True):
        source = one.read(lang)
        columns = {name: _column(path, source, name=name) for name, path in paths.items()}
        rows = [row for row, text in enumerate(source) if text.strip()]
        if not rows:
            raise UserError(f"{source.name} has no sentence: give a file with some text.")
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
    """Return the labels, numbers or references of a file, one for each line of the source."""
    lines = text_files.read_lines(path)
    if len(lines) != len(source):
        raise UserError(
            f"{lines.name} has {len(lines)} lines but {source.name} has {len(source)}: a "
            f"{name} is on the line of its sentence."
        )
    convert = {"label": _label, "number": _number}.get(name, lambda line: line)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(convert(line))
        except ValueError as error:
            raise UserError(f"{lines.name}, line {number}: {error}.") from None
    return found


def _label(line: str) -> str:
    if not line.strip():
        raise ValueError("a label is missing; give one per line")
    return line.strip()


def _number(line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{line!r} is not a number")
    return value
