"""`weboid links check`: check URLs that are due, with progress and results."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Self

import click
import uvloop
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from core.config.settings import LinksSettings, Settings
from core.errors import InputError
from core.json_values import json_facts
from core.layout import Layout
from links.check_history import date_of, day_of
from links.checker import check_worker, due_urls
from links.checker.check_run import CheckContext, CheckRun, CheckTally
from links.checker.check_schedule import longest_due, run_forecast
from links.checker.due_urls import ALL_HOSTS, HostShare, LeaseHeldError, parse_host_share, share_of_bucket
from links.checker.result_store import RecordedResult
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow
from links.states import LinkState
from links.url_parts import bucket_of
from net.address_policy import is_own
from net.stop_signals import StopSignals
from weboid.app.link_facts import watched_urls
from weboid.app.text_table import clean, table, width
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import DURATION, PROFILE, ParsedType, output, warn_missing_contact
from weboid.cli.support.progress import terminal_progress
from weboid.cli.support.run_options import open_webhooks
from weboid.cli.support.stores import STORES, CollectionStores, open_existing_registry, registry_settings

_SHOWN = (LinkState.ALIVE, LinkState.DYING, LinkState.DEAD, LinkState.BLOCKED)


class CheckReporter:
    """Progress output of a check. A context manager that removes the bar at its end."""

    def __init__(self) -> None:
        self.on_results: Callable[[Sequence[RecordedResult]], None] = lambda _results: None
        columns = (TextColumn(text) for text in ("{task.fields[rate]}", "{task.fields[states]}"))
        self._bar = terminal_progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *columns, TimeRemainingColumn()
        )
        self._task = self._bar.add_task("Checking", total=None, rate="", states="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, due: int) -> None:
        """Set the number of URLs to check."""
        self._bar.update(self._task, total=due)

    def note(self, booked: Sequence[RecordedResult], tally: CheckTally) -> None:
        """Report stored results."""
        self.on_results(booked)
        for each in booked:
            is_first = each.before is LinkState.UNKNOWN and each.after is LinkState.ALIVE
            if not output.json(check_facts(each)) and each.before is not each.after and not is_first:
                self._say(check_line(each), err=False)
        speed = self._bar.tasks[0].speed
        rate = "" if speed is None else f"{speed:.0f}/s"
        self._bar.update(self._task, completed=tally.stored, rate=rate, states=states_text(tally))

    def passed(self, tally: CheckTally) -> None:
        """Report the end of a pass; the next one begins when something is due."""
        if tally.stored or tally.put_off:
            self._say(_summary(tally))
        self._bar.reset(self._task, total=None, rate="", states="")

    def held(self, error: LeaseHeldError) -> None:
        """Report that another checker holds the part."""
        who = f"Another checker ({clean(error.holder)})"
        self._say(f"{who} has these hosts; waiting to see whether it is still running.")

    def handed_over(self, error: LeaseHeldError, named: Sequence[UrlRow]) -> None:
        """Report that the URLs are left to the checker that holds their hosts."""
        for each in named:
            output.json({"url": each.url, "handed_to": error.holder})
        if not output.is_json:
            who = f"Another checker is working on these hosts ({clean(error.holder)})"
            self._say(f"{who}: it checks them next. `weboid links show URL` shows the result.")

    def stopping(self) -> None:
        """Report the stop signal."""
        self._say("Stopping: checks in progress finish. A second signal stops at once.")

    def end(self, tally: CheckTally, warnings: Sequence[str] = (), awaiting: int = 0) -> None:
        """Report the end of the command; `awaiting` links wait for confirmation by a browser."""
        self._bar.stop()
        is_idle = tally.stored == 0 and tally.put_off == 0 and tally.is_complete
        self._say("Nothing is due." if is_idle else _summary(tally))
        if awaiting:
            self._say(f"{awaiting} links await confirmation by a browser: run `weboid links confirm`.")
        self.warn(warnings)

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings that need action."""
        for warning in warnings:
            self._say(f"Warning: {warning}")

    def _say(self, line: str, *, err: bool = True) -> None:
        if self._bar.disable:
            click.echo(line, err=err)
        else:
            self._bar.console.print(line, markup=False, highlight=False)


def check_facts(booked: RecordedResult) -> dict[str, object]:
    """Return a result as JSON values."""
    finding = booked.finding
    return {
        **json_facts(booked, "url before awaits_opinion", state="after"),
        **json_facts(finding, "verdict how http note"),
        "code": int(finding.code),
        "final_url": finding.final_url or None,
        "due": None if booked.due_day is None else date_of(booked.due_day).isoformat(),
    }


def check_line(booked: RecordedResult) -> str:
    """Return a result as one line of text."""
    finding = booked.finding
    note = finding.note or (f"HTTP {finding.http}" if finding.http is not None else "")
    change = f"{booked.before.name.lower()} -> {booked.after.name.lower()}"
    return clean(f"{change}  {booked.url}" + (f"  ({note})" if note else ""))


def states_text(tally: CheckTally) -> str:
    """Return the number of checks by resulting state: 5 alive, 2 dying, 1 other."""
    counts = tally.states
    parts = [f"{counts[state]} {state.name.lower()}" for state in _SHOWN if counts.get(state)]
    other = sum(count for state, count in counts.items() if state not in _SHOWN)
    return ", ".join([*parts, f"{other} other"] if other else parts)


def _summary(tally: CheckTally) -> str:
    text = f"{tally.stored} URLs checked: {states_text(tally) or 'no result'}."
    if tally.inferred:
        text += f" {tally.inferred} of them were not requested, since their hosts are down."
    if tally.put_off:
        text += f" {tally.put_off} were postponed by the rate limits of their hosts."
    return text


_PATIENCE_S = 600.0  # of a check that ends by itself
_MOST_HOSTS = 20


@cli_command("check")
def check_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    part: HostShare = option(
        "Check only share I of N of the hosts, one share per checker.  [default: 1/1]",
        type=ParsedType("part", parse_host_share),
        default=ALL_HOSTS,
        show_default=False,
        metavar="I/N",
    ),
    limit: int | None = option("Maximum number of checks.", within=(1, None), metavar="COUNT"),
    length: timedelta | None = option("Stop after this time: 30m, 8h.", "--for", type=DURATION),
    dry_run: bool = option("Show what is due, without requests."),
    is_watch: bool = option("Keep running: check URLs as they become due.", "--watch"),
    stores: CollectionStores = STORES,
    profile: str = PROFILE,
) -> int:
    """Check the links that are due, or the given URLs.

    Each host gets one request at a time with [links] host_gap_s between them, in random order.
    SIGINT ends it when the checks in progress are stored; the rest stays due. With a database that
    several machines share, give each of their checkers a --part. See docs/explanation/checking.md.
    """
    settings = registry_settings(profile, stores.database_url, stores.root)
    if urls and (is_watch or dry_run or part != ALL_HOSTS):
        raise InputError("Named URLs are checked once: leave out --watch, --dry-run and --part.")
    if not dry_run:
        settings = check_worker.fit_to_files(settings, lambda text: click.echo(text, err=True))
    with open_existing_registry(Layout(stores.root), settings) as store:
        if dry_run:
            today = day_of(CLOCK.now())
            with store.reading() as rows:
                count = due_urls.count_due(rows, part, today)
                hosts = due_urls.count_by_host(rows, part, today, limit=_MOST_HOSTS)
            facts = {"due": count, "part": str(part), "hosts": [{"host": host, "due": due} for host, due in hosts]}
            lines = [f"{count} URLs are due." if count else "Nothing is due."]
            if hosts:
                lines += table(("due>", "host"), [(str(due), host) for host, due in hosts], columns=width())
            output.show(facts, lines)
            return ExitCode.OK
        warn_missing_contact(settings.links.contact)
        show = CheckReporter()
        with show, open_webhooks(stores.root, settings) as hooks:
            if hooks is not None:
                show.on_results = hooks.put_results
            named = watched_urls(store, urls) if urls else ()
            check = partial(_check, part=part, limit=limit, length=length, is_watch=is_watch)
            return uvloop.run(check(store, named, settings, show))


async def _check(
    store: RegistryStore,
    named: Sequence[UrlRow],
    settings: Settings,
    show: CheckReporter,
    *,
    part: HostShare,
    limit: int | None,
    length: timedelta | None,
    is_watch: bool,
) -> int:
    """Check due URLs, or the URLs `named`; if a checker holds their hosts, queue them there to be next."""
    parts = [part]
    if named:
        parts = [share_of_bucket(bucket) for bucket in sorted({bucket_of(each.host) for each in named})]
    links = settings.links
    plan = check_worker.plan_from_settings(links, part, limit=limit)
    name = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"
    worker = check_worker.CheckWorkerOptions(name, is_own)
    if not is_watch:
        worker = replace(worker, patience_s=_PATIENCE_S)
    code: int = ExitCode.STOPPED
    stop = StopSignals(show.stopping)
    with stop, stop.cut_short():
        async with check_worker.open_check_context(store, settings, parts, worker, clock=CLOCK) as context:
            maintenance = check_worker.CheckerMaintenance(context, part, keep_days=links.keep_days)
            warned_day = -1

            async def after_pass(tally: CheckTally) -> None:
                """Report a pass of a watching check, run the maintenance that is due, and warn once a day."""
                nonlocal warned_day
                show.passed(tally)
                await maintenance.run(stop.event)
                today = day_of(CLOCK.now())
                if today != warned_day and not stop.event.is_set():
                    warned_day = today
                    show.warn(await _warnings(context, links))

            if length is not None:
                asyncio.get_running_loop().call_later(length.total_seconds(), stop.event.set)
            if named:
                try:
                    await context.leases.take()
                except LeaseHeldError as held:
                    await context.registry.write(lambda rows: due_urls.set_due_day(rows, [each.id for each in named]))
                    show.handed_over(held, named)
                    return ExitCode.OK
                show.begin(len(named))
            elif await check_worker.take_leases(context.leases, stop.event, clock=CLOCK, waiting=show.held):
                today = day_of(CLOCK.now())
                show.begin(await context.registry.read(lambda rows: due_urls.count_due(rows, part, today)))
            else:
                return code
            if is_watch:
                await check_worker.check_continuously(context, plan, stop.event, between=after_pass, on_save=show.note)
                return ExitCode.OK
            tally = await CheckRun(context, plan, on_save=show.note).run(stop.event, named=named or None)
            if named:
                show.end(tally)
            else:
                if tally.is_complete:
                    await maintenance.run(stop.event)
                warnings = await _warnings(context, links)
                show.end(tally, warnings, await context.registry.read(due_urls.count_awaiting))
            code = ExitCode.OK if tally.is_complete or limit is not None else ExitCode.STOPPED
    return code


async def _warnings(context: CheckContext, links: LinksSettings) -> list[str]:
    """Return warnings if not all links are checked in time, with remedies (W38)."""
    now = CLOCK.now()
    forecast = await context.registry.read_aside(lambda rows: run_forecast(rows, links, now=now))
    if forecast is not None and not forecast.fits:
        return [forecast.sentence]
    late = await context.registry.read(lambda rows: longest_due(rows, day=day_of(now)))
    if late <= links.pass_days:
        return []
    return [
        f"A URL has been due for {late} days, but a pass should take {links.pass_days}: let "
        "checks run longer, with more [links] connections, or with a --part on another machine."
    ]
