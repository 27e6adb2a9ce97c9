"""Merging requests, with functions that are not models."""

import threading
import time
import weakref
from concurrent.futures import CancelledError

import numpy as np
import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import batching_file, request_parts
from aevnmt_tf.serving.batching import Batcher, Queue
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.serving.status import RequestError


class Doubler:
    """Doubles x, keeps what it was called with, and waits while it is told to."""

    def __init__(self):
        self.calls = []
        self.go = threading.Event()
        self.go.set()
        self.started = threading.Semaphore(0)

    def __call__(self, inputs, abandoned):
        self.abandoned = abandoned
        self.calls.append(inputs["x"].tolist())
        self.started.release()
        assert self.go.wait(60)
        if "bad" in self.calls[-1]:
            raise ValueError("a bad row\nand where it was")
        return {"y": inputs["x"] + inputs["x"]}


@pytest.fixture
def double():
    return Doubler()


@pytest.fixture
def batcher():
    made = Batcher(num_threads=1)
    yield made
    made.close()


def params(**changes):
    """Batches of all sizes up to the largest, without padding."""
    size = changes.get("max_batch_size", 4)
    sizes = tuple(range(1, size + 1))
    defaults = {"max_batch_size": size, "batch_timeout_micros": 0, "allowed_batch_sizes": sizes}
    return Batching(**{**defaults, **changes})


def submit(queue, *values, words=None):
    words = np.ones(len(values), int) if words is None else np.array(words)
    return queue.submit({"x": np.array(values, dtype=object)}, words=words)


def hold(queue, double):
    """Keep the only thread busy, so that what comes next piles up."""
    double.go.clear()
    future = submit(queue, "first")
    double.started.acquire(timeout=60)
    return future


def test_requests_that_wait_are_merged_and_taken_apart(batcher, double):
    queue = Queue(batcher, double, params())
    first = hold(queue, double)
    waiting = [
        submit(queue, "a"),
        submit(queue, "b", "c"),
        submit(queue, "d"),
        submit(queue, "e"),
    ]
    double.go.set()
    results = [future.result(60)["y"].tolist() for future in [first, *waiting]]
    assert results == [["firstfirst"], ["aa"], ["bb", "cc"], ["dd"], ["ee"]]
    assert double.calls == [["first"], ["a", "d", "e"], ["b", "c"]]  # the cheapest first


def test_a_batch_is_padded_with_a_row_of_its_last_request(batcher, double):
    queue = Queue(batcher, double, params(max_batch_size=8, allowed_batch_sizes=(1, 4, 8)))
    hold(queue, double)
    waiting = [submit(queue, "a"), submit(queue, "b", "c")]
    double.go.set()
    assert [f.result(60)["y"].tolist() for f in waiting] == [["aa"], ["bb", "cc"]]
    assert double.calls == [["first"], ["a", "b", "c", "b"]]


def test_a_request_larger_than_a_batch_runs_in_several(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    waiting = [submit(queue, "a"), submit(queue, *"bcdefg"), submit(queue, "h")]
    double.go.set()
    assert waiting[1].result(60)["y"].tolist() == ["bb", "cc", "dd", "ee", "ff", "gg"]
    assert waiting[2].result(60)["y"].tolist() == ["hh"]
    assert double.calls == [["first"], [*"ahfg"], list("bcde")]  # short ones pass


def test_the_parts_of_a_large_request_share_its_fate(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    bad, gone = submit(queue, *"abcd", "bad"), submit(queue, *"efghij")
    stays = submit(queue, "k")
    assert gone.cancel()
    double.go.set()
    with pytest.raises(RequestError, match="a bad row"):
        bad.result(60)
    assert stays.result(60)["y"].tolist() == ["kk"]
    assert not {"e", "i"} & {row for call in double.calls for row in call}


def test_answers_of_different_shapes_are_put_together():
    first = {"a": np.array([[1, 2]]), "t": np.array([[b"x"]], object), "s": np.array([3.0])}
    second = {
        "a": np.array([[4], [5]]),
        "t": np.array([[b"y", b"z"], [b"v", b""]], object),
        "s": np.array([6.0, 7.0]),
    }
    found = request_parts.concatenate([first, second], [np.array([0]), np.array([1, 2])])
    assert found["a"].tolist() == [[1, 2], [4, 0], [5, 0]]
    assert found["t"].tolist() == [[b"x", b""], [b"y", b"z"], [b"v", b""]]
    assert found["s"].tolist() == [3.0, 6.0, 7.0] and found["a"].dtype == np.int64


def test_rows_of_different_shapes_are_not_merged(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    shapes = [(1, 2), (2, 2), (1, 3), (1, 2)]
    waiting = [
        queue.submit({"x": np.ones(shape)}, words=np.ones(shape[0], int)) for shape in shapes
    ]
    double.go.set()
    assert [future.result(60)["y"].shape for future in waiting] == shapes
    assert [np.shape(call) for call in double.calls[1:]] == [(4, 2), (1, 3)]


def test_one_bad_request_does_not_spoil_its_batch(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    good, bad, also_good = submit(queue, "a"), submit(queue, "bad"), submit(queue, "b")
    double.go.set()
    assert good.result(60)["y"].tolist() == ["aa"]
    assert also_good.result(60)["y"].tolist() == ["bb"]
    with pytest.raises(RequestError) as caught:
        bad.result(60)
    assert (caught.value.code, caught.value.message) == ("INTERNAL", "a bad row")
    assert double.calls[1:] == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]


@pytest.mark.parametrize("shape", [(), (3,)])
def test_an_output_without_a_row_for_each_input(batcher, shape):
    queue = Queue(batcher, lambda inputs, _: {"y": np.zeros(shape)}, params())
    with pytest.raises(RequestError, match="0th dimension does not equal") as caught:
        submit(queue, "a").result(60)
    assert caught.value.http_status == 400


def test_a_full_queue_refuses(batcher, double):
    queue = Queue(batcher, double, params(max_queue=2))
    other = Queue(batcher, double, params(max_queue=2))
    hold(queue, double)
    waiting = [submit(queue, "a"), submit(queue, "b")]
    with pytest.raises(RequestError, match="queue to which this task was submitted") as caught:
        submit(queue, "c")
    assert (caught.value.code, caught.value.http_status) == ("RESOURCE_EXHAUSTED", 429)
    waiting.append(submit(other, "d"))  # each function has a queue of its own
    double.go.set()
    assert [f.result(60)["y"].tolist() for f in waiting] == [["aa"], ["bb"], ["dd"]]
    assert submit(queue, "e").result(60)["y"].tolist() == ["ee"]


def test_lines_count_in_a_queue_and_a_large_request_fits_into_an_empty_one(batcher, double):
    queue = Queue(batcher, double, params(max_queue=5))
    hold(queue, double)
    waiting = [submit(queue, *"abcdefg")]
    with pytest.raises(RequestError, match="is full"):
        submit(queue, "h")
    assert waiting.pop().cancel()  # who has gone has no place
    waiting += [submit(queue, *"ij"), submit(queue, *"klm")]
    with pytest.raises(RequestError, match="is full"):
        submit(queue, "n")
    double.go.set()
    assert [len(future.result(60)["y"]) for future in waiting] == [2, 3]


def test_threads_that_wait_keep_no_function(batcher):
    """It holds a SavedModel, which may be unloaded."""

    class Model:
        def run(self, inputs, abandoned):
            return inputs

    model = Model()
    queue = Queue(batcher, model.run, params())
    for _ in range(20):
        submit(queue, "a").result(60)
    queue.close()
    model, queue = weakref.ref(model), None
    for _ in range(500):
        if model() is None:
            break
        time.sleep(0.01)
    assert model() is None


def test_a_timeout_beyond_all_clocks(batcher, double):
    double.go.set()
    queue = Queue(
        batcher, double, params(max_batch_size=2, batch_timeout_micros=10000000000000000000)
    )
    waiting = [submit(queue, "a"), submit(queue, "b")]
    assert [future.result(60)["y"].tolist() for future in waiting] == [["aa"], ["bb"]]


def test_a_client_that_has_gone_costs_nothing(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    gone, stays = submit(queue, "a"), submit(queue, "b")
    assert gone.cancel()
    double.go.set()
    assert stays.result(60)["y"].tolist() == ["bb"]
    with pytest.raises(CancelledError):
        gone.result(60)
    assert double.calls == [["first"], ["b"]]


def test_a_running_batch_is_abandoned_when_all_its_clients_have_gone(batcher, double):
    queue = Queue(batcher, double, params(max_batch_size=2, batch_timeout_micros=60000000))
    double.go.clear()
    first, second = submit(queue, "a"), submit(queue, "b")
    double.started.acquire(timeout=60)
    assert double.calls == [["a", "b"]]
    assert first.cancel() and not double.abandoned.cancelled()
    assert second.cancel() and double.abandoned.cancelled()
    double.go.set()
    assert submit(queue, "c", "d").result(60)["y"].tolist() == ["cc", "dd"]


def test_a_batch_waits_for_others_until_it_is_full(batcher, double):
    queue = Queue(batcher, double, params(max_batch_size=3, batch_timeout_micros=60000000))
    waiting = [submit(queue, "a"), submit(queue, "b")]
    time.sleep(0.05)
    assert double.calls == []
    waiting.append(submit(queue, "c"))
    assert [future.result(60)["y"].tolist() for future in waiting] == [["aa"], ["bb"], ["cc"]]
    assert double.calls == [["a", "b", "c"]]


def test_a_batch_does_not_wait_longer_than_it_may(batcher, double):
    queue = Queue(batcher, double, params(batch_timeout_micros=20000))
    start = time.monotonic()
    assert submit(queue, "a").result(60)["y"].tolist() == ["aa"]
    assert time.monotonic() - start >= 0.02


def test_close_finishes_what_waits_and_refuses_the_rest(double):
    batcher = Batcher(num_threads=2)
    queue = Queue(batcher, double, params(batch_timeout_micros=60000000))
    waiting = submit(queue, "a")
    batcher.close()
    assert waiting.result(0)["y"].tolist() == ["aa"]
    with pytest.raises(RequestError, match="stopping") as caught:
        submit(queue, "b")
    assert caught.value.http_status == 503


def test_many_threads_get_what_is_theirs(double):
    batcher = Batcher(num_threads=2)
    queue = Queue(batcher, double, params(max_batch_size=8, batch_timeout_micros=1000))
    found = {}

    def client(name):
        for number in range(20):
            word = f"{name}.{number} "
            found[word] = submit(queue, word).result(60)["y"].tolist()

    threads = [threading.Thread(target=client, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batcher.close()
    assert len(found) == 320 and all(value == [2 * word] for word, value in found.items())
    assert len(double.calls) < 320


# Words.


def test_a_batch_has_a_budget_of_words_and_rows_of_similar_length(batcher, double):
    queue = Queue(batcher, double, params(max_batch_size=8), max_words=1000, width=2)
    hold(queue, double)
    # 200 x 2 hypotheses: two rows are all that 1000 allows; a row above it runs alone.
    words = [200, 9, 200, 8, 600, 200]
    future = submit(queue, *"abcdef", words=words)
    double.go.set()
    assert future.result(60)["y"].tolist() == ["aa", "bb", "cc", "dd", "ee", "ff"]
    assert double.calls == [["first"], ["d", "b"], ["a", "c"], ["f"], ["e"]]


def test_a_short_request_does_not_wait_for_all_of_a_large_one(batcher, double):
    queue = Queue(batcher, double, params(), max_words=400)
    other = Queue(batcher, double, params(), max_words=400)
    hold(queue, double)
    large = submit(queue, *"abcdef", words=[90] * 6)
    short = [submit(queue, "x", words=[5]), submit(other, "y", words=[5])]
    double.go.set()
    for future in [large, *short]:
        future.result(60)
    assert sorted(map(tuple, double.calls[1:3])) == [("x",), ("y",)]


def test_a_large_request_is_not_passed_for_ever(batcher, double):
    queue = Queue(batcher, double, params(max_batch_size=1), max_words=400)
    hold(queue, double)
    large = submit(queue, "large", words=[30])
    short = [submit(queue, f"{n}", words=[10]) for n in range(3)]
    double.go.set()
    double.started.acquire(timeout=60)
    for _ in range(20):
        short.append(submit(queue, "later", words=[10]))
        short[-1].result(60)
    large.result(60)
    assert double.calls.index(["large"]) < 8


def test_what_waits_has_a_budget_of_words(batcher, double):
    queue = Queue(batcher, double, params(max_enqueued_batches=2), max_words=100)
    hold(queue, double)
    waiting = [submit(queue, "a", words=[90]), submit(queue, "b", words=[90])]
    with pytest.raises(RequestError, match="is full"):
        submit(queue, "c", words=[90])
    double.go.set()
    assert [future.result(60)["y"].tolist() for future in waiting] == [["aa"], ["bb"]]


def test_one_thread_is_left_to_short_rows(double):
    batcher = Batcher(num_threads=2)
    queue = Queue(batcher, double, params(max_batch_size=1))
    double.go.clear()
    long = [submit(queue, f"long {n}", words=[500]) for n in range(3)]
    assert double.started.acquire(timeout=60)
    short = submit(queue, "short", words=[5])
    assert double.started.acquire(timeout=60)
    assert sorted(call[0][:4] for call in double.calls) == ["long", "shor"]
    double.go.set()
    for future in [*long, short]:
        future.result(60)
    batcher.close()


# Parameters.


def test_without_a_file_changes_and_defaults_count(tmp_path):
    found = batching_file.read(tmp_path, max_batch_size=5)
    assert found == Batching(max_batch_size=5)
    assert [found.padded(rows) for rows in (1, 3, 5)] == [1, 4, 5]


def test_changes_beat_the_file(tmp_path):
    batching = Batching(
        max_batch_size=16,
        batch_timeout_micros=500,
        max_enqueued_batches=3,
        allowed_batch_sizes=(1, 4, 16),
    )
    batching_file.write(tmp_path, batching)
    found = batching_file.read(tmp_path)
    assert found == batching and found.most_rows_waiting == 48
    assert [found.padded(rows) for rows in (1, 2, 4, 5, 16, 17)] == [1, 4, 4, 16, 16, 17]
    found = batching_file.read(tmp_path, max_batch_size=8, max_queue=7)
    assert (found.allowed_batch_sizes, found.most_rows_waiting) == ((1, 4, 8), 7)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / batching_file.FILE).write_text("max_batch_size { value: many }")
    with pytest.raises(UserError, match="batching_params.pbtxt"):
        batching_file.read(tmp_path)


def test_filler_rows_keep_to_the_budget(batcher, double):
    queue = Queue(batcher, double, params(allowed_batch_sizes=(1, 2, 4)), max_words=30)
    submit(queue, "a", "b", "c", words=[10, 10, 10]).result(60)
    submit(queue, "a", "b", "c", words=[5, 5, 5]).result(60)
    assert [len(call) for call in double.calls] == [3, 4]


def test_the_rest_of_a_request_that_failed_does_not_run(batcher, double):
    queue = Queue(batcher, double, params())
    hold(queue, double)
    bad = submit(queue, "bad", *"abcdefgh")
    double.go.set()
    with pytest.raises(RequestError, match="a bad row"):
        bad.result(60)
    assert submit(queue, "last").result(60)["y"].tolist() == ["lastlast"]
    assert double.calls == [["first"], ["bad", "a", "b", "c"], ["last"]]
