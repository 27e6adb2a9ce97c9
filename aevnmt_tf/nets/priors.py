"""Priors of z. A new one is a class here (or in a file of its own) and an entry of PRIORS."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from aevnmt_tf.nets.latent_networks import GaussianNetwork, LatentPart, Sides
from aevnmt_tf.nets.recurrent import Noise


class Prior(LatentPart):
    """p(z), or p(z|x) if `sides` says that it reads the source.

    A prior defines `call`, `draw` if it is not a diagonal Gaussian, and `kl` if that has a
    closed form.

    Args:
        z_size: Z.
    """

    def __init__(self, *, z_size: int, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.z_size = z_size

    def call(self, sides: Sides, noise: Noise | None = None) -> tfd.Distribution:
        """Return a distribution over z, event [Z]; batch [] if it conditions on nothing."""
        raise NotImplementedError

    def kl(self, q: tfd.Distribution, p: tfd.Distribution, z: tf.Tensor) -> tf.Tensor:
        """Return KL(q || p), the second term of Eq. (ELBO), by dimension if possible.

        Args:
            q: the posterior, batch [B].
            p: the result of `call`.
            z: [..., B, Z] drawn from q, for an estimate.

        Returns:
            [B, Z]. Without a closed form, the estimate log q(z) - log p(z): [..., B, 1], for
            all of z as one dimension.
        """
        return (q.log_prob(z) - p.log_prob(z))[..., None]


class GaussianPrior(Prior):
    """A diagonal Gaussian, whose KL has a closed form for each dimension."""

    def kl(self, q: tfd.Distribution, p: tfd.Distribution, z: tf.Tensor) -> tf.Tensor:
        """Return the exact KL by dimension: [B, Z]."""
        return tfd.kl_divergence(q.distribution, p.distribution)


@keras.saving.register_keras_serializable("aevnmt_tf")
class StandardNormal(GaussianPrior):
    """p(z) = N(0, I), the paper's prior."""

    def build(self, *_: Any) -> None:
        """Create no weights."""

    def call(self, sides: Sides, noise: Noise | None = None) -> tfd.Distribution:
        """Return N(0, I)."""
        return tfd.Independent(
            tfd.Normal(tf.zeros([self.z_size]), tf.ones([self.z_size])),
            reinterpreted_batch_ndims=1,
        )


@keras.saving.register_keras_serializable("aevnmt_tf")
class MixturePrior(Prior):
    """p(z) = sum_k w_k N(z; m_k, diag(s_k^2)), with learned w, m and s.

    w = softmax(logits), s = softplus(raw scale). The KL to it has no closed form.

    DEVIATION: the paper names mixtures of Gaussians as future work; there is none in the
    authors' code.

    Args:
        z_size: Z.
        components: how many Gaussians.
    """

    def __init__(self, *, components: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.components = components

    def build(self, *_: Any) -> None:
        """Create equal weights, and components of scale 1 around draws from N(0, I)."""
        shape = (self.components, self.z_size)
        one = keras.initializers.Constant(math.log(math.e - 1.0))  # softplus gives 1
        self.logits = self.add_weight(name="logits", shape=shape[:1], initializer="zeros")
        self.loc = self.add_weight(
            name="loc", shape=shape, initializer=keras.initializers.RandomNormal(stddev=1.0)
        )
        self.scale = self.add_weight(name="scale", shape=shape, initializer=one)

    def call(self, sides: Sides, noise: Noise | None = None) -> tfd.Distribution:
        """Return the mixture."""
        logits, loc, scale = map(tf.convert_to_tensor, (self.logits, self.loc, self.scale))
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=logits),
            tfd.Independent(tfd.Normal(loc, tf.nn.softplus(scale)), 1),
        )

    @property
    def noise_size(self) -> int:
        """One number per dimension, and one that chooses the component."""
        return self.z_size + 1

    def draw(self, distribution: tfd.Distribution, epsilon: tf.Tensor | None) -> tf.Tensor:
        """See LatentPart; epsilon is [..., B, Z + 1]."""
        if epsilon is None:
            return distribution.mean()
        weights = distribution.mixture_distribution.probs_parameter()  # [K]
        gaussian = distribution.components_distribution.distribution
        share = tfd.Normal(0.0, 1.0).cdf(epsilon[..., -1:])  # uniform: [..., B, 1]
        ends = tf.cumsum(weights)[:-1]  # where the share of each component but the last ends
        chosen = tf.reduce_sum(tf.cast(share > ends, tf.int32), axis=-1)  # [..., B]
        loc, scale = (tf.gather(value, chosen) for value in (gaussian.loc, gaussian.scale))
        return loc + epsilon[..., :-1] * scale


@keras.saving.register_keras_serializable("aevnmt_tf")
class ConditionalPrior(GaussianNetwork):
    """p(z|x) = N(u, diag(s^2)), with u and s computed as in r: VNMT (Zhang et al., 2016).

    DEVIATION: Zhang et al. average the states of the translation model's encoder; ours has a
    recurrent layer of its own, as the networks of the paper have.
    """

    is_generative = True
    kl = GaussianPrior.kl


PRIORS: dict[str, Callable[..., Prior | ConditionalPrior]] = {
    "standard": StandardNormal,
    "mixture": MixturePrior,
    "conditional": ConditionalPrior,
}
