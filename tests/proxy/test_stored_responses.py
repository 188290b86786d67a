"""Recrawled URLs: origins confirm what the archive holds, and the page receives it from there."""

import gzip
import os
import socket
from contextlib import closing
from datetime import UTC, datetime

import pytest

from core.config.settings import IndexSettings
from core.layout import Layout
from net.http1 import parse_request_head
from playback.replay.archive import CaptureArchive
from playback.replay.capture_lookup import CaptureLookup
from proxy.control.client import ProxyVisit
from proxy.request_log import RefetchRequest, RequestLogEntry
from proxy.stored_responses import StoredResponses
from tests.support.proxy_fixtures import (
    BrowserResponse,
    ProxyBrowser,
    ProxyInProcess,
    ScriptedOrigin,
    WarcioRecord,
    check,
    ok,
    records,
)
from tests.warc.test_file_check import rows
from warc.index.database import open_database
from warc.rebuild import rebuild_index
from warc.verification import verify_collection

pytestmark = pytest.mark.proxy

URL = "http://origin.example/page"
BODY = b"<title>A page</title>" + b"word " * 5_000
VALIDATORS = 'ETag: "v1"\r\nLast-Modified: Mon, 06 Jan 2025 10:00:00 GMT\r\nDate: Tue, 07 Jan 2025 10:00:00 GMT\r\n'
AGENT = "User-Agent: Browser/120.0\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br, zstd\r\n"
DAY = 86_400.0


class ConfirmingOrigin:
    """Site with one version, which is confirmed to whoever names its ETag or its time."""

    def __init__(self, origin: ScriptedOrigin) -> None:
        self.origin, self.full, self.confirmed = origin, 0, 0
        self.validators, self.more, self.body, self.etag = VALIDATORS, "", BODY, b'"v1"'
        self.chunked = False
        origin.answers["/page"] = self.answer

    def answer(self, connection: socket.socket, head: bytes) -> None:
        """Confirm, or send all of it."""
        names_etag = b"If-None-Match:" in head  # it decides alone (RFC 9110, 13.1.3)
        named = b"If-None-Match: " + self.etag if names_etag else b"If-Modified-Since: Mon, 06 Jan"
        if named in head:
            self.confirmed += 1
            fields = "Set-Cookie: visit=2\r\nX-Answer: confirmed\r\nConnection: close\r\n"
            connection.sendall(f"HTTP/1.1 304 Not Modified\r\n{self.validators}{fields}\r\n".encode())
            return
        self.full += 1
        fields = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{self.validators}{self.more}"
            "Set-Cookie: visit=1\r\nX-Answer: full\r\nConnection: close\r\n"
        )
        if self.chunked:
            half = len(self.body) // 2
            parts = (self.body[:half], self.body[half:], b"")
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
            connection.sendall(f"{fields}Transfer-Encoding: chunked\r\n\r\n".encode() + body)
        else:
            length = f"Content-Length: {len(self.body)}\r\n\r\n"
            connection.sendall((fields + length).encode() + self.body)


@pytest.fixture
def site(origin: ScriptedOrigin) -> ConfirmingOrigin:
    """Return the origin of the page at `URL`."""
    return ConfirmingOrigin(origin)


async def fetch(
    proxy: ProxyInProcess, *, headers: str = AGENT, confirm_s: float = DAY, bucket: str = "b", login: str = ""
) -> tuple[BrowserResponse, RequestLogEntry]:
    """Visit the page; return what the browser received, and the log entry."""
    visit: ProxyVisit
    async with proxy.client.visit(
        "p", bucket=bucket, login=login, unverified_tls=True, confirm_within_s=confirm_s
    ) as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            response = browser.get(URL, headers=headers)
        (entry,) = await visit.seal(grace_s=5)
    return response, entry


def captures(layout: Layout) -> list[WarcioRecord]:
    """Return the `response` and `revisit` records in order."""
    return [each for each in records(layout) if each.kind in ("response", "revisit")]


_COLUMNS = (
    'url, captured_ms, record_type, mime, status, digest, filename, "offset", length,'
    " orig_filename, orig_offset, orig_length, page_id, truncated"
)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("coded", [False, True])
async def test_confirmed_page_is_a_revisit_and_the_browser_has_it_whole(
    chunked: bool, coded: bool, proxy: ProxyInProcess, site: ConfirmingOrigin
) -> None:
    """Twice in turn; records, index, a rebuilt index, verification and replay agree."""
    site.chunked = chunked
    if coded:
        site.body, site.more = gzip.compress(BODY), "Content-Encoding: gzip\r\n"
    first, original = await fetch(proxy)
    for turn in (1, 2):
        again, entry = await fetch(proxy)
        assert (site.full, site.confirmed) == (1, turn)
        assert again.status == 200
        payload = again.body
        if chunked:
            assert again.headers["transfer-encoding"] == "chunked"
            size, _, rest = payload.partition(b"\r\n")
            assert rest.endswith(b"\r\n0\r\n\r\n")
            assert int(size, 16) >= 1
        else:
            assert payload == first.body == site.body
        assert again.headers["x-answer"] == "confirmed"
        assert again.headers["set-cookie"] == "visit=2"
        assert again.headers["content-type"] == "text/html"
        assert again.headers.get("content-encoding") == ("gzip" if coded else None)
        assert (str(entry.kept), entry.status, entry.mime) == ("revisit", 200, "text/html")
        assert (entry.digest, entry.payload_bytes) == (original.digest, len(site.body))
        assert entry.identified == original.identified
    proxy.stop()
    check(proxy.layout)
    full, *confirmed = captures(proxy.layout)
    for each in confirmed:
        assert (each.kind, each.status, each.payload) == ("revisit", None, b"")
        assert each.headers["WARC-Profile"].endswith("/revisit/server-not-modified")
        assert each.headers["WARC-Refers-To"] == full.headers["WARC-Record-ID"]
        assert each.headers["WARC-Refers-To-Target-URI"] == URL
        assert each.headers["WARC-Refers-To-Date"] == full.headers["WARC-Date"]
        assert each.headers["WARC-Payload-Digest"] == full.headers["WARC-Payload-Digest"]
    before = rows(proxy.layout, f"SELECT {_COLUMNS} FROM captures ORDER BY captured_ms, id")
    assert [row[2] for row in before] == ["response", "revisit", "revisit"]
    assert verify_collection(proxy.layout, jobs=1).faults == []
    rebuild_index(proxy.layout, bucket="b")
    assert rows(proxy.layout, f"SELECT {_COLUMNS} FROM captures ORDER BY captured_ms, id") == before
    with closing(open_database(proxy.layout, "")) as database:
        archive = CaptureArchive(proxy.layout)
        for capture in CaptureLookup(database).captures(URL, datetime.now(UTC)):
            loaded = archive.load(capture, limit=1 << 20)
            assert (loaded.body, loaded.content_type, loaded.status) == (BODY, "text/html", 200)


async def test_changed_page_is_fetched(proxy: ProxyInProcess, site: ConfirmingOrigin) -> None:
    """Its new version is confirmed the next time."""
    await fetch(proxy)
    site.body, site.etag = BODY + b"more", b'"v2"'
    site.validators = 'ETag: "v2"\r\n'
    changed, entry = await fetch(proxy)
    assert (changed.body, str(entry.kept), site.full) == (site.body, "response", 2)
    again, _ = await fetch(proxy)
    assert (again.body, site.full, site.confirmed) == (site.body, 2, 1)


OTHER = {
    "no setting": {"confirm_s": 0.0},
    "too old": {"confirm_s": 0.001},
    "another bucket": {"bucket": "other"},
    "a login": {"login": "member"},
    "another language": {"headers": AGENT.replace(": en", ": de")},
    "another browser": {"headers": AGENT.replace("Browser", "Phone")},
    "a range": {"headers": f"{AGENT}Range: bytes=5-9\r\n"},
    "credentials": {"headers": f"{AGENT}Authorization: Basic eDp5\r\n"},
    "a page that wants no cache": {"headers": f"{AGENT}Cache-Control: no-cache\r\n"},
    "its own condition": {"headers": f'{AGENT}If-None-Match: "v0"\r\n'},
    "what it varies by": {"headers": f"{AGENT}X-Version: 2\r\n"},
}


@pytest.mark.parametrize("kind", OTHER)
async def test_request_that_differs_is_not_made_conditional(
    kind: str, proxy: ProxyInProcess, site: ConfirmingOrigin
) -> None:
    """A response that was archived for one reader is not given to a different one."""
    site.more = "Vary: Accept-Encoding, X-Version\r\n"
    await fetch(proxy)
    await fetch(proxy, **OTHER[kind])  # type: ignore[arg-type]
    assert (site.full, site.confirmed) == (2, 0)


@pytest.mark.parametrize(
    ("validators", "more", "headers"),
    [
        ('ETag: W/"v1"\r\n', "", AGENT),
        ("Last-Modified: Mon, 06 Jan 2025 10:00:00 GMT\r\n", "", AGENT),
        ("Last-Modified: Mon, 06 Jan 2025 10:00:00 GMT\r\nDate: Mon, 06 Jan 2025 10:00:09 GMT\r\n", "", AGENT),
        (VALIDATORS.partition("\r\n")[2], "", f"{AGENT}Cookie: who=me\r\n"),
        (VALIDATORS, "Vary: *\r\n", AGENT),
        (VALIDATORS, "Cache-Control: private, no-store\r\n", AGENT),
        ("", "", AGENT),
    ],
    ids=["weak", "no date", "same minute", "cookie and time", "vary", "no-store", "none"],
)
async def test_weak_validators_are_not_used(
    validators: str, more: str, headers: str, proxy: ProxyInProcess, site: ConfirmingOrigin
) -> None:
    """Two versions may share one: a copy that is not the page's would be shown."""
    site.validators, site.more = validators, more
    await fetch(proxy, headers=headers)
    await fetch(proxy, headers=headers)
    assert (site.full, site.confirmed) == (2, 0)


async def test_confirmed_page_whose_record_is_damaged_is_fetched(proxy: ProxyInProcess, site: ConfirmingOrigin) -> None:
    """The browser has the page all the same."""
    site.body = os.urandom(1 << 20)
    _, original = await fetch(proxy)
    (path,) = proxy.layout.archive.glob("weboid-*")
    with path.open("r+b") as file:
        file.seek(original.offset + original.length // 2)
        file.write(bytes(20))
    again, entry = await fetch(proxy)
    assert (again.status, again.body) == (200, site.body)
    assert (site.full, site.confirmed) == (2, 1)
    assert entry.status == 200


async def test_body_of_a_304_is_not_the_beginning_of_the_next_answer(
    proxy: ProxyInProcess, origin: ScriptedOrigin
) -> None:
    """A server that sends one after it is asked again, through another connection."""

    def confirm(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n')
        later.append(connection.recv(65_536))
        connection.sendall(b"rest" + ok(b"whole"))

    later: list[bytes] = []
    origin.answers |= {"/confirmed": confirm, "/next": ok(b"whole")}
    async with proxy.client.visit("p", bucket="b") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            first = browser.get("http://origin.example/confirmed", headers='If-None-Match: "v1"\r\n')
            second = browser.get("http://origin.example/next")
        entries = await visit.seal(grace_s=5)
    assert (first.status, second.status, second.body) == (304, 200, b"whole")
    assert [each.reason for each in entries] == ["", ""]
    assert [each.split()[1] for each in (*later, origin.requests[-1])] == [b"/next", b"/next"]


async def test_unanswered_request_is_repeated_without_condition(
    proxy: ProxyInProcess, site: ConfirmingOrigin, origin: ScriptedOrigin
) -> None:
    """A repetition within the visit has no browser that could be given the stored payload."""
    await fetch(proxy)
    origin.answers["/page"] = lambda connection, _head: connection.close()
    async with proxy.client.visit("p", bucket="b", confirm_within_s=DAY) as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            assert browser.get(URL, headers=AGENT).status == 502
        assert b"If-None-Match" in origin.requests[-1]
        again = [RefetchRequest(URL, "missing")]
        await visit.ledger(again=again, limit_bytes=1 << 20, grace_s=5)
        await visit.seal(grace_s=5)
    assert b"If-None-Match" not in origin.requests[-1]
    assert b"User-Agent: Browser" in origin.requests[-1]


async def test_index_on_a_server_gives_the_same(
    proxy: ProxyInProcess, site: ConfirmingOrigin, database_url: str
) -> None:
    """Several machines share it; the records are looked for here."""
    await fetch(proxy)
    proxy.stop()
    head = parse_request_head(f"GET /page HTTP/1.1\r\n{AGENT}\r\n".encode())
    copied = rebuild_index(proxy.layout, bucket="b", index=IndexSettings(url=database_url))
    assert copied["captures"] == 1
    responses = []
    for url in ("", database_url):
        with closing(open_database(proxy.layout, url)) as database:
            stored = StoredResponses(proxy.layout.archive, database)
            responses.append(stored.find(URL, head, bucket="b", since_ms=0))
    assert responses[0] is not None
    assert responses[0] == responses[1]
