"""The nets composed: a model, its objective, importance sampling."""

from aevnmt_tf.model.aevnmt import Aevnmt, Batch, Rates
from aevnmt_tf.model.builder import build

__all__ = ["Aevnmt", "Batch", "Rates", "build"]
