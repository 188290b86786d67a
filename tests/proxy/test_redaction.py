"""Visits with a login: no record holds what a session is known by, and none shares a payload."""

import gzip
import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies

from core.config.settings import IndexSettings
from core.layout import Layout
from net.http1 import parse_response_head
from proxy.control.client import NewArtifact
from proxy.redaction import redact_request, redact_response
from proxy.request_log import RefetchRequest, RequestLogEntry, RequestOutcome
from tests.support.proxy_fixtures import (
    BrowserResponse,
    ProxyBrowser,
    ProxyInProcess,
    ScriptedOrigin,
    check,
    ok,
    records,
)
from warc.rebuild import rebuild_index

pytestmark = pytest.mark.proxy
URL = "http://origin.example/page"
SECRET = "s3cr3t"
SENT = f"Cookie: sid={SECRET}; theme={SECRET}\r\nAuthorization: Bearer {SECRET}\r\nX-CSRF-Token: {SECRET}\r\n"


async def visit(proxy: ProxyInProcess, login: str, bucket: str = "b") -> tuple[BrowserResponse, list[RequestLogEntry]]:
    """Fetch one page in a visit with that login."""
    async with proxy.client.visit(f"p-{login}", bucket=bucket, login=login) as visit:
        given = visit.credentials
        client = ProxyBrowser(proxy.port, given.username, given.password)
        response = client.get(URL, headers=SENT)
        client.close()
        return response, await visit.seal(grace_s=1)


def stored(layout: Layout) -> bytes:
    """Return the contents of all WARCs, unpacked."""
    return b"".join(gzip.decompress(path.read_bytes()) for path in layout.archive.glob("*.gz*"))


async def test_no_record_holds_the_secrets_of_a_login(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Origin and browser see them; the WARC has names and attributes, and says whose login it was."""
    cookie = f"Set-Cookie: sid={SECRET}{SECRET}; Path=/; HttpOnly\r\n"
    origin.answers["/page"] = ok(b"for you alone", more=cookie)
    response, entries = await visit(proxy, "wiki")
    assert proxy.stop() == 0

    assert SECRET in origin.requests[0].decode()
    assert SECRET in response.headers["set-cookie"]
    text = stored(layout)
    assert SECRET.encode() not in text
    assert b"Cookie: sid=(withheld); theme=(withheld)\r\n" in text
    assert b"Authorization: (withheld)\r\n" in text
    assert b"Set-Cookie: sid=(withheld); Path=/; HttpOnly\r\n" in text
    assert text.count(b"WARC-Login: wiki\r\n") == 2
    assert entries[0].kept is RequestOutcome.RESPONSE
    assert [each.payload for each in records(layout) if each.kind == "response"] == [b"for you alone"]
    check(layout)


async def test_what_is_asked_again_is_asked_with_the_login(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """The site gets the cookie itself, never what stands in the record for it."""

    def break_off(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbroken off")
        connection.shutdown(socket.SHUT_RDWR)

    origin.answers["/page"] = break_off
    async with proxy.client.visit("p", bucket="b", login="wiki") as visit:
        given = visit.credentials
        client = ProxyBrowser(proxy.port, given.username, given.password)
        client.send_only(f"GET {URL} HTTP/1.1\r\nHost: origin.example\r\n{client.authorization}{SENT}\r\n".encode())
        client.rest()
        client.close()
        origin.answers["/page"] = ok(b"whole")
        await visit.ledger(again=[RefetchRequest(URL, "missing")], await_s=10, awaited=[URL], limit_bytes=1000)
        await visit.seal(grace_s=1)
    assert proxy.stop() == 0

    assert [request.count(SECRET.encode()) for request in origin.requests] == [4, 4]
    assert SECRET.encode() not in stored(layout)


async def test_a_visit_without_a_login_is_recorded_as_it_was(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Byte for byte: cookies that a site gives to everyone are nobody's secret."""
    origin.answers["/page"] = ok(b"for all", more="Set-Cookie: a=1\r\n")
    await visit(proxy, "")
    assert proxy.stop() == 0

    assert f"sid={SECRET}".encode() in stored(layout)
    assert b"WARC-Login" not in stored(layout)


async def test_nothing_refers_to_the_payload_of_a_login(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """The same bytes are written again for the public and for another login; not for the same."""
    origin.answers["/page"] = ok(b"the same for everyone")
    outcomes = [(await visit(proxy, login))[1][0].kept for login in ("wiki", "", "other", "wiki", "")]
    assert proxy.stop() == 0

    assert outcomes == [
        RequestOutcome.RESPONSE,
        RequestOutcome.RESPONSE,
        RequestOutcome.RESPONSE,
        RequestOutcome.REVISIT,
        RequestOutcome.REVISIT,
    ]


@pytest.mark.parametrize("login", ["wiki", ""])
async def test_every_row_of_a_login_names_it(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout, login: str
) -> None:
    """Artifacts of the page, too; a rebuilt index has the same."""
    origin.answers["/page"] = ok(b"for you alone")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    async with proxy.client.visit("p", bucket="b", login=login) as visit:
        given = visit.credentials
        client = ProxyBrowser(proxy.port, given.username, given.password)
        client.get(URL)
        client.close()
        await visit.write([NewArtifact(f"urn:text:{URL}", "text/plain", b"for you")], document=URL, date=at)
        await visit.seal(grace_s=1)
    assert proxy.stop() == 0

    def logins() -> set[tuple[str, str | None]]:
        with closing(sqlite3.connect(layout.captures_db)) as database:
            return set(database.execute("SELECT url, login FROM captures"))

    expected = {(URL, login or None), (f"urn:text:{URL}", login or None)}
    assert logins() == expected
    rebuild_index(layout, bucket="b", index=IndexSettings())
    assert logins() == expected
    assert stored(layout).count(b"WARC-Login: wiki\r\n") == (3 if login else 0)


async def test_an_index_rebuilt_keeps_them_apart(
    proxy: ProxyInProcess, origin: ScriptedOrigin, start: object, layout: Layout
) -> None:
    """The WARCs themselves say which payloads are a login's."""
    origin.answers["/page"] = ok(b"for you alone")
    await visit(proxy, "wiki", bucket="default")
    assert proxy.stop() == 0
    rebuild_index(layout, bucket="default", index=IndexSettings())
    again = start("again")  # type: ignore[operator]

    public, own = await visit(again, "", bucket="default"), await visit(again, "wiki", "default")
    assert again.stop() == 0
    assert (public[1][0].kept, own[1][0].kept) == (RequestOutcome.RESPONSE, RequestOutcome.REVISIT)


NAMES = strategies.sampled_from(
    ["cookie", "Cookie", "COOKIE", "Authorization", "X-Auth-Token", "x-session-id", "X-Api-Key"]
)


@given(
    NAMES,
    strategies.lists(strategies.sampled_from([" ", "\r\n ", "; ", "; b=", "=", "\t"]), max_size=8),
    strategies.sampled_from(["\r\n", "\n"]),
)
def test_however_a_secret_is_spelled_it_is_left_out(name: str, marks: list[str], end: str) -> None:
    """Folded lines, lone names, bare line ends; what stands around it stays."""
    line = f"{name}: a={SECRET}{''.join(mark + SECRET for mark in marks)}"
    request = f"GET / HTTP/1.1\r\nHost: a\r\n{line}{end}Accept: */*\r\n\r\n{SECRET}"
    redacted_request = redact_request(request.encode())

    head, _, body = redacted_request.partition(b"\r\n\r\n")
    assert SECRET.encode() not in head.replace(f"; {SECRET}=".encode(), b"")
    assert head.startswith(b"GET / HTTP/1.1\r\nHost: a\r\n")
    assert head.endswith(b"Accept: */*")
    assert body == SECRET.encode()


def test_a_response_without_cookies_is_not_changed() -> None:
    """Nothing but secrets is touched."""
    raw = b"HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\nContent-Type: text/html\r\n\r\n"

    assert redact_response(parse_response_head(raw)).raw == raw
