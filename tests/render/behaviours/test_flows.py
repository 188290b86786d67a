"""Flows of the operator: what they open is archived, and bad ones cost a visit their own time at most."""

import re
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BehaviourSettings, VisitSettings
from core.errors import ConfigError
from core.hosts import ProxyEndpoint
from core.page_manifest import VisitOutcome
from render.behaviours.catalog import NO_BEHAVIOURS, load_behaviours
from render.behaviours.flows import CdpRelay, load_flow
from render.browser import Browser, BrowserContext
from render.chromium import page_options
from render.page import open_page
from render.visit import Visit, VisitRequest, visit
from tests.render.conftest import PASSWORD, USER

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
QUICK = VisitSettings(timeout_s=180.0, settle_s=0.1, settle_limit_s=5.0, full_page=False, thumbnail=False)
SHOP = """
    match = "http://shop.example/shop.html*"

    async def flow(page):
        await page.click("#enter")
        await page.click("#yes")
        await page.fill("[name=code]", "12345")
        await page.click("text=Show prices")
        await page.wait_for_selector("#prices h2")
"""
Walk = Callable[..., Awaitable[Visit]]


def written(folder: Path, text: str, name: str = "shop.py") -> Path:
    """Return a file with the flow."""
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip())
    return path


@pytest.fixture
def walk(browser: Browser, proxy: Any, clock: SystemClock, tmp_path: Path) -> Walk:
    """Visit the shop with one flow and no other behaviour, by a proxy that wants credentials."""
    endpoint = ProxyEndpoint("127.0.0.1", proxy.port, USER, PASSWORD, "token-1")

    async def walk(text: str, *, context: BrowserContext | None = None, **changes: Any) -> Visit:
        flows = (str(written(tmp_path, text)),)
        behaviours = load_behaviours(BehaviourSettings(run=(), flows=flows))
        request = VisitRequest("http://shop.example/shop.html", endpoint, context=context)
        settings = replace(QUICK, **changes)
        return await visit(browser, request, settings, behaviours=behaviours, clock=clock)

    return walk


def artifact(seen: Visit, kind: ArtifactKind) -> str:
    """Return the artifact's text."""
    (content,) = [each.data.decode() for each in seen.artifacts if each.kind is kind]
    return content


def flow(body: str, match: str = '"re:.*"') -> str:
    """Return a file with that body."""
    return f"match = {match}\n\nasync def flow(page):\n" + textwrap.indent(textwrap.dedent(body).strip() + "\n", "    ")


async def test_what_a_flow_opens_is_archived(
    browser: Browser, walk: Walk, site: Any, proxy: Any, clock: SystemClock
) -> None:
    """Two clicks and a form; text and every request are the visit's, and the cart is not shared with the next page."""
    endpoint = ProxyEndpoint("127.0.0.1", proxy.port, USER, PASSWORD, "token-1")
    context = await browser.open_context(endpoint)
    before = VisitRequest("http://shop.example/plain.html", endpoint, context=context)
    await visit(browser, before, QUICK, behaviours=NO_BEHAVIOURS, clock=clock)
    was_reusable = context.reusable
    seen = await walk(SHOP, context=context)
    is_reusable = context.reusable
    await browser.close_context(context)

    assert (seen.outcome, seen.reason) == (VisitOutcome.COMPLETE, "")
    (done,) = seen.behaviours
    assert (done.name, done.done, done.error) == ("flow shop.py", 1, "")
    assert "Prices in 12345" in artifact(seen, ArtifactKind.TEXT)
    assert "Prices in 12345" in artifact(seen, ArtifactKind.DOM)
    queries = {each.url.partition("?")[2] for each in seen.requests}
    assert {"prices-12345", "shelf"} <= queries
    assert {"/text.txt?prices-12345", "/image.png?shelf"} <= set(site.paths())
    assert {each.headers.get("content-language") for each in proxy.requests} == {"token-1"}
    assert (was_reusable, is_reusable) == (True, False)


async def test_a_flow_leaves_no_files(walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright makes a folder for each flow, and does not remove it when its process is ended."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    seen = await walk(flow("await page.title()"))

    assert seen.outcome is VisitOutcome.COMPLETE
    assert list(temporary.iterdir()) == []


async def test_a_flow_is_for_the_pages_that_it_names(walk: Walk) -> None:
    """Others are visited as ever."""
    seen = await walk(flow("raise RuntimeError", match='["other.example", "re:/shop[.]php"]'))
    assert (seen.outcome, seen.behaviours) == (VisitOutcome.COMPLETE, ())


# The alarm of the flow's own process, which comes at the end of its time: a second after the flow has begun.
SOON = "import signal; signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
BAD = {
    "raises": ('x = 1\nraise ValueError("no such shelf")', "shop.py:5: ValueError: no such shelf"),
    "misses": ('await page.click("#nothing", timeout=200)', "shop.py:4: TimeoutError: "),
    "hangs": (f"{SOON}import asyncio\nawait asyncio.Event().wait()", "shop.py:6: stopped after "),
    "opens a tab": ("await page.context.new_page()", "shop.py:4: Error: "),
    "leaves the site": ('await page.goto("http://other.example/plain.html")', "shop.py: it ended on another site"),
    "closes the page": (f"{SOON}await page.close()", "shop.py:5: stopped after "),
    "loops": (f"{SOON}while True: pass", "shop.py:5: stopped after "),
    "interrupts": ("raise KeyboardInterrupt", "shop.py:4: KeyboardInterrupt"),
    "never gives up": (
        f"{SOON}while True:\n    try: await page.click('#nothing', timeout=50)\n    except BaseException: pass",
        "shop.py:",  # and one of its lines
    ),
    "sleeps": (f"{SOON}import time\ntime.sleep(3600)", "shop.py:6: stopped after "),
    "exits": ("import sys\nsys.exit(3)", "shop.py:5: SystemExit: 3"),
    "is cancelled": ("import asyncio\nraise asyncio.CancelledError", "shop.py:5: CancelledError"),
    "ends its process": ("import os\nos._exit(3)", "shop.py: its process ended with 3"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_flow_leaves_a_partial_page(kind: str, walk: Walk) -> None:
    """The reason names file and line; the artifacts are there, and nothing else was opened."""
    body, reason = BAD[kind]
    seen = await walk(flow(body))

    assert seen.outcome is VisitOutcome.PARTIAL
    assert seen.reason.startswith(f"flow: {reason}"), seen.reason
    (done,) = seen.behaviours
    assert (done.done, f"flow: {done.error}") == (0, seen.reason)
    assert artifact(seen, ArtifactKind.DOM)


async def test_a_flow_ends_with_its_share_of_the_time(walk: Walk) -> None:
    """Wherever it is by then, so that the rest is left for the artifacts."""
    seen = await walk(flow("import asyncio\nawait asyncio.Event().wait()"), timeout_s=12.0)

    assert seen.outcome is VisitOutcome.PARTIAL
    assert re.fullmatch(r"flow: shop[.]py(:5)?: stopped after \d+ s", seen.reason)


async def test_a_flow_changes_nothing_that_the_visit_emulates(walk: Walk, site: Any, proxy: Any) -> None:
    """Size, scheme, language and the token of its requests stay, whatever a flow sets; its popups load nothing."""
    seen = await walk(
        flow("""
            await page.click("#popup")
            await page.set_viewport_size({"width": 333, "height": 444})
            await page.set_extra_http_headers({"X-Flow": "1"})
            await page.evaluate("fetch('/text.txt?own')")
            await page.emulate_media(color_scheme="dark")
            await page.evaluate('''() => {
              const dark = matchMedia("(prefers-color-scheme: dark)").matches;
              document.title = [innerWidth, dark, navigator.language].join();
            }''')
        """)
    )
    assert (seen.outcome, seen.reason) == (VisitOutcome.COMPLETE, "")
    assert "/plain.html?popup" not in site.paths()
    assert seen.title == "1280,false,en-US"
    (own,) = [each for each in proxy.requests if each.path.endswith("/text.txt?own")]
    assert (own.headers.get("content-language"), own.headers.get("x-flow")) == ("token-1", "1")


async def test_the_relay_serves_one_client_with_the_path_and_no_browser(browser: Browser, clock: SystemClock) -> None:
    """A page or another program of the machine does not reach the visit through it."""
    options = page_options(QUICK, browser_said=browser.user_agent, version=browser.version)
    async with browser.context() as context, aiohttp.ClientSession() as session:
        page = await open_page(context, None, options, clock)
        relay = CdpRelay(page)
        async with relay as endpoint:
            address, _, _ = endpoint.rpartition("/")
            for url, headers, status in (
                (f"{address}/guess", {}, 404),
                (endpoint, {"Origin": "http://shop.example"}, 403),
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await session.ws_connect(url, headers=headers)
                assert refused.value.status == status
            async with session.ws_connect(endpoint) as client:
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(endpoint)
                for number, method in enumerate(
                    ("Target.createTarget", "Target.getTargets", "Storage.getUsageAndQuota")
                ):
                    await client.send_json({"id": number, "method": method, "params": {}})
                    answer = await client.receive_json()
                    assert answer["id"] == number
                    assert "not possible" in answer["error"]["message"]
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.ws_connect(endpoint)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("match = 'a.example'\ndef flow(page): ...", 'has no "async def flow'),
        ("async def flow(page): ...", "must name its pages"),
        ("match = ['ftp://a.example/']\nasync def flow(page): ...", "only http and https"),
        ("match = 'a.example'\nasync def flow(page)\n    pass", "shop.py:2: SyntaxError"),
        ("import nothing_of_that_name", "shop.py:1: ModuleNotFoundError"),
        ("import sys\nsys.exit('no key')", "shop.py:2: SystemExit: no key"),
    ],
)
async def test_a_file_that_is_no_flow_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    """Before the run begins, with the file's name."""
    with pytest.raises(ConfigError, match=r"shop\.py") as error:
        load_flow(written(tmp_path, text))
    assert reason in str(error.value)
