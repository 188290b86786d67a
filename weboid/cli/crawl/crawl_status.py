"""`weboid status` and `alive`: status of a collection, its crawl, and the processes of a cluster."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from core.errors import InputError, WeboidError
from core.layout import Layout
from core.page_classes import GOOD
from core.timestamps import format_duration
from crawler.collection import read_collection
from crawler.frontier.base import Frontier, ended_in
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.cluster import SERVICE_KINDS, is_announced_on
from crawler.profiles import load_profile
from crawler.status import collection_status
from crawler.status.status_server import DEFAULT_LISTEN, serve_status
from net.stop_signals import StopSignals
from weboid.app.text_table import clean, fitted, sparkline, table, width
from weboid.cli.crawl.crawl_control import HOST_HEAD, host_rows
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, FRONTIER, PROFILE, SharedStores, output
from weboid.cli.support.run_output import format_size

SHOWN = 5
_LABEL = 12


def status_lines(status: collection_status.CollectionStatus, *, columns: int | None) -> list[str]:
    """Return the status, one fact per line; lists are cut after `SHOWN`, --json has all of them."""
    holdings, view = status.holdings, status.frontier
    lines: list[str] = []
    if holdings is not None:
        writing = "  (being written)" if holdings.in_use else ""
        lines.append(_line("Collection", f"{holdings.root}{writing}"))
        outcomes = [f"{count:,} {name}" for name, count in sorted(holdings.outcomes.items())]
        lines.append(_line("Pages", ", ".join(outcomes) or "none"))
        if holdings.unindexed:
            text = f"INCOMPLETE: {holdings.unindexed:,} of {holdings.warcs:,} WARCs are not in it;"
            lines.append(_line("Index", f"{text} `weboid collection rebuild` restores it"))
        classes = sorted(holdings.classes.items())
        if worse := [f"{count:,} {name}" for name, count in classes if name not in GOOD]:
            lines.append(_line("Of these", ", ".join(worse)))
    if view is not None:
        lines += _work_lines(view, holdings)
    elif holdings is not None:
        lines.append(_line("To do", "nothing yet: `weboid archive` or `weboid crawl add` adds URLs"))
    if holdings is not None:
        lines += _storage_lines(holdings)
    checks = status.checks
    if checks is not None and (verdicts := [f"{count:,} {name}" for name, count in checks.verdicts.items() if count]):
        rate = sum(checks.per_minute[min(checks.per_minute)].values())
        lines.append(_line("Checked", f"{', '.join(verdicts)}; {rate:.1f} a minute now"))
        if repairs := [f"{count:,} {state}" for state, count in checks.repairs.items() if count]:
            lines.append(_line("Repairs", ", ".join(repairs)))
    lines = [fitted(line, columns) for line in lines]
    return lines if view is None else [*lines, *_sections(view, columns)]


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{clean(text)}"


def _storage_lines(holdings: collection_status.CollectionHoldings) -> Iterator[str]:
    captures = f"{holdings.responses:,} responses, {holdings.revisits:,} revisits, {holdings.artifacts:,} artifacts"
    yield _line("Captures", captures)
    each = holdings.bytes_per_page
    mean = f", {format_size(each)} a page" if each is not None else ""
    yield _line("WARCs", f"{holdings.warcs:,} files, {format_size(holdings.warc_bytes)}{mean}")
    if (uploads := holdings.uploads) is not None:
        away = f", {uploads.remote_files:,} of them only in the bucket" if uploads.remote_files else ""
        waiting = f"; {uploads.pending_files:,} files, {format_size(uploads.pending_bytes)} wait"
        uploaded = f"{uploads.uploaded_files:,} files, {format_size(uploads.uploaded_bytes)} in {uploads.url}"
        yield _line("Uploads", f"{uploaded}{away}{waiting if uploads.pending_files else ''}")
        if uploads.error:
            since = datetime.fromtimestamp(uploads.failing_since, UTC)
            yield _line("", f"Failing since {since:%Y-%m-%d %H:%M} UTC: {clean(uploads.error)}")
    more = ": no page starts until there is more" if holdings.free_bytes < holdings.reserve_bytes else ""
    free, reserve = format_size(holdings.free_bytes), format_size(holdings.reserve_bytes)
    yield _line("Disk", f"{free} free, {reserve} in reserve{more}")


def _work_lines(
    view: collection_status.FrontierOverview, holdings: collection_status.CollectionHoldings | None
) -> Iterator[str]:
    stats = view.stats
    yield _line("State", _state(view, holdings))
    later = f" ({stats.later:,} scheduled for later)" if stats.later else ""
    yield _line("To do", f"{stats.queued:,} queued{later}, {stats.claimed:,} in progress")
    due = f"; {stats.due:,} of them are due for another visit" if stats.due else ""
    yield _line("Ended", f"{stats.done:,} done, {stats.skipped:,} skipped, {stats.dead:,} given up{due}")
    counts = [ended_in(minute) for minute in view.minutes]
    if any(counts):
        now, ten, hour = (view.per_minute[window] for window in sorted(view.per_minute))
        yield _line("Pages/min", f"{now:.1f} now, {ten:.1f} in 10 minutes, {hour:.1f} in an hour")
        yield _line("Last hour", f"{sparkline(counts)} max {max(counts)}")
    if view.eta is not None:
        yield _line("Left", f"at least {format_duration(view.eta.total_seconds())}, if nothing is added")


def _state(view: collection_status.FrontierOverview, holdings: collection_status.CollectionHoldings | None) -> str:
    if view.stats.paused is not None:
        return f"paused: {view.stats.paused}; `weboid crawl resume` resumes it"
    at_work = bool(view.workers or view.stats.claimed) or (holdings is not None and holdings.in_use)
    if view.stopping is not None and at_work:
        return "stopping at once" if view.stopping == "now" else "stopping after the pages in progress"
    if not at_work:
        return "idle"
    blocked = len(view.blocked)
    hosts = f"; {blocked} {'host is' if blocked == 1 else 'hosts are'} blocked" if blocked else ""
    return f"at work{hosts}"


def _sections(view: collection_status.FrontierOverview, columns: int | None) -> Iterator[str]:
    def section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield the title, the first rows, and the number of others; nothing without rows."""
        if rows:
            yield from ("", title, *table(head, rows[:SHOWN], columns=columns, indent="  "))
        if len(rows) > SHOWN:
            yield f"  and {len(rows) - SHOWN} more"

    jobs = []
    for name, each in view.jobs.items():
        numbers = (f"{n:,}" for n in (each.queued, each.claimed, each.done, each.skipped, each.dead))
        jobs.append((name or "(lists)", *numbers, format_size(each.bytes)))
    head = ("crawl", "queued>", "work>", "done>", "skipped>", "given up>", "stored>")
    yield from section("Crawls", head, jobs if any(view.jobs) else [])
    if view.links:
        yield from ("", "Links")
    for job, counts in view.links.items():
        most = sorted(counts.items(), key=lambda pair: -pair[1])
        yield f"  {job}: " + ", ".join(f"{count:,} {reason}" for reason, count in most)
    leases = []
    for lease in view.leases:
        took = "-" if lease.since is None else format_duration((view.at - lease.since).total_seconds())
        leases.append((lease.worker, took, _left(lease.until, view), lease.url))
    yield from section("In progress", ("worker", "for>", "lease>", "url"), leases)
    slow = [host for host in view.slowest if host.done or host.busy]
    waiting = [host for host in view.longest if host.waiting]
    yield from section("Slowest hosts", HOST_HEAD, host_rows(slow, view.at))
    yield from section("Longest queues", HOST_HEAD, host_rows(waiting, view.at))
    blocks = [(each.host, _left(each.until, view), each.reason) for each in view.blocked]
    yield from section("Blocked hosts", ("host", "for", "why"), blocks)
    down = [host for host in {*view.slowest, *view.longest} if host.down_until is not None]
    yield from section("Down", HOST_HEAD, host_rows(sorted(down, key=lambda each: each.host), view.at))
    for title, groups in (("Given up, latest", view.dead), ("Skipped, latest", view.skipped)):
        such = [(f"{each.count:,}", each.reason, "{}  ({})".format(*each.examples[0])) for each in groups]
        yield from section(title, ("pages>", "reason", "such as"), such)
    for title, members in (("Proxies", view.proxies), ("Workers", view.workers)):
        rows = []
        for name, facts in members.items():
            address = facts.get("address")
            names = ("visits", "free_bytes", "reserve_bytes")
            visits, free, reserve = (collection_status.member_number(facts, each) for each in names)
            low = " LOW" if free is not None and reserve is not None and free < reserve else ""
            rows.append(
                (
                    name,
                    "-" if visits is None else f"{visits:.0f}",
                    "-" if free is None else f"{format_size(free)}{low}",
                    str(facts.get("version", "-")),
                    str(address) if isinstance(address, str | int) else "-",
                )
            )
        yield from section(title, ("name", "visits>", "free>", "version", "address"), rows)


def _left(moment: Any, view: collection_status.FrontierOverview) -> str:
    """Return the time left until then; a dash when it is past, or too far off to be real."""
    seconds = (moment - view.at).total_seconds() if moment is not None else 0
    if seconds > 3_650 * 86_400:
        return "no end"
    return format_duration(seconds) if seconds > 0 else "-"


REFRESH_S = 1.0


@cli_command("status")
def status_command(
    *,
    where: CommandTarget = TARGET,
    watch: bool = option("Refresh each second, until Ctrl-C."),
    listen: str = option(
        f"Serve the status there to scripts and Prometheus; :PORT listens on every address.  [without a value: {DEFAULT_LISTEN}]",
        default="",
        metavar="HOST:PORT",
        is_flag=False,
        flag_value=DEFAULT_LISTEN,
    ),
    names: tuple[str, ...] = option("With --listen: host name that requests may use.", "--name", metavar="NAME"),
) -> None:
    """Show the state of a collection and its crawl.

    Reads maintained counters and takes no locks: as quick for ten million URLs as for ten. With
    --listen prints the address of /stats.json, /metrics and /healthz, and serves them until Ctrl-C.
    Requests with a host name are answered only for localhost and names given with --name; requests
    with an IP address always.
    """
    if watch and output.is_json:
        raise InputError("Use --watch or --json; `weboid status --listen` serves JSON repeatedly.")
    with open_status_reader(where) as reader:
        if listen:
            reader.status()  # report unreadable stores at start-up

            async def serve() -> None:
                with StopSignals(lambda: None) as stop, stop.cut_short():
                    async with serve_status(reader, listen, names=names) as address:
                        click.echo(address)
                        await stop.event.wait()

            with suppress(KeyboardInterrupt):
                asyncio.run(serve())
            return
        if not watch:
            status = reader.status()
            output.show(status.to_dict(), status_lines(status, columns=width()))
            return
        console, tick = Console(highlight=False), threading.Event()
        live = Live(console=console, screen=console.is_terminal, auto_refresh=False)
        with suppress(KeyboardInterrupt), live:
            while True:
                try:
                    text = "\n".join(status_lines(reader.status(), columns=console.width))
                except WeboidError as error:  # a store that is away comes back
                    text = f"It cannot be read at the moment: {error}"
                live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
                tick.wait(REFRESH_S)


@contextmanager
def open_status_reader(where: CommandTarget) -> Iterator[collection_status.StatusReader]:
    """Yield a status reader for the target; the frontier is opened if it exists."""
    layout = where.layout
    if not where.is_shared or layout.marker.exists():
        read_collection(layout.root)
    with ExitStack() as stack:
        opened: list[Frontier] = []
        registries: list[Any] = []

        def frontier() -> Frontier | None:
            if not opened and (where.is_shared or layout.frontier_db.exists()):
                opened.append(stack.enter_context(where.frontier()))
            return opened[0] if opened else None

        def checks(now: datetime) -> collection_status.CopyCheckSummary | None:
            url = where.settings.index.url
            if not registries and (url or layout.links_db.is_file()):
                # Loaded where there is a registry: most that steers a crawl needs no such library.
                database = import_module("links.registry.database")
                if (store := database.open_registry_read_only(layout, url)) is not None:
                    registries.append(stack.enter_context(closing(store)))
            counting = import_module("qa.check_store") if registries else None
            return counting.count_checks(registries[0], now=now) if counting else None

        existing_layout, settings = layout if layout.marker.exists() else None, where.settings
        yield collection_status.StatusReader(existing_layout, frontier, settings=settings, clock=CLOCK, checks=checks)


@cli_command("alive", has_json=False)
def alive_command(
    *,
    kind: str = argument(choices=SERVICE_KINDS),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    frontier_url: str = FRONTIER,
) -> int:
    """Check that a proxy or worker of this machine reports that it is alive.

    Exit code 0: one does; 1: none does; 3: the frontier does not answer.
    """
    settings = SharedStores(frontier_url=frontier_url).applied_to(load_profile(profile))
    with open_frontier(Layout(collection), settings.frontier, settings.politeness) as frontier:
        alive = is_announced_on(frontier, kind, socket.gethostname(), CLOCK)
    click.echo("alive" if alive else f"No {kind} of this machine has reported in time.")
    return ExitCode.OK if alive else ExitCode.SOME_FAILED
