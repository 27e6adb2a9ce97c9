"""Batches of similar lengths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf.data.batch_order import BatchStream
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes, length_batches


def padded_tokens(x, y, shapes, *, batch_size):
    """Of an epoch's batches as the plan makes them."""
    stream = BatchStream(
        assign(x, y, shapes=shapes), np.zeros(len(x), np.int32), (1.0,), batch_size, seed=1
    )
    _, buckets, _ = stream.epoch(0)
    return batch_size * shapes[buckets.numpy()].sum()


def test_captions_waste_under_12_percent_with_10_shapes(caption_lengths):
    x, y = caption_lengths
    shapes = choose_shapes([Lengths(x, y)], num_shapes=10, batch_size=64)
    assert len(shapes) <= 10
    waste = 1 - (x + y).sum() / padded_tokens(x, y, shapes, batch_size=64)
    assert waste < 0.12


def test_better_than_equal_widths(caption_lengths):
    x, y = caption_lengths
    edges = np.linspace(0, 51, 6).round().astype(int)[1:]
    equal = np.stack([edges, edges], 1)
    ours = choose_shapes([Lengths(x, y)], num_shapes=5, batch_size=64)
    waste = [1 - (x + y).sum() / padded_tokens(x, y, s, batch_size=64) for s in (equal, ours)]
    assert waste[1] < 0.8 * waste[0]


def nested(shapes):
    return all((low <= high).all() for low, high in zip(shapes, shapes[1:], strict=False))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=20),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_the_best_of_all_nested_shapes(lengths, num_shapes, batch_size):
    x, y = np.array(lengths).T
    candidates = list(itertools.product(np.unique(x), np.unique(y)))
    costs = []
    for number in range(1, num_shapes + 1):
        for chosen in itertools.combinations(candidates, number):
            shapes = np.array(sorted(chosen, key=sum))
            if nested(shapes) and (shapes[-1] == [x.max(), y.max()]).all():
                costs.append(padded_tokens(x, y, shapes, batch_size=batch_size))
    found = choose_shapes([Lengths(x, y)], num_shapes=num_shapes, batch_size=batch_size)
    assert padded_tokens(x, y, found, batch_size=batch_size) == min(costs)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 600), st.integers(1, 600)), min_size=1, max_size=300),
    st.integers(1, 12),
    st.integers(1, 70),
)
def test_every_pair_fits_and_every_shape_is_used(lengths, num_shapes, batch_size):
    x, y = np.array(lengths).T
    shapes = choose_shapes([Lengths(x, y)], num_shapes=num_shapes, batch_size=batch_size)
    bucket = assign(x, y, shapes=shapes)
    assert 1 <= len(shapes) <= num_shapes
    assert (x <= shapes[bucket, 0]).all() and (y <= shapes[bucket, 1]).all()
    corpus = np.zeros(len(x), np.int32)
    assert (BatchStream(bucket, corpus, (1.0,), batch_size, seed=1).batches > 0).all()
    assert nested(shapes)
    area = shapes.sum(1)
    for k in range(len(shapes)):  # no smaller shape would have done
        fits = (x <= shapes[k, 0]) & (y <= shapes[k, 1])
        assert (area[bucket[fits]] <= area[k]).all()


def test_fillers_cost_so_few_pairs_get_few_shapes():
    x = np.arange(1, 11)
    assert len(choose_shapes([Lengths(x, x)], num_shapes=10, batch_size=64)) == 1
    assert len(choose_shapes([Lengths(x, x)], num_shapes=10, batch_size=1)) == 10


def test_a_stream_that_is_read_more_often_counts_more():
    short, long = np.full(640, 10), np.full(640, 50)
    middle = np.full(640, 30)
    streams = [
        Lengths(np.concatenate([short, long]), np.concatenate([short, long])),
        Lengths(middle, middle, share=0.0),
    ]
    few = choose_shapes(streams, num_shapes=2, batch_size=64)
    assert few.tolist() == [[10, 10], [50, 50]]
    streams[1] = Lengths(middle, middle, share=100.0)
    many = choose_shapes(streams, num_shapes=2, batch_size=64)
    assert many.tolist() == [[30, 30], [50, 50]]


def test_no_pairs_no_shapes():
    none = np.zeros(0, np.int32)
    assert choose_shapes([Lengths(none, none)], num_shapes=3, batch_size=2).shape == (0, 2)


def test_a_pair_that_fits_nowhere_is_an_error():
    with pytest.raises(ValueError, match="longer than every shape"):
        assign(np.array([3]), np.array([1]), shapes=np.array([[2, 2]]))


@given(
    lengths=st.lists(st.integers(1, 40), max_size=60),
    batch_size=st.integers(1, 9),
    most_words=st.integers(1, 100),
)
def test_every_sentence_once_in_batches_that_fit(lengths, batch_size, most_words):
    lengths = np.array(lengths, np.int64)
    batches = list(length_batches(lengths, batch_size=batch_size, most_words=most_words))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert list(lengths[rows]) == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= most_words


def test_no_batch_is_smaller_than_it_must_be():
    sizes = [len(b) for b in length_batches([2] * 7, batch_size=5, most_words=6)]
    assert sizes == [3, 3, 1]
