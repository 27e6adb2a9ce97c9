"""Batches of source sentences without a translation.

Until here they have a copy of the source in the place of the target.
"""

import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.data.batches import Batch


def without_targets(batch: Batch, *, corpus: int) -> Batch:
    """Return the batch with no target words in the rows of a corpus.

    Such rows have y_len 0, so that all that is left of their loss is -log P(x|z) and the KL. A
    batch of nothing else has one column of padding.
    """
    is_mono = batch["corpus"] == corpus
    y_len = tf.where(is_mono, 0, batch["y_len"])
    width = tf.where(tf.reduce_any(y_len > 1), tf.shape(batch["y"])[1], 1)
    y = tf.where(is_mono[:, None], text.EOS, batch["y"])[:, :width]
    return batch | {"y": y, "y_len": y_len}
