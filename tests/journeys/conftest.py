"""The product as its users have it: its commands, its addresses, a browser. Nothing of its code."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.journeys.sites import SiteServer
from tests.support import loopback
from tests.support.services.processes import browser_path

PROGRAMS = Path(sys.executable).parent  # of the environment, `weboid` among them
TIME_LIMIT_S = 240.0
NOBODY = 65534


@dataclass
class CommandEnd:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return its output as JSON lines, without progress events."""
        events = [json.loads(line) for line in self.out.splitlines()]
        return [each for each in events if each.get("event") != "progress"]

    @property
    def pages(self) -> dict[str, str]:
        """Return the outcomes of its page events by URL."""
        return {each["url"]: each["outcome"] for each in self.lines if each["event"] == "page"}


class RunningCommand:
    """A command that stays, such as `weboid serve`. It leads its own process group."""

    def __init__(self, words: list[str], folder: Path, env: dict[str, str]) -> None:
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by end
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
            cwd=folder,
            env=env,
            start_new_session=True,
        )

    @property
    def err(self) -> str:
        """Return its standard error output so far."""
        self._err.seek(0)
        return self._err.read()

    def line(self) -> str:
        """Return its next line; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def until(self, event: str) -> dict[str, Any]:
        """Return its next event of that name, with `--json`."""
        while line := self.line():
            document: dict[str, Any] = json.loads(line)
            if document.get("event") == event:
                return document
        raise AssertionError(f"It ended before {event!r}: {self.err}")

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> CommandEnd:
        """Wait for its end; return what it said since it was last read."""
        out, _ = self.process.communicate(timeout=TIME_LIMIT_S)
        return CommandEnd(self.process.returncode, out, self.err)

    def kill(self) -> None:
        """End it and all that it started as a crash would (kill -9)."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=TIME_LIMIT_S)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                self.kill()
        elif self.process.stdout is not None:
            self.process.stdout.close()
        self._err.close()


class UserShell:
    """Runs `weboid` in a folder of its own, as one types it there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "COLUMNS": "100"}
        self._begun: list[RunningCommand] = []

    def run(self, line: str, *, given: str = "") -> CommandEnd:
        """Run a command line to its end."""
        process = subprocess.Popen(
            shlex.split(line),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.env,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(given, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return CommandEnd(process.returncode, out, err)

    def start(self, line: str) -> RunningCommand:
        """Start a command that stays."""
        self._begun.append(RunningCommand(shlex.split(line), self.folder, self.env))
        return self._begun[-1]

    def serve(self, options: str = "", *, before: str = "") -> "ServeProcess":
        """Start `weboid serve` on a free port; return it with the address that it prints.

        Args:
            options: further ones.
            before: a shell's command, run first in a mount namespace of its own.
        """
        line = f"weboid serve --listen 127.0.0.1:0 {options}"
        if before:
            line = shlex.join(["unshare", "-m", "sh", "-c", f"{before} && exec {line}"])
        command = self.start(line)
        origin = command.line().strip()
        assert origin, command.err
        return ServeProcess(origin, command)

    def end(self) -> None:
        """End what still runs."""
        for each in self._begun:
            each.end()


@dataclass(frozen=True)
class ServeProcess:
    """A running `weboid serve`."""

    origin: str
    command: RunningCommand

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for one of its addresses, redirects followed."""
        url = f"{self.origin}{path}"
        return loopback.get(url, follow_redirects=True, timeout=120, headers=headers)

    def copy(self, url: str) -> str:
        """Return the address of the newest copy itself, as its TimeGate says."""
        answer = loopback.get(f"{self.origin}/timegate/{url}", timeout=120)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def moments(self, url: str) -> list[str]:
        """Return the moments of an address's mementos, oldest first, as its TimeMap tells them."""
        response = self.get(f"/timemap/link/{url}")
        assert response.headers["content-type"].startswith("application/link-format")
        return re.findall(r"/c/(\d{14})/[^>]*>; rel=\"[^\"]*memento", response.text)


def own_form(origin: str) -> dict[str, str]:
    """Return what a browser says of a form that its own site's page sends."""
    return {"Origin": origin, "Sec-Fetch-Site": "same-origin"}


class ReaderBrowser:
    """The real browser without a proxy, sandboxed; not as root, where the sandbox refuses."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def document(self, address: str) -> str:
        """Return the document of an address after it has loaded with its scripts."""
        return self._run("--dump-dom", address)

    def file(self, path: Path) -> str:
        """Return the document of a file that somebody was sent."""
        received = shutil.copy(path, self._home / path.name)
        Path(received).chmod(0o644)
        return self.document(Path(received).as_uri())

    def screenshot(self, address: str) -> Path:
        """Return a picture of an address, 800 by 600."""
        file = self._home / "screenshot.png"
        file.unlink(missing_ok=True)
        self._run(f"--screenshot={file}", "--window-size=800,600", address)
        return file

    def _run(self, *options: str) -> str:
        command = [
            browser_path(), "--headless", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={self._home / 'profile'}", "--timeout=120000",
            "--force-color-profile=srgb",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", *options,
        ]  # fmt: skip
        if os.geteuid() == 0:
            user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
            command = ["setpriv", *user, *command]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=True, cwd=self._home,
            env={**os.environ, "HOME": str(self._home)},
        )  # fmt: skip
        return done.stdout


def profile_of(path: Path, *sites: SiteServer, **groups: dict[str, Any]) -> Path:
    """Write the profile of somebody whose web is on loopback: no delays, these names resolved."""
    merged: dict[str, dict[str, Any]] = {
        "egress": {
            "allow": ["127.0.0.0/8"],
            "resolve": {name: at for site in sites for name, at in site.resolve.items()},
        },
        "proxy": {"disk_reserve_bytes": 0},
        "frontier": {"retry_delay_s": 0.5},
        "politeness": {"min_delay_s": 0.0, "max_delay_s": 0.0, "host_retry_s": 0.5},
    }
    for name, group in groups.items():
        merged[name] = {**merged.get(name, {}), **group}
    lines = []
    for name, group in merged.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in group.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: object) -> str:
    """Return a value as TOML; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[UserShell]:
    """Yield a terminal in an empty folder."""
    opened = UserShell(tmp_path)
    yield opened
    opened.end()


@pytest.fixture
def site() -> Iterator[SiteServer]:
    """Yield a running site that tests can cite."""
    running = SiteServer("library.oldtown.org")
    yield running
    running.stop()


@pytest.fixture
def reader() -> Iterator[ReaderBrowser]:
    """Yield a browser with an empty profile."""
    home = Path(tempfile.mkdtemp(prefix="weboid-reader-"))
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    yield ReaderBrowser(home)
    shutil.rmtree(home)
