"""`weboid hosts`, `pause-host` and `resume-host`: what is known of hosts, and leaving one alone."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from core.clock import SystemClock
from core.durations import LONGEST, parse_duration, parse_moment, told
from core.errors import InputError
from crawler.cli.exits import Exit
from crawler.cli.params import host_name
from crawler.cli.tables import clean, table, width
from crawler.cli.where import Where, where_options
from crawler.frontier.base import Frontier, HostOrder, HostReport
from crawler.overview import plain

# Further off than this, a block is told as one without an end.
_FOREVER = timedelta(days=3_650)
_OVER = datetime(1970, 1, 1, tzinfo=UTC)  # before any frontier's clock
_CLOCK = SystemClock()


@click.command("hosts")
@click.argument("host", required=False, type=host_name)
@click.option("--longest", "order", flag_value="longest", default=True, help="Most waiting first.")
@click.option("--slowest", "order", flag_value="slowest", help="Longest visits first.")
@click.option("--blocked", "order", flag_value="blocked", help="Only hosts that are left alone.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@where_options
def hosts(*, host: str | None, order: str, limit: int, where: Where, as_json: bool) -> int:
    """Say how hosts do.

    What waits for each, how long a visit takes, and when, or why not, it may be asked again.
    """
    now = _CLOCK.now()
    with where.frontier() as frontier:
        if host is not None:
            reports = [_known(frontier, host, now)]
        elif order == "blocked":
            names = [block.host for block in frontier.blocks(now=now, limit=limit)]
            found = (frontier.host(name, now=now) for name in names)
            reports = [report for report in found if report is not None]
        else:
            reports = list(frontier.hosts(HostOrder(order), now=now, limit=limit))
    if as_json:
        click.echo(json.dumps([plain(asdict(each)) for each in reports], ensure_ascii=False))
        return Exit.OK
    lines = card(reports[0], now) if host is not None else host_table(reports, now, columns=width())
    for line in lines:
        click.echo(line)
    if not reports:
        click.echo("No host is blocked." if order == "blocked" else "No host is known.")
    return Exit.OK


@click.command("pause-host")
@click.argument("host", type=host_name)
@click.option("--for", "length", type=parse_duration, metavar="LENGTH", help="2h, 30d, ….")
@click.option(
    "--until", type=parse_moment, metavar="MOMENT", help="2026-12-31, or with T18:00 (UTC)."
)
@click.option("--reason", default="paused by an operator", help="What `hosts` shows.")
@where_options
def pause_host(
    *,
    host: str,
    length: timedelta | None,
    until: datetime | None,
    reason: str,
    where: Where,
    as_json: bool,
) -> int:
    """Leave a host alone for a time.

    Without a time: until `weboid resume-host`. A page of it that is in work is finished. A block
    that is already longer stays.
    """
    now = _CLOCK.now()
    if length is not None and until is not None:
        raise InputError("Say --for or --until, not both.")
    moment = until or now + (LONGEST if length is None else length)
    if moment <= now:
        raise InputError("That moment is over: name a later one, or use `weboid resume-host`.")
    with where.frontier() as frontier:
        frontier.block_until(host, moment, reason, now=now)
        report = _known(frontier, host, now)
    if as_json:
        click.echo(json.dumps(plain(asdict(report)), ensure_ascii=False))
        return Exit.OK
    click.echo(f"{host} is left alone {_until(report.blocked_until, now)}.")
    if report.active:
        click.echo(f"In work now: {report.active}; that is finished.")
    return Exit.OK


@click.command("resume-host")
@click.argument("host", type=host_name)
@where_options
def resume_host(*, host: str, where: Where, as_json: bool) -> int:
    """Ask a host again.

    Ends its block, whoever made it, and forgets that it was down.
    """
    now = _CLOCK.now()
    with where.frontier() as frontier:
        before = _known(frontier, host, now)
        frontier.block_until(host, _OVER, "", now=now)
        report = _known(frontier, host, now)
    if as_json:
        click.echo(json.dumps(plain(asdict(report)), ensure_ascii=False))
        return Exit.OK
    if before.blocked_until is None and before.down_until is None:
        click.echo(f"{host} was not blocked.")
    else:
        click.echo(f"{host} may be asked again; {report.waiting} of its URLs wait.")
    return Exit.OK


def _known(frontier: Frontier, host: str, now: datetime) -> HostReport:
    report = frontier.host(host, now=now)
    if report is None:
        raise InputError(f"The frontier knows no host {host}: no URL of it was ever added.")
    return report


def host_table(
    reports: Sequence[HostReport], now: datetime, *, columns: int | None, indent: str = ""
) -> list[str]:
    """A line a host."""
    if not reports:
        return []
    head = ("host", "waits>", "work>", "done>", "visit>", "state")
    rows = [
        (
            each.host,
            str(each.waiting),
            str(each.active),
            str(each.done),
            told(each.mean.total_seconds()) if each.done or each.busy else "-",
            state_of(each, now),
        )
        for each in reports
    ]
    return table(head, rows, columns=columns, indent=indent)


def card(report: HostReport, now: datetime) -> list[str]:
    """All that is known of one host."""
    mean, busy = report.mean.total_seconds(), report.busy.total_seconds()
    facts: list[tuple[str, Any]] = [
        ("Host", report.host),
        ("State", state_of(report, now)),
        ("To do", f"{report.waiting} waiting, {report.active} in work"),
        ("Done", f"{report.done} pages, {report.bytes:,} bytes"),
        ("Visits", f"{told(mean)} lately, {told(busy)} in all"),
        ("Failures", f"{report.failures} in a row"),
    ]
    return [f"{name:<10}  {clean(str(value))}" for name, value in facts]


def state_of(report: HostReport, now: datetime) -> str:
    """Whether the host may be asked, when, and why not."""
    why = f": {report.blocked_reason}" if report.blocked_reason else ""
    if report.down_until is not None and report.down_until > now:
        return f"down {_until(report.down_until, now)}{why}"
    if report.blocked_until is not None and report.blocked_until > now:
        return f"blocked {_until(report.blocked_until, now)}{why}"
    if report.active:
        return "in work"
    if report.ready_at > now:
        return f"rests for {told((report.ready_at - now).total_seconds())}"
    return "may be asked" if report.waiting else "-"


def _until(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "no longer"
    if moment - now > _FOREVER:
        return "until it is resumed"
    return f"until {moment:%Y-%m-%d %H:%M} UTC"
