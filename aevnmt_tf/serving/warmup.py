"""Requests that a server answers before it says that it is ready.

The first call of a graph is slow: memory is allocated and the graph is optimised. TensorFlow
Serving replays assets.extra/tf_serving_warmup_requests, a TFRecord file of PredictionLog.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from aevnmt_tf import text

FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000  # TensorFlow Serving's limit
LENGTHS = (5, 12, 24, 8)  # of sentences, in subwords
FIRST_PIECE = 3 + 256  # after <unk>, <s>, </s> and the bytes


def write(folder, signatures, *, translator) -> int:
    """Write one request of one row per signature; return their number.

    Only the first call of a signature is slow, whatever its number of rows. Requests for other
    batch sizes would delay a new version while the old one is busy.

    Args:
        folder: of the SavedModel.
        signatures: signatures.Signature by name.
        translator: the translator whose subwords the sentences consist of.
    """
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    values: dict[str, list[Any]] = {
        "source": sentences(translator.x_tokenizer, 1),
        "target": sentences(translator.y_tokenizer, 1),
        "seed": [0],
    }
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in signatures.items():
            inputs = {
                spec.name: tf.constant(values[spec.name], spec.dtype)
                for spec in signature.inputs
            }
            writer.write(record(name, inputs).SerializeToString())
    return len(signatures)


def record(signature_name, inputs) -> prediction_log_pb2.PredictionLog:
    """Return a request as a server logs it.

    Args:
        signature_name: the signature to run.
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
    """Return made-up sentences of several lengths that consist of the tokenizer's subwords."""
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
