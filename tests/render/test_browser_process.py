"""The browser as processes: contained while it lives, gone without a trace when it ends."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.clock import SystemClock
from core.config.settings import BrowserSettings
from core.errors import BrowserUnavailableError
from core.hosts import ProxyEndpoint
from render.browser import Browser
from render.browser_process import NOBODY, BrowserHome, child_environment, privilege_prefix
from render.chromium import BrowserExecutable, BrowserKind, PageOptions, find_browser
from render.page import open_page
from tests.support.services.processes import arguments
from warc.local_storage import ScratchKind, remove_abandoned

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SETTINGS = BrowserSettings()
OPTIONS = PageOptions(800, 600, "test", "en", "1")
OWNER = """
import asyncio, sys
from core.clock import SystemClock
from core.config.settings import BrowserSettings
from render.browser import Browser
from render.chromium import find_browser

async def main():
    browser = await Browser.launch(BrowserSettings(), find_browser(), clock=SystemClock())
    print(browser.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def members(browser: Browser) -> list[psutil.Process]:
    """Return every live process of the browser's session."""
    processes = []
    for pid in psutil.pids():
        try:
            process = psutil.Process(pid)
            if os.getsid(pid) == browser.pid and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (OSError, psutil.Error):
            continue
    return processes


def status(process: psutil.Process) -> dict[str, str]:
    """Return the process's status fields from /proc; none when it has ended."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def renderers(browser: Browser) -> list[psutil.Process]:
    return [each for each in members(browser) if "--type=renderer" in arguments(each)]


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a temporary folder of the test alone, which any user may enter."""
    with tempfile.TemporaryDirectory(prefix="weboid-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def homes(scratch: Path) -> set[Path]:
    return set(scratch.glob(f"{ScratchKind.BROWSER}*"))


async def launch(clock: SystemClock, settings: BrowserSettings = SETTINGS) -> Browser:
    return await Browser.launch(settings, find_browser(), clock=clock)


async def test_the_sandbox_is_on(browser: Browser, clock: SystemClock) -> None:
    """A page's process has its own user, process and network namespaces, and a system call filter."""
    async with browser.context() as context:
        page = await open_page(context, None, OPTIONS, clock)
        processes = renderers(browser)
        page.end("seen")

        assert processes
        for process in processes:
            fields = status(process)
            assert fields["Seccomp"] == "2"
            assert len(fields["NSpid"].split()) > 1
            for namespace in ("user", "pid", "net"):
                theirs = Path(f"/proc/{process.pid}/ns/{namespace}").readlink()
                assert theirs != Path(f"/proc/self/ns/{namespace}").readlink()


async def test_nothing_runs_as_root_or_can_become_it(browser: Browser) -> None:
    """Code that breaks out of the browser has no rights (C-06)."""
    seen = [fields for fields in map(status, members(browser)) if fields]
    assert seen
    for fields in seen:
        assert "0" not in fields["Uid"].split()
        assert fields["NoNewPrivs"] == "1"


async def test_no_process_was_told_to_drop_its_guard(browser: Browser) -> None:
    """The switches that undo the sandbox or open a port are never passed."""
    line = " ".join(arguments(process) for process in members(browser))

    assert "--remote-debugging-pipe" in line
    for never in ("--no-sandbox", "--disable-web-security", "--remote-debugging-port"):
        assert f"{never}=" not in line
        assert f"{never} " not in line + " "


async def test_the_browser_listens_on_no_port(browser: Browser) -> None:
    """It is reached by its pipe only."""
    for process in members(browser):
        assert [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN] == []


async def test_the_environment_holds_nothing_of_ours(clock: SystemClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in our environment is not in the browser's."""
    monkeypatch.setenv("WEBOID_SECRET", "s3cret")
    async with await launch(clock) as browser:
        for process in members(browser):
            assert b"s3cret" not in Path(f"/proc/{process.pid}/environ").read_bytes()

    assert set(child_environment(Path("/x"))) <= {
        "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH", "LANG", "TZ",
        "DBUS_SESSION_BUS_ADDRESS", "CHROME_HEADLESS",
    }  # fmt: skip


async def test_no_descriptor_of_ours_is_inherited(clock: SystemClock, tmp_path: Path) -> None:
    """An open file, such as a WARC, is not the browser's to read."""
    with (tmp_path / "ours").open("wb"):
        async with await launch(clock) as browser:
            for process in members(browser):
                for fd in Path(f"/proc/{process.pid}/fd").iterdir():
                    with contextlib.suppress(FileNotFoundError):  # the browser closed it meanwhile
                        assert not str(fd.readlink()).startswith(str(tmp_path))


async def test_closing_leaves_nothing(clock: SystemClock, scratch: Path) -> None:
    """No process, no zombie of ours, no folder, no open descriptor."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    browser = await launch(clock)
    async with browser.context() as context:
        await open_page(context, None, OPTIONS, clock)
    alive = members(browser)
    assert len(homes(scratch)) == 1
    await browser.close()

    assert len(alive) > 2
    assert members(browser) == []
    assert [child for child in psutil.Process().children() if child.pid == browser.pid] == []
    assert homes(scratch) == set()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_closing_twice_is_harmless(clock: SystemClock) -> None:
    """One owner closes; a second call finds nothing to do."""
    browser = await launch(clock)
    await browser.close()
    await browser.close()

    assert browser.recycle_due() == "dead"


async def test_a_killed_browser_is_noticed_and_cleaned_up(clock: SystemClock, scratch: Path) -> None:
    """Its death is an event, and its orphans end with `close`."""
    browser = await launch(clock)
    # Debian's program is a shell script that starts the browser proper.
    lines = {each: arguments(each) for each in members(browser)}
    for process, line in lines.items():
        if "--remote-debugging-pipe" in line and "--type=" not in line and "/bin/sh" not in line:
            process.send_signal(signal.SIGKILL)
    async with asyncio.timeout(120):
        await browser.died.wait()
        await browser.connection.closed.wait()
    with pytest.raises(BrowserUnavailableError):
        await browser.connection.send("Browser.getVersion")
    await browser.close()

    assert (members(browser), homes(scratch)) == ([], set())


async def gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Wait up to 30 s and return the processes that have not ended."""
    return (await asyncio.to_thread(psutil.wait_procs, processes, 30))[1]


async def start_owner() -> tuple[asyncio.subprocess.Process, list[psutil.Process]]:
    """Start a worker with a browser; return it and all its child processes."""
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert await owner.stdout.readline()
    return owner, psutil.Process(owner.pid).children(recursive=True)


async def test_a_killed_owner_leaves_neither_browser_nor_folder(scratch: Path) -> None:
    """The guardian sees its pipe closed, ends the browser, removes the folder, and ends."""
    owner, family = await start_owner()
    owner.kill()
    await owner.wait()

    assert len(family) > 3
    assert await gone(family) == []
    assert homes(scratch) == set()


async def test_a_stopped_browser_does_not_outlive_its_owner(scratch: Path) -> None:
    """A process that is stopped sees no pipe close; it ends all the same."""
    owner, family = await start_owner()
    for process in family:
        if "guardian" not in arguments(process):
            process.suspend()
    owner.kill()
    await owner.wait()

    assert await gone(family) == []
    assert homes(scratch) == set()


async def test_the_next_browser_sweeps_what_nobody_removed(scratch: Path) -> None:
    """When owner and guardian are killed together, the folder goes later, the browser at once."""
    owner, family = await start_owner()
    for process in family:
        if "guardian" in arguments(process):
            process.kill()
    owner.kill()
    await owner.wait()

    assert await gone(family) == []
    assert len(remove_abandoned(scratch)) == 1
    assert homes(scratch) == set()


async def test_a_home_in_use_is_not_swept(scratch: Path) -> None:
    """Browsers of other workers keep their folders."""
    home = BrowserHome(owner=None)

    assert home.root not in remove_abandoned(scratch)
    assert home.profile.is_dir()
    home.close()
    assert not home.root.exists()


async def test_a_browser_is_replaced_when_it_is_due(clock: SystemClock) -> None:
    """By visits, memory and age, whichever comes first."""
    async with await launch(clock) as browser:
        async with browser.context():
            pass
        due = {}
        for changes in ({}, {"recycle_pages": 1}, {"recycle_rss_mb": 1}, {"recycle_age_s": 0.0}):
            browser._settings = replace(SETTINGS, **changes)
            due[next(iter(changes), "")] = browser.recycle_due()

        assert due == {"": "", "recycle_pages": "pages", "recycle_rss_mb": "memory", "recycle_age_s": "age"}


async def test_contexts_leave_no_process_behind(browser: Browser, clock: SystemClock) -> None:
    """A renderer ends with its visit."""
    for _ in range(3):
        async with browser.context() as context:
            await open_page(context, None, OPTIONS, clock)

    _, alive = psutil.wait_procs(renderers(browser), timeout=120)
    assert alive == []


def fake_browser(folder: Path, does: str) -> BrowserExecutable:
    """Write a shell script in place of a browser."""
    program = folder / "browser"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    return BrowserExecutable(program, BrowserKind.CHROMIUM, "1")


async def test_a_program_that_is_no_browser_says_what_it_said(clock: SystemClock, scratch: Path) -> None:
    """The error holds the program's last words, and nothing is left."""
    executable = fake_browser(scratch, "echo no display >&2; exit 3")

    with pytest.raises(BrowserUnavailableError, match="Its output: no display"):
        await Browser.launch(SETTINGS, executable, clock=clock)
    assert homes(scratch) == set()


async def test_a_missing_sandbox_is_explained(clock: SystemClock, scratch: Path) -> None:
    """The way out is to allow it, never to go without."""
    executable = fake_browser(scratch, "echo '[FATAL] No usable sandbox! Update' >&2; exit 1")

    with pytest.raises(BrowserUnavailableError, match="unprivileged user namespaces"):
        await Browser.launch(SETTINGS, executable, clock=clock)


async def test_a_browser_that_does_not_answer_is_given_up(clock: SystemClock, scratch: Path) -> None:
    """The start has a limit of its own, and the silent process is ended."""
    settings = replace(SETTINGS, start_timeout_s=0.5)
    executable = fake_browser(scratch, "exec sleep 60")

    with pytest.raises(BrowserUnavailableError, match=r"did not answer within 0\.5 s"):
        await Browser.launch(settings, executable, clock=clock)
    assert homes(scratch) == set()


async def test_root_gives_up_its_rights() -> None:
    """And refuses to start a browser when it cannot."""
    prefix = privilege_prefix(root=True, executable=Path("/nowhere/chromium"))

    assert f"--reuid={NOBODY}" in prefix
    assert "--clear-groups" in prefix


async def test_root_without_setpriv_starts_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a browser as root, never without its sandbox."""
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(BrowserUnavailableError, match="apt-get install util-linux"):
        privilege_prefix(root=True, executable=Path("/nowhere/chromium"))
    assert privilege_prefix(root=False, executable=Path("/nowhere/chromium")) == []


async def test_a_set_uid_helper_keeps_its_right_to_rise(tmp_path: Path) -> None:
    """Debian's helper sets up the sandbox where user namespaces are forbidden."""
    helper = tmp_path / "chrome-sandbox"
    helper.touch()
    helper.chmod(0o4755)

    prefix = privilege_prefix(root=True, executable=tmp_path / "chromium")
    assert "--no-new-privs" not in prefix


async def test_a_password_is_not_shown() -> None:
    """The logged form of an endpoint holds no secret."""
    assert "secret" not in repr(ProxyEndpoint("127.0.0.1", 1, "user", "secret"))
    assert ProxyEndpoint("::1", 8080).server == "http://[::1]:8080"
