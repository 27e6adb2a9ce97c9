"""Names and shapes of all variables: runs of older versions must load.

variable_names.json was made by the code of before the nets were rearranged: for each system the
variables by path, and the entries of its weights file.
"""

import json
from pathlib import Path

import h5py
import pytest

from tests import tiny

EXPECTED = json.loads((Path(__file__).parent / "variable_names.json").read_text())
CASES = {
    **{name: (name, {}) for name in tiny.SYSTEMS},
    "joint, tf_nmt": ("joint", {"decoder_style": "tf_nmt", "num_lm_layers": 2}),
    "KLq, after, tf_nmt": (
        "KLq",
        {"gru_reset": "after", "decoder_style": "tf_nmt", "num_decoder_layers": 2},
    ),
    "KLq, after, paper": (
        "KLq",
        {"gru_reset": "after", "num_decoder_layers": 2, "num_encoder_layers": 4},
    ),
    "l2, shared, deep": (
        "l2",
        {
            "share_vocab": True,
            "num_encoder_layers": 4,
            "num_decoder_layers": 2,
            "num_lm_layers": 2,
        },
    ),
}


def test_every_system_is_here():
    assert CASES.keys() == EXPECTED.keys()


@pytest.mark.parametrize("case", list(CASES))
def test_variables_have_the_names_and_shapes_of_before(case, tmp_path):
    system, options = CASES[case]
    model = tiny.build(system, vocab_y=tiny.VOCAB_X, **options)
    variables = [[v.path, list(v.shape)] for v in model.trainable_variables]
    assert variables == EXPECTED[case]["variables"]
    path = str(tmp_path / "model.weights.h5")
    model.save_weights(path)
    entries = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            entries[name] = list(item.shape)

    with h5py.File(path) as file:
        file.visititems(note)
    assert entries == EXPECTED[case]["file"]
