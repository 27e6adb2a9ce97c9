"""batching_params.pbtxt: how a server puts requests together.

TensorFlow Serving reads it with --enable_batching --enable_per_model_batching_parameters, all
but num_batch_threads, which it has for all its models together.
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
_group = partial(option, group="how a server puts requests together")
_number = partial(_group, int, at_least=1)


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are put together: what the file says.

    `num_batch_threads` is the number of cores where it is None, `allowed_batch_sizes` are then
    powers of two, and `max_queue`, which is no part of the file, is counted in batches.
    """

    max_batch_size: int = _number(64, "most rows of a batch")
    allowed_batch_sizes: tuple[int, ...] = _number(
        None,
        "batches are padded to these, the last of which is max_batch_size; without them, to "
        "powers of two",
        many=True,
    )
    batch_timeout_micros: int = _group(
        int, 2000, "how long a request waits for others", at_least=0
    )
    max_enqueued_batches: int = _number(100, "batches that wait before requests are refused")
    num_batch_threads: int = _number(
        None, "batches computed at a time; without it, one per core of this machine"
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
                f"allowed_batch_sizes must grow up to max_batch_size, {largest}: "
                f"{','.join(map(str, sizes))}."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Batching":
        """Return what is given; the largest allowed size is the size of a batch."""
        sizes = given.get("allowed_batch_sizes")
        return cls(**({"max_batch_size": sizes[-1]} if sizes else {}) | dict(given))

    @property
    def most_rows_waiting(self) -> int:
        """The rows that may wait before requests are refused."""
        return self.max_queue or self.max_enqueued_batches * self.max_batch_size

    def padded(self, rows: int) -> int:
        """Return the number of rows that a batch of so many is run with."""
        return min((size for size in self.allowed_batch_sizes if size >= rows), default=rows)


def write(folder: Path, batching: Batching) -> Path:
    """Write the file into the folder of a SavedModel."""
    lines = [f"{name} {{ value: {getattr(batching, name)} }}" for name in _NUMBERS]
    lines += [f"allowed_batch_sizes: {size}" for size in batching.allowed_batch_sizes]
    path = Path(folder) / FILE
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(folder: Path, **changes: int) -> Batching:
    """Return what the file in the folder of a SavedModel says, or the defaults without one.

    Args:
        folder: of the SavedModel.
        changes: fields of Batching that are not the file's.
    """
    path = Path(folder) / FILE
    given: dict[str, Any] = {}
    try:
        # A server's file may have settings that mean nothing here.
        content = path.read_text(encoding="utf-8") if path.exists() else ""
        message = text_format.Parse(content, _Parameters(), allow_unknown_field=True)
        given |= {
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
