"""A stub of the front's API for link lookups, with replaceable answers."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.loopback import LoopbackServer


def answer_of(url: str, origin: str, *, kind: str = "copy", dead: bool = False) -> dict[str, Any]:
    """Return an answer as docs/how-to/embedding.md specifies it."""
    copy = f"{origin}/page/20260102030405/{url}" if kind == "copy" else None
    return {
        "url": url,
        "answer": kind,
        "href": copy or f"{origin}/standing/{url}",
        "copy": copy,
        "date": "2026-01-02T03:04:05Z" if copy else None,
        "state": "dead" if dead else "live",
        "group": "unreachable" if dead else "working",
        "is_dead": dead,
        "words": "Dead since 21 May 2026" if dead else "Working when last seen, “yesterday”",
    }


@dataclass
class StubFront:
    """A running stub.

    Attributes:
        origin: its origin.
        queries: parsed bodies of the requests.
        headers: headers of the requests.
        link_answer: makes the answer about a URL; None: as `answer_of`.
        make_body: makes the body of a response; None: as documented.
        status: status of responses.
        retry_after: Retry-After of responses.
        released: responses wait for this event.
    """

    origin: str = ""
    queries: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    link_answer: Callable[[str], dict[str, Any]] | None = None
    make_body: Callable[[dict[str, Any]], bytes] | None = None
    status: int = 200
    fresh_s: float = 60
    retry_after: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def respond(self, query: dict[str, Any]) -> bytes:
        """Record a query; return the body of the response."""
        self.queries.append(query)
        if self.make_body is not None:
            return self.make_body(query)
        link_answer = self.link_answer or (lambda url: answer_of(url, self.origin))
        links = [link_answer(url) for url in query["urls"]]
        document = {"wiki": query["wiki"], "fresh_s": self.fresh_s, "links": links}
        return json.dumps(document).encode()


@contextmanager
def running_front() -> Iterator[StubFront]:
    """Run a stub on a free port."""
    front = StubFront()
    front.released.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["content-length"])))
            front.headers.append({key.lower(): text for key, text in self.headers.items()})
            body = front.respond(query)
            front.released.wait(120)
            self.send_response(front.status if self.path == "/links/api/cached" else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if front.retry_after:
                self.send_header("retry-after", front.retry_after)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Handler) as server:
        front.origin = server.origin
        yield front
        front.released.set()
