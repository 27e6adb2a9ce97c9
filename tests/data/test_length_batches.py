import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.data.length_batches import length_batches


@given(
    lengths=st.lists(st.integers(1, 40), max_size=60),
    batch_size=st.integers(1, 9),
    most_words=st.integers(1, 100),
)
def test_every_sentence_once_in_batches_that_fit(lengths, batch_size, most_words):
    lengths = np.array(lengths, np.int64)
    batches = list(length_batches(lengths, batch_size=batch_size, most_words=most_words))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert list(lengths[rows]) == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= most_words


def test_no_batch_is_smaller_than_it_must_be():
    sizes = [len(b) for b in length_batches([2] * 7, batch_size=5, most_words=6)]
    assert sizes == [3, 3, 1]
