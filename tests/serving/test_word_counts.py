"""What a line costs is known before the model sees it."""

import numpy as np

from aevnmt_tf.serving import word_counts
from aevnmt_tf.serving.servable import Servable

LONGEST = 12  # src_max_len_infer of the export


def test_spaces_hide_no_words(folder):
    counter = Servable(folder).count_words
    for spaces in (0, word_counts.BYTES_PER_WORD * LONGEST):
        line = b" " * spaces + "\u1234".encode() * 30
        assert counter({"source": np.array([line], object)}).tolist() == [LONGEST + 1]


def test_score_costs_what_its_vocabulary_does():
    made = {"decoding": {"score_samples": 10}, "hparams": {"vocab_size": 32000}}
    assert word_counts.widths(made)["score"] == 40
