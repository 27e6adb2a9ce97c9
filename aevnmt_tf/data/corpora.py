"""The corpora that settings name: read as pairs or single lines, cleaned, counted, written."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.machine import num_cores, ordered_map
from aevnmt_tf.cli.progress import track
from aevnmt_tf.data.pairs import read_pairs, read_synthetic
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import atomic_writes, disk_errors
from aevnmt_tf.storage.text_files import FileLines, find_file

PARALLEL = ("train", "dev", "test", "synthetic")
# Training text is cleaned; dev and test are kept as they are, line by line.
CLEANED = ("train", "synthetic", "mono")
LINES_PER_TASK = 1000  # of a process
FEW_LINES = 50_000  # take less time than starting processes

Files = dict[tuple[str, str], list[Path]]  # of corpora, by kind and prefix


@dataclass(frozen=True)
class Corpus:
    """One corpus: lines of one language, or aligned lines of two.

    Attributes:
      kind: train, dev, test, synthetic or mono.
      name: what its files are called in the prepared folder.
      source: where it was read from.
      lines: the lines by language, the source language first; they stay on the disk.
      endings: how the file of a language ends, after the name and a dot.
      natural: the languages whose side people wrote: subword models learn from these.
      inputs: the files read.
    """

    kind: str
    name: str
    source: str
    lines: Mapping[str, FileLines]
    endings: Mapping[str, str]
    natural: tuple[str, ...]
    inputs: tuple[Path, ...]

    def __len__(self) -> int:
        return len(next(iter(self.lines.values())))

    def map(self, functions: Mapping[str, Callable[[str], str]], folder: Path) -> Corpus:
        """Return the corpus with each language's function applied to its lines, in a folder."""
        changed = {}
        for lang, lines in self.lines.items():
            path = folder / self.file_name(lang)
            results = mapped_lines(functions[lang], lines, doing=f"{folder.name} {path.name}")
            changed[lang] = _written(results, path)
        return dataclasses.replace(self, lines=changed)

    def save(self, folder: Path, *, work: Path | None = None) -> None:
        """Put the corpus' files into a folder: move those below `work`, copy others."""
        for lang, lines in self.lines.items():
            path, (first, _) = folder / self.file_name(lang), lines.parts[0]
            if work in first.parents:
                with disk_errors.explained(f"write {path}"):
                    first.replace(path)
                    atomic_writes.flush(folder)
            else:
                _written(track(lines, f"Writing {path.name}", total=len(lines)), path)

    def file_name(self, lang: str) -> str:
        """Return what the file of a language is called."""
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
    """Yield the function of each line, in their order; many lines are shared by the cores."""
    if len(lines) < FEW_LINES or num_cores() < 2:
        yield from map(function, track(lines, doing, total=len(lines)))
        return
    chunks = iter(functools.partial(_next_lines, iter(lines)), [])
    # Not forked: TensorFlow has threads, and a fork copies whatever locks they hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        num_cores(), mp_context=context, initializer=_ignore_interrupts
    ) as pool:
        results = ordered_map(pool, functools.partial(_apply, function), chunks)
        total = -(-len(lines) // LINES_PER_TASK)
        for result in track(results, f"{doing}, {LINES_PER_TASK:,} lines a time", total=total):
            yield from result


def _next_lines(lines: Iterator[str]) -> list[str]:
    return list(itertools.islice(lines, LINES_PER_TASK))


def _apply(function: Callable[[str], str], lines: list[str]) -> list[str]:
    return [function(line) for line in lines]


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, too, and ends


def prefixes(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a setting that is null, one prefix or several as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def names_of(paths: Sequence[str]) -> list[str]:
    """Return what several prefixes are called.

    They have their last parts as names; where two are equal, with the folder in front, or else
    a number.
    """
    last = [Path(path).name for path in paths]
    with_folder = [f"{Path(path).parent.name}_{Path(path).name}" for path in paths]
    for names in (last, with_folder):
        if len(set(names)) == len(names):
            return names
    return [f"{number}_{name}" for number, name in enumerate(last)]


def files_of(hp: Hparams, *, kinds: Sequence[str] = PARALLEL) -> Files:
    """Return the files of every corpus that the settings name, by kind and prefix.

    A file that is missing or cannot be opened is an error.
    """
    found = {}
    for kind in kinds:
        for prefix in prefixes(getattr(hp, f"{kind}_prefix")):
            paths = [f"{prefix}.{ending}" for ending in endings(kind, hp).values()]
            found[kind, prefix] = [_find(path) for path in paths]
    return found


def check_inputs(hp: Hparams, out: Path, *, mono: Mapping[str, Sequence[str]]) -> None:
    """Raise an error where a file to prepare is missing or would be replaced.

    Args:
      hp: the settings.
      out: the folder for the prepared text.
      mono: files of monolingual text, by language.
    """
    found = files_of(hp)
    read = [path for paths in found.values() for path in paths]
    read += [_find(name) for names in mono.values() for name in names]
    # A plain file that is written would be found in the place of a packed one.
    written = {
        Path(out, f"{name}{packed}").resolve()
        for name in _outputs(hp, found, mono)
        for packed in ("", ".gz")
    }
    for path in read:
        if path.resolve() in written:
            raise UserError(
                f"--out {out} would overwrite the input {path}: choose another folder."
            )


def _outputs(hp: Hparams, found: Files, mono: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the corpus files in a prepared folder."""
    corpora = [(kind, _name(kind, prefix, found)) for kind, prefix in found]
    if hp.train_prefix is None:
        for kind in ("train", "dev", "test"):  # of the demo corpus
            corpora += [(kind, kind), (kind, f"demo/{kind}")]
    names = []
    for kind, name in corpora:
        made = [f"{name}.{ending}" for ending in endings(kind, hp).values()]
        kept = kind in ("dev", "test") and hp.text_pipeline == "moses"
        names += made + [f"raw/{name}" for name in made if kept]
    for lang, given in mono.items():
        names += [f"{numbered('mono', n, given)}.{lang}" for n in range(len(given))]
    return names


def _name(kind: str, prefix: str, found: Files) -> str:
    same_kind = [other for other_kind, other in found if other_kind == kind]
    return numbered(kind, same_kind.index(prefix), same_kind)


def numbered(kind: str, index: int, corpora: Sized) -> str:
    """Return what one of several corpora of a kind is called in a prepared folder."""
    return f"{kind}-{index + 1}" if len(corpora) > 1 else kind


def _find(path: str) -> Path:
    try:
        found = find_file(path)
        found.open("rb").close()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    return found


def count_pairs(hp: Hparams) -> int:
    """Return how many pairs the settings name to train on."""
    if hp.train_prefix is None:
        return hp.demo_pairs
    named = prefixes(hp.train_prefix)
    return sum(len(FileLines.of(f"{p}.{hp.src}", most=hp.max_train)) for p in named)


def read_corpora(hp: Hparams, *, kinds: Sequence[str] = PARALLEL) -> list[Corpus]:
    """Read the corpora that the settings name; one without a line is an error."""
    corpora = []
    paths = files_of(hp, kinds=kinds)
    for (kind, prefix), files in paths.items():
        read = read_synthetic if kind == "synthetic" else read_pairs
        max_pairs = hp.max_train if kind == "train" else 0
        pairs = read(prefix, src=hp.src, tgt=hp.tgt, max_pairs=max_pairs)
        if not len(pairs):
            raise UserError(f"{files[0]} and {files[1]} are empty: check {kind}_prefix.")
        corpora.append(
            Corpus(
                kind=kind,
                name=_name(kind, prefix, paths),
                source=prefix,
                lines={hp.src: pairs.src, hp.tgt: pairs.tgt},
                endings=endings(kind, hp),
                natural=_natural(kind, hp),
                inputs=tuple(files),
            )
        )
    return corpora


def read_mono(lang: str, names: Sequence[str]) -> list[Corpus]:
    """Read files of text of one language."""
    return [
        Corpus(
            kind="mono",
            name=numbered("mono", index, names),
            source=str(name),
            lines={lang: FileLines.of(name)},
            endings={lang: lang},
            natural=(lang,),
            inputs=(find_file(name),),
        )
        for index, name in enumerate(names)
    ]


def endings(kind: str, hp: Hparams) -> dict[str, str]:
    """Return how the files of a corpus end, by language."""
    if kind == "mono":
        return {hp.src: hp.src}
    source = f"translation.{hp.src}" if kind == "synthetic" else hp.src
    return {hp.src: source, hp.tgt: hp.tgt}


def _natural(kind: str, hp: Hparams) -> tuple[str, ...]:
    # The paper's subword models see all text but what a machine translated.
    return {"train": (hp.src, hp.tgt), "synthetic": (hp.tgt,)}.get(kind, ())


def clean(
    corpus: Corpus, folder: Path, *, count_words: Callable[[str], int], max_words: int
) -> tuple[Corpus, dict[str, int]]:
    """Drop lines with an empty side or too many words; return the rest and the counts.

    A line is counted under its first fault. Dev and test lose nothing.
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
