"""How much one request may ask for."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from aevnmt_tf.serving.status import invalid


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bytes of a request, lines in it, bytes of a line; values of an answer in JSON."""

    max_request_bytes: int = 4 * 2**20
    max_lines: int = 256
    max_line_bytes: int = 20_000
    max_reply_values: int = 2_000_000  # each takes microseconds and about 80 bytes

    def check_lines(self, number: int) -> None:
        """Refuses a request with too many lines, before they are looked at."""
        if number > self.max_lines:
            raise invalid(f"a request may have {self.max_lines} lines, not {number}")

    def check_reply(self, number: int) -> None:
        """Refuses an answer that would hold up all others."""
        if number > self.max_reply_values:
            raise invalid(
                f"the answer has {number} values, and {self.max_reply_values} are allowed in "
                "JSON: send fewer or shorter lines, or ask by gRPC"
            )

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
