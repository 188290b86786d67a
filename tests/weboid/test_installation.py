"""The wheel outside its checkout, and `weboid setup`, as somebody who installs them sees them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    """Variables of a machine without a browser, without apt, and without a package index."""
    return {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path / "bin"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": os.devnull,
    }


@pytest.mark.slow
@pytest.mark.skipif(
    any(installation.SHARED_BROWSERS.glob("chromium*")),
    reason="this machine has a browser for all users",
)
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


def test_setup_browser_does_not_replace_a_named_browser(bare: dict[str, str]) -> None:
    """A variable with a wrong path is an error, and nothing is installed in its place."""
    done = run(
        *(sys.executable, "-m", "weboid", "setup", "browser"), **bare, WEBOID_BROWSER="/none/chrome"
    )
    assert done.returncode == 3
    assert "'/none/chrome' is not there" in done.stderr
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
