"""tools/run in a made-up project: with a fake Python for speed, once with the real one."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

RUN = pathlib.Path(__file__).parents[2] / "tools" / "run"

# What tools/run may use of a machine, besides Python.
UTILITIES = "sh cat cut dirname grep head mkdir mv rm cp sleep tail tr".split()

# Like Python as far as tools/run looks: version, venv, pip. Files in "fake" are its settings.
FAKE_PYTHON = """#!/bin/sh
fake={fake}
case "$*" in
-ES*) cat "$fake/version" 2>/dev/null || exit 1 ;;
"-c import venv") [ ! -e "$fake/no-venv" ] ;;
"-c import ensurepip") [ ! -e "$fake/no-ensurepip" ] ;;
"-m pip --version") [ ! -e "$fake/no-pip" ] ;;
-) exec {python} - ;;
"-m venv --clear "*)
    for venv in "$@"; do :; done
    echo "venv $*" >>"$fake/calls"
    rm -rf "$venv"
    mkdir -p "$venv/bin"
    cp "$0" "$venv/bin/python" ;;
"-m pip --python "*) echo "bootstrap pip" >>"$fake/calls" ;;
"-I -m pip --version") ;;
*"--no-deps -e .") echo "editable $*" >>"$fake/calls" ;;
"-I -m pip install "*)
    while [ -e "$fake/slow" ]; do sleep 0.02 9>&-; done  # pip's children have no lock
    echo "install $*" >>"$fake/calls"
    if [ -e "$fake/pip-says" ]; then
        cat "$fake/pip-says"
        exit 1
    fi
    printf '#!/bin/sh\\necho "hello $*"\\n' >"$(dirname "$0")/hello"
    chmod +x "$(dirname "$0")/hello" ;;
*) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""


class Project:
    """A project with tools/run in it, on a machine whose only Python is a fake one."""

    def __init__(self, folder):
        self.root = folder / "my project"
        self.fake = folder / "fake"
        self.bin = folder / "bin"
        for each in (self.root / "tools", self.fake, self.bin):
            each.mkdir(parents=True)
        shutil.copy(RUN, self.root / "tools" / "run")
        (self.root / "requirements.txt").write_text("")
        (self.root / "setup.py").write_text("")
        (self.root / "pyproject.toml").write_text("")
        for name in [*UTILITIES, "chmod"]:
            (self.bin / name).symlink_to(shutil.which(name))
        self.env = {"PATH": str(self.bin), "HOME": str(folder)}

    def add_python(self, name="python3", *, version="3.11"):
        program = self.bin / name
        program.write_text(FAKE_PYTHON.format(fake=self.fake, python=sys.executable))
        program.chmod(0o755)
        self.set("version", version)
        return program

    def set(self, name, text=""):
        (self.fake / name).write_text(text)

    def start(self, *command, **env):
        return subprocess.Popen(
            [self.root / "tools" / "run", *command],
            env={**self.env, **env},
            cwd=self.fake,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command, **env):
        process = self.start(*command, **env)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def calls(self, kind):
        path = self.fake / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(kind)]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def wait_for(condition, *, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_first_call_installs_and_later_calls_start_at_once(project):
    project.add_python()
    assert project.run("hello", "a b", "c")[:2] == (0, "hello a b c\n")
    assert project.calls("install") == [
        "install -I -m pip install --disable-pip-version-check --no-input -r requirements.txt"
    ]
    assert len(project.calls("editable")) == 1
    code, out, err = project.run("hello")
    assert (code, out, err) == (0, "hello \n", "")
    assert len(project.calls("install")) == 1


def test_the_command_keeps_directory_exit_code_and_environment(project):
    project.add_python()
    script = 'pwd; echo "$VIRTUAL_ENV"; exit 7'
    code, out, _ = project.run("sh", "-c", script)
    assert code == 7
    assert out.splitlines() == [str(project.fake), str(project.root / ".venv")]


def test_commands_know_how_they_were_started(project):
    project.add_python()
    _, out, _ = project.run("sh", "-c", "echo $AEVNMT_RUNNER")
    assert out.strip().endswith("tools/run")


def test_signals_reach_the_command(project):
    project.add_python()
    project.run("hello")
    process = project.start(
        "sh", "-c", "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.1; done"
    )
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "caught\n"
    assert process.returncode == 3


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "setup.py"])
def test_a_changed_file_installs_again_without_starting_over(project, name):
    project.add_python()
    project.run("hello")
    (project.root / name).write_text("# other\n")
    assert project.run("hello")[0] == 0
    assert len(project.calls("install")) == 2
    assert len(project.calls("venv")) == 1
    project.run("hello")
    assert len(project.calls("install")) == 2


def test_an_environment_made_by_hand_is_adopted(project):
    python = project.add_python()
    (project.root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(python, project.root / ".venv" / "bin" / "python")
    assert project.run("hello")[0] == 0
    assert (len(project.calls("venv")), len(project.calls("install"))) == (0, 1)


def test_another_python_or_another_place_starts_over(project):
    project.add_python()
    project.run("hello")
    project.set("version", "3.12")
    assert project.run("hello")[0] == 0
    assert len(project.calls("venv")) == 2
    project.root = project.root.rename(project.root.with_name("moved"))
    assert project.run("hello")[0] == 0
    assert len(project.calls("venv")) == 3


def test_python_can_be_named(project):
    program = project.add_python("snake")
    assert project.run("hello", PYTHON=str(program))[0] == 0
    code, _, err = project.run("hello", PYTHON="/nowhere/python")
    assert code == 125
    assert "PYTHON=/nowhere/python does not run" in err and err.count("\n") == 1


def test_a_suitable_python_is_found_behind_an_unsuitable_one(project):
    old = project.bin / "python3"
    old.write_text("#!/bin/sh\necho 3.14\n")
    old.chmod(0o755)
    project.add_python("python3.10", version="3.10")
    assert project.run("hello")[0] == 0


@pytest.mark.parametrize("version", ["3.14", "3.9", "2.7"])
def test_an_unsuitable_python_is_named(project, version):
    project.add_python(version=version)
    code, out, err = project.run("hello")
    assert (code, out) == (125, "")
    assert err.count("\n") == 1
    assert f"Python 3.10 to 3.13 is needed, but python3 is {version}" in err


def test_no_python(project):
    code, _, err = project.run("hello")
    assert code == 125
    assert "there is no Python here" in err and err.count("\n") == 1


@pytest.mark.parametrize("missing", [["no-venv"], ["no-ensurepip", "no-pip"]])
def test_python_without_venv(project, missing):
    project.add_python()
    for name in missing:
        project.set(name)
    code, _, err = project.run("hello")
    assert code == 125
    assert "apt install python3.11-venv" in err and err.count("\n") == 1
    for name in missing:
        (project.fake / name).unlink()
    assert project.run("hello")[0] == 0


def test_pip_is_enough_where_ensurepip_is_missing(project):
    project.add_python()
    project.set("no-ensurepip")
    assert project.run("hello")[0] == 0
    assert "--without-pip" in project.calls("venv")[0]
    assert project.calls("bootstrap pip")


def test_without_network_the_sentence_says_so(project):
    project.add_python()
    message = (
        "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\nERROR: none\n"
    )
    project.set("pip-says", message)
    code, out, err = project.run("hello")
    assert (code, out) == (125, "")
    assert message in err
    assert "could not be downloaded; is this machine online?" in err.splitlines()[-1]
    (project.fake / "pip-says").unlink()
    assert project.run("hello")[0] == 0
    assert len(project.calls("venv")) == 1  # nothing was installed, so nothing is broken


def test_other_failures_show_the_last_lines_of_pip(project):
    project.add_python()
    project.set(
        "pip-says", "".join(f"line {n}\n" for n in range(100)) + "ERROR: no such version\n"
    )
    code, _, err = project.run("hello")
    assert code == 125
    assert "ERROR: no such version" in err and "line 95" in err and "line 50" not in err
    assert "pip could not install the packages" in err.splitlines()[-1]


def test_a_full_disk_starts_over(project):
    project.add_python()
    project.set("pip-says", "ERROR: Could not install packages due to an OSError: [Errno 28]\n")
    assert project.run("hello")[0] == 125
    (project.fake / "pip-says").unlink()
    assert project.run("hello")[0] == 0
    assert len(project.calls("venv")) == 2


def test_no_command_and_unknown_command(project):
    project.add_python()
    code, _, err = project.run()
    assert (code, err) == (
        2,
        "tools/run: usage: tools/run CMD..., for example: tools/run pytest\n",
    )
    code, _, err = project.run("no-such-command")
    assert code == 127
    assert 'no command "no-such-command"' in err


def test_two_first_calls_install_once(project):
    project.add_python()
    project.set("slow")
    first = project.start("hello", "a")
    wait_for((project.root / ".venv" / "install.log").exists)
    second = project.start("hello", "b")
    assert "waiting for another call" in second.stderr.readline()
    (project.fake / "slow").unlink()
    results = [process.communicate(timeout=60) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert [out for out, _ in results] == ["hello a\n", "hello b\n"]
    assert len(project.calls("install")) == 1


def test_a_call_after_a_kill_waits_for_the_orphan_and_repairs(project):
    project.add_python()
    project.set("slow")
    process = project.start("hello")
    wait_for((project.root / ".venv" / "install.log").exists)
    process.kill()  # the shell alone: pip lives on
    process.wait()
    after = project.start("hello")
    assert "waiting for another call" in after.stderr.readline()
    (project.fake / "slow").unlink()
    process.communicate()
    assert after.communicate(timeout=120)[0] == "hello \n" and after.returncode == 0
    assert len(project.calls("venv")) == 2


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_installation_and_the_next_call_repairs(project, number, code):
    project.add_python()
    project.set("slow")
    process = project.start("hello")
    wait_for((project.root / ".venv" / "install.log").exists)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert "interrupted" in err
    (project.fake / "slow").unlink()
    assert project.run("hello")[0] == 0


# A build backend without dependencies, so that the real pip can install the project offline.
BACKEND = """
import os, time, zipfile

FILES = {
    "demo.py": ["def main(): print('real')"],
    "demo-1.0.dist-info/METADATA": [
        "Metadata-Version: 2.1", "Name: demo", "Version: 1.0", "Provides-Extra: dev"
    ],
    "demo-1.0.dist-info/WHEEL": [
        "Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any"
    ],
    "demo-1.0.dist-info/entry_points.txt": ["[console_scripts]", "hello = demo:main"],
}

def build_editable(folder, config_settings=None, metadata_directory=None):
    while os.path.exists("slow"):
        time.sleep(0.05)
    name = "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, lines in FILES.items():
            wheel.writestr(path, "\\n".join(lines) + "\\n")
        wheel.writestr("demo-1.0.dist-info/RECORD", "".join(n + ",,\\n" for n in FILES))
    return name
"""


@pytest.mark.slow
def test_real_python_killed_in_the_middle_and_repaired(project):
    project.env = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    (project.root / "backend.py").write_text(BACKEND)
    (project.root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    slow = project.root / "slow"
    slow.touch()
    process = project.start("hello")
    log = project.root / ".venv" / "install.log"
    wait_for(lambda: log.exists() and "editable" in log.read_text(), seconds=100)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    slow.unlink()
    assert project.run("hello")[:2] == (0, "real\n")
    assert project.run("python", "-c", "import demo; demo.main()")[1] == "real\n"
    log.unlink()
    assert project.run("hello") == (0, "real\n", "")
    assert not log.exists()  # pip was not called
