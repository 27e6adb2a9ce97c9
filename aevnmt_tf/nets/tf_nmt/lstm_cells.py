"""One step of TF-NMT's LSTMs and its gradient; see Cell in nets/cells.py.

    i, j, f, o = x + U h                                 in TF 1's order
    c' = c * sigmoid(f + forget_bias) + sigmoid(i) * tanh(j)
    h' = tanh(c') * sigmoid(o)

A state is [h; c], one tensor [B, 2H], so that all loops work as they do for a GRU. forget_bias
is constant. Layer normalisation (Ba et al., 2016) applies to the sum of each gate and to c',
with a gain and a shift for each of the five.
"""

import tensorflow as tf

from aevnmt_tf.nets.cells import Cell, Extra, StepWeights, Tensors
from aevnmt_tf.nets.matrix_products import kernel_gradient, times

EPSILON = 1e-12  # of TF 1's LayerNormBasicLSTMCell


class BasicLSTM(Cell):
    """unit_type lstm: TF 1's BasicLSTMCell."""

    blocks = (4,)
    state_parts = 2
    num_saved = 2

    def __init__(self, forget_bias: float) -> None:
        self._forget_bias = forget_bias

    def extras(self, units: int) -> list[Extra]:
        """See Cell."""
        return [("bias", (4 * units,), "zeros")]

    def step(self, x: tf.Tensor, h: tf.Tensor, w: StepWeights) -> tuple[tf.Tensor, Tensors]:
        """See Cell; h is the state [B, 2H], x is [B, 4H]."""
        h, c = tf.split(h, 2, axis=-1)
        i, j, f, o = self._gates(x + times(h, w.parts[0], columns=x.shape[-1]))
        c = c * f + i * j
        squashed = tf.tanh(c)
        state = tf.concat([squashed * o, c], axis=-1)
        return state, (tf.concat([i, j, f, o], axis=-1), squashed)

    def _gates(self, sums: tf.Tensor) -> Tensors:
        i, j, f, o = tf.split(sums, 4, axis=-1)
        f = tf.sigmoid(f + tf.cast(self._forget_bias, f.dtype))
        return tf.sigmoid(i), tf.tanh(j), f, tf.sigmoid(o)

    def gradient(
        self, d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, w: StepWeights
    ) -> Tensors:
        """See Cell; there is no gradient of inner sums."""
        gates, squashed = saved
        d_h, d_c = tf.split(d_new, 2, axis=-1)
        d_c += d_h * gates[..., -d_h.shape[-1] :] * (1.0 - squashed * squashed)
        d_x, d_c = _through_gates(d_h * squashed, d_c, h, gates)
        d_h = times(d_x, w.parts[0], columns=d_h.shape[-1])
        return d_x, d_x[..., :0], tf.concat([d_h, d_c], axis=-1)

    def weight_gradients(
        self, h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """See Cell."""
        return kernel_gradient(h[..., : h.shape[-1] // 2], d_x), None


class LayerNormLSTM(BasicLSTM):
    """unit_type layer_norm_lstm: TF 1's LayerNormBasicLSTMCell, without biases."""

    num_saved = 4

    def extras(self, units: int) -> list[Extra]:
        """Return gain and shift of the gates i, j, f, o and of c; see Cell."""
        return [("gain", (5 * units,), "ones"), ("shift", (5 * units,), "zeros")]

    def biases(self, *extras: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return no bias for x, and gain and shift [2, 5H] as the second one."""
        return None, tf.stack(extras)

    def step(self, x: tf.Tensor, h: tf.Tensor, w: StepWeights) -> tuple[tf.Tensor, Tensors]:
        """See BasicLSTM."""
        scale, size = w.bias, x.shape[-1]
        h, c = tf.split(h, 2, axis=-1)
        normal, deviation = _normalised(x + times(h, w.parts[0], columns=size), groups=4)
        i, j, f, o = self._gates(normal * scale[0, :size] + scale[1, :size])
        normal_c, deviation_c = _normalised(c * f + i * j, groups=1)
        c = normal_c * scale[0, size:] + scale[1, size:]
        squashed = tf.tanh(c)
        normal = tf.concat([normal, normal_c], axis=-1)  # [B, 5H]
        deviation = tf.concat([deviation, deviation_c], axis=-1)  # [B, 5], inverse
        saved = (tf.concat([i, j, f, o], axis=-1), squashed, normal, deviation)
        return tf.concat([squashed * o, c], axis=-1), saved

    def gradient(
        self, d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, w: StepWeights
    ) -> Tensors:
        """See Cell; the inner sums are the five normalised values [B, 5H]."""
        scale = w.bias
        gates, squashed, normal, deviation = saved
        size, units = gates.shape[-1], squashed.shape[-1]
        d_h, d_c = tf.split(d_new, 2, axis=-1)
        d_c += d_h * gates[..., -units:] * (1.0 - squashed * squashed)
        d_sum = _through_norm(
            d_c * scale[0, size:], normal[..., size:], deviation[..., 4:], groups=1
        )
        d_gates, d_old = _through_gates(d_h * squashed, d_sum, h, gates)
        d_x = _through_norm(
            d_gates * scale[0, :size], normal[..., :size], deviation[..., :4], groups=4
        )
        d_h = times(d_x, w.parts[0], columns=units)
        d_inner = tf.concat([d_gates, d_c], axis=-1)
        return d_x, d_inner, tf.concat([d_h, d_old], axis=-1)

    def weight_gradients(
        self, h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """See Cell."""
        kernel, _ = super().weight_gradients(h, saved, d_x, d_inner)
        d_gain = tf.reduce_sum(d_inner * saved[2], axis=[0, 1])
        return kernel, tf.stack([d_gain, tf.reduce_sum(d_inner, axis=[0, 1])])


def _through_gates(
    d_o: tf.Tensor, d_c: tf.Tensor, state: tf.Tensor, gates: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return gradients of the gates' sums [B, 4H] and of the old c [B, H].

    d_o is that of sigmoid(o), d_c that of c * sigmoid(f) + sigmoid(i) * tanh(j).
    """
    i, j, f, o = tf.split(gates, 4, axis=-1)
    old = state[..., d_c.shape[-1] :]
    d_sums = [
        d_c * j * i * (1.0 - i),
        d_c * i * (1.0 - j * j),
        d_c * old * f * (1.0 - f),
        d_o * o * (1.0 - o),
    ]
    return tf.concat(d_sums, axis=-1), d_c * f


def _normalised(values: tf.Tensor, *, groups: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return [B, G * H] with mean 0 and variance 1 in each group; 1 / deviations [B, G]."""
    apart = _in_groups(values, groups)
    mean, variance = tf.nn.moments(apart, axes=[-1], keepdims=True)
    inverse = tf.math.rsqrt(variance + tf.cast(EPSILON, variance.dtype))
    normal = tf.reshape((apart - mean) * inverse, tf.shape(values))
    return tf.ensure_shape(normal, values.shape), inverse[..., 0]


def _through_norm(
    d_normal: tf.Tensor, normal: tf.Tensor, inverse: tf.Tensor, *, groups: int
) -> tf.Tensor:
    """Return the gradient [B, G * H] of the values that `_normalised` was given."""
    d, n = _in_groups(d_normal, groups), _in_groups(normal, groups)
    d -= tf.reduce_mean(d, axis=-1, keepdims=True)
    d -= n * tf.reduce_mean(d * n, axis=-1, keepdims=True)
    d_values = tf.reshape(inverse[..., None] * d, tf.shape(d_normal))
    return tf.ensure_shape(d_values, d_normal.shape)


def _in_groups(values: tf.Tensor, groups: int) -> tf.Tensor:
    return tf.reshape(values, [-1, groups, values.shape[-1] // groups])
