"""SavedModels that need no training, with the kinds of signatures that an export has."""

import shutil

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

SOURCE = tf.TensorSpec([None], tf.string, name="source")
SEED = tf.TensorSpec([None], tf.int32, name="seed")
ROWS = tf.TensorSpec([None, 3], tf.float32, name="x")


class Toy(tf.Module):
    """Translates to capitals, and says which version did it."""

    def __init__(self, number):
        super().__init__()
        self.number = tf.constant(number)
        self.calls = tf.Variable(0)
        self.largest = tf.Variable(0)

    @tf.function(input_signature=[SOURCE])
    def translate(self, source):
        self.calls.assign_add(1)
        self.largest.assign(tf.maximum(self.largest, tf.size(source)))
        suffix = tf.strings.as_string(self.number)
        return {
            "translation": tf.strings.join([tf.strings.upper(source), suffix], separator=" v"),
            "score": -tf.cast(tf.strings.length(source), tf.float32) / 10,
        }

    @tf.function(input_signature=[SOURCE])
    def nbest(self, source):
        texts = tf.stack([tf.strings.upper(source), source], axis=1)
        good = tf.fill(tf.shape(source), 0.2)
        # JSON has no infinity.
        return {
            "translations": texts,
            "scores": tf.stack([good, tf.math.log(0 * good)], axis=1),
        }

    @tf.function(input_signature=[SOURCE, SEED])
    def sample(self, source, seed):
        return {"translations": tf.strings.join([source, tf.strings.as_string(seed)])[:, None]}

    @tf.function(input_signature=[SOURCE])
    def attention(self, source):
        pieces = tf.strings.split(source).to_tensor()
        return {"source_pieces": pieces, "attention": tf.ones(tf.shape(pieces)) / 3}

    @tf.function(input_signature=[SOURCE])
    def fails(self, source):
        is_good = tf.reduce_all(source != "bad")
        with tf.control_dependencies([tf.debugging.Assert(is_good, ["a bad line"])]):
            return {"translation": tf.strings.join([source, "."])}

    @tf.function(input_signature=[ROWS])
    def double(self, x):
        return {"y": 2 * x}

    @tf.function(input_signature=[SOURCE])
    def raw(self, source):
        return {"packed_bytes": source, "broken": tf.strings.substr(source, 0, 1)}

    @tf.function(input_signature=[SOURCE])
    def spin(self, source):
        last = tf.while_loop(lambda i: i < 2**31 - 1, lambda i: (i + 1,), [tf.constant(0)])
        return {"last": tf.fill(tf.shape(source), last[0])}

    @tf.function(input_signature=[SOURCE])
    def count(self, source):
        calls = tf.fill(tf.shape(source), self.calls.read_value())
        return {"calls": calls, "largest": tf.fill(tf.shape(source), self.largest.read_value())}


def save(folder, number):
    """Write a version of the toy model to folder/number."""
    toy = Toy(number)
    signatures = {
        "serving_default": toy.translate,
        **{
            name: getattr(toy, name)
            for name in "nbest sample attention fails double raw count spin".split()
        },
    }
    path = folder / str(number)
    tf.saved_model.save(toy, str(path), signatures=signatures)
    return path


def publish(version, folder, *, number=None):
    """Copy a version the way an exporter does: under another name, then renamed."""
    number = version.name if number is None else str(number)
    temporary = folder / f".{number}.writing"
    shutil.copytree(version, temporary)
    temporary.rename(folder / number)


def write_warm_up(path, *requests):
    """Write requests, each a (signature, inputs) pair, for a server to start with."""
    (path / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(
        str(path / "assets.extra" / "tf_serving_warmup_requests")
    ) as writer:
        for signature, inputs in requests:
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            writer.write(log.SerializeToString())
