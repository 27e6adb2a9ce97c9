"""Requests that a server answers before it says that it is ready.

The first call of a graph is slow: memory is allocated and the graph is optimised. TensorFlow
Serving replays assets.extra/tf_serving_warmup_requests, a TFRecord file of PredictionLog.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError

FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000  # TensorFlow Serving's limit
LENGTHS = (5, 12, 24, 8)  # of sentences, in subwords
FIRST_PIECE = 3 + 256  # after <unk>, <s>, </s> and the bytes


def write(folder, signatures, *, translator, batch_sizes) -> int:
    """Write a request for each signature and batch size; return how many.

    Args:
        folder: of the SavedModel.
        signatures: signatures.Signature by name.
        translator: the translator whose subwords the sentences are made of.
        batch_sizes: how many rows the requests have.
    """
    count = len(signatures) * len(batch_sizes)
    if count > MOST_RECORDS:
        raise UserError(
            f"{len(batch_sizes)} batch sizes of {len(signatures)} signatures are more than the "
            f"{MOST_RECORDS} requests that a server warms up with: give fewer "
            "--allowed_batch_sizes"
        )
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = max(batch_sizes)
    values: dict[str, list[Any]] = {
        "source": sentences(translator.x_tokenizer, rows),
        "target": sentences(translator.y_tokenizer, rows),
        "seed": list(range(rows)),
    }
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in signatures.items():
            for size in batch_sizes:
                inputs = {
                    spec.name: tf.constant(values[spec.name][:size], spec.dtype)
                    for spec in signature.inputs
                }
                writer.write(record(name, inputs).SerializeToString())
    return count


def record(signature_name, inputs) -> prediction_log_pb2.PredictionLog:
    """Return a request as a server logs it.

    Args:
        signature_name: which signature is asked.
        inputs: tensors by name.
    """
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(signature_name=signature_name),
        inputs={name: tf.make_tensor_proto(value) for name, value in inputs.items()},
    )
    return prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )


def sentences(tokenizer, count) -> list[bytes]:
    """Made-up sentences of several lengths, out of the tokenizer's own subwords."""
    first = FIRST_PIECE if tokenizer.vocab_size > 2 * FIRST_PIECE else text.EOS + 1
    usable = max(1, tokenizer.vocab_size - first)
    made = []
    for row in range(count):
        length = LENGTHS[row % len(LENGTHS)]
        ids = [
            min(first + (31 * row + 7 * n) % usable, tokenizer.vocab_size - 1)
            for n in range(length)
        ]
        if isinstance(tokenizer, text.VocabularyTokenizer):
            made.append(b" ".join(tokenizer.pieces(ids).numpy().tolist()))
        else:
            made.append(tokenizer.decode([ids]).numpy()[0])
    return made
