"""Commands that are suggested: they work in the shell that started the process."""

import shlex
import subprocess
import sys

import pytest

from aevnmt_tf.cli import next_commands


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put executables beside a Python that is this process's own."""
    monkeypatch.delenv(next_commands.RUNNER, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "bin").mkdir()

    def add(*names):
        for name in names:
            path = tmp_path / "bin" / name
            path.write_text(f'#!/bin/sh\necho {name} "$@"\n')
            path.chmod(0o755)
        return tmp_path / "bin"

    return add


def test_an_active_environment_has_the_console_command(program, monkeypatch):
    monkeypatch.setenv("PATH", str(program("python", "aevnmt")))
    command = next_commands.verb("translate", "--model", "my runs/a")
    assert command == "aevnmt translate --model 'my runs/a'"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stdout == "aevnmt translate --model my runs/a\n"


def test_without_the_console_command_python_runs_the_module(program, monkeypatch):
    monkeypatch.setenv("PATH", str(program("python")))
    assert next_commands.verb("serve") == "python -m aevnmt_tf.serve"


def test_outside_of_the_environment_python_is_named_in_full(program, monkeypatch):
    place = program("python", "aevnmt", "tensorboard")
    monkeypatch.setenv("PATH", "/nowhere")
    assert (
        next_commands.verb("serve")
        == f"{shlex.quote(str(place / 'python'))} -m aevnmt_tf.serve"
    )
    assert next_commands.tool("tensorboard", "tensorboard.main").endswith("-m tensorboard.main")


def test_tools_run_stays_in_front(program, monkeypatch):
    monkeypatch.setenv("PATH", str(program("python", "aevnmt", "tensorboard")))
    monkeypatch.setenv(next_commands.RUNNER, "../tools/run")
    assert next_commands.verb("serve") == "../tools/run aevnmt serve"
    command = next_commands.tool("tensorboard", "tensorboard.main", "--logdir", "a")
    assert command == "../tools/run tensorboard --logdir a"
