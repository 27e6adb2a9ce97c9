"""Jobs that create text: back-translation, and segmentation with shared text models.

RUNS/synthetic/NAME/made.json               what the text was created from
RUNS/synthetic/NAME/train.TGT               lines of the target language, drawn once
RUNS/synthetic/NAME/train.translation.SRC   translations; .translation.part until complete
"""

import contextlib
import heapq
import itertools
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
from aevnmt_tf.experiments.plan_runs import MONO, PREPARED, SYNTHETIC, TEXT, PlanRuns
from aevnmt_tf.experiments.planned_run import PlannedRun, checksum
from aevnmt_tf.experiments.processes import JobCommand
from aevnmt_tf.experiments.scheduler import Job, verb
from aevnmt_tf.storage import atomic_writes, line_streams, run_directory
from aevnmt_tf.storage.text_files import find_file

MADE = "made.json"
MANIFEST = run_directory.MANIFEST  # of prepared text, written last
PART, REST = ".translation.part", ".rest"


def refuse_other(record: Path, wanted: Mapping[str, Any]) -> None:
    """Raise a UserError if the record of some text differs from what is wanted."""
    made = run_directory.read_json(record)
    for name, value in wanted.items():
        if made and made.get(name) != value:
            raise UserError(
                f"{record.parent} contains text created with {name} {made.get(name)}, but it "
                f"is {value} now; remove the folder to recreate it, or choose another --out."
            )


def origin(text: MonolingualText, lang: str) -> dict[str, int]:
    """Return the checksum of monolingual text, if it exists."""
    with contextlib.suppress(UserError, OSError):
        return {"mono_checksum": checksum(find_file(f"{text.mono}.{lang}"))}
    return {}


def drawn(text: MonolingualText, lang: str, *, folder: Path, pipeline: str) -> Path:
    """Return a file with the lines that a plan asks for; all jobs share those in `folder`.

    `pipeline` is the setting text_pipeline, which defines words.
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
    """Draw lines that prepare would keep, without replacement and in their original order.

    Each line gets a random number, and the lines with the highest numbers are taken. Words are
    only counted in lines that would be among them.
    """
    from aevnmt_tf.data.corpus_preparation import MAX_WORDS  # both are slow to import
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
            f"{source} has only {len(taken)} lines of 1 to {MAX_WORDS} words, but num_lines is "
            f"{num_lines}."
        )
    return [line for _, _, line in sorted(taken, key=lambda one: one[1])]


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, plain or .gz, as training reads them."""
    with line_streams.open_input(str(path)) as stream:
        yield from line_streams.StreamLines(stream)


def _complete(path: Path) -> tuple[int, int]:
    """Return the number of complete lines of a file, and their size in bytes."""
    if not path.is_file():
        return 0, 0
    with open(path, "rb") as file:
        sizes = [len(line) for line in file if line.endswith(b"\n")]
    return len(sizes), sum(sizes)


@dataclass
class PreparationJob(Job):
    """Learns text models from corpora, or segments corpora with those of `vocab_prefix`."""

    runs: PlanRuns
    folder: Path  # for the prepared text
    hp: hparams.Hparams  # with raw corpora
    mono: Mapping[str, MonolingualText] = field(default_factory=dict)  # by language
    needs: tuple[Job, ...] = ()  # those that create models and corpora

    def __post_init__(self) -> None:
        self.name = f"{PREPARED}/{self.folder.name}"

    def _about(self) -> dict[str, Any]:
        """Return what the text is created from, as far as it exists."""
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
        """Check that the files exist, except for synthetic text, which another job creates."""
        corpora.find_corpora(self.hp, kinds=("train", "dev", "test"))
        for lang, text in self.mono.items():
            find_file(f"{text.mono}.{lang}")

    def is_done(self) -> bool:
        """Return whether the text exists; a UserError if it was created from something else."""
        if not (self.folder / MANIFEST).is_file():
            return False
        refuse_other(self.folder / MADE, self._about())
        return True

    def command(self) -> JobCommand:
        """Prepare with a file of all settings."""
        path = self.runs.settings / f"{self.name}.json"
        self.hp.save(path)
        words = verb("prepare", "--hparams", str(path), "--out", str(self.folder))
        place = self.runs.folder / MONO
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
    def model(self) -> PlannedRun:
        """The run that translates."""
        return self.runs.run(self._model, seed=self.synthetic.seed)

    def about(self) -> dict[str, Any]:
        """Return what the text is created from, as far as it exists."""
        found: dict[str, Any] = {
            "model": self.model.name,
            "mono": f"{self.synthetic.mono}.{self._lang}",
            "num_lines": self.synthetic.num_lines,
            "search": self.synthetic.search,
        }
        if (weights := self.model.weights()) is not None:
            found["weights"] = weights
        return {**found, **origin(self.synthetic, self._lang)}

    def check(self) -> None:
        """Check that the monolingual text exists."""
        find_file(f"{self.synthetic.mono}.{self._lang}")

    def done(self) -> int:
        """Return the number of lines translated so far."""
        return _complete(self.source if self.source.is_file() else self.part)[0]

    def has_begun(self) -> bool:
        """Return whether some lines are translated."""
        return self.done() > 0

    def is_done(self) -> bool:
        """Return whether all lines are translated.

        A UserError if the folder contains text that was created from something else.
        """
        if self.target.is_file():
            refuse_other(self.folder / MADE, self.about())
        return self.source.is_file() and self.target.is_file()

    def draw(self) -> None:
        """Write the lines to translate, unless they exist."""
        self.is_done()
        if self.target.is_file():
            return
        place = self.runs.folder / MONO
        lines = drawn(self.synthetic, self._lang, folder=place, pipeline=self._pipeline)
        atomic_writes.write_json(self.folder / MADE, self.about())
        with atomic_writes.opened(self.target) as file:
            file.writelines(line + b"\n" for line in _lines(lines))

    def rest(self) -> Path:
        """Return a file with the remaining lines; an incomplete translation is removed."""
        count, size = _complete(self.part)
        if self.part.is_file():
            os.truncate(self.part, size)
        path = self.folder / REST
        with open(path, "wb") as file:
            rest = itertools.islice(_lines(self.target), count, None)
            file.writelines(line + b"\n" for line in rest)
        return path

    def command(self) -> JobCommand:
        """Translate the remaining lines, from standard input."""
        self.draw()
        words = verb("translate", "--model", str(self.model.folder))
        words += ["--search", self.synthetic.search, "--n_best", "1"]
        return JobCommand(words, stdin=self.rest(), stdout=self.part, adds=True)

    def finish(self) -> None:
        """Rename the complete translation; a UserError if lines are missing."""
        done, wanted = _complete(self.part)[0], _complete(self.target)[0]
        if done != wanted:
            raise UserError(f"{self.part} has {done} of {wanted} lines.")
        self.part.replace(self.source)
        (self.folder / REST).unlink(missing_ok=True)

    def progress(self) -> str:
        """Return the number of translated lines."""
        return f"{self.done():,} lines"

    outcome = progress
