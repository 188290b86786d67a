"""A server in front of a real wiki: it notes what is asked, and changes answers into others' ones.

Only one version of MediaWiki runs here. What other versions, caches, walls and outages answer is put
in the place of an answer (`instead`), or made of the real one (`through`).
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

HANG_S = 30.0
_HOPS = {"transfer-encoding", "connection", "content-length"}


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What is answered in the wiki's place.

    Attributes:
        cut: so many bytes less are sent than the head says.
        hangs: nothing is sent at all until the server ends.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    hangs: bool = False

    @classmethod
    def of_json(cls, document: Any, **headers: str) -> "Answer":
        """A JSON answer; underscores in headers' names are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return cls(200, json.dumps(document).encode(), {**kind, **named})

    @classmethod
    def refusing(cls, code: str, info: str = "No.", **headers: str) -> "Answer":
        """The API's own form of an error."""
        return cls.of_json({"error": {"code": code, "info": info}, "servedby": "x"}, **headers)


Script = Callable[[Asked], Answer | None]
Change = Callable[[Asked, dict[str, Any]], Any]


@dataclass
class Front:
    """The server.

    Attributes:
        base: its address.
        seen: what was asked, in order.
        instead: answers in the wiki's place, one for each request, first to last.
        script: may answer any request.
        through: makes another answer of the wiki's JSON.
        override: parameters that the wiki gets in the place of those that were sent.
        busiest: how many requests were under way at once.
    """

    base: str = ""
    seen: list[Asked] = field(default_factory=list)
    instead: list[Answer] = field(default_factory=list)
    script: Script | None = None
    through: Change | None = None
    override: dict[str, str] = field(default_factory=dict)
    busiest: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def api(self) -> str:
        """The API behind it."""
        return f"{self.base}/api.php"

    def reset(self) -> None:
        """Be as new."""
        self.seen.clear()
        self.instead.clear()
        self.override.clear()
        self.script = self.through = None
        self.busiest = 0

    def asked(self, **params: str) -> list[Asked]:
        """The requests with these parameters."""
        return [each for each in self.seen if params.items() <= each.params.items()]


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    protocol_version = "HTTP/1.1"
    front: Front
    target: str

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a request of any method."""
        front = self.front
        with front._lock:
            front._now += 1
            front.busiest = max(front.busiest, front._now)
        try:
            answer = self._answer()
        finally:
            with front._lock:
                front._now -= 1
        with suppress(BrokenPipeError, ConnectionResetError):
            self._send(answer)

    do_POST = do_GET  # noqa: N815

    def _answer(self) -> Answer:
        front = self.front
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        pairs = parse_qs(parts.query, keep_blank_values=True)
        if self.headers.get("Content-Type", "").startswith("application/x-www-form"):
            pairs.update(parse_qs(body.decode(), keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        params = {name: each[0] for name, each in pairs.items()}
        asked = Asked(self.command, parts.path, params, headers)
        front.seen.append(asked)
        answer = front.instead.pop(0) if front.instead else None
        if answer is None and front.script is not None:
            answer = front.script(asked)
        return answer or self._passed_on(asked, body)

    def _passed_on(self, asked: Asked, body: bytes) -> Answer:
        through = self.front.through
        own = {"host", "connection", "accept-encoding", "content-length"}
        headers = {name: value for name, value in asked.headers.items() if name not in own}
        parts = urlsplit(self.path)  # of a whole address when this is used as a proxy
        with closing(http.client.HTTPConnection(self.target, timeout=120)) as connection:
            method, content = asked.method, body
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            if self.front.override:
                method, path = "POST", asked.path
                headers["content-type"] = "application/x-www-form-urlencoded"
                content = urlencode({**asked.params, **self.front.override}).encode()
            connection.request(method, path, content or None, headers)
            got = connection.getresponse()
            content = got.read()
        kept = {name: value for name, value in got.getheaders() if name.lower() not in _HOPS}
        if through is not None and "json" in kept.get("Content-Type", ""):
            content = json.dumps(through(asked, json.loads(content))).encode()
        return Answer(got.status, content, kept)

    def _send(self, answer: Answer) -> None:
        if answer.hangs:
            self.front._ended.wait(HANG_S)
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) - answer.cut])
        if answer.cut:
            self.close_connection = True


@contextmanager
def fronting(wiki: str) -> Iterator[Front]:
    """A server in front of the wiki at that address, until the block ends."""
    front = Front()
    handler = type("Handler", (_Handler,), {"front": front, "target": urlsplit(wiki).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    front.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield front
    finally:
        front._ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
