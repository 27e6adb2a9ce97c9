"""Batch normalisation of a posterior's mean with a fixed scale, against posterior collapse.

    u'_i = scale * (u_i - mean_i) / sqrt(variance_i) + shift_i        for each dimension i of z

Over a batch, the mean of u'^2 is scale^2 + shift^2 for each dimension. Hence the mean KL to
N(0, I) cannot fall below Z * scale^2 / 2 (Zhu et al., 2020).
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.latent_networks import GaussianNetwork, Sides
from aevnmt_tf.nets.recurrent import Noise

MOMENTUM = 0.9  # of the moving statistics; both values are those of Zhu et al.'s code
EPSILON = 1e-5


@keras.saving.register_keras_serializable("aevnmt_tf")
class MeanNormalisation(keras.layers.Layer):
    """Normalise each column of [B, Z].

    Training uses the statistics of the batch. Everything else uses moving averages, so that the
    z of a sentence does not depend on its batch.

    Args:
        size: Z.
        scale: the standard deviation of each column over a batch.
    """

    def __init__(self, *, size: int, scale: float, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.size = size
        self.scale = scale

    def build(self, *_: Any) -> None:
        """Create shift [Z], which is learned, and the moving statistics."""

        def statistic(name: str, initializer: str) -> keras.Variable:
            return self.add_weight(
                name=name,
                shape=(self.size,),
                initializer=initializer,
                trainable=False,
                aggregation="only_first_replica",  # they are the same on all
            )

        self.shift = self.add_weight(name="shift", shape=(self.size,), initializer="zeros")
        self.moving_mean = statistic("moving_mean", "zeros")
        self.moving_variance = statistic("moving_variance", "ones")

    def call(self, loc: tf.Tensor, weight: tf.Tensor | None = None) -> tf.Tensor:
        """Return loc [B, Z] normalised.

        With `weight` [B], the weight of each row (0 for padding rows), the statistics are those
        of the global batch, and the moving averages are updated. Without it they are the moving
        averages.
        """
        if weight is None:
            mean, variance = map(tf.convert_to_tensor, (self.moving_mean, self.moving_variance))
        else:
            mean, variance = _moments(loc, weight)
            self._update(mean, variance)
        return self.scale * (loc - mean) * tf.math.rsqrt(variance + EPSILON) + self.shift

    def _update(self, mean: tf.Tensor, variance: tf.Tensor) -> None:
        finite = tf.reduce_all(tf.math.is_finite(mean) & tf.math.is_finite(variance))
        for moving, now in ((self.moving_mean, mean), (self.moving_variance, variance)):
            old = tf.convert_to_tensor(moving)
            moved = MOMENTUM * old + (1.0 - MOMENTUM) * tf.stop_gradient(now)
            moving.assign(tf.where(finite, moved, old))


def _moments(loc: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the weighted mean and variance [Z] over the rows of all replicas."""
    total, weight = sum_over_replicas(tf.reduce_sum(weight)), weight[:, None]
    sums = sum_over_replicas(tf.reduce_sum(weight * loc, axis=0))
    mean = tf.math.divide_no_nan(sums, total)
    squares = tf.reduce_sum(weight * tf.math.squared_difference(loc, mean), axis=0)
    return mean, tf.math.divide_no_nan(sum_over_replicas(squares), total)


def sum_over_replicas(tensors: Any) -> Any:
    """Return the sum of a nest of tensors over all replicas of the distribution strategy."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


@keras.saving.register_keras_serializable("aevnmt_tf")
class NormalisedGaussianNetwork(GaussianNetwork):
    """A Gaussian network whose mean is batch-normalised with a fixed scale.

    Args:
        mean_scale: the fixed scale.
        **kwargs: as GaussianNetwork.
    """

    def __init__(self, *, mean_scale: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mean_scale = mean_scale
        self.norm = MeanNormalisation(
            size=self.z_size, scale=mean_scale, name=f"{self.label}_u_norm"
        )

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        super().build()
        self.norm.build()

    def outputs(self, sides: Sides, noise: Noise) -> list[tf.Tensor]:
        """Return the outputs [B, Z] of both heads, the first one normalised."""
        loc, scale = super().outputs(sides, noise)
        return [self.norm(loc, noise.get(self.norm.name)), scale]

    def row_weights(self, weight: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """See LatentPart."""
        return {self.norm.name: weight}
