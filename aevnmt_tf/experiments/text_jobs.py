"""Jobs that make text: back-translation, and segmentation with models that systems share.

RUNS/synthetic/NAME/made.json               what the text is made from
RUNS/synthetic/NAME/train.TGT               lines of the target language, drawn once
RUNS/synthetic/NAME/train.translation.SRC   their translations; .translation.part until whole
"""

import contextlib
import functools
import heapq
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import corpora
from aevnmt_tf.experiments.plan_keys import BackTranslation, MonolingualText
from aevnmt_tf.experiments.plan_runs import MONO, PREPARED, SYNTHETIC, TEXT, PlanRun, PlanRuns
from aevnmt_tf.experiments.processes import JobCommand
from aevnmt_tf.experiments.scheduler import Job, verb
from aevnmt_tf.storage import atomic_writes, line_streams, run_directory
from aevnmt_tf.storage.text_files import find_file

MADE = "made.json"
MANIFEST = "manifest.json"  # of prepared text, written last
PART, REST = ".translation.part", ".rest"


def refuse_other(record: Path, wanted: Mapping[str, Any]) -> None:
    """Raise a UserError where the record of some text says that other things made it."""
    made = run_directory.read_json(record)
    for name, value in wanted.items():
        if made and made.get(name) != value:
            raise UserError(
                f"{record.parent} holds text that was made with {name} {made.get(name)}, and "
                f"that is {value} now; remove it to make it again, or choose another --out."
            )


def checksum(path: Path) -> int:
    """Return the checksum of a file, computed once as long as it does not change."""
    stat = path.stat()
    return _checksum(path, stat.st_size, stat.st_mtime_ns)


@functools.cache
def _checksum(path: Path, size: int, time: int) -> int:
    return run_directory.checksum(path)


def origin(text: MonolingualText, lang: str) -> dict[str, int]:
    """Return the checksum of monolingual text, as far as it is there."""
    with contextlib.suppress(UserError, OSError):
        return {"mono_checksum": checksum(find_file(f"{text.mono}.{lang}"))}
    return {}


def drawn(text: MonolingualText, lang: str, *, folder: Path, pipeline: str) -> Path:
    """Return a file with the lines that a plan wants of monolingual text; draw them if needed.

    All that ask for the same lines get the same file.

    Args:
        text: the text, how many lines of it, and the seed.
        lang: its language.
        folder: for the lines.
        pipeline: the setting text_pipeline, which says what a word is.
    """
    source = find_file(f"{text.mono}.{lang}")
    if text.num_lines is None:
        return source
    place = Path(text.mono)
    name = f"{place.parent.name}_{place.name}-{text.num_lines}-seed{text.seed}.{lang}"
    record, target = folder / f"{name}.{MADE}", folder / name
    about = {"mono": f"{text.mono}.{lang}", **origin(text, lang)}
    if target.is_file():
        refuse_other(record, about)
        return target
    lines = _draw(source, text.num_lines, seed=text.seed, lang=lang, pipeline=pipeline)
    atomic_writes.write_json(record, about)
    return atomic_writes.write(target, b"".join(line + b"\n" for line in lines))


def _draw(source: Path, num_lines: int, *, seed: int, lang: str, pipeline: str) -> list[bytes]:
    """Return lines that prepare would keep, drawn without replacement, in their order.

    Each line has a random number, and those with the highest are taken. So the words of few
    lines need to be counted.
    """
    from aevnmt_tf.data.corpus_preparation import MAX_WORDS  # slow to import, as the tokeniser
    from aevnmt_tf.text import moses

    tokenise = moses.learn_truecaser(lang, []).tokenise if pipeline == "moses" else str
    numbers = random.Random(seed)
    taken: list[tuple[float, int, bytes]] = []
    for place, line in enumerate(_lines(source)):
        number = numbers.random()
        if len(taken) == num_lines and number < taken[0][0]:
            continue
        words = line.decode("utf-8", errors="replace").split()
        if 0 < len(words) <= MAX_WORDS >= len(tokenise(" ".join(words)).split(" ")):
            push = heapq.heappush if len(taken) < num_lines else heapq.heapreplace
            push(taken, (number, place, line))
    if len(taken) < num_lines:
        raise UserError(
            f"{source} has {len(taken)} lines of 1 to {MAX_WORDS} words, and num_lines is "
            f"{num_lines}."
        )
    return [line for _, _, line in sorted(taken, key=lambda one: one[1])]


def _lines(path: Path) -> Iterator[bytes]:
    """Return the lines of a file, plain or .gz, as training reads them."""
    with line_streams.open_input(str(path)) as stream:
        yield from line_streams.StreamLines(stream)


def _complete(path: Path) -> tuple[int, int]:
    """Return how many lines of a file are complete, and their bytes; none without a file."""
    if not path.is_file():
        return 0, 0
    with open(path, "rb") as file:
        sizes = [len(line) for line in file if line.endswith(b"\n")]
    return len(sizes), sum(sizes)


@dataclass
class PreparationJob(Job):
    """Learns text models from corpora, or segments corpora with those of `vocab_prefix`.

    Attributes:
        folder: where the prepared text goes; its last part names the job.
        hp: the settings, with raw corpora.
        settings: the folder for the files that jobs are started with.
        mono: monolingual text to learn from, too, by language.
        needs: what makes models and corpora.
    """

    folder: Path
    hp: hparams.Hparams
    settings: Path
    mono: Mapping[str, MonolingualText] = field(default_factory=dict)
    needs: tuple[Job, ...] = ()

    def __post_init__(self) -> None:
        self.name = f"{PREPARED}/{self.folder.name}"

    def _about(self) -> dict[str, Any]:
        """Return what the text is made from, as far as it is there."""
        found: dict[str, Any] = {name: getattr(self.hp, name) for name in TEXT}
        found["max_train"] = self.hp.max_train
        files = [
            f"{prefix}.{ending}"
            for kind in corpora.PARALLEL
            for prefix in corpora.prefixes(getattr(self.hp, f"{kind}_prefix"))
            for ending in corpora.endings(kind, self.hp).values()
        ]
        for lang, text in self.mono.items():
            found[f"drawn {lang}"] = [text.num_lines, text.seed]
            files.append(f"{text.mono}.{lang}")
        if self.hp.vocab_prefix is not None:
            files.append(str(Path(self.hp.vocab_prefix).parents[1] / MANIFEST))
        for name in files:
            with contextlib.suppress(UserError, OSError):
                found[name] = checksum(find_file(name))
        return found

    def check(self) -> None:
        """Find the files, but for synthetic text, which another job makes."""
        corpora.find_corpora(self.hp, kinds=("train", "dev", "test"))
        for lang, text in self.mono.items():
            find_file(f"{text.mono}.{lang}")

    def is_done(self) -> bool:
        """Return whether the text is there; a UserError where other things made it."""
        if not (self.folder / MANIFEST).is_file():
            return False
        refuse_other(self.folder / MADE, self._about())
        return True

    def command(self) -> JobCommand:
        """Prepare with a file of all settings."""
        path = self.settings / f"{self.name}.json"
        self.hp.save(path)
        words = verb("prepare", "--hparams", str(path), "--out", str(self.folder))
        place = self.folder.parents[1] / MONO
        for lang, text in self.mono.items():
            mono = drawn(text, lang, folder=place, pipeline=self.hp.text_pipeline)
            words += ["--mono_src" if lang == self.hp.src else "--mono_tgt", str(mono)]
        atomic_writes.write_json(self.folder / MADE, self._about())
        return JobCommand(words)


@dataclass
class BackTranslationJob(Job):
    """Translates monolingual text of the target language into the source language."""

    runs: PlanRuns
    synthetic: BackTranslation
    needs: tuple[Job, ...] = ()  # the training of the model

    def __post_init__(self) -> None:
        self.name = f"{SYNTHETIC}/{self.synthetic.name}"
        self._model = self.runs.plan.systems[self.synthetic.model]
        self._prefix = self.runs.synthetic_prefix(self.synthetic)
        self.folder = self._prefix.parent
        hp = self.runs.example(self._model, seed=self.synthetic.seed).hp
        # The model's source is the language of the monolingual text.
        self._lang, self._pipeline = hp.src, hp.text_pipeline
        self.target = Path(f"{self._prefix}.{hp.src}")
        self.source = Path(f"{self._prefix}.translation.{hp.tgt}")
        self.part = self.folder / PART

    @property
    def model(self) -> PlanRun:
        """The run that translates."""
        return self.runs.final_run(self._model, seed=self.synthetic.seed)

    def about(self) -> dict[str, Any]:
        """Return what the text is made from, as far as it is there: others make other text."""
        found: dict[str, Any] = {
            "model": self.model.name,
            "mono": f"{self.synthetic.mono}.{self._lang}",
            "num_lines": self.synthetic.num_lines,
            "search": self.synthetic.search,
        }
        with contextlib.suppress(UserError):
            weights = run_directory.find_weights(self.model.folder)
            found["weights"] = f"{weights.parent.name}/{weights.name}"
        return {**found, **origin(self.synthetic, self._lang)}

    def check(self) -> None:
        """Find the monolingual text."""
        find_file(f"{self.synthetic.mono}.{self._lang}")

    def done(self) -> int:
        """Return how many lines are translated so far."""
        return _complete(self.source if self.source.is_file() else self.part)[0]

    def has_begun(self) -> bool:
        """Return whether lines are translated."""
        return self.done() > 0

    def is_done(self) -> bool:
        """Return whether all lines are translated.

        A UserError where the folder holds text that was made from something else.
        """
        if self.target.is_file():
            refuse_other(self.folder / MADE, self.about())
        return self.source.is_file() and self.target.is_file()

    def draw(self) -> None:
        """Write the lines that are to be translated, if they are not there yet."""
        self.is_done()
        if self.target.is_file():
            return
        place = self.runs.folder / MONO
        lines = drawn(self.synthetic, self._lang, folder=place, pipeline=self._pipeline)
        atomic_writes.write_json(self.folder / MADE, self.about())
        with atomic_writes.opened(self.target) as file:
            file.writelines(line + b"\n" for line in _lines(lines))

    def rest(self) -> Path:
        """Return a file with the lines that are left; half a translated line is removed."""
        count, size = _complete(self.part)
        if self.part.is_file():
            os.truncate(self.part, size)
        path = self.folder / REST
        with open(path, "wb") as file:
            for number, line in enumerate(_lines(self.target)):
                if number >= count:
                    file.write(line + b"\n")
        return path

    def command(self) -> JobCommand:
        """Translate what is left, from standard input."""
        self.draw()
        words = verb("translate", "--model", str(self.model.folder))
        words += ["--search", self.synthetic.search, "--n_best", "1"]
        return JobCommand(words, stdin=self.rest(), stdout=self.part, adds=True)

    def finish(self) -> None:
        """Take the translation for whole; a UserError where lines are missing."""
        done, wanted = _complete(self.part)[0], _complete(self.target)[0]
        if done != wanted:
            raise UserError(f"{self.part} has {done} lines of {wanted}.")
        self.part.replace(self.source)
        (self.folder / REST).unlink(missing_ok=True)

    def progress(self) -> str:
        """Return how many lines are translated."""
        return f"{self.done():,} lines"

    outcome = progress
