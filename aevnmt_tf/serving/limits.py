"""How much one request may ask for."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from aevnmt_tf.serving.status import invalid


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bytes of a request, lines in it, bytes of a line."""

    max_request_bytes: int = 4 * 2**20
    max_lines: int = 256
    max_line_bytes: int = 20_000

    def check_lines(self, number: int) -> None:
        """Refuses a request with too many lines, before they are looked at."""
        if number > self.max_lines:
            raise invalid(f"a request may have {self.max_lines} lines, not {number}")

    def check(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Refuses too many and too long lines."""
        for name, array in inputs.items():
            if array.ndim:
                self.check_lines(len(array))
            if array.dtype == object:
                longest = max(map(len, array.ravel()), default=0)
                if longest > self.max_line_bytes:
                    raise invalid(
                        f"a line of {name} has {longest} bytes, and {self.max_line_bytes} are "
                        "allowed"
                    )
