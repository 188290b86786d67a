"""HTTP listeners for tests of the extension: a front as in docs/how-to/embedding.md, and a webhook.

Both run in threads on free ports and record the requests that they receive.
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.support.loopback import LoopbackServer

SECRET = "0123456789abcdef0123456789abcdef-webhook"
DATE = "2026-11-20T10:11:12Z"


@dataclass(frozen=True)
class ReceivedRequest:
    """A request to a listener."""

    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class StubResponse:
    """A listener's response; with status 0 the connection is closed without one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[ReceivedRequest], StubResponse]


class HttpListener:
    """An HTTP server with replaceable responses.

    Attributes:
        requests: received requests, in order.
        answer: function that makes the response to a request; tests replace it.
        default_answer: the initial one.
    """

    def __init__(self, answer: Answer) -> None:
        """Start to listen."""
        self.requests: list[ReceivedRequest] = []
        self.answer = answer
        self.default_answer = answer
        self._received = threading.Condition()
        self._server = LoopbackServer(self._handler()).__enter__()

    @property
    def address(self) -> str:
        """Return the server's origin."""
        return self._server.origin

    def reset(self) -> None:
        """Remove the recorded requests and restore the default answer."""
        self.requests.clear()
        self.answer = self.default_answer

    def wait_for(self, count: int) -> None:
        """Wait until this many requests were received."""
        with self._received:
            assert self._received.wait_for(lambda: len(self.requests) >= count, 120)

    def close(self) -> None:
        """Stop the server."""
        self._server.__exit__()

    @classmethod
    @contextmanager
    def running(cls, answer: Answer) -> Iterator[Self]:
        """Run a listener within the block."""
        listener = cls(answer)
        try:
            yield listener
        finally:
            listener.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = ReceivedRequest(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                with listener._received:
                    listener.requests.append(request)
                    listener._received.notify_all()
                response = listener.answer(request)
                self.close_connection = True
                if response.status == 0:
                    return
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(response.body)))
                self.end_headers()
                self.wfile.write(response.body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


def link_answer(url: str, origin: str) -> dict[str, Any]:
    """Return the front's answer about a URL: of the kind that is a word in it (dead, queued, …), else a copy."""
    kinds = ("queued", "refused", "failed", "none")
    kind = next((each for each in kinds if each in url), "copy")
    is_dead = "dead" in url
    copy = f"{origin}/2026/{url}" if kind == "copy" else None
    state: dict[str, str | None] = {
        "state": "dead" if is_dead else "alive",
        "group": "unreachable" if is_dead else "working",
        "words": "Dead since 21 May 2026" if is_dead else "Working",
    }
    if kind == "none":
        state = {"state": None, "group": "unknown", "words": "Never seen"}
    return {
        "url": url,
        "answer": kind,
        "href": None if kind == "none" else copy or f"{origin}/view?url={url}",
        "copy": copy,
        "date": DATE if copy else None,
        "is_dead": is_dead,
        **state,
    }


def front(origin: Callable[[], str], *, fresh_s: int = 3_600) -> Answer:
    """Return a front's default answer; `origin` returns its own origin."""

    def answer(request: ReceivedRequest) -> StubResponse:
        query = request.json()
        links = [link_answer(url, origin()) for url in query["urls"]]
        is_queued = any(link["answer"] == "queued" for link in links)
        document = {"wiki": query["wiki"], "fresh_s": 20 if is_queued else fresh_s, "links": links}
        return StubResponse(body=json.dumps(document).encode())

    return answer


def webhook(request: ReceivedRequest) -> StubResponse:
    """Return the webhook's default response."""
    if request.path in {"/level", "/stored-level"}:
        change = request.json()
        return StubResponse(body=json.dumps({"url": change["url"], "level": change["level"]}).encode())
    return StubResponse(204)


def is_signed(request: ReceivedRequest, secret: str, now: float) -> bool:
    """Return whether a request carries the secret's signature, made within 300 s of now."""
    parts = dict(each.split("=") for each in request.headers["x-weboid-signature"].split(","))
    digest = hashlib.sha256(request.body).hexdigest()
    lines = "\n".join(["v2", parts["t"], parts["n"], "POST", request.path, digest])
    expected = hmac.new(secret.encode(), lines.encode(), hashlib.sha256)
    return hmac.compare_digest(expected.hexdigest(), parts["v2"]) and abs(now - int(parts["t"])) < 300
