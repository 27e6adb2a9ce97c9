"""Checks that a stock TensorFlow Serving can run a SavedModel: its ops and signatures."""

from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from aevnmt_tf.serving import export_folder

INIT_OP = "__saved_model_init_op"

# The ops of tensorflow-text that TensorFlow Serving includes.
TEXT_OPS = frozenset(
    """
    CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets
    FindSourceOffsets MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize
    RegexSplitWithOffsets SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp
    SentencepieceIdToStringOp SentencepieceOp SentencepieceStringToIdOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets
    TFText>BoiseTagsToOffsets TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets
    TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize
    TFText>FastWordpieceDetokenize TFText>NgramsStringJoin TFText>OffsetsToBoiseTags
    TFText>PhraseDetokenize TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim
    TFText>Utf8Binarize TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits
    UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
    """.split()
)
# Core ops that call Python.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
# Attributes of functions that XLA must compile: a stock server refuses to run them.
XLA_MARKS = ("_XlaMustCompile", "_XlaCompile")


def read(folder) -> saved_model_pb2.SavedModel:
    """Return the SavedModel message of a folder."""
    return saved_model_pb2.SavedModel.FromString(
        (Path(folder) / export_folder.MODEL_FILE).read_bytes()
    )


def problems(model: saved_model_pb2.SavedModel) -> list[str]:
    """Return the reasons why a stock server cannot run the model, if any."""
    found = []
    for graph in model.meta_graphs:
        found += _operations(graph.graph_def)
        for name, signature in sorted(graph.signature_def.items()):
            if name != INIT_OP:
                found += _tensors(name, signature)
    return list(dict.fromkeys(found))


def nodes(graph_def):
    """Yield the place and the node, for each node of a graph and of its functions."""
    for node in graph_def.node:
        yield "the graph", node
    for function in graph_def.library.function:
        for node in function.node_def:
            yield f"function {function.signature.name}", node


def _operations(graph_def):
    functions = {function.signature.name for function in graph_def.library.function}
    for function in graph_def.library.function:
        if any(mark in function.attr for mark in XLA_MARKS):
            yield f"function {function.signature.name} is jit-compiled"
    for place, node in nodes(graph_def):
        if any(mark in node.attr for mark in XLA_MARKS) or node.op.startswith("Xla"):
            yield f"{place}: {node.name} ({node.op}) is jit-compiled"
        elif node.op in PYTHON_OPS:
            yield f"{place}: {node.name} ({node.op}) needs Python"
        elif not (hasattr(tf.raw_ops, node.op) or node.op in TEXT_OPS or node.op in functions):
            yield f"{place}: {node.name} is a {node.op}, which the server does not have"


def _tensors(signature_name, signature):
    for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for name, info in sorted(tensors.items()):
            what = f"{side} {name} of {signature_name}"
            if name.endswith("_bytes"):
                yield f"{what}: the REST API returns outputs named *_bytes as base64"
            if info.tensor_shape.unknown_rank or not info.tensor_shape.dim:
                yield f"{what} must have a known rank of 1 or more"
            elif info.tensor_shape.dim[0].size != -1:
                size = info.tensor_shape.dim[0].size
                yield f"{what} must have any number of rows, not {size}"
