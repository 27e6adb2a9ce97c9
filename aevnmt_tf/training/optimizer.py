"""Adam and SGD as Keras optimizers whose update is one fused kernel a variable.

The gradients that come in are already summed over all devices: an optimizer of Keras would sum
them again. An update happens where `tf.distribute` wants it, in cross-replica context, and can
be left out by a tensor that is only known then.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

SKIP, ACCUMULATE, APPLY = range(3)
Variable: TypeAlias = Any  # a keras.Variable, or the tf.Variable in it

if TYPE_CHECKING:
    _Base = Any  # Fused is mixed into a keras.optimizers.Optimizer
else:
    _Base = object


class Fused(_Base):
    """What both optimizers share: how a list of gradients becomes an update."""

    accumulates: bool

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the slots and, to accumulate gradients, one sum a variable."""
        if self.built:
            return
        super().build(variables)
        self.sums = []
        if self.accumulates:
            self.sums = [
                self.add_variable_from_reference(v, name="gradient_sum") for v in variables
            ]

    def totals(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the gradients with what was accumulated before them."""
        if not self.accumulates:
            return gradients
        return [s + g for s, g in zip(self.sums, gradients, strict=True)]

    def update(
        self,
        totals: list[tf.Tensor],
        variables: Sequence[keras.Variable],
        *,
        scale: tf.Tensor,
        action: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Do what `action` says, on every variable.

        Args:
            totals: gradients, summed over all devices and over what was accumulated.
            variables: the variables they belong to.
            scale: a factor for the gradients (division by the count, and clipping).
            action: SKIP (nothing changes), ACCUMULATE (keep the totals) or APPLY (update, start
                again from zero).
            learning_rate: of this update.
        """
        arguments = (scale, action, learning_rate)

        def across_replicas(
            strategy: tf.distribute.Strategy, totals: list[tf.Tensor], *arguments: tf.Tensor
        ) -> None:
            for index, (variable, total) in enumerate(zip(variables, totals, strict=True)):
                sums = [self.sums[index].value] if self.accumulates else []
                averages = [self.averages[index].value] if self.use_ema else []
                strategy.extended.update(
                    variable.value,
                    self._act,
                    args=(sums, averages, total, *arguments),
                    group=False,
                )

        strategy = tf.distribute.get_strategy()
        context = tf.distribute.get_replica_context()
        if context is None:
            across_replicas(strategy, totals, *arguments)
        else:
            context.merge_call(across_replicas, args=(totals, *arguments))
        self._iterations.assign_add(tf.cast(action == APPLY, self._iterations.dtype))

    def _act(
        self,
        variable: tf.Variable,
        sums: list[tf.Variable],
        averages: list[tf.Variable],
        total: tf.Tensor,
        scale: tf.Tensor,
        action: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> tf.Tensor:
        def apply() -> bool:
            self.update_step(total * scale, variable, learning_rate)
            for average in averages:  # starts from the weights after the first update
                decay = tf.where(self.iterations > 0, self.ema_momentum, 0.0)
                average.assign(variable + decay * (average - variable))
            for kept in sums:
                kept.assign(tf.zeros_like(kept))
            return True

        def accumulate() -> bool:
            for kept in sums:
                kept.assign(total)
            return False

        return tf.switch_case(action, [lambda: False, accumulate, apply])

    @property
    def averages(self) -> list[keras.Variable]:
        """The moving averages of the weights that Keras creates with `use_ema`."""
        return self._model_variables_moving_average

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars


@keras.saving.register_keras_serializable("aevnmt_tf")
class Adam(Fused, keras.optimizers.Adam):
    """Adam (Kingma and Ba, 2015) through TensorFlow's kernel: 3 times Keras' speed on a CPU."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        *,
        epsilon: float = 1e-8,
        accumulates: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, epsilon=epsilon, **kwargs)
        self.accumulates = accumulates

    def update_step(
        self, gradient: tf.Tensor, variable: Variable, learning_rate: tf.Tensor
    ) -> None:
        """Update one variable."""
        index = self._get_variable_index(variable)
        done = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=handle(variable),
            m=handle(self._momentums[index]),
            v=handle(self._velocities[index]),
            beta1_power=tf.pow(tf.cast(self.beta_1, variable.dtype), done),
            beta2_power=tf.pow(tf.cast(self.beta_2, variable.dtype), done),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


@keras.saving.register_keras_serializable("aevnmt_tf")
class SGD(Fused, keras.optimizers.SGD):
    """Plain stochastic gradient descent."""

    def __init__(
        self, learning_rate: float = 1.0, *, accumulates: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.accumulates = accumulates

    def update_step(
        self, gradient: tf.Tensor, variable: Variable, learning_rate: tf.Tensor
    ) -> None:
        """Update one variable."""
        tf.raw_ops.ResourceApplyGradientDescent(
            var=handle(variable),
            alpha=tf.cast(learning_rate, variable.dtype),
            delta=gradient,
        )


def handle(variable: Variable) -> tf.Tensor:
    """Return the resource of a variable, or of the variable that Keras wraps."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle


@contextlib.contextmanager
def averaged_weights(
    optimizer: keras.optimizers.Optimizer,
    variables: Sequence[keras.Variable],
    *,
    strategy: tf.distribute.Strategy,
) -> Iterator[None]:
    """Give variables the values of their moving averages while the block runs.

    Without averages nothing changes. The block itself is outside of the strategy's scope.
    """
    if not optimizer.use_ema or not optimizer.iterations.numpy():
        yield
        return
    trained = [variable.numpy() for variable in variables]

    def assign(values: Sequence[np.ndarray]) -> None:
        with strategy.scope():
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    assign([average.numpy() for average in optimizer.averages])
    try:
        yield
    finally:
        assign(trained)


OPTIMIZERS = {"adam": Adam, "sgd": SGD}
