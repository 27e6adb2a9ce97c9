"""Files -> checked pairs -> batches; several corpora; the demo corpus.

Names are imported when first used: `aevnmt_tf.data.demo` must not wait for TensorFlow.
"""

import importlib
from typing import Any

_HOMES = {
    "Counts": "pair_counts",
    "EncodedPairs": "pair_encoding",
    "Pairs": "pairs",
    "TrainingData": "training_data",
    "encode_pairs": "pair_encoding",
    "evaluation_batches": "batches",
    "load_training_data": "training_data",
    "read_pairs": "pairs",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
