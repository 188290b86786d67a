"""Who the extension talks to: a front that answers as docs/how-to/embedding.md says, and a webhook that listens.

Both run in threads of the test, on free ports, and note all that they hear.
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

SECRET = "0123456789abcdef0123456789abcdef-webhook"
DATE = "2026-11-20T10:11:12Z"


@dataclass(frozen=True)
class Heard:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Said:
    """An answer; status 0: the connection is closed without one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Heard], Said]


class Listener:
    """A server that notes what it hears and says what the test wants.

    Attributes:
        heard: the requests, in their order.
        answer: what makes an answer of one; tests replace it.
    """

    def __init__(self, answer: Answer) -> None:
        """Listen from now on."""
        self.heard: list[Heard] = []
        self.answer = answer
        self.usual = answer
        self._said = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def forget(self) -> None:
        """Forget what was heard, and answer as usual."""
        self.heard.clear()
        self.answer = self.usual

    def wait_for(self, count: int) -> None:
        """Wait until so many requests were heard."""
        with self._said:
            assert self._said.wait_for(lambda: len(self.heard) >= count, 120)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @classmethod
    @contextmanager
    def running(cls, answer: Answer) -> Iterator[Self]:
        """One that listens until the block ends."""
        made = cls(answer)
        try:
            yield made
        finally:
            made.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                heard = Heard(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                with listener._said:
                    listener.heard.append(heard)
                    listener._said.notify_all()
                said = listener.answer(heard)
                self.close_connection = True
                if said.status == 0:
                    return
                try:
                    self.send_response(said.status)
                    for name, value in said.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(said.body)))
                    self.end_headers()
                    self.wfile.write(said.body)
                except OSError:
                    return  # the wiki did not wait for it

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def told(url: str, place: str) -> dict[str, Any]:
    """What the front says of a URL, by a word in it: dead, queued, refused, failed, none; else a copy."""
    kinds = ("queued", "refused", "failed", "none")
    kind = next((each for each in kinds if each in url), "copy")
    is_dead = "dead" in url
    copy = f"{place}/2026/{url}" if kind == "copy" else None
    known: dict[str, str | None] = {
        "state": "dead" if is_dead else "alive",
        "group": "unreachable" if is_dead else "working",
        "words": "Dead since 21 May 2026" if is_dead else "Working",
    }
    if kind == "none":
        known = {"state": None, "group": "unknown", "words": "Never seen"}
    return {
        "url": url,
        "answer": kind,
        "href": None if kind == "none" else copy or f"{place}/view?url={url}",
        "copy": copy,
        "date": DATE if copy else None,
        "is_dead": is_dead,
        **known,
    }


def front(place: Callable[[], str], *, fresh_s: int = 3_600) -> Answer:
    """A front's usual answer; `place` is its own origin."""

    def answer(heard: Heard) -> Said:
        asked = heard.json()
        links = [told(url, place()) for url in asked["urls"]]
        waits = any(link["answer"] == "queued" for link in links)
        said = {"wiki": asked["wiki"], "fresh_s": 20 if waits else fresh_s, "links": links}
        return Said(body=json.dumps(said).encode())

    return answer


def webhook(heard: Heard) -> Said:
    """The webhook's usual answer."""
    if heard.path in {"/level", "/stored-level"}:
        asked = heard.json()
        return Said(body=json.dumps({"url": asked["url"], "level": asked["level"]}).encode())
    return Said(204)


def is_signed(heard: Heard, secret: str, now: float) -> bool:
    """Return whether a request carries the secret's signature, made within 300 s of now."""
    parts = dict(each.split("=") for each in heard.headers["x-weboid-signature"].split(","))
    digest = hashlib.sha256(heard.body).hexdigest()
    lines = "\n".join(["v2", parts["t"], parts["n"], "POST", heard.path, digest])
    made = hmac.new(secret.encode(), lines.encode(), hashlib.sha256)
    return hmac.compare_digest(made.hexdigest(), parts["v2"]) and abs(now - int(parts["t"])) < 300
