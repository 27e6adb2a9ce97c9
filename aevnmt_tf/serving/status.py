"""Errors of requests, with their gRPC and HTTP status."""

import re
from collections.abc import Callable

import grpc

Report = Callable[[str], None]  # gets messages for the operator

# As in TensorFlow Serving's REST API; all others are 500.
HTTP = {
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
}
# gRPC and tensorflow.errors.OpError.error_code use the same numbers.
CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_PLACE = re.compile(r"\s|Graph execution error|Detected at node|<stack")


class RequestError(Exception):
    """A request that cannot be answered: a gRPC status code and a message for the client."""

    def __init__(self, code: str, message: str, *, http_status: int | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status or HTTP.get(code, 500)

    @property
    def is_ours(self) -> bool:
        """Whether it is an error of the server, which the operator should see."""
        return self.code not in HTTP


def invalid(message: str) -> RequestError:
    """Return an error of the client."""
    return RequestError("INVALID_ARGUMENT", message)


def no_such_method(method: str) -> RequestError:
    """Return the error of :classify and :regress, which no signature supports."""
    kind = {"classify": "classification", "regress": "regression"}[method]
    return invalid(
        f"Expected {kind} signature method_name to be tensorflow/serving/{method}. "
        "Was: tensorflow/serving/predict"
    )


def of(error: BaseException) -> RequestError:
    """Return any exception as a RequestError; TensorFlow's errors keep their code."""
    if isinstance(error, RequestError):
        return error
    code = CODES.get(getattr(error, "error_code", -1), "INTERNAL")
    text = str(getattr(error, "message", None) or error)
    # All lines but one tell where in the graph it happened.
    lines = [line for line in text.splitlines() if line.strip() and not _PLACE.match(line)]
    return RequestError(code, lines[0] if lines else type(error).__name__)


def on_one_line(message: str) -> str:
    """Escape line breaks and other control characters, so that nobody can forge log lines."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029]",
        lambda found: found[0].encode("unicode_escape").decode(),
        message,
    )
