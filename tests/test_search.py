"""Search over small recurrent step functions whose every hypothesis can be listed."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf import search
from aevnmt_tf.search import random_numbers, vocabulary

SOS, EOS = 1, 2
PENALTIES = (0.0, 0.6, 1.0, 2.0, -0.5)


class Toy:
    """A recurrent step function with random weights and a source vector for each sentence.

    The state depends on the whole history; `log_prob` is the same written in NumPy.
    """

    def __init__(self, seed, *, vocab=4, units=5, scale=1.5, eos_bias=0.0):
        random = np.random.default_rng(seed)
        self.vocab = vocab
        self.words = random.normal(size=(vocab, units)).astype(np.float32) * 1.5
        self.turn = random.normal(size=(units, units)).astype(np.float32)
        self.out = random.normal(size=(units, vocab)).astype(np.float32) * scale
        self.bias = np.zeros(vocab, np.float32)
        self.bias[EOS] = eos_bias
        self.random = random
        self.units = units

    def sources(self, batch, length=3):
        return self.random.normal(size=(batch, length, self.units)).astype(np.float32)

    def step(self, memory, state, y):
        batch = tf.shape(memory)[0]
        width = tf.shape(y)[0] // tf.maximum(batch, 1)
        query = tf.reshape(state, [batch, width, self.units])
        attention = tf.nn.softmax(tf.matmul(query, memory, transpose_b=True))  # [B, K, Tx]
        context = tf.reshape(tf.matmul(attention, memory), [-1, self.units])
        state = tf.tanh(tf.matmul(state, self.turn) + tf.gather(self.words, y) + context)
        attention = tf.reshape(attention, [batch * width, -1])
        return tf.matmul(state, self.out) + self.bias, state, attention

    def task(self, sources, limits, **options):
        memory = tf.constant(sources)
        state = tf.zeros([len(sources), self.units])
        limits = tf.constant(limits, tf.int32)
        return search.Task(self.step, memory, state, limits, **options)

    def follow(self, source, ids):
        """Log-probabilities [T, V] before each word and attention [T, Tx], in NumPy."""
        state, y, log_probs, attention = np.zeros(self.units), SOS, [], []
        for word in ids:
            weights = source @ state
            weights = np.exp(weights - weights.max())
            weights /= weights.sum()
            attention.append(weights)
            state = np.tanh(state @ self.turn + self.words[y] + weights @ source)
            logits = state @ self.out + self.bias
            shift = logits.max()
            log_probs.append(logits - shift - np.log(np.exp(logits - shift).sum()))
            y = word
        return np.array(log_probs), np.array(attention)

    def log_prob(self, source, ids):
        return self.follow(source, ids)[0][np.arange(len(ids)), ids].sum()


def score(log_prob, length, weight):
    return log_prob / ((5 + length) / 6) ** weight


def everything(toy, source, limit, weight):
    """All finished hypotheses, best first: (score, ids)."""
    words = [w for w in range(toy.vocab) if w != EOS]
    found = []
    for length in range(limit):
        for prefix in itertools.product(words, repeat=length):
            ids = [*prefix, EOS]
            found.append((score(toy.log_prob(source, ids), length + 1, weight), ids))
    return sorted(found, key=lambda pair: -pair[0])


def listed(hypotheses):
    """Hypotheses as lists of words, [B][K]."""
    ids, lengths = hypotheses.ids.numpy(), hypotheses.lengths.numpy()
    return [
        [list(i[:n]) for i, n in zip(*pair, strict=True)]
        for pair in zip(ids, lengths, strict=True)
    ]


def graph(run):
    return tf.function(run)()


# Beam search.


@pytest.mark.parametrize("weight", PENALTIES)
@pytest.mark.parametrize("seed", range(2))
def test_wide_beam_is_exhaustive_search(seed, weight):
    toy = Toy(seed, vocab=3)
    sources = toy.sources(3)
    limits = [5, 3, 4]
    got = graph(
        lambda: search.beam(
            toy.task(sources, limits), width=64, n_best=6, length_penalty_weight=weight
        )
    )
    for row, limit in enumerate(limits):
        expected = everything(toy, sources[row], limit, weight)[:6]
        assert listed(got)[row][: len(expected)] == [ids for _, ids in expected]
        np.testing.assert_allclose(
            got.scores[row][: len(expected)], [s for s, _ in expected], rtol=1e-5
        )


@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(3, 6),
    width=st.integers(1, 5),
    weight=st.sampled_from(PENALTIES),
    eos_bias=st.sampled_from([-3.0, 0.0, 3.0]),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
@settings(max_examples=15)
def test_beam_keeps_its_promises(seed, vocab, width, weight, eos_bias, limits):
    toy = Toy(seed, vocab=vocab, eos_bias=eos_bias)
    sources = toy.sources(len(limits))
    got = search.beam(
        toy.task(sources, limits), width=width, n_best=width, length_penalty_weight=weight
    )
    ids = got.ids.numpy()
    for row, limit in enumerate(limits):
        hypotheses = listed(got)[row]
        assert list(got.scores[row]) == sorted(got.scores[row], reverse=True)
        real = [h for h in hypotheses if h]
        assert real and hypotheses[: len(real)] == real, "the best one exists"
        assert len({tuple(h) for h in real}) == len(real), "no hypothesis twice"
        for k, hypothesis in enumerate(real):
            assert len(hypothesis) <= limit
            assert EOS not in hypothesis[:-1], "a finished hypothesis does not grow"
            assert set(ids[row, k, len(hypothesis) :]) <= {EOS}, "</s> pads"
            if hypothesis[-1] != EOS:
                assert len(hypothesis) == limit and all(h[-1] != EOS for h in real)
            log_prob = toy.log_prob(sources[row], hypothesis)
            np.testing.assert_allclose(got.log_probs[row, k], log_prob, rtol=1e-4, atol=1e-5)
            expected = score(log_prob, len(hypothesis), weight)
            np.testing.assert_allclose(got.scores[row, k], expected, rtol=1e-4, atol=1e-5)
        for k in range(len(real), width):
            assert got.scores[row, k] == -np.inf and got.log_probs[row, k] == -np.inf


@given(
    seed=st.integers(0, 10**6),
    weight=st.sampled_from(PENALTIES),
    eos_bias=st.sampled_from([-2.0, 0.0, 2.0]),
    min_length=st.sampled_from([None, 3]),
)
@settings(max_examples=10)
def test_beam_of_one_is_greedy(seed, weight, eos_bias, min_length):
    toy = Toy(seed, vocab=7, eos_bias=eos_bias)
    task = toy.task(toy.sources(4), [9, 1, 4, 7], min_length=min_length, with_attention=True)
    one = search.beam(task, width=1, length_penalty_weight=weight)
    other = search.greedy(task, length_penalty_weight=weight)
    assert listed(one) == listed(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_greedy_takes_the_best_word_each_time():
    toy = Toy(3, vocab=7, eos_bias=-1.0)
    sources = toy.sources(3)
    for row, (hypothesis,) in enumerate(listed(search.greedy(toy.task(sources, [8] * 3)))):
        log_probs, _ = toy.follow(sources[row], hypothesis)
        assert hypothesis == list(log_probs.argmax(1))


@given(seed=st.integers(0, 10**6), width=st.integers(1, 4), weight=st.sampled_from(PENALTIES))
@settings(max_examples=3)
def test_a_sentence_does_not_depend_on_its_batch(seed, width, weight):
    toy = Toy(seed, vocab=6, eos_bias=0.5)
    sources, limits = toy.sources(9), [3, 12, 1, 6, 2, 9, 2, 2, 5]

    def beam(rows):
        task = toy.task(sources[rows], [limits[r] for r in rows])
        return search.beam(task, width=width, n_best=width, length_penalty_weight=weight)

    together = beam(list(range(9)))
    for row in (1, 3, 4):
        alone = beam([row])
        assert listed(alone)[0] == listed(together)[row]
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-5)
    shuffled = [4, 1, 8, 0]
    assert listed(beam(shuffled)) == [listed(together)[row] for row in shuffled]


def test_stops_as_soon_as_no_live_hypothesis_can_win():
    """</s> has probability 1 / (1 + e^-20) at once: no reason for a second step."""
    calls = []

    def step(memory, state, y):
        calls.append(1)
        logits = tf.tile([[0.0, -9.0, 20.0, -9.0]], [tf.shape(y)[0], 1])
        return logits, state, tf.zeros([tf.shape(y)[0], 1])

    task = search.Task(step, (), tf.zeros([2, 1]), tf.constant([50, 50]))
    got = search.beam(task, width=3, length_penalty_weight=1.0)
    assert len(calls) == 1 and listed(got) == [[[EOS]], [[EOS]]]
    calls.clear()
    search.beam(task, width=3, n_best=3, length_penalty_weight=1.0)
    assert 1 < len(calls) < 50, "three are wanted, so it goes on until three are there"


def test_goes_on_while_a_live_hypothesis_can_win():
    """Short hypotheses fill the beam's list, yet the penalty makes the longest one the best."""

    def step(memory, state, y):
        ends = [[-9.0, -9.0, 9.0, -9.0]]
        early = tf.math.log([[1e-4, 1e-4, 0.3, 0.7]])
        rows = tf.shape(y)[0]
        return tf.where(state >= 5, ends, early), state + 1, tf.zeros([rows, 1])

    task = search.Task(step, (), tf.zeros([1, 1]), tf.constant([9]))
    got = search.beam(task, width=2, length_penalty_weight=2.0)
    assert listed(got) == [[[3, 3, 3, 3, 3, EOS]]]
    short = search.beam(task, width=2, length_penalty_weight=0.0)
    assert listed(short) == [[[EOS]]]


def test_sentences_that_are_done_cost_nothing():
    sizes = []

    def step(memory, state, y):
        sizes.append(int(tf.shape(y)[0]))
        time = state[:, 0] + 1
        logits = tf.where(time[:, None] >= memory * 1.0, [[0.0, 0.0, 9.0]], [[0.0, 0.0, -9.0]])
        return logits, state + 1, tf.zeros([tf.shape(y)[0], 1])

    lengths = [1] + 3 * [2] + 6 * [6] + 6 * [9]
    ends = tf.constant(lengths, tf.float32)[:, None]
    got = search.greedy(search.Task(step, ends, tf.zeros([16, 1]), tf.fill([16], 20)))
    assert list(got.lengths[:, 0]) == lengths
    assert sizes == [16, 16, 12, 12, 12, 12, 6, 6, 6]  # one of 16 is not worth a copy


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_min_length_forbids_the_end(kind):
    toy = Toy(5, vocab=6, eos_bias=4.0)
    sources = toy.sources(3)
    task = toy.task(sources, [9, 9, 9], min_length=9)
    got = run(kind, task)
    assert (got.lengths.numpy() == 9).all()
    for row, hypotheses in enumerate(listed(got)):
        for k, ids in enumerate(hypotheses):
            expected = toy.log_prob(sources[row], ids)
            np.testing.assert_allclose(got.log_probs[row, k], expected, rtol=1e-4)


def run(kind, task, seed=0):
    if kind == "greedy":
        return search.greedy(task, length_penalty_weight=0.7)
    if kind == "beam":
        return search.beam(task, width=4, n_best=3, length_penalty_weight=0.7)
    seeds = tf.range(tf.size(task.limits)) + seed
    return search.sample(task, seeds=seeds, num_samples=3, length_penalty_weight=0.7)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_attention_of_the_chosen_hypotheses(kind):
    toy = Toy(6, vocab=6)
    sources = toy.sources(4)
    got = run(kind, toy.task(sources, [9, 2, 6, 9], with_attention=True))
    assert got.attention.shape == [*got.ids.shape, 3]
    for row, hypotheses in enumerate(listed(got)):
        for k, ids in enumerate(hypotheses):
            expected = np.zeros(got.attention.shape[2:])
            expected[: len(ids)] = toy.follow(sources[row], ids)[1]
            np.testing.assert_allclose(got.attention[row, k], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
@pytest.mark.slow
def test_compiled_or_not(kind):
    toy = Toy(7, vocab=6)
    sources, limits = toy.sources(5), [9, 2, 6, 9, 1]
    plain = run(kind, toy.task(sources, limits, with_attention=True))
    in_graph = graph(lambda: run(kind, toy.task(sources, limits, with_attention=True)))
    compiled = tf.function(
        lambda: run(kind, toy.task(sources, limits, with_attention=True, static_length=10)),
        jit_compile=True,
    )()
    assert compiled.ids.shape[2] == 10
    assert listed(plain) == listed(in_graph) == listed(compiled)
    for other in (in_graph, compiled):
        np.testing.assert_allclose(plain.scores, other.scores, rtol=1e-5)
        time = plain.ids.shape[2]
        np.testing.assert_allclose(plain.attention, other.attention[:, :, :time], atol=1e-5)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_saved_and_loaded(kind, tmp_path):
    toy = Toy(8, vocab=6)
    module = tf.Module()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, toy.units], tf.float32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def decode(memory, limits):
        state = tf.zeros([tf.size(limits), toy.units])
        return run(kind, search.Task(toy.step, memory, state, limits))._asdict()["ids"]

    module.decode = decode
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for batch in (1, 6):
        sources, limits = toy.sources(batch), [7, 3, 9, 4, 1, 2][:batch]
        expected = run(kind, toy.task(sources, limits)).ids
        np.testing.assert_array_equal(
            loaded.decode(tf.constant(sources), tf.constant(limits)), expected
        )


def test_state_may_be_any_nest():
    toy = Toy(9, vocab=6)
    sources = toy.sources(3)

    def step(memory, state, y):
        logits, h, attention = toy.step(memory["keys"][0], state["h"][0], y)
        return logits, {"h": (h,), "count": state["count"] + 1}, attention

    state = {"h": (tf.zeros([3, toy.units]),), "count": tf.zeros([3], tf.int32)}
    limits = tf.constant([8, 3, 5])
    got = graph(
        lambda: run("beam", search.Task(step, {"keys": [tf.constant(sources)]}, state, limits))
    )
    assert listed(got) == listed(run("beam", toy.task(sources, [8, 3, 5])))


@pytest.mark.parametrize("n_best", [0, 4])
def test_n_best_must_fit_the_beam(n_best):
    toy = Toy(0)
    with pytest.raises(ValueError, match="n_best must be from 1 to the beam width 3"):
        search.beam(toy.task(toy.sources(1), [3]), width=3, n_best=n_best)


# Sampling.


def fixed(logits):
    """One word a sentence from fixed logits [V]."""

    def step(memory, state, y):
        return tf.repeat([logits], tf.shape(y)[0], 0), state, tf.zeros([tf.shape(y)[0], 1])

    return step


def frequencies(logits, count, **options):
    batch = 50
    task = search.Task(
        fixed(np.array(logits, np.float32)),
        (),
        tf.zeros([batch, 1]),
        tf.ones([batch], tf.int32),
    )
    got = search.sample(task, seeds=tf.range(batch), num_samples=count // batch, **options)
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


LOGITS = [0.3, -1.0, 1.2, 0.0, 2.0, -0.5, 1.1, 0.9]
LIMIT = {1: 10.8, 2: 13.8, 3: 16.3, 4: 18.5, 5: 20.5, 6: 22.5, 7: 24.3}  # p = 0.001


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


def test_samples_of_whole_sentences_follow_the_model():
    toy = Toy(11, vocab=3, eos_bias=1.0)
    source = toy.sources(1)
    task = toy.task(np.repeat(source, 40, 0), [3] * 40)
    got = search.sample(task, seeds=tf.range(40), num_samples=500)
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
        task = toy.task(sources[rows], [limits[r] for r in rows])
        return listed(
            search.sample(task, seeds=tf.constant(seeds[rows]), num_samples=num_samples)
        )

    together = sample(list(range(6)))
    for row in range(6):
        assert sample([row])[0] == together[row]
    assert sample([5, 2], num_samples=5)[0][:3] == together[5], "more samples, same first ones"


def test_different_seeds_different_samples():
    toy = Toy(13, vocab=9, scale=0.1, eos_bias=-9.0)
    sources = np.repeat(toy.sources(1), 4, 0)
    got = search.sample(toy.task(sources, [9] * 4), seeds=tf.range(4), num_samples=4)
    assert len({tuple(h) for row in listed(got) for h in row}) == 16


def test_low_temperature_is_greedy():
    toy = Toy(14, vocab=9)
    task = toy.task(toy.sources(5), [9] * 5)
    got = search.sample(task, seeds=tf.range(5), temperature=1e-4)
    assert listed(got) == listed(search.greedy(task))
    assert listed(search.sample(task, seeds=tf.range(5), top_k=1)) == listed(got)
    assert listed(search.sample(task, seeds=tf.range(5), top_p=1e-6)) == listed(got)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_bad_sampling_options(options):
    toy = Toy(0)
    with pytest.raises(ValueError, match=next(iter(options))):
        search.sample(toy.task(toy.sources(1), [3]), seeds=tf.zeros([1], tf.int32), **options)


def test_threefry_gives_the_published_words():
    """The known answers of Random123 for threefry2x32 with 20 rounds."""

    def words(*numbers):
        return tuple(tf.constant([[n]], tf.uint32) for n in numbers)

    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, expected in known:
        got = random_numbers._threefry(words(*key), words(*counter))
        assert tuple(int(word[0, 0]) for word in got) == expected


def test_uniforms_are_uniform_and_unrelated():
    u = np.concatenate([search.uniforms(tf.range(200), stream=t, count=50) for t in range(10)])
    assert u.min() >= 0 and u.max() < 1
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # p = 0.001 with 19 degrees of freedom
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(u[:200].ravel(), u[200:400].ravel())[0, 1]) < 0.04


@pytest.mark.parametrize("temperature", [1e-20, 1e-38, 1e-60])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_a_temperature_close_to_zero_is_greedy_search(temperature, options):
    logits = tf.constant(np.random.default_rng(8).normal(size=(5, 9)), tf.float32)
    got = search.draw(logits, u=tf.fill([5], 0.99), temperature=temperature, **options)
    np.testing.assert_array_equal(got, tf.argmax(logits, 1))


@pytest.mark.parametrize("width", [1, 3])
def test_attention_in_half_precision(width):
    """As the nets of a mixed_bfloat16 model give it."""
    toy = Toy(16, vocab=6)
    sources = toy.sources(2)
    whole = toy.task(sources, [6, 6], with_attention=True)

    def step(memory, state, y):
        logits, state, attention = toy.step(memory, state, y)
        return logits, state, tf.cast(attention, tf.bfloat16)

    got, expected = (search.beam(t, width=width) for t in (whole._replace(step=step), whole))
    assert got.attention.dtype == tf.float32
    np.testing.assert_allclose(got.attention, expected.attention, atol=1e-2)


# Passes over the vocabulary.


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([5, 400, 1000, 1023, 1024]),
    count=st.integers(1, 5),
    levels=st.sampled_from([3, 40, 10**6]),
)
@settings(max_examples=25)
def test_best_words_is_top_k(seed, size, count, levels):
    """With few levels there are ties, which must come in the same order."""
    random = np.random.default_rng(seed)
    logits = tf.constant(random.integers(0, levels, (4, size)).astype(np.float32))
    expected = tf.math.top_k(logits, count)
    values, words = vocabulary.best_words(logits, count=count)
    np.testing.assert_array_equal(values, expected.values)
    np.testing.assert_array_equal(words, expected.indices)


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([5, 67, 400, 1023, 1024]),
    width=st.sampled_from([1, 3, 40]),
    levels=st.sampled_from([3, 40, 10**6]),
    dead=st.booleans(),
)
@settings(max_examples=40)
def test_best_continuations_are_those_of_the_whole_table(seed, size, width, levels, dead):
    """Of K V log-probabilities a sentence, ties in order; a dead hypothesis is never better."""
    random = np.random.default_rng(seed)
    logits = tf.constant(random.integers(0, levels, (2 * width, size)).astype(np.float32))
    live = random.normal(size=(2, width)).astype(np.float32)
    if dead:
        live[:, 1:] = -np.inf
    count = min(2 * width, width * size)
    normaliser = vocabulary.log_normaliser(logits, best=tf.reduce_max(logits, 1))
    log_probs = logits - normaliser[:, None]
    table = tf.reshape(log_probs, [2, width, size]) + live[:, :, None]
    expected = tf.math.top_k(tf.reshape(table, [2, -1]), count)
    got, words, parents = vocabulary.best_continuations(logits, tf.constant(live), count=count)
    np.testing.assert_array_equal(got, expected.values)
    assert (0 <= words.numpy()).all() and (words.numpy() < size).all()
    real = np.isfinite(got)
    assert real[:, : min(count, size)].all()
    np.testing.assert_array_equal(words.numpy()[real], (expected.indices.numpy() % size)[real])
    np.testing.assert_array_equal(
        parents.numpy()[real], (expected.indices.numpy() // size)[real]
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_all_ways_to_the_normaliser(scale):
    logits = scale * np.random.default_rng(3).normal(size=(7, 50))
    expected = np.logaddexp.reduce(logits, axis=1)  # in float64
    logits = tf.constant(logits, tf.float32)
    got = vocabulary.log_normaliser(logits, best=tf.reduce_max(logits, 1))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    best, words = (v[:, 0] for v in tf.math.top_k(logits, 1))
    got = vocabulary.log_normaliser(logits, best=best, words=words)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(vocabulary.log_sum_exp(logits), expected, rtol=1e-6)


def test_large_logits_do_not_overflow():
    toy = Toy(15, vocab=6, scale=200.0)
    sources = toy.sources(2)
    got = search.beam(toy.task(sources, [6, 6]), width=3)
    assert np.isfinite(got.scores.numpy()).all()


def test_an_empty_batch():
    toy = Toy(0)
    for kind in ("greedy", "beam", "sample"):
        got = run(kind, toy.task(toy.sources(0), []))
        assert got.ids.shape[0] == 0
