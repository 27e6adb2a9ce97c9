"""Sampled segmentations: drawn for the pairs that are kept, and taken in turn by epochs."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.data.pair_encoding import PairEncoder, SubwordSampling, encode_pairs
from aevnmt_tf.data.pairs import read_pairs
from aevnmt_tf.data.training_data import TrainingData
from aevnmt_tf.text import sentencepiece_tokenizer

LINES = [f"{word} {other} houses" for word in ("red", "blue", "green") for other in "abcdefgh"]
SAMPLING = SubwordSampling(alpha=0.1, count=3, seed=4)


@pytest.fixture(scope="module")
def subwords():
    proto = sentencepiece_tokenizer.train(LINES, vocab_size=290)
    return text.SentencePieceTokenizer(proto)


@pytest.fixture
def drawn(write_pairs, subwords):
    """Pairs, of which one is empty, their best segmentation and samples of it."""
    lines = [*LINES[:5], "", *LINES[5:]]
    pairs = read_pairs(write_pairs(lines, lines), src="en", tgt="de")
    tokenizers = dict(x_tokenizer=subwords, y_tokenizer=subwords)
    best = encode_pairs(pairs, drop_empty=True, **tokenizers)
    limits = dict(src_max_len=int(best.x.lengths.max()) - 1, tgt_max_len=50)
    encoder = PairEncoder(**tokenizers, **limits, drop_empty=True, sampling=SAMPLING)
    (chunk,) = encoder.chunks(pairs)
    return best, chunk.versions


def decoded(tokenizer, sequences):
    rows = [sequences[i].tolist() for i in range(len(sequences))]
    assert all(row.index(text.EOS) == len(row) - 1 for row in rows)
    return tokenizer.decode(tf.ragged.constant(rows, tf.int32)).numpy().tolist()


def test_samples_are_of_the_pairs_that_are_kept(drawn, subwords):
    best, samples = drawn
    assert len(samples) == 3 and len(best) == len(LINES)
    for sample in samples:
        for side in (sample.x, sample.y):
            assert decoded(subwords, side) == [line.encode() for line in LINES]
    targets = {tuple(sample.y.ids.tolist()) for sample in samples}
    assert len(targets) == 3


def test_a_sample_that_is_too_long_is_the_best_one(drawn):
    best, samples = drawn
    too_long = same = 0
    for sample in samples:
        assert sample.x.lengths.max() <= best.x.lengths.max()
        too_long += (sample.y.lengths > best.x.lengths.max()).sum()
        same += sum(np.array_equal(sample.x[i], best.x[i]) for i in range(len(best)))
    assert too_long > 0 and same > 0


def test_a_tag_stays_whole(write_pairs, subwords):
    """Also one that is a word of the vocabulary like any other, which samples would cut."""
    lines = ["houses red" for _ in range(50)]
    pairs = read_pairs(write_pairs(lines, lines), src="en", tgt="de")
    tokenizers = dict(x_tokenizer=subwords, y_tokenizer=subwords)
    ((tag,),) = subwords.encode(["houses"]).to_list()
    sampling = SubwordSampling(alpha=0.01, count=1, seed=3)
    for word, whole in (("houses", True), (None, False)):
        encoder = PairEncoder(**tokenizers, drop_empty=True, sampling=sampling, tag=word)
        (chunk,) = encoder.chunks(pairs)
        (sample,) = chunk.versions
        assert all(sample.x[i][0] == tag for i in range(len(lines))) == whole
        assert decoded(subwords, sample.x) == [line.encode() for line in lines]
        assert len({tuple(sample.x[i].tolist()) for i in range(len(lines))}) > 1


def test_seeds_of_two_runs_do_not_meet():
    seeds = [
        SubwordSampling(0.3, count=8, seed=seed).seed_of(number, chunk)
        for seed, number, chunk in itertools.product((1, 2, 3), range(8), range(500))
    ]
    assert len(set(seeds)) == len(seeds)


def rows_of(data, *, first_step, steps):
    """(x, y) of every real row, as tuples without padding."""
    found = []
    for batch in data.dataset(first_step).take(steps).as_numpy_iterator():
        for b in np.flatnonzero(batch["weight"]):
            x, y = batch["x"][b, : batch["x_len"][b]], batch["y"][b, : batch["y_len"][b]]
            found.append((tuple(x.tolist()), tuple(y.tolist())))
    return found


@pytest.mark.parametrize("has_synthetic", [False, True])
def test_epochs_take_the_samples_in_turn(encoded, has_synthetic):
    """Each pair once an epoch, with another segmentation until it has had them all."""
    sizes, count = (11, 7), 3
    corpora = [
        [encoded([c + s + 3] * size, [s + 2] * size, start=100 * c + 10) for s in range(count)]
        for c, size in enumerate(sizes)
    ]
    data = TrainingData(
        corpora[:1] if has_synthetic else corpora,
        synthetic=corpora[1] if has_synthetic else None,
        batch_size=4,
    )
    batches = data.batches_per_epoch
    seen = [rows_of(data, first_step=e * batches, steps=batches) for e in range(count)]
    every = [
        (tuple(part.x[i].tolist()), tuple(part.y[i].tolist()))
        for corpus in (corpora[:1] if has_synthetic else corpora)
        for part in corpus
        for i in range(len(part))
    ]
    gold = [row for epoch in seen for row in epoch if not has_synthetic or row[0][0] < 100]
    assert sorted(gold) == sorted(every)
    for epoch in seen:
        ids = [x[0] for x, _ in epoch if x[0] < 100]
        assert sorted(ids) == list(range(10, 21))
    if has_synthetic:  # runs through epochs of its own
        lengths = {(len(x), len(y)) for epoch in seen for x, y in epoch if x[0] >= 100}
        assert lengths == {(4 + s, 2 + s) for s in range(count)}
    whole = [row for epoch in seen for row in epoch]
    late = rows_of(data, first_step=batches + 1, steps=2 * batches - 1)
    assert whole[-len(late) :] == late
