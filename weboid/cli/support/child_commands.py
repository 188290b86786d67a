"""Weboid commands run as child processes of `wiki watch`, except those `--without`, and their supervisor.

A command runs permanently, restarted with growing delays, or at intervals. If the supervisor dies, the kernel ends its
children (`setpriv --pdeathsig`).
"""

import asyncio
import contextlib
import json
import os
import signal
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from core.clock import Clock
from core.config.settings import LinksSettings
from core.errors import UnavailableError, WeboidError
from core.hosts import join_host_port
from crawler.frontier.base import STOP_ORDER, Frontier
from net.stop_signals import wait_for_any
from weboid.app.collection_config import read_config
from weboid.app.malware_scanner import scan_command
from weboid.app.text_table import clean
from weboid.cli.support.run_options import WEBOID

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0  # a child that ran this long is restarted at once
LINE_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """Command run by the supervisor."""

    name: str  # prefix of its output lines
    command: tuple[str, ...]
    every_s: float = 0.0  # delay from its end to the next run; 0: permanent
    first_s: float = 0.0  # delay of its first start
    is_held: Callable[[], bool] = lambda: False  # while it is, a permanent process that has ended is not restarted


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Line of output of a process."""

    part: str
    line: str


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """End of a permanent process, or failure of a periodic one."""

    part: str
    code: int  # its exit code; below zero: the signal that ended it
    again_s: float


class ProcessSupervisor:
    """Supervisor of processes until it is stopped."""

    def __init__(
        self,
        parts: Sequence[ManagedProcess],
        *,
        clock: Clock,
        report: Callable[[ProcessOutput | ProcessExit], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Store the processes, and additions to their environment, such as secrets."""
        self._parts = parts
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._clock = clock
        self._report = report
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def run(self, stopping: asyncio.Event) -> None:
        """Run all processes until `stopping` is set; a cancellation aborts their work. Raises UnavailableError."""
        keeping = [asyncio.create_task(self._keep(part, stopping)) for part in self._parts]
        if not keeping:
            await stopping.wait()
            return
        ending = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([ending, *keeping], return_when=asyncio.FIRST_COMPLETED)
            stopping.set()
            self._terminate()
            await asyncio.gather(*keeping)
        except asyncio.CancelledError:
            self._terminate()
            raise
        finally:
            ending.cancel()
            stopping.set()
            self._terminate()
            _, left = await asyncio.wait(keeping, timeout=LONGEST_PAUSE_S)
            for process in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            if left:
                await asyncio.wait(left)

    def _terminate(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, part: ManagedProcess, stopping: asyncio.Event) -> None:
        pause_s = FIRST_PAUSE_S
        if await wait_for_any(stopping, timeout_s=part.first_s):
            return
        while not stopping.is_set():
            begun = self._clock.monotonic()
            code = await self._once(part)
            if stopping.is_set():
                return
            if part.every_s:
                pause_s = part.every_s
            elif self._clock.monotonic() - begun >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            if code or not part.every_s:
                self._report(ProcessExit(part.name, code, pause_s))
            if await wait_for_any(stopping, timeout_s=pause_s):
                return
            if not part.every_s:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            while part.is_held():
                if await wait_for_any(stopping, timeout_s=FIRST_PAUSE_S):
                    return

    async def _once(self, part: ManagedProcess) -> int:
        """Run it once, forward its output, and return its exit code."""
        try:
            process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "TERM", *part.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=LINE_LIMIT_BYTES,
                start_new_session=True,  # the parent passes a terminal's Ctrl-C on
                env=self._environment,
            )
        except OSError as error:
            raise UnavailableError(f"{part.name} cannot be started: {error}.") from error
        self._running[part.name] = process
        try:
            assert process.stdout is not None
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:  # too long to be read
                    continue
                if not line:
                    return await process.wait()
                if text := line.decode("utf-8", "replace").rstrip():
                    self._report(ProcessOutput(part.name, text))
        finally:
            del self._running[part.name]


@contextlib.asynccontextmanager
async def running_children(
    parts: Sequence[ManagedProcess], clock: Clock, environment: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """Run processes until the end of the block; what they print, and their ends, go to standard error."""

    def report(event: ProcessOutput | ProcessExit) -> None:
        if isinstance(event, ProcessOutput):
            click.echo(f"{event.part}: {event.line}", err=True)
        else:
            click.echo(f"{event.part} ended with {event.code}; restarting in {event.again_s:.0f} s.", err=True)

    stopping = asyncio.Event()
    supervisor = ProcessSupervisor(parts, clock=clock, report=report, environment=environment)
    running = asyncio.create_task(supervisor.run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await running


def scanner(collection: Path, clamd: str, *options: str) -> ManagedProcess:
    """Return the command that scans a collection's payloads."""
    return ManagedProcess("scan", (*scan_command(collection, clamd), *options))


def queue_worker(collection: Path, profile: str) -> ManagedProcess:
    """Return a worker that visits what others add to the collection's queue."""
    words = ("archive", "--stay", "--collection", str(collection), "--profile", profile)
    return ManagedProcess("worker", (*WEBOID, *words))


def is_stopped(frontier: Frontier) -> bool:
    """Return True while a stop order holds: what it has ended begins again when it is taken back."""
    with contextlib.suppress(WeboidError):
        return bool(frontier.orders(STOP_ORDER))
    return False


_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_RETRY_WORDS = frozenset({"again", "later"})  # as `weboid.cli.support.run_output.event_line` begins them
_RETRIES_EVERY = timedelta(hours=1)
_RETRY_HOSTS = 10_000
# All child commands of a watcher; `--without` takes these.
CHILD_NAMES = (
    *("archive", "check", "confirm", "bot", "replace", "purge", "copies", "verify", "mirror"),
    *("serve", "scan", "lists", "webhooks", "console"),
)


@dataclass(frozen=True, slots=True)
class ChildCommandOptions:
    """Options of the child commands."""

    collection: Path
    profile: str
    frontier_url: str = ""  # of a shared frontier, whose workers archive; empty: a child archives
    database_url: str = ""  # of a shared index and registry; empty: the collection's own
    workers: int = 1
    serve: tuple[str, int] | None = None  # listening address of the front; None: not served
    serve_options: tuple[str, ...] = ()  # further options of `weboid serve`, such as `--replay-port=8081`
    as_json: bool = False
    qa: bool | None = None  # check the copies of archived pages; None: as the profile sets it
    clamd: str = ""  # address of a virus scanner; empty: there is none
    console: str = ""  # listening address of the operator's console; empty: not served
    console_origin: str = ""  # public origin of the console; empty: its address
    front: str = ""  # origin of the reader pages; empty: they are not served
    without: frozenset[str] = frozenset()  # names of children that run elsewhere, of `CHILD_NAMES`


def watch_children(
    home: ChildCommandOptions, links: LinksSettings, is_held: Callable[[], bool] = lambda: False
) -> list[ManagedProcess]:
    """Return the child commands of a watcher; `links` is the profile's `[links]` table, `is_held` of the archiver."""
    children = [
        _part(home, "check", "links check --watch"),
        _part(home, "confirm", "links confirm --every=5m --hand-over"),
        # Does nothing when no wiki has its bot enabled.
        _part(home, "bot", "wiki bot run --all", every_s=_HOUR, first_s=_MINUTE),
        _part(home, "replace", "links replace --test", every_s=_DAY, first_s=5 * _MINUTE),
        _part(home, "purge", "links purge", every_s=_DAY, first_s=30 * _MINUTE),
    ]
    if not home.frontier_url:
        qa = {None: "", True: " --qa", False: " --no-qa"}[home.qa]
        archiver = _part(home, "archive", f"archive --stay --workers={home.workers}{qa}")
        children.insert(0, replace(archiver, is_held=is_held))
    if links.archives:
        # Links dead at first sight are looked up quickly, while readers still wait for a copy.
        children += [
            _part(home, "copies", "links copies find", every_s=5 * _MINUTE, first_s=_MINUTE),
            _part(home, "verify", "links copies check", every_s=_DAY, first_s=20 * _MINUTE),
        ]
    else:  # reports the number of lost links when no archive is configured
        children.append(_part(home, "copies", "links copies find", every_s=_DAY, first_s=10 * _MINUTE))
    if links.mirror != "never":
        children.append(_part(home, "mirror", "links mirror --every=10m"))
    if not home.database_url:
        # Updates bad-address lists whose files have changed, if there are any.
        children.append(_part(home, "lists", "scan lists refresh", every_s=_HOUR, first_s=_MINUTE))
    if read_config(home.collection).webhooks():
        children.append(_part(home, "webhooks", "webhooks send --every=1m"))
    if home.console:
        origins = f"--origin={home.console_origin} --front={home.front}"
        children.append(_part(home, "console", f"console --no-worker --listen={home.console} {origins}"))
    if home.clamd:
        children.append(_part(home, "scan", f"scan --watch --clamd={home.clamd}"))
    if home.serve is not None:
        # The watcher runs its own scanner and its own worker.
        own = ("--no-scan", "--no-save-worker", f"--profile={home.profile}")
        command = ("serve", *own, f"--collection={home.collection}", f"--listen={join_host_port(*home.serve)}")
        children.append(ManagedProcess("serve", (*WEBOID, *command, *home.serve_options)))
    return [each for each in children if each.name not in home.without]


def with_time(text: str, now: datetime) -> str:
    """Return a log line, prefixed with its time.

    >>> with_time("check | 3 due", datetime(2026, 11, 22, 17, 5, 9))
    '2026-11-22 17:05:09 check | 3 due'
    """
    return f"{now:%Y-%m-%d %H:%M:%S} {text}"


def child_output_printer(*, as_json: bool, clock: Clock) -> Callable[[ProcessOutput | ProcessExit], None]:
    """Return a printer of the children's lines, with time and name, or as JSON with ``part``."""
    retries = _RetryDigest()

    def show(event: ProcessOutput | ProcessExit) -> None:
        facts: Any
        if isinstance(event, ProcessExit):
            again = f"started again in {event.again_s:.0f} s"
            facts = {"event": "ended", "code": event.code, "again_s": event.again_s}
            names = {-each: f"signal {each.name}" for each in signal.Signals}
            text = f"ended ({names.get(event.code, f'exit code {event.code}')}), {again}"
        else:
            try:
                facts = json.loads(event.line)
            except (ValueError, RecursionError):
                facts = None
            if not isinstance(facts, dict):
                facts = {"event": "said", "line": event.line}
            text = clean(event.line)
        if as_json:
            click.echo(json.dumps({"part": event.part, **facts}, ensure_ascii=False))
            return
        now = clock.now()
        if (line := retries.shown(text, now)) is not None:
            click.echo(with_time(f"{event.part:>8} | {line}", now))

    return show


class _RetryDigest:
    """Filter of failed attempts at one host: printed once, then hourly with their number."""

    def __init__(self) -> None:
        self._printed: OrderedDict[tuple[str, str], tuple[datetime, int]] = OrderedDict()

    def shown(self, line: str, now: datetime) -> str | None:
        word, _, rest = line.partition(" ")
        if word not in _RETRY_WORDS:
            return line
        try:
            host = urlsplit(rest.split()[0]).netloc
        except (ValueError, IndexError):
            return line
        printed_at, more = self._printed.pop((word, host), (None, 0))
        if len(self._printed) >= _RETRY_HOSTS:
            self._printed.popitem(last=False)
        if printed_at is not None and now - printed_at < _RETRIES_EVERY:
            self._printed[word, host] = printed_at, more + 1
            return None
        self._printed[word, host] = now, 0
        return f"{line} ({more} more of {host} since the last line)" if more else line


def _part(
    home: ChildCommandOptions, name: str, words: str, *, every_s: float = 0.0, first_s: float = 0.0
) -> ManagedProcess:
    options = [f"--collection={home.collection}"]
    if not words.startswith("scan"):  # which has no profile
        options.append(f"--profile={home.profile}")
    if home.as_json and name != "console":
        options.append("--json")
    return ManagedProcess(name, (*WEBOID, *words.split(), *options), every_s, first_s)
