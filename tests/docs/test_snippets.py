"""Every command and every Python snippet of README and docs: it parses, and (slow) it runs."""

import dataclasses
import importlib
import os
import pathlib
import re
import shlex
import stat
import subprocess
import sys

import pytest

from aevnmt_tf.__main__ import module_of

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"(?:^<!-- test: (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page, and what the page says about testing it."""

    page: pathlib.Path
    line: int
    language: str
    code: str
    mark: str

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "python") and not self.mark.startswith("skip")

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: pathlib.Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["code"],
            found["mark"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]


def commands(block: Block) -> list[list[str]]:
    """The words of each `aevnmt VERB` command of a shell block, without redirections."""
    found = []
    for line in block.code.replace("\\\n", " ").splitlines():
        for command in re.split(r"[|;]|&&", line.split(" < ")[0].split(" > ")[0]):
            if "aevnmt" not in command:
                continue
            words = shlex.split(command)
            if words[:1] == ["tools/run"]:
                words = words[1:]
            if words[:1] == ["aevnmt"] and len(words) > 1 and not words[1].startswith("-"):
                found.append(words[1:])
    return found


def test_pages_have_commands():
    """The expressions above find something."""
    assert sum(block.language == "python" for block in ALL) >= 3
    assert sum(len(commands(block)) for block in ALL if block.language == "bash") >= 15


@pytest.mark.parametrize("block", ALL, ids=str)
def test_it_parses(block):
    if block.language == "python":
        compile(block.code, str(block), "exec")
    if block.language == "bash":
        subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)
        for verb, *words in commands(block):
            importlib.import_module(module_of(verb)).parser().parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


# Stands before the commands of a page: short trainings, servers that stop once they answer.
SHIM = """#!{python}
import os, subprocess, sys, time, urllib.request
verb, words = sys.argv[1], sys.argv[2:]
command = [sys.executable, "-m", "aevnmt_tf", verb, *words]
if verb == "train" and "--max_steps" not in words:
    command += ["--max_steps", "20"]
if verb != "serve":
    sys.exit(subprocess.run(command).returncode)
port = int(os.environ["TEST_PORT"])
server = subprocess.Popen([*command, "--port", str(port), "--grpc_port", "0"])
try:
    for _ in range(240):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{{port}}/readyz", timeout=5)
            break
        except OSError:
            if server.poll() is not None:
                sys.exit(1)
            time.sleep(0.5)
    else:
        sys.exit("the server is never ready")
finally:
    server.terminate()
    code = server.wait(120)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder as a reader has it after the quick start: a demo run, an export, own text."""
    folder = tmp_path_factory.mktemp("reader")
    binaries = folder / "bin"
    binaries.mkdir()
    for name, text in {
        "aevnmt": SHIM.format(python=sys.executable),
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755 | stat.S_IEXEC)
    for name in ("hparams", "tools", "results"):
        (folder / name).symlink_to(ROOT / name)
    environment = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TEST_PORT": "8599",
    }

    def run(words, **options):
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, **options
        )

    settings = "--num_units 32 --vocab_size 400 --max_steps 60 --steps_per_external_eval 60"
    for command in (
        f"aevnmt train --hparams hparams/demo.json {settings}",
        "aevnmt export --model runs/demo --export_dir exports/demo",
    ):
        made = run(command.split())
        assert made.returncode == 0, made.stderr[-2000:]
    (folder / "data").mkdir()
    for name in ("train", "dev", "test"):
        for lang in ("en", "de"):
            lines = (folder / f"runs/demo/demo/{name}.{lang}").read_text().splitlines(True)
            count = 400 if name == "train" else 40  # an untrained model decodes slowly
            (folder / f"data/{name}.{lang}").write_text("".join(lines[:count]))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_runs(page, workplace):
    for block in blocks(page):
        if not block.runs:
            continue
        words = ["bash", "-euo", "pipefail", "-c", block.code]
        if block.language == "python":
            words = ["python", "-c", block.code]
        done = workplace(words, timeout=900)
        assert done.returncode == 0, f"{block}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
