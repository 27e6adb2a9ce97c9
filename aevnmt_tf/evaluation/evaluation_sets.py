"""Test sets: sources and references, by name."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from aevnmt_tf.cli.errors import UserError, repeated
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory, text_files

ALL = "all"  # the name of the concatenation of all sets


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """A test set.

    Attributes:
        name: Name of the set.
        references: The references without subwords, as metrics read them.
        sources: The sources as a model reads them; None if only translations are scored.
        targets: The references as a model reads them, in subwords if their file is.
        reference_file: File of the references.
        source_file: File of the sources.
    """

    name: str
    references: list[str]
    sources: list[str] | None = None
    targets: list[str] | None = None
    reference_file: str = ""
    source_file: str | None = None

    def __len__(self) -> int:
        return len(self.references)


def from_files(
    ref: str, *, src: str | None = None, name: str | None = None, errors: str = "strict"
) -> EvaluationSet:
    """Return the set of a reference file and, if given, a source file.

    The default name is that of the reference file. `errors` is "strict", or "replace" for
    invalid UTF-8.
    """
    references = read_lines(ref, errors=errors)
    sources = None if src is None else read_lines(src, errors=errors)
    if src is not None and sources is not None:
        check_counts(src, len(sources), ref, len(references))
    name = checked_name(name or Path(ref).name)
    return EvaluationSet(name, references, sources, references, str(ref), src and str(src))


def from_prefix(
    prefix: str,
    *,
    src: str | None,
    tgt: str,
    name: str | None = None,
    errors: str = "strict",
) -> EvaluationSet:
    """Return the set of PREFIX.SRC and PREFIX.TGT, or of PREFIX.TGT alone if `src` is None."""
    source = None if src is None else str(text_files.find_file(f"{prefix}.{src}"))
    name = name or Path(prefix).name
    return from_files(
        str(text_files.find_file(f"{prefix}.{tgt}")), src=source, name=name, errors=errors
    )


def for_run(
    hp: Hparams, named: Sequence[tuple[str, str]], *, errors: str = "strict"
) -> list[EvaluationSet]:
    """Return the sets of (name, prefix) pairs in the form that a run reads.

    If the Moses pipeline has prepared a corpus, this is the raw text that it keeps.
    """
    from aevnmt_tf.data import preparation_manifest

    found = []
    for name, prefix in named:
        (prefix,) = preparation_manifest.readable_prefixes(hp, prefix)
        found.append(from_prefix(prefix, src=hp.src, tgt=hp.tgt, name=name, errors=errors))
    return found


def of_run(hp: Hparams, *, run: str, errors: str = "strict") -> list[EvaluationSet]:
    """Return a run's own test sets, or its dev sets if it has no test set."""
    from aevnmt_tf.data import corpora

    test = hp.test_prefix
    if hp.train_prefix is None and test is None:
        test = str(Path(run) / "demo" / "test")
    prefixes = corpora.prefixes(test or hp.dev_prefix)
    if not prefixes:
        raise UserError(
            f"the settings of {run} have neither test_prefix nor dev_prefix: give --test."
        )
    named = list(zip(corpora.names_of(prefixes), prefixes, strict=True))
    return for_run(hp, named, errors=errors)


class Subwords:
    """Undoes subwords, so that the references and translations of all systems are comparable.

    Args:
        hp: Settings of the run that reads the text; None: there is no run, undo BPE only.
        run: Directory of the run.
        report: Called with a message about each file in subwords.
    """

    def __init__(
        self,
        hp: Hparams | None = None,
        run: str | None = None,
        *,
        report: Callable[[str], object] | None = None,
    ) -> None:
        self._hp, self._run = hp, run
        self._report = report or (lambda _: None)

    def undone(self, one: EvaluationSet) -> EvaluationSet:
        """Return a set whose references are words and whose sources are what the run reads."""
        references = self.joined(one.references, one.reference_file)
        if self._hp is None or self._hp.text_pipeline != "moses" or one.sources is None:
            return dataclasses.replace(one, references=references)
        # The run reads raw text. The set is either raw text or output of the Moses pipeline.
        sources = one.sources
        if references is not one.references:
            from aevnmt_tf.text import moses

            folder = Path(str(self._run)) / run_directory.TEXT
            x, y = (moses.load(folder, lang) for lang in (self._hp.src, self._hp.tgt))
            if x is not None and y is not None:
                sources = [x.inverse(line) for line in one.sources]
                references = [y.inverse(line) for line in one.references]
        return dataclasses.replace(
            one, sources=sources, references=references, targets=references
        )

    def joined(self, lines: list[str], file: str) -> list[str]:
        """Return the lines without subwords; the same list object if there are none."""
        if not any("@@" in line or "▁" in line for line in lines):
            return lines  # without importing TensorFlow
        from aevnmt_tf.text import subwords

        found = subwords.join(lines, "bpe" if self._hp is None else self._hp.subword_option)
        if found == lines:
            return lines
        self._report(f"{file} is in subwords; they are joined before scoring")
        return found


def read_lines(path: str | Path, *, errors: str = "strict") -> list[str]:
    """Return the lines of a file, or of stdin for "-"; raise a UserError if it is empty."""
    lines = text_files.read_lines(path, errors=errors)
    if not lines:
        raise UserError(f"{lines.name} is empty: give a file with at least one line.")
    return list(lines)


def check_counts(first: str, count: int, second: str, other: int) -> None:
    """Raise a UserError if two files differ in their number of lines."""
    if count != other:
        raise UserError(text_files.different_lengths(first, count, second, other))


def checked_name(name: str) -> str:
    """Return the name of a set or a system; raise a UserError if it cannot be a file name."""
    if not name or name in (".", "..", ALL) or "/" in name or "\0" in name:
        raise UserError(f"{name!r} is not a valid name of a set or a system: choose another.")
    return name


def check_unique(names: Sequence[str], *, what: str, how: str) -> None:
    """Raise a UserError if a name occurs twice."""
    twice = repeated(names)
    if twice is not None:
        raise UserError(f"two {what} are called {twice}: give them names with {how}.")
