"""Sets of sentences to evaluate on: sources and references by name."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from aevnmt_tf.cli.errors import UserError, repeated
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory, text_files

ALL = "all"  # what the concatenation of all sets is called


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and what they should become.

    Attributes:
        name: of the set.
        references: one line for each sentence, as people read it and metrics score it.
        sources: the same, as a model reads it; None where there are only translations to score.
        targets: the references as a model reads them: in subwords, where the file has those.
        reference_file: where the references come from.
        source_file: where the sources come from.
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
    """Return the set of a reference file and, where it is given, a source file.

    Args:
        ref: a file, plain or .gz.
        src: another one.
        name: of the set; None: the name of the reference file.
        errors: "strict", or "replace" for bytes that are not UTF-8.
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
    """Return the set of PREFIX.SRC and PREFIX.TGT, plain or .gz; src None: of PREFIX.TGT."""
    source = None if src is None else str(text_files.find_file(f"{prefix}.{src}"))
    name = name or Path(prefix).name
    return from_files(
        str(text_files.find_file(f"{prefix}.{tgt}")), src=source, name=name, errors=errors
    )


def for_run(
    hp: Hparams, named: Sequence[tuple[str, str]], *, errors: str = "strict"
) -> list[EvaluationSet]:
    """Return the sets of names and prefixes in the text that a run reads.

    Of corpora that the Moses pipeline has prepared, that is the raw text beside them.
    """
    from aevnmt_tf.data import preparation_manifest

    found = []
    for name, prefix in named:
        (prefix,) = preparation_manifest.readable_prefixes(hp, prefix)
        found.append(from_prefix(prefix, src=hp.src, tgt=hp.tgt, name=name, errors=errors))
    return found


def of_run(hp: Hparams, *, run: str, errors: str = "strict") -> list[EvaluationSet]:
    """Return a run's own test sets, or its development sets where it has no test set.

    Args:
        hp: the run's settings.
        run: its directory, which has the demo corpus if it was trained on that.
        errors: as in from_files.
    """
    from aevnmt_tf.data import corpora

    test = hp.test_prefix
    if hp.train_prefix is None and test is None:
        test = str(Path(run) / "demo" / "test")
    prefixes = corpora.prefixes(test or hp.dev_prefix)
    if not prefixes:
        raise UserError(
            f"{run} has no test_prefix and no dev_prefix in its settings: give --test."
        )
    named = list(zip(corpora.names_of(prefixes), prefixes, strict=True))
    return for_run(hp, named, errors=errors)


class Subwords:
    """Undoes subwords, so that references and translations of all systems are alike.

    Args:
        hp: the settings of a run whose text this is; None: of no run, only BPE is undone.
        run: its directory.
        report: called with a sentence about each file that had subwords.
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
        """Return a set whose references are words, and whose sources are what the run reads."""
        references = self.joined(one.references, one.reference_file)
        if self._hp is None or self._hp.text_pipeline != "moses" or one.sources is None:
            return dataclasses.replace(one, references=references)
        # The run reads raw text. This is raw as well, or the pipeline has made it.
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
        """Return lines without subwords; the lines themselves where there are none."""
        if not any("@@" in line or "▁" in line for line in lines):
            return lines  # the usual case, which does not wait for TensorFlow
        from aevnmt_tf.text import subwords

        found = subwords.join(lines, "bpe" if self._hp is None else self._hp.subword_option)
        if found == lines:
            return lines
        self._report(f"{file} has subwords; they are joined before anything is scored")
        return found


def read_lines(path: str | Path, *, errors: str = "strict") -> list[str]:
    """Return the lines of a file, plain or .gz, or of stdin for "-"; none is an error."""
    lines = text_files.read_lines(path, errors=errors)
    if not lines:
        raise UserError(f"{lines.name} is empty: there is nothing to evaluate.")
    return list(lines)


def check_counts(first: str, count: int, second: str, other: int) -> None:
    """Raise a UserError where two files have different numbers of lines."""
    if count != other:
        raise UserError(text_files.different_lengths(first, count, second, other))


def checked_name(name: str) -> str:
    """Return the name of a set or a system if it can be that of a file."""
    if not name or name in (".", "..", ALL) or "/" in name or "\0" in name:
        raise UserError(f"{name!r} cannot be the name of a set or a system: choose another.")
    return name


def check_unique(names: Sequence[str], *, what: str, how: str) -> None:
    """Raise a UserError where a name occurs twice."""
    twice = repeated(names)
    if twice is not None:
        raise UserError(f"two {what} are called {twice}: name them with {how}.")
