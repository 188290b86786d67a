"""One fetch a page, true types, and what broke asked for again: a real browser, proxy and origin."""

import asyncio
import gzip
import io
import json
import socket
import struct
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from core.clock import SystemClock
from core.config.settings import BehaviourSettings, BrowserSettings, Settings, VisitSettings
from core.digests import sha256_digest
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureRequest, capture
from proxy.control.client import ProxyVisit
from render.browser import Browser
from render.chromium import find_browser
from tests.support.fixed_pool import fixed_pool
from tests.support.proxy_fixtures import Answer, ProxyInProcess, ScriptedOrigin, WarcioRecord, check, ok, records
from tests.warc.test_file_check import rows

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.asyncio(loop_scope="session")]
SITE = "http://origin.example"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f"
    "0005fe02fea7566f380000000049454e44ae426082"
)
PDF = b"%PDF-1.4\n" + b"%" * 100_000 + b"\n%%EOF\n"
CLOCK = SystemClock()
Take = Callable[..., Awaitable[PageInfo]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Yield one browser for all tests; each visit has a context of its own."""
    # Nobody tells the guardian that it is well while the tests of others run.
    patient = BrowserSettings(hang_limit_s=86_400.0)
    async with await Browser.launch(patient, find_browser(), clock=CLOCK) as browser:
        yield browser


@pytest.fixture
def take(browser: Browser, start: Callable[..., ProxyInProcess], settings: Settings) -> Take:
    """Capture a path of the origin as the worker does; return the manifest."""
    proxies: list[ProxyInProcess] = []

    async def take(path: str, site: str = SITE, **changes: Any) -> PageInfo:
        if not proxies:
            proxies.append(start(dedup_min_bytes=1 << 40))
        quick = VisitSettings(
            timeout_s=20.0, settle_s=0.2, settle_limit_s=4.0, full_page=False, thumbnail=False, refetch_s=6.0
        )
        chosen = replace(settings, visit=replace(quick, **changes), behaviours=BehaviourSettings(run=()))

        async def nothing(_page: PageInfo) -> None:
            return None

        captured = await capture(
            CaptureRequest(site + path, "p", last_attempt=True),
            supervisor=fixed_pool(proxies[0].client, browser),
            settings=chosen,
            clock=CLOCK,
            before_manifest=nothing,
        )
        return captured.page

    return take


def requests_for(origin: ScriptedOrigin, path: str) -> list[bytes]:
    """Return the heads of the requests for that path, whatever their query."""
    return [head for head in origin.requests if head.split(b" ")[1].partition(b"?")[0] == path.encode()]


def responses_of(layout: Layout, path: str) -> list[WarcioRecord]:
    """Return the response records of that path."""
    return [each for each in records(layout) if each.kind == "response" and each.url == SITE + path]


def office() -> bytes:
    """Return a minimal Word document: a ZIP file as office programs begin it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        file.writestr("word/document.xml", "<document/>")
    return made.getvalue()


WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
RSS = b"<?xml version='1.0'?><rss version='2.0'><channel><title>News</title></channel></rss>"
TYPES = [
    ("application/pdf", PDF, "", "application/pdf", "pdf"),
    ("text/html", PDF, "", "application/pdf", "pdf"),
    ("application/octet-stream", b"<!doctype html><p>hidden", "", "text/html", ""),
    ("image/png", PNG, "", "image/png", ""),
    ("application/rss+xml", RSS, "", "application/rss+xml", ""),
    ("application/atom+xml", b"<feed xmlns='http://www.w3.org/2005/Atom'/>", "", "application/atom+xml", ""),
    ("application/feed+json", b'{"version": "https://jsonfeed.org/version/1"}', "", "application/feed+json", ""),
    ("application/json", b'{"a": 1}', "", "application/json", ""),
    ("text/xml", b"<?xml version='1.0'?><a/>", "", "text/xml", ""),
    ("text/plain", b"words", "", "text/plain", ""),
    ("application/octet-stream", office(), "", WORD, "binary"),
    ("application/msword", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 900, "", "application/msword", "msword"),
    ("application/zip", b"PK\x03\x04" + b"\0" * 90, "", "application/zip", "zip"),
    ("text/plain", b"words", "attachment; filename=\"a b.txt\"", "text/plain", ""),
    ("text/html", b"<p>a file", "attachment; filename*=UTF-8''%e2%82%ac.html", "text/html", ""),
    ("", b"\x1f\x8b\x08" + b"\0" * 90, "", "application/gzip", "gzip"),
    ("text/html", b"", "", "text/html", ""),
]  # fmt: skip


async def test_the_first_response_decides_and_is_the_only_one(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Shown or not: asked for once, kept whole, with its type by its own bytes (W66)."""
    for number, (mime, body, disposition, _, _) in enumerate(TYPES):
        more = f"Content-Disposition: {disposition}\r\n" if disposition else ""
        answer = ok(body, mime=mime, more=more)
        origin.answers[f"/{number}"] = answer if mime else answer.replace(b"Content-Type: \r\n", b"")
    pages = await asyncio.gather(*(take(f"/{number}") for number in range(len(TYPES))))
    payloads = {each.url: each.payload for each in records(layout) if each.kind == "response"}
    facts_by_number = {
        number: (page.true_type, page.format, page.size)
        for number, page in enumerate(pages)
        if len(requests_for(origin, f"/{number}")) == 1 and (page.status, page.reason) == (200, "")
    }

    assert facts_by_number == {number: (true, name, len(body)) for number, (_, body, _, true, name) in enumerate(TYPES)}
    assert [payloads.get(page.url) for page in pages] == [body for _, body, *_ in TYPES]
    assert [page.filename for page in pages if page.filename] == ["a b.txt", "€.html"]
    assert [page.title for page in pages if page.filename] == ["a b.txt", "€.html"]


async def test_the_record_says_what_the_payload_is(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """WARC-Identified-Payload-Type, also through a content coding; not where nothing is known."""
    origin.answers["/it"] = ok(b"<link rel=stylesheet href=/a.css><img src=/b.png>")
    origin.answers["/a.css"] = ok(b"p { color: red }", mime="text/css")
    packed = gzip.compress(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    origin.answers["/b.png"] = ok(packed, mime="image/png", more="Content-Encoding: gzip\r\n")
    await take("/it")
    type_by_path = {
        each.url.removeprefix(SITE): each.headers.get("WARC-Identified-Payload-Type")
        for each in records(layout)
        if each.kind == "response"
    }

    assert type_by_path["/it"] == "text/html"
    assert type_by_path["/a.css"] is None
    assert type_by_path["/b.png"] == "image/svg+xml"
    check(layout)


async def test_an_answer_without_content_is_one_answer(take: Take, origin: ScriptedOrigin) -> None:
    """It is asked for once, and there is nothing to show."""
    for status in ("204", "205", "304"):
        origin.answers[f"/{status}"] = f"HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n".encode()
    pages = await asyncio.gather(*(take(f"/{status}") for status in (204, 205, 304)))

    assert [page.status for page in pages] == [204, 205, 304]
    assert [len(requests_for(origin, f"/{page.status}")) for page in pages] == [1, 1, 1]
    assert [page.missing for page in pages] == [(), (), ()]


PAGES = {
    "a redirect": ok(b"", status="302 Found", more="Location: /file\r\n"),
    "meta refresh": ok(b"<meta http-equiv=refresh content='0; url=/file'><p>soon"),
    "window.location": ok(b"<p>soon<script>location = '/file'</script>"),
    "a click": ok(b"<a id=a href=/file download>x</a><script>a.click()</script>"),
    "a frame": ok(b"<iframe src=/file></iframe>"),
}


async def test_a_download_by_any_way_is_fetched_once_and_whole(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """The browser turns it down; the proxy fetches the rest from the same response, however slow."""
    resting = threading.Event()

    def slowly(connection: socket.socket, _head: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: {len(PDF)}\r\n\r\n"
        connection.sendall(head.encode() + PDF[:10_000])
        resting.wait(1.5)  # longer than any grace: such is the origin
        connection.sendall(PDF[10_000:])

    for number, page in enumerate(PAGES.values()):
        origin.answers[f"/{number}"] = page.replace(b"/file", b"/fil%d" % number)
        origin.answers[f"/fil{number}"] = slowly
    pages = await asyncio.gather(*(take(f"/{number}") for number in range(len(PAGES))))
    captures = [responses_of(layout, f"/fil{number}") for number in range(len(PAGES))]

    assert [len(requests_for(origin, f"/fil{number}")) for number in range(len(PAGES))] == [1] * len(PAGES)
    assert [[each.payload == PDF for each in one] for one in captures] == [[True]] * len(PAGES)
    assert [(page.outcome, page.reason) for page in pages] == [(VisitOutcome.COMPLETE, "")] * len(PAGES)
    assert (pages[0].final_url, pages[0].format) == (f"{SITE}/fil0", "pdf")


def once_broken(answer: bytes, *, cut_at: int = 0) -> Answer:
    """Close the first connection early; answer the second request."""
    seen: list[bytes] = []

    def respond(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        connection.sendall(answer[:cut_at] if len(seen) == 1 else answer)

    return respond


def never(connection: socket.socket, _head: bytes) -> None:
    """Close every connection without an answer."""
    connection.shutdown(socket.SHUT_RDWR)


async def test_what_broke_is_asked_for_again(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """A response that breaks off: the same request once more, its answer kept, the page complete."""
    origin.answers["/it"] = ok(b"<img src=/a.png>", more="Set-Cookie: c=1\r\n")
    image = ok(PNG, mime="image/png")
    origin.answers["/a.png"] = once_broken(image, cut_at=len(image) - 9)
    page = await take("/it")
    first, again = requests_for(origin, "/a.png")

    assert (page.outcome, page.reason, page.missing) == (VisitOutcome.COMPLETE, "", ())
    assert [(gap.url, gap.kept) for gap in page.refetched] == [(f"{SITE}/a.png", "response")]
    assert page.refetched[0].reason.startswith("disconnected:")
    assert again == first
    assert b"Cookie: c=1" in again
    assert [len(each.payload) for each in responses_of(layout, "/a.png")] == [len(PNG) - 9, len(PNG)]
    (resource,) = (each for each in page.resources if each.url.endswith("a.png"))
    assert (resource.kept, resource.status, resource.reason) == ("response", 200, "")
    assert resource.refetched.startswith("disconnected:")


async def test_a_download_that_broke_is_asked_for_again(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """Nobody has seen it, so its second answer is as good as the first."""
    answer = ok(PDF, mime="application/pdf")
    origin.answers["/it"] = once_broken(answer, cut_at=5_000)
    page = await take("/it")

    assert (page.outcome, page.reason, page.size) == (VisitOutcome.COMPLETE, "", len(PDF))
    assert [len(each.payload) == len(PDF) for each in responses_of(layout, "/it")] == [False, True]


async def test_what_stays_missing_is_listed_and_makes_the_page_partial(take: Take, origin: ScriptedOrigin) -> None:
    """Once more, and no more; the reason is the last one."""
    origin.answers["/it"] = ok(b"<img src=/a.png>")
    origin.answers["/a.png"] = never
    page = await take("/it")
    # Chromium asks again by itself when a connection ends without an answer.
    by_browser = len(requests_for(origin, "/a.png")) - 1

    assert page.outcome is VisitOutcome.PARTIAL
    assert page.reason.startswith("missing: 1 of ")
    assert [(gap.url, gap.kept) for gap in page.missing] == [(f"{SITE}/a.png", "failed")]
    assert page.missing[0].reason.startswith("disconnected:")
    assert len(page.refetched) == 1
    assert by_browser >= 1


async def test_the_origins_own_errors_are_answers(take: Take, origin: ScriptedOrigin) -> None:
    """They are kept as they came, and not asked for again."""
    for status in (403, 404, 410, 500, 503):
        origin.answers[f"/{status}.png"] = ok(b"no", status=f"{status} No")
    origin.answers["/it"] = ok(b"".join(b"<img src=/%d.png>" % s for s in (403, 404, 410, 500, 503)))
    page = await take("/it")

    assert [len(requests_for(origin, f"/{status}.png")) for status in (403, 404, 410, 500, 503)] == [1] * 5
    assert (page.outcome, page.refetched, page.missing) == (VisitOutcome.COMPLETE, (), ())


async def test_a_part_that_the_page_gave_up_is_fetched_but_no_call(take: Take, origin: ScriptedOrigin) -> None:
    """An image whose answer the page did not wait for is wanted; a call of its script is not."""

    def late(connection: socket.socket, head: bytes) -> None:
        if not gave_up.wait(120):
            return
        connection.sendall(ok(PNG, mime="image/png"))

    gave_up = threading.Event()

    def receive_beacon(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(ok(b"thanks"))
        gave_up.set()

    origin.answers["/it"] = ok(
        b"<script>const i = new Image(); i.src = '/late.png'; const c = new AbortController();"
        b"fetch('/late.json', {signal: c.signal}).catch(() => 0);"
        b"setTimeout(() => { i.src = ''; c.abort(); fetch('/beacon') }, 300)</script>"
    )
    origin.answers["/late.png"] = origin.answers["/late.json"] = late
    origin.answers["/beacon"] = receive_beacon
    page = await take("/it")
    kept_by_path = {each.url.removeprefix(SITE): each.kept for each in page.resources}

    assert (page.outcome, page.missing) == (VisitOutcome.COMPLETE, ())
    assert kept_by_path["/late.png"] == "response"
    assert len(requests_for(origin, "/late.png")) == 1
    assert len(requests_for(origin, "/late.json")) == 1


async def test_a_part_that_never_ends_is_cut_and_named(take: Take, origin: ScriptedOrigin) -> None:
    """It is waited for as long as the profile says, not asked for again."""

    def endless(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n" + PNG[:20])
        connection.recv(1)

    origin.answers["/it"] = ok(b"<img src=/a.png>")
    origin.answers["/a.png"] = endless
    page = await take("/it", settle_limit_s=0.5, refetch_s=0.5)

    assert len(requests_for(origin, "/a.png")) == 1
    assert page.outcome is VisitOutcome.PARTIAL
    assert [(gap.url, gap.reason) for gap in page.missing] == [(f"{SITE}/a.png", "unfinished")]


async def test_the_limits_of_asking_again_hold(take: Take, origin: ScriptedOrigin) -> None:
    """No more requests than the profile allows; the rest is named as it is."""
    images = b"".join(b"<img src=/%d.png>" % number for number in range(4))
    origin.answers["/it"] = ok(images)
    for number in range(4):
        origin.answers[f"/{number}.png"] = never
    page = await take("/it", refetch_requests=2)

    assert (len(page.refetched), len(page.missing)) == (2, 4)
    assert page.reason.startswith("missing: 4 of ")


async def test_no_more_bytes_come_of_asking_again_than_allowed(take: Take, origin: ScriptedOrigin) -> None:
    """A body over the limit is cut, and the gap names the limit."""
    origin.answers["/it"] = ok(b"<img src=/a.png>")
    image = ok(PNG + b"\0" * 3_000_000, mime="image/png")
    origin.answers["/a.png"] = once_broken(image, cut_at=300)
    page = await take("/it", refetch_bytes=100_000)

    assert page.outcome is VisitOutcome.PARTIAL
    assert [gap.reason for gap in page.missing] == ["limit: refetch_limit_bytes"]


async def test_redirects_of_what_is_asked_again_are_followed(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """As the browser would have done."""
    origin.answers["/it"] = ok(b"<img src=/a.png>")
    moved = ok(b"", status="302 Found", more="Location: /b.png\r\n")
    seen: list[bytes] = []

    def respond(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        if len(seen) > 2:  # the browser itself tries twice
            connection.sendall(moved)

    origin.answers["/a.png"] = respond
    origin.answers["/b.png"] = ok(PNG, mime="image/png")
    page = await take("/it")

    assert (page.outcome, page.missing) == (VisitOutcome.COMPLETE, ())
    assert [each.payload for each in responses_of(layout, "/b.png")] == [PNG]


async def test_what_the_deadline_left_unasked_is_asked_for_and_the_rest_named(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Six silent images hold up a seventh (a browser asks a host six at a time): it is not lost."""

    def silent(connection: socket.socket, _head: bytes) -> None:
        connection.recv(1)

    names = [f"/{number}.png" for number in range(6)]
    images = "".join(f"<img src={name}>" for name in (*names, "/good.png"))
    origin.answers["/it"] = ok(f"<p>words{images}".encode(), more="Set-Cookie: c=1\r\n")
    origin.answers |= dict.fromkeys(names, silent)
    origin.answers["/good.png"] = ok(PNG, mime="image/png")
    page = await take("/it", timeout_s=2.0, settle_limit_s=30.0)
    (head,) = requests_for(origin, "/good.png")
    (again,) = (each for each in page.refetched if each.url.endswith("good.png"))

    assert page.outcome is VisitOutcome.PARTIAL
    assert {gap.url: gap.reason for gap in page.missing} == dict.fromkeys([SITE + name for name in names], "unfinished")
    assert (again.url, again.reason, again.kept) == (f"{SITE}/good.png", "unasked", "response")
    assert [each.payload for each in responses_of(layout, "/good.png")] == [PNG]
    assert f"Referer: {SITE}/it\r\n".encode() in head
    assert b"Accept: image/avif" in head
    assert b"User-Agent: Mozilla/5.0" in head
    assert b"Cookie" not in head


def tone(seconds: float) -> bytes:
    """Return an 8 kHz mono WAV file."""
    data = bytes(int(8000 * seconds))
    format_ = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", 16) + format_ + b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", len(body) + len(data)) + body + data


@pytest.mark.parametrize("element", ["audio", "video"])
async def test_media_asked_for_in_parts_is_one_whole_record(
    take: Take, origin: ScriptedOrigin, layout: Layout, element: str
) -> None:
    """The player's first range is all of it: the origin is asked once, for the whole."""
    sound = tone(2)

    def ranged(connection: socket.socket, head: bytes) -> None:
        parts = "Accept-Ranges: bytes\r\n"
        if b"range: bytes=" in head.lower():
            start = int(head.lower().split(b"range: bytes=")[1].split(b"-")[0])
            parts += f"Content-Range: bytes {start}-{len(sound) - 1}/{len(sound)}\r\n"
            status, body = "206 Partial Content", sound[start:]
        else:
            status, body = "200 OK", sound
        connection.sendall(ok(body, mime="audio/wav", status=status, more=parts))

    origin.answers["/a.wav"] = ranged
    origin.answers["/it"] = ok(
        f"<p id=p>-<{element} src=/a.wav preload=auto muted "
        "oncanplaythrough='p.textContent = String(this.duration)'>".encode()
    )
    page = await take("/it")
    whole = [each for each in responses_of(layout, "/a.wav") if each.status == "200"]
    text = next(each.payload for each in records(layout) if each.url == f"urn:text:{SITE}/it")

    assert [each.payload for each in whole] == [sound]
    assert b"range:" not in requests_for(origin, "/a.wav")[0].lower()
    assert len(requests_for(origin, "/a.wav")) == 1
    assert text == b"2"
    assert (page.outcome, page.missing) == (VisitOutcome.COMPLETE, ())


async def test_a_page_with_all_its_parts_costs_one_question(
    take: Take, origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for and nothing asked again."""
    questions: list[dict[str, Any]] = []
    ask = ProxyVisit.ledger

    async def counted(self: ProxyVisit, **given: Any) -> Any:
        questions.append(given)
        return await ask(self, **given)

    monkeypatch.setattr(ProxyVisit, "ledger", counted)
    origin.answers["/it"] = ok(b"<img src=/a.png>")
    origin.answers["/a.png"] = ok(PNG, mime="image/png")
    page = await take("/it")

    assert questions == [{}]
    assert page.outcome is VisitOutcome.COMPLETE
    json.loads(page.to_json())


async def test_what_a_service_worker_makes_is_a_resource_that_hides_no_response(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Its text is archived under its URL, but not where the site itself answered or for another site."""
    site = "http://application.localhost"  # elsewhere service workers need https
    origin.answers["/it"] = ok(
        b"""<p id=said>Waiting<script>(async () => {
        await navigator.serviceWorker.register("/worker.js");
        await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done));
        const names = ["/made.txt", "/sent.txt", "http://other.example/made.txt"];
        for (const name of names) said.textContent += ` ${await (await fetch(name)).text()}`;
        })()</script>"""
    )
    origin.answers["/worker.js"] = ok(
        b"""addEventListener("install", () => skipWaiting());
        addEventListener("activate", (event) => event.waitUntil(clients.claim()));
        addEventListener("fetch", (event) => event.respondWith((async () => {
          if (event.request.url.endsWith("sent.txt")) await fetch(event.request);
          return new Response("made", { headers: { "Content-Type": "text/plain" } });
        })()));""",
        mime="text/javascript",
    )
    origin.answers["/sent.txt"] = ok(b"sent", mime="text/plain")
    page = await take("/it", site)

    assert (page.outcome, page.reason) == (VisitOutcome.COMPLETE, "")
    made = {(each.url, each.kept, each.digest) for each in page.resources if each.url[-4:] == ".txt"}
    stored = {each.url: each for each in records(layout) if each.url[-4:] == ".txt" and each.kind != "request"}
    assert made == {
        (f"{site}/made.txt", "synthesised", sha256_digest(b"made")),
        (f"{site}/sent.txt", "response", sha256_digest(b"sent")),
        ("http://other.example/made.txt", "left-out", ""),
    }
    assert {url: (each.kind, each.payload) for url, each in stored.items()} == {
        f"{site}/made.txt": ("resource", b"made"),
        f"{site}/sent.txt": ("response", b"sent"),
    }
    assert rows(layout, "SELECT url FROM captures WHERE record_type = 'resource' AND url LIKE 'http%.txt'") == [
        (f"{site}/made.txt",)
    ]
    check(layout)
