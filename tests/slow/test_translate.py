"""The command as a process with a long input: lines in, lines out, memory that stays."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.tiny_translator import save_run

pytestmark = pytest.mark.slow

# The command takes oneDNN's kernels unless it is told otherwise, as the tests are.
KERNELS = {
    name: {**os.environ, "TF_ENABLE_ONEDNN_OPTS": number}
    for number, name in (("0", "Eigen"), ("1", "oneDNN"))
}


def resident_megabytes(pid):
    with open(f"/proc/{pid}/status") as file:
        (line,) = (line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_memory_does_not_grow_with_the_input(tmp_path):
    run = save_run(tmp_path / "run", beam_width=0, infer_batch_size=64)
    words = ["-m", "aevnmt_tf.translate", "--model", str(run)]
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=KERNELS["oneDNN"],  # which keep something of every shape, and must forget it
    )
    lines = [" ".join("abcdefgh"[i % 8] for i in range(n % 30)) + "\n" for n in range(1000)]

    def feed():
        for _ in range(100):
            process.stdin.write("".join(lines).encode())
        process.stdin.close()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    first, megabytes = [], {}
    for number, line in enumerate(process.stdout):
        if number < 1000:
            first.append(line)
        assert line == first[number % 1000]  # the same line is translated the same way
        if number + 1 in (20_000, 90_000):
            megabytes[number + 1] = resident_megabytes(process.pid)
    feeder.join()
    assert process.wait() == 0 and number + 1 == 100_000
    # The results of these 70,000 lines, kept, would be 38 MB.
    assert megabytes[90_000] < megabytes[20_000] + 10


@pytest.fixture
def piped(tmp_path):
    """The command as a process that reads from a pipe."""
    run = save_run(tmp_path / "run", beam_width=0)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = ["-m", "aevnmt_tf.translate", "--model", str(run)]
    with subprocess.Popen([sys.executable, *words], **pipes) as process:
        yield process
        process.kill()


def test_a_line_is_answered_before_the_next_one_comes(piped):
    for line in (b"a b c\n", b"\n", b"d\n"):
        piped.stdin.write(line)
        piped.stdin.flush()
        assert piped.stdout.readline().endswith(b"\n")
    piped.stdin.close()
    assert piped.wait(60) == 0


def test_an_interruption_does_not_wait_for_batches(piped):
    """A million words to translate take far longer than the time that is allowed here."""
    piped.stdin.write(b"a\n")
    piped.stdin.flush()
    piped.stdout.readline()
    lines = "".join(" ".join("abcdefgh"[i % 8] for i in range(500)) + "\n" for _ in range(2000))
    threading.Thread(target=_feed, args=[piped.stdin, lines.encode()], daemon=True).start()
    piped.stdout.readline()  # of the next window, so that a larger one is under way
    piped.send_signal(signal.SIGINT)
    assert piped.wait(20) == 130
    messages = piped.stderr.read().decode()
    assert messages.endswith("aevnmt translate: interrupted\n") and "Traceback" not in messages


def _feed(stream, content):
    with contextlib.suppress(BrokenPipeError):
        stream.write(content)


def test_other_kernels_give_the_same_translations(tmp_path):
    run = save_run(tmp_path / "run", beam_width=3)
    lines = "".join(" ".join("abcdefgh"[i % 8] for i in range(n)) + "\n" for n in range(40))
    words = [sys.executable, "-m", "aevnmt_tf.translate", "--model", str(run)]
    options = {"input": lines.encode(), "capture_output": True, "check": True}
    found = [subprocess.run(words, env=env, **options).stdout for env in KERNELS.values()]
    assert found[0] == found[1] and found[0].count(b"\n") == 40
