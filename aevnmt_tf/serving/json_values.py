"""Single values of JSON <-> single values of tensors."""

import base64
import binascii
import json
import math
from typing import Any

import numpy as np

from aevnmt_tf.serving.status import invalid

_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
_NAMES = {"float32": "float", "float64": "double"}
# Error messages quote the request up to here.
LONGEST_QUOTE = 200


def to_tensor(value: Any, dtype) -> Any:
    """Return one value, where it is of the type and loses nothing by it."""
    kind = dtype.name
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "string":
        if isinstance(value, str):
            return _encoded(value)
        if isinstance(value, dict):
            return _decoded(value)
    elif kind == "bool":
        if isinstance(value, bool):
            return value
    elif dtype.is_integer:
        is_whole = is_number and isinstance(value, int)
        if is_whole and int(dtype.min) <= value <= int(dtype.max):
            return value
    elif dtype.is_floating and is_number:
        return _decimal(value, dtype)
    raise invalid(
        f"JSON Value: {quoted(value)} Type: {_type(value)} is not of expected type: "
        f"{_NAMES.get(kind, kind)}"
    )


def _encoded(value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from None


def _decoded(value: dict) -> bytes:
    if not is_base64(value):
        raise invalid(f"JSON Value: {quoted(value)} not formatted correctly for base64 data")
    word = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid("Unable to base64 decode") from None


def _decimal(value: int | float, dtype) -> float:
    if isinstance(value, int):
        fits = abs(value) < 2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1)
    else:
        fits = not math.isfinite(value) or abs(value) <= float(dtype.max)
    if not fits:
        kind = _NAMES.get(dtype.name, dtype.name)
        raise invalid(
            f"Cannot convert JSON value: {quoted(value)} to {kind} without loss of precision."
        )
    return float(value)


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return _TYPES.get(type(value), "Number")


def quoted(value: Any) -> str:
    """Return a part of the request, for an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = "..."
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def is_base64(value: dict) -> bool:
    """Return whether an object stands for bytes: {"b64": "..."} and nothing else."""
    return len(value) == 1 and isinstance(value.get("b64"), str)


def to_json(value: Any, as_bytes: bool) -> Any:
    """Return one value of a reply; null where JSON has no such number."""
    if isinstance(value, bytes):
        if as_bytes:
            return {"b64": base64.b64encode(value).decode("ascii")}
        return value.decode("utf-8", errors="replace")
    if isinstance(value, np.floating):
        # The shortest number that is this one: 0.2 and not 0.20000000298023224.
        return float(str(value)) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
