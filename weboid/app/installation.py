"""Installation of what the package index does not provide: a browser, and the environment with pywb."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from core.errors import BrowserUnavailableError, UnavailableError
from playback.replay.full.text_rewriter import PYWB_FOLDER, PYWB_PYTHON, pywb_version
from render.chromium import SHARED_BROWSERS, BrowserExecutable, find_browser
from render.fonts import FONT_PACKAGES, scripts_without_font

Report = Callable[[str], None]

_PACKAGES = ("chromium-headless-shell", "chromium")
_PLAYWRIGHT = "playwright>=1.55"
_BUILD = "chromium-headless-shell"  # of Playwright
_TIMEOUT_S = 1800.0
_LOCK = Path(__file__).resolve().parents[2] / "requirements" / "replay.txt"
_STAMP = "weboid-lock"


class _CommandError(Exception):
    """Failure of a program; its text is the last line that says why."""


def install_browser(report: Report, environ: Mapping[str, str] = os.environ) -> BrowserExecutable:
    """Return the browser that is installed; install one if there is none.

    As root with apt; everywhere else, and on Ubuntu, whose package is a stub for a snap, by Playwright: as root into
    a folder that all users read, otherwise into the user's cache. Raises BrowserUnavailableError that lists the attempts.
    """
    try:
        return find_browser()
    except BrowserUnavailableError:
        if environ.get("WEBOID_BROWSER"):
            raise
    is_root = os.geteuid() == 0
    failures = []
    package = _apt_package(refresh=is_root)
    if package and is_root:
        try:
            report(f"Installing {package} with apt-get")
            _apt_install(package)
            browser = find_browser()
            _install_fonts(report)
            return browser
        except (_CommandError, BrowserUnavailableError) as error:
            failures.append(f"apt-get install {package}: {error}")
    try:
        _install_playwright_build(report, is_root=is_root, environ=environ)
        browser = find_browser()
        if is_root and package:
            _install_fonts(report)
        return browser
    except (_CommandError, BrowserUnavailableError) as error:
        failures.append(f"Playwright: {error}")
    steps = [
        "allow access to the package mirror or to Playwright's download server, and run it again",
        "copy a Chromium or Chrome to this machine, and name it in WEBOID_BROWSER",
    ]
    if not is_root:
        with_package = f"as root, run: apt-get install {package}"
        without = "run `weboid setup browser` as root, which also installs missing libraries"
        steps.insert(0, with_package if package else without)
    advice = [f"  {each}" for each in failures] + ["One of these helps:"] + [f"  - {each}" for each in steps]
    raise BrowserUnavailableError("\n".join(["No browser could be installed.", *advice]))


def _apt_package(*, refresh: bool) -> str | None:
    """Return the apt package that contains a browser; None without apt, or if it is a snap's stub."""
    apt_cache = shutil.which("apt-cache")
    if apt_cache is None:
        return None
    for is_again in (False, True) if refresh else (False,):
        if is_again:
            with suppress(_CommandError):
                _apt("update")
        for name in _PACKAGES:
            record = subprocess.run(
                [apt_cache, "--no-all-versions", "show", name], capture_output=True, text=True, check=False
            ).stdout
            if record.strip() and "snapd" not in record:
                return name
    return None


def _apt_install(*packages: str) -> None:
    """Install packages; read the lists again if that fails."""
    command = ("install", "--yes", "--no-install-recommends", *packages)
    try:
        _apt(*command)
    except _CommandError:
        _apt("update")
        _apt(*command)


def _apt(*arguments: str) -> None:
    options = ("Acquire::Retries=3", "DPkg::Lock::Timeout=120", "Dpkg::Use-Pty=0")
    settings = [part for each in options for part in ("-o", each)]
    _run(["apt-get", "-qq", *settings, *arguments], {"DEBIAN_FRONTEND": "noninteractive"})


def _install_fonts(report: Report) -> None:
    """Install fonts for the scripts that have none; without them pages have boxes, but a browser runs."""
    if scripts_without_font() == []:
        return
    report(f"Installing {', '.join(FONT_PACKAGES)} with apt-get")
    try:
        _apt_install(*FONT_PACKAGES)
    except _CommandError as error:
        report(f"apt-get install {' '.join(FONT_PACKAGES)}: {error}")


def _install_playwright_build(report: Report, *, is_root: bool, environ: Mapping[str, str]) -> None:
    """Download Playwright's headless Chromium, with an environment of its own for the downloader."""
    variables = {}
    if is_root and not environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        # The browser never runs as root: its folder is readable for others.
        variables["PLAYWRIGHT_BROWSERS_PATH"] = str(SHARED_BROWSERS)
    with tempfile.TemporaryDirectory(prefix="weboid-setup-") as folder:
        report("Downloading Playwright")
        python = _make_environment(Path(folder) / "venv")
        _pip(python, _PLAYWRIGHT)
        playwright = [str(python), "-m", "playwright"]
        if is_root and shutil.which("apt-get"):
            report("Installing the libraries that Chromium needs")
            _apt_install("libatomic1")  # of Playwright's own program, which installs the others
            _run([*playwright, "install-deps", _BUILD])
        report("Downloading Playwright's Chromium")
        _run([*playwright, "install", _BUILD], variables)
    if variables:
        for path in (SHARED_BROWSERS, *SHARED_BROWSERS.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))


def install_pywb(report: Report, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter of the environment with pywb, made or renewed by the release's lock; or UnavailableError."""
    if named := environ.get(PYWB_PYTHON):
        pywb_version(Path(named))
        return Path(named)
    python = PYWB_FOLDER / "bin" / "python"
    if is_pywb_current():
        return python
    stamp = PYWB_FOLDER / _STAMP
    try:
        stamp.unlink(missing_ok=True)
        report(f"Preparing {PYWB_FOLDER}")
        _make_environment(PYWB_FOLDER)
        lock = _LOCK.read_text(encoding="utf-8")
        # Build requirements of source distributions come first, from the lock as well.
        builder = re.search(r"^setuptools==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
        with tempfile.TemporaryDirectory(prefix="weboid-setup-") as folder:
            first = Path(folder) / "builder.txt"
            first.write_text(builder.group() if builder else "", encoding="utf-8")
            _pip(python, "--require-hashes", "--no-deps", "-r", str(first))
        report("Installing pywb")
        options = ("--require-hashes", "--use-pep517", "--no-build-isolation")
        _pip(python, *options, "-r", str(_LOCK))
        stamp.write_text(_lock_digest(), encoding="ascii")
    except (OSError, _CommandError) as error:
        raise UnavailableError(
            f"The environment with pywb could not be made in {PYWB_FOLDER}: {error}\n"
            "It needs write access to that folder, and a package index: pip's own settings hold "
            f"(PIP_INDEX_URL). Or set {PYWB_PYTHON} to a Python that has pywb."
        ) from error
    pywb_version(python)
    return python


def is_pywb_current() -> bool:
    """Return whether the environment with pywb was made from the lock of this release."""
    try:
        return (PYWB_FOLDER / _STAMP).read_text(encoding="ascii") == _lock_digest()
    except OSError:
        return False


def _lock_digest() -> str:
    return hashlib.sha256(_LOCK.read_bytes()).hexdigest()


def _pip_of_this_environment() -> list[str]:
    """Return the command of our own pip if it can install elsewhere (since 22.3), else an empty list."""
    try:
        major, minor = map(int, version("pip").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return []
    return [sys.executable, "-m", "pip", "--python"] if (major, minor) >= (22, 3) else []


def _make_environment(folder: Path) -> Path:
    """Make a virtual environment, with pip unless ours serves it, and return its interpreter."""
    without = ["--without-pip"] if _pip_of_this_environment() else []
    try:
        _run([sys.executable, "-m", "venv", "--clear", *without, str(folder)])
    except _CommandError as error:
        release = f"{sys.version_info[0]}.{sys.version_info[1]}"
        text = f"Python's venv does not work ({error}); as root, run: apt-get install python{release}-venv"
        raise _CommandError(text) from error
    return folder / "bin" / "python"


def _pip(python: Path, *arguments: str) -> None:
    own = _pip_of_this_environment()
    pip = [*own, str(python)] if own else [str(python), "-m", "pip"]
    _run([*pip, "install", "-q", "--no-input", "--disable-pip-version-check", *arguments])


def _run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    """Run a program to its end; raise `_CommandError` with the last line that states the reason."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
            env={**os.environ, **(variables or {})},
        )
    except OSError as error:
        raise _CommandError(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise _CommandError(f"{command[0]} did not end within {_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise _CommandError(_reason(done.stdout) or f"exit code {done.returncode}")


def _reason(output: str) -> str:
    """Return the last line that begins as errors do, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?:E:|ERROR|Error|error)", line)]
    return (errors or lines or [""])[-1][:300]
