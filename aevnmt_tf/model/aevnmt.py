"""Auto-Encoding Variational NMT: the nets composed.

    symbol              code                        equation (labels of the paper)
    p(z)                objective.prior             N(0, I)
    P(x|z)              source_lm                   init-lm and what follows it
    P(y|x, z)           encoder, decoder            gen-bigru-x, att, dec, out-y
    q(z|x), q(z|x, y)   posterior                   emb-x to scale, loc-x, scale-x
    r(z|x)              prediction                  pred-avg-x to pred-scale
    theta               emb_x, emb_y, source_lm, encoder, decoder
    lambda, phi         posterior, prediction

COND has none of source_lm, posterior and prediction; JOINT has a source_lm; AEVNMT has a
posterior, and a prediction network where the posterior reads the target too.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf import nets, objective
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.objective import LossTerms

SOS = 1  # <s>; the text package fixes <unk> 0, <s> 1, </s> 2


class Rates(NamedTuple):
    """How much noise training adds."""

    dropout: float = 0.0
    word_dropout_x: float = 0.0
    word_dropout_y: float = 0.0
    output_dropout: float = 0.0


@keras.saving.register_keras_serializable("aevnmt_tf")
class Aevnmt(keras.Model):
    """A joint model of sentence pairs; parts that a system does not have are None.

    Args:
        emb_x: source embeddings, shared by the language model and the encoder.
        emb_y: target embeddings, or None to share the source's (one vocabulary for both).
        encoder: nets.Encoder.
        decoder: nets.PaperDecoder or nets.TfNmtDecoder.
        source_lm: nets.SourceLM or None.
        posterior: nets.GaussianNetwork, q(z|x) or q(z|x, y), or None.
        prediction: nets.GaussianNetwork or nets.PointNetwork, r(z|x), or None.
        divergence: the name of D(r, q) in objective.DIVERGENCES, or None.
        rates: Rates of the three kinds of dropout.
        seed: of the noise.
        num_rows: the size of the global batch, which the noise is drawn for.
    """

    def __init__(
        self,
        *,
        emb_x,
        emb_y=None,
        encoder,
        decoder,
        source_lm=None,
        posterior=None,
        prediction=None,
        divergence=None,
        rates=(),
        seed=1,
        num_rows=64,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.emb_x = emb_x
        self.shares_vocabulary = emb_y is None
        self.emb_y = emb_x if emb_y is None else emb_y
        self.source_lm = source_lm
        self.encoder = encoder
        self.decoder = decoder
        self.posterior = posterior
        self.prediction = prediction
        self.divergence = divergence
        self.rates = Rates(*rates)
        self.seed = seed
        self.num_rows = num_rows
        self.build()

    def parts(self):
        """The nets that are there, by attribute name."""
        names = ("emb_x", "emb_y", "source_lm", "encoder", "decoder", "posterior", "prediction")
        found = {name: getattr(self, name) for name in names}
        if self.shares_vocabulary:
            del found["emb_y"]
        return {name: net for name, net in found.items() if net is not None}

    def build(self, *_):
        """Creates all weights."""
        for net in self.parts().values():
            if not net.built:
                net.build()
        self.built = True

    def noise(self, batch, step):
        """The random numbers of training step `step`: epsilon, and masks by layer name.

        A pure function of (seed, step, batch["row"]) and the padded lengths.
        """
        steps_x, steps_y = tf.shape(batch["x"])[1], tf.shape(batch["y"])[1]
        shapes = {**self.encoder.noise_shapes(steps_x), **self.decoder.noise_shapes(steps_y)}
        words = {"words_y": (steps_y, self.rates.word_dropout_y)}
        outputs = {"out_y": (steps_y, self.decoder.feature_size)}
        if self.source_lm is not None:
            shapes.update(self.source_lm.noise_shapes(steps_x))
            words["words_x"] = (steps_x, self.rates.word_dropout_x)
            outputs["out_x"] = (steps_x, self.source_lm.units)
        if self.posterior is not None:
            sides = (steps_x, steps_y)[: len(self.posterior.sides)]
            shapes.update(self.posterior.noise_shapes(*sides))
        if self.prediction is not None:
            shapes.update(self.prediction.noise_shapes(steps_x))
        rated = {name: (shape, self.rates.dropout) for name, shape in shapes.items()}
        rated.update({name: ((length, 1), rate) for name, (length, rate) in words.items()})
        rated.update({k: (shape, self.rates.output_dropout) for k, shape in outputs.items()})

        def stream(name):
            seed = random_numbers.seed_for(name, seed=self.seed, step=step)
            return {"seed": seed, "rows": batch["row"], "num_rows": self.num_rows}

        noise = {
            name: random_numbers.dropout_mask(shape, rate=rate, **stream(name))
            for name, (shape, rate) in rated.items()
            if rate > 0.0
        }
        if self.posterior is not None:
            shape = (self.posterior.z_size,)
            noise["epsilon"] = random_numbers.normal(shape, **stream("epsilon"))
        return noise

    def call(self, batch):
        """The terms of the objective without noise, at the posterior mean."""
        return self.loss_terms(batch)

    def loss_terms(self, batch, noise=None, z=None):
        """The terms of the objective for each pair of a batch.

        Args:
            batch: a Batch (x, x_len, y, y_len).
            noise: what `noise` gives, or any part of it: a missing mask is no dropout, a
                missing epsilon the posterior mean.
            z: [B, Z] to use in place of a draw from q.
        """
        noise = noise or {}
        x_len, y_len = batch["x_len"], batch["y_len"]
        f, e = self.emb_x(batch["x"]), self.emb_y(batch["y"])  # Eq. (gen-emb-x)  [B, T, E]
        r_divergence = tf.zeros(tf.shape(x_len), tf.float32)
        kl = tf.zeros([tf.shape(x_len)[0], 0])
        if self.posterior is not None:
            sides = ((f, x_len), (e, y_len))[: len(self.posterior.sides)]
            q = self.posterior(sides, noise=noise)
            kl = objective.kl_to_prior(q)
            if z is None:
                z = reparameterise(q, noise.get("epsilon"))
        if self.prediction is not None:
            r = self.prediction(((f, x_len),), noise=noise)
            r_divergence = objective.DIVERGENCES[self.divergence](r, q)
        nll_x, correct_x, _ = self.source_nll(f, batch, z, noise)
        nll_y, correct_y, smoothing = self.target_nll(f, e, batch, z, noise)
        return LossTerms(nll_x, nll_y, kl, r_divergence, correct_x, correct_y, smoothing)

    def source_nll(self, f, batch, z=None, noise=None):
        """For embeddings f [B, Tx, E] what Output.nll gives: -log P(x|z), words predicted
        right, and what label smoothing adds: three [B]."""
        if self.source_lm is None:
            zeros = tf.zeros(tf.shape(batch["x_len"]), tf.float32)
            return zeros, zeros, zeros
        noise = noise or {}
        prefix = self._prefix(self.emb_x, f, noise.get("words_x"))
        h = self.source_lm(prefix, batch["x_len"], z, noise=noise)
        h = _dropped(h, noise.get("out_x"))
        return self.source_lm.out_x.nll(h, batch["x"], batch["x_len"])

    def target_nll(self, f, e, batch, z=None, noise=None):
        """-log P(y|x, z) for embeddings f [B, Tx, E] and e [B, Ty, E]; as source_nll."""
        noise = noise or {}
        values = self.encoder(f, batch["x_len"], z, noise=noise)
        memory, state = self.decoder.begin(values, batch["x_len"], z)
        prefix = self._prefix(self.emb_y, e, noise.get("words_y"))
        features, _ = self.decoder(prefix, memory, state, noise=noise)
        # DEVIATION: neither the paper nor the authors' code drops anything here; the rate is 0
        # unless output_dropout says otherwise. The source LM's output layer is treated alike.
        features = _dropped(features, noise.get("out_y"))
        return self.decoder.out_y.nll(features, batch["y"], batch["y_len"])  # Eq. (out-y)

    def _prefix(self, embedding, embedded, word_mask):
        """What comes before each word: <s>, then the words but the last. [B, T, E]"""
        start = embedding(tf.fill([tf.shape(embedded)[0], 1], SOS))
        prefix = tf.concat([start, embedded[:, :-1]], axis=1)
        # DEVIATION: a dropped word is a zero embedding and the others are scaled up, as in the
        # authors' code; the paper says that words are masked. The source LM's prefix is treated
        # alike (word_dropout_source).
        return _dropped(prefix, word_mask)

    def infer(self, batch):
        """q(z|x) or q(z|x, y), or None without a latent variable."""
        if self.posterior is None:
            return None
        sides = ((self.emb_x, "x"), (self.emb_y, "y"))[: len(self.posterior.sides)]
        return self.posterior([(emb(batch[s]), batch[f"{s}_len"]) for emb, s in sides])

    def predict_z(self, x, x_len):
        """r(z|x), which is q(z|x) where that reads the source alone; None without z."""
        network = self.posterior if self.prediction is None else self.prediction
        return None if network is None else network([(self.emb_x.words(x), x_len)])

    def z_for_prediction(self, x, x_len):
        """E[r(z|x)], what Eq. (argmax-conditional) searches with: [B, Z], or None."""
        r = self.predict_z(x, x_len)
        return None if r is None else r.mean()

    def start(self, x, x_len, z=None):
        """Reads a source: x [B, Tx], x_len [B], z [B, Z] -> Memory, DecoderState."""
        return self.decoder.begin(self.encoder(self.emb_x.words(x), x_len, z), x_len, z)

    def step(self, memory, state, y):
        """One word of the target.

        memory, state, the word before it y [B] -> logits [B, Vy] float32, DecoderState,
        attention [B, Tx].
        """
        features, state, attention = self.decoder.step(self.emb_y(y), memory, state)
        return self.decoder.out_y(features), state, attention

    def log_weights(self, batch, epsilon):
        """Importance weights of S draws of z in one batched pass.

        Args:
            batch: a Batch.
            epsilon: [S, B, Z] standard normal numbers.

        Returns:
            log p(x, y, z_s) / q(z_s) and log p(x, z_s) / proposal(z_s), both [S, B]. The second
            one's proposal is the posterior where that reads the source alone, else r, and the
            prior where r is a point. Without z both are the log-probabilities.
        """
        if self.posterior is None:
            terms = self.loss_terms(batch)
            return -(terms.nll_x + terms.nll_y)[None], -terms.nll_x[None]
        q = self.infer(batch)
        f, e = self.emb_x(batch["x"]), self.emb_y(batch["y"])
        pair, (f_s, e_s), z = tile_draws(batch, (f, e), q, epsilon)
        shape = tf.shape(epsilon)[:2]
        log_px = -tf.reshape(self.source_nll(f_s, pair, z)[0], shape)
        log_py = -tf.reshape(self.target_nll(f_s, e_s, pair, z)[0], shape)
        joint = objective.log_weights(log_px + log_py, tf.reshape(z, tf.shape(epsilon)), q)
        if self.prediction is not None:
            r = self.predict_z(batch["x"], batch["x_len"])
            q = objective.prior(q) if isinstance(self.prediction, nets.PointNetwork) else r
            pair, (f_s,), z = tile_draws(batch, (f,), q, epsilon)
            log_px = -tf.reshape(self.source_nll(f_s, pair, z)[0], shape)
        return joint, objective.log_weights(log_px, tf.reshape(z, tf.shape(epsilon)), q)

    def get_config(self):
        """The nets, serialised, and the rest of the constructor's arguments."""
        config = {
            name: keras.saving.serialize_keras_object(net) for name, net in self.parts().items()
        }
        for name in ("divergence", "seed", "num_rows", "name"):
            config[name] = getattr(self, name)
        return {**config, "rates": list(self.rates)}

    @classmethod
    def from_config(cls, config):
        """The inverse of get_config."""
        load = keras.saving.deserialize_keras_object
        return cls(**{k: load(v) if isinstance(v, dict) else v for k, v in config.items()})


def _dropped(tensor, mask):
    return tensor if mask is None else tensor * tf.cast(mask, tensor.dtype)


def reparameterise(q, epsilon=None):
    """z = u + epsilon * s, of Eq. (ELBO); the mean where there is no epsilon."""
    if epsilon is None:
        return q.mean()
    return q.distribution.loc + epsilon * q.distribution.scale


def tile_draws(batch, embedded, proposal, epsilon):
    """S draws of z from a proposal as rows of one large batch.

    Returns:
        The batch and its embeddings, repeated S times, and z [S * B, Z].
    """

    def tiled(tensor):
        return tf.tile(tensor, [tf.shape(epsilon)[0]] + [1] * (tensor.shape.rank - 1))

    z = reparameterise(proposal, epsilon)  # [S, B, Z]
    pair = {name: tiled(batch[name]) for name in ("x", "x_len", "y", "y_len")}
    return pair, [tiled(e) for e in embedded], tf.reshape(z, [-1, z.shape[-1]])
