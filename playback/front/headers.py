"""The headers of every page of the front."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL_HOST = re.compile(r"(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d+)?")


def security_headers(replay_origin: str) -> dict[str, str]:
    """What responses say by themselves: our own style, pictures and frames of the replay, no script."""
    directives = (
        "default-src 'none'",
        "style-src 'self'",
        f"img-src 'self' {replay_origin}",
        f"frame-src {replay_origin}",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(directives),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "X-DNS-Prefetch-Control": "off",
        "X-Robots-Tag": "noindex, noarchive",
    }


def scripted_headers(replay_origin: str) -> dict[str, str]:
    """What pages say that have a script of ours, and forms: besides, that script and what it sends."""
    policy = security_headers(replay_origin)["Content-Security-Policy"]
    return {
        "Content-Security-Policy": f"{policy}; script-src 'self'; connect-src 'self'",
        "Cache-Control": "no-store",
        # A browser then tells which of our pages sent a form; to other sites it tells nothing as ever.
        "Referrer-Policy": "same-origin",
    }


class FixedHeaders:
    """ASGI middleware that sets `headers` on every response of `app` that does not say others."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    found.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OneOrigin:
    """ASGI middleware that answers to one Host only, so that a name rebound to it reads nothing.

    The other names of this machine lead to it: replay lets no other origin frame it.
    """

    def __init__(self, app: ASGIApp, origin: str) -> None:
        self._app = app
        self._origin = origin
        self._host = urlsplit(origin).netloc
        self._is_local = _LOCAL_HOST.fullmatch(self._host) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        host = Headers(scope=scope).get("host", "").lower()
        if scope["type"] != "http" or host == self._host:
            await self._app(scope, receive, send)
            return
        response: Response = PlainTextResponse("This host does not answer here.\n", 421)
        if self._is_local and _LOCAL_HOST.fullmatch(host):
            query = scope["query_string"].decode("latin-1")
            target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
            response = PlainTextResponse("", 307, {"Location": self._origin + target})
        await response(scope, receive, send)
