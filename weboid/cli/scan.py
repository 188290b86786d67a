"""`weboid scan`: malware scan of payloads, and lists of bad addresses."""

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from core.errors import InputError, TransientError, UnavailableError, WeboidError
from core.json_values import json_facts
from core.timestamps import parse_duration
from crawler.collection import read_collection
from net.backoff import ExponentialBackoff
from net.stop_signals import wait_unless_stopped
from playback.access import malware_scan, threat_lists
from playback.access.decision_store import DecisionStore
from playback.access.holds import ScanVerdict, list_threats
from warc.local_storage import replace_file
from weboid.app.malware_scanner import CLAMD_ADDRESS, CLAMD_VARIABLE
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, GroupWithDefault, argument, cli_command, option
from weboid.cli.support.options import INTERVAL, output
from weboid.cli.support.progress import count_progress
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

_SOURCES = "sources.json"


@click.group("lists", cls=CommandGroup, hidden=True)
def lists_group() -> None:
    """Manage lists of bad addresses in local files; no URL is sent to a service."""


@cli_command("add", lists_group)
def add_command(
    *,
    name: str = argument(),
    file: Path = argument(type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)),
    form: str = option(
        "Format: hash prefixes, one per line or concatenated; or URLs and hosts, one per line.",
        "--format",
        choices=("hex", "binary", "urls"),
        default="hex",
    ),
    bytes_each: int = option(
        "Length of a prefix in bytes, with --format binary.", "--width", within=(4, 32), default=4
    ),
    warn: bool = option("Show the copy together with the notice, instead of after it."),
    reason: str = option("Description of the list for readers.", default=""),
    dry_run: bool = option("Read the file; change nothing."),
    stores: CollectionStores = STORES,
) -> None:
    """Add the list NAME from FILE, or update it; - reads standard input.

    Prefixes are of 4 to 32 bytes of the SHA-256 of Safe Browsing's expressions. See docs/how-to/scanning.md.
    """
    effect = threat_lists.ListEffect.WARN if warn else threat_lists.ListEffect.HOLD
    with _store(stores) as (store, folder), click.open_file(str(file), "rb") as source:
        prefixes = _prefixes(source, form, bytes_each)
        threat_list = threat_lists.ThreatList(name, "", effect, reason, 0, CLOCK.now())
        if dry_run:
            count = len(set(prefixes))
            click.echo(f"Entries that would be on the list {clean(name)}: {count:,}.")
            return
        stored = threat_lists.add_list(store, folder, threat_list, prefixes)
        remember_source(folder, name, None if str(file) == "-" else _ListSource(file, form, bytes_each))
    _show_list(stored)


@cli_command("rm", lists_group)
def remove_command(*, name: str = argument(), stores: CollectionStores = STORES) -> None:
    """Remove the list NAME; readers are no longer warned of its entries."""
    with _store(stores) as (store, folder):
        removed = threat_lists.remove_list(store, folder, name)
        remember_source(folder, name, None)
    output.show(_facts(removed), f"The list {clean(name)} of {removed.entries:,} entries was removed.")


@cli_command("refresh", lists_group, hidden=True)
def refresh_command(
    *,
    stores: CollectionStores = STORES,
    every: timedelta | None = option("Repeat at this interval: 1h.", type=INTERVAL),
) -> int:
    """Update lists whose files have changed since they were added; `wiki watch` does it hourly.

    A list comes from where `lists add` read it; one from standard input is skipped.
    """
    while True:
        failed = _refresh(stores)
        if every is None:
            return ExitCode.SOME_FAILED if failed else ExitCode.OK
        if not asyncio.run(wait_unless_stopped(every)):
            return ExitCode.OK


def _refresh(stores: CollectionStores) -> bool:
    """Read again the lists whose files have changed; return True when one could not be read."""
    failed = False
    with _store(stores) as (store, folder):
        sources = _sources(folder)
        for threat_list in threat_lists.list_rows(store):
            source = sources.get(threat_list.name)
            if source is None:
                continue
            try:
                if datetime.fromtimestamp(source.file.stat().st_mtime, UTC) <= threat_list.added_at:
                    continue
                with source.file.open("rb") as stream:
                    prefixes = list(_prefixes(stream, source.form, source.bytes_each))
                stored = threat_lists.add_list(store, folder, replace(threat_list, added_at=CLOCK.now()), prefixes)
            except (OSError, InputError) as error:  # the older list stays
                click.echo(f"The list {clean(threat_list.name)} is unchanged: {error}", err=True)
                failed = True
                continue
            _show_list(stored)
    return failed


class _ListSource(NamedTuple):
    """Source file of a list, and its format."""

    file: Path
    form: str
    bytes_each: int


def remember_source(folder: Path, name: str, source: _ListSource | None) -> None:
    """Store the source of a list; None deletes it."""
    sources = _sources(folder)
    sources.pop(name, None)
    if source is not None:
        sources[name] = source._replace(file=source.file.absolute())
    folder.mkdir(parents=True, exist_ok=True)
    facts = {each: [str(source.file), source.form, source.bytes_each] for each, source in sources.items()}
    replace_file(folder / _SOURCES, json.dumps(facts))


def _sources(folder: Path) -> dict[str, _ListSource]:
    try:
        facts = json.loads((folder / _SOURCES).read_text(encoding="utf-8"))
        return {name: _ListSource(Path(file), str(form), int(size)) for name, (file, form, size) in facts.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@cli_command("ls", lists_group)
def list_command(*, urls: tuple[str, ...] = argument("[URL]..."), stores: CollectionStores = STORES) -> int:
    """Show the lists; with URLs those that contain each. Exit code 1: a URL is on a list."""
    with _store(stores) as (store, folder):
        lists = threat_lists.list_rows(store)
        known = threat_lists.load_lists(store, folder) if urls else None
        matches = {url: known.all_on(url) for url in urls} if known else {}
    if not urls:
        rows = [(each.name, each.entries, each.effect, each.added_at, each.reason) for each in lists]
        head = ("list", "entries>", "effect", "as of", "reason")
        output.table({"lists": [_facts(each) for each in lists]}, head, rows)
        return ExitCode.OK
    document, lines = [], []
    for url, hits in matches.items():
        document.append({"url": url, "lists": [{**_facts(hit.on), "sure": hit.is_sure} for hit in hits]})
        names = [f"{clean(hit.on.name)}{'' if hit.is_sure else ' (maybe)'}" for hit in hits]
        lines.append(f"{clean(url)}: {', '.join(names) or 'on no list'}")
    output.show({"urls": document}, lines)
    return ExitCode.SOME_FAILED if any(matches.values()) else ExitCode.OK


@contextmanager
def _store(stores: CollectionStores) -> Iterator[tuple[DecisionStore, Path]]:
    with stores.decisions() as store:
        yield store, threat_lists.lists_folder(stores.layout.decisions_db)


def _prefixes(source: Any, form: str, bytes_each: int) -> Iterator[bytes]:
    if form == "binary":
        yield from threat_lists.parse_binary_prefixes(source.read(), bytes_each)
    elif form == "hex":
        yield from threat_lists.parse_hex_prefixes(source)
    else:
        for number, line in enumerate(source, 1):
            text = line.strip()
            if not text or text.startswith(b"#"):
                continue
            try:
                url = text.decode()
            except UnicodeDecodeError:
                raise InputError(f"Line {number} is not text.") from None
            yield threat_lists.url_hashes(url)[0]


def _show_list(threat_list: threat_lists.ThreatList) -> None:
    output.show(_facts(threat_list), f"Entries on the list {clean(threat_list.name)}: {threat_list.entries:,}.")


def _facts(threat_list: threat_lists.ThreatList) -> dict[str, Any]:
    return {**json_facts(threat_list, "name entries effect reason"), "added_at": threat_list.added_at}


log = logging.getLogger(__name__)

_ALL_AGAIN_S = 3_600.0  # between scans of the whole index, while watching


class StopFlag:
    """Flag that a signal handler may set while the main thread waits for it, where `threading.Event` can deadlock."""

    def __init__(self) -> None:
        self._is_set = False
        self._unset = threading.Lock()  # held until it is set; `release` needs no other lock
        self._unset.acquire()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, once, and wake the thread that waits."""
        self._is_set = True
        self._unset.release()

    def wait(self, timeout_s: float) -> None:
        """Wait until it is set, for one thread, or that many seconds."""
        if not self._is_set:
            self._unset.acquire(timeout=timeout_s)


@cli_command("scan", cls=GroupWithDefault, invoke_without_command=True)
def scan_group(
    *,
    stores: CollectionStores = STORES,
    clamd: str = option(
        "Address of clamd: unix:/path, or host:port.",
        default=CLAMD_ADDRESS,
        envvar=CLAMD_VARIABLE,
        show_envvar=True,
        metavar="ADDRESS",
    ),
    watch: bool = option("Keep running: scan new payloads, and all when signatures change."),
    every: timedelta = option("Polling interval, with --watch.", type=INTERVAL, default="10s"),
    again: bool = option("Also scan payloads that already have a verdict of the current signatures."),
    jobs: int = option("At once.", within=(1, 64), default=2),
    max_bytes: int = option(
        "Largest payload to scan, at most clamd's StreamMaxLength and MaxFileSize.",
        within=(1, None),
        default=malware_scan.MOST_BYTES,
    ),
    signatures: Path | None = option(
        "clamd's database folder: your own signatures there count towards the version, too.",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
    ),
    settle: str = option("Time limit for clamd to load changed --signatures.", default="15m"),
) -> int:
    """Scan payloads with clamd, and store its verdicts.

    The newest are scanned first. Neither capture nor playback waits for it. Payloads with a verdict of the same signatures are
    skipped, so an interrupted scan continues where it stopped. Playback shows a notice for payloads
    with a threat. Exit code 1: a threat was found. See docs/how-to/scanning.md.
    """
    layout = read_collection(stores.root)
    address, pause_s = malware_scan.parse_clamd_address(clamd), every.total_seconds()
    with ExitStack() as stack:
        scan = malware_scan.CollectionScan(
            stack.enter_context(stores.index()),
            stack.enter_context(stores.decisions()),
            malware_scan.ClamdClient(address),
            partial(malware_scan.PayloadReader, layout),
            CLOCK.now,
            most_bytes=max_bytes,
            jobs=jobs,
            signatures=signatures,
            settle=parse_duration(settle),
        )
        stopped = stack.enter_context(_stopped_by_signals())
        if watch:
            _watch(scan, stopped, pause_s)
            return ExitCode.STOPPED
        with count_progress() as bar:
            task = bar.add_task("scanning", total=None)
            result = scan.run(
                again=again,
                is_stopped=stopped.is_set,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        _print_scan(result)
    if stopped.is_set():
        return ExitCode.STOPPED
    return ExitCode.SOME_FAILED if result.threats else ExitCode.OK


scan_group.add_command(lists_group)


@cli_command("ls", scan_group)
def threats_command(*, stores: CollectionStores = STORES) -> None:
    """Show the payloads in which a threat was found, newest first."""
    with stores.decisions() as decisions:
        threats = list_threats(decisions)
    rows = [(each.scanned_at, each.threat, each.scanner, each.digest) for each in threats]
    head = ("scanned", "threat", "scanner", "digest")
    output.table({"threats": [_scan_facts(each) for each in threats]}, head, rows)


def _watch(scan: malware_scan.CollectionScan, stopped: StopFlag, pause_s: float) -> None:
    """Scan new payloads until stopped; the whole index each hour, and after a signature update."""
    highest, version, due, away = 0, "", 0.0, False
    backoff = ExponentialBackoff(pause_s, max(_ALL_AGAIN_S, pause_s))
    while not stopped.is_set():
        try:
            now = CLOCK.monotonic()
            current = scan.version()
            # A database that clamd has not loaded yet does not require a full rescan.
            is_settled = not current.endswith(malware_scan.UNSETTLED) or not version
            if (current != version and is_settled) or now >= due:
                highest, version, due = 0, current, now + _ALL_AGAIN_S
            result = scan.run(after=highest, is_stopped=stopped.is_set)
            highest, away = result.highest, False
            if result.scanned or result.skipped:
                _print_scan(result)
            backoff.reset()
            stopped.wait(pause_s)
        except (UnavailableError, TransientError) as error:
            if not away:  # once, not every few seconds
                click.echo(f"weboid: {error} Waiting for it.", err=True)
            away = True
            stopped.wait(pause_s)
        except WeboidError:
            raise
        except Exception as error:
            log.exception("scan.internal_error")
            wait_s, message = backoff.next_s(), f"{type(error).__name__}: {error}"
            click.echo(f"weboid: internal error ({message}); the next scan begins in {wait_s:g} s.", err=True)
            stopped.wait(wait_s)


def _print_scan(result: malware_scan.ScanProgress) -> None:
    facts = {
        **json_facts(result, "scanner scanned clean skipped", bytes="read_bytes"),
        "threats": [{**_scan_facts(verdict), "url": url} for verdict, url in result.threats],
    }
    lines = [f"{clean(verdict.threat)}  {clean(url)}  {verdict.digest}" for verdict, url in result.threats]
    skipped = f", {result.skipped} not scanned" if result.skipped else ""
    lines.append(
        f"{result.scanned} payloads of {format_size(result.read_bytes)} scanned with {result.scanner}:"
        f" {len(result.threats)} threats, {result.clean} clean{skipped}."
    )
    output.show(facts, lines)


def _scan_facts(verdict: ScanVerdict) -> dict[str, Any]:
    return {**json_facts(verdict, "digest threat scanner"), "scanned_at": verdict.scanned_at}


@contextmanager
def _stopped_by_signals() -> Iterator[StopFlag]:
    """Yield a flag that the first Ctrl-C or SIGTERM sets; a second signal ends the process."""
    stopped = StopFlag()
    before: dict[signal.Signals, Any] = {}

    def stop(number: int, _frame: Any) -> None:
        if not stopped.is_set():
            stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            before[each] = signal.signal(each, stop)
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
