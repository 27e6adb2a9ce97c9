"""How tools/serve_client.py talks to a server: REST or gRPC, with TensorFlow Serving's words.

Both have `predict(signature, inputs) -> outputs`, columns by name, and `signatures()`. REST
needs the standard library alone; gRPC needs tensorflow-serving-api.
"""

import contextlib
import http.client
import importlib.util
import ipaddress
import json
import math
import os
import random
import struct
import sys
import types
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any, TypeVar

Columns = dict[str, list]
T = TypeVar("T")

# Signatures with one output: REST leaves its name out.
SINGLE_OUTPUT = {"sample": "translations", "score": "log_py"}  # score: of a cond model
INTEGERS = {"seed"}


class ClientError(Exception):
    """What went wrong, in one sentence."""


class Refused(Exception):
    """The server answered with an error."""


class Busy(Exception):
    """The server has too much to do; `wait` is the number of seconds it asked for, or None."""

    def __init__(self, message: str, wait: float | None = None):
        super().__init__(message)
        self.wait = wait


def patiently(call: Callable[[], T], *, retries: int) -> T:
    """The result of `call`, which is called again after a growing wait while it raises Busy."""
    for attempt in range(retries + 1):
        try:
            return call()
        except Busy as busy:
            if attempt == retries:
                raise ClientError(
                    f"the server is too busy, after {retries + 1} attempts: {busy}"
                ) from None
            # Half of the wait is random, so that many clients do not retry at the same time.
            wait = min(0.1 * 2**attempt, 5.0) * random.uniform(0.5, 1.0)
            sleep(max(wait, min(busy.wait or 0.0, 30.0)))
    raise AssertionError("unreachable")


def is_here(host: str) -> bool:
    """True for this machine, to which no proxy leads."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Rest:
    """A client of the REST API at a URL such as http://127.0.0.1:8501."""

    def __init__(self, url: str, *, model: str, version: int | None, timeout: float):
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f"--rest must be a URL such as http://127.0.0.1:8501, not {url}")
        self.where = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        self.model_url = self.where + path + (f"/versions/{version}" if version else "")
        self.timeout = timeout
        handlers = [urllib.request.ProxyHandler({})] if is_here(parts.hostname) else []
        self._open = urllib.request.build_opener(*handlers).open

    def predict(self, signature: str, inputs: Columns) -> Columns:
        """The outputs for a batch."""
        body = {"signature_name": signature, "inputs": inputs}
        reply = self._ask(f"{self.model_url}:predict", body)
        if not isinstance(reply, dict) or "outputs" not in reply:
            raise ClientError(self._strange())
        outputs = reply["outputs"]
        name = SINGLE_OUTPUT.get(signature)
        return {name: outputs} if name and isinstance(outputs, list) else outputs

    def signatures(self) -> list[str]:
        """The names of the model's signatures."""
        try:
            metadata = self._ask(f"{self.model_url}/metadata")["metadata"]
            return sorted(metadata["signature_def"]["signature_def"])
        except (KeyError, TypeError):
            raise ClientError(self._strange()) from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self, url: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        try:
            with self._open(request, timeout=self.timeout) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (TimeoutError, urllib.error.URLError, http.client.HTTPException, OSError) as e:
            reason = getattr(e, "reason", e)
            if isinstance(reason, TimeoutError):
                raise ClientError(self._late()) from None
            raise ClientError(f"there is no server at {self.where} ({reason})") from None
        except ValueError:
            raise ClientError(
                f"{self.where} did not answer with JSON; is it another server?"
            ) from None

    def _strange(self) -> str:
        return f"the answer of {self.where} is not a model server's; is it another server?"

    def _late(self) -> str:
        return f"{self.where} did not answer within {self.timeout:g} s; try a larger --timeout"

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        try:
            message = json.loads(error.read())["error"]
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            message = f"{error.code} {error.reason}"
        if error.code == 504:
            return ClientError(self._late())
        # TensorFlow Serving answers 503 when its queue is full and while a model is loading.
        if error.code in (429, 503):
            return Busy(message, _seconds(error.headers.get("Retry-After")))
        return Refused(message)


def _seconds(header: str | None) -> float | None:
    try:
        return float(header or "")
    except ValueError:
        return None


@contextlib.contextmanager
def without_tensorflow() -> Iterator[None]:
    """Here, `tensorflow` is a folder of messages, which is all that the stubs need of it.

    TensorFlow itself takes seconds to import, and writes to stderr while it is.
    """
    spec = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if spec is None:
        yield
        return
    folder = types.ModuleType("tensorflow")
    folder.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["tensorflow"] = folder
    try:
        yield
    finally:
        del sys.modules["tensorflow"]


class Grpc:
    """A client of the gRPC API at HOST:PORT."""

    def __init__(self, address: str, *, model: str, version: int | None, timeout: float):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ClientError(
                f"--grpc must be HOST:PORT (such as 127.0.0.1:8500), not {address}"
            )
        try:
            import grpc

            with without_tensorflow():
                from tensorflow_serving.apis import (
                    get_model_metadata_pb2,
                    predict_pb2,
                    prediction_service_pb2_grpc,
                )
        except ImportError as error:
            raise ClientError(
                f"--grpc needs tensorflow-serving-api (pip install it, or use --rest): {error}"
            ) from None
        self._grpc, self._predict_pb2 = grpc, predict_pb2
        self._metadata_pb2 = get_model_metadata_pb2
        self.where, self.timeout = address, timeout
        self._model, self._version = model, version
        unlimited = "max_send_message_length", "max_receive_message_length"
        options = [(f"grpc.{name}", -1) for name in unlimited]
        if is_here(host):
            options.append(("grpc.enable_http_proxy", 0))
        self._channel = grpc.insecure_channel(address, options=options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=min(timeout, 10.0))
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise ClientError(f"there is no gRPC server at {address}") from None

    def predict(self, signature: str, inputs: Columns) -> Columns:
        """The outputs for a batch."""
        request = self._predict_pb2.PredictRequest()
        self._name_model(request)
        request.model_spec.signature_name = signature
        for name, column in inputs.items():
            write_tensor(request.inputs[name], column, integers=name in INTEGERS)
        response = self._ask(self._stub.Predict, request)
        return {name: read_tensor(tensor) for name, tensor in response.outputs.items()}

    def signatures(self) -> list[str]:
        """The names of the model's signatures."""
        request = self._metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        self._name_model(request)
        response = self._ask(self._stub.GetModelMetadata, request)
        found = self._metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(found)
        return sorted(found.signature_def)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def _name_model(self, request: Any) -> None:
        request.model_spec.name = self._model
        if self._version:
            request.model_spec.version.value = self._version

    def _ask(self, method: Any, request: Any) -> Any:
        code = self._grpc.StatusCode
        try:
            return method(request, timeout=self.timeout)
        except self._grpc.RpcError as error:
            status, message = error.code(), " ".join((error.details() or "").split())
        if status is code.DEADLINE_EXCEEDED:
            raise ClientError(
                f"{self.where} did not answer within {self.timeout:g} s; try a larger --timeout"
            )
        # gRPC also uses this status for a message that is too large; waiting does not help.
        if status is code.RESOURCE_EXHAUSTED and "larger than max" not in message:
            raise Busy(message)
        if status is code.UNAVAILABLE:
            if "queue" in message:  # TensorFlow Serving's batching queue
                raise Busy(message)
            raise ClientError(f"the server at {self.where} went away ({message})")
        raise Refused(message or status.name)


# TensorProto's data types.
FLOAT, INT32, STRING, INT64 = 1, 3, 7, 9


def write_tensor(tensor: Any, column: list, *, integers: bool) -> None:
    """Fills a TensorProto of rank 1."""
    tensor.dtype = INT32 if integers else STRING
    tensor.tensor_shape.dim.add().size = len(column)
    if integers:
        tensor.int_val.extend(column)
    else:
        tensor.string_val.extend(text.encode() for text in column)


def read_tensor(tensor: Any) -> Any:
    """The values of a TensorProto as nested lists, strings as str."""
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    size = math.prod(shape)
    field, code = {
        FLOAT: ("float_val", "f"),
        INT32: ("int_val", "i"),
        INT64: ("int64_val", "q"),
        STRING: ("string_val", ""),
    }[tensor.dtype]
    if tensor.tensor_content:
        flat: list = list(struct.unpack(f"<{size}{code}", tensor.tensor_content))
    else:
        flat = list(getattr(tensor, field))
        # A tensor that ends in equal values may leave them out.
        flat += (flat[-1:] or [b"" if tensor.dtype == STRING else 0]) * (size - len(flat))
    if tensor.dtype == STRING:
        flat = [text.decode("utf-8", "replace") for text in flat]
    return nested(flat, shape)


def nested(flat: list, shape: list[int]) -> Any:
    """The flat values as lists of lists of the given shape."""
    if len(shape) < 2:
        return flat
    step = math.prod(shape[1:])
    return [nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
