"""Greedy search, beam search and sampling over a step function; knows no model.

Each sentence stops on its own, at its own limit, and what it gets does not depend on the others
in the batch. Sentences that are done leave the batch once a quarter of it is done, so that no
work is spent on them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

MINUS_INFINITY = float("-inf")
CHUNK = 16  # words; the quickest on a CPU for vocabularies of some thousand words


class Task(NamedTuple):
    """What to search: a step function and where it starts.

    A step function makes one more word of every row:

        step(memory, state, y [N]) -> (logits [N, V] float32, state, attention [N, Tx])

    memory stays fixed for a sentence: a nest of tensors with B rows. state changes with each
    word: a nest of tensors with N = B * K rows, row b * K + k being hypothesis k of sentence b.
    So memory is neither tiled nor moved while hypotheses change places. K is 1 for the first
    word: the state given here has B rows.
    """

    step: Callable[[Any, Any, tf.Tensor], tuple[tf.Tensor, Any, tf.Tensor]]
    memory: Any  # B rows
    state: Any  # B rows
    limits: tf.Tensor  # [B] int32: how many words a hypothesis may have; </s> counts
    min_length: Any = None  # </s> is forbidden before this length (for benchmarks)
    with_attention: bool = False  # also return the attention of each word
    # XLA: shapes must be known, so sentences stay to the end and results have this length, an
    # int not below any limit.
    static_length: int | None = None
    sos: int = 1
    eos: int = 2


class Hypotheses(NamedTuple):
    """Target sentences, best first (samples: as drawn).

    A finished hypothesis ends in </s>, which its length counts; </s> pads. Where there are
    fewer hypotheses than asked for, the others have length 0 and the score minus infinity.
    """

    ids: tf.Tensor  # [B, K, T] int32
    lengths: tf.Tensor  # [B, K] int32
    scores: tf.Tensor  # [B, K] float32: log_probs / length penalty
    log_probs: tf.Tensor  # [B, K] float32: log P(y|x, z)
    attention: tf.Tensor | None = None  # [B, K, T, Tx], 0 after the end


def length_penalty(lengths, *, weight):
    """((5 + length) / 6) ** weight, of Wu et al. (2016); lengths count </s>."""
    return tf.pow((5.0 + tf.cast(lengths, tf.float32)) / 6.0, weight)


def greedy(task: Task, *, length_penalty_weight=0.0) -> Hypotheses:
    """The most probable next word, again and again; the weight matters to the score alone."""

    def choose(logits, t, seeds):
        del seeds
        ids = tf.math.top_k(logits, 1 if task.min_length is None else 2).indices
        if task.min_length is None:
            return ids[:, 0]
        skip = (t + 1 < task.min_length) & (ids[:, 0] == task.eos)
        return tf.where(skip, ids[:, 1], ids[:, 0])

    seeds = tf.zeros_like(task.limits)
    return _walk(task, choose, seeds=seeds, width=1, weight=length_penalty_weight)


def sample(
    task: Task,
    *,
    seeds,
    num_samples=1,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    length_penalty_weight=0.0,
) -> Hypotheses:
    """Ancestral samples; log_probs are the model's own, whatever the temperature.

    Args:
        task: what to search.
        seeds: [B] int32 or int64; all randomness of a sentence comes from its seed.
        num_samples: how many hypotheses a sentence gets.
        temperature: divides the logits; positive.
        top_k: draw among the k most probable words; 0: among all.
        top_p: draw among the fewest words that have this much probability together.
        length_penalty_weight: for the scores alone.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}; 0 is greedy search")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")

    def choose(logits, t, seeds):
        if task.min_length is not None:
            is_eos = tf.range(logits.shape[1]) == task.eos  # [V]
            logits = tf.where((t + 1 < task.min_length) & is_eos, MINUS_INFINITY, logits)
        u = tf.reshape(uniforms(seeds, stream=t, count=num_samples), [-1])  # [A * K]
        return draw(logits, u=u, temperature=temperature, top_k=top_k, top_p=top_p)

    return _walk(task, choose, seeds=seeds, width=num_samples, weight=length_penalty_weight)


def beam(task: Task, *, width, n_best=1, length_penalty_weight=0.0) -> Hypotheses:
    """Beam search, with finished and live hypotheses kept apart.

    A hypothesis finishes if it is among the `width` best candidates of its step. A sentence
    stops when no live hypothesis can still become one of the n_best, when `width` hypotheses
    have finished, or at its limit. An unfinished hypothesis is returned only where none has
    finished. With width 1 this is greedy search.
    """
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best must be from 1 to the beam width {width}, not {n_best}")
    batch = tf.size(task.limits)
    zeros = tf.zeros([batch, n_best], tf.int32)
    nothing = tf.fill([batch, n_best], MINUS_INFINITY)
    ends = _Ends(scores=nothing, log_probs=nothing, step=zeros - 1, word=zeros, parent=zeros)
    carry = _Beam(
        live=tf.zeros([batch, 1]), num_finished=tf.zeros([batch], tf.int32), ends=ends
    )

    def advance(logits, loop):
        return _advance_beam(logits, loop, task=task, width=width, weight=length_penalty_weight)

    loop = _run(task, advance, carry=carry, width=width)
    return _trace_back(task, loop)


# The loop that all searches share.


class _Loop(NamedTuple):
    """What a search carries from word to word, for the A sentences that are still in it."""

    t: tf.Tensor  # [] how many words have been made
    rows: tf.Tensor  # [A] the sentences' places in the batch
    limits: tf.Tensor  # [A]
    done: tf.Tensor  # [A]
    y: tf.Tensor  # [A, K] the last words
    memory: Any  # A rows
    state: Any  # A * K rows
    carry: Any  # what `advance` keeps, A rows
    left: Any  # the same with B rows, filled in as sentences leave
    history: tuple[tf.TensorArray, ...]  # words [B, K], parents [B, K], attention [B, K, Tx]


def _run(task, advance, *, carry, width):
    """Make words until every sentence is done.

    advance(logits [A * K, V], loop) -> (words [A, K], parents [A, K], carry, done [A])
    """
    limits = tf.maximum(tf.convert_to_tensor(task.limits, tf.int32), 1)
    batch = tf.size(limits)
    is_static = task.static_length is not None
    if is_static:
        limits = tf.minimum(limits, task.static_length)

    def body(loop):
        logits, state, attention = task.step(loop.memory, loop.state, tf.reshape(loop.y, [-1]))
        words, parents, carry, done = advance(logits, loop)
        records = [words, parents]
        if task.with_attention:
            records.append(_by_place(attention, loop.y, width=width))
        if not is_static:
            records = [_spread(record, rows=loop.rows, batch=batch) for record in records]
        origin = _flat_places(parents, width=loop.y.shape[1])
        return loop._replace(
            t=loop.t + 1,
            done=done,
            y=words,
            state=tf.nest.map_structure(lambda s: tf.gather(s, origin), state),
            carry=carry,
            history=tuple(
                array.write(loop.t, record)
                for array, record in zip(loop.history, records, strict=True)
            ),
        )

    dtypes = (tf.int32, tf.int32, tf.float32) if task.with_attention else (tf.int32, tf.int32)
    loop = _Loop(
        t=tf.constant(0),
        rows=tf.range(batch),
        limits=limits,
        done=tf.zeros_like(limits, tf.bool),
        y=tf.fill([batch, 1], task.sos),
        memory=task.memory,
        state=task.state,
        carry=carry,
        left=(),
        history=tuple(_history(dtype, task.static_length) for dtype in dtypes),
    )
    loop = body(loop)  # the first word: from one hypothesis to `width` of them
    if is_static:
        (loop,) = tf.while_loop(_goes_on, lambda loop: [body(loop)], [loop])
        return loop._replace(left=loop.carry)
    loop = loop._replace(left=loop.carry)
    (loop,) = tf.while_loop(
        _goes_on,
        lambda loop: [body(_let_go(loop, width=width))],
        [loop],
        shape_invariants=[tf.nest.map_structure(_any_rows, loop)],
    )
    return loop._replace(left=_fill_in(loop))


def _goes_on(loop):
    return tf.reduce_any(~loop.done)


def _any_rows(value):
    if isinstance(value, tf.TensorArray):
        return tf.TensorShape(None)
    return tf.TensorShape([None, *value.shape[1:]]) if value.shape.rank else value.shape


def _history(dtype, static_length):
    if static_length is None:
        return tf.TensorArray(dtype, size=0, dynamic_size=True)
    return tf.TensorArray(dtype, size=static_length)


def _flat_places(places, *, width):
    """Rows of [A * width, ...] for places [A, K] in each sentence's own `width` rows."""
    first = tf.range(tf.shape(places)[0])[:, None] * width
    return tf.reshape(first + places, [-1])  # [A * K]


def _by_place(attention, y, *, width):
    """[A * k, Tx] to [A, K, Tx]; the first word is made of one hypothesis, so k may be 1."""
    shape = tf.stack([tf.shape(y)[0], y.shape[1], tf.shape(attention)[1]])
    attention = tf.reshape(attention, shape)
    return attention if y.shape[1] == width else tf.repeat(attention, width, axis=1)


def _spread(record, *, rows, batch):
    """[A, ...] to [B, ...], with zeros for the sentences that have left."""
    shape = tf.concat([[batch], tf.shape(record)[1:]], 0)
    spread = tf.scatter_nd(rows[:, None], record, shape)
    return tf.ensure_shape(spread, [None, *record.shape[1:]])


def _fill_in(loop):
    return tf.nest.map_structure(
        lambda left, carry: tf.tensor_scatter_nd_update(left, loop.rows[:, None], carry),
        loop.left,
        loop.carry,
    )


def _let_go(loop, *, width):
    """Take the sentences that are done out of the batch, if they are a quarter of it."""
    active = tf.cast(tf.where(~loop.done)[:, 0], tf.int32)

    def shrink():
        def take(nest):
            return tf.nest.map_structure(lambda x: tf.gather(x, active), nest)

        origin = tf.reshape(active[:, None] * width + tf.range(width), [-1])
        return loop._replace(
            rows=take(loop.rows),
            limits=take(loop.limits),
            done=take(loop.done),
            y=take(loop.y),
            memory=take(loop.memory),
            state=tf.nest.map_structure(lambda s: tf.gather(s, origin), loop.state),
            carry=take(loop.carry),
            left=_fill_in(loop),
        )

    is_worth_it = 4 * tf.size(active) <= 3 * tf.size(loop.rows)
    return tf.cond(is_worth_it, shrink, lambda: loop)


# Greedy search and sampling: hypotheses that never change places.


class _Walk(NamedTuple):
    log_probs: tf.Tensor  # [A, K]
    lengths: tf.Tensor  # [A, K]
    finished: tf.Tensor  # [A, K]
    seeds: tf.Tensor  # [A]


def _walk(task, choose, *, seeds, width, weight):
    """One word after the other by choose(logits [A * K, V], t, seeds [A]) -> [A * K]."""

    def advance(logits, loop):
        walk = loop.carry
        old_width = loop.y.shape[1]
        if old_width != width:
            logits = tf.repeat(logits, width, axis=0)  # [A * K, V]
        words = choose(logits, loop.t, walk.seeds)
        chosen = tf.gather(logits, words, batch_dims=1)
        log_probs = chosen - _log_sum_exp(logits, shift=tf.reduce_max(logits, 1))
        walks = ~walk.finished
        words = tf.where(walks, tf.reshape(words, [-1, width]), task.eos)  # [A, K]
        log_probs = tf.where(walks, tf.reshape(log_probs, [-1, width]), 0.0)
        walk = walk._replace(
            log_probs=walk.log_probs + log_probs,
            lengths=walk.lengths + tf.cast(walks, tf.int32),
            finished=walk.finished | (words == task.eos),
        )
        done = tf.reduce_all(walk.finished, 1) | (loop.t + 1 >= loop.limits)
        places = tf.range(width) if old_width == width else tf.zeros([width], tf.int32)
        # A sentence that is done but still here must not walk on.
        walk = walk._replace(finished=walk.finished | done[:, None])
        return words, tf.zeros_like(words) + places, walk, done

    zeros = tf.zeros([tf.size(task.limits), width], tf.int32)
    start = _Walk(
        log_probs=tf.cast(zeros, tf.float32),
        lengths=zeros,
        finished=tf.cast(zeros, tf.bool),
        seeds=tf.convert_to_tensor(seeds),
    )
    loop = _run(task, advance, carry=start, width=width)
    ids = tf.transpose(loop.history[0].stack(), [1, 2, 0])  # [B, K, T]
    walk = loop.left
    inside = tf.sequence_mask(walk.lengths, tf.shape(ids)[2])  # [B, K, T]
    attention = None
    if task.with_attention:
        attention = tf.transpose(loop.history[2].stack(), [1, 2, 0, 3])  # [B, K, T, Tx]
        attention = tf.where(inside[..., None], attention, 0.0)
    return Hypotheses(
        ids=tf.where(inside, ids, task.eos),
        lengths=walk.lengths,
        scores=walk.log_probs / length_penalty(walk.lengths, weight=weight),
        log_probs=walk.log_probs,
        attention=attention,
    )


def draw(logits, *, u, temperature=1.0, top_k=0, top_p=1.0):
    """Words [N] from logits [N, V] by inversion: one uniform number u [N] in [0, 1) a word."""
    logits = logits / temperature
    size = logits.shape[1]
    words = None
    if top_p < 1:
        logits, words = tf.math.top_k(logits, min(top_k or size, size))
    elif 0 < top_k < size:
        logits, words = best_words(logits, count=top_k)
    probs = tf.nn.softmax(logits)
    sums = tf.cumsum(probs, axis=1)
    if top_p < 1:
        probs = tf.where(sums - probs < top_p, probs, 0.0)
        sums = tf.cumsum(probs, axis=1)
    places = tf.searchsorted(sums, u[:, None] * sums[:, -1:], side="right")[:, 0]
    return places if words is None else tf.gather(words, places, batch_dims=1)


def uniforms(seeds, *, stream, count):
    """Numbers [B, count] in [0, 1): a pure function of each row's seed and of the stream.

    Threefry-2x32 of Salmon et al. (2011), so that a row's numbers are the same in any batch, on
    any device, compiled or not. The 23 bits of each are such that u * total < total in float32.
    """
    seeds = tf.cast(seeds, tf.int64)[:, None]  # [B, 1]
    key = (_low_word(seeds), _low_word(tf.bitwise.right_shift(seeds, 32)))
    stream = _low_word(tf.cast(stream, tf.int64))
    places = tf.cast(tf.range(count), tf.uint32)[None]  # [1, count]
    bits, _ = _threefry(key, (stream + tf.zeros_like(places), places))
    bits = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    return tf.cast(bits, tf.float32) * 2.0**-23


def split_seeds(seeds, *, count):
    """[B] seeds to [B, count] int64 ones whose numbers have nothing to do with each other."""
    seeds = tf.cast(seeds, tf.int64)[:, None]  # [B, 1]
    key = (_low_word(seeds), _low_word(tf.bitwise.right_shift(seeds, 32)))
    places = tf.cast(tf.range(count), tf.uint32)[None]  # [1, count]
    last = tf.constant(0xFFFFFFFF, tf.uint32)  # a stream that no one else uses
    low, high = (
        tf.cast(word, tf.int64) for word in _threefry(key, (last + 0 * places, places))
    )
    return tf.bitwise.bitwise_or(tf.bitwise.left_shift(high, tf.constant(32, tf.int64)), low)


def normals(seeds, *, stream, count):
    """Standard normal numbers [B, count], made of `uniforms`."""
    return tf.math.ndtri(uniforms(seeds, stream=stream, count=count) + 2.0**-24)


def _low_word(number):
    return tf.cast(tf.bitwise.bitwise_and(number, tf.constant(0xFFFFFFFF, tf.int64)), tf.uint32)


def _threefry(key, counter):
    """20 rounds: two words [B, 1] of key and two of counter [1, count] to [B, count] words."""
    parity = tf.constant(0x1BD11BDA, tf.uint32)
    xor = tf.bitwise.bitwise_xor
    keys = (key[0], key[1], xor(xor(key[0], key[1]), parity))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            a = a + b
            left = tf.bitwise.left_shift(b, tf.constant(turn, tf.uint32))
            right = tf.bitwise.right_shift(b, tf.constant(32 - turn, tf.uint32))
            b = xor(a, tf.bitwise.bitwise_or(left, right))
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + tf.constant(block + 1, tf.uint32)
    return a, b


# Beam search.


class _Ends(NamedTuple):
    """The best hypotheses that have come to an end, as pointers into the history."""

    scores: tf.Tensor  # [A, N]
    log_probs: tf.Tensor  # [A, N]
    step: tf.Tensor  # [A, N] when the last word was made; -1: no hypothesis
    word: tf.Tensor  # [A, N] the last word
    parent: tf.Tensor  # [A, N] the place in the beam that it was made from


class _Beam(NamedTuple):
    live: tf.Tensor  # [A, K] log-probabilities of the live hypotheses, best first
    num_finished: tf.Tensor  # [A]
    ends: _Ends


def _advance_beam(logits, loop, *, task, width, weight):
    """From the live hypotheses to the next ones and to those that end here."""
    beam, length = loop.carry, loop.t + 1
    n_best = beam.ends.scores.shape[1]
    log_probs, words, parents = _candidates(logits, loop, task=task, count=2 * width)
    ends_here = words == task.eos
    penalty = length_penalty(length, weight=weight)

    # 2K candidates hold K live ones, because at most one of each hypothesis ends it. Only
    # those among the K best finish: a beam of 1 is greedy search.
    finishes = ends_here & (log_probs > MINUS_INFINITY) & ~loop.done[:, None]
    finishes = finishes[:, :width]  # [A, K]
    new = _Ends(
        scores=tf.where(finishes, log_probs[:, :width] / penalty, MINUS_INFINITY),
        log_probs=log_probs[:, :width],
        step=tf.where(finishes, loop.t, -1),
        word=words[:, :width],
        parent=parents[:, :width],
    )
    both = _Ends(*(tf.concat(pair, 1) for pair in zip(beam.ends, new, strict=True)))
    _, best = tf.math.top_k(both.scores, n_best)
    ends = _Ends(*(tf.gather(x, best, batch_dims=1) for x in both))
    num_finished = beam.num_finished + tf.reduce_sum(tf.cast(finishes, tf.int32), 1)

    live, best = tf.math.top_k(tf.where(ends_here, MINUS_INFINITY, log_probs), width)
    words, parents = (tf.gather(x, best, batch_dims=1) for x in (words, parents))  # [A, K]

    at_limit = length >= loop.limits
    unfinished = _Ends(
        scores=live / penalty,
        log_probs=live,
        step=tf.fill(tf.shape(live), loop.t),
        word=words,
        parent=parents,
    )
    take_them = (at_limit & (num_finished == 0) & ~loop.done)[:, None]
    ends = _Ends(
        *(tf.where(take_them, x[:, :n_best], y) for x, y in zip(unfinished, ends, strict=True))
    )
    # A hypothesis can at best reach its highest penalty without losing probability.
    highest = tf.maximum(
        length_penalty(length + 1, weight=weight), length_penalty(loop.limits, weight=weight)
    )
    cannot_win = live[:, 0] / highest <= ends.scores[:, -1]
    done = loop.done | at_limit | cannot_win | (num_finished >= width)
    return words, parents, _Beam(live=live, num_finished=num_finished, ends=ends), done


def _candidates(logits, loop, *, task, count):
    """The best continuations: log-probabilities, words and parents [A, count], best first."""
    old_width = loop.y.shape[1]
    each = min(count, logits.shape[1])
    values, words = best_words(logits, count=each)  # [A * k, each]
    log_probs = values - _log_sum_exp(logits, shift=values[:, 0])[:, None]
    if task.min_length is not None:
        forbidden = (loop.t + 1 < task.min_length) & (words == task.eos)
        log_probs = tf.where(forbidden, MINUS_INFINITY, log_probs)
    log_probs = tf.reshape(log_probs, [-1, old_width, each]) + loop.carry.live[:, :, None]
    log_probs = tf.reshape(log_probs, [-1, old_width * each])
    words = tf.reshape(words, [-1, old_width * each])
    missing = max(0, count - old_width * each)  # a beam wider than there are words
    log_probs = tf.pad(log_probs, [[0, 0], [0, missing]], constant_values=MINUS_INFINITY)
    words = tf.pad(words, [[0, 0], [0, missing]], constant_values=task.eos)
    log_probs, best = tf.math.top_k(log_probs, count)
    parents = tf.minimum(best // each, old_width - 1)
    return log_probs, tf.gather(words, best, batch_dims=1), parents


def _trace_back(task, loop):
    """Read the words of the hypotheses off the history, from their ends to their starts."""
    ends = loop.left.ends
    words, parents = loop.history[0].stack(), loop.history[1].stack()  # [T, B, K]
    steps = tf.range(tf.shape(words)[0])

    def back(later, now):
        words, parents, t = now
        place = later[1]  # [B, N]
        at_end, inside = ends.step == t, ends.step > t
        word = tf.where(inside, tf.gather(words, place, batch_dims=1), task.eos)
        parent = tf.where(inside, tf.gather(parents, place, batch_dims=1), 0)
        return tf.where(at_end, ends.word, word), tf.where(at_end, ends.parent, parent)

    start = (tf.zeros_like(ends.word), tf.zeros_like(ends.parent))
    ids, places = tf.scan(back, (words, parents, steps), start, reverse=True)  # [T, B, N]
    attention = None
    if task.with_attention:
        attention = tf.gather(loop.history[2].stack(), places, batch_dims=2)  # [T, B, N, Tx]
        inside = steps[:, None, None] <= ends.step
        attention = tf.where(inside[..., None], attention, 0.0)
        attention = tf.transpose(attention, [1, 2, 0, 3])  # [B, N, T, Tx]
    return Hypotheses(
        ids=tf.transpose(ids, [1, 2, 0]),
        lengths=ends.step + 1,
        scores=ends.scores,
        log_probs=tf.where(ends.step < 0, MINUS_INFINITY, ends.log_probs),
        attention=attention,
    )


# Passes over the vocabulary, which cost most on a CPU.


def best_words(logits, *, count):
    """What tf.math.top_k(logits [N, V], count) gives, ties included, several times as fast.

    A word among the `count` best is in one of the `count` chunks with the highest maxima, so
    only these chunks need a closer look.
    """
    size = logits.shape[1]
    if size <= 2 * count * CHUNK:
        return tf.math.top_k(logits, count)
    if size % CHUNK:
        pad = [[0, 0], [0, -size % CHUNK]]
        logits = tf.pad(logits, pad, constant_values=MINUS_INFINITY)
    chunks = tf.reshape(logits, [-1, -(-size // CHUNK), CHUNK])
    _, best = tf.math.top_k(tf.reduce_max(chunks, 2), count)
    best = tf.sort(best, axis=1)  # equal words in the order of the vocabulary
    closer = tf.reshape(tf.gather(chunks, best, batch_dims=1), [-1, count * CHUNK])
    values, places = tf.math.top_k(closer, count)
    words = tf.gather(best, places // CHUNK, batch_dims=1) * CHUNK + places % CHUNK
    return values, words


def _log_sum_exp(logits, *, shift):
    """Return log sum exp [N] of logits [N, V], given a shift [N] near their maxima."""
    return shift + tf.math.log(tf.reduce_sum(tf.exp(logits - shift[:, None]), 1))
