"""A page cannot get out: real Chromium, the real proxy, and pages that try (C-01 to C-18)."""

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.layout import Layout
from proxy.authority import Authority
from render.browser import Browser as Chromium
from tests.proxy.chromium import endpoint, evaluate, go, launch, unguarded
from tests.proxy.conftest import Browser, Origin, Proxy, check, ok, records

pytestmark = [
    pytest.mark.browser,
    pytest.mark.proxy,
    pytest.mark.asyncio(loop_scope="module"),
]

PAGES = Path(__file__).parent / "pages"
SITES = {"http": "http://origin.example", "https": "https://secure.example"}


def rows(layout: Layout, query: str) -> list[tuple[object, ...]]:
    """What the index says."""
    database = sqlite3.connect(layout.captures_db)
    found = database.execute(query).fetchall()
    database.close()
    return found


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that all collections of this module share, so that one browser knows them."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(ca: Authority) -> AsyncIterator[Chromium]:
    """One browser for the module; each visit has a context of its own."""
    async with await launch(ca.spki) as browser:
        yield browser


@pytest.fixture
def layout(tmp_path: Path, ca: Authority) -> Layout:
    """An empty collection with the module's authority."""
    layout = Layout(tmp_path / "collection")
    layout.root.mkdir()
    shutil.copytree(ca.ca_file.rpartition("/")[0], layout.ca)
    return layout


@pytest.fixture
def site(request: pytest.FixtureRequest, origin: Origin, secure_origin: Origin) -> Origin:
    """The origin of the scheme that the test is about, with the hostile pages on it."""
    server = origin if request.param == "http" else secure_origin
    for page in PAGES.iterdir():
        mime = "text/javascript" if page.suffix == ".js" else "text/html"
        server.answers[f"/{page.name}"] = ok(page.read_bytes(), mime=mime)
    server.answers["/status"] = ok(b"the site's own status", mime="text/plain")
    return server


@pytest.mark.parametrize(("scheme", "site"), [(each, each) for each in SITES], indirect=["site"])
async def test_nothing_that_a_page_asks_is_an_order(
    chromium: Chromium, proxy: Proxy, site: Origin, scheme: str
) -> None:
    """C-01: from window, frame, worker, service worker, XHR and WebSocket, over http and https."""
    itself = [f"http://{host}:{proxy.port}/status" for host in ("127.0.0.1", "localhost")]
    async with proxy.client.visit("the-page", bucket="default") as opened:
        async with unguarded(chromium, endpoint(opened.credentials)) as page:
            await go(page, f"{SITES[scheme]}/attack.html")
            said = await evaluate(page, f"everything({json.dumps(itself)})")
        entries = await opened.seal(grace_s=1)
    proxy.stop()
    check(proxy.layout)
    written = records(proxy.layout)
    everywhere = ["window", "xhr", "frame", "worker"]
    everywhere += ["service-worker"] if scheme == "https" else []  # plain http has none

    # The site answers for itself, whoever asks and however.
    assert [said[each]["status"] for each in everywhere] == ["200 the site's own status"] * len(
        everywhere
    )
    assert said["websocket"] == {"status": "refused", "write": "refused"}
    # Every attempt came to the site as it was, and is a capture like any other.
    for path, mark in {
        "forged": b"WARCPROX_WRITE_RECORD /forged",
        "putmeta": b"PUTMETA /putmeta",
        "meta": b"Warcprox-Meta: {",
        "optout": b'Warcprox-Meta: {"warc-prefix": "-"}',
    }.items():
        for each in everywhere:
            target = f"/{path}?{each}"
            (asked,) = (head for head in site.requests if target.encode() in head.split(b"\r\n")[0])
            assert mark.lower() in asked.lower()
            kept = [record for record in written if record.url == f"{SITES[scheme]}{target}"]
            assert min(record.kind for record in kept) == "request"
            assert len(kept) == 2
    # Nothing else was written, nowhere else, and in nobody else's name.
    assert {record.kind for record in written} <= {"warcinfo", "request", "response", "revisit"}
    assert {record.filename.split("-")[0] for record in written} == {"weboid"}
    assert len({record.filename for record in written}) == 1
    assert {record.headers.get("WARC-Page-ID", "the-page") for record in written} == {"the-page"}
    assert rows(proxy.layout, "SELECT DISTINCT bucket FROM payloads") == [("default",)]
    # The proxy, asked as if it were a site, has nothing to say but who are you.
    assert {entry.status for entry in entries if entry.url in itself} == {407}
    assert not [record.url for record in written if b"uptime_s" in record.payload]


async def test_the_control_socket_has_no_address_in_a_page(
    chromium: Chromium, proxy: Proxy, origin: Origin
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
                client = Browser(proxy.port, given.username, given.password)
                assert client.ask(method, url).status in (400, 403, 502)
                client.close()
        entries = await opened.seal(grace_s=1)

    assert {entry.kept for entry in entries if entry.url != "http://origin.example/"} <= {
        "failed",
        "blocked",
    }
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
    chromium: Chromium, proxy: Proxy, site: Origin, scheme: str, name: str
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
