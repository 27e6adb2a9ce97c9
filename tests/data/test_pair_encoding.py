import numpy as np
import pytest

from aevnmt_tf.data import pair_encoding as encode_module
from aevnmt_tf.data.pair_encoding import PairEncoder, encode_pairs
from aevnmt_tf.data.pairs import read_pairs


@pytest.fixture
def encode(write_pairs, tokenizer):
    """Returns the kept pairs and the numbers of empty, source and target faults."""

    def run(src, tgt, **limits):
        pairs = read_pairs(write_pairs(src, tgt), src="en", tgt="de")
        options = dict(x_tokenizer=tokenizer, y_tokenizer=tokenizer, **limits)
        chunks = list(PairEncoder(**options).chunks(pairs))
        assert sum(chunk.num_lines for chunk in chunks) == len(src)
        dropped = sum((chunk.dropped for chunk in chunks), start=np.zeros(3, int))
        return encode_pairs(pairs, **options), dropped.tolist()

    return run


def test_ids_end_in_eos(encode):
    pairs, dropped = encode(["w0 w1", "w2", "w3 nonsense"], ["w5", "w6 w7", "w8"])
    assert [pairs.x[i].tolist() for i in range(3)] == [[3, 4, 2], [5, 2], [6, 0, 2]]
    assert [pairs.y[i].tolist() for i in range(3)] == [[8, 2], [9, 10, 2], [11, 2]]
    assert pairs.x.lengths.tolist() == [3, 2, 3]
    assert pairs.x.ids.dtype == np.int32
    assert dropped == [0, 0, 0]


def test_empty_and_overlong_pairs_are_dropped_and_counted_once(encode):
    src = ["w1", "", "w2", "w1 w2 w3", "w1 w2 w3 w4", "w1", " \t", "w9"]
    tgt = ["w1", "w1", " ", "w1 w2", "w1 w2 w3", "w1 w2 w3", "w1 w2 w3 w4", "w9 w9"]
    pairs, dropped = encode(src, tgt, src_max_len=3, tgt_max_len=2, drop_empty=True)
    assert len(pairs) == 3
    assert pairs.x[1].tolist() == [4, 5, 6, 2]
    assert pairs.y[2].tolist() == [12, 12, 2]
    assert dropped == [3, 1, 1]


@pytest.mark.parametrize("limit", [None, 0])
def test_nothing_is_dropped_unless_asked_for(encode, limit):
    long = " ".join(["w1"] * 300)
    pairs, dropped = encode(
        ["", long, "w1"], ["w1", "w1", ""], src_max_len=limit, tgt_max_len=limit
    )
    assert pairs.x.lengths.tolist() == [1, 301, 2]
    assert pairs.x[0].tolist() == [2]
    assert pairs.y.lengths.tolist() == [2, 2, 1]
    assert dropped == [0, 0, 0]


@pytest.mark.parametrize("size", [1, 7, 2048])
def test_chunks_do_not_matter(encode, monkeypatch, size):
    monkeypatch.setattr(encode_module, "LINES_PER_CALL", size)
    src = [" ".join(["w1"] * (i % 5)) for i in range(40)]
    tgt = [f"w{i}" for i in range(40)]
    pairs, dropped = encode(src, tgt, src_max_len=3, drop_empty=True)
    kept = np.array([i for i in range(40) if 1 <= i % 5 <= 3])
    assert [pairs.y[i][0] for i in range(len(pairs))] == (kept + 3).tolist()
    assert (pairs.x.lengths == kept % 5 + 1).all()
    assert dropped == [8, 8, 0]


def test_no_lines(encode):
    pairs, dropped = encode([], [])
    assert len(pairs) == len(pairs.x) == 0 and dropped == [0, 0, 0]
