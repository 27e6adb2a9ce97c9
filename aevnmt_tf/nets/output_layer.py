"""Output layers: from states to logits, and directly to negative log-likelihoods.

A training step does most of its work here ([tokens, F] x [F, V], three times). So padding is
skipped, and no pass over [tokens, V] is made without need.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.matrix_products import compute

Counts = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]  # what `nll` gives, each [B]


@keras.saving.register_keras_serializable("aevnmt_tf")
class OutputLayer(keras.layers.Layer):
    """affine(features; theta_out): features [..., F] -> logits [..., V] in float32.

    DEVIATION: a tied layer has the embeddings of its words as the matrix (Press and Wolf, 2017)
    and, where F is not E, reads its features through a linear map P to the embeddings' size:
    logits = emb (P features) + bias. The paper ties nothing; only tie_embeddings does.

    Args:
        input_size: F.
        vocab_size: V.
        use_bias: whether the map has a bias (TF-NMT's form of out_y has none).
        packed: whether `nll` skips padding. Not possible under XLA, which needs static shapes.
        label_smoothing: the probability mass that is spread evenly over the vocabulary.
        tied_size: E of the embeddings passed to `tie`, or None for a matrix of its own.
    """

    def __init__(
        self,
        *,
        input_size: int,
        vocab_size: int,
        use_bias: bool = True,
        packed: bool = True,
        label_smoothing: float = 0.0,
        tied_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_size = input_size
        self.vocab_size = vocab_size
        self.use_bias = use_bias
        self.packed = packed
        self.label_smoothing = label_smoothing
        self.tied_size = tied_size
        self.kernel = self.projection = self.bias = None

    def tie(self, embedding: Embedding) -> None:
        """Use the embeddings of this layer, which tracks and saves them itself."""
        self._table = lambda: embedding.embeddings  # Keras would track and save a layer here

    def build(self, *_: Any) -> None:
        """Create kernel [F, V], or projection [F, E] to tied embeddings, and bias [V]."""
        if self.tied_size is None:
            self.kernel = self.add_weight(
                name="kernel", shape=(self.input_size, self.vocab_size)
            )
        elif self.tied_size != self.input_size:
            self.projection = self.add_weight(
                name="projection", shape=(self.input_size, self.tied_size)
            )
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.vocab_size,), initializer="zeros"
            )

    def matrix(self) -> tf.Tensor:
        """Return the matrix [F, V] that features [..., F] are multiplied by."""
        kernel = self._weights()[0]
        if self.projection is None:
            return kernel
        return tf.matmul(compute(self, self.projection), kernel)

    def _weights(self) -> list[tf.Tensor]:
        if self.tied_size is None:
            weights = [compute(self, self.kernel)]
        else:
            weights = [tf.transpose(compute(self, self._table()))]  # [E, V]
        return [*weights, compute(self, self.bias)] if self.use_bias else weights

    def _read(self, features: tf.Tensor) -> tf.Tensor:
        features = compute(self, features)
        if self.projection is None:
            return features
        return tf.matmul(features, compute(self, self.projection))

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """See the class."""
        logits = affine(self._read(features), *self._weights())
        return tf.cast(logits, tf.float32)

    def nll(
        self, features: tf.Tensor, labels: tf.Tensor, lengths: tf.Tensor, *, twins: bool = False
    ) -> Counts:
        """Return -log softmax(logits)[label], summed over each sentence, and more.

        Args:
            features: [B, T, F].
            labels: [B, T] int32.
            lengths: [B] int32.
            twins: whether rows b and B / 2 + b are the same sentence.

        Returns:
            Four float32 tensors [B]: nll in nats, the number of labels with the highest logit,
            what label smoothing adds to nll, and `twin_divergence` summed over the sentence (0
            without twins).
        """
        real = tf.sequence_mask(lengths, tf.shape(labels)[1])  # [B, T]
        if self.packed:
            where = tf.where(real)  # [N, 2]
            features, labels = tf.gather_nd(features, where), tf.gather_nd(labels, where)
            values = self._nll(features, labels, twins)  # [N]
            rows = tf.shape(lengths)[0]
            return tuple(tf.math.unsorted_segment_sum(v, where[:, 0], rows) for v in values)
        values = self._nll(
            tf.reshape(features, [-1, self.input_size]), tf.reshape(labels, [-1]), twins
        )
        return tuple(
            tf.reduce_sum(tf.where(real, tf.reshape(v, tf.shape(real)), 0.0), axis=1)
            for v in values
        )

    def _nll(self, features: tf.Tensor, labels: tf.Tensor, twins: bool) -> Counts:
        return nll_of_labels(
            self._read(features),
            labels,
            *self._weights(),
            smoothing=self.label_smoothing,
            twins=twins,
        )


def affine(features: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """Return features [..., F] x kernel [F, V] + bias [V]."""
    logits = tf.matmul(features, kernel)
    return logits if bias is None else tf.nn.bias_add(logits, bias)


def nll_of_labels(
    features: tf.Tensor,
    labels: tf.Tensor,
    kernel: tf.Tensor,
    *bias: tf.Tensor,
    smoothing: float = 0.0,
    twins: bool = False,
) -> Counts:
    """Return -log softmax(affine(features))[label] and three more float32 tensors [N].

    They tell whether the label has the highest logit, what label smoothing adds, and how far
    each token diverges from its twin: token n of the first half and token n of the second half
    are the same word in two passes.

    The forward pass keeps softmax minus one-hot, which is the gradient of the logits up to a
    factor per token. That factor is applied to the small operands of the products.

    Smoothed labels are (1 - smoothing) one-hot + smoothing / V. The cross-entropy to them is
    nll + smoothing (logits[label] - mean(logits)): the normaliser cancels.
    """
    where = tf.stack([tf.range(tf.size(labels)), tf.cast(labels, tf.int32)], axis=1)  # [N, 2]

    @tf.custom_gradient
    def function(features, kernel, *bias):  # type: ignore[no-untyped-def]
        logits = tf.cast(affine(features, kernel, *bias), tf.float32)  # [N, V]
        # On a CPU, oneDNN's softmax takes a third of the time of TensorFlow's cross-entropy.
        # The highest probability is at least 1 / V, so its logarithm is exact for all labels.
        softmax = tf.nn.softmax(logits)
        chosen = tf.gather(logits, labels, batch_dims=1)
        highest = tf.reduce_max(logits, axis=-1)
        nll = (highest - chosen) - tf.math.log(tf.reduce_max(softmax, axis=-1))
        correct = tf.cast(chosen >= highest, tf.float32)
        d_logits = tf.tensor_scatter_nd_sub(softmax, where, tf.ones_like(nll))
        added, divergence, d_twins = tf.zeros_like(nll), tf.zeros_like(nll), None
        if smoothing:
            added = smoothing * (chosen - tf.reduce_mean(logits, axis=-1))
        if twins:
            divergence, d_twins = twin_divergence(logits, softmax)

        def gradient(
            d_nll: tf.Tensor, _: tf.Tensor, d_added: tf.Tensor, d_divergence: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            d_chosen, scale = d_logits, d_nll
            if smoothing or twins:
                d_chosen, scale = d_nll[:, None] * d_logits, tf.ones_like(d_nll)
            if smoothing:
                d_added *= smoothing
                spread = d_added / tf.cast(tf.shape(logits)[1], tf.float32)
                d_chosen = tf.tensor_scatter_nd_add(d_chosen - spread[:, None], where, d_added)
            if d_twins is not None:
                d_chosen += d_twins(d_divergence)
            d_chosen = tf.cast(d_chosen, features.dtype)  # [N, V]
            scale = tf.cast(scale, features.dtype)[:, None]
            d_features = scale * tf.matmul(d_chosen, kernel, transpose_b=True)
            d_kernel = tf.matmul(scale * features, d_chosen, transpose_a=True)
            d_bias = [tf.matmul(scale, d_chosen, transpose_a=True)[0] for _ in bias]
            return d_features, d_kernel, *d_bias

        return (nll, correct, added, divergence), gradient

    return function(features, kernel, *bias)


def twin_divergence(
    logits: tf.Tensor, softmax: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Return (KL(p || p') + KL(p' || p)) / 2 of twins [N], and its gradient function.

    p is the first half of softmax [N, V] and p' the second; both halves of the result are the
    same. With d = logits - logits', the sum of the two KLs is sum_v (p - p') d: the normalisers
    cancel. The gradient for the first half is (p (d - E_p[d]) + p - p') / 2.
    """
    d = tf.subtract(*tf.split(logits, 2))  # [N / 2, V]
    p, other = tf.split(softmax, 2)
    apart = p - other
    half = 0.5 * tf.reduce_sum(apart * d, axis=-1)  # [N / 2]

    def gradient(d_divergence: tf.Tensor) -> tf.Tensor:
        scale = 0.5 * tf.add(*tf.split(d_divergence, 2))[:, None]  # each half holds the value
        first = p * (d - tf.reduce_sum(p * d, axis=-1, keepdims=True)) + apart
        second = other * (d - tf.reduce_sum(other * d, axis=-1, keepdims=True)) + apart
        return tf.concat([scale * first, -scale * second], axis=0)  # [N, V]

    return tf.concat([half, half], axis=0), gradient
