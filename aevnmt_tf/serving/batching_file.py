"""batching_params.pbtxt: how a server puts requests together.

TensorFlow Serving reads it with --enable_batching --enable_per_model_batching_parameters, all
but num_batch_threads, which it has for all its models together.
"""

import dataclasses
import os
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from aevnmt_tf.errors import UserError

FILE = "batching_params.pbtxt"
MAX_BATCH_SIZE = 64
_NUMBERS = (
    "max_batch_size",
    "batch_timeout_micros",
    "max_enqueued_batches",
    "num_batch_threads",
)


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are put together.

    Attributes:
        max_batch_size: the most rows of a batch.
        batch_timeout_micros: how long a request waits for others.
        max_enqueued_batches: how many batches wait before requests are refused.
        num_batch_threads: how many batches are computed at a time; None: one for each core.
        allowed_batch_sizes: sizes that batches are padded to, ascending; the last one is
            max_batch_size. None: powers of two.
    """

    max_batch_size: int = MAX_BATCH_SIZE
    batch_timeout_micros: int = 2000
    max_enqueued_batches: int = 100
    num_batch_threads: int | None = None
    allowed_batch_sizes: tuple[int, ...] | None = None

    def __post_init__(self):
        if self.num_batch_threads is None:
            object.__setattr__(self, "num_batch_threads", os.cpu_count() or 1)
        if self.allowed_batch_sizes is None:
            object.__setattr__(self, "allowed_batch_sizes", _powers(self.max_batch_size))
        sizes = tuple(self.allowed_batch_sizes)
        object.__setattr__(self, "allowed_batch_sizes", sizes)
        if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 1:
            raise UserError(f"allowed_batch_sizes must grow, from 1 or more: {_shown(sizes)}")
        if sizes[-1] != self.max_batch_size:
            raise UserError(
                f"the last of allowed_batch_sizes must be max_batch_size, "
                f"{self.max_batch_size}, not {sizes[-1]}"
            )
        for name in ("max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise UserError(
                f"batch_timeout_micros must be 0 or more, not {self.batch_timeout_micros}"
            )


def write(folder, batching) -> Path:
    """Write the file into the folder of a SavedModel."""
    lines = [f"{name} {{ value: {getattr(batching, name)} }}" for name in _NUMBERS]
    lines += [f"allowed_batch_sizes: {size}" for size in batching.allowed_batch_sizes]
    path = Path(folder) / FILE
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(folder) -> Batching:
    """What the file in the folder of a SavedModel says; what it leaves out is the default."""
    path = Path(folder) / FILE
    try:
        content = path.read_text(encoding="utf-8")
        # A server's file may have settings that mean nothing here.
        message = text_format.Parse(content, _Parameters(), allow_unknown_field=True)
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    given = {name: getattr(message, name).value for name in _NUMBERS if message.HasField(name)}
    if message.allowed_batch_sizes:
        given["allowed_batch_sizes"] = tuple(message.allowed_batch_sizes)
        given.setdefault("max_batch_size", message.allowed_batch_sizes[-1])
    try:
        return Batching(**given)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _message():
    """tensorflow.serving.BatchingParameters, which tensorflow-serving-api does not bring."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="batching_parameters.proto", package="aevnmt_tf", syntax="proto3"
    )
    value = file.message_type.add(name="Int64Value")
    value.field.add(name="value", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    message = file.message_type.add(name="BatchingParameters")
    for number, name in enumerate(_NUMBERS, 1):
        message.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=".aevnmt_tf.Int64Value",
            label=field.LABEL_OPTIONAL,
        )
    message.field.add(
        name="allowed_batch_sizes", number=6, type=field.TYPE_INT64, label=field.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("aevnmt_tf.BatchingParameters")
    return message_factory.GetMessageClass(found)


_Parameters = _message()


def _powers(largest):
    sizes = [1]
    while 2 * sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    return tuple(sizes) if largest <= 1 else (*sizes, largest)


def _shown(sizes):
    return ",".join(map(str, sizes)) or "none"
