"""The corpora that the settings name: find, read, clean, transform and write them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.machine import num_cores, ordered_map
from aevnmt_tf.cli.progress import track
from aevnmt_tf.data.pairs import read_pairs
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import atomic_writes, disk_errors
from aevnmt_tf.storage.text_files import FileLines, find_file

PARALLEL = ("train", "dev", "test", "synthetic")
# Only training text is cleaned. Dev and test sets are kept line by line.
CLEANED = ("train", "synthetic", "mono")
LINES_PER_TASK = 1000  # of a process
FEW_LINES = 50_000  # fewer lines take less time than starting processes


@dataclass(frozen=True)
class Corpus:
    """A corpus: lines of one language, or aligned lines of two.

    Attributes:
      kind: train, dev, test, synthetic or mono.
      name: The name of its files in a prepared folder, without the ending.
      source: The prefix or file that it is read from.
      endings: The ending of each language's file, source language first.
      inputs: The files that it is read from.
      lines: The lines by language, on disk; empty until the corpus is read.
    """

    kind: str
    name: str
    source: str
    endings: Mapping[str, str]
    inputs: tuple[Path, ...] = ()
    lines: Mapping[str, FileLines] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.lines.values())))

    @property
    def natural(self) -> tuple[str, ...]:
        """The languages whose text people wrote. Subword models are learnt from these."""
        # The paper's subword models see all training text except machine translations.
        langs = tuple(self.endings)
        return {"train": langs, "mono": langs, "synthetic": langs[1:]}.get(self.kind, ())

    def map(self, functions: Mapping[str, Callable[[str], str]], folder: Path) -> Corpus:
        """Apply a function per language to all lines and write the result to a folder."""
        changed = {}
        for lang, lines in self.lines.items():
            path = folder / self.file_name(lang)
            results = mapped_lines(functions[lang], lines, doing=f"{folder.name} {path.name}")
            changed[lang] = _written(results, path)
        return dataclasses.replace(self, lines=changed)

    def save(self, folder: Path, *, work: Path | None = None) -> None:
        """Put the files of the corpus into a folder: move those below `work`, copy others."""
        for lang, lines in self.lines.items():
            path, (first, _) = folder / self.file_name(lang), lines.parts[0]
            if work in first.parents:
                with disk_errors.explained(f"write {path}"):
                    first.replace(path)
                    atomic_writes.flush(folder)
            else:
                _written(track(lines, f"Writing {path.name}", total=len(lines)), path)

    def file_name(self, lang: str) -> str:
        """Return the name of a language's file."""
        return f"{self.name}.{self.endings[lang]}"


def _written(lines: Iterable[str], path: Path) -> FileLines:
    count = 0
    with disk_errors.explained(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writes.opened(path) as stream:
            for line in lines:
                stream.write(f"{line}\n".encode())
                count += 1
    return FileLines(((path, count),))


def mapped_lines(
    function: Callable[[str], str], lines: FileLines, *, doing: str
) -> Iterator[str]:
    """Yield the function of each line in order, using all cores for large files."""
    if len(lines) < FEW_LINES or num_cores() < 2:
        yield from map(function, track(lines, doing, total=len(lines)))
        return
    chunks = iter(functools.partial(_next_lines, iter(lines)), [])
    # Not forked: a fork would copy the locks that TensorFlow's threads hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        num_cores(), mp_context=context, initializer=_ignore_interrupts
    ) as pool:
        results = ordered_map(pool, functools.partial(_apply, function), chunks)
        total = -(-len(lines) // LINES_PER_TASK)
        doing = f"{doing}, {LINES_PER_TASK:,} lines at a time"
        for result in track(results, doing, total=total):
            yield from result


def _next_lines(lines: Iterator[str]) -> list[str]:
    return list(itertools.islice(lines, LINES_PER_TASK))


def _apply(function: Callable[[str], str], lines: list[str]) -> list[str]:
    return [function(line) for line in lines]


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and stops


def prefixes(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a setting that is null, one prefix or several as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def names_of(paths: Sequence[str]) -> list[str]:
    """Return distinct names for prefixes.

    A name is the last part of the prefix, with its folder or a number if this is ambiguous.
    """
    last = [Path(path).name for path in paths]
    with_folder = [f"{Path(path).parent.name}_{Path(path).name}" for path in paths]
    for names in (last, with_folder):
        if len(set(names)) == len(names):
            return names
    return [f"{number}_{name}" for number, name in enumerate(last)]


def find_corpora(hp: Hparams, *, kinds: Sequence[str] = PARALLEL) -> list[Corpus]:
    """Return the corpora that the settings name, not yet read.

    A file that is missing or cannot be opened is an error.
    """
    found = []
    for kind in kinds:
        named = prefixes(getattr(hp, f"{kind}_prefix"))
        for index, prefix in enumerate(named):
            ends = endings(kind, hp)
            paths = tuple(_find(f"{prefix}.{ending}") for ending in ends.values())
            found.append(Corpus(kind, numbered(kind, index, named), prefix, ends, paths))
    return found


def find_mono(lang: str, names: Sequence[str]) -> list[Corpus]:
    """Return corpora of monolingual files, not yet read."""
    return [
        Corpus("mono", numbered("mono", index, names), name, {lang: lang}, (_find(name),))
        for index, name in enumerate(names)
    ]


def check_outputs(hp: Hparams, out: Path, corpora: Sequence[Corpus]) -> None:
    """Raise an error if preparing the corpora in a folder would overwrite their files."""
    written = list(corpora)
    if hp.train_prefix is None:
        for kind in ("train", "dev", "test"):  # the demo corpus
            names = (kind, f"demo/{kind}")
            written += [Corpus(kind, name, "", endings(kind, hp)) for name in names]
    paths = set()
    for corpus in written:
        is_kept = corpus.kind in ("dev", "test") and hp.text_pipeline == "moses"
        for folder in (out, out / "raw") if is_kept else (out,):
            # A plain file takes precedence over a packed one.
            files = [folder / corpus.file_name(lang) for lang in corpus.endings]
            paths |= {Path(f"{file}{end}").resolve() for file in files for end in ("", ".gz")}
    for path in (path for corpus in corpora for path in corpus.inputs):
        if path.resolve() in paths:
            raise UserError(
                f"--out {out} would overwrite the input {path}: choose another folder."
            )


def numbered(kind: str, index: int, corpora: Sized) -> str:
    """Return the name of one of several corpora of a kind in a prepared folder."""
    return f"{kind}-{index + 1}" if len(corpora) > 1 else kind


def _find(path: str) -> Path:
    try:
        found = find_file(path)
        found.open("rb").close()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    return found


def count_pairs(hp: Hparams) -> int:
    """Return the number of training pairs that the settings name."""
    if hp.train_prefix is None:
        return hp.demo_pairs
    named = prefixes(hp.train_prefix)
    return sum(len(FileLines.of(f"{p}.{hp.src}", most=hp.max_train)) for p in named)


def read(hp: Hparams, corpora: Sequence[Corpus]) -> list[Corpus]:
    """Return the corpora with their lines; raise an error if a parallel corpus is empty."""
    found = []
    for corpus in corpora:
        if len(corpus.endings) == 1:
            sides = [FileLines.of(corpus.inputs[0])]
        else:
            src, tgt = corpus.endings.values()
            max_pairs = hp.max_train if corpus.kind == "train" else 0
            pairs = read_pairs(corpus.source, src=src, tgt=tgt, max_pairs=max_pairs)
            sides = [pairs.src, pairs.tgt]
            if not len(pairs):
                files = " and ".join(map(str, corpus.inputs))
                raise UserError(f"{files} are empty: check {corpus.kind}_prefix.")
        lines = dict(zip(corpus.endings, sides, strict=True))
        found.append(dataclasses.replace(corpus, lines=lines))
    return found


def endings(kind: str, hp: Hparams) -> dict[str, str]:
    """Return the file endings of a kind of corpus by language."""
    if kind == "mono":
        return {hp.src: hp.src}
    # Back-translations have TF-NMT's file names.
    source = f"translation.{hp.src}" if kind == "synthetic" else hp.src
    return {hp.src: source, hp.tgt: hp.tgt}


def clean(
    corpus: Corpus, folder: Path, *, count_words: Callable[[str], int], max_words: int
) -> tuple[Corpus, dict[str, int]]:
    """Drop lines with an empty side or too many words; return the rest and the counts.

    A line is counted under its first fault. Dev and test sets are not cleaned.
    """
    over = f"over_{max_words}_words"
    sides = ("source", "target")
    faults = [f"empty_{side}" for side in sides] if len(corpus.lines) == 2 else ["empty"]
    counts = dict(read=len(corpus), **dict.fromkeys([*faults, over], 0), kept=len(corpus))
    if corpus.kind not in CLEANED:
        return corpus, counts
    paths = {lang: folder / corpus.file_name(lang) for lang in corpus.lines}
    counts["kept"] = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(disk_errors.explained(f"write {folder}"))
        folder.mkdir(parents=True, exist_ok=True)
        streams = [stack.enter_context(atomic_writes.opened(path)) for path in paths.values()]
        rows = zip(*corpus.lines.values(), strict=True)
        for row in track(rows, f"Cleaning {corpus.name}", total=len(corpus)):
            sizes = list(map(count_words, row))
            if 0 in sizes:
                counts[faults[sizes.index(0)]] += 1
            elif max(sizes) > max_words:
                counts[over] += 1
            else:
                counts["kept"] += 1
                for stream, line in zip(streams, row, strict=True):
                    stream.write(f"{line}\n".encode())
    kept = {lang: FileLines(((path, counts["kept"]),)) for lang, path in paths.items()}
    return dataclasses.replace(corpus, lines=kept), counts
