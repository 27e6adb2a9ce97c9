"""The nets composed: terms of the objective, decoding steps, importance weights."""

from aevnmt_tf.model.aevnmt import Aevnmt, Rates, reparameterise
from aevnmt_tf.model.build import build

__all__ = ["Aevnmt", "Rates", "build", "reparameterise"]
