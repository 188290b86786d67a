"""A page cannot get out: real Chromium, the real proxy, and pages that try (C-01 to C-18)."""

import asyncio
import base64
import hashlib
import json
import select
import shutil
import socket
import sqlite3
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from core.config.settings import EgressSettings, Settings
from core.layout import CA_FILE, Layout
from net.egress import Egress
from proxy.archiving_proxy import ArchivingProxy, RecorderAuthority
from proxy.control.client import ProxyClient
from proxy.control.server import ControlServer
from proxy.exchange import now_ms
from proxy.limits import ByteCounter
from render.browser import Browser as Chromium
from render.browser import ProxyLogin
from render.chromium import BrowserKind, find_browser
from tests.proxy.chromium import ObservedVisit, endpoint, evaluate, go, launch, look, unguarded
from tests.support.clocks import ManualClock
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records
from warc.rebuild import rebuild_index

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.asyncio(loop_scope="module")]

PAGES = Path(__file__).parent / "pages"
SITES = {"http": "http://origin.example", "https": "https://secure.example"}


def rows(layout: Layout, query: str) -> list[tuple[object, ...]]:
    """Return the rows of the index that the query selects."""
    database = sqlite3.connect(layout.captures_db)
    index_rows = database.execute(query).fetchall()
    database.close()
    return index_rows


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> RecorderAuthority:
    """Return the authority that all collections of this module share, so that one browser trusts them."""
    return RecorderAuthority(tmp_path_factory.mktemp("ca"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(ca: RecorderAuthority) -> AsyncIterator[Chromium]:
    """Yield one browser for the module; each visit has a context of its own."""
    async with await launch(ca.spki) as browser:
        yield browser


@pytest.fixture
def layout(tmp_path: Path, ca: RecorderAuthority) -> Layout:
    """Create an empty collection with the module's authority."""
    layout = Layout(tmp_path / "collection")
    layout.root.mkdir()
    shutil.copytree(ca.folder, layout.ca)
    return layout


@pytest.fixture
def site(request: pytest.FixtureRequest, origin: ScriptedOrigin, secure_origin: ScriptedOrigin) -> ScriptedOrigin:
    """Return the origin of the scheme that is tested, with the hostile pages on it."""
    server = origin if request.param == "http" else secure_origin
    for page in PAGES.iterdir():
        mime = "text/javascript" if page.suffix == ".js" else "text/html"
        server.answers[f"/{page.name}"] = ok(page.read_bytes(), mime=mime)
    server.answers["/status"] = ok(b"the site's own status", mime="text/plain")
    return server


@pytest.mark.parametrize(("scheme", "site"), [(each, each) for each in SITES], indirect=["site"])
async def test_nothing_that_a_page_asks_is_an_order(
    chromium: Chromium, proxy: ProxyInProcess, site: ScriptedOrigin, scheme: str
) -> None:
    """C-01: from window, frame, worker, service worker, XHR and WebSocket, over http and https."""
    itself = [f"http://{host}:{proxy.port}/status" for host in ("127.0.0.1", "localhost")]
    async with proxy.client.visit("the-page", bucket="default") as opened:
        async with unguarded(chromium, endpoint(opened.credentials)) as page:
            await go(page, f"{SITES[scheme]}/attack.html")
            responses = await evaluate(page, f"everything({json.dumps(itself)})")
        entries = await opened.seal(grace_s=1)
    proxy.stop()
    check(proxy.layout)
    written = records(proxy.layout)
    everywhere = ["window", "xhr", "frame", "worker"]
    everywhere += ["service-worker"] if scheme == "https" else []  # plain http has none

    # The site answers for itself, whoever asks and however.
    assert [responses[each]["status"] for each in everywhere] == ["200 the site's own status"] * len(everywhere)
    assert responses["websocket"] == {"status": "refused", "write": "refused"}
    # Every attempt came to the site as it was, and is a capture like any other.
    for path, mark in {
        "forged": b"WARCPROX_WRITE_RECORD /forged",
        "putmeta": b"PUTMETA /putmeta",
        "meta": b"Warcprox-Meta: {",
        "optout": b'Warcprox-Meta: {"warc-prefix": "-"}',
    }.items():
        for each in everywhere:
            target = f"/{path}?{each}"
            (request,) = (head for head in site.requests if target.encode() in head.split(b"\r\n")[0])
            assert mark.lower() in request.lower()
            target_records = [record for record in written if record.url == f"{SITES[scheme]}{target}"]
            assert min(record.kind for record in target_records) == "request"
            assert len(target_records) == 2
    # Nothing else was written, nowhere else, and in nobody else's name.
    assert {record.kind for record in written} <= {"warcinfo", "request", "response", "revisit"}
    assert {record.filename.split("-")[0] for record in written} == {"weboid"}
    assert len({record.filename for record in written}) == 1
    assert {record.headers.get("WARC-Page-ID", "the-page") for record in written} == {"the-page"}
    assert rows(proxy.layout, "SELECT DISTINCT bucket FROM payloads") == [("default",)]
    # The proxy leads nobody to itself, although the settings allow its network.
    assert {str(entry.kept) for entry in entries if entry.url in itself} == {"blocked"}
    assert not [record.url for record in written if b"uptime_s" in record.payload]


async def test_the_control_socket_has_no_address_in_a_page(
    chromium: Chromium, proxy: ProxyInProcess, origin: ScriptedOrigin
) -> None:
    """C-01: no URL leads to a unix socket or a file, for the browser and for the proxy."""
    origin.answers["/"] = ok(b"<title>t</title>")
    socket, quoted = str(proxy.control), str(proxy.control).replace("/", "%2F")
    urls = [
        f"http://unix:{socket}:/status",
        f"http://unix/{socket}",
        f"http://{quoted}/status",
        f"http+unix://{quoted}/status",
        f"unix:{socket}",
        f"file://{socket}",
        "file:///etc/passwd",
    ]
    fetches = f"""Promise.all({json.dumps(urls)}.map((url) => fetch(url, {{mode: "no-cors"}})
        .then((answer) => answer.type, () => "failed")))"""
    async with proxy.client.visit("p", bucket="default") as opened:
        async with unguarded(chromium, endpoint(opened.credentials)) as page:
            await go(page, "http://origin.example/")
            await evaluate(page, fetches)
        given = opened.credentials
        for url in [*urls, socket, f"//{socket}", "*"]:
            for method in ("GET", "CONNECT"):
                client = ProxyBrowser(proxy.port, given.username, given.password)
                assert client.ask(method, url).status in (400, 403, 502)
                client.close()
        entries = await opened.seal(grace_s=1)

    assert {entry.kept for entry in entries if entry.url != "http://origin.example/"} <= {"failed", "blocked"}
    assert proxy.control.stat().st_mode & 0o777 == 0o600
    assert (await proxy.client.status())["visits"] == 0


FORGETTING = {
    "407": ok(b"x", status="407 Who", more='Proxy-Authenticate: Basic realm="weboid"\r\n'),
    "bare-407": ok(b"x", status="407 Who"),
    "clear": ok(b"x", more='Clear-Site-Data: "*", "cookies", "cache", "storage"\r\n'),
    "close": ok(b"x", more="Connection: close\r\nProxy-Connection: close\r\n"),
    "info": ok(b"x", more='Proxy-Authentication-Info: nextnonce="x"\r\n'),
    "upgrade": ok(b"x", more="Upgrade: h2c\r\nConnection: upgrade\r\nAlt-Svc: clear\r\n"),
}


@pytest.mark.parametrize("name", FORGETTING)
@pytest.mark.parametrize(("scheme", "site"), [(each, each) for each in SITES], indirect=["site"])
async def test_no_answer_of_a_site_makes_the_browser_forget_its_visit(
    chromium: Chromium, proxy: ProxyInProcess, site: ScriptedOrigin, scheme: str, name: str
) -> None:
    """C-01: a page cannot have itself left out by an answer that passes for the proxy's."""
    site.answers[f"/{name}"] = FORGETTING[name]
    url = f"{SITES[scheme]}/{name}"
    ask = "fetch({}, {{cache: 'no-store'}}).then((answer) => answer.text(), String)"
    async with proxy.client.visit("p", bucket="default") as opened:
        async with unguarded(chromium, endpoint(opened.credentials)) as page:
            await go(page, f"{SITES[scheme]}/frame.html")
            await evaluate(page, f"Promise.all([1, 2, 3].map(() => {ask.format(repr(url))}))")
            after = await evaluate(page, ask.format("'/status'"))
        entries = await opened.seal(grace_s=1)

    assert after == "the site's own status"
    status = int(FORGETTING[name].split(b" ")[1])
    assert [entry.status for entry in entries if entry.url == url] == [status] * 3


@contextmanager
def listening(address: str, port: int = 0) -> Iterator[socket.socket]:
    """Yield a listener whose connections stay in the backlog until they are accepted."""
    with socket.create_server((address, port)) as listener:
        listener.setblocking(False)
        yield listener


def came(listener: socket.socket) -> list[bytes]:
    """Return the first bytes of every connection in the listener's backlog."""
    chunks: list[bytes] = []
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return chunks
        with connection:
            connection.settimeout(1)
            with suppress(OSError):
                chunks.append(connection.recv(65536))


async def test_a_host_that_flips_to_loopback_is_refused(
    chromium: Chromium, layout: Layout, settings: Settings, tmp_path: Path
) -> None:
    """C-04: a page whose name now leads to 127.0.0.1 gets nowhere, by no path and no scheme."""
    answer = ["127.0.0.2"]  # allowed here as if it were public; 127.0.0.1 is not
    clock = ManualClock(seconds=1000.0)
    egress = Egress(
        EgressSettings(allow=("127.0.0.2/32",)),
        connect_timeout_s=5,
        lookup=lambda host, port: list(answer),
        monotonic=clock.monotonic,
    )
    site = ScriptedOrigin(address="127.0.0.2")
    site.answers["/"] = ok(b"<title>t</title>", more="Connection: close\r\n")
    tally = ByteCounter(None, 0)
    proxy = ArchivingProxy(layout, settings, now_ms=now_ms, spool_folder=tmp_path, tally=tally, egress=egress)
    control = ControlServer(tmp_path / "flip.sock", proxy)
    for server in (proxy, control):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"flip.example:{site.port}"
    urls = [f"http://{here}/secret", f"https://{here}/secret", f"http://www.{here}/secret"]
    fetches = f"""Promise.all({json.dumps(urls)}.map((url) => fetch(url, {{mode: "no-cors"}})
        .then((answer) => answer.status, () => "failed")))"""
    with listening("127.0.0.1", site.port) as victim:
        async with ProxyClient(tmp_path / "flip.sock").visit("p", bucket="default") as opened:
            async with unguarded(chromium, endpoint(opened.credentials)) as page:
                await go(page, f"http://{here}/")
                answer[:] = ["127.0.0.1"]
                clock.seconds += 3600
                statuses = await evaluate(page, fetches)
                beyond = leaks(chromium, proxy.server_address[1])
            entries = await opened.seal(grace_s=1)
        reached = came(victim)
    for server in (control, proxy):
        server.shutdown()
    control.server_close()
    proxy.close()
    site.close()

    assert entries[0].status == 200
    assert {(entry.kept, entry.reason.split(":")[0]) for entry in entries[1:]} == {("blocked", "address")}
    assert sorted(entry.url for entry in entries[1:]) == sorted(urls)
    assert statuses[0] == 403
    assert reached == []
    assert len(site.requests) == 1
    assert beyond == []


def leaks(browser: Chromium, port: int) -> list[object]:
    """Return the browser's sockets that are not connected to the proxy; UDP is included because DNS uses it."""
    family = [psutil.Process(browser.pid), *psutil.Process(browser.pid).children(recursive=True)]
    sockets = []
    for process in family:
        with suppress(psutil.NoSuchProcess):  # one that has just ended
            sockets += process.net_connections("inet")
    return [each for each in sockets if each.raddr != ("127.0.0.1", port)]


async def test_the_browser_itself_resolves_nothing(chromium: Chromium, origin: ScriptedOrigin) -> None:
    """C-04, C-18: without a proxy a page gets nowhere, be it a name that this machine knows."""
    for host in ("example.com", "localhost", "flip.example", "127.0.0.2"):
        async with unguarded(chromium, None) as page:
            url = f"http://{host}:{origin.port}/"
            answer = await page.send("Page.navigate", {"url": url})
            assert answer["errorText"] == "net::ERR_NAME_NOT_RESOLVED"

    assert origin.connections == 0


ODD = [
    "/a b?c d",
    "/quote\"'<>\\^`{|}",
    "/%0d%0aWARC-Type:%20resource%0d%0a%0d%0a",
    "/\r\nWARC-Type: resource\r\n\r\n",
    "/nul%00\0",
    "/ünï?çødé=\N{SNOWMAN}&\udcff",
    "/%",
    "/a//double//slash",
    "/?",
    "/??&&==",
    "/" + "long/" * 3000,
    "/tab\there",
    "/x#fragment",
    "/..%2f..%2fetc/passwd",
    "/com,example)/ 20200101000000 {}",
]


@pytest.mark.parametrize(("scheme", "site"), [(each, each) for each in SITES], indirect=["site"])
async def test_no_url_header_or_body_of_a_page_forges_a_record(
    chromium: Chromium, proxy: ProxyInProcess, site: ScriptedOrigin, layout: Layout, scheme: str
) -> None:
    """C-12: whatever a page writes into URLs, headers and bodies stays what it is."""
    forged = "\r\n\r\nWARC/1.1\r\nWARC-Type: resource\r\nContent-Length: 3\r\n\r\nxyz\r\n\r\n"
    script = f"""(async () => {{
        const ask = (url, options) => fetch(url, options).then((a) => a.status, String);
        const said = [];
        for (const url of {json.dumps(ODD)}) said.push(await ask(url));
        for (const name of ["WARC-Type", "WARC-Target-URI", "WARC-Record-ID", "WARC-Page-ID"])
            said.push(await ask("/headers", {{headers: {{[name]: "<urn:x>\\u00ff"}}}}));
        said.push(await ask("/body", {{method: "POST", body: {json.dumps(forged)}}}));
        return said;
    }})()"""
    async with proxy.client.visit("p", bucket="default") as opened:
        async with unguarded(chromium, endpoint(opened.credentials)) as page:
            await go(page, f"{SITES[scheme]}/frame.html")
            statuses = await evaluate(page, script)
        entries = await opened.seal(grace_s=1)
    proxy.stop()
    check(layout)
    written = records(layout)
    columns = "urlkey, url, record_type, digest, filename, offset, length"
    query = f"SELECT {columns} FROM captures ORDER BY filename, offset"
    before = rows(layout, query)
    layout.captures_db.unlink()
    rebuild_index(layout, bucket="default")

    assert set(statuses) == {200}
    assert len(entries) == len(statuses) + 2  # the page and its script
    assert {record.kind for record in written} == {"warcinfo", "request", "response", "revisit"}
    assert len(written) == 1 + 2 * len(entries)
    assert {record.url for record in written} - {""} == {entry.url for entry in entries}
    for entry in entries:
        assert entry.url.isascii()
        assert entry.url.isprintable()
        assert " " not in entry.url
    assert rows(layout, query) == before
    assert len(before) == len(entries)


def spki(certificate: Path) -> str:
    """Return the hash of a certificate's public key as the browser pins it (RFC 7469, 2.4)."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def by_target(heads: list[bytes]) -> dict[bytes, bytes]:
    """Return requests by their first lines, each once."""
    return {head.partition(b"\r\n")[0]: head for head in heads}


@pytest.mark.parametrize(("scheme", "site"), [(each, each) for each in SITES], indirect=["site"])
async def test_an_origin_cannot_tell_us_from_the_browser(
    start: Callable[..., ProxyInProcess], ca: RecorderAuthority, certificate: Path, site: ScriptedOrigin, scheme: str
) -> None:
    """C-14: every request is, byte for byte, what the same browser sends without a proxy.

    But for `zstd`, which no WARC reader decodes. The page, too, sees the headers that it would see.
    """
    proxy = start(whole_ranges=False)  # what the proxy fetches besides is no request of the page
    host = SITES[scheme].rpartition("/")[2]
    hosts = {host: f"127.0.0.1:{site.port}"}
    url = f"{SITES[scheme]}/echo.html"
    requests, seen, entries = [], [], []
    async with await launch(f"{ca.spki},{spki(certificate)}", hosts) as browser:
        for way in ("direct", "proxied"):
            site.requests.clear()
            async with proxy.client.visit("p", bucket="default") as opened:
                through = endpoint(opened.credentials) if way == "proxied" else None
                async with unguarded(browser, through) as page:
                    await go(page, url)
                    seen.append(await evaluate(page, "said()"))
                entries = await opened.seal(grace_s=1)
            requests.append(by_target(site.requests))
    direct, proxied = requests
    without_zstd = {line: head.replace(b", zstd", b"") for line, head in direct.items()}

    assert len(direct) >= 11
    assert len(entries) == len(proxied)
    assert proxied == without_zstd
    assert seen[1] == seen[0]
    together = b"".join(proxied.values()).lower()
    assert not [word for word in (b"via", b"forwarded", b"proxy", b"weboid") if word in together]


class ConnectionTap:
    """Stands between the browser and the proxy and notes what passes, both ways."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.requests: list[bytes] = []
        self.answers: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def strangers(self) -> list[bytes]:
        """First lines of requests that came without credentials."""
        return [
            head.partition(b"\r\n")[0]
            for head in self.requests
            if b" HTTP/1.1\r\n" in head and b"\r\nproxy-authorization:" not in head.lower()
        ]

    def close(self) -> None:
        """End every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [client, server]
            for pump in ((client, server, self.requests), (server, client, self.answers)):
                threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, notes: list[bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                notes.append(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.mark.slow
async def test_chromium_says_nothing_that_is_archived_of_itself(
    proxy: ProxyInProcess, ca: RecorderAuthority, origin: ScriptedOrigin, record_property: Callable[[str, object], None]
) -> None:
    """C-18: start, a blank page, a visit of some idle seconds, the end: no foreign host anywhere.

    Names that the browser would ask around the proxy all lead to a listener here; what it asks of
    the proxy passes an ear.
    """
    origin.answers["/"] = ok(b"<title>t</title><form><input type=password></form>")
    ear = ConnectionTap(proxy.port)
    with listening("127.0.0.1") as anywhere:
        port = anywhere.getsockname()[1]
        async with await launch(ca.spki, {"*": f"127.0.0.1:{port}"}) as browser:
            async with proxy.client.visit("blank", bucket="default") as opened:
                way = endpoint(opened.credentials, port=ear.port)
                async with unguarded(browser, way) as page:
                    await evaluate(page, "new Promise((done) => setTimeout(done, 1000))")
                blank = await opened.seal(grace_s=1)
            async with proxy.client.visit("idle", bucket="default") as opened:
                way = endpoint(opened.credentials, port=ear.port)
                async with unguarded(browser, way) as page:
                    await go(page, "http://origin.example/")
                    await evaluate(page, "new Promise((done) => setTimeout(done, 6000))")
                idle = await opened.seal(grace_s=1)
            around = came(anywhere)
            # The trap works: a name asked around the proxy does lead here.
            async with unguarded(browser, None) as page:
                page.post("Page.navigate", {"url": "http://canary.example/"})
                await asyncio.to_thread(select.select, [anywhere], [], [], 20)
                canary = came(anywhere)
    ear.close()
    proxy.stop()
    urls = {record.url for record in records(proxy.layout)}
    own = [line for line in ear.strangers() if b"origin.example" not in line]
    refused = sum(answer.startswith(b"HTTP/1.1 407") for answer in ear.answers)

    assert blank == []
    assert {entry.url for entry in idle} <= {"http://origin.example/", "http://origin.example/favicon.ico"}
    assert urls <= {entry.url for entry in idle} | {""}
    record_property("asked_around_the_proxy", len(around))
    if find_browser().kind is BrowserKind.HEADLESS_SHELL:
        assert around == []  # full Chromium tries half a dozen, which only lead anywhere here
    assert canary[0].startswith(b"GET / HTTP/1.1\r\nHost: canary.example\r\n")
    # Whoever came without credentials was refused: each context once, and nobody else.
    record_property("refused_by_the_proxy", refused)
    assert refused == len(ear.strangers())
    assert own == []


async def test_two_pages_side_by_side_are_never_mixed(
    chromium: Chromium, proxy: ProxyInProcess, origin: ScriptedOrigin, secure_origin: ScriptedOrigin
) -> None:
    """One browser, one proxy, pages of the same sites at once: every record is its own page's."""
    names = [f"page-{number}" for number in range(4)]
    for name in names:
        images = "".join(
            f"<img src='{site}/picture-{number}?{name}'>" for site in SITES.values() for number in range(8)
        )
        origin.answers[f"/{name}"] = ok(f"<title>{name}</title>{images}".encode())

    async def one(name: str) -> ObservedVisit:
        return await look(chromium, proxy, f"http://origin.example/{name}?{name}", page_id=name)

    seen = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    proxy.stop()
    check(proxy.layout)
    written = [record for record in records(proxy.layout) if record.kind != "warcinfo"]

    for name in names:
        assert seen[name].page.title == name
        assert {url.rpartition("?")[2] for url in seen[name].urls} == {name}
        assert len(set(seen[name].urls)) == 17
        mine = [record for record in written if record.headers["WARC-Page-ID"] == name]
        assert {record.url for record in mine} == set(seen[name].urls)
        assert len(mine) == 2 * len(seen[name].urls)
    assert len(written) == 2 * sum(len(each.urls) for each in seen.values())


async def test_what_a_page_asks_for_while_interception_ends_is_sent(
    chromium: Chromium, proxy: ProxyInProcess, origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser forgets requests that it is about to report; it may be told late, with a busy machine."""
    stop = ProxyLogin.stop
    monkeypatch.setattr(ProxyLogin, "stop", lambda self: asyncio.get_running_loop().call_later(0.1, stop, self))
    origin.answers["/"] = ok(b"""<title>t</title><script>
        let number = 0, timer = setInterval(() => {
            for (let each = 0; each < 5; each++) document.body.append(new Image());
            for (const image of document.querySelectorAll('img:not([src])')) image.src = '/' + number++;
            if (number == 150) clearInterval(timer);
        }, 5);</script><body>""")

    seen = await look(chromium, proxy, "http://origin.example/")

    assert {entry.url for entry in seen.entries} >= {f"http://origin.example/{each}" for each in range(150)}


async def test_certificates_pass_strict_verification_also_of_an_earlier_authority(tmp_path: Path) -> None:
    """As clients of Python 3.13 verify; the key stays, so that those who trust the authority still do."""
    first = RecorderAuthority(tmp_path)
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "Weboid archiving proxy")])
    earlier = (
        x509.CertificateBuilder(
            name, name, first.key.public_key(), 1, datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(first.key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    (tmp_path / CA_FILE).write_bytes((tmp_path / CA_FILE).read_bytes().partition(b"-----BEGIN CERT")[0] + earlier)
    authority = RecorderAuthority(tmp_path)
    again = RecorderAuthority(tmp_path)

    assert (authority.spki, again.certificate) == (first.spki, authority.certificate)
    assert authority.key.public_key() == first.key.public_key()
    for trusted, is_strict in ((authority.certificate, True), (earlier.decode(), False)):
        own = ssl.create_default_context(cadata=trusted)
        own.verify_flags = ssl.VERIFY_X509_STRICT if is_strict else ssl.VERIFY_DEFAULT
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = authority.context_for("www.site.example").wrap_bio(up, down, server_side=True)
        client = own.wrap_bio(down, up, server_hostname="www.site.example")
        for side in (client, server, client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        assert client.version() == "TLSv1.3"
