"""Each system, compiled by XLA and driven by `model.fit`, learns one batch by heart."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.training import train_step
from tests import tiny

pytestmark = pytest.mark.slow  # compiling takes long

CASES = {
    **{name: (name, {}) for name in tiny.SYSTEMS},
    "KLq, tf_nmt, deep": ("KLq", {"decoder_style": "tf_nmt", "num_decoder_layers": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_learns_one_batch_by_heart(case):
    system, options = CASES[case]
    hp = tiny.settings(
        system, num_units=16, learning_rate=0.02, jit_compile="true", random_seed=3, **options
    )
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_Y)
    batch = tiny.batch()
    assert_compiled_equals_not(model, batch)

    before = weights(model)
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    history = model.fit(
        dataset, steps_per_epoch=100, epochs=2, verbose=0, shuffle=False
    ).history
    assert history["loss"][1] < history["loss"][0]
    assert int(model.updates) == 200

    # fit went through the one function that XLA compiled.
    (concrete,) = model.gradients._list_all_concrete_functions()
    assert concrete.function_def.attr["_XlaMustCompile"].b

    for name, value in weights(model).items():
        assert np.any(value != before[name]), f"{name} did not move"
    terms = model.loss_terms(batch, {"epsilon": model.noise(batch, 0).get("epsilon")})
    words = tf.reduce_sum(batch["y_len"]).numpy()
    assert terms.nll_y.numpy().sum() / words < 0.05
    assert terms.correct_y.numpy().sum() == words


def assert_compiled_equals_not(model, batch):
    noise = model.noise(batch, 5)
    compiled, compiled_gradients = model.gradients(batch, noise, tf.constant(1.0))
    plain, plain_gradients = model.loss_and_gradients(batch, noise, tf.constant(1.0))
    np.testing.assert_allclose(compiled["loss"], plain["loss"], rtol=1e-5)
    for one, other in zip(compiled_gradients, plain_gradients, strict=True):
        assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max()


def weights(model):
    return {
        f"{layer}/{name}": array
        for layer, variables in tiny.weights(model).items()
        for name, array in variables.items()
    }
