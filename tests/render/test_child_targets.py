"""Attempts of a page that get it nothing: prompts, windows, files, other people's services."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.clock import SystemClock
from core.page_manifest import VisitOutcome
from render.browser import Browser
from render.child_targets import WORKER_LIMITS
from render.chromium import PageOptions
from render.page import BrowserPage, open_page
from render.visit import Visit
from tests.proxy.chromium import go
from tests.support.services.processes import arguments

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
OPTIONS = PageOptions(800, 600, "test", "en", "1")
# A lock may be taken and the screen kept awake: neither asks anybody, nor outlives the visit.
HARMLESS = {"wake"}
GENEROUS_S = 30.0  # what ends at a deadline of two seconds takes no longer on the busiest machine


def text(seen: Visit) -> str:
    return next(a.data for a in seen.artifacts if a.kind == "text").decode()


async def test_a_page_that_begs_gets_nothing(browser: Browser, site: Any, clock: SystemClock) -> None:
    """Even as if a person had clicked: every prompt is refused at once or stays silent (C-11)."""
    async with browser.context() as context:
        page = await open_page(context, None, OPTIONS, clock)
        await go(page, site.url("/beggar.html"))
        async with asyncio.timeout(120):
            parameters = {"expression": "ask()", "userGesture": True, "awaitPromise": True}
            response = await page.send("Runtime.evaluate", parameters | {"returnByValue": True})
        page.end("asked")

    outcomes = dict(each.split(":") for each in response["result"]["value"])
    assert len(outcomes) == 26
    assert {name for name, was in outcomes.items() if was == "granted"} <= HARMLESS


async def test_a_page_that_pushes_outwards_stays_where_it_is(look: Look, site: Any) -> None:
    """Dialogs, windows, downloads, print and foreign schemes pass by; the visit says so (C-11)."""
    seen = await look("/pusher.html")

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "Pusher")
    assert seen.final_url == site.url("/pusher.html")
    assert "/pushed-through" in site.paths()
    assert [path for path in site.paths() if path.startswith("/popup?")] == []
    assert seen.tried is not None
    assert {name: seen.tried.get(name) for name in ("alert", "confirm", "prompt")} == {
        "alert": 3, "confirm": 3, "prompt": 3,
    }  # fmt: skip
    assert seen.tried["download"] >= 1


async def test_windows_that_a_gesture_opens_never_load(browser: Browser, site: Any, clock: SystemClock) -> None:
    """A click opens windows where a script may not; they are counted and closed unheard (C-11)."""
    async with browser.context() as context:
        page = await opened(context, site, clock)
        storm = "for (let i = 0; i < 30; i++) window.open('/popup?' + i, 'w' + i); 1"
        await page.send("Runtime.evaluate", {"expression": storm, "userGesture": True})
        ask = "document.body.innerHTML = '<input type=file>'; document.querySelector('input').click(); 1"
        await page.send("Runtime.evaluate", {"expression": ask, "userGesture": True})
        async with asyncio.timeout(120):
            while not page.tried["file"]:
                await page.wait_changed()
        targets = (await context.connection.send("Target.getTargets"))["targetInfos"]
        page.end("asked")

    assert [each for each in targets if "/popup" in each["url"]] == []
    assert [path for path in site.paths() if path.startswith("/popup?")] == []


async def opened(context: Any, site: Any, clock: SystemClock) -> BrowserPage:
    """Open a tab that shows the plain page."""
    page = await open_page(context, None, OPTIONS, clock)
    await go(page, site.url("/plain.html"))
    return page


async def test_forms_are_never_sent(look: Look, site: Any) -> None:
    """Nothing that a visit does presses a button that sends (C-17)."""
    seen = await look("/form-page.html")

    assert seen.outcome is VisitOutcome.COMPLETE
    assert [path for path in site.paths() if path.startswith("/form-") and "." not in path] == []
    assert {request.method for request in site.requests} == {"GET"}


async def test_what_a_page_writes_to_others_is_in_the_log(look: Look, proxy: Any) -> None:
    """A visit tells which of its requests were no GET, and to whom (C-17)."""
    seen = await look("http://one.test/poster.html", proxy.endpoint())

    posts = [each.url for each in seen.requests if each.method == "POST"]
    assert len([url for url in posts if url.startswith("http://victim.test/order?")]) == 40
    assert "http://victim.test/beacon" in posts
    assert "DELETE" not in {request.method for request in proxy.requests}


async def test_a_visit_finds_nothing_of_an_earlier_one(
    look: Look, site: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cookie, storage, database, file, lock, name or cached answer outlives a visit (C-07)."""

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=99999\r\nETag: x\r\nContent-Length: 1\r\n\r\nx")
        await writer.drain()

    monkeypatch.setattr(site, "serve_cacheable", serve, raising=False)
    url = "https://secure.test/keeper.html"
    seen = [await look(url, proxy.endpoint(user), settle_s=0.5) for user in ("first", "second")]

    assert [text(each) for each in seen] == ["found:nothing"] * 2
    requests = [(each.user, each.headers.get("if-none-match")) for each in proxy.requests
             if each.path == "/cacheable"]  # fmt: skip
    assert requests == [("first", None), ("second", None)]
    assert site.paths().count("/kept-to-the-end") == 2


async def test_visits_share_no_connection(look: Look, proxy: Any) -> None:
    """Sockets, and with them TLS sessions, are a context's own: each visit builds its tunnel (C-07)."""
    for user in ("first", "second"):
        await look("https://secure.test/plain.html", proxy.endpoint(user))

    assert [request.user for request in proxy.requests] == ["first", "second"]


async def test_what_a_host_demands_of_browsers_is_forgotten(
    look: Look, site: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Strict-Transport-Security another visit still asks for http when that was cited (C-07)."""

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=99999; includeSubDomains\r\n"
            b"Content-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>ok"
        )
        await writer.drain()

    monkeypatch.setattr(site, "serve_strict", serve, raising=False)
    await look("https://secure.test/strict", proxy.endpoint())
    seen = await look("http://secure.test/plain.html", proxy.endpoint())

    assert (seen.outcome, seen.final_url) == (VisitOutcome.COMPLETE, "http://secure.test/plain.html")
    assert [request.scheme for request in proxy.requests] == ["https", "http"]


async def test_the_browsers_own_pages_are_out_of_reach(browser: Browser, look: Look, site: Any) -> None:
    """No page leads to chrome:, devtools: or file:, nor loads from them (C-05)."""
    seen = await look("/inward.html")

    assert seen.final_url == site.url("/inward.html")
    assert "tried:" in text(seen)
    assert "reached" not in text(seen)
    assert {request.url.partition(":")[0] for request in seen.requests} == {"http"}
    assert browser.recycle_due() != "dead"


async def test_a_page_calls_nobody_past_the_proxy(browser: Browser, look: Look, site: Any, proxy: Any) -> None:
    """Peers, STUN, TURN and mDNS: not a datagram leaves, and every connection ends at the proxy (C-05)."""
    earlier, seen = far_ends(browser.pid), set[str]()
    with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
        for each in (udp, tcp):
            each.bind(("127.0.0.1", 0))
            each.setblocking(False)
        tcp.listen()
        ports = f"{udp.getsockname()[1]},{tcp.getsockname()[1]}"
        going = asyncio.ensure_future(look(f"http://one.test/calls.html#{ports}", proxy.endpoint(), settle_s=1.0))
        called = asyncio.ensure_future(site.until_asked("/called"))
        while not called.done():
            seen |= await asyncio.to_thread(far_ends, browser.pid)
            await asyncio.wait({called}, timeout=0.1)
        await going
        with pytest.raises(BlockingIOError):
            udp.recv(99)
        with pytest.raises(BlockingIOError):
            tcp.accept()

    assert seen - earlier <= {f"tcp 127.0.0.1:{proxy.port}"}


def far_ends(session: int) -> set[str]:
    """Return the addresses that a session's processes are connected to, or bound to for datagrams."""
    endpoints = set()
    for pid in psutil.pids():
        try:
            if os.getsid(pid) != session:
                continue
            for each in psutil.Process(pid).net_connections("inet"):
                kind = "tcp" if each.type is socket.SOCK_STREAM else "udp"
                near: Any = each.laddr
                far: Any = each.raddr
                if far:
                    endpoints.add(f"{kind} {far.ip}:{far.port}")
                elif kind == "udp" and near.ip not in ("0.0.0.0", "::"):
                    endpoints.add(f"udp bound {near.ip}:{near.port}")
        except (OSError, psutil.Error):
            continue
    return endpoints


def listing(folder: Path) -> list[Path]:
    """Return the entries of a folder; none when it does not exist."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


async def test_a_renderer_has_nothing_of_ours(browser: Browser, clock: SystemClock) -> None:
    """No root, no capability, no file but the browser's own, no name in the file system (C-06)."""
    async with browser.context() as context:
        page = await open_page(context, None, OPTIONS, clock)
        folders = [
            Path(f"/proc/{each.pid}")
            for each in psutil.Process(browser.pid).children(recursive=True)
            if "--type=renderer" in arguments(each)
        ]
        statuses = [(each / "status").read_text() for each in folders]
        roots = [listing(each / "root") for each in folders]
        ours = [
            str(fd.readlink())
            for each in folders
            for fd in (each / "fd").iterdir()
            if str(fd.readlink()).startswith((str(Path.home()), str(Path.cwd())))
        ]
        page.end("seen")

    assert folders
    for status in statuses:
        facts = dict(line.split(":", 1) for line in status.splitlines())
        assert "0" not in facts["Uid"].split()
        for capabilities in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            assert int(facts[capabilities], 16) == 0
        assert facts["Seccomp"].strip() == "2"
    # The sandbox changed its root to the folder of a process that has ended.
    assert roots == [[]] * len(folders)
    assert ours == []


@pytest.mark.parametrize("path", ["/many-frames.html", "/spawner.html"])
async def test_frames_and_workers_without_end_cost_one_deadline(look: Look, path: str) -> None:
    """Frames in frames, workers that start workers: the page visited meanwhile is whole."""
    bad, good = await asyncio.gather(look(path, timeout_s=2.0), look("/plain.html"))

    assert bad.seconds < GENEROUS_S
    assert good.outcome is VisitOutcome.COMPLETE


async def test_no_more_workers_run_than_a_page_may_have(look: Look) -> None:
    """The others are made and never run; the visit tells how many (C-17)."""
    seen = await look("/crowd.html")

    assert seen.outcome is VisitOutcome.COMPLETE
    assert seen.tried == {"worker": 60 - WORKER_LIMITS["worker"]}
