"""One step of a recurrent unit and its gradient; here for GRUs with either kind of reset gate.

    z, r = sigmoid(x_zr + U_zr h)          update and reset gate
    c = tanh(x_c + U_c (r * h))            reset before the product (Cho et al., 2014; TF 1)
    c = tanh(x_c + r * (U_c h + d_c))      reset after it: one product per step, a second bias d
    h' = z * h + (1 - z) * c

x = W f + b is computed outside of the loop. Gates are in Keras' order: update, reset,
candidate. nets/tf_nmt/lstm_cells.py has the LSTMs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.matrix_products import apart, kernel_gradient, times, transposed

Tensors = Sequence[tf.Tensor]
Extra = tuple[str, tuple[int, ...], "str | Callable[..., tf.Tensor]"]


class StepWeights(NamedTuple):
    """The weights of a step or of its gradient, prepared before the loop."""

    parts: Tensors  # matrices that the recurrent kernel consists of
    bias: tf.Tensor  # the second bias, or None


class Cell:
    """A recurrent unit. Shapes are those of a GRU."""

    blocks: tuple[int, ...]  # columns of a kernel that are initialised together, in units
    state_parts = 1  # the size of a state, in units
    num_saved: int  # how many tensors a step saves for its gradient

    def extras(self, units: int) -> list[Extra]:
        """Return name, shape and initializer of each weight other than the kernels."""
        raise NotImplementedError

    def biases(self, *extras: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return the bias that is part of x, and the second bias, which is part of a step."""
        (bias,) = extras
        return bias, None

    def parts(self, kernel: tf.Tensor) -> Tensors:
        """Split a recurrent kernel [H, 3H] into the matrices that a step multiplies by."""
        return (kernel,)

    def forward_weights(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> StepWeights:
        """Return the weights for `step`."""
        return StepWeights([apart(part) for part in self.parts(kernel)], bias)

    def backward_weights(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> StepWeights:
        """Return the weights for `gradient`, whose matrices are transposed."""
        return StepWeights([transposed(part) for part in self.parts(kernel)], bias)

    def step(self, x: tf.Tensor, h: tf.Tensor, w: StepWeights) -> tuple[tf.Tensor, Tensors]:
        """Return the new state [B, H] and what its gradient needs, for x [B, 3H], h [B, H]."""
        raise NotImplementedError

    def gradient(
        self, d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, w: StepWeights
    ) -> Tensors:
        """Return the gradients of x, of the inner sums (see `weight_gradients`) and of h."""
        raise NotImplementedError

    def weight_gradients(
        self, h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Return the gradients of recurrent kernel and second bias over all steps.

        Arguments are [T, B, ...]: the states before each step, what `step` saved, and the first
        two results of `gradient`.
        """
        raise NotImplementedError


def open_gates(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
    """Return biases of one, which open the gates.

    The candidate's bias and the second bias (reset after) are zero.
    """
    units = shape[-1] // 3
    row = tf.concat([tf.ones([2 * units], dtype), tf.zeros([units], dtype)], axis=0)
    return row if len(shape) == 1 else tf.stack([row, tf.zeros_like(row)])


class ResetBefore(Cell):
    """A GRU whose reset gate acts on the state, before the recurrent product."""

    blocks = (2, 1)  # the gates and the candidate
    num_saved = 2

    def extras(self, units: int) -> list[Extra]:
        """See Cell."""
        return [("bias", (3 * units,), open_gates)]

    def parts(self, kernel: tf.Tensor) -> Tensors:
        """Return [H, 2H] of the gates and [H, H] of the candidate."""
        units = kernel.shape[0]
        return kernel[:, : 2 * units], kernel[:, 2 * units :]

    def step(self, x: tf.Tensor, h: tf.Tensor, w: StepWeights) -> tuple[tf.Tensor, Tensors]:
        """See Cell."""
        units = h.shape[-1]
        gates, candidate = w.parts
        zr = tf.sigmoid(x[..., : 2 * units] + times(h, gates, columns=2 * units))
        z, r = tf.split(zr, 2, axis=-1)
        c = tf.tanh(x[..., 2 * units :] + times(r * h, candidate, columns=units))
        return c + z * (h - c), (zr, c)

    def gradient(
        self, d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, w: StepWeights
    ) -> Tensors:
        """See Cell; the inner sums are those of the gates [B, 2H]."""
        gates, candidate = w.parts
        zr, c = saved
        units = h.shape[-1]
        z, r = tf.split(zr, 2, axis=-1)
        d_c = d_new * (1.0 - z) * (1.0 - c * c)
        d_reset = times(d_c, candidate, columns=units)  # of r * h
        d_zr = tf.concat([d_new * (h - c), d_reset * h], axis=-1) * zr * (1.0 - zr)
        d_h = d_new * z + d_reset * r
        d_h += times(d_zr, gates, columns=units)
        return tf.concat([d_zr, d_c], axis=-1), d_zr, d_h

    def weight_gradients(
        self, h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """See Cell."""
        units = h.shape[-1]
        r = saved[0][..., units:]
        gates = kernel_gradient(h, d_inner)
        candidate = kernel_gradient(r * h, d_x[..., 2 * units :])
        return tf.concat([gates, candidate], axis=-1), None


class ResetAfter(Cell):
    """A GRU whose reset gate acts after the recurrent product, so that a step has only one."""

    blocks = (2, 1)
    num_saved = 3

    def extras(self, units: int) -> list[Extra]:
        """See Cell."""
        return [("bias", (2, 3 * units), open_gates)]

    def biases(self, *extras: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return the first bias [3H] and the second [1, 3H]."""
        (bias,) = extras
        return bias[0], bias[1:]

    def step(self, x: tf.Tensor, h: tf.Tensor, w: StepWeights) -> tuple[tf.Tensor, Tensors]:
        """See Cell."""
        units = h.shape[-1]
        inner = times(h, w.parts[0], columns=3 * units) + w.bias  # [B, 3H]
        zr = tf.sigmoid(x[..., : 2 * units] + inner[..., : 2 * units])
        z, r = tf.split(zr, 2, axis=-1)
        inner_c = inner[..., 2 * units :]
        c = tf.tanh(x[..., 2 * units :] + r * inner_c)
        return c + z * (h - c), (zr, c, inner_c)

    def gradient(
        self, d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, w: StepWeights
    ) -> Tensors:
        """See Cell; the inner sums are U h + d [B, 3H]."""
        zr, c, inner_c = saved
        z, r = tf.split(zr, 2, axis=-1)
        d_c = d_new * (1.0 - z) * (1.0 - c * c)
        d_zr = tf.concat([d_new * (h - c), d_c * inner_c], axis=-1) * zr * (1.0 - zr)
        d_inner = tf.concat([d_zr, d_c * r], axis=-1)  # [B, 3H]
        d_h = d_new * z + times(d_inner, w.parts[0], columns=h.shape[-1])
        return tf.concat([d_zr, d_c], axis=-1), d_inner, d_h

    def weight_gradients(
        self, h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """See Cell."""
        return kernel_gradient(h, d_inner), tf.reduce_sum(d_inner, axis=[0, 1])[None]
