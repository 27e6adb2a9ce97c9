"""The source encoder of the translation model."""

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.recurrent import BiGRU, Noise
from aevnmt_tf.nets.recurrent_stack import RecurrentStack


@keras.saving.register_keras_serializable("aevnmt_tf")
class Encoder(RecurrentStack):
    """Bidirectional GRU layers, each started from z. Arguments as RecurrentStack.

    s_0 = tanh(affine(z; theta_init-enc))
    s_1^m = BiGRU(f_1^m, s_0; theta_bigru-x)             Eq. (gen-bigru-x)

    DEVIATION: with several layers each reads both directions of the one below; in TF-NMT's `bi`
    the layers of a direction are a stack of their own (TfNmtEncoder). The paper has one layer.
    """

    kind = BiGRU
    gru_label = "bigru_x"
    start_label = "init_enc"

    def size_below(self, k: int) -> int:
        """Return the size of both directions of the layer below, or of a word."""
        return 2 * self.units if k else self.input_size

    def call(
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        z: tf.Tensor | None = None,
        noise: Noise | None = None,
    ) -> tf.Tensor:
        """Return the states [B, Tx, 2H] of the top layer.

        Args:
            inputs: [B, Tx, E] or Words.
            lengths: [B].
            z: [B, Z].
            noise: dropout masks by layer name.
        """
        noise = noise or {}
        for layer, start in zip(self.grus, self.start(z, lengths), strict=True):
            inputs = layer(inputs, lengths, start, dropout=noise.get(layer.name))
        return inputs
