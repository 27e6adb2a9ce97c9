"""What verbs share: exit codes, one-sentence errors, a quiet terminal, the dispatcher."""

import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from aevnmt_tf import __main__ as dispatcher
from aevnmt_tf import __version__, hparams
from aevnmt_tf.cli import command, quiet
from aevnmt_tf.cli.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
CHATTER = re.compile(r"^[IWEF]\d{4} |absl|cuda|oneDNN|tensorflow:|rebuild TensorFlow", re.M)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Undoes what a quiet terminal changes in this process."""
    level, finders = logging.getLogger("tensorflow").level, list(sys.meta_path)
    for name in ("TF_CPP_MIN_LOG_LEVEL", "GRPC_VERBOSITY"):
        # Set, then deleted, so that the end of the test restores what was there.
        monkeypatch.setenv(name, "3")
        monkeypatch.delenv(name)
    with warnings.catch_warnings():
        yield
    logging.getLogger("tensorflow").setLevel(level)
    sys.meta_path[:] = finders


def call(run, argv=(), *, parser=None):
    return command.main(run, parser=parser or command.Parser("try"), argv=list(argv))


def script(body, *argv, env=None):
    """Runs a verb whose `run(args)` has the given body, in a process of its own."""
    code = (
        "import sys\nfrom aevnmt_tf import hparams\n"
        "from aevnmt_tf.cli import command, quiet\ndef run(args):\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
        + "\nparser = command.Parser('try', 'Tries things.')\nhparams.add_flags(parser)"
        + "\nsys.exit(command.main(run, parser=parser))"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GRPC_"))}
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=ROOT,
        env={**clean, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


# ---------------------------------------------------------------- exit codes


def test_success_is_zero_and_runs_may_say_otherwise():
    assert call(lambda args: None) == 0
    assert call(lambda args: 0) == 0
    assert call(lambda args: 1) == 1


def test_a_users_error_is_one_sentence_and_two(capsys):
    def run(args):
        raise UserError("data.en has no line 3.")

    assert call(run) == 2
    assert capsys.readouterr().err == "aevnmt try: data.en has no line 3.\n"


def test_verbose_shows_where_a_users_error_comes_from(capsys):
    def run(args):
        raise UserError("data.en has no line 3.")

    assert call(run, ["--verbose"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback():
    def run(args):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(run)


def test_ctrl_c_is_130():
    process = script("import time\nprint('started', flush=True)\ntime.sleep(60)")
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert output(process) == (130, "", "aevnmt try: interrupted\n")


def test_a_second_ctrl_c_ends_the_process_while_it_is_shutting_down():
    # In short sleeps: a signal just before a call of the system would wait for its end.
    wait = "lambda: [time.sleep(0.1) for _ in range(600)]"
    leave = f"import atexit, time\natexit.register({wait})\n"
    said = "atexit.register(print, 'leaving', flush=True)\nprint('started', flush=True)\n"
    process = script(leave + said + "time.sleep(60)")
    for line in ("started\n", "leaving\n"):
        assert process.stdout.readline() == line
        process.send_signal(signal.SIGINT)
    assert output(process) == (130, "", "aevnmt try: interrupted\n")


def test_signals_are_as_before_after_a_command():
    before = signal.getsignal(signal.SIGINT)
    assert call(lambda args: 0) == 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(unbuffered):
    body = "while True: print('line ' * 100)"
    process = script(body, env={"PYTHONUNBUFFERED": unbuffered})
    assert process.stdout.readline().startswith("line")
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (141, "")
    process.stderr.close()


def test_output_that_meets_a_closed_pipe_only_at_the_end_is_quiet():
    process = script("print('in the buffer until the end', sys.stdin.read())")
    process.stdout.close()
    process.stdin.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (141, "")
    process.stderr.close()


# ---------------------------------------------------------------- command lines


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--batchsize", "3"], "unknown flag --batchsize; did you mean --batch_size?"),
        (["--batch_siz=3"], "unknown flag --batch_siz; did you mean --batch_size?"),
        (["--batch"], "unknown flag --batch"),
        (["--xyzzy"], "unknown flag --xyzzy (see"),
        (["--theirs=3"], "unknown flag --theirs: use --ours."),
        (["stray"], "unknown argument stray"),
        (["--batch_size"], "argument --batch_size: expected one argument"),
        (["--batch_size", "many"], "--batch_size: batch_size must be a whole number"),
        (["--hparams", "absent.json"], "absent.json"),
    ],
)
def test_a_bad_command_line_is_one_sentence_and_two(capsys, argv, sentence):
    parser = command.Parser("try", advice={"--theirs": "use --ours."})
    hparams.add_flags(parser)
    assert call(lambda args: hparams.from_args(args) and 0, argv, parser=parser) == 2
    found = capsys.readouterr().err
    assert found.startswith("aevnmt try: ") and sentence in found and found.count("\n") == 1


def test_help_is_complete_and_runs_nothing():
    code, out, err = output(script("raise SystemError", "--help"))
    assert (code, err) == (0, "")
    assert "Tries things." in out and "--verbose" in out and "--batch_size N" in out
    assert out.startswith("usage: aevnmt try [--NAME VALUE ...]\n")


# ---------------------------------------------------------------- the terminal

TENSORFLOW = """
    import warnings
    import tensorflow as tf
    tf.function(lambda x: x + 1, jit_compile=True)(tf.ones([2]))
    tf.distribute.MirroredStrategy()
    tf.get_logger().warning("tensorflow: a warning")
    from absl import logging
    logging.warning("absl: a warning")
    warnings.warn_explicit("cuda", UserWarning, "x.py", 1, module="tensorflow.python.x")
    warnings.warn("ours is seen")
    print("done", file=sys.stderr)
"""


@pytest.mark.slow
def test_tensorflow_is_quiet_but_we_are_not():
    code, out, err = output(script(TENSORFLOW))
    assert (code, out) == (0, "")
    assert err == "aevnmt try: warning: ours is seen\ndone\n"


@pytest.mark.slow
def test_a_child_of_a_quiet_process_that_imports_keras_first_is_quiet_too():
    body = "import keras\nkeras.ops.ones([2])"
    assert output(script(body, env={"TF_CPP_MIN_LOG_LEVEL": "3"})) == (0, "", "")


@pytest.mark.slow
def test_verbose_shows_tensorflows_lines():
    code, _, err = output(script(TENSORFLOW, "--verbose"))
    assert code == 0 and "done" in err and "ours is seen" in err
    assert len(CHATTER.findall(err)) >= 3


@pytest.mark.slow
def test_load_from_python_is_quiet_too():
    code = "import aevnmt_tf\ntry: aevnmt_tf.load('no/run')\nexcept Exception as e: print(e)"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GRPC_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert "no/run" in done.stdout and done.stderr == ""


def test_the_filter_passes_all_but_chatter():
    body = r"""
        import os
        with quiet.filtered_stderr():
            os.write(2, b"I0000 00:00:1794795486.718686    5932 cudart_stub.cc:31] no GPU\n")
            os.write(2, b"2026-01-01 10:00:00.123456: W core/x.cc:1] oneDNN\n")
            os.write(2, b"F0000 00:00:1794795486.718686    5932 guard.cc:1] no AVX\n")
            print("I am no log line", file=sys.stderr)
            os.write(2, b"no newline")
        os.write(2, b" afterwards")
    """
    _, _, err = output(script(body))
    assert err == (
        "F0000 00:00:1794795486.718686    5932 guard.cc:1] no AVX\n"
        "I am no log line\nno newline afterwards"
    )


def test_last_words_of_a_crash_come_through():
    body = r"""
        import os
        with quiet.filtered_stderr():
            os.write(2, b"I0000 00:00:1794795486.718686    5932 x.cc:31] chatter\nlast words\n")
            os.abort()
    """
    code, _, err = output(script(body))
    assert code == -signal.SIGABRT and err == "last words\n"


def test_no_stderr_at_all_is_no_problem():
    body = "import os\nos.close(2)\nwith quiet.filtered_stderr(): print('fine')"
    process = script(body)
    assert output(process)[:2] == (0, "fine\n")


def test_quiet_twice_filters_once():
    before = len(sys.meta_path)
    quiet.quiet_tensorflow()
    quiet.quiet_tensorflow()
    expected = 0 if "tensorflow" in sys.modules else 1
    assert len(sys.meta_path) == before + expected
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"


def test_a_key_without_a_meaning_gives_one_line(tmp_path):
    path = tmp_path / "old.json"
    path.write_text('{"joint_model_type": "dvae",\n "time_major": true}')
    body = "print(hparams.from_args(args).model_type, hparams.from_args(args).z_dim)"
    assert output(script(body, "--hparams", str(path))) == (
        0,
        "aevnmt 256\n",
        f"aevnmt try: warning: {path}, line 2: time_major has no meaning here and is ignored: "
        "tensors are batch-major.\n",
    )


def test_only_warnings_for_users_are_one_plain_line():
    shown = []

    def run(args):
        for category in (UserWarning, RuntimeWarning):
            shown.append(warnings.formatwarning("odd", category, "x.py", 1, line=""))

    original = warnings.formatwarning
    assert call(run) == 0
    assert shown == ["aevnmt try: warning: odd\n", "x.py:1: RuntimeWarning: odd\n"]
    assert warnings.formatwarning is original


# ---------------------------------------------------------------- aevnmt VERB


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder with one verb, `train`."""
    (tmp_path / "train.py").write_text(
        '"""Trains a model.\n\nLong story."""\nraise SystemError\n'
    )
    (tmp_path / "other.py").write_text('"""Not a verb."""\n')
    monkeypatch.setattr(dispatcher, "__file__", str(tmp_path / "__main__.py"))


def test_help_lists_the_verbs_that_exist_without_importing_them(package, capsys):
    assert dispatcher.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "  train  Trains a model.\n" in out
    assert "translate" not in out and "other" not in out and "Long story" not in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["trian"],
            "aevnmt: unknown command trian; did you mean train? (see aevnmt --help)\n",
        ),
        (["other"], "aevnmt: unknown command other (see aevnmt --help)\n"),
        ([], "aevnmt: no command is given (see aevnmt --help)\n"),
    ],
)
def test_no_such_verb(package, capsys, words, sentence):
    assert dispatcher.main(words) == 2
    assert capsys.readouterr().err == sentence


def test_a_verb_gets_the_other_words(package, monkeypatch):
    class Verb:
        @staticmethod
        def main(words):
            return len(words)

    monkeypatch.setitem(sys.modules, "aevnmt_tf.train", Verb)
    assert dispatcher.main(["train", "--a", "b", "c"]) == 3


def test_python_m_aevnmt_tf_is_light():
    code = (
        "import sys; from aevnmt_tf.__main__ import main\n"
        "main(['--help']); main(['--version'])\n"
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'keras', 'numpy')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and f"aevnmt {__version__}" in done.stdout
    for name, line in dispatcher.verbs().items():
        assert f"{name} " in done.stdout and line and line in done.stdout
