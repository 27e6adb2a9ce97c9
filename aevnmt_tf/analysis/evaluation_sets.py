"""Sets of sentences to evaluate on: sources and references by name."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aevnmt_tf.data import line_files
from aevnmt_tf.errors import UserError

ALL = "all"  # what the concatenation of all sets is called


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and what they should become.

    Attributes:
        name: of the set.
        references: one line for each sentence.
        sources: the same; None where there are only translations to score.
        reference_file: where the references come from.
        source_file: where the sources come from.
    """

    name: str
    references: list[str]
    sources: list[str] | None = None
    reference_file: str = ""
    source_file: str | None = None

    def __len__(self) -> int:
        return len(self.references)


def from_files(ref, *, src=None, name=None, errors="strict") -> EvaluationSet:
    """Return the set of a reference file and, where it is given, a source file.

    Args:
        ref: a file, plain or .gz.
        src: another one.
        name: of the set; None: the name of the reference file.
        errors: "strict", or "replace" for bytes that are not UTF-8.
    """
    references = read_lines(ref, errors=errors)
    sources = None if src is None else read_lines(src, errors=errors)
    if sources is not None:
        check_counts(src, len(sources), ref, len(references))
    return EvaluationSet(
        name=checked_name(name or Path(ref).name),
        references=references,
        sources=sources,
        reference_file=str(ref),
        source_file=None if src is None else str(src),
    )


def from_prefix(prefix, *, src, tgt, name=None, errors="strict") -> EvaluationSet:
    """Return the set of PREFIX.SRC and PREFIX.TGT, plain or .gz; src None: of PREFIX.TGT."""
    found = [None if lang is None else find(f"{prefix}.{lang}") for lang in (src, tgt)]
    return from_files(found[1], src=found[0], name=name or Path(prefix).name, errors=errors)


def from_prefixes(named: Mapping[str, str], *, src, tgt, errors="strict"):
    """Return the sets of several prefixes, by name."""
    return [
        from_prefix(prefix, src=src, tgt=tgt, name=name, errors=errors)
        for name, prefix in named.items()
    ]


def of_run(hp, *, run, errors="strict") -> list[EvaluationSet]:
    """Return a run's own test sets, or its development sets where it has no test set.

    After the Moses pipeline these are the raw files that were kept.

    Args:
        hp: the run's settings.
        run: its directory, which has the demo corpus if it was trained on that.
        errors: as in from_files.
    """
    from aevnmt_tf.data import corpora, manifest

    named = {"test": hp.test_prefix, "dev": hp.dev_prefix}
    if hp.train_prefix is None and named["test"] is None:
        named["test"] = str(Path(run) / "demo" / "test")
    prefixes = manifest.raw_prefixes(named["test"]) or manifest.raw_prefixes(named["dev"])
    if not prefixes:
        raise UserError(
            f"{run} has no test_prefix and no dev_prefix in its settings: give --test"
        )
    named = dict(zip(corpora.names_of(prefixes), prefixes, strict=True))
    return from_prefixes(named, src=hp.src, tgt=hp.tgt, errors=errors)


def read_lines(path, *, errors="strict") -> list[str]:
    """Return the lines of a file, plain or .gz, or of stdin for "-"; an empty one is an error.

    Only a line feed ends a line, as for translate and for sacreBLEU.
    """
    name = "stdin" if str(path) == line_files.STD else str(path)
    with line_files.open_input(str(path)) as stream:
        reader = line_files.Reader(stream, name=name, errors=errors)
        lines = list(reader)
    if reader.problem:
        raise UserError(reader.problem)
    if not lines:
        raise UserError(f"{name} is empty: there is nothing to evaluate")
    return lines


def check_counts(first, count, second, other):
    """Raise a UserError where two files have different numbers of lines."""
    if count != other:
        lines = "1 line" if count == 1 else f"{count} lines"
        raise UserError(
            f"{first} has {lines} but {second} has {other}: the same line of both files "
            "belongs together"
        )


def find(path) -> str:
    """Return the path, or that of the .gz file where only that exists."""
    for candidate in (path, f"{path}.gz"):
        if os.path.isfile(candidate):
            return candidate
    raise UserError(f"there is no file {path} and no file {path}.gz: check the prefix")


def checked_name(name):
    """Return the name of a set or a system if it can be that of a file."""
    if not name or name in (".", "..", ALL) or "/" in name or "\0" in name:
        raise UserError(f"{name!r} cannot be the name of a set or a system: choose another")
    return name


def unique(names, *, what, how):
    """Raise a UserError where a name occurs twice."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"two {what} are called {name}: name them with {how}")
