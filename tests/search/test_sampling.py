"""Greedy search and sampling."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import search
from tests.search.toy import Toy, listed

SOS, EOS = 1, 2
LOGITS = [0.3, -1.0, 1.2, 0.0, 2.0, -0.5, 1.1, 0.9]
LIMIT = {1: 10.8, 2: 13.8, 3: 16.3, 4: 18.5, 5: 20.5, 6: 22.5, 7: 24.3}  # p = 0.001


def fixed(logits):
    """One word a sentence from fixed logits [V]."""

    def step(memory, state, y):
        return tf.repeat([logits], tf.shape(y)[0], 0), state, tf.zeros([tf.shape(y)[0], 1])

    return step


def frequencies(logits, count, **options):
    batch = 50
    problem = search.SearchProblem(
        fixed(np.array(logits, np.float32)),
        (),
        tf.zeros([batch, 1]),
        tf.ones([batch], tf.int32),
    )
    got = search.sample(problem, seeds=tf.range(batch), num_samples=count // batch, **options)
    return np.bincount(got.ids.numpy().ravel(), minlength=len(logits))


def softmax(logits):
    e = np.exp(np.array(logits) - np.max(logits))
    return e / e.sum()


def chi_square(observed, probs):
    """The statistic and the degrees of freedom over the words that can occur."""
    assert observed[probs == 0].sum() == 0, "a word that cannot occur did"
    possible = probs > 0
    expected = probs[possible] * observed.sum()
    return ((observed[possible] - expected) ** 2 / expected).sum(), possible.sum() - 1


def test_greedy_takes_the_best_word_each_time():
    toy = Toy(3, vocab=7, eos_bias=-1.0)
    sources = toy.sources(3)
    for row, (hypothesis,) in enumerate(listed(search.greedy(toy.problem(sources, [8] * 3)))):
        log_probs, _ = toy.follow(sources[row], hypothesis)
        assert hypothesis == list(log_probs.argmax(1))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k,top_p", [(0, 1.0), (3, 1.0), (0, 0.8), (5, 0.5), (99, 1.0)])
def test_sampling_frequencies(temperature, top_k, top_p):
    probs = softmax(np.array(LOGITS) / temperature)
    order = np.argsort(-probs)
    if top_k:
        probs[order[top_k:]] = 0
        probs /= probs.sum()
    before = np.concatenate([[0], np.cumsum(probs[order])[:-1]])
    probs[order[before >= top_p]] = 0
    probs /= probs.sum()
    observed = frequencies(LOGITS, 20000, temperature=temperature, top_k=top_k, top_p=top_p)
    statistic, freedom = chi_square(observed, probs)
    assert statistic < LIMIT.get(freedom, 1e-9)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.9])
@pytest.mark.parametrize("top_k, top_p", [(0, 1.0), (3, 1.0), (0, 0.8)])
def test_epsilon_leaves_words_out(temperature, epsilon, top_k, top_p):
    """Frequencies against Hewitt et al.'s truncation, written in NumPy; the best word stays."""
    probs = softmax(np.array(LOGITS) / temperature)
    probs[(probs < epsilon) & (probs < probs.max())] = 0
    order = np.argsort(-probs)
    if top_k:
        probs[order[top_k:]] = 0
    probs /= probs.sum()
    before = np.concatenate([[0], np.cumsum(probs[order])[:-1]])
    probs[order[before >= top_p]] = 0
    probs /= probs.sum()
    options = {"temperature": temperature, "epsilon": epsilon, "top_k": top_k, "top_p": top_p}
    statistic, freedom = chi_square(frequencies(LOGITS, 20000, **options), probs)
    assert statistic < LIMIT.get(freedom, 1e-9)
    assert freedom == (0 if epsilon == 0.9 else freedom) < 7


def test_epsilon_is_a_threshold_of_each_row():
    """Words and their borders, one row after another, against a plain loop."""
    logits = np.random.default_rng(3).normal(size=(40, 9)).astype(np.float32) * 2
    u = np.random.default_rng(4).random(40).astype(np.float32)
    got = search.draw(tf.constant(logits), u=tf.constant(u), epsilon=0.15).numpy()
    for row, number, word in zip(logits, u, got, strict=True):
        probs = softmax(row)
        kept = np.where((probs >= 0.15) | (probs == probs.max()), probs, 0)
        assert word == np.searchsorted(np.cumsum(kept), number * kept.sum(), side="right")


def test_samples_of_whole_sentences_follow_the_model():
    toy = Toy(11, vocab=3, eos_bias=1.0)
    source = toy.sources(1)
    problem = toy.problem(np.repeat(source, 40, 0), [3] * 40)
    got = search.sample(problem, seeds=tf.range(40), num_samples=500)
    drawn = [tuple(h) for row in listed(got) for h in row]
    words = [0, 1]
    outcomes = [(*p, EOS) for n in range(3) for p in itertools.product(words, repeat=n)]
    outcomes += list(itertools.product(words, repeat=3))
    probs = np.exp([toy.log_prob(source[0], o) for o in outcomes])
    observed = np.array([drawn.count(o) for o in outcomes])
    assert observed.sum() == 20000
    expected = probs * 20000
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < 36.1  # p = 0.001 with 14 degrees of freedom


def test_same_seed_same_sample_in_any_batch():
    toy = Toy(12, vocab=9)
    sources, limits = toy.sources(6), [9, 4, 9, 1, 7, 9]
    seeds = np.array([5, -3, 2**31 - 1, 0, 5, 2**40 + 5])

    def sample(rows, num_samples=3):
        problem = toy.problem(sources[rows], [limits[r] for r in rows])
        return listed(
            search.sample(problem, seeds=tf.constant(seeds[rows]), num_samples=num_samples)
        )

    together = sample(list(range(6)))
    for row in range(6):
        assert sample([row])[0] == together[row]
    assert sample([5, 2], num_samples=5)[0][:3] == together[5], "more samples, same first ones"


def test_different_seeds_different_samples():
    toy = Toy(13, vocab=9, scale=0.1, eos_bias=-9.0)
    sources = np.repeat(toy.sources(1), 4, 0)
    got = search.sample(toy.problem(sources, [9] * 4), seeds=tf.range(4), num_samples=4)
    assert len({tuple(h) for row in listed(got) for h in row}) == 16


def test_low_temperature_is_greedy():
    toy = Toy(14, vocab=9)
    problem = toy.problem(toy.sources(5), [9] * 5)
    got = search.sample(problem, seeds=tf.range(5), temperature=1e-4)
    assert listed(got) == listed(search.greedy(problem))
    assert listed(search.sample(problem, seeds=tf.range(5), top_k=1)) == listed(got)
    assert listed(search.sample(problem, seeds=tf.range(5), top_p=1e-6)) == listed(got)


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"epsilon": -0.1}]
)
def test_bad_sampling_options(options):
    toy = Toy(0)
    with pytest.raises(ValueError, match=next(iter(options))):
        search.sample(
            toy.problem(toy.sources(1), [3]), seeds=tf.zeros([1], tf.int32), **options
        )


@pytest.mark.parametrize("temperature", [1e-20, 1e-38, 1e-60])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_a_temperature_close_to_zero_is_greedy_search(temperature, options):
    logits = tf.constant(np.random.default_rng(8).normal(size=(5, 9)), tf.float32)
    got = search.draw(logits, u=tf.fill([5], 0.99), temperature=temperature, **options)
    np.testing.assert_array_equal(got, tf.argmax(logits, 1))
