"""Converts JSON to tensors and back, as TensorFlow Serving's REST API does.

A request has `instances` (rows: a list of values, or of objects with a value per input) or
`inputs` (columns: a value, or an object with a value per input). The reply has `predictions` in
rows or `outputs` in columns. The name of a single output is left out.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.serving.servable import Forms, ServedSignature
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError, invalid

LONGEST_QUOTE = 200  # error messages quote the request up to here
_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
_NAMES = {"float32": "float", "float64": "double"}


def parse(body: bytes) -> dict:
    """Return the JSON object of a request."""
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise invalid(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        ) from None
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_quoted(document)} Is not object")
    return document


def signature_name(document: dict) -> str:
    """Return the name of the signature; "" is the default one."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_quoted(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def inputs(
    document: dict, signature: ServedSignature, *, limits: ServerOptions
) -> dict[str, np.ndarray]:
    """Return the inputs of a request, of the types and shapes of the signature."""
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {_quoted(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    forms = signature.inputs
    if "inputs" in document:
        columns = _columns(document["inputs"], forms)
    elif "instances" in document:
        columns = _columns_of_rows(document["instances"], forms, limits)
    else:
        raise invalid("Missing 'inputs' or 'instances' key")
    return {name: _array(columns[name], name, signature) for name in forms}


def reply(outputs: Mapping[str, np.ndarray], *, rows: bool) -> dict:
    """Return the reply; infinity and NaN, which JSON does not have, become null."""
    columns = {name: _to_json(name, array) for name, array in outputs.items()}
    if not rows:
        return {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
    if len({len(column) for column in columns.values()}) > 1:
        raise invalid("Tensors have inconsistent batch size")
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    lines = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, line, strict=True)) for line in lines]}


def dumps(document: Any) -> bytes:
    """Return strict JSON in UTF-8."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Unpaired surrogates, which error messages may quote, cannot be encoded.
    return text.encode("utf-8", errors="replace")


# Requests.


def _columns(value: Any, forms: Forms) -> dict[str, Any]:
    if not _is_object(value):
        if len(forms) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input "
                "tensors required as per tensorinfo_map"
            )
        return dict.fromkeys(forms, value)
    for name in forms:
        if name not in value:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    return value


def _columns_of_rows(rows: Any, forms: Forms, limits: ServerOptions) -> dict[str, list]:
    if not isinstance(rows, list):
        raise invalid(f"JSON Value: {_quoted(rows)} Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid("No values in 'instances' array")
    limits.check_lines(len(rows))
    are_objects = _is_object(rows[0])
    if not are_objects and len(forms) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input "
            "tensors required as per tensorinfo_map"
        )
    for number, row in enumerate(rows):
        if _is_object(row) != are_objects:
            kinds = ("object", "list") if are_objects else ("value/list", "object")
            raise invalid(
                f"Expecting {kinds[0]} but got {kinds[1]} at item {number} of input list"
            )
        if are_objects and row.keys() != forms.keys():
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{_quoted(row)} keys must be equal to: {','.join(forms)}"
            )
    return {name: [row[name] for row in rows] if are_objects else rows for name in forms}


def _array(value: Any, name: str, signature: ServedSignature) -> np.ndarray:
    """Return the tensor of nested lists; lists of different lengths count as values."""
    dtype = signature.inputs[name].dtype
    found = np.array(value, dtype=object)
    signature.check_input(name, dtype, found.shape)
    flat = np.empty(found.size, dtype=dtype.as_numpy_dtype)
    for number, one in enumerate(found.ravel()):
        try:
            flat[number] = _to_tensor(one, dtype)
        except RequestError as error:
            place = "".join(f"[{int(n)}]" for n in np.unravel_index(number, found.shape))
            raise invalid(f"Failed to process element: {name}{place}. {error}") from None
    return flat.reshape(found.shape)


def _to_tensor(value: Any, dtype: tf.DType) -> Any:
    """Return a value of a type, if the conversion loses nothing."""
    kind = _NAMES.get(dtype.name, dtype.name)
    if dtype == tf.string and isinstance(value, str | dict):
        return _to_bytes(value)
    if dtype == tf.bool and isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if dtype.is_integer and isinstance(value, int) and dtype.min <= value <= dtype.max:
            return value
        if dtype.is_floating:
            # Integers must be exact; other numbers must not be too large.
            is_whole = isinstance(value, int)
            exact = 2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1)
            most = exact - 1 if is_whole else float(dtype.max)
            if not (is_whole or math.isfinite(value)) or abs(value) <= most:
                return float(value)
            raise invalid(
                f"Cannot convert JSON value: {_quoted(value)} to {kind} without loss of "
                "precision."
            )
    found = str(value) if isinstance(value, bool) else _TYPES.get(type(value), "Number")
    raise invalid(f"JSON Value: {_quoted(value)} Type: {found} is not of expected type: {kind}")


def _to_bytes(value: str | dict) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            message = "JSON Parse error: The surrogate pair in string is invalid."
            raise invalid(message) from None
    if _is_object(value):
        raise invalid(f"JSON Value: {_quoted(value)} not formatted correctly for base64 data")
    word = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
    except ValueError:
        raise invalid("Unable to base64 decode") from None


def _is_object(value: Any) -> bool:
    """Return whether a value is an object other than {"b64": "..."}, which means bytes."""
    return isinstance(value, dict) and not (
        len(value) == 1 and isinstance(value.get("b64"), str)
    )


def _quoted(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = "..."
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


# Replies.


def _to_json(name: str, array: np.ndarray) -> Any:
    flat = np.empty(array.size, object)
    flat[:] = [_value(value, name.endswith("_bytes")) for value in array.ravel()]
    return flat.reshape(array.shape).tolist()


def _value(value: Any, as_base64: bool) -> Any:
    """Return the JSON value of an element of an array."""
    if isinstance(value, bytes):
        if as_base64:
            return {"b64": base64.b64encode(value).decode("ascii")}
        return value.decode("utf-8", errors="replace")
    if isinstance(value, np.floating):
        # The shortest decimal number: 0.2 rather than 0.20000000298023224.
        return float(str(value)) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
