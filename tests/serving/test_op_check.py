"""The check that every export passes must fail where a server would."""

from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

from aevnmt_tf.serving import op_check

SOURCE = tf.TensorSpec([None], tf.string, name="source")


def problems(tmp_path, function, specs=(SOURCE,)):
    """What the check says about a function as a SavedModel."""
    module = tf.Module()
    traced = tf.function(
        function, input_signature=specs, autograph=False
    ).get_concrete_function()
    tf.saved_model.save(module, str(tmp_path), signatures=traced)
    return op_check.problems(op_check.read(tmp_path))


def test_a_graph_that_can_be_served(tmp_path):
    def function(source):
        return {"length": tf.strings.length(source)}

    assert problems(tmp_path, function) == []


def test_a_function_that_calls_python(tmp_path):
    def function(source):
        made = tf.py_function(lambda text: text, [source], tf.string)
        return {"made": tf.ensure_shape(made, [None])}

    (found,) = problems(tmp_path, function)
    assert "(EagerPyFunc) needs Python" in found


def test_a_function_that_is_compiled(tmp_path):
    inner = tf.function(lambda x: x + 1, jit_compile=True)

    def function(source):
        return {"length": inner(tf.strings.length(source))}

    found = problems(tmp_path, function)
    assert found and all("is jit-compiled" in problem for problem in found)
    assert any(problem.startswith("function ") for problem in found)


def test_a_compiled_function_inside_a_loop(tmp_path):
    inner = tf.function(lambda x: x + 1, jit_compile=True)

    def function(source):
        (end,) = tf.while_loop(
            lambda x: tf.reduce_all(x < 9), lambda x: [inner(x)], [tf.strings.length(source)]
        )
        return {"length": end}

    assert any("jit-compiled" in problem for problem in problems(tmp_path, function))


def test_operations_that_the_server_does_not_have(tmp_path):
    """A custom one, and one that TensorFlow registers for its own tests, inside a function."""

    def function(source):
        return {"length": tf.strings.length(source)}

    assert problems(tmp_path, function) == []
    model = op_check.read(tmp_path)
    (graph,) = model.meta_graphs
    nodes = [node for _, node in op_check.nodes(graph.graph_def) if node.op == "StringLength"]
    for op in ("AddressSplit", "KernelLabel"):
        nodes[0].op = op
        (found,) = op_check.problems(model)
        assert found.startswith("function ") and f"is a {op}, which the server" in found


def test_operations_of_tensorflow_text():
    """Each of them is registered by tensorflow-text, and none by TensorFlow."""
    for library in Path(tensorflow_text.__file__).parent.glob("python/ops/*.so"):
        tf.load_op_library(str(library))
    registered = {op.name for op in _registered()}
    assert op_check.TEXT_OPS <= registered
    assert not any(hasattr(tf.raw_ops, name) for name in op_check.TEXT_OPS)


def _registered():
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return op_def_pb2.OpList.FromString(data).op


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda s: s.outputs["length"].tensor_shape.dim.pop(), "known rank of 1 or more"),
        (
            lambda s: _unknown_rank(s.inputs["source"]),
            "input source of serving_default must have",
        ),
        (lambda s: _first(s.outputs["length"], 4), "must have any number of rows, not 4"),
        (
            lambda s: s.outputs["text_bytes"].CopyFrom(s.outputs["length"]),
            "named *_bytes as base64",
        ),
    ],
)
def test_inputs_and_outputs(tmp_path, change, sentence):
    def function(source):
        return {"length": tf.strings.length(source)}

    assert problems(tmp_path, function) == []
    model = op_check.read(tmp_path)
    change(model.meta_graphs[0].signature_def["serving_default"])
    (found,) = op_check.problems(model)
    assert sentence in found


def _unknown_rank(info):
    info.tensor_shape.Clear()
    info.tensor_shape.unknown_rank = True


def _first(info, size):
    info.tensor_shape.dim[0].size = size


def test_nodes_of_the_graph_itself():
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().graph_def.node.add(name="a", op="NoSuchOp")
    assert op_check.problems(model) == [
        "the graph: a is a NoSuchOp, which the server does not have"
    ]
