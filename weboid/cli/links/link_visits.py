"""`weboid links confirm` and `mirror`: browser visits as check results, and visited pages in other archives."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import click

from core.config.settings import Settings
from core.errors import InputError
from core.json_values import json_facts
from core.layout import Layout
from crawler.run.crawl_run import RunSummary
from crawler.worker.crawl_events import Event, PageDone, PageSkipped
from links.archives.copy_upkeep import MIRRORED, MirrorMode, MirrorOutcome
from links.checker.due_urls import links_awaiting_browser
from links.registry.database import open_registry_store
from net.backoff import ExponentialBackoff
from net.stop_signals import wait_unless_stopped
from warc.index.database import open_database
from weboid.app.text_table import clean
from weboid.app.visit_results import BrowserConfirmation, CaptureMirror, VisitLinks, hand_over_visits
from weboid.cli.support.commands import CLOCK, ExitCode, cli_command, option
from weboid.cli.support.options import COLLECTION, DURATION, INTERVAL, PROFILE, SHARED, WORKERS, SharedStores, output
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_options import open_webhooks, visit_once
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings

log = logging.getLogger(__name__)

_LONGEST_S = 3_600.0  # between two rounds after one failed
_AGAIN = timedelta(hours=1)  # visits may become known a little late


@cli_command("confirm")
def confirm_command(
    *,
    limit: int = option("Maximum number of links.", default=500),
    no_visit: bool = option("Use existing captures only."),
    hand_over: bool = option("Leave the visits to the process that works on the collection: `weboid archive --stay`."),
    lately: timedelta | None = option(
        "Also compare captures of this period with the first copy: 7d.", "--captures", type=DURATION
    ),
    every: timedelta | None = option("Repeat at this interval: 6h.", type=INTERVAL),
    dry_run: bool = option("List the waiting links only."),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
) -> None:
    """Confirm in a browser the links that are about to be marked dead.

    A link is marked dead only after a browser has failed at it, too. This visits the links that
    wait for confirmation, stores the captures in the collection, and records the result: gone,
    refused, back again, another page than the copy, or a changed owner of the domain.
    """
    settings = registry_settings(profile, shared.database_url, collection)
    if not (no_visit or dry_run):
        settings = replace(shared, database_url="").applied_to(settings)
    layout = Layout(collection)
    with (
        closing(open_registry_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
        open_webhooks(collection, settings) as hooks,
    ):
        if dry_run:
            with store.reading() as rows:
                waiting = links_awaiting_browser(rows, limit=limit)
            for each in waiting:
                click.echo(each.address)
            return
        task = BrowserConfirmation(store, database, layout, settings)
        visit: VisitLinks | None = partial(_visit, root=collection, workers=workers, settings=settings)
        if no_visit:
            visit = None
        elif hand_over:
            visit = partial(hand_over_visits, layout=layout, settings=settings)
        goes_on = True
        while goes_on:
            left, goes_on = task.round(visit, limit=limit, lately=lately, hand_over=hand_over)
            if hooks is not None:
                hooks.put_results(task.recorded)
            for result in task.recorded:
                finding = result.finding
                facts = json_facts(result, "url before after") | json_facts(finding, "verdict note")
                note = f" ({finding.note})" if finding.note else ""
                change = f"{facts['before']} -> {facts['after']}"
                output.show({**facts, "code": int(finding.code)}, f"{change}  {result.url}  {finding.verdict}{note}")
            output.say(f"{len(task.recorded)} results stored; {len(left)} links still await confirmation.", err=True)
            task.recorded.clear()
            goes_on = goes_on and every is not None and asyncio.run(wait_unless_stopped(every))


async def _visit(urls: Sequence[str], *, root: Path, workers: int, settings: Settings) -> RunSummary:
    with progress_bar("Asking the browser", len(urls)) as step:

        def report(event: Event) -> None:
            if isinstance(event, PageDone | PageSkipped):
                step(1)

        return await visit_once(urls, root, settings, workers, report)


@cli_command("mirror")
def mirror_command(
    *,
    since: timedelta = option("Visits within this period.", type=DURATION, default="7d"),
    limit: int = option("Maximum number of links.", default=100),
    every: timedelta | None = option("Repeat at this interval: 10m.", type=INTERVAL),
    dry_run: bool = option("Show the links, without querying archives."),
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
) -> int:
    """Submit visited pages to Save Page Now, and search other archives for copies of those that failed.

    [links] mirror selects the visits: `failed` (those without a result), `always`, or `never`. Their pages are submitted
    to the Wayback Machine's Save Page Now; after a failed visit the archives of [links] archives are queried for copies,
    too. See docs/how-to/archives.md.
    """
    settings = registry_settings(profile, stores.database_url, stores.root)
    if MirrorMode(settings.links.mirror) is MirrorMode.NEVER:
        raise InputError('Nothing is mirrored: set mirror = "failed" or "always" under [links].')
    layout = Layout(stores.root)
    with (
        closing(open_registry_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
    ):
        task = CaptureMirror(store, database, layout, settings)
        start = CLOCK.now() - since
        if dry_run:
            for url, visited in islice(task.waiting(start), limit):
                output.show({"url": url.url}, f"{MIRRORED[visited]}  {url.url}")
            return ExitCode.OK
        if every is None:
            _, failed = _round(task, start, limit)
            return ExitCode.SOME_FAILED if failed else ExitCode.OK
        backoff = ExponentialBackoff(every.total_seconds(), max(_LONGEST_S, every.total_seconds()))
        failed, goes_on = False, True
        while goes_on:
            try:
                start, failed = _round(task, start, limit)
            except InputError:
                raise
            except Exception as error:
                log.exception("mirror.round_failed")
                failed, pause_s = True, backoff.next_s()
                click.echo(f"weboid: {error} Trying again in {pause_s:g} s.", err=True)
            else:
                backoff.reset()
                pause_s = every.total_seconds()
            goes_on = asyncio.run(wait_unless_stopped(timedelta(seconds=pause_s)))
    return ExitCode.SOME_FAILED if failed else ExitCode.OK


def _round(task: CaptureMirror, start: datetime, limit: int) -> tuple[datetime, bool]:
    """Mirror waiting visits; return the next start time, and whether some will be retried."""
    begun = CLOCK.now()
    todo = list(islice(task.waiting(start), limit))
    done = asyncio.run(task.mirror(todo))
    for each in done:
        copy, facts = each.copy, json_facts(each, "url note", outcome="done")
        where = clean(each.note if copy is None else copy.address)
        facts["copy"] = copy and json_facts(copy, "address", archive="service")
        output.show(facts, f"{each.done:<6} {clean(each.url)}  {where}")
    counts = ", ".join(f"{count} {name}" for name, count in sorted(Counter(str(each.done) for each in done).items()))
    output.say(f"{len(done)} links{': ' + counts if counts else ''}.", err=True)
    if len(todo) < limit:  # else more is waiting
        start = max(start, begun - _AGAIN)
    return start, any(each.done is MirrorOutcome.LATER for each in done)
