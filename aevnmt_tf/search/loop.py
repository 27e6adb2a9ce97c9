"""The loop that all searches share: one word for every hypothesis, again and again."""

from typing import Any, NamedTuple

import tensorflow as tf


class Loop(NamedTuple):
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


def run(task, advance, *, carry, width):
    """Make words until every sentence is done; return the Loop, `left` complete.

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
            attention = tf.cast(attention, tf.float32)  # of a model that computes in half of it
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
    loop = Loop(
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
    """Take the sentences that are done out of the batch, if they are an eighth of it."""
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

    is_worth_it = 8 * tf.size(active) <= 7 * tf.size(loop.rows)
    return tf.cond(is_worth_it, shrink, lambda: loop)
