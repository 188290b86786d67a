"""Two real MediaWikis, one with the extension and one without, side by side: rounds interleave.

A single wiki that loads the extension for some requests would rebuild its message cache each time.
"""

import http.client
import socket
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.support.http_listener import SECRET, HttpListener, front, webhook
from tests.support.mediawiki_extension import EXTENSION
from tests.support.sites.mediawiki import RunningWiki, running_wiki

HEADER = "X-Bench"  # selects the webhook
LIMIT_S = 120.0


@dataclass(frozen=True)
class TimedWikis:
    """Both wikis, and the listeners to which the extension sends requests."""

    plain: RunningWiki
    wiki: RunningWiki
    front: HttpListener
    webhook: HttpListener

    def of(self, kind: str) -> RunningWiki:
        """Return the wiki of a kind of request: without or with the extension."""
        return self.plain if kind == "without" else self.wiki

    def ask(self, path: str, kind: str, form: dict[str, str] | None = None, cookie: str = "") -> tuple[float, str]:
        """Send a request; return the milliseconds until the last byte of the response, and its text."""
        port = self.of(kind).port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        headers = {HEADER: kind, **({"Cookie": cookie} if cookie else {})}
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urllib.parse.urlencode(form)
        started = time.perf_counter()
        connection.request("POST" if form is not None else "GET", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        taken = (time.perf_counter() - started) * 1_000
        connection.close()
        assert answer.status == 200, text[:500]
        return taken, text


def added(without: Sequence[float], with_it: Sequence[float]) -> float:
    """Return the median difference of the pairs."""
    return median(b - a for a, b in zip(without, with_it, strict=True))


@contextmanager
def timed_wiki() -> Iterator[TimedWikis]:
    """Run both wikis with a front and a webhook that answer, a webhook that hangs, and one that is not running."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=1_000) as hanging,
        HttpListener.running(webhook) as webhook_listener,
        HttpListener.running(front(lambda: front_listener.address)) as front_listener,
    ):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            refused = gone.getsockname()[1]
        settings = f"""
wfLoadExtension( 'Weboid', '{EXTENSION / "extension.json"}' );
$wgWeboidFront = '{front_listener.address}';
$wgWeboidWebhook = [
	'with' => '{webhook_listener.address}',
	'hanging' => 'http://127.0.0.1:{hanging.getsockname()[1]}',
	'refused' => 'http://127.0.0.1:{refused}',
][$_SERVER['HTTP_X_BENCH'] ?? 'with'];
$wgWeboidSecret = '{SECRET}';
$wgWeboidTimeout = 5;
"""
        with running_wiki(server="self") as plain, running_wiki(server="self", settings=settings) as wiki:
            yield TimedWikis(plain, wiki, front_listener, webhook_listener)
