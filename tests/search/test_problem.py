"""What a search gives."""

import tensorflow as tf

from aevnmt_tf import search, text


def test_a_sentence_ends_in_eos():
    def hypotheses(*rows):
        ids = tf.constant(rows)[:, None]
        lengths = tf.constant([[2], [3]])
        return search.Hypotheses(ids, lengths, scores=None, log_probs=None)

    eos = text.EOS
    ids, lengths = search.sentences(hypotheses([5, eos, eos], [6, 7, 8]), eos=eos)
    assert ids.numpy().tolist() == [[5, eos, eos, eos], [6, 7, 8, eos]]
    assert lengths.numpy().tolist() == [2, 4]
    ids, _ = search.sentences(hypotheses([5, eos, eos], [6, 7, eos]), eos=eos)
    assert ids.shape == (2, 3)
