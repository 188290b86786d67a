"""Visits of one site share a browser context: a real browser, proxy and origin."""

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

import pytest
import pytest_asyncio

from core.clock import SystemClock
from core.config.settings import BehaviourSettings, BrowserSettings, Settings, VisitSettings
from core.layout import Layout
from core.page_manifest import PageInfo, PageResource, VisitOutcome
from crawler.capture.page_capture import CaptureRequest, capture
from crawler.pools.shared_contexts import ContextKey, SharedContextPool
from render.browser import Browser
from render.chromium import find_browser
from tests.support.fixed_pool import fixed_pool
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, WarcioRecord, check, ok, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.asyncio(loop_scope="session")]
SITE = "http://origin.example"
KEY = ContextKey("origin.example", "job", "settings")
CLOCK = SystemClock()
CACHEABLE = "Cache-Control: max-age=3600\r\n"
Take = Callable[..., Awaitable[PageInfo]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Yield one browser for all tests."""
    patient = BrowserSettings(hang_limit_s=86_400.0)
    async with await Browser.launch(patient, find_browser(), clock=CLOCK) as browser:
        yield browser


@pytest.fixture
def contexts() -> SharedContextPool:
    return SharedContextPool(CLOCK)


@pytest.fixture
def take(
    browser: Browser, contexts: SharedContextPool, start: Callable[..., ProxyInProcess], settings: Settings
) -> Take:
    """Capture a path or URL of the origin as the worker does; return the manifest."""
    proxy = start()
    pool = fixed_pool(proxy.client, browser, contexts)

    async def take(path: str, key: ContextKey | None = KEY, **changes: Any) -> PageInfo:
        visit = VisitSettings(timeout_s=20.0, settle_s=0.2, full_page=False, thumbnail=False, favicon=False)
        chosen = replace(settings, visit=replace(visit, **changes), behaviours=BehaviourSettings(run=()))

        async def nothing(_page: PageInfo) -> None:
            return None

        captured = await capture(
            CaptureRequest(urljoin(SITE, path), f"page {path}", last_attempt=True, context=key),
            supervisor=pool,
            settings=chosen,
            clock=CLOCK,
            before_manifest=nothing,
        )
        return captured.page

    return take


def requested(origin: ScriptedOrigin, path: str) -> list[bytes]:
    return [each for each in origin.requests if each.split(b" ")[1] == path.encode()]


def resource(page: PageInfo, path: str) -> PageResource:
    """Return the page's only resource at that path."""
    (entry,) = [each for each in page.resources if each.url == SITE + path]
    return entry


def records_of(layout: Layout, path: str) -> list[WarcioRecord]:
    """Return its captures, in file order."""
    return [each for each in records(layout) if each.url == SITE + path and each.kind in ("response", "revisit")]


def styled(name: str, *, more: str = "") -> bytes:
    """Return a page with a style sheet."""
    return ok(f"<link rel=stylesheet href=/style.css><p>Words of {name}{more}".encode())


async def test_a_site_is_asked_for_a_resource_once(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """The manifest of a later page names the record of an earlier visit that holds it."""
    origin.answers["/style.css"] = ok(b"p{color:red}", mime="text/css", more=CACHEABLE)
    origin.answers |= {"/a": styled("a"), "/b": styled("b")}
    first, second = await take("/a"), await take("/b")
    assert (first.outcome, second.outcome) == (VisitOutcome.COMPLETE, VisitOutcome.COMPLETE)
    assert len(requested(origin, "/style.css")) == 1
    (record,) = records_of(layout, "/style.css")
    cached = resource(second, "/style.css")
    assert (cached.kept, cached.recorded_at) == ("cached", record.headers["WARC-Date"])
    assert cached.digest == record.headers["WARC-Payload-Digest"]
    assert record.headers["WARC-Page-ID"] == "page /a"
    check(layout)


async def test_the_manifest_names_the_record_of_what_the_cache_had(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Not a later one of the same URL, which the browser did not keep; for parts of a file that of the whole."""
    versions = iter((b"p{color:red}", b"p{color:green}"))
    film = bytes(range(256)) * 100

    def style(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(ok(next(versions), mime="text/css", more=f"{CACHEABLE}Connection: close\r\n"))

    def part(connection: socket.socket, head: bytes) -> None:
        more = f'{CACHEABLE}ETag: "film"\r\nConnection: close\r\n'
        match = re.search(rb"(?i)range: bytes=(\d+)-(\d+)", head)
        first, last = (int(match[1]), int(match[2])) if match else (0, len(film) - 1)
        status = "206 Partial Content" if match else "200 OK"
        more += f"Content-Range: bytes {first}-{last}/{len(film)}\r\n" if match else ""
        connection.sendall(ok(film[first : last + 1], mime="video/webm", more=more, status=status))

    passing = (
        "const part = (range) => fetch('/film', {headers: {Range: `bytes=${range}`}}).then((r) => r.arrayBuffer());"
    )
    more = "fetch('/style.css', {cache: 'no-store'}).then((r) => r.text()); part('0-99').then(() => part('50-199'));"
    origin.answers |= {"/style.css": style, "/film": part}
    origin.answers["/a"] = styled("a", more=f"<script>{passing}{more}</script>")
    origin.answers["/b"] = styled("b", more=f"<script>{passing}part('0-99')</script>")
    await take("/a")
    second = await take("/b")

    red, _green = records_of(layout, "/style.css")
    shown = resource(second, "/style.css")
    assert (shown.kept, shown.recorded_at) == ("cached", red.headers["WARC-Date"])
    assert shown.digest == red.headers["WARC-Payload-Digest"]
    (whole,) = [each for each in records_of(layout, "/film") if each.status == "200"]
    assert (resource(second, "/film").status, resource(second, "/film").digest) == (
        206, whole.headers["WARC-Payload-Digest"],
    )  # fmt: skip


async def test_redirects_of_what_a_tab_has_in_memory_are_in_the_manifest(take: Take, origin: ScriptedOrigin) -> None:
    """The browser reports none of them; a copy of the page needs all."""
    style = ok(b"p{color:red}", mime="text/css", more=CACHEABLE)
    ways = {"/style.css": "/way.css", "/way.css": "/end.css"}
    for path, target in ways.items():
        origin.answers[path] = ok(b"", status="301 Moved Permanently", more=f"{CACHEABLE}Location: {target}\r\n")
    origin.answers |= {"/a": styled("a"), "/b": styled("b"), "/end.css": style}
    first, second = await take("/a"), await take("/b")
    parts = [(path, status) for path, status in (("/style.css", 301), ("/way.css", 301), ("/end.css", 200))]
    for page, outcome in ((first, "response"), (second, "cached")):
        resources = [resource(page, path) for path, _ in parts]
        assert [(each.url.removeprefix(SITE), each.status) for each in resources] == parts
        assert {each.kept for each in resources} <= {outcome, "revisit"}
    assert len(requested(origin, "/end.css")) == 1


@pytest.mark.parametrize("more", [CACHEABLE, 'ETag: "1"\r\nCache-Control: no-cache\r\n'], ids=["fresh", "confirmed"])
async def test_a_page_that_an_earlier_one_has_loaded_has_a_record_of_its_own(
    take: Take, origin: ScriptedOrigin, layout: Layout, more: str
) -> None:
    """The browser takes it from its cache; it is fetched again, and its manifest knows the record."""

    def answer(connection: socket.socket, head: bytes) -> None:
        unchanged = b"if-none-match" in head.lower()
        status = "304 Not Modified" if unchanged else "200 OK"
        body = b"" if unchanged else b"<p>Words of b"
        connection.sendall(ok(body, status=status, more=f"{more}Connection: close\r\n"))

    origin.answers |= {"/a": styled("a", more="<script>fetch('/b').then((r) => r.text())</script>"), "/b": answer}
    await take("/a")
    page = await take("/b")
    own = [
        each for each in records_of(layout, "/b") if each.headers["WARC-Page-ID"] == "page /b" and each.status == "200"
    ]
    assert [each.url for each in own] == [f"{SITE}/b"]
    assert (page.outcome, page.status, page.size) == (VisitOutcome.COMPLETE, 200, len("<p>Words of b"))
    assert (resource(page, "/b").kept, resource(page, "/b").refetched) == ("revisit", "unrecorded")


async def test_what_a_page_sends_when_it_is_left_is_its_own_or_refused(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Beacons and keep-alive fetches of a closed tab are never recorded for the next page."""
    leaving = (
        "<script>addEventListener('pagehide', () => {"
        " navigator.sendBeacon('/beacon', 'x');"
        " fetch('/alive', {keepalive: true, method: 'POST', body: 'y'}); })</script>"
    )
    origin.answers |= {"/a": styled("a", more=leaving), "/b": styled("b")}
    _, second = await take("/a"), await take("/b")
    pages = {each.headers["WARC-Page-ID"] for path in ("/beacon", "/alive") for each in records_of(layout, path)}
    assert pages <= {"page /a"}
    assert {each.url for each in second.resources} == {f"{SITE}/b", f"{SITE}/style.css"}


async def test_a_revalidated_resource_refers_to_its_record(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """A 304 is a revisit of the profile server-not-modified that names the earlier visit's record."""
    again = 'ETag: "1"\r\nCache-Control: no-cache\r\n'
    whole = ok(b"p{color:red}", mime="text/css", more=again)

    def answer(connection: Any, head: bytes) -> None:
        unchanged = ok(b"", mime="text/css", status="304 Not Modified", more=again)
        connection.sendall(unchanged if b"if-none-match" in head.lower() else whole)

    origin.answers |= {"/a": styled("a"), "/b": styled("b"), "/style.css": answer}
    _, second = await take("/a"), await take("/b")
    original, confirmed = records_of(layout, "/style.css")
    assert confirmed.headers["WARC-Profile"].endswith("/revisit/server-not-modified")
    assert confirmed.headers["WARC-Refers-To"] == original.headers["WARC-Record-ID"]
    cached = resource(second, "/style.css")
    assert (cached.kept, cached.recorded_at) == ("cached", original.headers["WARC-Date"])
    assert second.outcome is VisitOutcome.COMPLETE


WRITING = """<p><script>
document.write([name, sessionStorage.length, history.length, document.referrer].join());
[name, sessionStorage.kept] = ["left", "left"];
history.pushState(1, "", "#one");
</script>"""


async def test_a_tab_is_used_again_without_what_a_page_left_in_it(
    take: Take, origin: ScriptedOrigin, layout: Layout, browser: Browser
) -> None:
    """The second page is in the same process, and finds what it finds in a tab of its own."""
    origin.answers |= {f"/{name}": ok(WRITING.encode()) for name in "abc"}
    first = await take("/a")
    renderers = browser._process.of_kind("renderer")
    second = await take("/b")

    assert browser._process.of_kind("renderer") == renderers
    assert first.text_digest == second.text_digest == (await take("/c", None)).text_digest


async def test_a_tab_that_crashed_while_no_visit_had_it_is_replaced(
    take: Take, origin: ScriptedOrigin, browser: Browser, contexts: SharedContextPool
) -> None:
    """With its context: the next visit begins with a fresh one."""
    origin.answers |= {"/a": styled("a"), "/b": styled("b")}
    await take("/a")
    ((shared,),) = contexts._idle.values()
    assert shared.context is not None
    before = shared.context
    for process in browser._process.of_kind("renderer"):
        process.kill()
    while before.reusable:
        await asyncio.sleep(0.01)

    assert (await take("/b")).outcome is VisitOutcome.COMPLETE
    assert shared.context is not before


async def test_a_framed_document_has_a_record_for_each_page(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """Take-downs find the pages that frame a document by the records of these pages."""
    framing = ok(b"<p>Words<iframe src=/frame></iframe>")
    origin.answers |= {"/a": framing, "/b": framing, "/frame": ok(b"framed", more=CACHEABLE)}
    await take("/a")
    await take("/b")
    pages = {each.headers["WARC-Page-ID"] for each in records_of(layout, "/frame")}
    assert pages == {"page /a", "page /b"}


async def test_cookies_are_shared_within_a_key(take: Take, origin: ScriptedOrigin) -> None:
    """Neither another site, job or setting sees them, nor a page that is to be fresh."""
    origin.answers["/a"] = ok(b"<p>Words", more="Set-Cookie: seen=yes\r\n")
    await take("/a")
    await take("/within")
    await take("/site", KEY._replace(site="other.example"))
    await take("/job", KEY._replace(job="other"))
    await take("/settings", KEY._replace(settings="other"))
    await take("/fresh", None)
    await take("/old", shared_age_s=0.0)
    are_sent = {
        path: b"seen=yes" in head
        for path in ("/within", "/site", "/job", "/settings", "/fresh", "/old")
        for head in requested(origin, path)
    }
    assert are_sent == {
        "/within": True, "/site": False, "/job": False, "/settings": False, "/fresh": False, "/old": False,
    }  # fmt: skip


HANG = "const wait = new XMLHttpRequest; wait.open('GET', '/never', false); wait.send()"  # needs no processor


def never_answers(connection: socket.socket, _head: bytes) -> None:
    """Hold the connection until its other end is closed."""
    connection.recv(1)


@pytest.mark.parametrize(
    "odd",
    [
        ok(b"<p>Wait", status="503 Service Unavailable"),
        ok(b"<title>Just a moment...</title><p>Checking your browser<div id=challenge-form></div>"),
        ok(f"<p>Words<script>{HANG}</script>".encode()),
    ],
    ids=["refused", "challenge", "hung"],
)
async def test_a_visit_that_ends_badly_ends_the_context(
    take: Take, origin: ScriptedOrigin, contexts: SharedContextPool, odd: bytes
) -> None:
    """The next visit of the site begins with a fresh one."""
    cookie = b"Content-Type: text/html\r\n"
    origin.answers["/never"] = never_answers
    origin.answers["/a"] = odd.replace(cookie, cookie + b"Set-Cookie: seen=yes\r\n", 1)
    await take("/a", timeout_s=6.0)
    assert len(contexts) == 0
    await take("/b")
    (head,) = requested(origin, "/b")
    assert b"seen=yes" not in head


async def test_a_context_has_a_limited_number_of_visits(
    take: Take, origin: ScriptedOrigin, contexts: SharedContextPool
) -> None:
    """It is disposed of after the last one."""
    await take("/a", shared_pages=2)
    assert len(contexts) == 1
    await take("/b", shared_pages=2)
    assert len(contexts) == 0


async def test_two_visits_at_once_have_two_contexts(
    take: Take, origin: ScriptedOrigin, layout: Layout, contexts: SharedContextPool
) -> None:
    """Each request belongs to the page that made it; no context has two pages."""
    paths = [f"/{name}" for name in "abc"]
    for path in paths:
        origin.answers[path] = ok(f"<p>Words<img src={path}.png>".encode())
    await asyncio.gather(*map(take, paths))
    assert len(contexts) == len(paths)
    for path in paths:
        assert [each.headers["WARC-Page-ID"] for each in records_of(layout, f"{path}.png")] == [f"page {path}"]


LEAVING = """<!doctype html><p>Words of PAGE<script>
const send = (kind) => fetch(`/of/PAGE/${kind}/${Math.random()}`, {keepalive: true, method: "POST", body: "x"});
for (const type of ["pagehide", "unload", "visibilitychange", "freeze"]) {
  addEventListener(type, () => {
    navigator.sendBeacon(`/of/PAGE/beacon-${type}/${Math.random()}`, "x");
    for (let n = 0; n < 5; n += 1) send(`alive-${type}`);
    new Image().src = `/of/PAGE/image-${type}/${Math.random()}`;
    const until = performance.now() + 50;
    while (performance.now() < until);
  }, true);
}
setInterval(() => send("interval"), 50);
try { fetchLater(`/of/PAGE/later/1`, {activateAfter: 0}); } catch {}
const loop = "setInterval(() => fetch(`${origin}/of/PAGE/worker/${Math.random()}`), 50)";
const source_of = (text) => "data:text/javascript," + encodeURIComponent(`const origin = "${location.origin}"; ${text}`);
const source = source_of(loop);
new Worker(source);
new SharedWorker(source);
const handshakes = source_of(`${loop}; setInterval(() => new WebSocket("${location.origin}/of/PAGE/socket/" + Math.random()), 50)`);
new SharedWorker(handshakes, {extendedLifetime: true});
addEventListener("pagehide", () => new SharedWorker(handshakes, {extendedLifetime: true, name: "late"}));
const events = new EventSource("/of/PAGE/events/1");
const next = document.createElement("link");
next.rel = "prefetch";
next.href = "/of/PAGE/prefetch/1";
document.head.append(next);
</script>"""


async def test_no_request_of_a_hostile_page_is_taken_for_another_page_s(
    take: Take, origin: ScriptedOrigin, layout: Layout, contexts: SharedContextPool
) -> None:
    """Beacons, keep-alive fetches, workers and timers that go on while the next page is visited."""
    names = [f"p{number}" for number in range(3)]
    for name in names:
        origin.answers[f"/{name}"] = ok(LEAVING.replace("PAGE", name).encode())
    for name in names:
        page = await take(f"/{name}", settle_limit_s=1.0, patience_s=0.5)
        assert page.outcome is VisitOutcome.COMPLETE, page.reason
    assert len(contexts) == 1
    owners = [
        (each.url.split("/of/")[1].split("/")[0], each.headers["WARC-Page-ID"])
        for each in records(layout)
        if "/of/" in each.url and each.kind in ("response", "revisit")
    ]
    assert {owner for owner, _ in owners} == set(names)
    assert [pair for pair in owners if f"page /{pair[0]}" != pair[1]] == []


async def test_an_unchanged_page_is_shown_from_the_archive(take: Take, origin: ScriptedOrigin, layout: Layout) -> None:
    """In a later run the host confirms page and style sheet; the capture is as whole as the first."""
    times = 'ETag: "one"\r\nCache-Control: no-cache\r\n'

    def confirmed(body: bytes, mime: str) -> Callable[[socket.socket, bytes], None]:
        def answer(connection: socket.socket, head: bytes) -> None:
            unchanged = b'If-None-Match: "one"' in head
            connection.sendall(
                f"HTTP/1.1 304 Not Modified\r\n{times}\r\n".encode()
                if unchanged
                else ok(body, mime=mime, more=f"{times}Connection: close\r\n")
            )

        return answer

    page = b"<link rel=stylesheet href=/style.css><p>Words of a page"
    origin.answers["/page"] = confirmed(page, "text/html")
    origin.answers["/style.css"] = confirmed(b"p{color:red}", "text/css")
    first = await take("/page")
    later = await take("/page", KEY._replace(job="later"))
    fresh = await take("/page", None)

    conditional = [b"If-None-Match" in each for each in requested(origin, "/page")]
    assert conditional == [False, True, False]
    for path in ("/page", "/style.css"):
        before, after = resource(first, path), resource(later, path)
        assert (before.kept, after.kept) == ("response", "revisit")
        assert (after.status, after.mime, after.digest) == (200, before.mime, before.digest)
        assert [each.status for each in records_of(layout, path)] == ["200", None, "200"]
    assert (later.outcome, later.status) == (VisitOutcome.COMPLETE, 200)
    assert later.text_digest == first.text_digest == fresh.text_digest
    check(layout)


FILLING = """<p>Words<script>
const opened = indexedDB.open("full");
opened.onupgradeneeded = () => opened.result.createObjectStore("parts", {autoIncrement: true});
opened.onsuccess = () => {
  const filling = opened.result.transaction("parts", "readwrite");
  for (let n = 0; n < 6; n += 1) {
    const part = new Uint8Array(1e6);
    for (let at = 0; at < part.length; at += 65536) crypto.getRandomValues(part.subarray(at, at + 65536));
    filling.objectStore("parts").add(part);
  }
  filling.oncomplete = () => { new Image().src = "/filled"; };
};
fetch("/held");
</script>"""
CROWDED = """<p>Words<script>
for (let n = 0; n < 300; n += 1) {
  new WebSocket(`ws://${location.host}/socket/${n}`);
  new EventSource(`/events/${n}`);
}
</script>"""


VANISHING = """<p>Words<iframe src=http://other.example/gone></iframe><script>
fetch("/held");
onmessage = () => { document.querySelector("iframe").remove(); new Image().src = "/filled"; };
</script>"""


@pytest.mark.parametrize("kind", ["page", "frame", "frame that has gone"])
async def test_a_page_that_fills_storage_ends_the_context(
    take: Take, origin: ScriptedOrigin, contexts: SharedContextPool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete itself, or its frame of another site is; the next page of its site begins with nothing stored."""
    filled = threading.Event()

    def held(connection: socket.socket, _head: bytes) -> None:
        filled.wait(120)
        connection.sendall(ok(b"", more="Connection: close\r\n"))

    def note(connection: socket.socket, _head: bytes) -> None:
        filled.set()
        connection.sendall(ok(b"", more="Connection: close\r\n"))

    # What a frame that has gone has stored shows by the memory of the browser only, and that limit stays as it is.
    if kind != "frame that has gone":
        monkeypatch.setattr("render.visit.STORAGE_LIMIT_BYTES", 5_000_000)
    pages = {"page": FILLING, "frame": "<p>Words<iframe src=http://other.example/frame></iframe>"}
    leaving = (
        FILLING.replace("n < 6", "n < 9")
        .replace("1e6", "1e7")
        .replace('new Image().src = "/filled"', 'parent.postMessage("", "*")')
    )
    origin.answers |= {"/a": ok(pages.get(kind, VANISHING).encode()), "/frame": ok(FILLING.encode())}
    origin.answers |= {"/gone": ok(leaving.encode()), "/held": held, "/filled": note}
    page = await take("/a", settle_limit_s=45.0, timeout_s=60.0)
    assert page.outcome is VisitOutcome.COMPLETE, page.reason
    assert filled.is_set()
    assert len(contexts) == 0


CLOSING = "setTimeout(close, 100)"
ODD = {
    "clears its site's data": ("localStorage.kept = 1", 'Clear-Site-Data: "*"\r\n'),
    "asks to stay": ("onbeforeunload = (leaving) => { leaving.preventDefault(); return 'stay'; }", ""),
    "opens windows": ("for (let n = 0; n < 20; n += 1) open(`/window/${n}`)", ""),
    "closes itself": (f"open('/closing', '_self'); {CLOSING}", ""),
    "downloads": ("for (let n = 0; n < 12; n += 1) location = `/file/${n}`", ""),
    "wants a password": ("new Image().src = '/locked'; fetch('/locked')", ""),
    "shares a worker": ("new SharedWorker('/worker.js')", ""),
    "sets long cookies": (
        "for (let n = 0; n < 90; n += 1) document.cookie = `c${n}=${'x'.repeat(3000)}; domain=origin.example`", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
async def test_the_next_page_of_the_site_is_as_if_it_came_first(
    take: Take, origin: ScriptedOrigin, layout: Layout, kind: str
) -> None:
    """Whatever the page before did: the same requests with the same heads, the same text, and no record of another page."""
    script, more = ODD[kind]
    locked = ok(b"no", status="401 Unauthorized", more='WWW-Authenticate: Basic realm="x"\r\n')
    file = ok(b"file", mime="application/octet-stream", more="Content-Disposition: attachment\r\n")
    origin.answers |= {f"/file/{n}": file for n in range(12)}
    origin.answers |= {
        "/a": ok(f"<p>Words<script>{script}</script>".encode(), more=more),
        "/b": styled("b"),
        "/closing": ok(f"<p>Words<script>{CLOSING}</script>".encode()),
        "/locked": locked,
        "/worker.js": ok(b"setInterval(() => fetch('/alive'), 50)", mime="text/javascript"),
    }
    alone = await take("/b", KEY._replace(job="alone"))
    odd = await take("/a")
    after = await take("/b")
    first, second = requested(origin, "/b")
    others = [each for each in records(layout) if each.url not in (f"{SITE}/b", f"{SITE}/style.css")]

    assert (odd.outcome, after.outcome) == (VisitOutcome.COMPLETE, VisitOutcome.COMPLETE)
    assert after.text_digest == alone.text_digest
    assert {each.url for each in after.resources} == {each.url for each in alone.resources}
    assert first == second
    assert {each.headers["WARC-Page-ID"] for each in others if each.kind == "response"} == {"page /a"}


async def test_hundreds_of_sockets_keep_no_other_site_waiting(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Each is the page's own, and neither the next page of its site nor another site lacks anything."""
    origin.answers |= {"/a": ok(CROWDED.encode()), "/b": styled("b"), "/c": styled("c")}
    other = KEY._replace(site="other.example")
    crowded, away = await asyncio.gather(
        take("/a", settle_limit_s=2.0, patience_s=0.5), take("http://other.example/c", other)
    )
    later = await take("/b")
    assert crowded.outcome is away.outcome is later.outcome is VisitOutcome.COMPLETE
    assert sum(each.resource_type == "WebSocket" for each in crowded.resources) > 200
    assert {each.url for each in later.resources} == {f"{SITE}/b", f"{SITE}/style.css"}
    assert {each.url for each in away.resources} == {"http://other.example/c", "http://other.example/style.css"}
    owners = {
        each.headers["WARC-Page-ID"] for each in records(layout) if "/socket" in each.url or "/events" in each.url
    }
    assert owners <= {"page /a"}


POISONING = """<p>Words<script>
document.cookie = "own=1; domain=origin.example";
document.cookie = "all=1; domain=example";
document.cookie = "theirs=1; domain=other.example";
fetch("/style.css", {headers: {"X-Colour": "wrong"}, cache: "reload"}).then((answer) => answer.text());
fetch("http://other.example/style.css", {mode: "no-cors", cache: "reload"});
</script>"""


async def test_a_poisoned_cache_is_in_the_manifest_and_in_no_other_site(
    take: Take, origin: ScriptedOrigin, layout: Layout
) -> None:
    """The page that is shown with the wrong style sheet names its record; cookies stay within the site."""

    def style(connection: socket.socket, head: bytes) -> None:
        body = b"p{color:red}" if b"x-colour" in head.lower() else b"p{color:green}"
        connection.sendall(ok(body, mime="text/css", more=f"{CACHEABLE}Connection: close\r\n"))

    origin.answers |= {"/a": ok(POISONING.encode()), "/b": styled("b"), "/c": styled("c"), "/style.css": style}
    await take("/a")
    poisoned = await take("/b")
    await take("http://other.example/c", KEY._replace(site="other.example"))

    wrong = next(each for each in records_of(layout, "/style.css") if each.payload == b"p{color:red}")
    shown = resource(poisoned, "/style.css")
    assert (shown.kept, shown.recorded_at) == ("cached", wrong.headers["WARC-Date"])
    assert shown.digest == wrong.headers["WARC-Payload-Digest"]
    (own,), (other,) = requested(origin, "/b"), requested(origin, "/c")
    assert b"own=1" in own
    assert b"all=1" not in own + other
    assert b"cookie" not in other.lower()
    theirs = [
        each for each in records(layout) if each.url == "http://other.example/style.css" and each.kind == "response"
    ]
    assert {each.payload for each in theirs} == {b"p{color:green}"}
