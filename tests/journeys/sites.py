"""Small web sites on loopback whose every answer the journey decides, and which it stops and starts."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from PIL import Image

from tests.support.loopback import LoopbackServer
from tests.support.services.ports import free_port

SHEET = "body { margin: 0; font: 20px/1.4 sans-serif } h1 { background: #063; color: #fff }"


@dataclass(frozen=True)
class SiteAnswer:
    """A response: what is sent, and whether it is held back until `SiteServer.release`."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    is_held: bool = False


def article(title: str, text: str, *, sheet: str = "/style.css") -> str:
    """Return a page with a style sheet, a picture and a link."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<link rel="stylesheet" href="{sheet}"></head><body><h1>{title}</h1><p>{text}</p>'
        '<img src="/picture.png" width="200" height="100" alt="A green field">'
        '<p><a href="/about">About us</a></p></body></html>'
    )


def picture() -> bytes:
    """Return a green PNG."""
    file = BytesIO()
    Image.new("RGB", (200, 100), "#0a0").save(file, "PNG")
    return file.getvalue()


def paper(*colours: str) -> bytes:
    """Return a PDF with a page of each colour."""
    file = BytesIO()
    first, *others = [Image.new("RGB", (600, 800), each) for each in colours]
    first.save(file, "PDF", save_all=True, append_images=others)
    return file.getvalue()


class SiteServer:
    """One host. `stop` makes it refuse connections, `start` brings it back at the same port.

    Attributes:
        requests: paths of the requests so far, oldest first.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.requests: list[str] = []
        self._answers: dict[str, SiteAnswer] = {}
        self._gate = threading.Event()
        self.port = free_port()
        self._server: LoopbackServer | None = None
        self.put("/style.css", SHEET, content_type="text/css")
        self.put("/picture.png", picture(), content_type="image/png")
        self.put("/favicon.ico", "", status=404)
        self.put("/robots.txt", "", status=404)
        self.start()

    def url(self, path: str) -> str:
        """Return the address under which users know that path."""
        return f"http://{self.host}{path}"

    @property
    def resolve(self) -> dict[str, str]:
        """Return its lines of ``[egress] resolve``; nothing listens on 443."""
        return {f"{self.host}:80": f"127.0.0.1:{self.port}", f"{self.host}:443": "127.0.0.1:9"}

    def put(
        self,
        path: str,
        body: str | bytes,
        *,
        content_type: str = "text/html; charset=utf-8",
        status: int = 200,
        headers: dict[str, str] | None = None,
        is_held: bool = False,
    ) -> str:
        """Set what a path answers from now on; return its address."""
        data = body.encode() if isinstance(body, str) else body
        self._answers[path] = SiteAnswer(data, content_type, status, headers or {}, is_held)
        return self.url(path)

    def release(self) -> None:
        """Let answers go that were held back, and those to come."""
        self._gate.set()

    def count(self, path: str) -> int:
        """Return how often that path was asked for."""
        return self.requests.count(path)

    def start(self) -> None:
        """Listen again."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site._answer(self)

            do_HEAD = do_GET  # noqa: N815 the server's name

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = LoopbackServer(Handler, port=self.port).__enter__()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self.release()
        if self._server is not None:
            self._server.__exit__()
            self._server = None

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        missing = SiteAnswer(b"<!DOCTYPE html><title>Not found</title><p>There is no such page.", status=404)
        answer = self._answers.get(request.path, missing)
        if answer.is_held:
            self._gate.wait(120)
        etag = answer.headers.get("ETag")
        if etag is not None and request.headers["If-None-Match"] == etag:
            answer = SiteAnswer(b"", answer.content_type, 304, answer.headers)
        request.send_response(answer.status)
        request.send_header("Content-Type", answer.content_type)
        if answer.status != 304:  # it has no content, and its length is not that of the page
            request.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(answer.body)
