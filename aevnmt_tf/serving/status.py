"""What can go wrong with a request, as gRPC names it and as HTTP numbers it."""

import re
from collections.abc import Callable

Report = Callable[[str], None]  # gets sentences for the operator

# The mapping of TensorFlow Serving's REST API.
HTTP = {
    "OK": 200,
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "UNKNOWN": 500,
    "INTERNAL": 500,
    "DATA_LOSS": 500,
}


class RequestError(Exception):
    """A request that cannot be answered: a gRPC status code and a sentence for the client."""

    def __init__(self, code: str, message: str, *, http_status: int | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = HTTP[code] if http_status is None else http_status

    @property
    def is_ours(self) -> bool:
        """Whether an operator should see it: nothing that a client could do better."""
        return HTTP[self.code] == 500


def invalid(message: str) -> RequestError:
    """Return the client's mistake."""
    return RequestError("INVALID_ARGUMENT", message)


def no_such_method(method: str) -> RequestError:
    """Return what :classify and :regress get, which no signature of ours is for."""
    kind = {"classify": "classification", "regress": "regression"}[method]
    return invalid(
        f"Expected {kind} signature method_name to be tensorflow/serving/{method}. "
        "Was: tensorflow/serving/predict"
    )


def of(error: BaseException) -> RequestError:
    """Return any exception as a RequestError; those of TensorFlow keep their code."""
    if isinstance(error, RequestError):
        return error
    code = CODES.get(getattr(error, "error_code", -1), "INTERNAL")
    text = str(getattr(error, "message", None) or error)
    # All but one line tell where in the graph it happened.
    lines = [line for line in text.splitlines() if line.strip() and not _PLACE.match(line)]
    return RequestError(code, lines[0] if lines else type(error).__name__)


_PLACE = re.compile(r"\s|Graph execution error|Detected at node|<stack")

# tensorflow.errors.OpError.error_code, the same numbers as gRPC's.
CODES = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
}


def on_one_line(sentence: str) -> str:
    """Return a sentence without line breaks and other control characters: a line of a log."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029]",
        lambda found: found[0].encode("unicode_escape").decode(),
        sentence,
    )
