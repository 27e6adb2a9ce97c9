"""What a probe learns from: sentences of several files, each with a label or a number.

A set is NAME=PREFIX: the sentences of PREFIX.SRC (or of the file PREFIX), whose label is NAME.
Files of labels or numbers have one a line, for the same line of the sentences.
"""

import dataclasses
import math
import os
from pathlib import Path

import numpy as np

from aevnmt_tf.data import pairs
from aevnmt_tf.errors import UserError

TRANSLATION = "translation"  # back-translations are in PREFIX.translation.SRC


@dataclasses.dataclass(frozen=True)
class Set:
    """A named file of sentences, and files with the same lines.

    Attributes:
        name: the label of its sentences, unless a file has others.
        prefix: of its files.
    """

    name: str
    prefix: str

    @classmethod
    def parse(cls, word):
        """NAME=PREFIX, or PREFIX, whose last part is the name then."""
        name, equals, prefix = word.partition("=")
        if not equals or "/" in name:  # a folder may have an = in its name
            name, prefix = Path(word).name, word
        if not name or not prefix:
            raise UserError(f"{word!r} is no set: give NAME=PREFIX, such as news=data/news/dev")
        return cls(name, prefix)

    def origin(self, lang):
        """The prefix of the text that this one is a version of: its own, or PREFIX for
        PREFIX.translation; the same for all ways to write its folder."""
        prefix = self.prefix.removesuffix(f".{lang}").removesuffix(f".{TRANSLATION}")
        folder, name = os.path.split(prefix)
        return os.path.join(os.path.realpath(folder), name)

    def back_translated(self, lang):
        """The set of its back-translations, PREFIX.translation.LANG."""
        prefix = f"{self.prefix}.{TRANSLATION}"
        path = f"{prefix}.{lang}"
        if not Path(path).is_file() and not Path(f"{path}.gz").is_file():
            raise UserError(
                f"there are no back-translations {path}: make them with aevnmt translate and a "
                f"model from the target to {lang}"
            )
        return Set(self.name, prefix)


@dataclasses.dataclass
class Sentences:
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
    columns: dict[str, list] = dataclasses.field(default_factory=dict)
    left_out: int = 0

    def __len__(self):
        return len(self.texts)


def read(sets, *, lang, beside=(), max_lines=0, seed=1):
    """Read sentences and the columns beside them.

    Args:
        sets: of Set.
        lang: ends the names of the files of sentences.
        beside: for each set, paths by column name: files with the same lines.
        max_lines: of each set, drawn at random, the same of a text and of its back-translation;
            0: all.
        seed: of what is drawn.
    """
    found = Sentences()
    origins = [one.origin(lang) for one in sets]
    for number, (one, origin) in enumerate(zip(sets, origins, strict=True)):
        source = source_lines(one.prefix, lang=lang)
        columns = {
            name: _aligned(path, source, column=name)
            for name, path in (beside[number] if beside else {}).items()
        }
        rows = [row for row, text in enumerate(source) if text.strip()]
        if not rows:
            raise UserError(f"{source.name} has no sentence: give a file with some text")
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


def source_lines(prefix, *, lang):
    """The lines of PREFIX.LANG, plain or .gz, or else of the file PREFIX."""
    with_language = f"{prefix}.{lang}"
    names = (with_language, f"{with_language}.gz", prefix)
    for path in names:
        if Path(path).is_file():
            return pairs.read_lines(path)
    raise UserError(f"there is no file {' and no file '.join(names)}: check --data")


def _aligned(path, source, *, column):
    lines = pairs.read_lines(path)
    if len(lines) != len(source):
        raise UserError(
            f"{lines.name} has {len(lines)} lines but {source.name} has {len(source)}: a "
            f"{column} is on the line of its sentence"
        )
    return _columns[column](lines) if column in _columns else lines


def _labels(lines):
    """Labels without the spaces around them."""
    labels = [line.strip() for line in lines]
    if "" in labels:
        number = labels.index("") + 1
        raise UserError(f"{lines.name}, line {number}: a label is missing; give one a line")
    return labels


def _numbers(lines):
    """One finite number a line."""
    numbers = []
    for row, line in enumerate(lines, 1):
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UserError(f"{lines.name}, line {row}: {line!r} is not a number")
        numbers.append(value)
    return numbers


_columns = {"label": _labels, "number": _numbers}
