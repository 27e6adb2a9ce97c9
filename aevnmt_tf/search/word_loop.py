"""The loop that all searches share: each iteration adds one word to every hypothesis."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.search.problem import Nest, SearchProblem


class WordLoop(NamedTuple):
    """The loop variables of a search, for the A sentences that are still active."""

    t: tf.Tensor  # [] how many words there are
    rows: tf.Tensor  # [A] the positions of the sentences in the batch
    limits: tf.Tensor  # [A]
    done: tf.Tensor  # [A]
    y: tf.Tensor  # [A, K] the last words
    memory: Nest  # A rows
    state: Nest  # A * K rows
    carry: Nest  # the state of `advance`, A rows
    left: Nest  # the same with B rows, filled in when sentences leave
    history: tuple[tf.TensorArray, ...]  # words [B, K], parents [B, K], attention [B, K, Tx]


# Maps logits [A * K, V] and the loop with its new state to words [A, K], parents [A, K], carry
# and done [A].
Advance = Callable[[tf.Tensor, WordLoop], tuple[tf.Tensor, tf.Tensor, Nest, tf.Tensor]]


def run(problem: SearchProblem, advance: Advance, *, carry: Nest, width: int) -> WordLoop:
    """Add words until every sentence is done; return the loop, with `left` complete."""
    limits = tf.maximum(tf.convert_to_tensor(problem.limits, tf.int32), 1)
    batch = tf.size(limits)

    def body(loop: WordLoop) -> WordLoop:
        logits, state, attention = problem.step(
            loop.memory, loop.state, tf.reshape(loop.y, [-1])
        )
        words, parents, carry, done = advance(logits, loop._replace(state=state))
        records = [words, parents]
        if problem.with_attention:
            attention = tf.cast(attention, tf.float32)  # may be of half precision
            records.append(_by_place(attention, loop.y, width=width))
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

    dtypes = (
        (tf.int32, tf.int32, tf.float32) if problem.with_attention else (tf.int32, tf.int32)
    )
    loop = WordLoop(
        t=tf.constant(0),
        rows=tf.range(batch),
        limits=limits,
        done=tf.zeros_like(limits, tf.bool),
        y=tf.fill([batch, 1], problem.sos),
        memory=problem.memory,
        state=problem.state,
        carry=carry,
        left=(),
        history=tuple(tf.TensorArray(dtype, size=0, dynamic_size=True) for dtype in dtypes),
    )
    loop = body(loop)  # the first word: from one hypothesis to `width` of them
    loop = loop._replace(left=loop.carry)
    ended: WordLoop
    (ended,) = tf.while_loop(
        lambda loop: tf.reduce_any(~loop.done),
        lambda loop: [body(_let_go(loop, width=width))],
        [loop],
        shape_invariants=[tf.nest.map_structure(_any_rows, loop)],
    )
    return ended._replace(left=_fill_in(ended))


def _any_rows(value: tf.Tensor | tf.TensorArray) -> tf.TensorShape:
    if isinstance(value, tf.TensorArray):
        return tf.TensorShape(None)
    return tf.TensorShape([None, *value.shape[1:]]) if value.shape.rank else value.shape


def _flat_places(places: tf.Tensor, *, width: int) -> tf.Tensor:
    """Return rows of [A * width, ...] for places [A, K] in each sentence's own `width` rows."""
    first = tf.range(tf.shape(places)[0])[:, None] * width
    return tf.reshape(first + places, [-1])  # [A * K]


def _by_place(attention: tf.Tensor, y: tf.Tensor, *, width: int) -> tf.Tensor:
    """Reshape [A * k, Tx] to [A, K, Tx]; k is 1 for the first word."""
    shape = tf.stack([tf.shape(y)[0], y.shape[1], tf.shape(attention)[1]])
    attention = tf.reshape(attention, shape)
    return attention if y.shape[1] == width else tf.repeat(attention, width, axis=1)


def _spread(record: tf.Tensor, *, rows: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Scatter [A, ...] to [B, ...], with zeros for the sentences that have left."""
    shape = tf.concat([[batch], tf.shape(record)[1:]], 0)
    spread = tf.scatter_nd(rows[:, None], record, shape)
    return tf.ensure_shape(spread, [None, *record.shape[1:]])


def _fill_in(loop: WordLoop) -> Nest:
    """Return `left` with the carry of the active sentences filled in."""
    return tf.nest.map_structure(
        lambda left, carry: tf.tensor_scatter_nd_update(left, loop.rows[:, None], carry),
        loop.left,
        loop.carry,
    )


def _let_go(loop: WordLoop, *, width: int) -> WordLoop:
    """Remove the finished sentences from the batch if they are an eighth of it."""
    active = tf.cast(tf.where(~loop.done)[:, 0], tf.int32)

    def shrink() -> WordLoop:
        def take(nest: Nest) -> Nest:
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

    is_worth_it = 8 * tf.size(active) <= 7 * tf.size(loop.rows)
    fewer: WordLoop = tf.cond(is_worth_it, shrink, lambda: loop)
    return fewer
