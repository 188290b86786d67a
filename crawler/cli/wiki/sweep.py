"""`weboid wiki sweep`: every page of a wiki, read anew; the first time that is its import."""

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from core.clock import SystemClock
from core.errors import WeboidError
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.links.opening import opened_registry
from crawler.cli.tables import clean
from crawler.cli.where import Where, where_options
from crawler.cli.wiki.archiving import FrontierArchive
from crawler.cli.wiki.watch import holder_name, is_ended, opener_of
from links.books.feeds import FeedHeldError
from links.books.wikis import Wiki, parse_wiki
from links.store.store import Store
from wiki.feeding.citing import citing
from wiki.feeding.desk import Shared, parse_settings
from wiki.feeding.feed import Done
from wiki.feeding.surveying import Survey, survey
from wiki.feeding.watching import chosen, order_sweep, sweep_wiki

_CLOCK = SystemClock()


@click.command("sweep")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--now", "is_now", is_flag=True, help="Also when none is due yet.")
@click.option("--dry-run", is_flag=True, help="Say what would be observed, and write nothing.")
@where_options
def command(
    *, names: tuple[str, ...], is_now: bool, dry_run: bool, where: Where, as_json: bool
) -> int:
    """Read every page of wikis anew, of all that are known or of those that are named.

    A wiki's first sweep brings its pages in, and all of their links into the archive. `weboid wiki
    watch` sweeps by itself, so this is for whoever does not want to wait. One that was interrupted goes
    on where it stopped. While a watch runs it is that watch which sweeps, and --now tells it to.
    """
    wanted = [parse_wiki(name) for name in names]
    with ExitStack() as stack:
        store = stack.enter_context(
            opened_registry(where.layout.root, where.settings.index.url, make=not dry_run)
        )
        wikis = chosen(store, wanted)
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
            *(MofNCompleteColumn(), TimeRemainingColumn()),
        )
        progress = stack.enter_context(Progress(*columns, transient=True, disable=as_json))
        if dry_run:
            told = [_surveyed(wiki, store, where.settings, progress) for wiki in wikis]
        else:
            frontier = stack.enter_context(where.frontier(make=True))
            archive = FrontierArchive(frontier, where.settings, clock=_CLOCK)
            shared = Shared(store, archive, _CLOCK, holder_name(), citing(_CLOCK), is_gone=is_ended)
            told = [_swept(wiki, shared, where.settings, progress, is_now=is_now) for wiki in wikis]
    for facts in told:
        click.echo(json.dumps(facts, ensure_ascii=False) if as_json else clean(_sentence(facts)))
    return Exit.SOME_FAILED if any(facts["trouble"] for facts in told) else Exit.OK


def _swept(
    wiki: Wiki, shared: Shared, settings: Settings, progress: Progress, *, is_now: bool
) -> dict[str, Any]:
    """Sweep one wiki; what was done, its trouble included: the others must go on."""
    task = progress.add_task(clean(str(wiki.name)), total=None)
    sums = {"pages": 0, "links": 0, "added": 0, "gone": 0, "dropped": 0, "taken": 0}

    def note(done: Done) -> None:
        both = done.pages.plus(done.swept)
        for name in ("added", "gone", "dropped"):
            sums[name] += getattr(both, name)
        sums["pages"] += done.swept.pages
        sums["links"] += done.swept.links
        sums["taken"] += done.handed.taken
        if done.sweep is not None:
            progress.update(task, completed=done.sweep.pages)

    opener, trouble, is_left = opener_of(settings), "", False

    async def sweep() -> None:
        async with opener(wiki) as source:
            total = await source.size(parse_settings(wiki.settings).feed.namespaces)
        progress.update(task, total=total or None)
        await sweep_wiki(wiki, opener, shared, is_now=is_now, progress=note)

    try:
        asyncio.run(sweep())
    except FeedHeldError as error:
        if is_now:
            order_sweep(shared.store, wiki, now=_CLOCK.now())
            is_left = True
        else:
            trouble = str(error)
    except WeboidError as error:
        trouble = str(error)
    progress.remove_task(task)
    return {"wiki": str(wiki.name), **sums, "left_to_watch": is_left, "trouble": trouble}


def _surveyed(wiki: Wiki, store: Store, settings: Settings, progress: Progress) -> dict[str, Any]:
    """What a sweep would find."""
    task = progress.add_task(clean(str(wiki.name)), total=None)
    found, trouble = Survey(), ""
    opener = opener_of(settings)

    async def look() -> None:
        nonlocal found
        async with opener(wiki) as source:
            async for found in survey(wiki, source, store, _CLOCK):
                _show(progress, task, found)

    try:
        asyncio.run(look())
    except WeboidError as error:
        trouble = str(error)
    progress.remove_task(task)
    return {
        "wiki": str(wiki.name),
        "dry_run": True,
        "pages": found.pages,
        "links": {str(sort): count for sort, count in sorted(found.links.items())},
        "not_observed": {str(why): count for why, count in sorted(found.refused.items())},
        "trouble": trouble,
    }


def _show(progress: Progress, task: TaskID, found: Survey) -> None:
    total = max(found.expected, found.looked_at)
    progress.update(task, completed=found.looked_at, total=total or None)


def _sentence(facts: dict[str, Any]) -> str:
    name = facts["wiki"]
    if facts["trouble"]:
        return f"{name}: {facts['trouble']} What was written stays; the next run goes on."
    if "dry_run" in facts:
        links = ", ".join(f"{count:,} {sort}" for sort, count in facts["links"].items()) or "none"
        text = f"{name}: {facts['pages']:,} pages would be observed; their links: {links}."
        others = ", ".join(f"{count:,} ({why})" for why, count in facts["not_observed"].items())
        return f"{text} Not observed: {others}." if others else text
    if facts["left_to_watch"]:
        return f"{name}: `weboid wiki watch` is at work on it and has been told to sweep now."
    if not facts["pages"] and not facts["added"]:
        return f"{name}: no sweep is due; --now begins one."
    return (
        f"{name}: {facts['pages']:,} pages with {facts['links']:,} links swept; {facts['added']:,} links "
        f"are new or back, {facts['gone']:,} are gone, {facts['dropped']:,} pages are deleted; "
        f"{facts['taken']:,} links are to be archived."
    )
