"""`weboid links confirm`: confirmation of suspected dead links by a browser."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from core.config.settings import Settings
from core.layout import Layout
from crawler.run.crawl_run import RunSummary
from crawler.worker.crawl_events import Event, PageDone, PageSkipped
from links.checker.due_urls import links_awaiting_browser
from links.registry.database import open_registry_store
from net.stop_signals import wait_unless_stopped
from warc.index.database import open_database
from weboid.app.visit_results import BrowserConfirmation, VisitLinks, hand_over_visits
from weboid.cli.support.commands import cli_command, option
from weboid.cli.support.options import (
    COLLECTION,
    DURATION,
    OUTPUT,
    PROFILE,
    SHARED,
    WORKERS,
    CommandOutput,
    SharedStores,
)
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.run_options import open_webhooks, visit_once
from weboid.cli.support.stores import registry_settings


@cli_command("confirm")
def confirm_command(
    *,
    limit: int = option("Number of links, at most.", default=500),
    no_visit: bool = option("Only take the captures that are there."),
    hand_over: bool = option("Leave the visits to who works on the collection: `weboid archive --stay`."),
    lately: timedelta | None = option(
        "Also compare captures of this last time with the first copy: 7d.",
        "--captures",
        type=DURATION,
        metavar="DURATION",
    ),
    every: timedelta | None = option("Repeat at this interval: 6h.", type=DURATION, metavar="DURATION"),
    dry_run: bool = option("List the links that wait, and do nothing."),
    collection: Path = COLLECTION,
    shared: SharedStores = SHARED,
    profile: str = PROFILE,
    workers: int = WORKERS,
    output: CommandOutput = OUTPUT,
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
        visit: VisitLinks | None = partial(
            _visit, root=collection, workers=workers, settings=settings, quiet=output.is_json
        )
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
                finding, before, after = result.finding, result.before.name, result.after.name
                facts = {
                    "url": result.url,
                    "verdict": str(finding.verdict),
                    "code": int(finding.code),
                    "note": finding.note,
                    "before": before.lower(),
                    "after": after.lower(),
                }
                note = f" ({finding.note})" if finding.note else ""
                change = f"{before.lower()} -> {after.lower()}"
                output.show(facts, f"{change}  {result.url}  {finding.verdict}{note}")
            if not output.is_json:
                count = len(task.recorded)
                click.echo(f"{count} results stored; {len(left)} links still wait for confirmation.", err=True)
            task.recorded.clear()
            goes_on = goes_on and every is not None and asyncio.run(wait_unless_stopped(every))


async def _visit(urls: Sequence[str], *, root: Path, workers: int, settings: Settings, quiet: bool) -> RunSummary:
    with progress_bar("Asking the browser", len(urls), quiet=quiet) as step:

        def report(event: Event) -> None:
            if isinstance(event, PageDone | PageSkipped):
                step(1)

        return await visit_once(urls, root, settings, workers, report)
