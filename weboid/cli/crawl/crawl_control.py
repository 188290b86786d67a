"""`weboid crawl pause`, `resume` and `stop`, `queue hosts` and `sheet`: orders stored in the frontier."""

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from core.config.sheets import surt_prefix
from core.errors import InputError
from core.hosts import host_name
from core.json_values import json_facts, json_value
from core.timestamps import LONGEST_DURATION, format_duration, parse_duration, parse_moment
from crawler.frontier.base import STOP_ORDER, Frontier, HostOrder, HostReport
from crawler.jobs.crawl_orders import change_sheet, parse_live_sheet, toml_value
from crawler.jobs.job_settings import SHEET_ORDER
from weboid.app.text_table import clean, table, width
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, alternatives, argument, cli_command, option
from weboid.cli.support.options import output

POLL_S = 0.2

_WAIT_OPTION = option("Return when no page is in progress.", is_flag=True)


@cli_command("pause")
def pause_command(
    *,
    host: str | None = argument(type=host_name),
    where: CommandTarget = TARGET,
    length: timedelta | None = option("With HOST: 2h, 30d, ….", "--for", type=parse_duration, metavar="DURATION"),
    until: datetime | None = option(
        "With HOST: 2026-12-31, or with T18:00 (UTC).", type=parse_moment, metavar="MOMENT"
    ),
    reason: str = option(
        "Reason, shown by `status` and `queue hosts`.", default="paused by an operator", show_default=False
    ),
    wait: bool = _WAIT_OPTION,
) -> None:
    """Pause the crawl, or HOST alone; pages in progress finish.

    The pause lasts until `weboid crawl resume` and survives the end of a run: a crawl that is started
    while its frontier is paused waits. A host may be paused for a time; a longer block of it stays.
    """
    if host is not None:
        _pause_host(host, where, length=length, until=until, reason=reason)
        return
    if length is not None or until is not None:
        raise InputError("--for and --until apply to one host: name it.")
    with where.frontier() as frontier:
        frontier.pause(reason)
        _report_order(frontier, where, f"Paused {where.name}: {reason}.", wait=wait)


def _pause_host(
    host: str, where: CommandTarget, *, length: timedelta | None, until: datetime | None, reason: str
) -> None:
    now = CLOCK.now()
    if length is not None and until is not None:
        raise InputError("Use --for or --until, not both.")
    moment = until or now + (LONGEST_DURATION if length is None else length)
    if moment <= now:
        raise InputError("That time is in the past: give a later one, or use `weboid crawl resume`.")
    with where.frontier() as frontier:
        frontier.block_until(host, moment, reason, now=now)
        report = _known(frontier, host, now)
    lines = [f"{host} is paused {_until(report.blocked_until, now)}."]
    if report.active:
        lines.append(f"In progress now: {report.active}; they will finish.")
    output.show(json_value(asdict(report)), lines)


@cli_command("resume")
def resume_command(*, host: str | None = argument(type=host_name), where: CommandTarget = TARGET) -> None:
    """Resume a paused crawl, or HOST alone.

    Also cancels a stop order that no run has carried out yet. A host's block ends, whatever its
    origin, and so does its "down" state.
    """
    if host is not None:
        _resume_host(host, where)
        return
    with where.frontier() as frontier:
        was_paused = frontier.stats(CLOCK.now()).paused is not None
        frontier.resume()
        was_stopping = frontier.take_back(STOP_ORDER, "")
        if was_paused or was_stopping:
            text = "Pages begin again." if was_paused else "The stop request is withdrawn."
        else:
            text = "It was not paused."
        _report_order(frontier, where, text)


def _resume_host(host: str, where: CommandTarget) -> None:
    now = CLOCK.now()
    with where.frontier() as frontier:
        before = _known(frontier, host, now)
        frontier.block_until(host, _OVER, "", now=now)
        report = _known(frontier, host, now)
    text = f"{host} may be asked again; {report.waiting} of its URLs wait."
    if before.blocked_until is None and before.down_until is None:
        text = f"{host} was not blocked."
    output.show(json_value(asdict(report)), text)


@cli_command("stop")
def stop_command(
    *,
    where: CommandTarget = TARGET,
    at_once: bool = option("Abandon the pages in progress; they stay queued.", "--now"),
    wait: bool = _WAIT_OPTION,
) -> None:
    """Stop the current runs.

    They finish the pages in progress, or with --now leave them queued. Nothing is lost: the same
    `weboid archive` or `weboid crawl` continues where it stopped, and cancels the order.
    """
    with where.frontier() as frontier:
        if where.is_shared or where.is_worked_on(frontier, now=CLOCK.now()):
            frontier.give_order(STOP_ORDER, "", "now" if at_once else "")
            text = "Stopping at once." if at_once else "Stopping after the pages in progress."
        else:
            text = "No run is active: there is nothing to stop."
        _report_order(frontier, where, text, wait=wait)


def _report_order(frontier: Frontier, where: CommandTarget, text: str, *, wait: bool = False) -> None:
    """Print the result and the pages in progress; wait for their end if `wait` is set."""
    quiet = output.is_json
    facts = _facts(frontier, where)
    claimed = facts["claimed"]
    if not quiet:
        click.echo(text)
        if claimed and not wait:
            click.echo(f"{claimed} {'page is' if claimed == 1 else 'pages are'} still in progress.")

    def report_waiting(count: int) -> None:
        if not quiet:
            pages = "page" if count == 1 else "pages"
            click.echo(f"Waiting for {count} {pages} in progress.", err=True)

    if wait:
        asyncio.run(until_idle(frontier, report_waiting))
        facts = _facts(frontier, where)
        if not quiet:
            click.echo("No page is in progress.")
    output.json(facts)


def _facts(frontier: Frontier, where: CommandTarget) -> dict[str, Any]:
    now = CLOCK.now()
    stats = frontier.stats(now)
    stopping = frontier.orders(STOP_ORDER).get("")
    return {
        **json_facts(stats, "paused claimed queued"),
        "stopping": None if stopping is None else stopping or "gently",
        "worked_on": where.is_worked_on(frontier, now=now),
    }


async def until_idle(frontier: Frontier, on_progress: Callable[[int], object]) -> None:
    """Wait until no item is claimed; call `on_progress` with the number of claims whenever it changes."""
    last = None
    while claimed := frontier.stats(CLOCK.now()).claimed:
        if claimed != last:
            on_progress(claimed)
            last = claimed
        await asyncio.sleep(POLL_S)


# A block that ends later than this is shown as one without an end.
_FOREVER = timedelta(days=3_650)
_OVER = datetime(1970, 1, 1, tzinfo=UTC)  # before any frontier's clock


@cli_command("hosts")
def hosts_command(
    *,
    host: str | None = argument(type=host_name),
    order: str = alternatives(
        longest="Most waiting first.", slowest="Longest visits first.", blocked="Only hosts that are paused."
    ),
    limit: int = option(type=click.IntRange(1, 10_000), default=20),
    where: CommandTarget = TARGET,
) -> None:
    """Show the state of the hosts of the queue.

    Queue length, visit duration, and when, or why not, the next request may be made.
    """
    now = CLOCK.now()
    with where.frontier() as frontier:
        if host is not None:
            reports = [_known(frontier, host, now)]
        elif order == "blocked":
            names = [block.host for block in frontier.blocks(now=now, limit=limit)]
            known = (frontier.host(name, now=now) for name in names)
            reports = [report for report in known if report is not None]
        else:
            reports = list(frontier.hosts(HostOrder(order), now=now, limit=limit))
    if host is not None:
        lines = host_details(reports[0], now)
    elif reports:
        lines = host_table(reports, now, columns=width())
    else:
        lines = ["No host is blocked." if order == "blocked" else "No host is known."]
    output.show([json_value(asdict(each)) for each in reports], lines)


def _known(frontier: Frontier, host: str, now: datetime) -> HostReport:
    report = frontier.host(host, now=now)
    if report is None:
        raise InputError(f"The frontier has no host {host}: none of its URLs was ever added.")
    return report


def host_table(reports: Sequence[HostReport], now: datetime, *, columns: int | None, indent: str = "") -> list[str]:
    """Return one line per host."""
    if not reports:
        return []
    head = ("host", "waits>", "work>", "done>", "visit>", "state")
    rows = [
        (
            each.host,
            str(each.waiting),
            str(each.active),
            str(each.done),
            format_duration(each.mean.total_seconds()) if each.done or each.busy else "-",
            host_state(each, now),
        )
        for each in reports
    ]
    return table(head, rows, columns=columns, indent=indent)


def host_details(report: HostReport, now: datetime) -> list[str]:
    """Return all details of one host."""
    mean, busy = report.mean.total_seconds(), report.busy.total_seconds()
    facts: list[tuple[str, Any]] = [
        ("Host", report.host),
        ("State", host_state(report, now)),
        ("To do", f"{report.waiting} waiting, {report.active} in progress"),
        ("Done", f"{report.done} pages, {report.bytes:,} bytes"),
        ("Visits", f"{format_duration(mean)} lately, {format_duration(busy)} in all"),
        ("Failures", f"{report.failures} in a row"),
    ]
    return [f"{name:<10}  {clean(str(value))}" for name, value in facts]


def host_state(report: HostReport, now: datetime) -> str:
    """Return the host's state in words: free, resting or blocked, until when, and the reason."""
    why = f": {report.blocked_reason}" if report.blocked_reason else ""
    if report.down_until is not None and report.down_until > now:
        return f"down {_until(report.down_until, now)}{why}"
    if report.blocked_until is not None and report.blocked_until > now:
        return f"blocked {_until(report.blocked_until, now)}{why}"
    if report.active:
        return "in progress"
    if report.ready_at > now:
        return f"rests for {format_duration((report.ready_at - now).total_seconds())}"
    return "may be asked" if report.waiting else "-"


def _until(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "no longer"
    if moment - now > _FOREVER:
        return "until it is resumed"
    return f"until {moment:%Y-%m-%d %H:%M} UTC"


@cli_command("sheet")
def sheet_command(
    *,
    prefix: str | None = argument(),
    changes: tuple[str, ...] = argument("[KEY=VALUE]..."),
    is_removal: bool = option("Remove the sheet of PREFIX.", "--remove"),
    where: CommandTarget = TARGET,
) -> None:
    """Settings for a part of the web, changed while a crawl runs.

    A sheet applies below a prefix: a host and its subdomains (example.org), a folder (example.org/wiki/), or a SURT
    prefix (org,example,). Where several match, the longest wins. `sheet PREFIX KEY=VALUE...` changes settings, written
    as in a profile (visit.timeout_s=90, politeness.min_delay_s=5), and leaves others; without them the sheets are
    listed, or that of PREFIX. Workers on all machines follow within a second; sheets of a profile apply as well, and
    are set there.
    """
    spelled = None if prefix is None else surt_prefix(prefix)
    if is_removal and (spelled is None or changes):
        raise InputError("Write `sheet PREFIX --remove` to remove a sheet.")
    if spelled is not None and changes:
        _change_sheet(spelled, changes, where)
        return
    with where.frontier() as frontier:
        orders = frontier.orders(SHEET_ORDER)
        if is_removal and spelled in orders:
            frontier.take_back(SHEET_ORDER, spelled)
            output.show({"removed": spelled}, f"{spelled} is removed.")
            return
    if spelled is not None and spelled not in orders:
        names = ", ".join(list(orders)[:20]) or "none"
        raise InputError(f"There is no sheet {spelled!r}; existing sheets: {names}.")
    if not orders and not output.is_json:
        click.echo(f"No sheets are set for {where.name}.")
    for each, text in orders.items():
        if spelled in {None, each}:
            changed = parse_live_sheet(each, text).changes()
            _show_sheet(each, {group: dict(keys) for group, keys in changed.items()})


def _change_sheet(spelled: str, changes: Sequence[str], where: CommandTarget) -> None:
    changed: dict[str, dict[str, Any]] = {}
    for text in changes:
        name, equals, written = text.partition("=")
        group, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise InputError(f"{text[:100]!r} is not a change: write GROUP.KEY=VALUE, as in a profile.")
        value: Any = written
        with suppress(tomllib.TOMLDecodeError):  # what is not TOML is a string
            value = tomllib.loads(f"value = {written}")["value"]
        changed.setdefault(group, {})[key] = value
    with where.frontier(make=True) as frontier:
        _show_sheet(spelled, change_sheet(frontier, spelled, changed))


def _show_sheet(prefix: str, document: dict[str, Any]) -> None:
    keys = [f"{group}.{key} = {toml_value(value)}" for group, table in document.items() for key, value in table.items()]
    output.show({"prefix": prefix, **document}, "\n  ".join([prefix, *keys]))
