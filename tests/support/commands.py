"""The `weboid` command, run as a user runs it, against the test web."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.crawler.frontier.conftest import new_place, redis_server  # noqa: F401 fixtures
from tests.support.json_outputs import check_output
from tests.support.sites.web import TestWeb
from weboid.cli.main import main

WEBOID = Path(sys.executable).with_name("weboid")
TIME_LIMIT_S = 240


@dataclass
class CommandResult:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the output's parsed JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def pages(self) -> dict[str, dict[str, Any]]:
        """Return the page events by URL."""
        return {each["url"]: each for each in self.events if each["event"] == "page"}

    @property
    def summary(self) -> dict[str, Any]:
        """Return the last event, the summary."""
        last = self.events[-1]
        assert last["event"] == "summary"
        return last


class WeboidRunner:
    """Runs `weboid` in a folder of its own, with a profile under which the test web is reachable."""

    def __init__(self, folder: Path, profile: Path, *, limit_s: float = TIME_LIMIT_S) -> None:
        self.limit_s = limit_s  # of a command
        self.folder = folder
        self.profile = profile
        self.collection = folder / "collection"

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command; it leads its own process group."""
        return subprocess.Popen(
            [str(WEBOID), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "100"},
            start_new_session=True,
        )

    def run(self, *arguments: str, given: str = "") -> CommandResult:
        """Run a command to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(given, timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        check_output(arguments, out)
        return CommandResult(process.returncode, out, err)

    def call(self, *arguments: str, given: str = "") -> CommandResult:
        """Run a command within this process: cheaper than `run`, for what prints and ends."""
        before, environment, mask = Path.cwd(), dict(os.environ), os.umask(0o022)
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        root.handlers.clear()  # so that the command sets up its own log
        os.chdir(self.folder)
        try:
            with CliRunner().isolation(given, {"COLUMNS": "100"}) as (out, err, _):
                try:
                    main(arguments)
                except SystemExit as end:
                    code = end.code
                sys.stdout.flush()
                return CommandResult(int(code or 0), out.getvalue().decode(), err.getvalue().decode())
        finally:
            os.chdir(before)
            os.umask(mask)
            os.environ.clear()
            os.environ.update(environment)
            root.handlers[:] = handlers
            root.setLevel(level)

    def archive(self, *arguments: str, given: str = "") -> CommandResult:
        """Run `weboid archive --json` with the profile."""
        profile = ("--profile", str(self.profile))
        return self.run("archive", "--json", *profile, *arguments, given=given)


def profile_for(web: TestWeb, path: Path, **groups: dict[str, Any]) -> Path:
    """Write a profile under which the test web is reachable, with the groups' changes; return its path."""
    groups["egress"] = {
        "allow": ["127.0.0.0/8"],
        "resolve": web.resolve,
        "ca_file": web.ca_file,
        **groups.get("egress", {}),
    }
    groups["proxy"] = {"disk_reserve_bytes": 0, **groups.get("proxy", {})}
    groups["frontier"] = {"retry_delay_s": 0.5, **groups.get("frontier", {})}
    groups["politeness"] = {
        "min_delay_s": 0.0,
        "max_delay_s": 0.0,
        "host_retry_s": 0.5,
        "visits_per_host": 4,
        **groups.get("politeness", {}),
    }
    lines = []
    for name, group in groups.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in group.items()]
    path.write_text("\n".join(lines))
    return path


def _toml(value: object) -> str:
    """Return the value as TOML; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    return json.dumps(value)


@pytest.fixture
def weboid_with(web: TestWeb, tmp_path: Path) -> Callable[..., WeboidRunner]:
    """Return a function that makes the command's runner; its keyword arguments are groups of the profile."""

    def make(**groups: dict[str, Any]) -> WeboidRunner:
        return WeboidRunner(tmp_path, profile_for(web, tmp_path / "profile.toml", **groups))

    return make


@pytest.fixture
def weboid(weboid_with: Callable[..., WeboidRunner]) -> WeboidRunner:
    """Return the command's runner with the default settings and no politeness."""
    return weboid_with()
