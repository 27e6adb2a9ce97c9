"""Which pairs are in which batch."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf.data.batch_order import (
    FILLER,
    BatchOrder,
    BatchStream,
    random_order,
    shard_columns,
)

ONE = st.just(1.0)
SEEDS = st.integers(-(2**31), 2**31)


class KnownStream(BatchStream):
    """A stream that remembers what it was made of."""

    def __init__(self, buckets, corpus, ratios, batch_size, seed, number=0):
        super().__init__(buckets, corpus, ratios, batch_size, seed, number)
        self.buckets, self.corpus, self.ratios = buckets, corpus, ratios
        self.seed, self.number = seed, number


@st.composite
def streams(draw, *, ratios=ONE, number=0):
    num_corpora = draw(st.integers(1, 3))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, num_corpora - 1)),
            min_size=1,
            max_size=60,
        )
    )
    buckets, corpus = np.array(pairs, np.int32).T
    return KnownStream(
        buckets,
        corpus,
        tuple(draw(ratios) for _ in range(num_corpora)),
        draw(st.integers(1, 7)),
        draw(SEEDS),
        number=number,
    )


def drawn(stream, epoch):
    """The pairs and the buckets of a stream's epoch, in their order."""
    pairs, buckets, order = (tensor.numpy() for tensor in stream.epoch(epoch))
    return pairs[order], buckets[order]


def with_batch_size(stream, size):
    """The same stream with batches of another size."""
    made_of = stream.buckets, stream.corpus, stream.ratios
    return KnownStream(*made_of, size, stream.seed, stream.number)


def epochs_of(order, count):
    """The pairs and the buckets of the first epochs, as training reads them."""
    columns = np.arange(order.gold.batch_size)[None]
    batches = order.dataset(0, columns=columns).as_numpy_iterator()
    for _ in range(count):
        rows, buckets, _ = zip(*itertools.islice(batches, order.batches_per_epoch), strict=True)
        yield np.stack(rows), np.stack(buckets)


@given(streams(), st.integers(0, 50))
def test_every_pair_once_an_epoch_in_a_batch_that_holds_it(stream, epoch):
    rows, buckets = drawn(stream, epoch)
    assert rows.shape == (stream.num_batches, stream.batch_size)
    assert sorted(rows[rows != FILLER]) == list(range(len(stream.buckets)))
    for pairs, bucket in zip(rows, buckets, strict=True):
        assert stream.buckets[pairs[pairs != FILLER]].max() == bucket
    np.testing.assert_array_equal(
        np.bincount(buckets, minlength=len(stream.batches)), stream.batches
    )


@given(streams(), st.integers(0, 50))
def test_only_one_batch_has_fillers_and_it_is_of_the_smallest(stream, epoch):
    rows, buckets = drawn(stream, epoch)
    fillers = (rows == FILLER).sum(1)
    assert fillers.sum() == -len(stream.buckets) % stream.batch_size
    assert (fillers > 0).sum() <= 1
    assert (buckets[fillers > 0] == buckets.min()).all()


@given(streams(), st.integers(0, 50))
def test_no_batch_overlaps_another_in_length(stream, epoch):
    """Sorted by bucket, the batches are consecutive: only edges are shared."""
    rows, _ = drawn(stream, epoch)
    spans = [stream.buckets[pairs[pairs != FILLER]] for pairs in rows]
    spans = sorted((span.min(), span.max()) for span in spans)
    assert all(low[1] <= high[0] for low, high in zip(spans, spans[1:], strict=False))


def test_pairs_that_fill_a_larger_batch_differ_by_epoch():
    buckets = np.array([0] * 50 + [1] * 7, np.int32)
    stream = BatchStream(buckets, np.zeros(57, np.int32), (1.0,), 8, 1)
    fills = []
    for epoch in range(20):
        rows, largest = drawn(stream, epoch)
        assert (largest == 1).sum() == 1
        fills += [pair for pair in rows[largest == 1][0] if buckets[pair] == 0]
    assert len(fills) == 20
    assert len(set(fills)) > 10


@given(streams(ratios=st.floats(0, 3)), st.integers(0, 50))
def test_ratios_say_how_often_a_pair_comes(stream, epoch):
    rows, _ = drawn(stream, epoch)
    assert len(rows) == stream.num_batches
    times = np.bincount(rows[rows != FILLER], minlength=len(stream.buckets))
    for corpus, ratio in enumerate(stream.ratios):
        mine = times[stream.corpus == corpus]
        assert set(mine) <= {int(ratio), int(ratio) + 1}
        assert abs(mine.sum() - ratio * len(mine)) <= 0.5 + 1e-6


def test_a_fraction_is_another_sample_in_each_epoch():
    zeros = np.zeros(1000, np.int32)
    stream = BatchStream(zeros, zeros, (0.3,), 10, 1)
    seen = [set(drawn(stream, epoch)[0].ravel()) for epoch in range(20)]
    assert {len(pairs) for pairs in seen} == {300}
    assert len(set.union(*seen)) > 990


def test_epochs_and_seeds_and_streams_differ_in_order():
    zeros = np.zeros(64, np.int32)
    orders = [
        drawn(BatchStream(zeros, zeros, (1.0,), 8, seed, number), epoch)[0].tobytes()
        for seed in (1, 2)
        for number in (0, 1)
        for epoch in range(5)
    ]
    assert len(set(orders)) == 20


def test_batches_of_the_buckets_are_mixed():
    buckets = np.repeat(np.arange(4, dtype=np.int32), 100)
    stream = BatchStream(buckets, np.zeros(400, np.int32), (1.0,), 10, 1)
    order = [drawn(stream, epoch)[1].tolist() for epoch in range(2)]
    assert order[0] != sorted(order[0]) and order[0] != order[1]
    assert sorted(order[0]) == sorted(order[1])


@given(streams(ratios=st.floats(0, 2)), st.integers(0, 50))
def test_the_plan_is_a_pure_function(stream, epoch):
    again = BatchStream(
        stream.buckets.copy(), stream.corpus, stream.ratios, stream.batch_size, stream.seed
    )
    drawn(again, epoch + 1)
    for ours, theirs in zip(drawn(stream, epoch), drawn(again, epoch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def split_mix(state):
    """SplitMix64's next number, in Python's own whole numbers."""
    mask = 2**64 - 1
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return state ^ state >> 31


def test_split_mix_is_the_published_one():
    """The first numbers of the generator with seed 1234567, as Rosetta Code lists them."""
    golden = 0x9E3779B97F4A7C15
    numbers = [split_mix((1234567 + i * golden) % 2**64) for i in (1, 2)]
    assert numbers == [6457827717110365317, 3203168211198807973]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), st.integers(0, 50))
def test_orders_are_those_of_split_mix(key, size):
    """A run that is resumed with a later version must see the same pairs."""
    golden = 0x9E3779B97F4A7C15
    state = 0
    for part in key:
        state = split_mix((state + part + golden) % 2**64)
    bits = [split_mix((state + i * golden) % 2**64) >> 16 for i in range(size)]
    assert random_order(0, tf.range(size, dtype=tf.int64), key=key).numpy().tolist() == sorted(
        range(size), key=bits.__getitem__
    )
    groups = tf.range(size, dtype=tf.int64) % 3
    expected = sorted(range(size), key=lambda i: (i % 3, bits[i]))
    assert (
        random_order(groups, tf.range(size, dtype=tf.int64), key=key).numpy().tolist()
        == expected
    )


@settings(max_examples=10)
@given(streams(ratios=st.floats(0, 2.5)), st.integers(0, 2**40))
def test_the_graph_draws_the_same_epoch(stream, epoch):
    in_graph = tf.function(stream.epoch)(tf.constant(epoch, tf.int64))
    for ours, theirs in zip(in_graph, stream.epoch(epoch), strict=True):
        assert ours.dtype == theirs.dtype == np.int32
        np.testing.assert_array_equal(ours, theirs)


@given(streams(), streams(number=1), st.sampled_from([0.0, 0.1, 0.5, 2.0]), st.integers(0, 90))
def test_first_batches_of_a_step(gold, synthetic, ratio, step):
    plan = BatchOrder(gold, synthetic, ratio)
    order = np.tile(plan.kinds, step // plan.batches_per_epoch + 1)[:step]
    assert plan.first_batches(step) == ((order == 0).sum(), (order == 1).sum())


@settings(max_examples=15)
@given(
    streams(),
    streams(number=1),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 0.1]),
)
def test_synthetic_batches_between_gold_ones(gold, synthetic, ratio):
    synthetic = with_batch_size(synthetic, gold.batch_size)
    mixed = BatchOrder(gold, synthetic, ratio)
    num_gold = len(gold.buckets)
    stream = []
    for epoch, (rows, buckets) in enumerate(epochs_of(mixed, 3)):
        assert len(rows) == len(buckets) == mixed.batches_per_epoch
        is_gold = np.array([(pairs < num_gold).all() for pairs in rows])
        gold_rows, gold_buckets = drawn(gold, epoch)
        np.testing.assert_array_equal(rows[is_gold], gold_rows)
        np.testing.assert_array_equal(buckets[is_gold], gold_buckets)
        done = np.floor(np.cumsum(is_gold) * ratio + 1e-9)
        assert (np.cumsum(~is_gold) <= done).all()
        assert is_gold[0] and (~is_gold).sum() == done[-1]
        stream.extend(rows[~is_gold])
    expected = []
    for epoch in range(-(-len(stream) // synthetic.num_batches)):
        rows = drawn(synthetic, epoch)[0]
        expected.extend(np.where(rows == FILLER, FILLER, rows + num_gold))
    assert [pairs.tolist() for pairs in stream] == [
        pairs.tolist() for pairs in expected[: len(stream)]
    ]


def test_pairs_of_an_epoch_are_counted():
    zeros = np.zeros(10, np.int32)
    gold = BatchStream(zeros, zeros, (0.5,), 4, 1)
    assert BatchOrder(gold).pairs_per_epoch == (drawn(gold, 0)[0] != FILLER).sum() == 5
    synthetic = BatchStream(zeros, zeros, (1.0,), 4, 1, number=1)
    plan = BatchOrder(gold, synthetic, 3)
    total = sum((rows != FILLER).sum() for rows, _ in epochs_of(plan, 10))
    assert total == 10 * plan.pairs_per_epoch == 10 * (5 + 20)


def test_a_whole_ratio_alternates():
    zeros = np.zeros(4, np.int32)
    gold = BatchStream(zeros, zeros, (1.0,), 2, 1)
    plan = BatchOrder(gold, BatchStream(zeros, zeros, (1.0,), 2, 1, number=1), 2)
    ((rows, _),) = epochs_of(plan, 1)
    assert [(pairs < 4).all() for pairs in rows] == [True, False, False] * 2


@given(st.integers(1, 12), st.integers(1, 15))
def test_shards_are_equal_parts_in_order(batch_size, num_shards):
    columns = shard_columns(batch_size, num_shards=num_shards, shards=range(num_shards))
    assert columns.shape == (num_shards, -(-batch_size // num_shards))
    flat = columns.reshape(-1)
    assert flat[:batch_size].tolist() == list(range(batch_size))
    assert (flat[batch_size:] == batch_size).all()
    one = shard_columns(batch_size, num_shards=num_shards, shards=[num_shards - 1])
    np.testing.assert_array_equal(one, columns[-1:])
    with pytest.raises(ValueError, match="counted from 0"):
        shard_columns(batch_size, num_shards=num_shards, shards=[num_shards])
