"""`weboid crawl pause`, `resume` and `stop`, `queue hosts` and `sheet`: orders stored in the frontier."""

import threading
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from core.config.sheets import surt_prefix
from core.errors import InputError
from core.hosts import host_name
from core.json_values import json_facts, json_value
from core.timestamps import LONGEST_DURATION, format_duration, parse_duration, parse_moment
from crawler.frontier.base import STOP_ORDER, Frontier, HostOrder, HostReport
from crawler.jobs.crawl_orders import change_sheet, parse_live_sheet, toml_value
from crawler.jobs.job_settings import SHEET_ORDER
from weboid.app.text_table import clean
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, argument, cli_command, option
from weboid.cli.support.options import counted, output

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
    if host is None:
        if length is not None or until is not None:
            raise InputError("--for and --until apply to one host: name it.")
        with where.frontier() as frontier:
            frontier.pause(reason)
            _report_order(frontier, where, f"Paused {where.name}: {reason}.", wait=wait)
        return
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
    now = CLOCK.now()
    with where.frontier() as frontier:
        if host is not None:
            before = _known(frontier, host, now)
            frontier.block_until(host, _OVER, "", now=now)
            report = _known(frontier, host, now)
            text = f"{host} may be asked again; {report.waiting} of its URLs wait."
            if before.blocked_until is None and before.down_until is None:
                text = f"{host} was not blocked."
            output.show(json_value(asdict(report)), text)
            return
        was_paused = frontier.stats(now).paused is not None
        frontier.resume()
        was_stopping = frontier.take_back(STOP_ORDER, "")
        text = "The stop request is withdrawn." if was_stopping else "It was not paused."
        _report_order(frontier, where, "Pages begin again." if was_paused else text)


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
    claimed = frontier.stats(CLOCK.now()).claimed
    output.say(text)
    if claimed and not wait:
        output.say(f"{claimed} {'page is' if claimed == 1 else 'pages are'} still in progress.")
    tick, shown = threading.Event(), 0
    while wait and (claimed := frontier.stats(CLOCK.now()).claimed):
        if claimed != shown:
            output.say(f"Waiting for {counted(claimed, 'page')} in progress.", err=True)
        shown = claimed
        tick.wait(POLL_S)
    now = CLOCK.now()
    stopping = frontier.orders(STOP_ORDER).get("")
    facts = {
        **json_facts(frontier.stats(now), "paused claimed queued"),
        "stopping": None if stopping is None else stopping or "gently",
        "worked_on": where.is_worked_on(frontier, now=now),
    }
    output.show(facts, "No page is in progress." if wait else ())


# A block that ends later than this is shown as one without an end.
_FOREVER = timedelta(days=3_650)
_OVER = datetime(1970, 1, 1, tzinfo=UTC)  # before any frontier's clock
HOST_HEAD = ("host", "waits>", "work>", "done>", "visit>", "state")


@cli_command("hosts")
def hosts_command(
    *,
    host: str | None = argument(type=host_name),
    longest: bool = option("Most waiting first; the default."),
    slowest: bool = option("Longest visits first."),
    blocked: bool = option("Only hosts that are paused."),
    limit: int = option(within=(1, 10_000), default=20),
    where: CommandTarget = TARGET,
) -> None:
    """Show the state of the hosts of the queue.

    Queue length, visit duration, and when, or why not, the next request may be made.
    """
    now = CLOCK.now()
    with where.frontier() as frontier:
        if host is not None:
            reports = [_known(frontier, host, now)]
        elif blocked:
            names = [block.host for block in frontier.blocks(now=now, limit=limit)]
            reports = [report for name in names if (report := frontier.host(name, now=now)) is not None]
        else:
            order = HostOrder.SLOWEST if slowest and not longest else HostOrder.LONGEST
            reports = list(frontier.hosts(order, now=now, limit=limit))
    facts = [json_value(asdict(each)) for each in reports]
    if host is not None:
        report, (mean, busy) = reports[0], (each.total_seconds() for each in (reports[0].mean, reports[0].busy))
        details = {
            "Host": report.host,
            "State": host_state(report, now),
            "To do": f"{report.waiting} waiting, {report.active} in progress",
            "Done": f"{counted(report.done, 'page')}, {counted(report.bytes, 'byte')}",
            "Visits": f"{format_duration(mean)} lately, {format_duration(busy)} in all",
            "Failures": f"{report.failures} in a row",
        }
        output.show(facts, [f"{name:<10}  {clean(text)}" for name, text in details.items()])
        return
    output.table(facts, HOST_HEAD, host_rows(reports, now), "No host is blocked." if blocked else "No host is known.")


def _known(frontier: Frontier, host: str, now: datetime) -> HostReport:
    report = frontier.host(host, now=now)
    if report is None:
        raise InputError(f"The frontier has no host {host}: none of its URLs was ever added.")
    return report


def host_rows(reports: Sequence[HostReport], now: datetime) -> list[tuple[str, ...]]:
    """Return a row below `HOST_HEAD` for each host."""
    return [
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
        with where.frontier(make=True) as frontier:
            _show_sheet(spelled, change_sheet(frontier, spelled, _parse_changes(changes)))
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
    if not orders:
        output.say(f"No sheets are set for {where.name}.")
    for each, text in orders.items():
        if spelled in {None, each}:
            _show_sheet(each, parse_live_sheet(each, text).changes())


def _parse_changes(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    changed: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, written = text.partition("=")
        group, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise InputError(f"{text[:100]!r} is not a change: write GROUP.KEY=VALUE, as in a profile.")
        value: Any = written
        with suppress(tomllib.TOMLDecodeError):  # what is not TOML is a string
            value = tomllib.loads(f"value = {written}")["value"]
        changed.setdefault(group, {})[key] = value
    return changed


def _show_sheet(prefix: str, document: Mapping[str, Mapping[str, Any]]) -> None:
    keys = [f"{group}.{key} = {toml_value(value)}" for group, table in document.items() for key, value in table.items()]
    output.show({"prefix": prefix, **document}, "\n  ".join([prefix, *keys]))
