"""Back-translated text: what is to be translated, and how far the translation is.

FOLDER/made.json               what the text is made from
FOLDER/train.TGT               lines of the target language, drawn once
FOLDER/train.translation.SRC   their translations; FOLDER/.translation.part until it is whole
"""

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

from aevnmt_tf import hparams_files, run_directory
from aevnmt_tf.data import line_files
from aevnmt_tf.data.pairs import find_file
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments.plan import Synthetic
from aevnmt_tf.experiments.runs import Run, read_json

MADE, PART, REST = "made.json", ".translation.part", ".rest"


class SyntheticText:
    """The files of one back-translation.

    Args:
        synthetic: the plan of it.
        prefix: of the files.
        run: the run that translates; its source is the language of the monolingual text.
    """

    def __init__(self, synthetic: Synthetic, prefix: Path, *, run: Run):
        self._synthetic, self._run = synthetic, run
        self.folder = prefix.parent
        self.target = Path(f"{prefix}.{run.hp.src}")
        self.source = Path(f"{prefix}.translation.{run.hp.tgt}")
        self.part = self.folder / PART

    def about(self) -> dict:
        """What the text is made from: other values make other text."""
        s = self._synthetic
        return {
            "model": self._run.name,
            "mono": f"{s.mono}.{self._run.hp.src}",
            "num_lines": s.num_lines,
            "search": s.search,
        }

    def _origins(self) -> dict:
        """Which weights translate, and which text, as far as they are there."""
        found = {}
        with contextlib.suppress(UserError):
            weights = run_directory.find_weights(self._run.folder)
            found["weights"] = f"{weights.parent.name}/{weights.name}"
        with contextlib.suppress(UserError, OSError):
            mono = find_file(f"{self._synthetic.mono}.{self._run.hp.src}")
            found["mono_checksum"] = run_directory.checksum(mono)
        return found

    def refuse_changes(self) -> None:
        """A UserError where the folder holds text that was made from something else."""
        made = read_json(self.folder / MADE) if self.target.is_file() else None
        wanted = {**self.about(), **self._origins()}
        changed = [key for key, value in wanted.items() if made and made.get(key) != value]
        if changed:
            raise UserError(
                f"{self.folder} holds text that was made with {changed[0]} "
                f"{made.get(changed[0])}, and that is {wanted[changed[0]]} now; remove it to "
                "make it again, or choose another --out"
            )

    def is_finished(self) -> bool:
        """Whether all lines are translated."""
        self.refuse_changes()
        return self.source.is_file() and self.target.is_file()

    def draw(self) -> None:
        """Write the lines that are to be translated, if they are not there yet."""
        self.refuse_changes()
        if self.target.is_file():
            return
        mono = find_file(f"{self._synthetic.mono}.{self._run.hp.src}")
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = self._wanted(mono)
        temporary = self.folder / ".target.part"
        with open(temporary, "wb") as file:
            for number, line in enumerate(_lines(mono)):
                if wanted is None or number in wanted:
                    file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        hparams_files.write(self.folder / MADE, {**self.about(), **self._origins()})
        temporary.replace(self.target)

    def _wanted(self, mono: Path) -> set[int] | None:
        """The numbers of the lines to draw; None: all."""
        wanted = self._synthetic.num_lines
        if wanted is None:
            return None
        count = sum(1 for _ in _lines(mono))
        if count < wanted:
            raise UserError(f"{mono} has {count} lines, and num_lines is {wanted}")
        return set(random.Random(self._synthetic.seed).sample(range(count), wanted))

    def done(self) -> int:
        """How many lines are translated so far."""
        if self.source.is_file():
            return count_lines(self.source)
        return count_lines(self.part) if self.part.is_file() else 0

    def rest(self) -> Path:
        """A file with the lines that are left; a translation that was cut short is removed."""
        keep = 0
        if self.part.is_file():
            keep = count_lines(self.part)
            _cut(self.part)
        path = self.folder / REST
        with open(path, "wb") as file:
            for number, line in enumerate(_lines(self.target)):
                if number >= keep:
                    file.write(line + b"\n")
        return path

    def finish(self) -> None:
        """Take the translation for whole; a UserError where lines are missing."""
        done, wanted = count_lines(self.part), count_lines(self.target)
        if done != wanted:
            raise UserError(f"{self.part} has {done} lines of {wanted}")
        self.part.replace(self.source)
        (self.folder / REST).unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, plain or .gz, as training reads them."""
    with line_files.open_input(str(path)) as stream:
        for number, line in enumerate(stream):
            if number == 0:
                line = line.removeprefix(line_files.BOM)
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def count_lines(path: Path) -> int:
    """How many lines of a file are complete."""
    count = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            count += block.count(b"\n")
    return count


def _cut(path: Path) -> None:
    """Remove what stands after the last end of a line."""
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 16))
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                file.truncate(start + place + 1)
                return
            end = start
        file.truncate(0)
