"""Which browser there is on this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.errors import BrowserUnavailableError

VERSION_TIMEOUT_S = 20.0
INSTALL_HINT = (
    "Install one with: apt-get install chromium-headless-shell (or: apt-get install chromium), "
    "or name one in the profile as [browser] executable."
)
_VERSION = re.compile(r"(\d+(?:\.\d+){1,3})")
_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
# Where a Playwright download keeps them, below its cache folder; newest build first.
_PLAYWRIGHT = (
    "chromium_headless_shell-*/chrome-*/*headless[-_]shell",
    "chromium-*/chrome-linux*/chrome",
)


class BrowserKind(StrEnum):
    """What sort of Chromium it is; the headless shell needs no switch to be headless."""

    HEADLESS_SHELL = "headless-shell"
    CHROMIUM = "chromium"
    CHROME = "chrome"


@dataclass(frozen=True, slots=True)
class BrowserExecutable:
    """A browser that can be started.

    Attributes:
        path: the program.
        kind: headless shell, Chromium or Chrome.
        version: as it prints it, e.g. ``"156.0.8078.79"``.
    """

    path: Path
    kind: BrowserKind
    version: str

    @property
    def major(self) -> str:
        """The first number of the version."""
        return self.version.split(".", 1)[0]


def find_browser(setting: str = "", *, home: Path | None = None) -> BrowserExecutable:
    """The browser to use: the one that `setting` names, else the first that is installed.

    The order is headless shell, Chromium, Chrome, a Playwright download below `home` (by default
    the user's): the headless shell renders two to three times as many pages as the full browser.

    Raises:
        BrowserUnavailableError: there is none, or the named one does not run; the text says what
            to install.
    """
    if setting:
        named = shutil.which(setting)
        if named is None:
            raise BrowserUnavailableError(f"The browser {setting!r} is not there. {INSTALL_HINT}")
        found = _probe(Path(named))
        if isinstance(found, str):
            raise BrowserUnavailableError(f"The browser {setting!r} does not start: {found}.")
        return found
    failures = []
    for path in _candidates(home or Path.home()):
        found = _probe(path)
        if not isinstance(found, str):
            return found
        failures.append(f"{path}: {found}")
    if failures:
        raise BrowserUnavailableError(
            f"A browser is installed, but does not start ({'; '.join(failures)})."
            " Run it with --version to see why."
        )
    raise BrowserUnavailableError(f"No browser was found. {INSTALL_HINT}")


def find_window_browser(*, home: Path | None = None) -> BrowserExecutable:
    """The first browser that is installed and has windows: any but the headless shell.

    Raises:
        BrowserUnavailableError: there is none; the text says what to install.
    """
    for path in _candidates(home or Path.home()):
        if kind_of(path) is not BrowserKind.HEADLESS_SHELL:
            found = _probe(path)
            if not isinstance(found, str):
                return found
    raise BrowserUnavailableError(
        "No browser with windows was found. Install one with: apt-get install chromium, "
        "or name one in the profile as [browser] executable."
    )


def kind_of(path: Path) -> BrowserKind:
    """What sort of browser a program of that name is."""
    name = path.name.replace("_", "-")
    if name.endswith("headless-shell"):
        return BrowserKind.HEADLESS_SHELL
    return BrowserKind.CHROME if name.startswith("google-chrome") else BrowserKind.CHROMIUM


def _candidates(home: Path) -> Iterator[Path]:
    for name in _NAMES:
        path = shutil.which(name)
        if path is not None:
            yield Path(path)
    cache = home / ".cache" / "ms-playwright"
    for pattern in _PLAYWRIGHT:
        builds = (path for path in cache.glob(pattern) if os.access(path, os.X_OK))
        yield from sorted(builds, key=_build, reverse=True)


def _build(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"-(\d+)/", str(path)))


def _probe(path: Path) -> BrowserExecutable | str:
    """Return the browser at `path`, or why it does not say its version."""
    try:
        told = subprocess.run(
            [path, "--version"],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_TIMEOUT_S,
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"no answer to --version in {VERSION_TIMEOUT_S:.0f} s"
    version = _VERSION.search(told.stdout.decode(errors="replace"))
    if told.returncode != 0 or version is None:
        said = told.stderr.decode(errors="replace").strip().partition("\n")[0]
        return f"exit code {told.returncode}{': ' + said[:200] if said else ''}"
    return BrowserExecutable(path, kind_of(path), version.group(1))
