import io
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bc", b"\xff"]), max_size=30),
    st.integers(1, 7),
)
def test_lines_are_the_same_however_they_arrive(parts, size):
    content = b"".join(parts)

    class Slow(io.BytesIO):
        def read1(self, _):
            return super().read1(size)

    lines = [line.removesuffix(b"\n") for line in io.BytesIO(content)]
    expected = [line.removesuffix(b"\r") for line in lines]
    assert list(line_streams.StreamLines(Slow(content))) == expected


def test_whether_a_line_is_there(tmp_path):
    read, write = os.pipe()
    with open(read, "rb") as stream, open(write, "wb", buffering=0) as writer:
        lines = line_streams.StreamLines(stream)
        found = iter(lines)
        assert not lines.is_ready()
        writer.write(b"a\nb\n")
        assert lines.is_ready() and next(found) == b"a"
        assert lines.is_ready() and next(found) == b"b"
        assert not lines.is_ready()
        writer.close()
        assert lines.is_ready() and next(found, None) is None  # the end is there
    (tmp_path / "file").write_bytes(b"a\n")
    for stream in (open(tmp_path / "file", "rb"), io.BytesIO(b"")):
        with stream:
            assert line_streams.StreamLines(stream).is_ready()


def test_a_pipe_that_does_not_block_is_read_to_its_end(monkeypatch):
    """Whoever shares the pipe may have set it so; an empty read is not the end there."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with open(read, encoding="utf-8") as stream, open(write, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stream)
        writer.write(b"a\n")
        threading.Timer(0.3, lambda: (writer.write(b"b\n"), writer.close())).start()
        with line_streams.open_input(line_streams.STD) as opened:
            assert list(line_streams.StreamLines(opened)) == [b"a", b"b"]


def test_streams_that_are_closed_are_named(monkeypatch):
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(UserError, match="stdin is closed: give a file to read"):
        line_streams.open_input(line_streams.STD)
    with pytest.raises(UserError, match="stdout is closed: give a file to write"):
        line_streams.Output(line_streams.STD, source="x")
