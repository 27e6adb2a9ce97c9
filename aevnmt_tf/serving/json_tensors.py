"""JSON <-> tensors, as TensorFlow Serving's REST API has them.

A request has `instances` (rows: a list of values or of objects with a value for each input)
or `inputs` (columns: a value, or an object with one for each input). The reply has
`predictions` in rows or `outputs` in columns. The name of a single output is left out.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.serving.json_values import is_base64, quoted, to_json, to_tensor
from aevnmt_tf.serving.servable import ServedSignature, TensorForm
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError, invalid

# More axes than any tensor has.
DEEPEST = 32


def parse(body: bytes) -> dict:
    """Return the document of a request, which must be an object."""
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
    except (ValueError, RecursionError) as error:  # a number or a nesting without end
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {quoted(document)} Is not object")
    return document


def signature_name(document: dict) -> str:
    """Return which signature the request is for; "" is the default."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {quoted(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def inputs(
    document: dict, signature: ServedSignature, *, limits: ServerOptions
) -> dict[str, np.ndarray]:
    """Return the tensors of a request, for a signature's inputs."""
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {quoted(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if "instances" in document:
        rows = document["instances"]
        if not isinstance(rows, list):
            raise invalid(
                f"JSON Value: {quoted(document)} Excepting 'instances' to be an list/array"
            )
        if not rows:
            raise invalid(f"JSON Value: {quoted(document)} No values in 'instances' array")
        limits.check_lines(len(rows))
        return _from_rows(rows, signature.inputs)
    if "inputs" in document:
        return _from_columns(document["inputs"], signature.inputs)
    raise invalid("Missing 'inputs' or 'instances' key")


def is_rows(document: dict) -> bool:
    """Return whether the reply has rows, too."""
    return "instances" in document


def reply(outputs: Mapping[str, np.ndarray], *, rows: bool) -> dict:
    """Return the document of the reply; numbers that JSON does not have are null."""
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
    names = list(columns)
    lines = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(names, line, strict=True)) for line in lines]}


def dumps(document: Any) -> bytes:
    """Strict JSON in UTF-8."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half of a surrogate pair, which only an error message can quote, has no UTF-8.
    return text.encode("utf-8", errors="replace")


# Requests.


def _from_rows(rows: list, specs: Mapping[str, TensorForm]) -> dict[str, np.ndarray]:
    are_objects = _is_object(rows[0])
    if not are_objects and len(specs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input "
            "tensors required as per tensorinfo_map"
        )
    values: dict[str, list] = {name: [] for name in specs}
    shapes: dict[str, tuple[int, ...]] = {}
    only = next(iter(specs))
    for number, row in enumerate(rows):
        if _is_object(row) != are_objects:
            kinds = ("object", "list") if are_objects else ("value/list", "object")
            raise invalid(
                f"Expecting {kinds[0]} but got {kinds[1]} at item {number} of input list"
            )
        for name, value in row.items() if are_objects else [(only, row)]:
            where = f" key: {name}" if are_objects else ""
            try:
                if name not in specs:
                    raise invalid(f"JSON object: does not have named input: {name}")
                shape, flat = _tensor(value, name, specs[name], leading=1)
                _check_same(shapes.setdefault(name, shape), shape)
            except RequestError as error:
                raise invalid(
                    f"Failed to process element: {number}{where} of 'instances' list. "
                    f"Error: INVALID_ARGUMENT: {error}"
                ) from None
            values[name] += flat
        if are_objects and row.keys() != specs.keys():
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{quoted(row)} keys must be equal to: {','.join(specs)}"
            )
    return {
        name: _array(values[name], (len(rows), *shapes[name]), spec)
        for name, spec in specs.items()
    }


def _check_same(first: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if shape != first:
        raise invalid(f"Expecting shape {_shown(first)} but got: {_shown(shape)}")


def _shown(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _from_columns(value: Any, specs: Mapping[str, TensorForm]) -> dict[str, np.ndarray]:
    if not _is_object(value):
        if len(specs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input "
                "tensors required as per tensorinfo_map"
            )
        value = {next(iter(specs)): value}
    arrays = {}
    for name, spec in specs.items():
        if name not in value:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
        shape, flat = _tensor(value[name], name, spec, leading=0)
        arrays[name] = _array(flat, shape, spec)
    return arrays


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def _array(flat: list, shape: tuple[int, ...], spec: TensorForm) -> np.ndarray:
    array = np.empty(len(flat), dtype=spec.dtype.as_numpy_dtype)
    array[:] = flat
    return array.reshape(shape)


def _tensor(
    value: Any, name: str, spec: TensorForm, *, leading: int
) -> tuple[tuple[int, ...], list]:
    """Return the shape and the flat values of a nested list; `leading` axes are around it."""
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        if len(shape) > DEEPEST:
            raise invalid(f"input {name} is nested more than {DEEPEST} deep")
        if not inner:
            break
        inner = inner[0]
    rank = None if spec.shape is None else len(spec.shape) - leading
    if rank is not None and len(shape) != rank:
        raise invalid(
            f"JSON Value: {quoted(value)} has {len(shape)} levels of lists, and input {name} "
            f"needs {rank}"
        )
    flat: list = []
    _fill(value, 0, tuple(shape), spec.dtype, flat)
    return tuple(shape), flat


def _fill(value: Any, level: int, shape: tuple[int, ...], dtype: tf.DType, flat: list) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {quoted(value)} found at incorrect level: {level + 1} in the "
                f"JSON DOM. Expected at level: {len(shape)}"
            )
        flat.append(to_tensor(value, dtype))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for inner in value:
        _fill(inner, level + 1, shape, dtype, flat)


# Replies.


def _to_json(name: str, array: np.ndarray) -> Any:
    as_bytes = name.endswith("_bytes")
    flat = [to_json(value, as_bytes) for value in array.ravel()]
    for axis in range(array.ndim - 1, 0, -1):
        size = array.shape[axis]
        number = math.prod(array.shape[:axis])
        flat = [flat[size * row : size * (row + 1)] for row in range(number)]
    return flat if array.ndim else flat[0]
