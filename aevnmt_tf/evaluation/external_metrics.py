"""METEOR and BEER, computed by the authors' programs, which need Java.

As in the paper, both score text tokenised by sacreBLEU's 13a tokenizer. Both are percentages
here. METEOR reads paraphrases from data/ next to the jar. The jar in the PyPI package
pycocoevalcap comes with English paraphrases only.

    METEOR 1.5   java -Xmx2G -jar meteor-1.5.jar HYP REF -l LANG      http://www.cs.cmu.edu/~alavie/METEOR
    BEER 2.0     beer_2.0/beer -s HYP -r REF --printSentScores        https://github.com/stanojevic/beer
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import option
from aevnmt_tf.evaluation import metrics

NAMES = ("meteor", "beer")
KNOWN = (*metrics.NAMES, *NAMES)
_PARAPHRASED = ("ar", "cz", "de", "en", "es", "fr", "ru")  # METEOR 1.5 has paraphrases of these
_NUMBER = r"([-+0-9.eE]+|NaN)"

_Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class ProgramResult:
    """A corpus score, the scores of the sentences, and a signature."""

    score: float
    sentences: list[float]
    signature: str


_program = partial(option, str, group="METEOR and BEER, on 13a-tokenised text", metavar="PATH")


@dataclass(frozen=True)
class Programs:
    """The paths of the programs, and the language of the translations."""

    meteor_jar: str | None = _program(None, "path of meteor-1.5.jar, next to its data/")
    beer: str | None = _program(None, "path of beer_2.0, or of the program in it")
    java: str = _program("java", "Java program to run them with")
    language: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics whose programs are given."""
        paths = (self.meteor_jar, self.beer)
        return tuple(name for name, path in zip(NAMES, paths, strict=True) if path)

    def check(self, names: Collection[str]) -> None:
        """Raise a UserError if one of the metrics cannot be computed."""
        if "meteor" in names:
            if self.meteor_jar is None:
                raise UserError("the metric meteor needs --meteor_jar meteor-1.5.jar.")
            if not os.path.isfile(self.meteor_jar):
                raise UserError(f"--meteor_jar: there is no file {self.meteor_jar}.")
            if self.language is None:
                raise UserError("the metric meteor needs the target language: give --language.")
            data = Path(self.meteor_jar).parent / "data"
            if self.language in _PARAPHRASED and data.is_dir():
                if not (data / f"paraphrase-{self.language}.gz").is_file():
                    raise UserError(
                        f"--meteor_jar: {data}/paraphrase-{self.language}.gz is missing; use "
                        "the jar of the complete METEOR 1.5."
                    )
        if "beer" in names:
            if self.beer is None:
                raise UserError("the metric beer needs --beer beer_2.0.")
            self._beer_program()
        if set(names) & set(NAMES):
            self._java()

    def score(
        self, name: str, hypotheses: Sequence[str], references: Sequence[str]
    ) -> ProgramResult:
        """Score translations with the metric "meteor" or "beer"."""
        self.check([name])
        with tempfile.TemporaryDirectory(prefix="aevnmt-") as folder:
            files = []
            for side, lines in (("hypotheses", hypotheses), ("references", references)):
                path = Path(folder) / side
                tokenised = map(metrics.tokeniser_13a(), lines)
                path.write_text("".join(f"{line}\n" for line in tokenised), "utf-8")
                files.append(str(path))
            run = self._meteor if name == "meteor" else self._beer
            return run(*files, count=len(hypotheses))

    def _meteor(self, hypotheses: str, references: str, *, count: int) -> ProgramResult:
        jar = os.path.abspath(str(self.meteor_jar))
        # Without -norm, METEOR does not tokenise the text a second time.
        command = [self._java(), "-Xmx2G", "-jar", jar, hypotheses, references]
        done = _run("METEOR", [*command, "-l", str(self.language)])
        return ProgramResult(
            _numbers("METEOR", rf"^Final score:\s+{_NUMBER}\s*$", done, 1)[0],
            _numbers("METEOR", rf"^Segment \d+ score:\s+{_NUMBER}\s*$", done, count),
            f"nrefs:1|lang:{self.language}|tok:13a|"
            + _version(r"(?m)^Meteor version:\s+(\S+)", done.stdout),
        )

    def _beer(self, hypotheses: str, references: str, *, count: int) -> ProgramResult:
        program = self._beer_program()
        # BEER's program calls `java` itself.
        path = os.pathsep.join([os.path.dirname(self._java()), os.environ.get("PATH", "")])
        command = [program, "-s", hypotheses, "-r", references, "--printSentScores"]
        done = _run("BEER", command, env={**os.environ, "PATH": path})
        return ProgramResult(
            # BEER's own total, as in the paper: the sum divided by N + 1.
            _numbers("BEER", rf"^total BEER {_NUMBER}\s*$", done, 1)[0],
            _numbers("BEER", rf"^sent \d+ score is {_NUMBER}\s*$", done, count),
            "nrefs:1|tok:13a|" + _version(r"beer_(\d[\w.]*)", os.path.dirname(program)),
        )

    def _beer_program(self) -> str:
        path = Path(str(self.beer))
        if path.suffix == ".jar":
            path = path.parent
        program = path / "beer" if path.is_dir() else path
        if not program.is_file():
            raise UserError(f"--beer: there is no program {program}.")
        if not os.access(program, os.X_OK):
            raise UserError(f"--beer: {program} is not executable: run chmod +x {program}.")
        return str(program.resolve())

    def _java(self) -> str:
        found = shutil.which(self.java)
        if found is None:
            raise UserError(
                f"--java: there is no program {self.java}, which METEOR and BEER need: install "
                "a Java runtime, or give its path."
            )
        return os.path.abspath(found)


def _run(title: str, command: Sequence[str], env: dict[str, str] | None = None) -> _Done:
    """Run a program and return the finished process; raise a UserError if it failed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            env=env,
            stdin=subprocess.DEVNULL,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UserError(f"{title} cannot be run ({command[0]}): {error.strerror}.") from None
    if done.returncode:
        raise UserError(f"{title} failed with exit code {done.returncode}{_reason(done)}.")
    return done


def _reason(done: _Done) -> str:
    """Return the reason that a program printed, as the end of a message."""
    # Java prints the reason first, and then the stack trace.
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f": {said[0].rstrip('.')}" if said else ""


def _numbers(title: str, pattern: str, done: _Done, expected: int) -> list[float]:
    """Return the numbers that match a pattern in the output, as percentages."""
    found = re.findall(pattern, done.stdout, re.MULTILINE)
    if len(found) != expected:
        raise UserError(
            f"{title} printed {len(found)} scores instead of {expected}{_reason(done)}."
        )
    return [100 * float(number) for number in found]


def _version(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return f"version:{found.group(1) if found else 'unknown'}"
