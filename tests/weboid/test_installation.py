"""The wheel outside its checkout, and `weboid setup`, as somebody who installs them sees them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from render.chromium import SHARED_BROWSERS
from tests.support.loopback import LoopbackServer
from tests.support.services.ports import free_port
from tests.support.services.processes import browser_path
from weboid.app import installation

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with variables of its own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("WEBOID_")}
    return subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        check=False,
        env={**environ, **variables},
        timeout=280,
    )


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine without a browser, without apt, and without a package index."""
    return {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path / "bin"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": os.devnull,
    }


@pytest.mark.slow
@pytest.mark.skipif(any(SHARED_BROWSERS.glob("chromium*")), reason="this machine has a browser for all users")
def test_setup_browser_says_what_to_do_when_it_cannot_install(bare: dict[str, str]) -> None:
    """Ends with 3, names what was tried and why it failed; `--check` tries nothing."""
    weboid = (sys.executable, "-m", "weboid", "setup", "browser")

    checked = run(*weboid, "--check", "--json", **bare)
    assert checked.returncode == 3
    (finding,) = json.loads(checked.stdout)
    assert (finding["subject"], finding["health"]) == ("browser", "bad")
    assert "weboid setup browser" in finding["remedy"]

    tried = run(*weboid, **bare)
    assert tried.returncode == 3
    assert "Playwright: ERROR: No matching distribution" in tried.stderr
    assert "WEBOID_BROWSER" in tried.stderr


@pytest.mark.slow
def test_setup_browser_does_not_replace_a_named_browser(bare: dict[str, str]) -> None:
    """A variable with a wrong path is an error, and nothing is installed in its place."""
    done = run(*(sys.executable, "-m", "weboid", "setup", "browser"), **bare, WEBOID_BROWSER="/none/chrome")
    assert done.returncode == 3
    assert "'/none/chrome' does not exist" in done.stderr
    assert "could be installed" not in done.stderr


@pytest.mark.parametrize(
    ("record", "package"),
    [
        ("Package: chromium\nDepends: libc6\n", "chromium-headless-shell"),
        ("Package: chromium\nPre-Depends: debconf, snapd (>= 2.54)\n", None),
        ("", None),
    ],
)
def test_apt_package_is_no_stub_for_a_snap(
    record: str, package: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that needs snapd is Ubuntu's, and contains no browser."""
    (tmp_path / "record").write_text(record)
    apt = tmp_path / "apt-cache"
    apt.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/record\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installation._apt_package(refresh=False) == package


# --------------------------------------------------------------------------------------- the wheel

PAGE = b"<!doctype html><title>A page</title><h1>Kept by a wheel</h1><img src=a.svg>"
PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="9"/></svg>'


class _PictureSite(BaseHTTPRequestHandler):
    """One page with a picture."""

    def do_GET(self) -> None:
        """Answer with the page, or its picture."""
        is_picture = self.path.endswith(".svg")
        body = PICTURE if is_picture else PAGE
        self.send_response(200)
        self.send_header("Content-Type", "image/svg+xml" if is_picture else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def site() -> Iterator[str]:
    """Return the URL of a page on this machine."""
    with LoopbackServer(_PictureSite) as server:
        yield f"{server.origin}/"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of a fresh environment with the wheel, built from this checkout.

    Its libraries are those of the environment of the tests; pip finds that none is missing.
    """
    folder = tmp_path_factory.mktemp("wheel")
    listed = run("git", "-C", ROOT, "ls-files", "-zco", "--exclude-standard").stdout.split("\0")
    for name in listed:
        if name and not name.startswith(("tests/", "docs/", "bench/")) and (ROOT / name).is_file():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    pip = ("-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder / "source")
    built = run(sys.executable, *pip, *build)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("weboid-*.whl")

    made = run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    assert made.returncode == 0, made.stderr
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "venv" / "lib" / version / "site-packages"
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = folder / "venv" / "bin" / "python"
    installed = run(python, *pip, "install", "-q", "--no-index", "--ignore-installed", "--no-deps", wheel)
    assert installed.returncode == 0, installed.stderr
    return python.parent


@pytest.mark.slow
def test_a_wheel_contains_every_file_of_its_packages(programs: Path) -> None:
    """Templates, scripts, profiles, catalogues and the lock of the level full are inside."""
    packages = next((programs.parent / "lib").glob("python*/site-packages"))
    source = programs.parents[1] / "source"
    folders = "core net classify warc proxy render links playback wiki crawler qa weboid profiles"
    files = [each for folder in folders.split() for each in (source / folder).rglob("*")]
    inside = [each.relative_to(source) for each in files if each.is_file()]

    assert len(inside) > 500
    assert not [each for each in inside if not (packages / each).is_file()]
    assert (packages / "requirements" / "replay.txt").is_file()


@pytest.mark.browser
@pytest.mark.playback
@pytest.mark.slow
def test_a_wheel_archives_and_replays_a_page(programs: Path, site: str, tmp_path: Path) -> None:
    """`init`, `archive` and `serve` in an empty folder, with no checkout in sight."""
    (tmp_path / "here.toml").write_text('[egress]\nallow = ["127.0.0.0/8"]\n[proxy]\ndisk_reserve_bytes = 0\n')
    folder, weboid = tmp_path / "collection", programs / "weboid"
    common = ("--collection", folder)
    where = run(programs / "python", "-P", "-c", "import weboid; print(weboid.__file__)")
    assert where.stdout.startswith(str(programs.parent)), where

    made = run(weboid, "init", *common, "--contact", "you@example.com", HOME=str(tmp_path))
    assert made.returncode == 0, made.stderr
    saved = run(weboid, "archive", site, *common, "--profile", tmp_path / "here.toml", WEBOID_BROWSER=browser_path())
    assert saved.returncode == 0, saved.stderr
    assert "Pages: 1 complete." in saved.stdout

    port = free_port()
    served = subprocess.Popen(
        [weboid, "serve", *common, f"--listen=127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert served.stdout is not None
        front = served.stdout.readline().strip()
        with urllib.request.urlopen(f"{front}/timemap/link/{site}") as answer:
            (stamp,) = re.findall(r"/(\d{14})/", answer.read().decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/c/{stamp}/{site}") as answer:
            copy = answer.read().decode()
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=120)
    assert "Kept by a wheel" in copy


@pytest.mark.playback
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_setup_full_makes_the_environment_of_a_wheel(programs: Path) -> None:
    """Below the prefix of its Python, from the lock inside the wheel; a second run does nothing."""
    weboid = (programs / "weboid", "setup", "full")
    assert run(*weboid, "--check").returncode == 3

    made = run(*weboid, "--json")
    assert made.returncode == 0, made.stderr
    (finding,) = json.loads(made.stdout)
    assert finding["health"] == "good"
    assert str(programs.parent / "share" / "weboid" / "pywb") in finding["text"]
    again = run(*weboid)
    assert (again.returncode, again.stderr) == (0, "")

    stamp = programs.parent / "share" / "weboid" / "pywb" / "weboid-lock"
    stamp.write_text("another release")
    assert "made by another release" in run(*weboid, "--check").stdout
