"""A small web of linked pages on loopback: what leads where is all that matters of it."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from tests.support.commands import WeboidRunner, profile_for
from tests.support.loopback import LoopbackServer
from tests.support.sites.web import TestWeb

Answer = tuple[int, dict[str, str], bytes]


def page(*links: str) -> Answer:
    """Return an HTML page with these links."""
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return 200, {"Content-Type": "text/html"}, f"<title>page</title><p>{anchors}".encode()


def moved(location: str) -> Answer:
    """Return a redirect."""
    return 302, {"Location": location}, b""


def file(body: bytes, content_type: str = "text/plain") -> Answer:
    return 200, {"Content-Type": content_type}, body


class LinkedSite:
    """Serves answers by ``host/path``; every name is a host of it.

    Attributes:
        requests: how often each ``host/path?query`` was asked for.
    """

    def __init__(self, answers: Mapping[str, Answer], *, port: int = 0) -> None:
        """Take the answers, and the port of an earlier site that is to be there again."""
        self.answers = dict(answers)
        self.requests: Counter[str] = Counter()
        self._asked_more = threading.Condition()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = LoopbackServer(Handler, port=port)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        key = handler.headers.get("Host", "").partition(":")[0] + handler.path
        with self._asked_more:
            self.requests[key] += 1
            self._asked_more.notify_all()
        status, headers, body = self.answers.get(key, (404, {}, b"nothing here"))
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def wait_until_asked(self, key: str, times: int, *, limit_s: float = 200.0) -> None:
        """Return when that was asked for so often."""
        with self._asked_more:
            assert self._asked_more.wait_for(lambda: self.requests[key] >= times, limit_s)

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._server.server_port

    @property
    def resolve(self) -> dict[str, str]:
        """Return the value for `egress.resolve`."""
        port = self.port
        hosts = {key.partition("/")[0] for key in self.answers}
        return {f"{host}:80": f"127.0.0.1:{port}" for host in hosts}

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()


def weboid_for(site: LinkedSite, web: TestWeb, folder: Path, **groups: dict[str, Any]) -> WeboidRunner:
    """Return the command's runner, with a profile under which the site is reachable."""
    groups["egress"] = {"resolve": {**web.resolve, **site.resolve}, **groups.get("egress", {})}
    visit = {"full_page": False, "thumbnail": False, "settle_s": 0.1}
    groups.setdefault("behaviours", {"run": []})
    groups["visit"] = {**visit, **groups.get("visit", {})}
    return WeboidRunner(folder, profile_for(web, folder / "profile.toml", **groups))


Make = Callable[..., WeboidRunner]
