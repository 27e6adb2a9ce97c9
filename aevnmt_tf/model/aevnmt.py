"""Auto-Encoding Variational NMT, composed of its nets.

    symbol              code                        equation (labels of the paper)
    p(z), p(z|x)        prior                       N(0, I) unless the builder says otherwise
    P(x|z)              source_lm                   init-lm and what follows it
    P(y|x, z)           encoder, decoder            gen-bigru-x, att, dec, out-y
    q(z|x), q(z|x, y)   posterior                   emb-x to scale, loc-x, scale-x
    r(z|x)              prediction                  pred-avg-x to pred-scale
    theta               emb_x, emb_y, source_lm, encoder, decoder, prior
    lambda, phi         posterior, prediction

COND has none of source_lm, prior, posterior and prediction. JOINT adds a source_lm, AEVNMT also
a prior and a posterior, and a prediction network if the posterior reads the target. VNMT is
COND with a posterior that reads both sentences and a prior that reads the source. A VAE of
sentences has no encoder and no decoder.
"""

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from aevnmt_tf import nets
from aevnmt_tf.model import dropout, objective
from aevnmt_tf.model.dropout import Batch, Rates
from aevnmt_tf.model.objective import LossTerms

SOS = 1  # <s>; the text package fixes <unk> 0, <s> 1, </s> 2

PARTS = "emb_x emb_y source_lm encoder decoder prior posterior prediction bow_x bow_y".split()


@keras.saving.register_keras_serializable("aevnmt_tf")
class Aevnmt(keras.Model):
    """A joint model of sentence pairs. Parts that a system lacks are None.

    Args:
        emb_x: source embeddings, shared by the language model and the encoder.
        emb_y: target embeddings, or None to share those of the source (joint vocabulary).
        encoder: nets.Encoder, or None.
        decoder: nets.PaperDecoder, one of TF-NMT's forms, or None.
        source_lm: nets.SourceLM or None.
        prior: one of nets.PRIORS, or None without z.
        posterior: nets.GaussianNetwork, q(z|x) or q(z|x, y), or None.
        prediction: nets.GaussianNetwork or nets.PointNetwork, r(z|x), or None.
        bow_x, bow_y: nets.BagOfWords of the source and the target, or None.
        divergence: the name of D(r, q) in objective.DIVERGENCES, or None.
        divergence_trains_q: whether D(r, q) trains q as well as r.
        rates: dropout rates.
        seed: of the noise.
        num_rows: the size of the global batch that the noise is drawn for.
    """

    def __init__(
        self,
        *,
        emb_x: nets.Embedding,
        emb_y: nets.Embedding | None = None,
        encoder: nets.Encoder | None = None,
        decoder: nets.Decoder | None = None,
        source_lm: nets.SourceLM | None = None,
        prior: nets.Prior | nets.ConditionalPrior | None = None,
        posterior: nets.SentenceNetwork | None = None,
        prediction: nets.SentenceNetwork | None = None,
        bow_x: nets.BagOfWords | None = None,
        bow_y: nets.BagOfWords | None = None,
        divergence: str | None = None,
        divergence_trains_q: bool = True,
        rates: Rates | tuple[float, ...] = (),
        seed: int = 1,
        num_rows: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.emb_x = emb_x
        self.shares_vocabulary = emb_y is None
        self.emb_y = emb_x if emb_y is None else emb_y
        self.source_lm = source_lm
        # None in a VAE of sentences.
        self.encoder: nets.Encoder = encoder  # type: ignore[assignment]
        self.decoder: nets.Decoder = decoder  # type: ignore[assignment]
        self.posterior = posterior
        self.prediction = prediction
        self.bow_x = bow_x
        self.bow_y = bow_y
        if (prior is None) != (posterior is None):
            raise ValueError("A model has both a prior and a posterior, or neither.")
        # None without a posterior.
        self.prior: nets.Prior | nets.ConditionalPrior = prior  # type: ignore[assignment]
        self.divergence = divergence
        self.divergence_trains_q = divergence_trains_q
        self.rates = Rates(*rates)
        self.seed = seed
        self.num_rows = num_rows
        self.build()
        if decoder is not None:
            decoder.out_y.tie(self.emb_y)
        if source_lm is not None:
            source_lm.out_x.tie(emb_x)

    def parts(self) -> dict[str, keras.layers.Layer]:
        """Return the nets that the model has, by attribute name."""
        found = {name: getattr(self, name) for name in PARTS}
        if self.shares_vocabulary:
            del found["emb_y"]
        return {name: net for name, net in found.items() if net is not None}

    def build(self, *_: Any) -> None:
        """Create all weights."""
        for net in self.parts().values():
            if not net.built:
                net.build()

    @property
    def predictor(self) -> nets.SentenceNetwork | None:
        """The source of z in translation: r, or q if it reads the source alone, or p(z|x)."""
        if self.prediction is not None:
            return self.prediction
        if self.posterior is not None and "y" in self.posterior.sides:
            return self.prior  # type: ignore[return-value]  # a ConditionalPrior
        return self.posterior

    @property
    def noise_size(self) -> int:
        """The most standard normal numbers that a draw from any part takes."""
        parts = (self.prior, self.posterior, self.prediction)
        return max((part.noise_size for part in parts if part is not None), default=0)

    def noise(self, batch: Batch, step: tf.Tensor | int) -> nets.Noise:
        """Return the random numbers of a training step: epsilon, and dropout masks by name.

        A pure function of (seed, step, batch["row"]) and the padded lengths.
        """
        return dropout.training_noise(self, batch, step)

    def call(self, batch: Batch) -> LossTerms:
        """Return the loss terms without noise, at the posterior mean."""
        return self.loss_terms(batch)

    def embed(self, batch: Batch) -> nets.Sides:
        """Return the embedded sentences of a batch, [B, T, E]: Eq. (gen-emb-x)."""
        tables = {"x": self.emb_x, "y": self.emb_y}
        return {
            side: (table(batch[side]), batch[f"{side}_len"])
            for side, table in tables.items()
            if side in batch
        }

    def loss_terms(
        self,
        batch: Batch,
        noise: nets.Noise | None = None,
        z: tf.Tensor | None = None,
        *,
        twins: bool = False,
    ) -> LossTerms:
        """Return the terms of the objective for each pair of a batch.

        Args:
            batch: a Batch (x, x_len, y, y_len).
            noise: the result of `noise`, or any part of it. A missing mask means no dropout, a
                missing epsilon the posterior mean, missing row weights moving statistics.
            z: [B, Z] to use instead of a draw from q.
            twins: whether rows b and B / 2 + b are the same pair, for the consistency term.
        """
        noise = noise or {}
        sides = self.embed(batch)
        r_divergence = tf.zeros(tf.shape(batch["x_len"]), tf.float32)
        kl = tf.zeros([tf.shape(batch["x_len"])[0], 0])
        if self.posterior is not None:
            q = self.posterior(sides, noise=noise)
            if z is None:
                z = self.posterior.draw(q, noise.get("epsilon"))
            kl = self.prior.kl(q, self.prior(sides, noise=noise), z)
            r_divergence = self.r_divergence(sides, q, noise)
        given_z = self.terms_given_z(sides, batch, z, noise, twins=twins)
        return LossTerms(kl=kl, r_divergence=r_divergence, **given_z)

    def terms_given_z(
        self,
        sides: nets.Sides,
        batch: Batch,
        z: tf.Tensor | None,
        noise: nets.Noise,
        *,
        twins: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Return the LossTerms [B] that depend on z, but on no distribution over it."""
        nll_x, correct_x, *_ = self.source_nll(sides, batch, z, noise)
        nll_y, correct_y, smoothing, consistency = self.target_nll(
            sides, batch, z, noise, twins=twins
        )
        zeros = tf.zeros(tf.shape(batch["x_len"]), tf.float32)
        return {
            "nll_x": nll_x,
            "nll_y": nll_y,
            "correct_x": correct_x,
            "correct_y": correct_y,
            "smoothing": smoothing,
            "bow_x": self.bow_x(z, batch["x"], batch["x_len"]) if self.bow_x else zeros,
            "bow_y": self.bow_y(z, batch["y"], batch["y_len"]) if self.bow_y else zeros,
            "consistency": consistency,
        }

    def r_divergence(
        self, sides: nets.Sides, q: tfd.Distribution, noise: nets.Noise
    ) -> tf.Tensor:
        """Return D(r, q) [B]; 0 without a prediction network."""
        if self.prediction is None or self.divergence is None:
            return tf.zeros(tf.shape(sides["x"][1]), tf.float32)
        r = self.prediction(sides, noise=noise)
        # DEVIATION: in Eq. (ELBO-D) D trains q as well; not if divergence_trains_q is false.
        q = q if self.divergence_trains_q else objective.held(q)
        return objective.DIVERGENCES[self.divergence](r, q)

    def source_nll(
        self, sides: nets.Sides, batch: Batch, z: tf.Tensor | None, noise: nets.Noise
    ) -> nets.Counts:
        """Return -log P(x|z), correct words, and more; see OutputLayer.nll."""
        f, lengths = sides["x"]
        if self.source_lm is None:
            return (tf.zeros(tf.shape(lengths), tf.float32),) * 4
        prefix = self._prefix(self.emb_x, f, noise.get("words_x"))
        h = _dropped(self.source_lm(prefix, lengths, z, noise=noise), noise.get("out_x"))
        return self.source_lm.out_x.nll(h, batch["x"], lengths)

    def target_nll(
        self,
        sides: nets.Sides,
        batch: Batch,
        z: tf.Tensor | None,
        noise: nets.Noise,
        *,
        twins: bool = False,
    ) -> nets.Counts:
        """Return -log P(y|x, z), correct words, and more; see OutputLayer.nll."""
        (f, x_len), (e, y_len) = sides["x"], sides["y"]
        if self.decoder is None:
            return (tf.zeros(tf.shape(x_len), tf.float32),) * 4
        # DEVIATION: neither the paper nor the authors' code drops words that the encoder reads;
        # the rate is 0 unless source_word_dropout says otherwise (Sennrich and Zhang, 2019).
        # q(z|x) and the source LM read all of them.
        values = self.encoder(_dropped(f, noise.get("words_encoder")), x_len, z, noise=noise)
        memory, state = self.decoder.begin(values, x_len, z)
        prefix = self._prefix(self.emb_y, e, noise.get("words_y"))
        features, _ = self.decoder(prefix, memory, state, noise=noise)
        # DEVIATION: neither the paper nor the authors' code drops anything here; the rate is 0
        # unless output_dropout says otherwise. The source LM's output layer is treated alike.
        features = _dropped(features, noise.get("out_y"))
        return self.decoder.out_y.nll(features, batch["y"], y_len, twins=twins)  # Eq. (out-y)

    def _prefix(
        self, embedding: nets.Embedding, embedded: tf.Tensor, word_mask: tf.Tensor | None
    ) -> tf.Tensor:
        """Return the embedded prefix [B, T, E]: <s>, then all words but the last."""
        start = embedding(tf.fill([tf.shape(embedded)[0], 1], SOS))
        prefix = tf.concat([start, embedded[:, :-1]], axis=1)
        # DEVIATION: a dropped word is a zero embedding and the others are scaled up, as in the
        # authors' code; the paper says that words are masked. The source LM's prefix is treated
        # alike (word_dropout_source).
        return _dropped(prefix, word_mask)

    def infer(self, batch: Batch) -> tfd.Distribution | None:
        """Return q(z|x) or q(z|x, y); None without a latent variable."""
        return None if self.posterior is None else self.posterior(self.embed(batch))

    def predict_z(self, x: tf.Tensor, x_len: tf.Tensor) -> tfd.Distribution | None:
        """Return the predictor's distribution, such as r(z|x); None without z."""
        if self.predictor is None:
            return None
        return self.predictor({"x": (self.emb_x.words(x), x_len)})

    def z_for_prediction(self, x: tf.Tensor, x_len: tf.Tensor) -> tf.Tensor | None:
        """Return E[r(z|x)] of Eq. (argmax-conditional), [B, Z]; None without z."""
        r = self.predict_z(x, x_len)
        return None if r is None else r.mean()

    def start(
        self, x: tf.Tensor, x_len: tf.Tensor, z: tf.Tensor | None = None
    ) -> tuple[nets.Memory, nets.DecoderState]:
        """Encode x [B, Tx], x_len [B], z [B, Z]; return where a search starts."""
        return self.decoder.begin(self.encoder(self.emb_x.words(x), x_len, z), x_len, z)

    def get_config(self) -> dict[str, Any]:
        """Return the serialised nets and the other constructor arguments."""
        config = {
            name: keras.saving.serialize_keras_object(net) for name, net in self.parts().items()
        }
        for name in ("divergence", "divergence_trains_q", "seed", "num_rows", "name"):
            config[name] = getattr(self, name)
        return {**config, "rates": list(self.rates)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Aevnmt":
        """Return the model of a configuration from `get_config`."""
        load = keras.saving.deserialize_keras_object
        parts = {k: load(v) if isinstance(v, dict) else v for k, v in config.items()}
        posterior = parts.get("posterior")
        if posterior is not None and "prior" not in parts:  # an old file
            parts["prior"] = nets.PRIORS["standard"](z_size=posterior.z_size, name="prior")
        return cls(**parts)


def _dropped(tensor: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    return tensor if mask is None else tensor * tf.cast(mask, tensor.dtype)
