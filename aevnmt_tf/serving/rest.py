"""The REST API of TensorFlow Serving, and the page, as a Starlette app."""

import asyncio
import re
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from aevnmt_tf.serving import json_tensors, model_protos
from aevnmt_tf.serving.access import AccessCheck, App, Receive, Scope, Send
from aevnmt_tf.serving.access_log import AccessLog, LoggedRequest
from aevnmt_tf.serving.json_values import LONGEST_QUOTE
from aevnmt_tf.serving.servable import DEFAULT_SIGNATURE
from aevnmt_tf.serving.server_metrics import CONTENT_TYPE, ServerMetrics
from aevnmt_tf.serving.server_options import ServerOptions, too_large
from aevnmt_tf.serving.status import Report, RequestError, invalid, no_such_method
from aevnmt_tf.serving.versions import HIGHEST, Version, Versions

PAGE = Path(__file__).parent / "page"

# As TensorFlow Serving has them.
_WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){_WHICH}:(?P<method>classify|regress|predict)", re.I | re.A
)
_STATUS = re.compile(
    rf"/v1/models(?:/(?P<name>[^/:]+))?{_WHICH}(?P<metadata>/metadata)?", re.I | re.A
)

# Documents above these sizes are read and written by another thread than the event loop's.
LARGE_BODY, LARGE_REPLY = 2**15, 4096

# Of every reply.
HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
]


def app(
    versions: Versions,
    *,
    options: ServerOptions,
    log: AccessLog,
    metrics: ServerMetrics,
    report: Report,
    token: bytes | None = None,
    page: Path = PAGE,
) -> App:
    """Return the ASGI app for a model.

    `report` gets a sentence about every error that is ours.
    """

    def expose(request: Request) -> Response:
        queues = [
            (name, version.number, queue)
            for version in versions.served()
            for name, queue in version.queues.items()
        ]
        return Response(metrics.exposition(queues), media_type=CONTENT_TYPE)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _json({"error": error.detail}, error.status_code, error.headers)

    api = Api(versions, options=options, log=log, report=report)
    routes: list[BaseRoute] = [
        Route("/healthz", _Health(versions, needs_version=False)),
        Route("/readyz", _Health(versions, needs_version=True)),
        Route("/monitoring/prometheus/metrics", expose),
    ]
    # TensorFlow Serving does not mind about case.
    routes += [Route(f"/{root}/{{path:path}}", api) for root in ("v1", "V1")]
    if (page / "index.html").exists():
        routes += [
            Route("/", lambda request: FileResponse(page / "index.html")),
            Mount("/page", _PageFiles(directory=page)),
        ]
    made = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    made.router.redirect_slashes = False
    return AccessCheck(made, options, token)


class _PageFiles(StaticFiles):
    """What a browser can use; the folder is a package of Python as well."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in (".html", ".css", ".js", ".svg"):
            raise HTTPException(404)
        return await super().get_response(path, scope)


class _Health:
    """/healthz: 200 as long as the server lives; /readyz: as long as it serves a version."""

    def __init__(self, versions: Versions, *, needs_version: bool):
        self._versions = versions
        self._needs_version = needs_version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        current = self._versions.current
        document = {"status": "ok", "model": self._versions.model_name, "version": current}
        is_good = current is not None or not self._needs_version
        if current is None:
            document["status"] = "no version is ready"
        await _json(document, 200 if is_good else 503)(scope, receive, send)


class Api:
    """Everything below /v1/."""

    def __init__(
        self, versions: Versions, *, options: ServerOptions, log: AccessLog, report: Report
    ):
        self._versions = versions
        self._options = options
        self._log = log
        self._report = report
        self._bytes_in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except RequestError as error:
            if error.is_ours:
                self._report(f"{request.method} {scope['path']}: {error.message}")
            headers = {"Retry-After": "1"} if error.http_status in (429, 503) else {}
            if error.http_status in (408, 413, 503):  # the rest of the body may still come
                headers["Connection"] = "close"
            response = _json({"error": error.message}, error.http_status, headers)
        except ClientDisconnect:
            return
        except Exception as error:
            self._report(f"{request.method} {scope['path']}: {type(error).__name__}: {error}")
            response = _json({"error": "internal error"}, 500)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        # The path as it was sent: the name of a model may have an escaped slash.
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw.decode("ascii", errors="replace").partition("?")[0]
        if request.method == "POST" and (match := _PREDICT.fullmatch(path)):
            which = _which(match)
            if match["method"].lower() != "predict":
                raise no_such_method(match["method"].lower())
            client = request.client.host if request.client else ""
            with self._log.request("REST", client) as logged:
                try:
                    return await self._predict(request, which, logged)
                except RequestError as error:
                    logged.status = error.code
                    raise
                except Exception as error:
                    is_gone = isinstance(error, ClientDisconnect)
                    logged.status = "CANCELLED" if is_gone else "INTERNAL"
                    raise
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            if match["name"] is None:
                if path.rstrip("/").lower() != "/v1/models":
                    raise invalid("Missing model name in request.")
                return _json({"models": [self._versions.model_name]})
            which = _which(match)
            return self._metadata(which) if match["metadata"] else self._status(which)
        raise invalid(f"Malformed request: {request.method} {path[:LONGEST_QUOTE]}")

    def _status(self, which: dict[str, Any]) -> Response:
        label = which["label"]
        number = self._versions.number_of(label) if label else which["number"]
        response = model_protos.status(self._versions.states(which["name"], number=number))
        return _json(
            json_format.MessageToDict(response, always_print_fields_with_no_presence=True)
        )

    def _metadata(self, which: dict[str, Any]) -> Response:
        with self._versions.using(**which) as version:
            spec = model_protos.spec(which["name"], version.number)
            signatures = model_protos.signatures(version)
            text = version.servable.text
        to_dict = partial(
            json_format.MessageToDict,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        metadata = {"signature_def": to_dict(signatures)}
        # TensorFlow Serving does not say what kind of text the model takes.
        more = {"text": text} if text else {}
        return _json({"model_spec": to_dict(spec), "metadata": {**metadata, **more}})

    async def _predict(
        self, request: Request, which: dict[str, Any], logged: LoggedRequest
    ) -> Response:
        deadline = asyncio.get_running_loop().time() + self._options.request_timeout
        body = bytearray()
        try:
            await self._read(request, body)
            # What is large is looked at by another thread than the event loop's.
            call = run_in_threadpool if len(body) > LARGE_BODY else _at_once
            document = await call(self._document, request, bytes(body))
            name = json_tensors.signature_name(document) or DEFAULT_SIGNATURE
            with self._versions.using(**which) as version:
                if name not in version.servable.signatures:
                    raise invalid(
                        f'Serving signature name: "{name}" not found in signature def'
                    )
                logged.signature, logged.version = name, str(version.number)
                inputs, words = await call(self._inputs, document, version, name)
                logged.lines, logged.words = len(words), int(words.sum())
                future = version.submit(name, inputs, words=words)
                outputs = await _answered(request, future, deadline)
        finally:
            self._bytes_in_flight -= len(body)
        size = sum(array.size for array in outputs.values())
        self._options.check_reply(size)
        call = run_in_threadpool if size > LARGE_REPLY else _at_once
        content = await call(_reply, outputs, json_tensors.is_rows(document))
        return Response(content, media_type="application/json")

    def _document(self, request: Request, body: bytes) -> dict[str, Any]:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "gzip":
            body = _unzipped(body, self._options.max_request_bytes)
        elif encoding not in ("", "identity"):
            raise RequestError(
                "INVALID_ARGUMENT", f"there is no encoding {encoding}", http_status=415
            )
        return json_tensors.parse(body)

    def _inputs(
        self, document: dict[str, Any], version: Version, name: str
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        signature = version.servable.signatures[name]
        inputs = json_tensors.inputs(document, signature, limits=self._options)
        return inputs, version.admit(signature, inputs, self._options)

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read the body, unless it is too long or too slow; what is read is in flight."""
        most = self._options.max_request_bytes
        # Not a number: the HTTP server has refused it before.
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > most:
            raise too_large(most)

        async def read() -> None:
            async for part in request.stream():
                if len(body) + len(part) > most:
                    raise too_large(most)
                if self._bytes_in_flight + len(part) > self._options.max_bytes_in_flight:
                    raise RequestError("UNAVAILABLE", "too many bytes are in flight")
                self._bytes_in_flight += len(part)
                body.extend(part)

        try:
            await asyncio.wait_for(read(), self._options.read_timeout)
        except asyncio.TimeoutError:
            raise RequestError(
                "DEADLINE_EXCEEDED", "the body came too slowly", http_status=408
            ) from None


async def _answered(request: Request, future: Future, deadline: float) -> Any:
    """Return what the future gives.

    It is cancelled when the client hangs up or the time is over: what has not started of it is
    not run.
    """
    answer = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(request.receive())  # after the body: http.disconnect alone
    left = deadline - asyncio.get_running_loop().time()
    try:
        await asyncio.wait({answer, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if gone.done():
            raise ClientDisconnect
        raise RequestError(
            "DEADLINE_EXCEEDED", "the request took too long: see --request_timeout"
        )
    finally:
        answer.cancel()
        gone.cancel()


def _which(match: re.Match[str]) -> dict[str, Any]:
    """Return the model, version and label that a path names."""
    number = match["version"]
    if number is not None and (len(number) > 19 or int(number) > HIGHEST):
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
        raise invalid(f"the body is not gzip: {error}") from None
    if len(text) > most:
        raise too_large(most)
    if not reader.eof:
        raise invalid("the body is not gzip: it ends early")
    return text


def _reply(outputs: Mapping[str, np.ndarray], is_rows: bool) -> bytes:
    return json_tensors.dumps(json_tensors.reply(outputs, rows=is_rows))


async def _at_once(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _json(
    document: Mapping[str, Any], code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        json_tensors.dumps(document), code, headers=headers, media_type="application/json"
    )
