import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf.data.batches import evaluation_batches

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=40)


def sides(lengths):
    return np.array(lengths, np.int64).reshape(-1, 2).T


@settings(max_examples=10)
@given(LENGTHS, st.integers(1, 9), st.integers(1, 4))
def test_evaluation_sees_every_pair_once(encoded, lengths, batch_size, num_shapes):
    x_len, y_len = sides(lengths)
    pairs = encoded(x_len, y_len)
    rows, shapes = [], set()
    dataset = evaluation_batches(pairs, batch_size=batch_size, num_shapes=num_shapes)
    for batch in dataset.as_numpy_iterator():
        shapes.add((batch["x"].shape, batch["y"].shape))
        assert batch["x"].shape[0] == batch_size
        for i, row in enumerate(batch["row"]):
            if batch["weight"][i] == 0:
                assert row == -1
                assert batch["x_len"][i] == batch["y_len"][i] == 1
                assert (batch["x"][i] == 2).all() and (batch["y"][i] == 2).all()
                continue
            rows.append(row)
            for side in "xy":
                length = batch[f"{side}_len"][i]
                sequence = getattr(pairs, side)[row]
                assert length == len(sequence)
                assert batch[side][i, :length].tolist() == sequence.tolist()
                assert (batch[side][i, length:] == 2).all()
    assert sorted(rows) == list(range(len(lengths)))
    assert len(shapes) <= num_shapes


def test_evaluation_goes_from_short_to_long(encoded):
    random = np.random.default_rng(1)
    x_len = random.integers(1, 40, 500)
    dataset = evaluation_batches(encoded(x_len, x_len), batch_size=10)
    longest = [int(batch["x_len"].numpy().max()) for batch in dataset]
    assert longest == sorted(longest)
    assert longest[0] < 5


def test_evaluation_batches_have_a_static_number_of_rows(encoded):
    spec = evaluation_batches(encoded([2, 2], [2, 2]), batch_size=7).element_spec
    assert {name: tensor.shape.as_list() for name, tensor in spec.items()} == dict(
        x=[7, None], y=[7, None], x_len=[7], y_len=[7], weight=[7], corpus=[7], row=[7]
    )
