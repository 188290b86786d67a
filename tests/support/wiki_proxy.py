"""A proxy for a real wiki that records requests and can change responses.

The tests run one version of MediaWiki. Responses of other versions, of caches, login walls and outages
replace a response (`canned`, `script`) or are derived from the real one (`transform`).
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.loopback import LoopbackServer

HANG_S = 30.0
_HOP_BY_HOP = {"transfer-encoding", "connection", "content-length"}


@dataclass(frozen=True)
class ProxiedRequest:
    """A received request, with the parameters of query and form."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass(frozen=True)
class ProxiedResponse:
    """A response in place of the wiki's.

    Attributes:
        cut: number of bytes by which the body is shorter than Content-Length.
        hangs: nothing is sent until the server stops.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    hangs: bool = False

    @classmethod
    def of_json(cls, document: Any, **headers: str) -> "ProxiedResponse":
        """Return a JSON response; underscores in header names become hyphens."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return cls(200, json.dumps(document).encode(), {**kind, **fields})

    @classmethod
    def api_error(cls, code: str, info: str = "No.", **headers: str) -> "ProxiedResponse":
        """Return an error of MediaWiki's API."""
        return cls.of_json({"error": {"code": code, "info": info}, "servedby": "x"}, **headers)


Script = Callable[[ProxiedRequest], ProxiedResponse | None]
Transform = Callable[[ProxiedRequest, dict[str, Any]], Any]


@dataclass
class WikiProxy:
    """A running proxy.

    Attributes:
        base: its address.
        requests: received requests, in order.
        canned: responses in place of the wiki's, one per request.
        script: may return a response to any request.
        transform: changes the wiki's JSON responses.
        override: replaces parameters of requests.
        max_concurrent: maximum number of simultaneous requests.
    """

    base: str = ""
    requests: list[ProxiedRequest] = field(default_factory=list)
    canned: list[ProxiedResponse] = field(default_factory=list)
    script: Script | None = None
    transform: Transform | None = None
    override: dict[str, str] = field(default_factory=dict)
    max_concurrent: int = 0
    _concurrent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def api(self) -> str:
        """Return the URL of the API through the proxy."""
        return f"{self.base}/api.php"

    def reset(self) -> None:
        """Restore the initial state."""
        self.requests.clear()
        self.canned.clear()
        self.override.clear()
        self.script = self.transform = None
        self.max_concurrent = 0

    def requests_with(self, **params: str) -> list[ProxiedRequest]:
        """Return the requests with these parameters."""
        return [each for each in self.requests if params.items() <= each.params.items()]


class _WikiProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: WikiProxy
    target: str

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Respond to a request of any method."""
        proxy = self.proxy
        with proxy._lock:
            proxy._concurrent += 1
            proxy.max_concurrent = max(proxy.max_concurrent, proxy._concurrent)
        try:
            response = self._response()
        finally:
            with proxy._lock:
                proxy._concurrent -= 1
        self._send(response)

    do_POST = do_GET  # noqa: N815

    def _response(self) -> ProxiedResponse:
        proxy = self.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        pairs = parse_qs(parts.query, keep_blank_values=True)
        if self.headers.get("Content-Type", "").startswith("application/x-www-form"):
            pairs.update(parse_qs(body.decode(), keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        params = {name: each[0] for name, each in pairs.items()}
        request = ProxiedRequest(self.command, parts.path, params, headers)
        proxy.requests.append(request)
        response = proxy.canned.pop(0) if proxy.canned else None
        if response is None and proxy.script is not None:
            response = proxy.script(request)
        return response or self._forward(request, body)

    def _forward(self, request: ProxiedRequest, body: bytes) -> ProxiedResponse:
        transform = self.proxy.transform
        own = {"host", "connection", "accept-encoding", "content-length"}
        headers = {name: value for name, value in request.headers.items() if name not in own}
        parts = urlsplit(self.path)  # a whole URL if this is used as an HTTP proxy
        with closing(http.client.HTTPConnection(self.target, timeout=120)) as connection:
            method, content = request.method, body
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            if self.proxy.override:
                method, path = "POST", request.path
                headers["content-type"] = "application/x-www-form-urlencoded"
                content = urlencode({**request.params, **self.proxy.override}).encode()
            connection.request(method, path, content or None, headers)
            response = connection.getresponse()
            content = response.read()
        fields = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_BY_HOP}
        if transform is not None and "json" in fields.get("Content-Type", ""):
            content = json.dumps(transform(request, json.loads(content))).encode()
        return ProxiedResponse(response.status, content, fields)

    def _send(self, response: ProxiedResponse) -> None:
        if response.hangs:
            self.proxy._stopped.wait(HANG_S)
            self.close_connection = True
            return
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body[: len(response.body) - response.cut])
        if response.cut:
            self.close_connection = True


@contextmanager
def running_wiki_proxy(wiki: str) -> Iterator[WikiProxy]:
    """Run a proxy for the wiki at that address within the block."""
    proxy = WikiProxy()
    handler = type("Handler", (_WikiProxyHandler,), {"proxy": proxy, "target": urlsplit(wiki).netloc})
    with LoopbackServer(handler) as server:
        proxy.base = server.origin
        try:
            yield proxy
        finally:
            proxy._stopped.set()
