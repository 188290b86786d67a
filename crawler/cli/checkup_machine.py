"""What `weboid doctor` looks at beside Weboid's own parts: fonts, limits, the clock, the virus scanner."""

import ctypes
import resource
import shutil
import subprocess
from collections.abc import Callable

from core.errors import WeboidError
from core.settings import Settings
from crawler.cli.health import Finding, Health
from playback.scanning.clamd import Clamd, parse_clamd_address

_SPARE_FILES = 512  # of a checker: databases, logs, pipes
_CLAMD_TIMEOUT_S = 5.0
_FONTS_TIMEOUT_S = 20.0
_SCRIPTS = {"ja": "Japanese", "ar": "Arabic", "hi": "Devanagari"}
_TIME_ERROR = 5  # of ntp_adjtime(3): nobody sets the clock


def fonts() -> Finding:
    """Return whether pages in scripts other than Latin look as they should."""
    remedy = "Install fonts: `apt-get install fonts-noto-core fonts-noto-cjk`."
    program = shutil.which("fc-list")
    if program is None:
        return Finding("fonts", Health.WARN, "fontconfig is missing", remedy)
    missing = []
    for code, name in _SCRIPTS.items():
        listed = subprocess.run(
            [program, f":lang={code}", "family"],
            capture_output=True,
            check=False,
            timeout=_FONTS_TIMEOUT_S,
        )
        if not listed.stdout.strip():
            missing.append(name)
    if missing:
        return Finding("fonts", Health.WARN, f"none for {', '.join(missing)}", remedy)
    return Finding("fonts", Health.GOOD, "Latin, Arabic, Devanagari, Japanese")


def open_files(settings: Settings, limit: Callable[[], tuple[int, int]] | None = None) -> Finding:
    """Return whether a checker may have as many connections as the profile says."""
    soft, hard = limit() if limit else resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.links.connections + _SPARE_FILES
    text = f"{soft} open files a process ({hard} at most), {needed} are needed"
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return Finding("limits", Health.GOOD, text)
    remedy = f"`ulimit -n {needed}`, or LimitNOFILE={needed} in the unit of systemd."
    return Finding("limits", Health.WARN, text, remedy)


def clock(state: Callable[[], int] | None = None) -> Finding:
    """Return whether somebody sets the machine's clock, which all dates in the archive are of."""
    found = (state or _clock_state)()
    if found < 0:
        return Finding("clock", Health.UNSET, "the kernel does not tell whether it is set")
    if found == _TIME_ERROR:
        remedy = "Set it by NTP: `apt-get install systemd-timesyncd`. In a container: on its host."
        return Finding("clock", Health.WARN, "nobody synchronises it", remedy)
    return Finding("clock", Health.GOOD, "synchronised")


def scanner(address: str) -> Finding:
    """Return whether clamd answers at the address; nothing fails without one, and empty says none."""
    if not address:
        return Finding(
            "scanner",
            Health.WARN,
            "no clamd: what is archived is not scanned for malware",
            "apt-get install clamav-daemon clamav-freshclam, or name one in WEBOID_CLAMD.",
        )
    try:
        version = Clamd(parse_clamd_address(address), timeout_s=_CLAMD_TIMEOUT_S).version()
    except WeboidError as error:
        return Finding("scanner", Health.WARN, f"clamd at {address} does not answer", str(error))
    return Finding("scanner", Health.GOOD, f"{version} at {address}")


def _clock_state() -> int:
    """Return what ntp_adjtime(3) says without changing anything; below 0 when it cannot be asked."""
    try:
        # struct timex is shorter on every platform; `modes`, its first word, is 0: read only.
        return int(ctypes.CDLL(None).ntp_adjtime(ctypes.create_string_buffer(512)))
    except (OSError, AttributeError):
        return -1
