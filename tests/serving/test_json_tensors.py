"""JSON <-> tensors, without a server."""

import base64
import json
import math
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from aevnmt_tf.serving import json_tensors
from aevnmt_tf.serving.servable import ServedSignature
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError

TEXT = ServedSignature("text", {"source": tf.TensorSpec((None,), tf.string)}, {})
SEEDED = ServedSignature(
    "seeded",
    {"seed": tf.TensorSpec((None,), tf.int32), "source": tf.TensorSpec((None,), tf.string)},
    {},
)
MATRIX = ServedSignature("matrix", {"x": tf.TensorSpec((None, 3), tf.float32)}, {})
BOOLEAN = ServedSignature("boolean", {"b": tf.TensorSpec((None,), tf.bool)}, {})
ANY = ServedSignature("any", {"x": tf.TensorSpec(None, tf.float64)}, {})


def tensors(document, signature=TEXT, **limits):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    parsed = json_tensors.parse(body)
    json_tensors.signature_name(parsed)
    found = json_tensors.inputs(parsed, signature, limits=ServerOptions(Path(), **limits))
    return {name: array.tolist() for name, array in found.items()}


@pytest.mark.parametrize(
    "document, signature, expected",
    [
        ({"instances": ["a", "ü"]}, TEXT, {"source": [b"a", "ü".encode()]}),
        ({"instances": [{"source": "a"}]}, TEXT, {"source": [b"a"]}),
        ({"inputs": ["a", ""]}, TEXT, {"source": [b"a", b""]}),
        ({"inputs": {"source": ["a"]}}, TEXT, {"source": [b"a"]}),
        ({"instances": [{"b64": "/wA="}, "b"]}, TEXT, {"source": [b"\xff\0", b"b"]}),
        ({"instances": [{"source": {"b64": "/wA"}}]}, TEXT, {"source": [b"\xff\0"]}),
        (
            {"instances": [{"seed": 3, "source": "a"}, {"source": "b", "seed": -4}]},
            SEEDED,
            {"seed": [3, -4], "source": [b"a", b"b"]},
        ),
        (
            {"inputs": {"seed": [3], "source": ["a"]}, "signature_name": "seeded"},
            SEEDED,
            {"seed": [3], "source": [b"a"]},
        ),
        ({"instances": [[1, 2.5, 3], [4, 5, 6]]}, MATRIX, {"x": [[1, 2.5, 3], [4, 5, 6]]}),
        ({"inputs": [[1, 2, 3]]}, MATRIX, {"x": [[1, 2, 3]]}),
        (b'{"inputs": [[1e3, Infinity, -Infinity]]}', MATRIX, {"x": [[1e3, np.inf, -np.inf]]}),
        ({"instances": [True, False]}, BOOLEAN, {"b": [True, False]}),
        ({"inputs": 1.5}, ANY, {"x": 1.5}),
        ({"instances": [[[1, 2]], [[3, 4]]]}, ANY, {"x": [[[1, 2]], [[3, 4]]]}),
        (b'\xef\xbb\xbf{"instances": ["a\\u0000b"]}', TEXT, {"source": [b"a\0b"]}),
    ],
)
def test_requests(document, signature, expected):
    assert tensors(document, signature) == expected


# What TensorFlow Serving says, as far as it can be said without its JSON parser.
@pytest.mark.parametrize(
    "document, signature, sentence",
    [
        (b"", TEXT, "JSON Parse error: The document is empty"),
        (b"instances = [1]", TEXT, "JSON Parse error: Expecting value at offset: 0"),
        (b'{"instances": ["a"', TEXT, "JSON Parse error: "),
        (b'{"instances": ["\xff"]}', TEXT, "Invalid encoding in string. at offset: 16"),
        ('{"instances": ["a"]}'.encode("utf-16"), TEXT, "Invalid encoding"),
        (b'{"instances": ["\\ud800"]}', TEXT, "The surrogate pair in string is invalid."),
        (b'{"instances": [' + b"1" * 5000 + b"]}", TEXT, "JSON Parse error: "),
        (b"[" * 100_000, TEXT, "JSON Parse error: "),
        (b'{"instances":' + b"[" * 500 + b"]" * 500 + b"}", ANY, "JSON Value: "),
        ([1], TEXT, "JSON Value: [1] Is not object"),
        ({}, TEXT, "Missing 'inputs' or 'instances' key"),
        ({"instances": ["a"], "inputs": ["a"]}, TEXT, "expecting only one of 'inputs' or"),
        ({"instances": "a"}, TEXT, "Excepting 'instances' to be an list/array"),
        ({"instances": {"source": "a"}}, TEXT, "Excepting 'instances' to be an list/array"),
        ({"instances": []}, TEXT, "No values in 'instances' array"),
        ({"instances": ["a"], "signature_name": 1}, TEXT, "'signature_name' key must be a str"),
        (
            {"instances": ["a", 1]},
            TEXT,
            "Failed to process element: source[1]. JSON Value: 1 Type: Number is not of "
            "expected type: string",
        ),
        ({"instances": [None]}, TEXT, "JSON Value: null Type: Null is not of expected type"),
        ({"instances": [True]}, TEXT, "JSON Value: true Type: True is not of expected type"),
        ({"instances": [{}]}, TEXT, "JSON object: {} keys must be equal to: source"),
        ({"instances": [{"target": "a"}]}, TEXT, "keys must be equal to: source"),
        ({"instances": ["a", {"source": "a"}]}, TEXT, "Expecting value/list but got object at"),
        (
            {"instances": [{"source": "a"}, "a"]},
            TEXT,
            "Expecting object but got list at item 1",
        ),
        (
            {"instances": [["a"]]},
            TEXT,
            "Input source must have shape [?], not [1,1]",
        ),
        (
            {"inputs": "a"},
            TEXT,
            "Input source must have shape [?], not []",
        ),
        (
            {"inputs": [["a"]]},
            TEXT,
            "Input source must have shape [?], not [1,1]",
        ),
        ({"inputs": {}}, TEXT, "Missing named input: source in 'inputs' object."),
        ({"inputs": None}, TEXT, "must have shape [?], not []"),
        ({"instances": [{"b64": "?"}]}, TEXT, "Unable to base64 decode"),
        ({"inputs": {"source": [{"b65": "YQ=="}]}}, TEXT, "for base64 data"),
        ({"instances": ["a"]}, SEEDED, "instances is a plain list, but expecting list of"),
        ({"inputs": ["a"]}, SEEDED, "inputs is a plain value/list, but expecting an object"),
        ({"instances": [{"seed": 1}]}, SEEDED, "keys must be equal to: seed,source"),
        ({"inputs": {"seed": [1.0], "source": ["a"]}}, SEEDED, "1.0 Type: Number is not of"),
        ({"inputs": {"seed": [2**31], "source": ["a"]}}, SEEDED, "not of expected type: int32"),
        ({"inputs": {"seed": [True], "source": ["a"]}}, SEEDED, "not of expected type: int32"),
        ({"inputs": {"seed": [10**400], "source": ["a"]}}, SEEDED, "not of expected type: int"),
        (b'{"inputs": {"seed": [NaN], "source": ["a"]}}', SEEDED, "NaN Type: Number is not of"),
        (
            {"instances": [[1, 2, 3], [1, 2]]},
            MATRIX,
            "Input x must have shape [?,3], not [2]",
        ),
        (
            {"inputs": [[1, 2, 3], [1, 2]]},
            MATRIX,
            "Input x must have shape [?,3], not [2]",
        ),
        (
            {"inputs": [[1, 2, 3], 4]},
            MATRIX,
            "Input x must have shape [?,3], not [2]",
        ),
        (
            {"inputs": [[1, 2, [3]]]},
            MATRIX,
            "x[0][2]. JSON Value: [3] Type: Array is",
        ),
        ({"inputs": [["a", 2, 3]]}, MATRIX, "String is not of expected type: float"),
        ({"inputs": [[2**24, 2, 3]]}, MATRIX, "to float without loss of precision"),
        ({"inputs": [[1e39, 2, 3]]}, MATRIX, "to float without loss of precision"),
        ({"instances": [1]}, BOOLEAN, "not of expected type: bool"),
    ],
)
def test_bad_requests(document, signature, sentence):
    with pytest.raises(RequestError) as caught:
        tensors(document, signature)
    assert caught.value.code == "INVALID_ARGUMENT" and caught.value.http_status == 400
    assert sentence in caught.value.message
    # The client's megabytes do not come back.
    assert len(caught.value.message) < 600


def test_too_many_lines():
    assert len(tensors({"instances": ["a"] * 3}, max_lines=3)["source"]) == 3
    with pytest.raises(RequestError, match="up to 2 lines, not 3"):
        tensors({"instances": ["a"] * 3}, max_lines=2)


def test_long_values_are_not_quoted_in_full():
    with pytest.raises(RequestError) as caught:
        tensors({"instances": [{"source": ["x" * 10_000]}]})
    assert len(caught.value.message) < 600


OUTPUTS = {
    "score": np.array([0.2, -1.5], np.float32),
    "text": np.array([b"a", "ü".encode()], object),
    "count": np.array([[1, 2], [3, 4]], np.int32),
}


def test_replies():
    rows = json_tensors.reply(OUTPUTS, rows=True)
    assert rows == {
        "predictions": [
            {"score": 0.2, "text": "a", "count": [1, 2]},
            {"score": -1.5, "text": "ü", "count": [3, 4]},
        ]
    }
    assert json_tensors.reply(OUTPUTS, rows=False) == {
        "outputs": {"score": [0.2, -1.5], "text": ["a", "ü"], "count": [[1, 2], [3, 4]]}
    }
    # The shortest number, and UTF-8.
    assert json_tensors.dumps(rows).startswith(
        b'{"predictions":[{"score":0.2,"text":"a","count":[1,2]}'
    )
    assert "ü".encode() in json_tensors.dumps(rows)


def test_the_name_of_a_single_output_is_left_out():
    only = {"text": OUTPUTS["text"]}
    assert json_tensors.reply(only, rows=True) == {"predictions": ["a", "ü"]}
    assert json_tensors.reply(only, rows=False) == {"outputs": ["a", "ü"]}


def test_odd_values_of_replies():
    odd = {
        "f": np.array([np.nan, np.inf, -np.inf, 1e-45, 3.4e38, 0], np.float32),
        "d": np.array([0.1, 1 / 3, np.nan, 1, 2, 3]),
        "b": np.array([True] * 6),
        "packed_bytes": np.array([b"\xff"] * 6, object),
        "broken": np.array([b"\xff"] * 6, object),
        "none": np.zeros([6, 0], np.float32),
    }
    columns = json.loads(json_tensors.dumps(json_tensors.reply(odd, rows=False)))["outputs"]
    assert columns["f"] == [None, None, None, 1e-45, 3.4e38, 0]
    assert columns["d"] == [0.1, 1 / 3, None, 1, 2, 3]
    assert columns["b"] == [True] * 6
    assert columns["packed_bytes"] == [{"b64": base64.b64encode(b"\xff").decode()}] * 6
    assert columns["broken"] == ["\ufffd"] * 6
    assert columns["none"] == [[]] * 6


def test_rows_need_a_first_axis_of_the_same_length():
    scalar = {"x": np.array(1.0), "y": np.array([1.0])}
    with pytest.raises(RequestError, match="x has no shape information"):
        json_tensors.reply(scalar, rows=True)
    assert json_tensors.reply(scalar, rows=False) == {"outputs": {"x": 1.0, "y": [1.0]}}
    with pytest.raises(RequestError, match="inconsistent batch size"):
        json_tensors.reply({"x": np.zeros(1), "y": np.zeros(2)}, rows=True)


def test_half_a_surrogate_pair_can_be_quoted():
    assert json.loads(json_tensors.dumps({"error": "\ud800"})) == {"error": "?"}


@hypothesis.given(strategies.lists(strategies.floats(width=32), min_size=1))
def test_floats_survive_the_round_trip(values):
    array = np.array(values, np.float32)
    document = json.loads(json_tensors.dumps(json_tensors.reply({"x": array}, rows=True)))
    for value, found in zip(values, document["predictions"], strict=True):
        if math.isfinite(value):
            assert np.float32(found) == np.float32(value)
        else:
            assert found is None


@hypothesis.given(
    strategies.recursive(
        strategies.none() | strategies.booleans() | strategies.floats() | strategies.text(),
        lambda inner: (
            strategies.lists(inner, max_size=3)
            | strategies.dictionaries(
                strategies.sampled_from(["source", "seed", "b64", "x"]), inner, max_size=3
            )
        ),
    ),
    strategies.sampled_from(["instances", "inputs"]),
    strategies.sampled_from([TEXT, SEEDED, MATRIX, ANY]),
)
def test_any_json_gives_tensors_or_a_request_error(value, key, signature):
    try:
        found = tensors({key: value}, signature)
    except RequestError as error:
        assert error.code == "INVALID_ARGUMENT"
    else:
        assert found.keys() == signature.inputs.keys()
