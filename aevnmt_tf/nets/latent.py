"""From sentences to a distribution over z: the inference and the prediction network."""

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from aevnmt_tf.nets.recurrent import BiGRU

tfd = tfp.distributions


@keras.saving.register_keras_serializable("aevnmt_tf")
class SentenceAverage(BiGRU):
    """avg(BiGRU(f_1^m)): the average state over a sentence's own length.

    Eq. (avg-x), Eq. (avg-y), Eq. (pred-avg-x).
    """

    def call(self, inputs, lengths, dropout=None):
        """inputs [B, T, E] or Words, lengths [B] -> [B, 2H] in float32."""
        start = tf.zeros([tf.shape(lengths)[0], self.units], self.compute_dtype)
        states = super().call(inputs, lengths, start, dropout=dropout)
        real = tf.sequence_mask(lengths, tf.shape(states)[1])[:, :, None]
        total = tf.reduce_sum(tf.where(real, tf.cast(states, tf.float32), 0.0), axis=1)
        # DEVIATION: the authors' code divides by the padded length, so that z depends on the
        # batch.
        return total / tf.cast(lengths, tf.float32)[:, None]


@keras.saving.register_keras_serializable("aevnmt_tf")
class GaussianNetwork(keras.layers.Layer):
    """q(z|x), q(z|x, y) or r(z|x): a diagonal Gaussian, its parameters functions of sentences.

        h_u = ReLU(affine(h; u-hid))
        h_s = ReLU(affine(h; s-hid))
        u = affine(h_u; u-out)                  Eq. (loc), (loc-x), (pred-loc)
        s = softplus(affine(h_s; s-out))        Eq. (scale), (scale-x), (pred-scale)

    Args:
        label: "q" or "r", the first part of the layers' names.
        sides: "x" or "xy", the sentences it reads.
        input_size: E.
        units: H.
        z_size: Z, also the heads' hidden size.
        reset: "before" or "after", the reset gate's place.
    """

    heads = ("u", "s")

    def __init__(self, *, label, sides, input_size, units, z_size, reset="before", **kwargs):
        super().__init__(**kwargs)
        self.label = label
        self.sides = sides
        self.input_size = input_size
        self.units = units
        self.z_size = z_size
        self.reset = reset
        self.averages = [
            SentenceAverage(
                input_size=input_size,
                units=units,
                reset=reset,
                name=f"{label}_gru_{side}",
                dtype=self.dtype_policy,
            )
            for side in sides
        ]
        # Heads are small and feed an exponential's relatives: always float32.
        self.hidden = {h: self._dense(f"{label}_{h}_hid", "relu") for h in self.heads}
        self.out = {h: self._dense(f"{label}_{h}_out", None) for h in self.heads}

    def _dense(self, name, activation):
        return keras.layers.Dense(
            self.z_size, activation=activation, name=name, dtype="float32"
        )

    def build(self, *_):
        """Creates the weights of all layers."""
        for layer in self.averages:
            layer.build()
        for head in self.heads:
            self.hidden[head].build((None, 2 * self.units * len(self.sides)))
            self.out[head].build((None, self.z_size))
        self.built = True

    def call(self, sentences, noise=None):
        """(embeddings [B, T, E] or Words, lengths [B]) for each side -> a distribution over
        z [B, Z].

        The embeddings belong to the generative model and get no gradient from here: detach of
        Eq. (emb-x), Eq. (emb-y).
        """
        noise = noise or {}
        h = [
            layer(_detached(inputs), lengths, dropout=noise.get(layer.name))
            for layer, (inputs, lengths) in zip(self.averages, sentences, strict=True)
        ]
        h = tf.concat(h, axis=-1)  # Eq. (concat)  [B, 2H] or [B, 4H]
        return self.distribution(*(self.out[head](self.hidden[head](h)) for head in self.heads))

    def distribution(self, loc, scale):
        """The distribution of the heads' outputs [B, Z]."""
        return tfd.Independent(tfd.Normal(loc, tf.nn.softplus(scale)), 1)

    def noise_shapes(self, *steps):
        """The shape a sentence of each dropout mask, by layer name; a length for each side."""
        return {
            layer.name: layer.noise_shape(length)
            for layer, length in zip(self.averages, steps, strict=True)
        }

    def get_config(self):
        """The constructor's arguments."""
        names = ("label", "sides", "input_size", "units", "z_size", "reset")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.saving.register_keras_serializable("aevnmt_tf")
class PointNetwork(GaussianNetwork):
    """r(x), a point estimate of the posterior mean: a GaussianNetwork without a scale."""

    heads = ("u",)

    def distribution(self, loc):
        """All mass on one point."""
        return tfd.VectorDeterministic(loc)


def _detached(inputs):
    return tf.nest.map_structure(tf.stop_gradient, inputs)
