"""The random numbers of a training step: dropout masks, and those that z is drawn with."""

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from aevnmt_tf import nets
from aevnmt_tf.nets import noise as random_numbers

if TYPE_CHECKING:
    from aevnmt_tf.model.aevnmt import Aevnmt

Batch = dict[str, tf.Tensor]  # x [B, Tx], x_len [B], y [B, Ty], y_len [B] and more; see data


class Rates(NamedTuple):
    """The dropout rates of training."""

    dropout: float = 0.0
    word_dropout_x: float = 0.0
    word_dropout_y: float = 0.0
    output_dropout: float = 0.0
    source_word_dropout: float = 0.0


def training_noise(model: "Aevnmt", batch: Batch, step: tf.Tensor | int) -> nets.Noise:
    """Return epsilon and the dropout masks by layer name; see Aevnmt.noise."""
    x, y = (tf.shape(batch[side])[1] for side in "xy")
    rates, rated = model.rates, {}
    shapes: dict[str, tuple] = {}
    if model.decoder is not None:
        shapes |= model.encoder.noise_shapes(x) | model.decoder.noise_shapes(y)
        rated["words_y"] = ((y, 1), rates.word_dropout_y)
        rated["words_encoder"] = ((x, 1), rates.source_word_dropout)
        rated["out_y"] = ((y, model.decoder.feature_size), rates.output_dropout)
    if model.source_lm is not None:
        shapes |= model.source_lm.noise_shapes(x)
        rated["words_x"] = ((x, 1), rates.word_dropout_x)
        rated["out_x"] = ((x, model.source_lm.units), rates.output_dropout)
    for part in (model.prior, model.posterior, model.prediction):
        if part is not None:
            shapes |= part.noise_shapes({"x": x, "y": y})
    rated |= {name: (shape, rates.dropout) for name, shape in shapes.items()}

    def stream(name: str) -> dict[str, Any]:
        seed = random_numbers.seed_for(name, seed=model.seed, step=step)
        return {"seed": seed, "rows": batch["row"], "num_rows": model.num_rows}

    noise = {
        name: random_numbers.dropout_mask(shape, rate=rate, **stream(name))
        for name, (shape, rate) in rated.items()
        if rate > 0.0
    }
    if model.posterior is not None:
        shape = (model.posterior.noise_size,)
        noise["epsilon"] = random_numbers.normal(shape, **stream("epsilon"))
        noise |= model.posterior.row_weights(batch["weight"])
    return noise
