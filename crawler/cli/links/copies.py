"""`weboid links copies`: the copies of links in archives."""

import asyncio
import getpass
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from core.durations import parse_moment
from core.errors import InputError
from core.layout import Layout
from core.settings import Settings
from crawler.cli.exits import Exit
from crawler.cli.links.archives_asked import (
    CLOCK,
    count_lacking,
    opened_archives,
    opened_captures,
    own_copy,
    unasked,
)
from crawler.cli.links.citation_days import CitationDays
from crawler.cli.links.opening import registry_settings
from crawler.cli.options import (
    collection_option,
    database_option,
    json_option,
    profile_option,
)
from crawler.cli.tables import clean, table, width
from crawler.collection import read_collection
from links.archives.choosing import Step, day_that_matters
from links.archives.copies import (
    Choice,
    Kept,
    Visit,
    choose,
    drop,
    due,
    kept_of,
    last_search,
    lock,
    without_copy,
)
from links.archives.finding import Sought, seek
from links.archives.visiting import Visited, counts, visit
from links.books.wanted import want_urls
from links.days import date_of, day_of
from links.observed import Observed, need_observed
from links.store.store import Store, open_store

_SAYS = {
    Step.KEPT: "remembered",
    Step.OWN: "our own capture",
    Step.FOUND: "found",
    Step.SAVE: "nobody has a copy: archive it while it is there",
    Step.UNFIXABLE: "dead, and nobody has a copy",
    Step.LATER: "not everybody answered; ask again later",
}


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked of the command."""

    store: Store
    layout: Layout
    settings: Settings
    url: str
    limit: int
    front: str
    as_json: bool
    dry_run: bool


@click.command("copies")
@click.argument("url", required=False, default="")
@click.option("--find", is_flag=True, help="Ask archives for copies: of URL, or of links without.")
@click.option("--thorough", is_flag=True, help="With --find: ask everybody, even if one is known.")
@click.option(
    "--accessed", metavar="DATE", help="With --find: when the page was read for citing it."
)
@click.option(
    "--choose",
    "choice",
    nargs=2,
    default=None,
    metavar="ARCHIVE ADDRESS",
    help='The version of that archive to show; "" for ADDRESS: none.',
)
@click.option("--drop", "dropped", metavar="ARCHIVE", help="Forget the copy in that archive.")
@click.option(
    "--lock", "locked", is_flag=True, help="The page changes all the time: nobody chooses."
)
@click.option("--unlock", "unlocked", is_flag=True, help="Allow choosing again.")
@click.option(
    "--verify", is_flag=True, help="Look at the copies that nobody looked at for a quarter."
)
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many."
)
@click.option("--front", default="", metavar="ORIGIN", help="Where readers find our own copies.")
@click.option(
    "--dry-run", is_flag=True, help="With --find or --verify: say what would be looked at."
)
@profile_option
@collection_option
@database_option
@json_option
def command(
    *,
    url: str,
    find: bool,
    thorough: bool,
    accessed: str | None,
    choice: tuple[str, str] | None,
    dropped: str | None,
    locked: bool,
    unlocked: bool,
    verify: bool,
    limit: int,
    front: str,
    dry_run: bool,
    profile: str,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Show, find, choose and look after the copies of links in archives.

    With a URL alone: what is known of its copies. Which archives are asked is said by [links] archives
    in the profile; nobody is without that. See docs/archives.md.
    """
    acts = [find, choice is not None, dropped is not None, locked, unlocked, verify]
    if sum(acts) > 1:
        raise click.UsageError(
            "One at a time: --find, --choose, --drop, --lock, --unlock or --verify."
        )
    if not url and not find and not verify:
        raise click.UsageError("Name a URL, or say --find or --verify.")
    settings = registry_settings(profile, database_url, collection)
    layout = read_collection(collection)
    with closing(open_store(layout, settings.index.url)) as store:
        task = _Task(store, layout, settings, url, limit, front, as_json, dry_run)
        if verify:
            return _verify(task)
        if find:
            return _find(task, accessed, is_thorough=thorough)
        with store.reading() as rows:
            observed = need_observed(rows, url)
        day = day_of(CLOCK.now())
        with store.writing() as rows:
            if choice is not None:
                by = getpass.getuser()
                made = Choice(by, choice[1], choice[0], is_admin=True)
                choose(rows, observed, made, day=day, own=(front,) if front else ())
            if dropped is not None and not drop(rows, observed.id, dropped):
                raise InputError(f"{clean(url)} has no copy in {clean(dropped)[:80]!r}.")
            if locked or unlocked:
                lock(rows, observed, is_locked=locked, is_admin=True)
        _show(task, observed)
    return Exit.OK


def _show(task: _Task, url: Observed) -> None:
    with task.store.reading() as rows:
        kept, search = kept_of(rows, url.id), last_search(rows, url.id)
    own = own_copy(task.layout, task.settings.index.url, task.front, url.url)
    if task.as_json:
        document = {
            "url": url.url,
            "state": url.state.name.lower(),
            "copies": [_facts(each) for each in kept],
            "own": None if own is None else {"address": own.address, "timestamp": own.timestamp},
            "asked": None
            if search is None
            else {
                "day": str(date_of(search.day)),
                "outcome": search.outcome.name.lower(),
                "again": str(date_of(search.again_day)),
                "note": search.note,
            },
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    head = ("archive", "taken", "seen", "by", "address")
    known = [_row(each) for each in kept]
    if own is not None:
        known.insert(0, (own.service, own.timestamp[:8], "-", "-", own.address))
    lines = table(head, known, columns=width()) if known else []
    for line in lines or ["No copy is known."]:
        click.echo(line)
    if search is not None:
        click.echo(
            f"Archives were asked on {date_of(search.day)} ({search.outcome.name.lower()}), "
            f"and will be again from {date_of(search.again_day)} on."
        )


def _row(kept: Kept) -> tuple[str, ...]:
    by = (kept.chosen_by or "-") + (" (locked)" if kept.is_locked else "")
    seen = str(date_of(kept.checked_day))
    if kept.missed_day is not None:
        seen = f"missed {date_of(kept.missed_day)}"
    address = kept.address or "(no version is chosen)"
    return kept.service, kept.timestamp[:8] or "-", seen, by, address


def _facts(kept: Kept) -> dict[str, Any]:
    return {
        "archive": kept.service,
        "address": kept.address,
        "timestamp": kept.timestamp,
        "found": str(date_of(kept.found_day)),
        "seen": str(date_of(kept.checked_day)),
        "missed": None if kept.missed_day is None else str(date_of(kept.missed_day)),
        "chosen_by": kept.chosen_by,
        "is_locked": kept.is_locked,
    }


def _find(task: _Task, accessed: str | None, *, is_thorough: bool) -> int:
    now = CLOCK.now()
    if not task.url and not task.settings.links.archives and not task.dry_run:
        return _nobody_to_ask(task)
    with task.store.reading() as rows:
        if task.url:
            wanted = [need_observed(rows, task.url)]
        else:
            living = task.settings.links.archive_living
            wanted = without_copy(rows, day_of(now), task.limit, living=living)
    if task.dry_run:
        for each in wanted:
            click.echo(json.dumps({"url": each.url}) if task.as_json else clean(each.url))
        return Exit.OK
    read = None if accessed is None else parse_moment(accessed)
    at = day_that_matters(read, None, now)
    sought = asyncio.run(_sought(task, wanted, at, is_thorough=is_thorough))
    for each, found in zip(wanted, sought, strict=True):
        _tell(task, each, found)
    lacking = sum(found.best is None for found in sought)
    if lacking and not task.settings.links.archives and not task.as_json:
        click.echo(unasked(lacking), err=True)
    return Exit.SOME_FAILED if any(each.troubles for each in sought) else Exit.OK


def _nobody_to_ask(task: _Task) -> int:
    """Say how many links are lost, since nobody can be asked for copies of them."""
    count = count_lacking(task.store, task.layout, task.settings)
    if task.as_json:
        click.echo(json.dumps({"lacking": count, "archives": 0}))
    elif count:
        click.echo(unasked(count), err=True)
    return Exit.OK


async def _sought(
    task: _Task, wanted: Sequence[Observed], accessed: datetime | None, *, is_thorough: bool
) -> list[Sought]:
    origins = (task.front,) if task.front else ()
    asks_wikis = bool(task.settings.links.archives)
    cited = CitationDays(task.store, task.settings, asks_wikis=asks_wikis)
    with (
        opened_captures(task.layout, task.settings.index.url, task.front) as own,
        _progress("Asking archives", len(wanted), quiet=task.as_json) as step,
    ):
        async with opened_archives(task.settings, own, origins) as archives:
            found = []
            for each in wanted:
                now = CLOCK.now()
                days = await cited.of(each.id, now)
                asked = [accessed, *days] if accessed is not None else list(days)
                found.append(
                    await seek(
                        task.store,
                        archives,
                        each,
                        now=now,
                        days=asked,
                        is_thorough=is_thorough,
                    )
                )
                if found[-1].is_wanted:  # who watches its wiki has our own crawler archive it
                    with task.store.writing() as rows:
                        want_urls(rows, [each.id], now=now)
                step(1)
            return found


def _tell(task: _Task, url: Observed, sought: Sought) -> None:
    best = sought.best
    if task.as_json:
        document = {
            "url": url.url,
            "outcome": str(sought.step),
            "best": None if best is None else {"archive": best.service, "address": best.address},
            "copies": [
                {"archive": each.service, "address": each.address, "timestamp": each.timestamp}
                for each in sought.copies
            ],
            "troubles": list(sought.troubles),
            "is_wanted": sought.is_wanted,
            "note": sought.note,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    click.echo(f"{clean(url.url)}: {_SAYS[sought.step]}")
    for each in sought.copies:
        mark = "*" if best is not None and each == best else " "
        click.echo(f" {mark} {each.service:<16} {clean(each.address) or '(no good version)'}")
    for trouble in (*sought.troubles, *([sought.note] if sought.note else [])):
        click.echo(f"   {clean(trouble)}", err=True)


def _verify(task: _Task) -> int:
    now = CLOCK.now()
    with task.store.reading() as rows:
        waiting = due(rows, day_of(now), task.limit)
    if task.dry_run:
        for each in waiting:
            facts = {"url": each.url.url, **_facts(each.kept)}
            line = f"{each.kept.service}  {clean(each.kept.address)}"
            click.echo(json.dumps(facts, ensure_ascii=False) if task.as_json else line)
        return Exit.OK
    visits = asyncio.run(_visited(task, now, len(waiting)))
    for done in visits:
        if task.as_json:
            click.echo(json.dumps(_visit_facts(done), ensure_ascii=False))
        elif done.visit is not Visit.GOOD:
            note = f": {clean(done.seen.note)}" if done.seen.note else ""
            click.echo(f"{done.visit}  {clean(done.copy.kept.address)}{note}")
    if not task.as_json:
        told = ", ".join(f"{count} {name}" for name, count in sorted(counts(visits).items()))
        click.echo(f"{len(visits)} copies looked at{': ' + told if told else ''}.")
    return Exit.OK


async def _visited(task: _Task, now: datetime, count: int) -> list[Visited]:
    own = (task.front,) if task.front else ()
    with _progress("Looking at copies", count, quiet=task.as_json) as step:
        async with opened_archives(task.settings, origins=own) as archives:
            asker = archives.asker
            return await visit(task.store, asker, now=now, limit=task.limit, own=own, told=step)


def _visit_facts(visited: Visited) -> dict[str, Any]:
    return {
        "url": visited.copy.url.url,
        "archive": visited.copy.kept.service,
        "address": visited.copy.kept.address,
        "outcome": str(visited.visit),
        "sight": str(visited.seen.sight),
        "now_at": visited.seen.address,
        "note": visited.seen.note,
    }


@contextmanager
def _progress(title: str, total: int, *, quiet: bool) -> Iterator[Any]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=quiet or not sys.stderr.isatty()) as progress:
        number = progress.add_task(title, total=total)
        yield lambda count: progress.advance(number, count)
