"""Access control: Host and Origin of REST requests, and the token of both protocols."""

import hmac
from typing import Any
from urllib.parse import urlsplit

import grpc
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from aevnmt_tf.serving.server_options import LOOPBACK, ServerOptions

# Health checks and the files of the web page need no token.
OPEN_PATHS = ("/", "/healthz", "/readyz")
HEALTH = "/grpc.health.v1.Health/"


class AccessCheck:
    """Refuses REST requests for other hosts, from other web sites, or without the token.

    A web site can make a browser send requests to this machine: with the site's name as Host,
    if that name resolves to this machine (DNS rebinding), or with the site's Origin.
    """

    def __init__(self, inner: ASGIApp, options: ServerOptions, token: bytes | None):
        self._inner = inner
        self._token = token
        self._named = {name.lower() for name in options.allowed_hosts or ()}
        self._hosts: set[str] | None = None  # any
        if options.is_local:
            self._hosts = {*LOOPBACK, options.host, *self._named}
        elif self._named:
            self._hosts = {options.host, *self._named}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the ASGI app."""
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._inner(scope, receive, send)
            return
        code, message = problem
        headers = {"WWW-Authenticate": "Bearer"} if code == 401 else None
        await JSONResponse({"error": message}, code, headers)(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if self._hosts is not None and _hostname(f"//{host}") not in self._hosts:
            return 403, "This host name is not allowed: see --allowed_hosts."
        if origin is None:
            site = headers.get(b"sec-fetch-site")
            is_foreign = scope["method"] == "POST" and site == "cross-site"
        else:
            is_own = origin == f"{scope['scheme']}://{host}"
            is_foreign = not is_own and _hostname(origin) not in self._named
        if is_foreign:
            return 403, "Requests from other web sites are refused: see --allowed_hosts."
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith("/page/"):
            return None
        if self._token and not _has_token(headers.get(b"authorization", ""), self._token):
            return (
                401,
                "The request needs the token of the server: Authorization: Bearer TOKEN.",
            )
        return None


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _has_token(header: str, token: bytes) -> bool:
    scheme, _, word = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        word.strip().encode("latin-1", "replace"), token
    )


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses gRPC calls without the token, except health checks."""

    def __init__(self, token: bytes):
        self._token = token

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, or one that refuses it."""
        metadata = dict(handler_call_details.invocation_metadata or ())
        is_open = handler_call_details.method.startswith(HEALTH)
        if is_open or _has_token(str(metadata.get("authorization", "")), self._token):
            return await continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


async def _refuse(request: Any, context: grpc.aio.ServicerContext) -> None:
    message = "The call needs the token of the server: authorization: Bearer TOKEN."
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)
