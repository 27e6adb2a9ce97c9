"""The source encoder of the translation model."""

import keras

from aevnmt_tf.nets.recurrent import BiGRU
from aevnmt_tf.nets.stack import RecurrentStack


@keras.saving.register_keras_serializable("aevnmt_tf")
class Encoder(RecurrentStack):
    """Bidirectional GRU layers, each started from z. Arguments as RecurrentStack.

    s_0 = tanh(affine(z; theta_init-enc))
    s_1^m = BiGRU(f_1^m, s_0; theta_bigru-x)             Eq. (gen-bigru-x)
    """

    gru = BiGRU
    gru_label = "bigru_x"
    start_label = "init_enc"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.make_layers()

    def size_below(self, k):
        """Both directions of the layer below, or the words."""
        return 2 * self.units if k else self.input_size

    def call(self, inputs, lengths, z=None, noise=None):
        """inputs [B, Tx, E] or Words, lengths [B], z [B, Z] -> [B, Tx, 2H].

        `noise` holds masks by layer name.
        """
        noise = noise or {}
        for layer, start in zip(self.grus, self.start(z, lengths), strict=True):
            inputs = layer(inputs, lengths, start, dropout=noise.get(layer.name))
        return inputs
