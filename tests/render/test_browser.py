"""Browsers that hang, are stopped, killed or filled: each is ended by somebody outside it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

import render.browser
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.errors import BrowserUnavailableError
from core.page_manifest import VisitOutcome
from render.browser import Browser
from render.chromium import find_browser
from render.visit import Visit, VisitRequest, visit
from tests.support.services.processes import arguments

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

KILLS = 6
GENEROUS_S = 30.0  # what ends at a deadline of two seconds takes no longer on the busiest machine
# Reaches for a browser and is then busy for ever, so that its event loop does nothing more.
BLOCKED = """
import asyncio
import render.browser
from core.clock import SystemClock
from core.config.settings import BrowserSettings
from render.browser import Browser
from render.chromium import find_browser

async def main():
    render.browser.PING_S = 0.1
    settings = BrowserSettings(hang_limit_s=1.0)
    browser = await Browser.launch(settings, find_browser(), clock=SystemClock())
    await asyncio.sleep(0.5)
    print(browser.pid, flush=True)
    input()

asyncio.run(main())
"""


@asynccontextmanager
async def launched(**changes: Any) -> AsyncIterator[Browser]:
    """Launch a browser with some settings changed."""
    settings = BrowserSettings(**changes)
    async with await Browser.launch(settings, find_browser(), clock=SystemClock()) as browser:
        yield browser


def session(pid: int) -> list[psutil.Process]:
    """Return every process of the browser's session, zombies included."""
    processes = []
    for each in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(each) == pid:
                processes.append(psutil.Process(each))
    return processes


def renderers(browser: Browser) -> list[psutil.Process]:
    return [each for each in session(browser.pid) if "--type=renderer" in arguments(each)]


async def until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Wait up to 20 s and return the processes that have not ended."""
    return (await asyncio.to_thread(psutil.wait_procs, processes, 20))[1]


@pytest.fixture(autouse=True)
def _pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ping browsers more often than in production."""
    monkeypatch.setattr(render.browser, "PING_S", 0.1)


@pytest.fixture
def request_for(site: Any) -> Any:
    return lambda path: VisitRequest(site.url(path))


async def test_a_stopped_browser_is_killed_from_outside(
    site: Any, request_for: Any, settings: VisitSettings, clock: SystemClock
) -> None:
    """It answers nobody; its guardian ends it, and the visit is told that it was not the page."""
    async with launched(hang_limit_s=1.0) as browser:
        going = asyncio.ensure_future(visit(browser, request_for("/silent"), settings, clock=clock))
        await site.until_asked("/silent")
        stopped = session(browser.pid)
        for process in stopped:
            process.suspend()

        with pytest.raises(BrowserUnavailableError):
            await asyncio.wait_for(going, 120)
        assert browser.recycle_due() == "dead"
        assert await until_gone(stopped) == []


async def test_the_deadline_holds_in_a_stopped_browser(site: Any, request_for: Any, clock: SystemClock) -> None:
    """Whatever the guardian does, a visit ends at its deadline, and another browser may try."""
    async with launched(hang_limit_s=60.0) as browser:
        short = VisitSettings(timeout_s=2.0)
        began = clock.monotonic()
        going = asyncio.ensure_future(visit(browser, request_for("/silent"), short, clock=clock))
        await site.until_asked("/silent")
        for process in session(browser.pid):
            process.suspend()

        with pytest.raises(BrowserUnavailableError, match="hung"):
            await going
        assert clock.monotonic() - began < GENEROUS_S


async def test_a_stopped_page_costs_its_own_deadline_and_is_ended(
    look: Any, site: Any, browser: Browser, request_for: Any, clock: SystemClock
) -> None:
    """The browser is well, so the visit has its outcome; the process does not stay behind."""
    async with launched() as browser:
        short = VisitSettings(timeout_s=2.0)
        going = asyncio.ensure_future(visit(browser, request_for("/silent-image.html"), short, clock=clock))
        await site.until_asked("/silent?image")
        stopped = renderers(browser)
        for process in stopped:
            process.suspend()
        seen: Visit = await going
        again = await visit(browser, request_for("/plain.html"), VisitSettings(), clock=clock)

        assert seen.outcome is VisitOutcome.PARTIAL
        assert seen.seconds < GENEROUS_S
        assert again.outcome is VisitOutcome.COMPLETE
        assert await until_gone(stopped) == []


async def test_a_worker_whose_event_loop_is_blocked_loses_its_browser() -> None:
    """Nobody in the worker could end it; its guardian does."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BLOCKED, stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    family = session(pid)
    zygotes = [each for each in family if each.pid != pid]

    assert len(family) > 3
    assert await until_gone(zygotes) == []
    assert owner.returncode is None
    owner.kill()
    await owner.communicate()


async def test_a_page_that_fills_memory_ends_alone(
    request_for: Any, settings: VisitSettings, clock: SystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process is killed at the limit; the page beside it is whole."""
    async with launched(page_memory_mb=600) as browser:
        bad, good = await asyncio.gather(
            visit(browser, request_for("/bomb.html"), settings, clock=clock),
            visit(browser, request_for("/tall.html"), settings, clock=clock),
        )

        assert (bad.outcome, bad.reason) == (VisitOutcome.FAILED, "crashed")
        assert good.outcome is VisitOutcome.COMPLETE
        assert "page.ended reason=memory" in caplog.text
        assert browser.recycle_due() == ""


async def test_killed_browsers_leave_nothing(clock: SystemClock) -> None:
    """No zombie, no orphan, no guardian, no descriptor, however often and wherever they are hit."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 counted only
    seen: list[psutil.Process] = []
    for number in range(KILLS):
        async with launched() as browser:
            family = session(browser.pid)
            seen += [*family, psutil.Process(browser._guardian.pid)]
            family[number % len(family)].send_signal(signal.SIGKILL)

    assert await until_gone(seen) == []
    assert [child for child in psutil.Process().children() if child in seen] == []
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 counted only


async def test_a_browser_that_answers_late_is_not_to_blame(site: Any, request_for: Any, clock: SystemClock) -> None:
    """The browser stands still beyond the visit's deadline, then answers: the visit has an outcome of its own."""
    async with launched(hang_limit_s=60.0) as browser:
        going = asyncio.ensure_future(visit(browser, request_for("/silent"), VisitSettings(timeout_s=2.0), clock=clock))
        await site.until_asked("/silent")
        stopped = session(browser.pid)
        for process in stopped:
            process.suspend()
            # The deadline and the wait for the context's disposal take 4 s; the browser may be silent for 5 s more.
            asyncio.get_running_loop().call_later(5.5, process.resume)

        assert (await going).outcome is not VisitOutcome.COMPLETE
