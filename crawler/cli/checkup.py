"""What `weboid doctor` looks at: each part started or read for real, with a remedy when it fails."""

import asyncio
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from core.clock import SystemClock
from core.errors import WeboidError
from core.index_url import parse_index_url
from core.layout import Layout
from core.redis_url import RedisUse, parse_redis_url
from core.settings import Settings
from crawler.cli import checkup_machine
from crawler.cli.health import Finding, Health
from crawler.frontier.redis_store import look_at
from crawler.reporting import in_use
from playback.scanning.clamd import find_clamd
from playback.server import find_replay_python
from proxy.index.opening import ask_index
from proxy.payloads.opening import ask_shared
from render.browser import Browser
from render.executable import find_browser

CONFINED_WITHIN_S = 10.0  # a renderer gives up its rights some time after it has started
SPARE_MEMORY_BYTES = 1_000_000_000  # a browser with four pages


def examine(root: Path, settings: Settings) -> list[Finding]:
    """Look at everything that archiving and serving need."""
    return [
        _python(),
        *asyncio.run(_browser(settings)),
        _proxy(),
        *_dedup(settings),
        *_frontier(settings),
        *_index(settings),
        _replay(),
        checkup_machine.fonts(),
        _memory(),
        checkup_machine.open_files(settings),
        *_disk(root, settings),
        checkup_machine.clock(),
        checkup_machine.scanner(find_clamd(os.environ)),
    ]


def _python() -> Finding:
    text = f"{platform.python_version()}, weboid {version('weboid')}, {platform.system()}"
    return Finding("python", Health.GOOD, text)


async def _browser(settings: Settings) -> list[Finding]:
    """Find it, start it, and see whether its renderers are confined."""
    try:
        executable = find_browser(settings.browser.executable)
        browser = await Browser.launch(settings.browser, executable, clock=SystemClock())
    except WeboidError as error:
        return [Finding("browser", Health.BAD, "not usable", str(error))]
    try:
        found = f"{executable.kind} {browser.version} at {executable.path}"
        return [Finding("browser", Health.GOOD, found), await _sandbox(browser)]
    finally:
        await browser.close()


async def _sandbox(browser: Browser) -> Finding:
    """Open an empty tab and see whether its process runs under seccomp: Chromium's sandbox is on."""
    async with browser.context() as context:
        context.on_target = lambda _session, _info: None
        blank = {"url": "about:blank", "browserContextId": context.id}
        await browser.connection.send("Target.createTarget", blank)
        confined = False
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFINED_WITHIN_S):
                while not (confined := _confined(browser.pid)):  # noqa: ASYNC110 the kernel tells nobody
                    await asyncio.sleep(0.05)
    if confined:
        return Finding("sandbox", Health.GOOD, "on: pages run under seccomp")
    return Finding(
        "sandbox",
        Health.BAD,
        "pages are not confined",
        "Allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, or, with "
        "AppArmor, kernel.apparmor_restrict_unprivileged_userns=0.",
    )


def _confined(pid: int) -> bool:
    """Whether the browser has renderers and the kernel filters the calls of each (proc(5))."""
    filtered = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error, OSError):
            if "--type=renderer" in child.cmdline():
                status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
                filtered.append("\nSeccomp:\t2\n" in status)
    return bool(filtered) and all(filtered)


def _proxy() -> Finding:
    try:
        return Finding("proxy", Health.GOOD, f"warcprox {version('warcprox')}")
    except PackageNotFoundError:
        return Finding("proxy", Health.BAD, "warcprox is missing", "Run `make setup`.")


def _dedup(settings: Settings) -> list[Finding]:
    """The dedup index that the profile shares with other machines; nothing when it has its own."""
    if not settings.proxy.dedup_url:
        return []
    address = parse_redis_url(settings.proxy.dedup_url, RedisUse.DEDUP)
    try:
        ask_shared(address)
    except WeboidError as error:
        return [Finding("dedup", Health.BAD, f"{address} cannot be used", str(error))]
    return [Finding("dedup", Health.GOOD, f"{address}, index {address.name}")]


def _index(settings: Settings) -> list[Finding]:
    """The captures index that the profile shares with other machines; nothing when it has its own."""
    if not settings.index.url:
        return []
    address = parse_index_url(settings.index.url)
    try:
        ask_index(address)
    except WeboidError as error:
        return [Finding("index", Health.BAD, f"{address} cannot be used", str(error))]
    return [Finding("index", Health.GOOD, f"{address}, index {address.index}")]


def _frontier(settings: Settings) -> list[Finding]:
    """The Redis that the profile shares a frontier in; nothing when the collection has its own."""
    if not settings.frontier.url:
        return []
    address = parse_redis_url(settings.frontier.url, RedisUse.FRONTIER)
    try:
        warnings = look_at(address)
    except WeboidError as error:
        return [Finding("frontier", Health.BAD, f"{address} cannot be used", str(error))]
    text = f"{address}, frontier {address.name}"
    if warnings:
        return [Finding("frontier", Health.WARN, text, warning) for warning in warnings]
    return [Finding("frontier", Health.GOOD, text)]


def _replay() -> Finding:
    try:
        python = find_replay_python()
    except WeboidError as error:
        return Finding("replay", Health.BAD, "pywb's environment is missing", str(error))
    asked = "from importlib.metadata import version; print(version('pywb'))"
    result = subprocess.run(
        [str(python), "-I", "-c", asked], capture_output=True, text=True, check=False
    )
    if result.returncode:
        return Finding("replay", Health.BAD, f"no pywb in {python}", "Run `make setup`.")
    return Finding("replay", Health.GOOD, f"pywb {result.stdout.strip()} in its own environment")


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    text = f"{free / 1e9:.1f} GB free, {psutil.cpu_count()} cores"
    if free < SPARE_MEMORY_BYTES:
        return Finding("memory", Health.WARN, text, "Free some, or use fewer --workers.")
    return Finding("memory", Health.GOOD, text)


def _disk(root: Path, settings: Settings) -> list[Finding]:
    place = root
    while not place.exists():
        place = place.parent
    free, reserve = shutil.disk_usage(place).free, settings.proxy.disk_reserve_bytes
    text = f"{free / 1e9:.1f} GB free for {root}, {reserve / 1e9:.1f} GB of them reserved"
    if free < reserve:
        remedy = "Free some space, or lower [proxy] disk_reserve_bytes in the profile."
        findings = [Finding("disk", Health.BAD, text, remedy)]
    else:
        findings = [Finding("disk", Health.GOOD, text)]
    layout = Layout(root)
    if layout.marker.exists():
        used = "being written by a process" if in_use(layout) else "at rest"
        findings.append(Finding("collection", Health.GOOD, f"{root}, {used}"))
        if root.stat().st_mode & 0o007:
            text = "every user of this machine can read what was archived, with logins, too"
            findings.append(Finding("privacy", Health.WARN, text, f"Run: chmod 700 {root}"))
    return findings
