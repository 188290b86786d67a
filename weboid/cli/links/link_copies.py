"""`weboid links copies`: copies of links in archives."""

import asyncio
import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from core.config.settings import Settings
from core.errors import InputError
from core.layout import Layout
from core.timestamps import parse_moment
from crawler.collection import read_collection
from links.archives.copy_search import CopySearchResult, SearchStep, citation_day, search_copies
from links.archives.copy_store import (
    CopyCheckEffect,
    CopyChoice,
    StoredCopy,
    choose_copy,
    copies_of_url,
    drop_copy,
    due_copies,
    last_search,
    lock_copies,
    urls_without_copy,
)
from links.archives.copy_upkeep import CopyVisit, check_due_copies, count_effects
from links.check_history import date_of, day_of
from links.registry.archive_backlog import want_urls
from links.registry.database import RegistryStore, open_registry_store
from links.registry.urls import UrlRow, require_observed
from weboid.app.copy_sources import (
    CLOCK,
    CitationDays,
    count_without_copy,
    no_archives_notice,
    open_archives,
    open_own_captures,
    own_copy,
)
from weboid.app.text_table import clean, table, width
from weboid.cli.support.commands import ExitCode, GroupWithDefault, argument, cli_command, made_by, option
from weboid.cli.support.options import OUTPUT, PROFILE, CommandOutput
from weboid.cli.support.progress import progress_bar
from weboid.cli.support.stores import STORES, CollectionStores, registry_settings

_SAYS = {
    SearchStep.KEPT: "remembered",
    SearchStep.OWN: "our own capture",
    SearchStep.FOUND: "found",
    SearchStep.SAVE: "no copy exists: archive it while it is there",
    SearchStep.UNFIXABLE: "dead, without a copy in any archive",
    SearchStep.LATER: "not everybody answered; ask again later",
}


@dataclass(frozen=True, slots=True)
class _CopiesOptions:
    """Open registry, and options of the commands."""

    store: RegistryStore
    layout: Layout
    settings: Settings
    front: str
    output: CommandOutput
    url: str = ""
    limit: int = 0
    dry_run: bool = False


_Opener = Callable[..., AbstractContextManager[_CopiesOptions]]


def _opener(
    front: str = option("Public origin of our own copies.", default="", metavar="ORIGIN"),
    profile: str = PROFILE,
    stores: CollectionStores = STORES,
    output: CommandOutput = OUTPUT,
) -> _Opener:
    """Return a function that opens the registry, given the remaining options."""

    @contextmanager
    def opened(**remaining: Any) -> Iterator[_CopiesOptions]:
        settings = registry_settings(profile, stores.database_url, stores.root)
        layout = read_collection(stores.root)
        with closing(open_registry_store(layout, settings.index.url)) as store:
            yield _CopiesOptions(store, layout, settings, front, output, **remaining)

    return opened


_OPENER = made_by(_opener)
_LIMIT = option("Number of links, at most.", type=click.IntRange(1), default=100)
_DRY_RUN = option("Show what would be checked.")


@cli_command("show")
def show_command(*, url: str = argument(), opened: _Opener = _OPENER) -> None:
    """Show, find, choose and verify the copies of links in archives.

    With a URL alone: its known copies. [links] archives in the profile lists the archives to query;
    none by default. See docs/how-to/archives.md.
    """
    with opened() as task:
        with task.store.reading() as rows:
            observed = require_observed(rows, url)
        _show(task, observed)


command = GroupWithDefault(
    "copies",
    callback=show_command.callback,
    params=show_command.params,
    help=show_command.help,
    invoke_without_command=True,
)


@cli_command("find", command)
def find_command(
    *,
    url: str = argument("[URL]", required=False, default=""),
    thorough: bool = option("Ask everybody, even if a copy is known."),
    accessed: str | None = option("When the page was read for citing it.", metavar="DATE"),
    limit: int = _LIMIT,
    dry_run: bool = _DRY_RUN,
    opened: _Opener = _OPENER,
) -> int:
    """Ask archives for copies: of URL, or of links without."""
    with opened(url=url, limit=limit, dry_run=dry_run) as task:
        return _find(task, accessed, is_thorough=thorough)


@cli_command("check", command, hidden=True)
def check_command(*, limit: int = _LIMIT, dry_run: bool = _DRY_RUN, opened: _Opener = _OPENER) -> int:
    """Check the copies that were not checked for a quarter."""
    with opened(limit=limit, dry_run=dry_run) as task:
        return _verify(task)


@cli_command("set", command)
def set_command(
    *,
    url: str = argument(),
    archive: str | None = argument("[ARCHIVE]"),
    address: str | None = argument("[ADDRESS]"),
    is_locked: bool | None = option(
        "Whether the choice is final; for a page that changes all the time.", "--lock/--unlock", default=None
    ),
    opened: _Opener = _OPENER,
) -> None:
    """Choose the version in ARCHIVE that is shown for URL, or lock it.

    An empty ADDRESS, "", chooses no version of that archive.
    """
    if (archive is None) != (address is None) or (archive is None) == (is_locked is None):
        raise click.UsageError("Name ARCHIVE and ADDRESS, or use --lock or --unlock.")
    with opened() as task:
        with task.store.writing() as rows:
            observed = require_observed(rows, url)
            if archive is not None and address is not None:
                made = CopyChoice(getpass.getuser(), address, archive, is_admin=True)
                own = (task.front,) if task.front else ()
                choose_copy(rows, observed, made, day=day_of(CLOCK.now()), own=own)
            else:
                lock_copies(rows, observed, is_locked=bool(is_locked), is_admin=True)
        _show(task, observed)


@cli_command("rm", command)
def remove_command(*, url: str = argument(), archive: str = argument(), opened: _Opener = _OPENER) -> None:
    """Remove the copy of URL in ARCHIVE."""
    with opened() as task:
        with task.store.writing() as rows:
            observed = require_observed(rows, url)
            if not drop_copy(rows, observed.id, archive):
                raise InputError(f"{clean(url)} has no copy in {clean(archive)[:80]!r}.")
        _show(task, observed)


def _show(task: _CopiesOptions, url: UrlRow) -> None:
    with task.store.reading() as rows:
        stored, search = copies_of_url(rows, url.id), last_search(rows, url.id)
    own = own_copy(task.layout, task.settings.index.url, task.front, url.url)
    document: dict[str, Any] = {
        "url": url.url,
        "state": url.state.name.lower(),
        "copies": [_facts(each) for each in stored],
        "own": None if own is None else {"address": own.address, "timestamp": own.timestamp},
        "asked": None,
    }
    known = []
    for each in stored:
        by = (each.chosen_by or "-") + (" (locked)" if each.is_locked else "")
        seen = str(date_of(each.checked_day))
        if each.missed_day is not None:
            seen = f"missed {date_of(each.missed_day)}"
        address = each.address or "(no version is chosen)"
        known.append((each.service, each.timestamp[:8] or "-", seen, by, address))
    if own is not None:
        known.insert(0, (own.service, own.timestamp[:8], "-", "-", own.address))
    head = ("archive", "taken", "seen", "by", "address")
    lines = table(head, known, columns=width()) if known else ["No copy is known."]
    if search is not None:
        day, again = str(date_of(search.day)), str(date_of(search.again_day))
        outcome = search.outcome.name.lower()
        document["asked"] = {"day": day, "outcome": outcome, "again": again, "note": search.note}
        lines.append(f"Archives were asked on {day} ({outcome}), and will be again from {again} on.")
    task.output.show(document, lines)


def _facts(kept: StoredCopy) -> dict[str, Any]:
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


def _find(task: _CopiesOptions, accessed: str | None, *, is_thorough: bool) -> int:
    now = CLOCK.now()
    if not task.url and not task.settings.links.archives and not task.dry_run:
        lacking = count_without_copy(task.store, task.layout, task.settings)
        if not task.output.json({"lacking": lacking, "archives": 0}) and lacking:
            click.echo(no_archives_notice(lacking), err=True)
        return ExitCode.OK
    with task.store.reading() as rows:
        if task.url:
            wanted = [require_observed(rows, task.url)]
        else:
            living = task.settings.links.archive_living
            wanted = urls_without_copy(rows, day_of(now), task.limit, living=living)
    if task.dry_run:
        for each in wanted:
            task.output.show({"url": each.url}, clean(each.url))
        return ExitCode.OK
    read = None if accessed is None else parse_moment(accessed)
    at = citation_day(read, None, now)
    sought = asyncio.run(_search_all(task, wanted, at, is_thorough=is_thorough))
    for each, found in zip(wanted, sought, strict=True):
        _print_result(task, each, found)
    lacking = sum(found.best is None for found in sought)
    if lacking and not task.settings.links.archives and not task.output.is_json:
        click.echo(no_archives_notice(lacking), err=True)
    return ExitCode.SOME_FAILED if any(each.troubles for each in sought) else ExitCode.OK


async def _search_all(
    task: _CopiesOptions, wanted: Sequence[UrlRow], accessed: datetime | None, *, is_thorough: bool
) -> list[CopySearchResult]:
    origins = (task.front,) if task.front else ()
    asks_wikis = bool(task.settings.links.archives)
    cited = CitationDays(task.store, task.settings, asks_wikis=asks_wikis)
    with (
        open_own_captures(task.layout, task.settings.index.url, task.front) as own,
        progress_bar("Asking archives", len(wanted), quiet=task.output.is_json) as step,
    ):
        async with open_archives(task.settings, own, origins) as archives:
            found = []
            for each in wanted:
                now = CLOCK.now()
                days = await cited.of(each.id, now)
                asked = [accessed, *days] if accessed is not None else list(days)
                found.append(
                    await search_copies(task.store, archives, each, now=now, days=asked, is_thorough=is_thorough)
                )
                if found[-1].is_wanted:  # who watches its wiki has our own crawler archive it
                    with task.store.writing() as rows:
                        want_urls(rows, [each.id], now=now)
                step(1)
            return found


def _print_result(task: _CopiesOptions, url: UrlRow, sought: CopySearchResult) -> None:
    best = sought.best
    document = {
        "url": url.url,
        "outcome": str(sought.step),
        "best": None if best is None else {"archive": best.service, "address": best.address},
        "copies": [
            {"archive": each.service, "address": each.address, "timestamp": each.timestamp} for each in sought.copies
        ],
        "troubles": list(sought.troubles),
        "is_wanted": sought.is_wanted,
        "note": sought.note,
    }
    if task.output.json(document):
        return
    click.echo(f"{clean(url.url)}: {_SAYS[sought.step]}")
    for each in sought.copies:
        mark = "*" if best is not None and each == best else " "
        click.echo(f" {mark} {each.service:<16} {clean(each.address) or '(no good version)'}")
    for trouble in (*sought.troubles, *([sought.note] if sought.note else [])):
        click.echo(f"   {clean(trouble)}", err=True)


def _verify(task: _CopiesOptions) -> int:
    now = CLOCK.now()
    with task.store.reading() as rows:
        waiting = due_copies(rows, day_of(now), task.limit)
    if task.dry_run:
        for each in waiting:
            facts = {"url": each.url.url, **_facts(each.kept)}
            task.output.show(facts, f"{each.kept.service}  {clean(each.kept.address)}")
        return ExitCode.OK
    visits = asyncio.run(_check_copies(task, now, len(waiting)))
    for done in visits:
        facts = {
            "url": done.copy.url.url,
            "archive": done.copy.kept.service,
            "address": done.copy.kept.address,
            "outcome": str(done.visit),
            "sight": str(done.seen.sight),
            "now_at": done.seen.address,
            "note": done.seen.note,
        }
        if not task.output.json(facts) and done.visit is not CopyCheckEffect.GOOD:
            note = f": {clean(done.seen.note)}" if done.seen.note else ""
            click.echo(f"{done.visit}  {clean(done.copy.kept.address)}{note}")
    if not task.output.is_json:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(count_effects(visits).items()))
        click.echo(f"{len(visits)} copies looked at{': ' + counts if counts else ''}.")
    return ExitCode.OK


async def _check_copies(task: _CopiesOptions, now: datetime, count: int) -> list[CopyVisit]:
    own = (task.front,) if task.front else ()
    with progress_bar("Looking at copies", count, quiet=task.output.is_json) as step:
        async with open_archives(task.settings, origins=own) as archives:
            asker = archives.asker
            return await check_due_copies(task.store, asker, now=now, limit=task.limit, own=own, on_check=step)
