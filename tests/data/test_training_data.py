import itertools
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.training_data import TrainingData, load_training_data

LENGTHS = st.lists(st.tuples(st.integers(2, 20), st.integers(2, 20)), min_size=1, max_size=40)


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def make(encoded, lengths, *, start=10):
    return encoded(*np.array(lengths).T, start=start)


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture
def lengths():
    return np.random.default_rng(3).integers(2, 40, size=(500, 2))


@settings(max_examples=8)
@given(LENGTHS, st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**31))
def test_an_epoch_has_every_pair_once(encoded, lengths, batch_size, num_buckets, seed):
    pairs = make(encoded, lengths)
    data = TrainingData([[pairs]], batch_size=batch_size, num_buckets=num_buckets, seed=seed)
    batches = take(data.dataset(), data.batches_per_epoch)
    seen, real, padded = [], 0, 0
    for batch in batches:
        assert (batch["x"].shape[1], batch["y"].shape[1]) in set(map(tuple, data.shapes))
        assert batch["row"].tolist() == list(range(batch_size))
        padded += batch["x"].size + batch["y"].size
        for i in range(batch_size):
            x_len, y_len = batch["x_len"][i], batch["y_len"][i]
            if batch["weight"][i] == 0:
                assert (x_len, y_len) == (1, 1)
                assert (batch["x"][i] == 2).all() and (batch["y"][i] == 2).all()
                continue
            assert batch["weight"][i] == 1
            pair = batch["x"][i, 0] - 10
            assert batch["x"][i, :x_len].tolist() == pairs.x[pair].tolist()
            assert batch["y"][i, :y_len].tolist() == pairs.y[pair].tolist()
            assert (batch["x"][i, x_len:] == 2).all() and (batch["y"][i, y_len:] == 2).all()
            real += x_len + y_len
            seen.append(pair)
    assert sorted(seen) == list(range(len(lengths)))
    assert data.padding_share == pytest.approx(1 - real / padded)


@settings(max_examples=8)
@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**31), st.integers(0, 60))
def test_a_resumed_run_sees_what_the_uninterrupted_one_sees(
    encoded, lengths, batch_size, seed, step
):
    whole = TrainingData([[make(encoded, lengths)]], batch_size=batch_size, seed=seed)
    again = TrainingData([[make(encoded, lengths)]], batch_size=batch_size, seed=seed)
    assert_equal(
        take(again.dataset(first_step=step), 20), take(whole.dataset(), step + 20)[step:]
    )


@settings(max_examples=4)
@given(LENGTHS, st.integers(1, 9), st.integers(1, 5), st.integers(0, 20))
@pytest.mark.slow
def test_shards_together_are_the_global_batch(encoded, lengths, batch_size, num_shards, step):
    data = TrainingData([[make(encoded, lengths)]], batch_size=batch_size)
    whole = take(data.dataset(first_step=step), 5)
    shards = [
        take(data.dataset(first_step=step, num_shards=num_shards, shard=shard), 5)
        for shard in range(num_shards)
    ]
    size = -(-batch_size // num_shards)
    for number, batch in enumerate(whole):
        parts = [shard[number] for shard in shards]
        assert {len(part["weight"]) for part in parts} == {size}
        joined = {name: np.concatenate([part[name] for part in parts]) for name in batch}
        assert joined["row"].tolist() == list(range(size * num_shards))
        assert not joined["weight"][batch_size:].any()
        assert (joined["x_len"][batch_size:] == 1).all()
        assert_equal([{name: joined[name][:batch_size] for name in joined}], [batch])


def test_several_shards_of_a_worker_follow_one_another(encoded, lengths):
    data = TrainingData([[make(encoded, lengths)]], batch_size=10)
    both = take(data.dataset(first_step=3, num_shards=4, shard=[1, 2]), 8)
    one = take(data.dataset(first_step=3, num_shards=4, shard=1), 4)
    two = take(data.dataset(first_step=3, num_shards=4, shard=2), 4)
    assert_equal(both[0::2], one)
    assert_equal(both[1::2], two)


def test_epochs_differ_in_order_but_not_in_content(encoded, lengths):
    data = TrainingData([[make(encoded, lengths)]], batch_size=16)
    batches = take(data.dataset(), 2 * data.batches_per_epoch)
    epochs = batches[: data.batches_per_epoch], batches[data.batches_per_epoch :]
    first, second = (
        np.concatenate([batch["x"][batch["weight"] > 0, 0] for batch in epoch])
        for epoch in epochs
    )
    assert sorted(first) == sorted(second)
    assert first.tolist() != second.tolist()


def test_element_spec_and_static_shapes(encoded, lengths):
    data = TrainingData([[make(encoded, lengths)]], batch_size=16, num_buckets=3)
    spec = data.dataset(num_shards=3, shard=1).element_spec
    assert {
        name: (tensor.shape.as_list(), tensor.dtype.name) for name, tensor in spec.items()
    } == {
        "x": ([6, None], "int32"),
        "y": ([6, None], "int32"),
        "x_len": ([6], "int32"),
        "y_len": ([6], "int32"),
        "weight": ([6], "float32"),
        "corpus": ([6], "int32"),
        "row": ([6], "int32"),
    }


def test_no_python_runs_in_the_threads_of_tf_data(encoded, lengths):
    """It would hang a process that ends in the middle of an epoch."""
    pairs = make(encoded, lengths)
    data = TrainingData([[pairs]], synthetic=[pairs], batch_size=16)
    variant = tf.data.experimental.to_variant(data.dataset())
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1)
    graph = tf.compat.v1.GraphDef.FromString(graph.numpy())
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    ops = {node.op for node in nodes}
    assert "GatherV2" in ops
    assert not [op for op in ops if "PyFunc" in op or "Generator" in op]


def test_captions_waste_under_12_percent(encoded, caption_lengths):
    data = TrainingData([[encoded(*caption_lengths)]], batch_size=64, num_buckets=10)
    assert data.padding_share < 0.12
    assert len(data.shapes) <= 10


def test_pairs_carry_their_corpus_and_ratios_mix_them(encoded):
    gold = [[encoded([5] * n, [6] * n, start=start)] for n, start in ((30, 100), (20, 200))]
    synthetic = [encoded([7] * 40, [7] * 40, start=300)]
    data = TrainingData(
        gold, synthetic=synthetic, batch_size=8, ratios=[0.5, 2], synthetic_ratio=2
    )
    assert data.batches_per_epoch == 3 * -(-(15 + 40) // 8)
    batches = take(data.dataset(), data.batches_per_epoch)
    assert [set(batch["corpus"][batch["weight"] > 0]) <= {0, 1} for batch in batches] == [
        True,
        False,
        False,
    ] * 7
    ids, corpus = (
        np.concatenate([batch[name][batch["weight"] > 0].reshape(-1) for batch in batches])
        for name in ("row", "corpus")
    )
    ids = np.concatenate([batch["x"][batch["weight"] > 0, 0] for batch in batches])
    assert (corpus == ids // 100 - 1).all()
    _, times = np.unique(ids[corpus == 0], return_counts=True)
    assert times.tolist() == [1] * 15
    _, times = np.unique(ids[corpus == 1], return_counts=True)
    assert times.tolist() == [2] * 20
    assert (corpus == 2).sum() == 14 // 5 * 40 + 14 % 5 * 8


def test_a_resumed_run_with_synthetic_pairs_sees_the_same(encoded, lengths):
    def build():
        return TrainingData(
            [[make(encoded, lengths[:100])], [make(encoded, lengths[100:150], start=1000)]],
            synthetic=[make(encoded, lengths[150:], start=2000)],
            batch_size=8,
            ratios=[1, 0.4],
            synthetic_ratio=0.5,
            seed=7,
        )

    whole = take(build().dataset(), 100)
    for step in (1, 37, 71):
        assert_equal(take(build().dataset(first_step=step), 29), whole[step : step + 29])


@pytest.mark.parametrize(
    "ratios", [[1.0], [1.0, -1.0], [1.0, float("nan")], [1.0, 0.0], [0.1, 0.1]]
)
def test_bad_ratios_are_refused(encoded, ratios):
    gold = [[encoded([5], [6])], [encoded([5], [6])]]
    with pytest.raises(UserError):
        TrainingData(gold, batch_size=8, ratios=ratios)


@pytest.fixture
def settings_of():
    def make_settings(**changes):
        values = dict(
            src="en",
            tgt="de",
            train_prefix=None,
            synthetic_prefix=None,
            synthetic_tag=None,
            mono_prefix=None,
            train_ratios=None,
            mono_real_ratio=1,
            max_train=0,
            num_buckets=10,
            src_max_len=50,
            tgt_max_len=50,
            batch_size=4,
            random_seed=1,
            subword_sampling=0.0,
            subword_samples=8,
        )
        return types.SimpleNamespace(**values | changes)

    return make_settings


def test_files_to_batches(write_pairs, tokenizer, settings_of, tmp_path):
    news = write_pairs(["w1 w2", "", "w3"], ["w4", "w5", "w6"], name="news")
    talk = write_pairs(["w7"], ["w8 " * 60], name="talk")
    write_pairs(["w9"], ["w10"], name="made", src_name="translation.en")
    hp = settings_of(train_prefix=[str(news)], synthetic_prefix=str(news.parent / "made"))
    data = load_training_data(hp, x_tokenizer=tokenizer, y_tokenizer=tokenizer, folder=tmp_path)
    gold, synthetic = take(data.dataset(), 2)
    assert sorted(gold["x"][gold["weight"] > 0, 0]) == [4, 6]
    assert synthetic["x"][0, 0] == 12 and synthetic["corpus"][0] == 1
    assert [(c.read, c.empty, c.kept) for c in data.counts.corpora] == [(3, 1, 2), (1, 0, 1)]

    hp = settings_of(train_prefix=[str(news), str(talk)])
    with pytest.raises(UserError, match=r"talk: none of 1 pairs is left .*tgt_max_len=50"):
        load_training_data(hp, x_tokenizer=tokenizer, y_tokenizer=tokenizer, folder=tmp_path)


def test_max_train_takes_the_first_pairs(write_pairs, tokenizer, settings_of, tmp_path):
    prefix = write_pairs(["w1", "w2"], ["w3", "w4"])
    hp = settings_of(train_prefix=str(prefix), max_train=1)
    data = load_training_data(hp, x_tokenizer=tokenizer, y_tokenizer=tokenizer, folder=tmp_path)
    assert data.counts.corpora[0].kept == 1


def test_wrong_number_of_ratios_is_seen_before_reading(tokenizer, settings_of, tmp_path):
    hp = settings_of(train_prefix=["nowhere"], train_ratios=[1, 2])
    with pytest.raises(UserError, match="train_ratios has 2 numbers"):
        load_training_data(hp, x_tokenizer=tokenizer, y_tokenizer=tokenizer, folder=tmp_path)
