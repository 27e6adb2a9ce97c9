"""One step of a gated recurrent unit and its gradient, for both places of the reset gate.

    z, r = sigmoid(x_zr + U_zr h)          update and reset gate
    c = tanh(x_c + U_c (r * h))            reset before the product (Cho et al., 2014; TF 1)
    c = tanh(x_c + r * (U_c h + d_c))      reset after it: one product a step, a second bias d
    h' = z * h + (1 - z) * c

x = W f + b is made outside of the loop. Gates are stored in Keras' order (update, reset,
candidate). `parts` cuts a recurrent kernel [H, 3H] into the matrices of a step's products;
`ready` and `transposed` make of them what a step and its gradient multiply with: once, and not
in every step.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from aevnmt_tf.nets.matrix_products import apart, times
from aevnmt_tf.nets.tf_nmt.lstm_cells import BasicLSTM, LayerNormLSTM

Tensors = Sequence[tf.Tensor]
Extra = tuple[str, tuple[int, ...], "str | Callable[..., tf.Tensor]"]


def open_gates(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
    """Return biases that open the gates: ones.

    The candidate's is zero, and so is the second bias (reset after).
    """
    units = shape[-1] // 3
    row = tf.concat([tf.ones([2 * units], dtype), tf.zeros([units], dtype)], axis=0)
    return row if len(shape) == 1 else tf.stack([row, tf.zeros_like(row)])


class ResetBefore:
    """The reset gate acts on the state, before the recurrent product."""

    blocks = (2, 1)  # the gates and the candidate, in units
    state_parts = 1  # the size of a state, in units
    num_saved = 2

    @staticmethod
    def extras(units: int) -> list[Extra]:
        """Return name, shape and initializer of the weights beside the kernels."""
        return [("bias", (3 * units,), open_gates)]

    @staticmethod
    def biases(bias: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return what is added to x, and the second bias, which a step adds."""
        return bias, None

    @staticmethod
    def parts(kernel: tf.Tensor) -> Tensors:
        """Return [H, 2H] of the gates and [H, H] of the candidate."""
        units = kernel.shape[0]
        return kernel[:, : 2 * units], kernel[:, 2 * units :]

    @staticmethod
    def step(
        x: tf.Tensor, h: tf.Tensor, parts: Tensors, _: tf.Tensor | None
    ) -> tuple[tf.Tensor, Tensors]:
        """Return the new state [B, H], and what its gradient needs.

        For x [B, 3H], h [B, H] and parts that are `ready`.
        """
        units = h.shape[-1]
        gates, candidate = parts
        zr = tf.sigmoid(x[..., : 2 * units] + times(h, gates, columns=2 * units))
        z, r = tf.split(zr, 2, axis=-1)
        c = tf.tanh(x[..., 2 * units :] + times(r * h, candidate, columns=units))
        return c + z * (h - c), (zr, c)

    @staticmethod
    def gradient(
        d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, parts: Tensors, _: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return gradients of x, of what was added to x before the gates, and of h.

        The parts are `transposed`.
        """
        gates, candidate = parts
        zr, c = saved
        units = h.shape[-1]
        z, r = tf.split(zr, 2, axis=-1)
        d_c = d_new * (1.0 - z) * (1.0 - c * c)
        d_reset = times(d_c, candidate, columns=units)  # of r * h
        d_zr = tf.concat([d_new * (h - c), d_reset * h], axis=-1) * zr * (1.0 - zr)
        d_h = d_new * z + d_reset * r
        d_h += times(d_zr, gates, columns=units)
        return tf.concat([d_zr, d_c], axis=-1), d_zr, d_h

    @staticmethod
    def weight_gradients(
        h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Return gradients of the kernel [H, 3H] and the second bias (none) over all steps.

        Arguments are [T, B, ...].
        """
        units = h.shape[-1]
        r = saved[0][..., units:]
        gates = tf.einsum("tbh,tbg->hg", h, d_inner)
        candidate = tf.einsum("tbh,tbg->hg", r * h, d_x[..., 2 * units :])
        return tf.concat([gates, candidate], axis=-1), None


class ResetAfter:
    """The reset gate acts after the recurrent product, so that a step has only one."""

    blocks = (2, 1)
    state_parts = 1
    num_saved = 3

    @staticmethod
    def extras(units: int) -> list[Extra]:
        """Return as ResetBefore.extras."""
        return [("bias", (2, 3 * units), open_gates)]

    @staticmethod
    def biases(bias: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return the first bias [3H] and the second [1, 3H]."""
        return bias[0], bias[1:]

    @staticmethod
    def parts(kernel: tf.Tensor) -> Tensors:
        """Return the kernel as it is: a step has one product."""
        return (kernel,)

    @staticmethod
    def step(
        x: tf.Tensor, h: tf.Tensor, parts: Tensors, bias: tf.Tensor | None
    ) -> tuple[tf.Tensor, Tensors]:
        """Return as ResetBefore.step, with the second bias [1, 3H]."""
        units = h.shape[-1]
        inner = times(h, parts[0], columns=3 * units) + bias  # [B, 3H]
        zr = tf.sigmoid(x[..., : 2 * units] + inner[..., : 2 * units])
        z, r = tf.split(zr, 2, axis=-1)
        inner_c = inner[..., 2 * units :]
        c = tf.tanh(x[..., 2 * units :] + r * inner_c)
        return c + z * (h - c), (zr, c, inner_c)

    @staticmethod
    def gradient(
        d_new: tf.Tensor, h: tf.Tensor, saved: Tensors, parts: Tensors, _: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return as ResetBefore.gradient."""
        zr, c, inner_c = saved
        z, r = tf.split(zr, 2, axis=-1)
        d_c = d_new * (1.0 - z) * (1.0 - c * c)
        d_zr = tf.concat([d_new * (h - c), d_c * inner_c], axis=-1) * zr * (1.0 - zr)
        d_inner = tf.concat([d_zr, d_c * r], axis=-1)  # [B, 3H]
        d_h = d_new * z + times(d_inner, parts[0], columns=h.shape[-1])
        return tf.concat([d_zr, d_c], axis=-1), d_inner, d_h

    @staticmethod
    def weight_gradients(
        h: tf.Tensor, saved: Tensors, d_x: tf.Tensor, d_inner: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Return as ResetBefore.weight_gradients; the second bias [1, 3H] has one."""
        del saved, d_x
        return (
            tf.einsum("tbh,tbg->hg", h, d_inner),
            tf.reduce_sum(d_inner, axis=[0, 1])[None],
        )


def ready(parts: Tensors) -> list[tf.Tensor]:
    """Return the matrices of a step's products as it needs them."""
    return [apart(part) for part in parts]


def transposed(parts: Tensors) -> list[tf.Tensor]:
    """Return the same as its gradient needs them.

    A product with a matrix that TensorFlow is to transpose takes twice as long on a CPU.
    """
    return ready([tf.transpose(part) for part in parts])


Cell = ResetBefore | ResetAfter | BasicLSTM
RESETS: dict[str, type[ResetBefore] | type[ResetAfter]] = {
    "before": ResetBefore,
    "after": ResetAfter,
}


def make_cell(unit: str, *, reset: str, forget_bias: float) -> Cell:
    """Return the cell of a unit_type: gru, lstm or layer_norm_lstm."""
    if unit == "gru":
        return RESETS[reset]()
    return {"lstm": BasicLSTM, "layer_norm_lstm": LayerNormLSTM}[unit](forget_bias)
