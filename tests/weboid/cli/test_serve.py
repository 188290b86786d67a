"""`weboid serve` with a link registry: shown as soon as there is one, to whom the options say."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from core.layout import COLLECTION_VERSION, Layout
from tests.support import loopback
from tests.support.browser_screen import BrowserScreen
from tests.support.commands import WeboidRunner, profile_for
from tests.support.services.ports import free_port
from tests.support.sites.web import TestWeb
from tests.weboid.cli.test_console import plain_page, running

TOKEN = "a-secret-of-internal-callers-0123456789"
PAGE = "/links/api/page?dbname=dewiki@WMF&curid=7"


def made(folder: Path) -> WeboidRunner:
    """Create an empty collection and return its runner."""
    weboid = WeboidRunner(folder, folder / "profile.toml")
    layout = Layout(weboid.collection)
    layout.archive.mkdir(parents=True)
    layout.databases.mkdir()
    layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    return weboid


@pytest.fixture
def own(tmp_path: Path) -> WeboidRunner:
    """Return a runner on an empty collection of one test."""
    return made(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WeboidRunner, int]]:
    """Serve an empty collection; yield its runner and the port of its pages."""
    weboid, port = made(tmp_path_factory.mktemp("served")), free_port()
    (weboid.folder / "token").write_text(TOKEN + "\n")
    (weboid.folder / "token").chmod(0o600)
    options = (f"--listen=127.0.0.1:{port}", "--links-token-file", "token")
    process = weboid.start("serve", *options)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
    try:
        yield weboid, port
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


@pytest.mark.playback
@pytest.mark.slow
def test_serve_shows_a_registry_that_is_begun_meanwhile(served: tuple[WeboidRunner, int]) -> None:
    """Nothing is restarted; internal callers ask as often as they like (W23)."""
    weboid, port = served
    address, internal = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {TOKEN}"}
    before = loopback.get(address + PAGE).status_code
    added = weboid.call("links", "add-page", "dewiki", "Seite", "https://verlag.de/a", "--id", "7")
    page = loopback.get(address + PAGE + "&scope=all").json()["pages"][0]
    home = loopback.get(address).text
    with httpx.Client(headers=internal, verify=False, timeout=120) as client:
        codes = {client.get(address + PAGE).status_code for _ in range(200)}

    assert before == 404
    assert added.code == 0, added.err
    assert (page["title"], [link["url"] for link in page["links"]]) == ("Seite", ["https://verlag.de/a"])
    assert 'href="/links"' in home
    assert codes == {200}


@pytest.mark.playback
@pytest.mark.slow
def test_copies_have_the_port_after_that_of_the_pages(served: tuple[WeboidRunner, int]) -> None:
    """Addresses of copies that were cited lead there after a restart, too."""
    place = f"http://127.0.0.1:{served[1] + 1}/c/20260101000000/https://a.example/"

    assert loopback.get(place).status_code == 404  # there is none, but this is who would show it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--behind", "proxy.example", "is not a network"),
        ("--links-internal", "10.0.0.1/8", "is not a network"),
        ("--links-token-file", "nowhere", "cannot be read"),
        ("--origin", "https://pages.example", "--replay-origin is missing"),
        ("--no-replay", "", "--no-replay needs both"),
    ],
)
def test_what_is_no_rule_is_refused_before_anything_starts(
    option: str, value: str, message: str, own: WeboidRunner
) -> None:
    """With what to write instead."""
    ran = own.call("serve", "--listen", "127.0.0.1:0", option, *filter(None, [value]))

    assert ran.code == 2
    assert message in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("token", "mode", "message"),
    [("short\n", 0o600, "at least 32"), ("ü" * 40, 0o600, "at least 32"), (f"{'a1' * 16}\n", 0o640, "chmod 600")],
    ids=["short", "odd", "readable"],
)
def test_a_token_must_be_a_secret(token: str, mode: int, message: str, own: WeboidRunner) -> None:
    """At least 32 characters that only the owner reads, and it says how to make one."""
    path = own.folder / "token"
    path.write_text(token)
    path.chmod(mode)

    ran = own.call("serve", "--listen", "127.0.0.1:0", "--links-token-file", str(path))

    assert ran.code == 2
    assert message in ran.err


async def until(screen: BrowserScreen, expression: str) -> None:
    """Wait until it holds in a loaded page; pages that load one another meanwhile answer each for itself."""
    async with asyncio.timeout(120):
        while not await screen.value(f"document.readyState === 'complete' && !!{expression}"):
            await asyncio.sleep(0.05)


@pytest.mark.browser
@pytest.mark.proxy
@pytest.mark.asyncio(loop_scope="session")
async def test_a_reader_saves_a_page_and_reads_the_copy(web: TestWeb, tmp_path: Path, screen: BrowserScreen) -> None:
    """From the page of a missing copy, by two buttons: the command's own worker archives it; Ctrl-C ends both."""
    weboid = WeboidRunner(tmp_path, profile_for(web, tmp_path / "profile.toml"))
    assert (await asyncio.to_thread(weboid.archive, plain_page(web))).code == 0
    words = ("serve", "--listen", "127.0.0.1:0", "--save", "--profile", str(weboid.profile))
    with running(weboid, *words) as process:
        assert process.stdout is not None
        front = process.stdout.readline().strip()
        await screen.open(f"{front}/page/{plain_page(web)}?saved")
        await screen.value("document.querySelector('.notice .button').click()")
        await until(screen, "document.querySelector('form.speak button')")
        await screen.value("document.querySelector('form.speak button').click()")
        await until(screen, "document.querySelector('.banner')")
        frame = await screen.value("document.querySelector('iframe.copy').src")
        assert "saved" in frame
        assert "Archived on" in await screen.value("document.querySelector('.banner').innerText")
        assert (await asyncio.to_thread(loopback.get, frame)).status_code == 200
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 60) == 0
