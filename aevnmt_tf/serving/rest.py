"""The REST API of TensorFlow Serving, and the web page, as a Starlette app."""

import asyncio
import re
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, request_response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from aevnmt_tf.serving import json_tensors, predictions, protos
from aevnmt_tf.serving.access import AccessCheck
from aevnmt_tf.serving.export_folder import LARGEST
from aevnmt_tf.serving.json_tensors import LONGEST_QUOTE
from aevnmt_tf.serving.request_parts import Arrays
from aevnmt_tf.serving.servable import DEFAULT_SIGNATURE
from aevnmt_tf.serving.server_metrics import CONTENT_TYPE, LoggedRequest
from aevnmt_tf.serving.server_options import too_large
from aevnmt_tf.serving.status import RequestError, invalid, no_such_method
from aevnmt_tf.serving.versions import Versions

PAGE = Path(__file__).parent / "page"
_to_dict = partial(
    json_format.MessageToDict,
    preserving_proto_field_name=True,
    always_print_fields_with_no_presence=True,
)

# As in TensorFlow Serving.
_WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){_WHICH}:(?P<method>classify|regress|predict)", re.I | re.A
)
_STATUS = re.compile(
    rf"/v1/models(?:/(?P<name>[^/:]+))?{_WHICH}(?P<metadata>/metadata)?", re.I | re.A
)

MOST_DISCARDED = 2**26  # bytes of a too large body that are read
# Headers of every reply.
HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
]


def app(versions: Versions, *, token: bytes | None = None) -> ASGIApp:
    """Return the ASGI app for a model."""

    def expose(request: Request) -> Response:
        text = versions.metrics.exposition(versions.served())
        return Response(text, media_type=CONTENT_TYPE)

    async def health(request: Request) -> Response:
        current = versions.current
        document = {
            "status": "no version is ready" if current is None else "ok",
            "model": versions.model_name,
            "version": current,
        }
        # /healthz: the server runs; /readyz: it serves a version.
        is_good = current is not None or request.url.path == "/healthz"
        return _json(document, 200 if is_good else 503)

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _json({"error": error.detail}, error.status_code, error.headers)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        if error.is_ours:
            versions.report(f"{request.method} {request.scope['path']}: {error.message}")
        headers = {"Retry-After": "1"} if error.http_status in (429, 503) else {}
        if error.http_status in (408, 413, 503):  # the rest of the body may still arrive
            headers["Connection"] = "close"
        return _json({"error": error.message}, error.http_status, headers)

    async def failed(request: Request, error: Exception) -> Response:
        what = f"{type(error).__name__}: {error}"
        versions.report(f"{request.method} {request.scope['path']}: {what}")
        return _json({"error": "internal error"}, 500)

    api = Api(versions)

    async def answer(request: Request) -> Response:
        try:
            return await api.answer(request)
        except (HTTPException, RequestError):
            raise
        except Exception as error:
            # Starlette raises an unknown error again after the handler's response, and uvicorn
            # then closes the connection, on which the client may have sent its next request.
            return await failed(request, error)

    made = Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", health),
            Route("/monitoring/prometheus/metrics", expose),
            # TensorFlow Serving ignores case.
            Mount("/v1", request_response(answer)),
            Mount("/V1", request_response(answer)),
            Route("/", lambda request: FileResponse(PAGE / "index.html")),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        exception_handlers={
            HTTPException: not_found,
            RequestError: refused,
            Exception: failed,
        },
    )
    made.router.redirect_slashes = False
    return AccessCheck(made, versions.options, token)


class Api:
    """Everything below /v1/."""

    def __init__(self, versions: Versions):
        self._versions = versions
        self._options = versions.options
        self._bytes_in_flight = 0

    async def answer(self, request: Request) -> Response:
        """Answer a request, or raise RequestError."""
        # The raw path: the name of a model may contain an escaped slash.
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw.decode("ascii", errors="replace").partition("?")[0]
        if request.method == "POST" and (match := _PREDICT.fullmatch(path)):
            which = _which(match)
            if match["method"].lower() != "predict":
                raise no_such_method(match["method"].lower())
            client = request.client.host if request.client else ""
            with self._versions.metrics.request("REST", client) as logged:
                return await self._predict(request, which, logged)
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            if match["name"] is None:
                if path.rstrip("/").lower() != "/v1/models":
                    raise invalid("Missing model name in request.")
                return _json({"models": [self._versions.model_name]})
            which = _which(match)
            if match["metadata"]:
                return self._metadata(which)
            return _json(_to_dict(protos.status(self._versions.states(**which))))
        raise invalid(f"Malformed request: {request.method} {path[:LONGEST_QUOTE]}")

    def _metadata(self, which: dict[str, Any]) -> Response:
        with self._versions.using(**which) as version:
            spec = protos.spec(which["name"], version.number)
            metadata = {"signature_def": _to_dict(protos.signatures(version))}
            # TensorFlow Serving does not describe the kind of text.
            if version.servable.text:
                metadata["text"] = version.servable.text
        return _json({"model_spec": _to_dict(spec), "metadata": metadata})

    async def _predict(
        self, request: Request, which: dict[str, Any], logged: LoggedRequest
    ) -> Response:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._options.request_timeout
        body = bytearray()
        try:
            await self._read(request, body)
            is_large = len(body) > predictions.LARGE_BODY
            document = await predictions.call(is_large, self._document, request, bytes(body))
            name = json_tensors.signature_name(document) or DEFAULT_SIGNATURE
            with self._versions.using(**which) as version:
                signature = version.servable.signatures.get(name)
                if signature is None:
                    raise invalid(
                        f'Serving signature name: "{name}" not found in signature def'
                    )
                outputs = await predictions.predict(
                    version,
                    signature,
                    partial(json_tensors.inputs, document, signature, limits=self._options),
                    size=len(body),
                    timeout=deadline - clock(),
                    options=self._options,
                    logged=logged,
                    # After the body, only http.disconnect can arrive.
                    gone=asyncio.ensure_future(request.receive()),
                )
        finally:
            self._bytes_in_flight -= len(body)

        def write(outputs: Arrays) -> bytes:
            return json_tensors.dumps(json_tensors.reply(outputs, rows="instances" in document))

        content = await predictions.reply(outputs, write, self._options)
        return Response(content, media_type="application/json")

    def _document(self, request: Request, body: bytes) -> dict[str, Any]:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "gzip":
            body = _unzipped(body, self._options.max_request_bytes)
        elif encoding not in ("", "identity"):
            message = f"Content-Encoding {encoding} is not supported."
            raise RequestError("INVALID_ARGUMENT", message, http_status=415)
        return json_tensors.parse(body)

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read the body, unless it is too large or too slow, and count its bytes.

        The rest of a too large body is read and discarded: a client that is still sending would
        not see the answer.
        """
        most = self._options.max_request_bytes
        announced = request.headers.get("content-length", "")
        is_too_large = announced.isdigit() and int(announced) > most
        if is_too_large and "expect" in request.headers:  # it asks before it sends the body
            raise too_large(most)

        async def read() -> None:
            nonlocal is_too_large
            size = 0
            async for part in request.stream():
                size += len(part)
                is_too_large = is_too_large or size > most
                if is_too_large and size > MOST_DISCARDED:
                    return
                if not is_too_large:
                    if self._bytes_in_flight + len(part) > self._options.max_bytes_in_flight:
                        raise RequestError("UNAVAILABLE", "Too many bytes are in flight.")
                    self._bytes_in_flight += len(part)
                    body.extend(part)

        try:
            await asyncio.wait_for(read(), self._options.read_timeout)
        except asyncio.TimeoutError:
            if not is_too_large:
                message = "The body arrived too slowly."
                raise RequestError("DEADLINE_EXCEEDED", message, http_status=408) from None
        except ClientDisconnect:
            raise RequestError("CANCELLED", "The client has disconnected.") from None
        if is_too_large:
            raise too_large(most)


def _which(match: re.Match[str]) -> dict[str, Any]:
    """Return the model, version and label in a path."""
    number = match["version"]
    if number is not None and (len(number) > 19 or int(number) > LARGEST):
        raise invalid(f"Failed to convert version: {number[:40]} to numeric.")
    return {
        "name": unquote(match["name"]),
        "number": None if number is None else int(number),
        "label": unquote(match["label"] or ""),
    }


def _unzipped(body: bytes, most: int) -> bytes:
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = reader.decompress(body, most + 1)
    except zlib.error as error:
        raise invalid(f"The body is not valid gzip: {error}.") from None
    if len(text) > most:
        raise too_large(most)
    if not reader.eof:
        raise invalid("The body is not valid gzip: it is truncated.")
    return text


def _json(
    document: Mapping[str, Any], code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        json_tensors.dumps(document), code, headers=headers, media_type="application/json"
    )
