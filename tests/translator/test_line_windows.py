"""How many lines are read at a time."""

import pytest

from aevnmt_tf.translator import line_windows


def test_a_window_ends_where_nothing_more_is_ready():
    ready = iter([True, False, True, True, True])
    found = line_windows.windows("abcdef", batch_size=2, is_ready=lambda: next(ready))
    assert list(found) == [(0, ["a", "b"]), (2, ["c"]), (3, ["d", "e", "f"])]


@pytest.mark.parametrize("total", [0, 1, 4, 5, 100, 1000])
def test_windows_start_where_they_are_said_to(total):
    starts = [start for start, _ in line_windows.windows(range(total), batch_size=4)]
    assert starts == line_windows.window_starts(total, batch_size=4)
    assert line_windows.WINDOW * 4 == 80


def test_a_part_has_the_windows_of_the_whole():
    whole = list(line_windows.windows(range(500), batch_size=4))
    for place in range(1, len(whole)):
        start = whole[place][0]
        rest = line_windows.windows(range(start, 500), batch_size=4, start=start)
        assert list(rest) == whole[place:]
