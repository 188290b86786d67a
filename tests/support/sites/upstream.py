"""A reverse proxy to one server on loopback, with a small cache, as wikis of any size have.

The server need not know keep-alive. What it says shared caches may keep (RFC 9111, 5.2.2.10) is
kept for as long, for requests without cookies; anything but GET and HEAD empties the cache.
"""

import asyncio
import re

from tests.support.sites.http1 import Answer, PacedWriter, SiteReply, SiteRequest, response
from tests.support.sites.pages import page

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "host"}
_SHARED_AGE = re.compile(r"\r\ncache-control:[^\r]*\bs-maxage=(\d+)", re.IGNORECASE)
CACHE_LIMIT = 2_000  # responses kept
PATIENCE_S = 60.0  # the server's first answer after a start may take so long


class LoopbackUpstream:
    """Passes requests on to a server on loopback, one connection each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._replies: dict[tuple[str, str, str], tuple[float, SiteReply]] = {}

    def __call__(self, request: SiteRequest) -> Answer:
        """Return the cached response, else the server's own; 502 when it gives none."""
        key = (request.scheme, request.host, request.target)
        if request.method not in {"GET", "HEAD"}:
            self._replies.clear()
        elif not request.header("cookie"):
            until, cached_reply = self._replies.get(key, (0.0, None))
            if cached_reply is not None and until > asyncio.get_running_loop().time():
                return cached_reply

        async def relay(out: PacedWriter) -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    reply = await self._ask(request)
            except (OSError, ValueError, asyncio.IncompleteReadError, TimeoutError) as error:
                reply = response(502, page("Bad gateway", f"<p>{type(error).__name__}</p>"))
            else:
                self._keep(key, request, reply)
            await out.reply(reply)

        return relay

    def _keep(self, key: tuple[str, str, str], request: SiteRequest, reply: SiteReply) -> None:
        head = reply.head.decode("latin-1")
        age = _SHARED_AGE.search(head)
        personal = request.header("cookie") or "\r\nset-cookie:" in head.lower()
        good = request.method == "GET" and head.startswith("HTTP/1.1 200 ")
        if age is not None and good and not personal and len(self._replies) < CACHE_LIMIT:
            until = asyncio.get_running_loop().time() + int(age.group(1))
            self._replies[key] = (until, reply)

    async def _ask(self, request: SiteRequest) -> SiteReply:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(_request_bytes(request))
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read(-1)
        finally:
            writer.close()
        status, *lines = head[:-4].decode("latin-1").split("\r\n")
        header_lines = [line for line in lines if line.partition(":")[0].lower() not in _HOP_BY_HOP]
        header_lines.append(f"Content-Length: {len(body)}")
        status = status.replace("HTTP/1.0", "HTTP/1.1", 1)
        return SiteReply("\r\n".join([status, *header_lines]).encode("latin-1") + b"\r\n", body)


def _request_bytes(request: SiteRequest) -> bytes:
    # HTTP/1.0 forbids the server chunks, so that its body ends where the connection does.
    lines = [f"{request.method} {request.target} HTTP/1.0", f"Host: {request.host}"]
    lines.extend(
        f"{name}: {value}" for name, value in request.headers if name.lower() not in _HOP_BY_HOP | {"accept-encoding"}
    )
    lines.append(f"X-Forwarded-Proto: {request.scheme}")
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
