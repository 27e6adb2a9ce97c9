"""batching_params.pbtxt: how a server batches requests.

TensorFlow Serving reads it with --enable_batching --enable_per_model_batching_parameters. It
ignores num_batch_threads there, which is a setting for all its models together.
"""

import dataclasses
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option

FILE = "batching_params.pbtxt"
_NUMBERS = (
    "max_batch_size",
    "batch_timeout_micros",
    "max_enqueued_batches",
    "num_batch_threads",
)
_group = partial(option, group="batching of a server")
_number = partial(_group, int, at_least=1)


@dataclasses.dataclass(frozen=True)
class Batching:
    """How to batch requests: the content of the file, and `max_queue`.

    `max_queue` limits the rows that wait; without it, `max_enqueued_batches` does.
    """

    max_batch_size: int = _number(64, "maximum number of rows per batch")
    allowed_batch_sizes: tuple[int, ...] = _number(
        None,
        "sizes to which batches are padded, the last of which is max_batch_size (default: "
        "powers of two)",
        many=True,
    )
    batch_timeout_micros: int = _group(
        int, 2000, "how long a request waits for others to join its batch", at_least=0
    )
    max_enqueued_batches: int = _number(
        100, "batches that may wait; further requests are refused"
    )
    num_batch_threads: int = _number(
        None, "batches that run concurrently (default: one per core of this machine)"
    )
    max_queue: int | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.num_batch_threads is None:
            object.__setattr__(self, "num_batch_threads", os.cpu_count() or 1)
        largest = self.max_batch_size
        powers = [2**power for power in range(largest.bit_length()) if 2**power < largest]
        sizes = self.allowed_batch_sizes or (*powers, largest)
        object.__setattr__(self, "allowed_batch_sizes", sizes)
        if list(sizes) != sorted(set(sizes)) or sizes[-1] != largest:
            raise UserError(
                f"allowed_batch_sizes must increase up to max_batch_size, {largest}, not "
                f"{','.join(map(str, sizes))}."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Batching":
        """Return these settings; by default the largest allowed size is max_batch_size."""
        sizes = given.get("allowed_batch_sizes")
        return cls(**({"max_batch_size": sizes[-1]} if sizes else {}) | dict(given))

    @property
    def most_rows_waiting(self) -> int:
        """The number of rows that may wait before requests are refused."""
        return self.max_queue or self.max_enqueued_batches * self.max_batch_size

    def padded(self, rows: int) -> int:
        """Return the size to which a batch of so many rows is padded."""
        return min((size for size in self.allowed_batch_sizes if size >= rows), default=rows)


def write(folder: Path, batching: Batching) -> None:
    """Write the file into the folder of a SavedModel."""
    lines = [f"{name} {{ value: {getattr(batching, name)} }}" for name in _NUMBERS]
    lines += [f"allowed_batch_sizes: {size}" for size in batching.allowed_batch_sizes]
    (folder / FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(folder: Path, **changes: int) -> Batching:
    """Return the settings of a SavedModel's file, or the defaults, with changes."""
    path = folder / FILE
    try:
        content = path.read_text(encoding="utf-8") if path.exists() else ""
        # The file may have settings that only TensorFlow Serving knows.
        message = text_format.Parse(content, _Parameters(), allow_unknown_field=True)
        given: dict[str, Any] = {
            name: getattr(message, name).value for name in _NUMBERS if message.HasField(name)
        }
        if message.allowed_batch_sizes:
            given["allowed_batch_sizes"] = tuple(message.allowed_batch_sizes)
        found = Batching.of(given)
    except (OSError, UnicodeDecodeError, text_format.ParseError, UserError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    largest = changes.get("max_batch_size", found.max_batch_size)
    sizes = [size for size in found.allowed_batch_sizes if size < largest]
    return dataclasses.replace(found, **changes, allowed_batch_sizes=(*sizes, largest))


def _parameters() -> Any:
    """Return tensorflow.serving.BatchingParameters, which tensorflow-serving-api lacks."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="aevnmt_tf/batching_parameters.proto",
        package="aevnmt_tf",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name="BatchingParameters")
    for number, name in enumerate(_NUMBERS, 1):
        kind = {"type": field.TYPE_MESSAGE, "type_name": ".google.protobuf.Int64Value"}
        message.field.add(name=name, number=number, label=field.LABEL_OPTIONAL, **kind)
    message.field.add(
        name="allowed_batch_sizes", number=6, type=field.TYPE_INT64, label=field.LABEL_REPEATED
    )
    return message_factory.GetMessages([file], descriptor_pool.Default())[
        "aevnmt_tf.BatchingParameters"
    ]


_Parameters = _parameters()
