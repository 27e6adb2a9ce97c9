"""assets.extra/tf_serving_warmup_requests: requests that a server runs before it is ready.

The first call of a graph is slow, because TensorFlow optimises the graph and allocates memory.
The file is a TFRecord file of PredictionLog messages.
"""

from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf import text

FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000  # TensorFlow Serving's limit
NUM_SUBWORDS = 5  # of a sentence


def write(folder, signatures, *, translator):
    """Write one request of one row per signature into the folder of a SavedModel.

    Only the first call of a signature is slow, whatever its number of rows. Requests for other
    batch sizes would delay a new version while the old one is busy.
    """
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "source": [_sentence(translator.x_tokenizer)],
        "target": [_sentence(translator.y_tokenizer)],
        "seed": [0],
    }
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in signatures.items():
            record = prediction_log_pb2.PredictionLog()
            request = record.predict_log.request
            request.model_spec.signature_name = name
            for spec in signature.inputs:
                tensor = tf.make_tensor_proto(values[spec.name], spec.dtype)
                request.inputs[spec.name].CopyFrom(tensor)
            writer.write(record.SerializeToString())


def _sentence(tokenizer) -> bytes:
    """Return the last subwords of the vocabulary as a sentence."""
    size = tokenizer.vocab_size
    ids = list(range(size - min(NUM_SUBWORDS, size), size))
    if isinstance(tokenizer, text.VocabularyTokenizer):
        return b" ".join(tokenizer.pieces(ids).numpy().tolist())
    return tokenizer.decode([ids]).numpy()[0]
