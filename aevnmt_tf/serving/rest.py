"""The REST API of TensorFlow Serving, and the page, as a Starlette app."""

import asyncio
import re
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from aevnmt_tf.serving import json_tensors, model_protos
from aevnmt_tf.serving.json_values import LONGEST_QUOTE
from aevnmt_tf.serving.limits import Limits
from aevnmt_tf.serving.servable import DEFAULT_SIGNATURE
from aevnmt_tf.serving.status import RequestError, invalid, no_such_method
from aevnmt_tf.serving.versions import HIGHEST, Versions

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

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


def app(
    versions: Versions, *, limits: Limits, report: Callable[[str], None], page: Path = PAGE
) -> "Headers":
    """The app for a model.

    `report` gets a sentence about every error that is ours.
    """
    api = Api(versions, limits=limits, report=report)
    routes = [Route("/healthz", Health(versions))]
    # TensorFlow Serving does not mind about case.
    routes += [Route(f"/{root}/{{path:path}}", api) for root in ("v1", "V1")]
    if (page / "index.html").exists():
        routes += [
            Route("/", lambda request: FileResponse(page / "index.html")),
            Mount("/page", _PageFiles(directory=page)),
        ]

    def refused(request: Request, error: HTTPException) -> Response:
        return _json({"error": error.detail}, error.status_code, error.headers)

    made = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    made.router.redirect_slashes = False
    return Headers(made)


class _PageFiles(StaticFiles):
    """What a browser can use; the folder is a package of Python as well."""

    async def get_response(self, path, scope):
        if Path(path).suffix not in (".html", ".css", ".js", ".svg"):
            raise HTTPException(404)
        return await super().get_response(path, scope)


class Headers:
    """Adds the headers that every reply has."""

    def __init__(self, inner):
        self._inner = inner

    async def __call__(self, scope, receive, send) -> None:
        """An ASGI application."""

        async def send_more(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        await self._inner(scope, receive, send_more)


class Health:
    """/healthz: 200 as long as a version is served."""

    def __init__(self, versions: Versions):
        self._versions = versions

    async def __call__(self, scope, receive, send) -> None:
        """An ASGI application."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        current = self._versions.current
        document = {"status": "ok", "model": self._versions.model_name, "version": current}
        if current is None:
            document["status"] = "no version is ready"
        await _json(document, 200 if current is not None else 503)(scope, receive, send)


class Api:
    """Everything below /v1/."""

    def __init__(self, versions: Versions, *, limits: Limits, report: Callable[[str], None]):
        self._versions = versions
        self._limits = limits
        self._report = report

    async def __call__(self, scope, receive, send) -> None:
        """An ASGI application."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except RequestError as error:
            if error.is_ours:
                self._report(f"{request.method} {scope['path']}: {error.message}")
            headers = {"Retry-After": "1"} if error.http_status == 429 else None
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
            return await self._predict(request, which)
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            if match["name"] is None:
                if path.rstrip("/").lower() != "/v1/models":
                    raise invalid("Missing model name in request.")
                return _json({"models": [self._versions.model_name]})
            which = _which(match)
            return self._metadata(which) if match["metadata"] else self._status(which)
        raise invalid(f"Malformed request: {request.method} {path[:LONGEST_QUOTE]}")

    def _status(self, which: dict) -> Response:
        if which["label"]:
            raise invalid(f"Unrecognized servable version label: {which['label']}")
        states = self._versions.states(which["name"], number=which["number"])
        response = model_protos.status(states)
        return _json(
            json_format.MessageToDict(response, always_print_fields_with_no_presence=True)
        )

    def _metadata(self, which: dict) -> Response:
        with self._versions.using(**which) as version:
            spec = model_protos.spec(which["name"], version.number)
            signatures = model_protos.signatures(version)
        as_dict = {
            "preserving_proto_field_name": True,
            "always_print_fields_with_no_presence": True,
        }
        return _json(
            {
                "model_spec": json_format.MessageToDict(spec, **as_dict),
                "metadata": {"signature_def": json_format.MessageToDict(signatures, **as_dict)},
            }
        )

    async def _predict(self, request: Request, which: dict) -> Response:
        body = await self._body(request)
        document = await _maybe_in_thread(len(body) > LARGE_BODY, json_tensors.parse, body)
        name = json_tensors.signature_name(document) or DEFAULT_SIGNATURE
        with self._versions.using(**which) as version:
            if name not in version.servable.signatures:
                raise invalid(f'Serving signature name: "{name}" not found in signature def')
            signature = version.servable.signatures[name]
            inputs, rows = await _maybe_in_thread(
                len(body) > LARGE_BODY, self._inputs, document, signature
            )
            future = version.submit(name, inputs, rows=rows)
            outputs = await _unless_gone(request, future)
        size = sum(array.size for array in outputs.values())
        self._limits.check_reply(size)
        is_rows = json_tensors.is_rows(document)
        content = await _maybe_in_thread(size > LARGE_REPLY, _reply, outputs, is_rows)
        return Response(content, media_type="application/json")

    def _inputs(self, document: dict, signature):
        inputs = json_tensors.inputs(document, signature, limits=self._limits)
        rows = signature.check(inputs)
        self._limits.check(inputs)
        return inputs, rows

    async def _body(self, request: Request) -> bytes:
        """The body, unpacked; a longer one than allowed is not kept."""
        most = self._limits.max_request_bytes
        # Not a number: the HTTP server has refused it before.
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > most:
            raise _too_large(most)
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
        body = b"".join(parts)
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return body
        if encoding != "gzip":
            raise RequestError(
                "INVALID_ARGUMENT", f"there is no encoding {encoding}", http_status=415
            )
        return await run_in_threadpool(_unzipped, body, most)


async def _unless_gone(request: Request, future: Future):
    """What the future gives; it is cancelled when the client hangs up, and frees its place."""
    answer = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(request.receive())  # after the body: http.disconnect alone
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


def _which(match: re.Match) -> dict:
    """The model, version and label that a path names."""
    number = match["version"]
    if number is not None and (len(number) > 19 or int(number) > HIGHEST):
        raise invalid(f"Failed to convert version: {number[:40]} to numeric.")
    return {
        "name": unquote(match["name"]),
        "number": None if number is None else int(number),
        "label": unquote(match["label"] or ""),
    }


def _too_large(most: int) -> RequestError:
    message = f"a request may have {most} bytes"
    return RequestError("RESOURCE_EXHAUSTED", message, http_status=413)


def _unzipped(body: bytes, most: int) -> bytes:
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = reader.decompress(body, most + 1)
    except zlib.error as error:
        raise invalid(f"the body is not gzip: {error}") from None
    if len(text) > most:
        raise _too_large(most)
    if not reader.eof:
        raise invalid("the body is not gzip: it ends early")
    return text


def _reply(outputs, is_rows: bool) -> bytes:
    return json_tensors.dumps(json_tensors.reply(outputs, rows=is_rows))


async def _maybe_in_thread(is_large: bool, function: Callable, *args):
    return await run_in_threadpool(function, *args) if is_large else function(*args)


def _json(document: dict, code: int = 200, headers=None) -> Response:
    return Response(
        json_tensors.dumps(document), code, headers=headers, media_type="application/json"
    )
