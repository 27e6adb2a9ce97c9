"""Distributions over z as parts of a model, and the networks that predict them."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.recurrent import BiGRU, Length, Noise

# Embeddings [B, T, E] or Words and lengths [B] of the sentences of a batch, by side: "x", "y".
Sides = Mapping[str, tuple[tf.Tensor | Words, tf.Tensor]]


class LatentPart(keras.layers.Layer):
    """A prior, a posterior or a prediction network: anything that gives a distribution over z.

    No other code knows which distribution it is: the part itself turns standard normal numbers
    into draws. By default it draws from a diagonal Gaussian.
    """

    z_size: int
    sides: str = ""  # the sentences it reads: any of "x" and "y"
    is_point: bool = False  # whether all mass is on one point, so that there is no density

    @property
    def noise_size(self) -> int:
        """How many standard normal numbers a draw takes.

        A part that also needs a uniform number (to choose a component) asks for one more and
        takes its cumulative probability.
        """
        return self.z_size

    def draw(self, distribution: tfd.Distribution, epsilon: tf.Tensor | None) -> tf.Tensor:
        """Return z [..., B, Z], given standard normal numbers [..., B, noise_size].

        Without them (None), z is the mean.
        """
        if epsilon is None:
            return distribution.mean()
        gaussian = distribution.distribution
        return gaussian.loc + epsilon * gaussian.scale  # z = u + epsilon * s of Eq. (ELBO)

    def noise_shapes(self, steps: Mapping[str, Length]) -> dict[str, tuple[Length, ...]]:
        """Return the shape of each dropout mask per sentence, by layer name.

        `steps` has the padded length of each side.
        """
        return {}

    def row_weights(self, weight: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Return the rows' weights [B] for each layer that takes batch statistics, by name."""
        return {}


@keras.saving.register_keras_serializable("aevnmt_tf")
class SentenceAverage(BiGRU):
    """avg(BiGRU(f_1^m)): the average state over a sentence's own length.

    Eq. (avg-x), Eq. (avg-y), Eq. (pred-avg-x).
    """

    def call(  # type: ignore[override]
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        dropout: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the average [B, 2H] in float32 of inputs [B, T, E] or Words, lengths [B]."""
        start = tf.zeros([tf.shape(lengths)[0], self.units], self.compute_dtype)
        states = super().call(inputs, lengths, start, dropout=dropout)
        real = tf.sequence_mask(lengths, tf.shape(states)[1])[:, :, None]
        total = tf.reduce_sum(tf.where(real, tf.cast(states, tf.float32), 0.0), axis=1)
        # DEVIATION: the authors' code divides by the padded length, so that z depends on the
        # batch.
        return total / tf.cast(lengths, tf.float32)[:, None]


class SentenceNetwork(LatentPart):
    """What q and r share: an average per sentence, and heads of two layers on top.

    DEVIATION: each average is one bidirectional layer, as in the paper, however many layers
    num_encoder_layers gives to the encoder.

    Args:
        label: "q", "r" or "p", the prefix of the layers' names.
        sides: "x" or "xy", the sentences it reads.
        input_size: E.
        units: H.
        z_size: Z, also the heads' hidden size.
        reset: "before" or "after", the place of the reset gate.
    """

    heads: tuple[str, ...] = ()
    is_generative: bool = False  # whether it is part of the generative model, as p(z|x) is

    def __init__(
        self,
        *,
        label: str,
        sides: str,
        input_size: int,
        units: int,
        z_size: int,
        reset: str = "before",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.label = label
        self.sides = sides
        self.units = units
        self.z_size = z_size
        self.averages = [
            SentenceAverage(
                input_size=input_size,
                units=units,
                reset=reset,
                name=f"{label}_gru_{side}",
                dtype=self.dtype_policy.name,
            )
            for side in sides
        ]
        # Heads are small, and softplus and KL need precision: always float32.
        self.hidden = {h: self._dense(f"{label}_{h}_hid", "relu") for h in self.heads}
        self.out = {h: self._dense(f"{label}_{h}_out", None) for h in self.heads}

    def _dense(self, name: str, activation: str | None) -> keras.layers.Dense:
        return keras.layers.Dense(
            self.z_size, activation=activation, name=name, dtype="float32"
        )

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        for layer in self.averages:
            layer.build()
        for head in self.heads:
            self.hidden[head].build((None, 2 * self.units * len(self.sides)))
            self.out[head].build((None, self.z_size))

    def call(self, sides: Sides, noise: Noise | None = None) -> tfd.Distribution:
        """Return a distribution over z, batch [B], event [Z].

        The embeddings belong to the generative model and get no gradient from an inference
        network: detach of Eq. (emb-x), Eq. (emb-y).
        """
        return self.distribution(*self.outputs(sides, noise or {}))

    def outputs(self, sides: Sides, noise: Noise) -> list[tf.Tensor]:
        """Return the output [B, Z] of each head."""
        h = []
        for layer, side in zip(self.averages, self.sides, strict=True):
            inputs, lengths = sides[side]
            if not self.is_generative:
                inputs = tf.nest.map_structure(tf.stop_gradient, inputs)
            h.append(layer(inputs, lengths, dropout=noise.get(layer.name)))
        h = tf.concat(h, axis=-1)  # Eq. (concat)  [B, 2H] or [B, 4H]
        return [self.out[head](self.hidden[head](h)) for head in self.heads]

    def distribution(self, *heads: tf.Tensor) -> tfd.Distribution:
        """Return the distribution with these outputs [B, Z] of the heads."""
        raise NotImplementedError

    def proposal(
        self, distribution: tfd.Distribution, prior: tuple[LatentPart, tfd.Distribution]
    ) -> tuple[LatentPart, tfd.Distribution]:
        """Return what importance sampling draws from: a part and its distribution."""
        return self, distribution

    def noise_shapes(self, steps: Mapping[str, Length]) -> dict[str, tuple[Length, ...]]:
        """See LatentPart."""
        return {
            layer.name: layer.noise_shape(steps[side])
            for layer, side in zip(self.averages, self.sides, strict=True)
        }


@keras.saving.register_keras_serializable("aevnmt_tf")
class GaussianNetwork(SentenceNetwork):
    """q(z|x), q(z|x, y) or r(z|x): a diagonal Gaussian, its parameters functions of sentences.

    h_u = ReLU(affine(h; u-hid))
    h_s = ReLU(affine(h; s-hid))
    u = affine(h_u; u-out)                  Eq. (loc), (loc-x), (pred-loc)
    s = softplus(affine(h_s; s-out))        Eq. (scale), (scale-x), (pred-scale)
    """

    heads = ("u", "s")

    def distribution(self, loc: tf.Tensor, scale: tf.Tensor) -> tfd.Distribution:
        """Return N(u, diag(s^2))."""
        return tfd.Independent(tfd.Normal(loc, tf.nn.softplus(scale)), 1)


@keras.saving.register_keras_serializable("aevnmt_tf")
class PointNetwork(SentenceNetwork):
    """r(x), a point estimate of the posterior mean: u alone, as GaussianNetwork has it."""

    heads = ("u",)
    is_point = True

    def distribution(self, loc: tf.Tensor) -> tfd.Distribution:
        """Return a distribution with all mass on one point."""
        return tfd.VectorDeterministic(loc)

    def draw(self, distribution: tfd.Distribution, epsilon: tf.Tensor | None) -> tf.Tensor:
        """Return the point."""
        return distribution.mean()

    def proposal(
        self, distribution: tfd.Distribution, prior: tuple[LatentPart, tfd.Distribution]
    ) -> tuple[LatentPart, tfd.Distribution]:
        """Return the prior: a point has no density for importance weights."""
        return prior
