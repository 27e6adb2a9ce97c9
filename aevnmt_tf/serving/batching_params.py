"""How the server merges requests: what the model's own file says, and what flags say."""

import dataclasses
from pathlib import Path

from aevnmt_tf.serving import batching_file


@dataclasses.dataclass(frozen=True)
class BatchingParams:
    """How many rows a batch may have, how long it waits for them, how many rows wait.

    A batch is padded to the next of `allowed_batch_sizes`; without them it stays as it is.
    """

    max_batch_size: int = 32
    batch_timeout_ms: float = 2.0
    max_queue: int = 1000
    allowed_batch_sizes: tuple[int, ...] = ()

    def padded(self, rows: int) -> int:
        """The number of rows that a batch of so many is run with."""
        return min((size for size in self.allowed_batch_sizes if size >= rows), default=rows)


def of_version(folder: Path, **flags: float | None) -> BatchingParams:
    """The parameters for one version; flags that are not None beat its file."""
    given = {name: value for name, value in flags.items() if value is not None}
    if not (Path(folder) / batching_file.FILE).exists():
        return BatchingParams(**given)
    found = batching_file.read(folder)
    settings = {
        "max_batch_size": found.max_batch_size,
        "batch_timeout_ms": found.batch_timeout_micros / 1000,
        "max_queue": found.max_enqueued_batches * found.max_batch_size,
        **given,
    }
    largest = settings["max_batch_size"]
    sizes = [size for size in found.allowed_batch_sizes if size < largest]
    return BatchingParams(**settings, allowed_batch_sizes=(*sizes, largest))
