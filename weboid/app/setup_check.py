"""Checks of `weboid doctor`: browser, proxy, pywb, shared servers, fonts, limits, scanner."""

import asyncio
import ctypes
import os
import platform
import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from core.clock import SystemClock
from core.config.database_urls import RedisUse, parse_index_url, parse_redis_url
from core.config.settings import Settings
from core.errors import WeboidError
from core.layout import Layout
from crawler.frontier.redis_store import durability_warnings
from crawler.status.collection_status import is_in_use
from playback.access.malware_scan import ClamdClient, parse_clamd_address
from playback.replay.full.text_rewriter import PYWB_FOLDER, find_pywb_python, pywb_version
from render.browser import Browser
from render.chromium import INSTALL_HINT, find_browser
from render.fonts import FONT_PACKAGES, LARGE_SCRIPTS, scripts_without_font
from warc.index.sqlite import check_index, check_shared
from warc.object_storage import open_storage
from warc.uploads import read_state
from weboid.app.installation import is_pywb_current
from weboid.app.malware_scanner import find_clamd


class SetupHealth(StrEnum):
    """Health of a checked component."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    UNSET = "unset"  # not configured, and not needed


@dataclass(frozen=True, slots=True)
class SetupFinding:
    """Result and remedy for one component; `remedy` is empty when it is healthy."""

    subject: str
    health: SetupHealth = field(kw_only=True)
    text: str
    remedy: str = ""

    @property
    def see(self) -> str:
        """Section of the documentation about a problem; empty when there is none."""
        if self.health in (SetupHealth.GOOD, SetupHealth.UNSET):
            return ""
        return f"docs/troubleshooting.md#{self.subject.replace(' ', '-')}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {**asdict(self), "see": self.see}


good = partial(SetupFinding, health=SetupHealth.GOOD)
warn = partial(SetupFinding, health=SetupHealth.WARN)  # needs attention
bad = partial(SetupFinding, health=SetupHealth.BAD)  # prevents work
unset = partial(SetupFinding, health=SetupHealth.UNSET)


_SPARE_FILES = 512  # of a checker: databases, logs, pipes
_CLAMD_TIMEOUT_S = 5.0
_TIME_ERROR = 5  # of ntp_adjtime(3): the clock is not synchronised


def check_fonts() -> SetupFinding:
    """Check that fonts for the scripts of many pages, and for emoji, are installed."""
    remedy = f"Install fonts: `apt-get install {' '.join(FONT_PACKAGES)}`."
    missing = scripts_without_font()
    if missing is None:
        return warn("fonts", "fontconfig is missing", remedy)
    if missing:
        return warn("fonts", f"boxes are drawn for {', '.join(missing)}", remedy)
    return good("fonts", f"{len(LARGE_SCRIPTS) - 1} scripts and emoji")


def check_open_files(settings: Settings, limit: Callable[[], tuple[int, int]] | None = None) -> SetupFinding:
    """Check that the open-files limit allows the profile's number of checker connections."""
    soft, hard = limit() if limit else resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.links.connections + _SPARE_FILES
    text = f"{soft} open files a process ({hard} at most), {needed} are needed"
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return good("limits", text)
    return warn("limits", text, f"`ulimit -n {needed}`, or LimitNOFILE={needed} in the systemd unit.")


def check_clock(state: Callable[[], int] | None = None) -> SetupFinding:
    """Check that the system clock, the source of all dates in the archive, is synchronised."""
    try:
        # A read-only ntp_adjtime(3): struct timex is shorter on every platform; `modes`, its first word, is 0.
        status = state() if state else ctypes.CDLL(None).ntp_adjtime(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        status = -1
    if status < 0:
        return unset("clock", "the kernel does not report its state")
    if status == _TIME_ERROR:
        remedy = "Synchronise it by NTP: `apt-get install systemd-timesyncd`; for a container, on its host."
        return warn("clock", "not synchronised", remedy)
    return good("clock", "synchronised")


def check_scanner(address: str) -> SetupFinding:
    """Check that clamd answers at the address; it is optional, and an empty address means none."""
    if not address:
        remedy = "apt-get install clamav-daemon clamav-freshclam, or set WEBOID_CLAMD to the address of one."
        return warn("scanner", "no clamd: archived content is not scanned for malware", remedy)
    try:
        version = ClamdClient(parse_clamd_address(address), timeout_s=_CLAMD_TIMEOUT_S).version()
    except WeboidError as error:
        return warn("scanner", f"clamd at {address} does not answer", str(error))
    return good("scanner", f"{version} at {address}")


CONFINED_WITHIN_S = 10.0  # a renderer drops its rights some time after its start
SPARE_MEMORY_BYTES = 1_000_000_000  # a browser with four pages


def check_setup(root: Path, settings: Settings) -> list[SetupFinding]:
    """Check everything that archiving and serving need."""
    python = f"{platform.python_version()}, weboid {version('weboid')}, {platform.system()}"
    free = psutil.virtual_memory().available
    text = f"{free / 1e9:.1f} GB free, {psutil.cpu_count()} cores"
    remedy = "Free some memory, or use fewer --workers."
    memory = good("memory", text) if free >= SPARE_MEMORY_BYTES else warn("memory", text, remedy)
    return [
        good("python", python),
        *asyncio.run(check_browser(settings)),
        *_check_shared_stores(settings),
        check_pywb(),
        check_fonts(),
        memory,
        check_open_files(settings),
        *_check_disk(root, settings),
        *_check_storage(Layout(root), settings),
        check_clock(),
        check_scanner(find_clamd(os.environ)),
    ]


def check_pywb() -> SetupFinding:
    """Check the environment for the level full; all other levels work without it."""
    try:
        python = find_pywb_python()
        text = f"pywb {pywb_version(python)} in its own environment, {python}"
    except WeboidError as error:
        return unset("level full", "not available", str(error))
    if python.is_relative_to(PYWB_FOLDER) and not is_pywb_current():
        return warn("level full", f"{text}: made by another release", "Run `weboid setup full`.")
    return good("level full", text)


async def check_browser(settings: Settings) -> list[SetupFinding]:
    """Start the browser, and check that its sandbox confines pages."""
    try:
        executable = find_browser(settings.browser.executable)
        browser = await Browser.launch(settings.browser, executable, clock=SystemClock())
    except WeboidError as error:
        hint = "" if INSTALL_HINT in str(error) else f" {INSTALL_HINT}"
        return [bad("browser", "not usable", f"{str(error).rstrip('.')}.{hint}")]
    try:
        text = f"{executable.kind} {browser.version} at {executable.path}"
        return [good("browser", text), await _check_sandbox(browser)]
    finally:
        await browser.close()


async def _check_sandbox(browser: Browser) -> SetupFinding:
    """Open an empty tab and check that its process runs under seccomp (Chromium's sandbox)."""
    async with browser.context() as context:
        context.on_target = lambda _session, _info: None
        blank = {"url": "about:blank", "browserContextId": context.id}
        await browser.connection.send("Target.createTarget", blank)
        confined = False
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFINED_WITHIN_S):
                while not (confined := _is_confined(browser.pid)):  # noqa: ASYNC110 the kernel has no event for it
                    await asyncio.sleep(0.05)
    remedy = (
        "Allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, or, with AppArmor, as on Ubuntu,"
        " kernel.apparmor_restrict_unprivileged_userns=0 or a profile: docs/how-to/install.md."
    )
    on = "on: pages run under seccomp"
    return good("sandbox", on) if confined else bad("sandbox", "pages are not confined", remedy)


def _is_confined(pid: int) -> bool:
    """Return True if the browser has renderers and each has a seccomp filter (proc(5))."""
    filtered = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error, OSError):
            if "--type=renderer" in child.cmdline():
                status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
                filtered.append("\nSeccomp:\t2\n" in status)
    return bool(filtered) and all(filtered)


def _check_shared_stores(settings: Settings) -> Iterator[SetupFinding]:
    """Check dedup index, frontier and captures index where the profile has shared ones."""
    stores: list[tuple[str, Any, str, Callable[[Any], Sequence[str] | None]]] = []
    if url := settings.proxy.dedup_url:
        dedup = parse_redis_url(url, RedisUse.DEDUP)
        stores.append(("dedup", dedup, f"index {dedup.name}", check_shared))
    if url := settings.frontier.url:
        frontier = parse_redis_url(url, RedisUse.FRONTIER)
        stores.append(("frontier", frontier, f"frontier {frontier.name}", durability_warnings))
    if url := settings.index.url:
        index = parse_index_url(url)
        stores.append(("index", index, f"index {index.index}", check_index))
    for subject, address, name, check in stores:
        try:
            warnings = check(address)
        except WeboidError as error:
            yield bad(subject, f"{address} cannot be used", str(error))
            continue
        yield from (warn(subject, f"{address}, {name}", each) for each in warnings or ())
        if not warnings:
            yield good(subject, f"{address}, {name}")


def _check_storage(layout: Layout, settings: Settings) -> Iterator[SetupFinding]:
    """Check that the bucket answers, and whether WARCs wait for it."""
    state = read_state(layout, settings.storage)
    if state is None:
        return
    try:
        open_storage(settings.storage).check()
    except WeboidError as error:
        yield bad("storage", f"{state.url} cannot be used", str(error))
        return
    text = f"{state.url}: {state.uploaded_files:,} WARCs, {state.pending_files:,} wait"
    yield warn("storage", text, f"The last upload failed: {state.error}") if state.error else good("storage", text)


def _check_disk(root: Path, settings: Settings) -> list[SetupFinding]:
    place = root
    while not place.exists():
        place = place.parent
    free, reserve = shutil.disk_usage(place).free, settings.proxy.disk_reserve_bytes
    text = f"{free / 1e9:.1f} GB free for {root}, {reserve / 1e9:.1f} GB of them reserved"
    remedy = "Free some space, or lower [proxy] disk_reserve_bytes in the profile."
    findings = [bad("disk", text, remedy) if free < reserve else good("disk", text)]
    layout = Layout(root)
    if layout.marker.exists():
        used = "being written by a process" if is_in_use(layout) else "at rest"
        findings.append(good("collection", f"{root}, {used}"))
        if root.stat().st_mode & 0o007:
            text = "every user of this machine can read the collection, including captures made with a login"
            findings.append(warn("privacy", text, f"Run: chmod 700 {root}"))
    return findings
