"""A front that answers look-ups in the documented form, and whatever a test wants of it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def answer_of(url: str, origin: str, *, kind: str = "copy", dead: bool = False) -> dict[str, Any]:
    """An answer in the form of docs/how-to/embedding.md."""
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
class Front:
    """A running front.

    Attributes:
        origin: where it answers.
        asked: the questions, parsed.
        told: makes the answer to one URL; a test may change it.
        body: makes the whole answer's bytes; None: as documented.
        status: of its answers.
        hold: answers wait for it.
        retry_after: sent along.
        heads: of the questions.
    """

    origin: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    told: Callable[[str], dict[str, Any]] | None = None
    body: Callable[[dict[str, Any]], bytes] | None = None
    status: int = 200
    fresh_s: float = 60
    retry_after: str = ""
    heads: list[dict[str, str]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def answer(self, question: dict[str, Any]) -> bytes:
        """The bytes that answer a question."""
        self.asked.append(question)
        if self.body is not None:
            return self.body(question)
        told = self.told or (lambda url: answer_of(url, self.origin))
        links = [told(url) for url in question["urls"]]
        document = {"wiki": question["wiki"], "fresh_s": self.fresh_s, "links": links}
        return json.dumps(document).encode()


@contextmanager
def running_front() -> Iterator[Front]:
    """A front on a free port."""
    front = Front()
    front.hold.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["content-length"])))
            front.heads.append({key.lower(): text for key, text in self.headers.items()})
            body = front.answer(question)
            front.hold.wait(120)
            self.send_response(front.status if self.path == "/links/api/cached" else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if front.retry_after:
                self.send_header("retry-after", front.retry_after)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    front.origin = f"http://127.0.0.1:{server.server_address[1]}"
    yield front
    front.hold.set()
    server.shutdown()
    server.server_close()
    thread.join(120)
