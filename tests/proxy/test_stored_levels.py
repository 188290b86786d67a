"""Stored levels at the proxy: what a visit's level leaves out is not recorded, however it is asked for."""

import socket

import pytest

from core.config.stored_level import StoredLevel
from core.errors import InputError
from core.layout import Layout
from proxy.request_log import RefetchRequest, RequestLogEntry, RequestOutcome
from tests.support.proxy_fixtures import (
    Answer,
    BrowserResponse,
    ProxyBrowser,
    ProxyInProcess,
    ScriptedOrigin,
    check,
    ok,
    records,
)

pytestmark = pytest.mark.proxy
SITE = "http://origin.example"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 4_000
MP4 = b"\0\0\0\x20ftypisom" + b"\0" * 4_000
WOFF = b"wOF2" + b"\0" * 4_000
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


def _until_closed(connection: socket.socket, _: bytes) -> None:
    """Answer without a length: the body ends with the connection."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + PNG[:40])


ANSWERS: dict[str, bytes | Answer] = {
    "/page": ok(b"<!doctype html><p>words"),
    "/style": ok(b"p {}", mime="text/css"),
    "/data": ok(b'{"a": 1}', mime="application/json"),
    "/paper": ok(b"%PDF-1.7", mime="application/pdf"),
    "/image": ok(PNG, mime="image/png"),
    "/drawing": ok(SVG, mime="image/svg+xml"),
    "/inline": ok(b"<!doctype html>" + SVG),
    "/font": ok(WOFF, mime="font/woff2"),
    "/film": ok(MP4, mime="video/mp4"),
    "/playlist": ok(b"#EXTM3U", mime="application/vnd.apple.mpegurl"),
    "/nameless-image": ok(PNG, mime="text/html"),
    "/nameless-font": ok(WOFF, mime="application/octet-stream"),
    "/nameless-film": ok(MP4, mime="application/octet-stream"),
    "/small-image": _until_closed,
    "/moved": ok(b"", mime="image/png", status="302 Found", more="Location: /page\r\n"),
    "/lost": ok(PNG, mime="image/png", status="404 Not Found"),
}
WORDS = {"/page", "/style", "/data", "/paper", "/inline", "/moved"}
MEDIA = {"/film", "/playlist", "/nameless-film"}
RECORDED = {StoredLevel.TEXT: WORDS, StoredLevel.NO_MEDIA: set(ANSWERS) - MEDIA, StoredLevel.EVERYTHING: set(ANSWERS)}


async def ask(
    proxy: ProxyInProcess, level: StoredLevel, paths: list[str], headers: str = ""
) -> tuple[dict[str, BrowserResponse], list[RequestLogEntry]]:
    """Return what a browser gets in a visit at that level, and the ledger."""
    async with proxy.client.visit("p", bucket="b", stored=level) as visit:
        given = visit.credentials
        client = ProxyBrowser(proxy.port, given.username, given.password)
        responses = {}
        for path in paths:
            responses[path] = client.get(SITE + path, headers=headers)
            if responses[path].headers.get("connection") == "close":
                client.close()
        client.close()
        return responses, await visit.seal(grace_s=1)


@pytest.mark.parametrize("level", list(StoredLevel))
async def test_stored_level_decides_by_type_and_first_bytes(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout, level: StoredLevel
) -> None:
    """The declared type counts, and the bytes where it says something else; the rest is recorded."""
    origin.answers |= ANSWERS
    responses, entries = await ask(proxy, level, list(ANSWERS))
    assert proxy.stop() == 0

    written = [each for each in records(layout) if each.kind in {"response", "revisit"}]
    stored_paths = {each.url.removeprefix(SITE) for each in written}
    assert stored_paths == RECORDED[level]
    out = {each.url.removeprefix(SITE): each for each in entries if each.kept is RequestOutcome.LEFT_OUT}
    assert set(out) == set(ANSWERS) - RECORDED[level]
    assert all(each.reason.startswith("level: ") and not each.digest for each in out.values())
    # The head of a body without a length may have been passed on before the bytes told.
    refusals = [responses[path] for path in out if path != "/small-image"]
    assert all(each.status == 403 and not each.body for each in refusals)
    requests = {each.url.removeprefix(SITE) for each in records(layout) if each.kind == "request"}
    assert requests == RECORDED[level]
    check(layout)


@pytest.mark.parametrize(
    ("destination", "level", "is_asked"),
    [
        ("image", StoredLevel.TEXT, False),
        ("font", StoredLevel.TEXT, False),
        ("video", StoredLevel.TEXT, False),
        ("video", StoredLevel.NO_MEDIA, False),
        ("audio", StoredLevel.NO_MEDIA, False),
        ("image", StoredLevel.NO_MEDIA, True),
        ("script", StoredLevel.TEXT, True),
        ("empty", StoredLevel.TEXT, True),
        ("video", StoredLevel.EVERYTHING, True),
    ],
)
async def test_stored_level_spares_the_origin_when_the_browser_names_the_destination(
    proxy: ProxyInProcess, origin: ScriptedOrigin, destination: str, level: StoredLevel, *, is_asked: bool
) -> None:
    """A response that cannot be recorded is not fetched."""
    origin.answers["/any"] = ok(b"text", mime="text/plain")
    responses, entries = await ask(proxy, level, ["/any"], f"Sec-Fetch-Dest: {destination}\r\n")
    assert bool(origin.requests) is is_asked
    assert entries[0].kept is (RequestOutcome.RESPONSE if is_asked else RequestOutcome.LEFT_OUT)
    assert responses["/any"].status == (200 if is_asked else 403)


async def test_stored_level_ends_a_body_whose_bytes_come_late(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """A head that lies has been passed on already: the connection is cut and nothing recorded."""
    passed_on = []

    def late(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        connection.sendall(b"\0")
        connection.sendall(MP4[1:2_000])
        passed_on.append(connection.recv(1))

    origin.answers["/late"] = late
    async with proxy.client.visit("p", bucket="b", stored=StoredLevel.NO_MEDIA) as visit:
        client = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        assert len(client.get(f"{SITE}/late").body) < 100_000
        client.close()
        entries = await visit.seal(grace_s=1)
    assert proxy.stop() == 0
    assert [each.kept for each in entries] == [RequestOutcome.LEFT_OUT]
    assert not [each for each in records(layout) if each.kind == "response"]


async def test_stored_level_holds_for_what_is_asked_again(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """A second request is no way around the level."""
    origin.answers["/image"] = ANSWERS["/image"]
    async with proxy.client.visit("p", bucket="b", stored=StoredLevel.TEXT) as visit:
        await visit.ledger(again=[RefetchRequest(f"{SITE}/image", "test")], limit_bytes=1 << 20, await_s=5)
        entries = await visit.seal(grace_s=1)
    assert proxy.stop() == 0
    assert [each.kept for each in entries] == [RequestOutcome.LEFT_OUT]
    assert not [each for each in records(layout) if each.kind == "response"]


async def test_stored_level_that_is_none_opens_no_visit(proxy: ProxyInProcess) -> None:
    """A worker that asks for what this proxy does not know is told so, and nothing is recorded."""
    with pytest.raises(InputError):
        async with proxy.client.visit("p", bucket="b", stored="most"):  # type: ignore[arg-type]
            pass
