"""Pages by the browser's own connections: a real Chromium, a real proxy, origins that refuse the recorder."""

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
import pytest_asyncio

from bench.certificate import write_certificate
from core.clock import SystemClock
from core.config.settings import BehaviourSettings, BrowserSettings, PolitenessSettings, Settings, VisitSettings
from core.layout import CA_FILE, Layout
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureRequest, capture, store_everything
from crawler.capture.proxy_fetcher import BrowserFetcher, pool_fetcher
from crawler.pools.resource_pool import ResourcePool
from crawler.run.crawl_run import RunConfig, archive_urls
from crawler.worker.crawl_events import Event, PageDone, PageSkipped
from links.check_result import CheckVerdict
from links.checker.browser_check import VisitSummary, result_of_visit
from net.tls_client import trusted_pins
from playback.url_paths import Memento, MementoModifier, memento_path
from proxy.archiving_proxy import RecorderAuthority
from render.browser import Browser
from render.chromium import find_browser
from tests.support.commands import WeboidRunner
from tests.support.fixed_pool import fixed_pool
from tests.support.http2_origin import Http2Origin
from tests.support.loopback import LoopbackServer
from tests.support.playback_fixtures import running_replay
from tests.support.proxy_fixtures import ProxyInProcess, check, records
from tests.support.services.ports import free_port
from tests.support.stored_records import index
from tests.support.tls_origins import DAY, NOW, make_issuer, write_leaf

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.asyncio(loop_scope="session")]
SITE = "https://secure.example"
CLOCK = SystemClock()
QUICK = VisitSettings(timeout_s=120.0, settle_limit_s=90.0, full_page=False, thumbnail=False)
HTML = {"content-type": "text/html; charset=utf-8"}
Take = Callable[..., Awaitable[PageInfo]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write key and certificate of the origins: one for all, since the browser is launched with their pins."""
    return write_certificate(tmp_path_factory.mktemp("origin") / "origin.pem", "secure.example")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> RecorderAuthority:
    """Return the authority of all proxies, likewise."""
    return RecorderAuthority(tmp_path_factory.mktemp("authority"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(certificate: Path, authority: RecorderAuthority) -> AsyncIterator[Browser]:
    """Yield one browser for all tests of captures."""
    pins = ",".join((authority.spki, *trusted_pins(str(certificate))))
    patient = BrowserSettings(hang_limit_s=86_400.0)
    async with await Browser.launch(patient, find_browser(), ca_spki=pins, clock=CLOCK) as browser:
        yield browser


@pytest.fixture
def http2(certificate: Path) -> Iterator[Http2Origin]:
    """Yield an origin that refuses HTTP/1.1."""
    origin = Http2Origin(certificate)
    yield origin
    origin.close()


BAD_CERTIFICATES = {
    "expired": {"host": "secure.example", "begins": NOW - 9 * DAY, "ends": NOW - DAY},
    "not-yet-valid": {"host": "secure.example", "begins": NOW + DAY, "ends": NOW + 9 * DAY},
    "wrong-host": {"host": "other.example"},
    "self-signed": {"host": "secure.example"},
    "unknown-issuer": {"host": "secure.example"},
}
FRAMING = b"<!doctype html><title>.</title>" + b"".join(
    f"<iframe src=https://{each}.test/></iframe><img src=https://{each}.test/a.svg>"
    f"<script src=https://{each}.test/a.js></script>".encode()
    for each in BAD_CERTIFICATES
)


class ElsewhereHandler(BaseHTTPRequestHandler):
    """Other sites: a document with a picture and a script of its own; HTTP/1.1."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by the name's end."""
        kind, body = {
            "js": ("text/javascript", b"document.title += '+'"),
            "svg": ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'></svg>"),
            "top": ("text/html", FRAMING),
        }.get(self.path.rpartition(".")[2], ("text/html", b"<!doctype html><p>Framed<img src=/in.svg>"))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of sites that are named after the fault of their certificate."""
    folder, issuer = tmp_path_factory.mktemp("elsewhere"), make_issuer("Nobody's authority")
    contexts: dict[str | None, ssl.SSLContext] = {}
    for fault, made in BAD_CERTIFICATES.items():
        name = f"{fault}.test"
        host = "secure.example" if fault == "wrong-host" else name
        write_leaf(folder / name, **{**made, "host": host, "issuer": None if fault == "self-signed" else issuer})  # type: ignore[arg-type,dict-item]
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[name].load_cert_chain(folder / name)

    def choose(secured: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
        secured.context = contexts[name]

    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(folder / "expired.test")
    listening.sni_callback = choose
    with LoopbackServer(ElsewhereHandler, tls=listening) as server:
        yield server.server_port


@dataclass
class CaptureParts:
    """Proxy and browser, and the settings that lead to the origin."""

    proxy: ProxyInProcess
    pool: ResourcePool
    settings: Settings


def is_listening(port: int) -> bool:
    """Return whether a server has the port, a hundredth of a second later at most."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return threading.Event().wait(0.01)


@dataclass
class OtherProxy:
    """A proxy between ours and the web, and what it logs."""

    url: str
    log: Path


@pytest.fixture
def other_proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OtherProxy | None]:
    """Start microsocks or tinyproxy; yield None without a parameter."""
    if not hasattr(request, "param"):
        yield None
        return
    port, log = free_port(), tmp_path / "other.log"
    (tmp_path / "tinyproxy.conf").write_text(f"Port {port}\nListen 127.0.0.1\nLogLevel Info\n")
    command = {
        "http": ["tinyproxy", "-d", "-c", str(tmp_path / "tinyproxy.conf")],
        "socks5": ["microsocks", "-i", "127.0.0.1", "-p", str(port)],
    }[request.param]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        while not is_listening(port):
            assert process.poll() is None, log.read_text()
        yield OtherProxy(f"{request.param}://127.0.0.1:{port}", log)
        process.terminate()


@pytest.fixture
def parts(
    browser: Browser,
    authority: RecorderAuthority,
    http2: Http2Origin,
    elsewhere: int,
    other_proxy: OtherProxy | None,
    layout: Layout,
    settings: Settings,
    tmp_path: Path,
) -> Iterator[CaptureParts]:
    """Yield proxy, browser pool and settings that lead to the origins."""
    resolve = {f"{fault}.test:443": f"127.0.0.1:{elsewhere}" for fault in BAD_CERTIFICATES}
    resolve["secure.example:443"] = f"127.0.0.1:{http2.port}"
    via = {"*": other_proxy.url} if other_proxy is not None else {}
    egress = replace(settings.egress, resolve=resolve, via=via)
    chosen = replace(settings, egress=egress, visit=QUICK, behaviours=BehaviourSettings(run=()))
    shutil.copytree(authority.folder, layout.ca)
    proxy = ProxyInProcess(layout, chosen, "own", tmp_path)
    yield CaptureParts(proxy, fixed_pool(proxy.client, browser), chosen)
    proxy.stop()


@pytest.fixture
def take(parts: CaptureParts) -> Take:
    """Capture a path of the origin, or a URL, as the worker does; return the manifest."""

    async def nothing(_page: PageInfo) -> None:
        return None

    async def take(path: str, hosts: tuple[str, ...] = ("secure.example",)) -> PageInfo:
        captured = await capture(
            CaptureRequest(
                path if path.startswith("https:") else SITE + path, "p", last_attempt=True, browser_hosts=hosts
            ),
            supervisor=parts.pool,
            settings=parts.settings,
            clock=CLOCK,
            before_manifest=nothing,
        )
        return captured.page

    return take


async def test_a_page_of_an_origin_that_speaks_only_http2_is_recorded(
    take: Take, http2: Http2Origin, layout: Layout
) -> None:
    """The recorder fails there; with the browser's connections document, image and script are stored."""
    page = (
        b"<!doctype html><title>Two</title><img src=/a.svg><script>"
        b"fetch('/data', {method: 'POST', body: 'x'.repeat(100000)})"
        b".then(r => r.text()).then(t => document.title = t)</script><p>Only by HTTP/2."
    )
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    http2.answers["/"] = (200, HTML, page)
    http2.answers["/a.svg"] = (200, {"content-type": "image/svg+xml"}, svg)
    http2.answers["/data"] = (200, {"content-type": "text/plain"}, b"answered")
    refused = await take("/", ())
    seen = await take("/")

    assert (refused.outcome, refused.reason[:4]) == (VisitOutcome.FAILED, "disc")
    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "answered")
    response_by_url = {each.url: each for each in records(layout) if each.kind == "response"}
    assert response_by_url[f"{SITE}/"].payload == page
    assert response_by_url[f"{SITE}/a.svg"].payload == svg
    assert http2.bodies["/data"] == b"x" * 100_000
    (posted,) = (r for r in records(layout) if r.kind == "request" and r.url.endswith("/data"))
    assert posted.payload == b"x" * 100_000
    assert {each.kept for each in seen.resources} == {"response"}
    assert [each for each in http2.requests if "zstd" in each["accept-encoding"]] == []
    check(layout)


GREASE = {0x0A0A + 0x1010 * step for step in range(16)}  # RFC 8701


def is_chromium(hello: bytes) -> bool:
    """Return whether a ClientHello has Chromium's order of cipher suites, and offers HTTP/2."""
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    size = int.from_bytes(hello[at : at + 2], "big")
    raw = hello[at + 2 : at + 2 + size]
    suites = [int.from_bytes(raw[each : each + 2], "big") for each in range(0, size, 2)]
    return suites[0] in GREASE and suites[1:4] == [0x1301, 0x1302, 0x1303] and b"\x02h2" in hello


async def test_an_origin_that_wants_chromiums_hello_gets_it(take: Take, http2: Http2Origin) -> None:
    """GREASE, Chromium's suites in Chromium's order, and h2 by ALPN."""
    http2.lets_in = is_chromium
    http2.answers["/"] = (200, HTML, b"<!doctype html><title>Let in</title>")
    refused = await take("/", ())
    seen = await take("/")

    assert refused.outcome is VisitOutcome.FAILED
    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "Let in")
    assert http2.refused >= 1


async def test_a_clearance_cookie_that_a_script_sets_is_sent(take: Take, http2: Http2Origin, layout: Layout) -> None:
    """The check and the page behind it are both recorded."""
    check_page = b"<!doctype html><script>document.cookie='clear=1';location.reload()</script>"

    def answer(head: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "clear=1" in head.get("cookie", ""):
            return 200, HTML, b"<!doctype html><title>Behind</title>"
        return 403, HTML, check_page

    http2.answers["/"] = answer
    seen = await take("/")

    assert (seen.status, seen.title) == (200, "Behind")
    statuses = [r.status for r in records(layout) if r.kind == "response" and r.url == f"{SITE}/"]
    assert statuses == ["403", "200"]


async def test_pages_behind_certificates_that_do_not_verify_are_recorded_with_the_fault(
    take: Take, http2: Http2Origin, layout: Layout, tmp_path: Path
) -> None:
    """With what they load, as by the recorder's connections."""
    http2.answers["/a.css"] = (200, {"content-type": "text/css"}, b"p{color:red}")
    issuer = make_issuer("Nobody's authority")
    for number, (fault, made) in enumerate(BAD_CERTIFICATES.items()):
        signed_by = None if fault == "self-signed" else issuer
        write_leaf(tmp_path / fault, issuer=signed_by, **made)  # type: ignore[arg-type]
        http2.present(tmp_path / fault)
        http2.answers[f"/{number}"] = (200, HTML, b"<!doctype html><title>.</title><link rel=stylesheet href=/a.css>")
        seen = await take(f"/{number}")

        assert (seen.outcome, seen.tls_verified) == (VisitOutcome.COMPLETE, False), fault
        assert {each.url: each.status for each in seen.resources}[f"{SITE}/a.css"] == 200
        (record,) = (r for r in records(layout) if r.kind != "request" and r.url == f"{SITE}/{number}")
        assert record.headers["WARC-TLS-Verification"].startswith(f"failed; {fault}: ")


async def test_certificates_must_verify_where_the_settings_say_so(
    parts: CaptureParts, http2: Http2Origin, take: Take, tmp_path: Path
) -> None:
    """The page fails for the browser's reason."""
    write_leaf(tmp_path / "leaf", "secure.example", None)
    http2.present(tmp_path / "leaf")
    http2.answers["/"] = (200, HTML, b"<!doctype html>")
    parts.settings = replace(parts.settings, egress=replace(parts.settings.egress, enforce_tls=True))
    seen = await take("/")

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_CERT_AUTHORITY_INVALID")


@pytest.mark.parametrize(
    ("url", "own"),
    [(f"{SITE}/", ("secure.example",)), (f"{SITE}/", ("*",)), ("https://expired.test/a.top", ())],
    ids=["own for the site", "own for all", "recorder"],
)
async def test_frames_and_parts_of_other_sites_whose_certificates_do_not_verify_are_recorded(
    http2: Http2Origin, take: Take, layout: Layout, url: str, own: tuple[str, ...]
) -> None:
    """Whoever connects: the page is complete, and each record names the fault."""
    http2.answers["/"] = (200, HTML, FRAMING)
    seen = await take(url, own)
    faults = {r.url: r.headers.get("WARC-TLS-Verification", "") for r in records(layout) if r.kind != "request"}

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "." + "+" * len(BAD_CERTIFICATES))
    for fault in BAD_CERTIFICATES:
        for path in ("", "in.svg", "a.svg", "a.js"):
            assert faults[f"https://{fault}.test/{path}"].startswith("failed; "), (fault, path)
    assert faults["https://self-signed.test/"].startswith("failed; self-signed: ")


@pytest.mark.parametrize("other_proxy", ["socks5", "http"], indirect=True)
async def test_connections_of_the_browser_go_by_the_proxy_of_the_settings_and_to_permitted_addresses(
    http2: Http2Origin, take: Take, other_proxy: OtherProxy
) -> None:
    """The page is recorded; an address that is not public is refused before the proxy hears of it."""
    http2.answers["/"] = (200, HTML, b"<!doctype html><title>By proxy</title><img src=https://10.1.2.3/a.svg>")
    seen = await take("/", ("*",))
    reasons = {each.url: each.reason for each in seen.resources}
    log = other_proxy.log.read_text()

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "By proxy")
    assert f"127.0.0.1:{http2.port}" in log
    assert reasons["https://10.1.2.3/a.svg"].startswith("address: ")
    assert "10.1.2.3" not in log


async def test_a_long_body_takes_no_memory(take: Take, http2: Http2Origin) -> None:
    """64 MB pass through proxy and origin, both in this process, which hold 16 MB of them."""
    size = 64_000_000
    http2.answers["/"] = (200, HTML, b"<!doctype html><title>.</title><link rel=stylesheet href=/long>")
    http2.answers["/long"] = (200, {"content-type": "text/css"}, b" " * size)
    process, highest = psutil.Process(), 0
    before = process.memory_info().rss

    async def watch() -> None:
        nonlocal highest
        while True:
            highest = max(highest, process.memory_info().rss)
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    seen = await take("/")
    watching.cancel()

    (long,) = (each for each in seen.resources if each.url.endswith("/long"))
    assert (long.kept, long.reason) == ("response", "")
    assert highest - before < size / 2


@pytest.mark.parametrize("missing", [False, True])
async def test_sitemaps_of_a_host_that_refuses_the_recorder_are_read_as_they_were_sent(
    parts: CaptureParts, http2: Http2Origin, layout: Layout, missing: bool
) -> None:
    """XML is not the text that a browser shows, and an archive no download; with robots.txt and without."""
    plain = b'<?xml version="1.0"?><?xml-stylesheet href="/s.xsl"?><urlset><url><loc>a</loc></url></urlset>'
    packed = gzip.compress(plain)
    if not missing:
        http2.answers["/robots.txt"] = (200, {"content-type": "text/plain"}, b"User-agent: *\n")
    http2.answers["/map.xml"] = (200, {"content-type": "application/xml"}, plain)
    http2.answers["/map.xml.gz"] = (200, {"content-type": "application/x-gzip"}, packed)
    recorder = pool_fetcher(parts.pool, parts.settings, ca=layout.ca / CA_FILE)
    fetcher = BrowserFetcher(recorder, parts.pool, parts.settings, CLOCK)

    async def read(path: str, limit_bytes: int = 1_000) -> tuple[int, bytes, bool]:
        fetched = await fetcher.get(SITE + path, limit_bytes=limit_bytes, timeout_s=60.0)
        return fetched.status, fetched.body, fetched.truncated

    assert await read("/map.xml") == (200, plain, False)
    assert await read("/map.xml.gz") == (200, packed, False)
    assert await read("/map.xml", 10) == (200, plain[:10], True)
    assert (await read("/none.xml"))[0] == 404
    response_by_url = {each.url: each for each in records(layout) if each.kind == "response"}
    assert response_by_url[f"{SITE}/map.xml.gz"].payload == packed


async def test_a_crawl_by_sitemap_renders_the_pages_of_such_a_host(
    http2: Http2Origin, settings: Settings, tmp_path: Path
) -> None:
    """Although pages but the seed are to be fetched without a browser: that fetch is refused."""
    sitemap = f"<urlset><url><loc>{SITE}/c</loc></url></urlset>"
    http2.answers["/sitemap.xml"] = (200, {"content-type": "application/xml"}, sitemap.encode())
    http2.answers["/a"] = (200, HTML, b"<!doctype html><title>A</title><p>Words <a href=/b>b</a>")
    for path in ("/b", "/c"):
        http2.answers[path] = (200, HTML, b"<!doctype html><title>Seen</title><p>Words of " + path.encode())
    profile = tmp_path / "profile.toml"
    profile.write_text(
        f"""
        egress.allow = ["127.0.0.0/8"]
        egress.ca_file = "{settings.egress.ca_file}"
        egress.resolve = {{"secure.example:443" = "127.0.0.1:{http2.port}"}}
        proxy = {{disk_reserve_bytes = 0}}
        frontier = {{retry_delay_s = 0.1}}
        politeness = {{min_delay_s = 0.0, max_delay_s = 0.1, host_retry_s = 0.2}}
        visit = {{rendered_share = 0.0, settle_limit_s = 5.0, full_page = false}}
        behaviours = {{run = []}}
        """
    )
    weboid = WeboidRunner(tmp_path, profile)
    ran = await asyncio.to_thread(weboid.run, "crawl", f"{SITE}/a", "--sitemaps", "--profile", str(profile))

    assert ran.code == 0, ran.err
    captures = index(weboid.collection, "SELECT url, status FROM captures WHERE record_type = 'response'")
    assert {(f"{SITE}/{name}", 200) for name in ("a", "b", "c", "sitemap.xml")} <= set(captures)


def crawl_settings(http2: Http2Origin, settings: Settings) -> Settings:
    """Return settings of a quick crawl that obeys robots.txt."""
    return replace(
        settings,
        egress=replace(settings.egress, resolve={"secure.example:443": f"127.0.0.1:{http2.port}"}),
        visit=replace(QUICK, settle_limit_s=5.0),
        behaviours=BehaviourSettings(run=()),
        frontier=replace(settings.frontier, retry_delay_s=0.1),
        policy=replace(settings.policy, robots="obey"),
        politeness=PolitenessSettings(min_delay_s=0.0, max_delay_s=0.1, host_retry_s=0.2),
    )


async def test_a_crawl_turns_to_the_browsers_connections_where_the_recorder_is_refused(
    http2: Http2Origin, settings: Settings, tmp_path: Path
) -> None:
    """At the page's next attempt, and at once for the next page; robots.txt is read in the same way."""
    http2.answers["/robots.txt"] = (
        200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /no\n",
    )  # fmt: skip
    for path in ("/a", "/b", "/no"):
        http2.answers[path] = (200, HTML, b"<!doctype html><title>Seen</title><p>" + path.encode())
    chosen = crawl_settings(http2, settings)
    events: list[Event] = []
    root = tmp_path / "crawl"
    await archive_urls(
        RunConfig(root, chosen, 1, stored_level_of=store_everything),
        [f"{SITE}/a", f"{SITE}/b", f"{SITE}/no"],
        clock=CLOCK,
        report=events.append,
    )

    done = {each.url: each for each in events if isinstance(each, PageDone)}
    assert {url: each.page and each.page.outcome for url, each in done.items()} == {
        f"{SITE}/a": VisitOutcome.COMPLETE,
        f"{SITE}/b": VisitOutcome.COMPLETE,
    }
    assert sorted(each.attempts for each in done.values()) == [1, 2]
    assert [each.url for each in events if isinstance(each, PageSkipped)] == [f"{SITE}/no"]
    assert {each[":path"] for each in http2.requests} >= {"/robots.txt", "/a", "/b"}
    assert "/no" not in {each[":path"] for each in http2.requests}
    with running_replay(root) as replay:
        page = done[f"{SITE}/b"].page
        assert page is not None
        moment = "".join(filter(str.isdigit, page.captured_at))[:14]
        copy = replay.get(memento_path(Memento(moment, MementoModifier.VERY, page.url)))
    assert copy.status == 200
    assert "/b" in copy.text


@pytest.mark.parametrize("is_down", [False, True], ids=["to the recorder", "to all"])
async def test_a_host_that_does_not_answer_is_asked_once_by_the_browsers_connections(
    certificate: Path, settings: Settings, tmp_path: Path, is_down: bool
) -> None:
    """Silence after the hello or after the request: the page's second attempt is the browser's, each in bounded time."""
    kinds: dict[str, list[bool]] = {"hello": [], "request": []}
    # The certificate is for the second, which shows it to the recorder, too.
    sites = {"hello": "https://hello.example", "request": SITE}

    def origin_silent_at(unanswered: str) -> Http2Origin:
        def lets_in(hello: bytes) -> bool:
            kinds[unanswered].append(is_chromium(hello))
            return not is_down and kinds[unanswered][-1]

        origin = Http2Origin(certificate, lets_in, silent=unanswered)
        origin.answers["/a"] = (200, HTML, b"<!doctype html><title>Seen</title><p>Words")
        origin.answers["/robots.txt"] = (404, {}, b"")
        return origin

    origins = {unanswered: origin_silent_at(unanswered) for unanswered in kinds}
    chosen = crawl_settings(origins["hello"], settings)
    resolve = {
        f"{sites[unanswered].removeprefix('https://')}:443": f"127.0.0.1:{origin.port}"
        for unanswered, origin in origins.items()
    }
    chosen = replace(
        chosen,
        egress=replace(chosen.egress, resolve=resolve),
        proxy=replace(chosen.proxy, connect_timeout_s=1.0, read_timeout_s=1.0),
        policy=replace(chosen.policy, robots="ignore" if is_down else "obey"),
        visit=replace(chosen.visit, timeout_s=8.0 if is_down else 60.0),
    )
    events: list[Event] = []
    config = RunConfig(tmp_path / "crawl", chosen, 1, stored_level_of=store_everything)
    with ExitStack() as stack:
        for origin in origins.values():
            stack.callback(origin.close)
        await archive_urls(config, [f"{site}/a" for site in sites.values()], clock=CLOCK, report=events.append)

    done_by_url = {each.url: each for each in events if isinstance(each, PageDone)}
    for unanswered, seen in kinds.items():
        done = done_by_url[f"{sites[unanswered]}/a"]
        assert done.page is not None
        if is_down:
            assert (seen, done.attempts, done.page.outcome) == ([False, True, False], 3, VisitOutcome.FAILED)
            assert done.page.reason.startswith("timeout" if unanswered == "request" else "tls: ")
        else:  # robots.txt first
            assert (seen, done.attempts, done.page.outcome) == ([False, True] * 2, 2, VisitOutcome.COMPLETE)


class GuardedHandler(BaseHTTPRequestHandler):
    """Answers 403 unless the hello is Chromium's; a page with a stream of events, which has no end."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[tuple[str, bool]]] = []

    def setup(self) -> None:
        """Look at the hello before the handshake takes it."""
        self.is_chromium = is_chromium(socket.socket.recv(self.request, 4096, socket.MSG_PEEK))
        super().setup()

    def do_GET(self) -> None:
        """Answer by client and path."""
        self.requests.append((self.path, self.is_chromium))
        body, kind, status = b"<title>Seen</title><p>Words<script>new EventSource('/events')</script>", "text/html", 200
        if self.path == "/robots.txt":
            body, kind = b"User-agent: *\nDisallow: /no", "text/plain"
        if not self.is_chromium or self.path == "/forbidden":
            body, status = b"<title>Forbidden</title><p>Words", 403
        self.send_response(status)
        if self.path == "/events":
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: one\n\n")
            self.rfile.read()
            return
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


async def test_a_host_that_forbids_the_recorder_is_tried_once_by_the_browsers_connections(
    http2: Http2Origin, certificate: Path, settings: Settings, tmp_path: Path
) -> None:
    """Its robots.txt, too; a page of it that is forbidden to all is stored as that, and others go on as before."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    GuardedHandler.requests.clear()
    chosen, events = crawl_settings(http2, settings), list[Event]()
    config, later = tmp_path / "crawl", ("/forbidden", "/b", "/no")
    with LoopbackServer(GuardedHandler, tls=context) as server:
        egress = replace(chosen.egress, resolve={"secure.example:443": f"127.0.0.1:{server.server_port}"})
        for paths in (("/a",), later):
            await archive_urls(
                RunConfig(config, replace(chosen, egress=egress), 1, stored_level_of=store_everything),
                [SITE + path for path in paths],
                clock=CLOCK,
                report=events.append,
            )

    done = {each.url.removeprefix(SITE): each for each in events if isinstance(each, PageDone)}
    assert {path: (each.attempts, each.page and each.page.status) for path, each in done.items()} == {
        "/a": (2, 200), "/forbidden": (1, 403), "/b": (1, 200),
    }  # fmt: skip
    requests = [(path, by) for path, by in GuardedHandler.requests if path in ("/a", *later)]
    assert requests[:2] == [("/a", False), ("/a", True)]
    assert sorted(requests[2:]) == [("/b", True), ("/forbidden", True)]
    streams = index(config, "SELECT truncated FROM captures WHERE url LIKE '%/events'")
    assert set(streams) <= {("time",), ("disconnect",)}
    assert streams


async def test_the_only_attempt_of_a_confirmation_includes_the_browsers_connections(
    http2: Http2Origin, certificate: Path, settings: Settings, tmp_path: Path
) -> None:
    """A host that refuses the recorder is not dead; one that refuses both fails for the browser's reason."""
    http2.answers["/a"] = (200, HTML, b"<!doctype html><title>Seen</title><p>Words")
    down, down_url = Http2Origin(certificate, lambda _hello: False), "https://down.example/a"
    chosen = crawl_settings(http2, settings)
    resolve = {**chosen.egress.resolve, "down.example:443": f"127.0.0.1:{down.port}"}
    chosen = replace(
        chosen,
        egress=replace(chosen.egress, resolve=resolve),
        frontier=replace(chosen.frontier, attempts=1),
        policy=replace(chosen.policy, robots="ignore"),
    )
    events: list[Event] = []
    config = RunConfig(tmp_path / "crawl", chosen, 1, stored_level_of=store_everything)
    with closing(down):
        await archive_urls(config, [f"{SITE}/a", down_url], clock=CLOCK, report=events.append)

    assert {each.url: each.attempts for each in events if isinstance(each, PageDone)} == {f"{SITE}/a": 1, down_url: 1}
    pages = {
        url: (status, reason) for url, status, reason in index(config.root, "SELECT url, status, reason FROM pages")
    }
    assert pages[f"{SITE}/a"] == (200, "")
    status, reason = pages[down_url]
    check_result = result_of_visit(VisitSummary(down_url, down_url, VisitOutcome.FAILED, reason, status))
    assert (status, reason.partition("ERR_")[0]) == (None, "net::")
    assert check_result.verdict is CheckVerdict.FAILING
