"""Who may ask: the Host and Origin of REST requests, and the token of both protocols."""

import hmac
from typing import Any
from urllib.parse import urlsplit

import grpc
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from aevnmt_tf.serving.server_options import LOOPBACK, ServerOptions

# What needs no token: whether the server lives, and the files of the page.
OPEN_PATHS = ("/", "/healthz", "/readyz")
HEALTH = "/grpc.health.v1.Health/"


class AccessCheck:
    """Refuses REST requests of foreign pages, for other hosts and without the token.

    A page on the web can make a browser send requests to this machine: with its own name as
    Host, once that name leads here (DNS rebinding), or with its own Origin.
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
        """Run the ASGI application."""
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._inner(scope, receive, send)
            return
        code, sentence = problem
        headers = {"WWW-Authenticate": "Bearer"} if code == 401 else None
        await JSONResponse({"error": sentence}, code, headers)(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self._hosts is not None and _hostname(f"//{host}") not in self._hosts:
            return 403, "this host is not served here: see --allowed_hosts"
        origin = headers.get(b"origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            if _hostname(origin) not in self._named:
                return 403, "requests of other sites are refused: see --allowed_hosts"
        is_post = scope["method"] == "POST"
        if is_post and origin is None and headers.get(b"sec-fetch-site") == "cross-site":
            return 403, "requests of other sites are refused: see --allowed_hosts"
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith("/page/"):
            return None
        if self._token and not _has_token(headers.get(b"authorization", ""), self._token):
            return 401, "the request needs the server's token: Authorization: Bearer TOKEN"
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
    """Refuses gRPC calls without the token; all but those of the health service."""

    def __init__(self, token: bytes):
        self._token = token

        async def refuse(request: Any, context: grpc.aio.ServicerContext) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the call needs the server's token: authorization: Bearer TOKEN",
            )

        self._refuse = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, or one that refuses it."""
        if handler_call_details.method.startswith(HEALTH):
            return await continuation(handler_call_details)
        metadata = dict(handler_call_details.invocation_metadata or ())
        if _has_token(str(metadata.get("authorization", "")), self._token):
            return await continuation(handler_call_details)
        return self._refuse
