"""Changes of a wiki, followed: read, looked at, and written with the cursor that tells of them."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from links.books import asked_pages
from links.books.asked_pages import AskedPage
from links.books.importing import sorted_links
from links.books.pages import PageRow, find_pages, find_titled, next_stale
from links.books.wanted import Priority
from links.days import day_of
from links.locator import key_of
from wiki.api.changes import ChangeBatch
from wiki.api.facts import WikiPage
from wiki.feeding import spreading, sweeping
from wiki.feeding.deciding import (
    Looks,
    looks_for,
    read_settling,
    settled,
    settling_text,
    with_settling,
    young,
)
from wiki.feeding.desk import CHANGES, SETTLING, SPREAD, SWEEP, Desk
from wiki.feeding.putting import Outcome, Read, links_of
from wiki.feeding.reading import parts, text_parts
from wiki.feeding.source import PAGES_AT_ONCE
from wiki.feeding.sweeping import Sweep

BATCHES = 10  # of changes in one round
STALE = 2 * PAGES_AT_ONCE  # pages in one round
TASKS = 4  # parts of lists in one round

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Followed:
    """What following did.

    Attributes:
        changes: entries of the wiki's list that were dealt with.
        pages: what was written.
        is_gap: the wiki had forgotten changes, so a sweep was begun.
        is_more: there are more at once.
    """

    changes: int = 0
    pages: Outcome = field(default_factory=Outcome)
    is_gap: bool = False
    is_more: bool = False


async def follow(desk: Desk, hinted: Collection[int] = ()) -> Followed:
    """Deal with the changes since the cursor, and with pages that somebody says have changed.

    Raises:
        WeboidError: the wiki or the registry cannot be asked; what was not written comes again.
    """
    count, outcome, is_gap = 0, Outcome(), False
    for _ in range(BATCHES):
        before = desk.cursor(CHANGES)
        batch = await desk.source.changes(before)
        has_gap = batch.is_gap and bool(before)
        outcome = outcome.plus(await _take(desk, batch, hinted, has_gap=has_gap))
        count, is_gap, hinted = count + len(batch.changes), is_gap or has_gap, ()
        if batch.is_end:
            return Followed(count, outcome, is_gap)
    return Followed(count, outcome, is_gap, is_more=True)


async def look_again(desk: Desk) -> Outcome:
    """Look once more at pages that were saved a moment ago: their links may have come only now."""
    settling = read_settling(desk.cursor(SETTLING))
    due = settled(settling, now=desk.now())[: 4 * PAGES_AT_ONCE]
    outcome = Outcome()
    for some in parts(due):
        read = await desk.read(ids=some)
        for page_id in some:
            settling.pop(page_id, None)
        outcome = outcome.plus(await desk.write(read, {SETTLING: settling_text(settling)}))
    return outcome


async def read_stale(desk: Desk) -> tuple[Outcome, bool]:
    """Read pages that are marked: somebody asked for them (W34), or a template of theirs changed.

    Returns:
        What was written, and whether there may be more.
    """
    rows = await asyncio.to_thread(_stale, desk)
    outcome = Outcome()
    for some in parts(row.page_id for row in rows):
        outcome = outcome.plus(await desk.write(await desk.read(ids=some), {}))
    return outcome, len(rows) == STALE


async def read_asked(desk: Desk) -> tuple[Outcome, bool]:
    """Read pages that somebody asked for and that are not observed; adopt those that should be (W10, W34).

    Returns:
        What was written, and whether there may be more.
    """
    rows = await asyncio.to_thread(_asked, desk)
    outcome, pages = Outcome(), list[WikiPage]()
    for some in parts(row.page_id for row in rows if row.page_id):
        read = await desk.read(ids=some)
        outcome, pages = outcome.plus(await desk.write(read, {})), [*pages, *read.pages]
    for titles in text_parts(row.title for row in rows if not row.page_id):
        read = await desk.read(titles=titles)
        outcome, pages = outcome.plus(await desk.write(read, {})), [*pages, *read.pages]
    if rows:
        await asyncio.to_thread(_finish_asked, desk, rows, pages)
    return outcome, len(rows) == STALE


async def spread(desk: Desk) -> tuple[Outcome, bool]:
    """Go on with the lists of pages that templates and categories bring.

    Returns:
        What was written, and whether more is due.
    """
    outcome = Outcome()
    for _ in range(TASKS):
        task = spreading.next_task(desk.tasks(), now=desk.now())
        if task is None:
            return outcome, False
        if task.kind == "template":
            listing = await desk.source.using(task.title, task.resume)
        elif task.kind == "namespace":
            listing = await desk.source.listed(int(task.title), task.resume)
        else:
            listing = await desk.source.members(task.title, task.resume, are_categories=False)
        namespaces = desk.criteria().namespaces
        ids = [each.page_id for each in listing.pages if each.namespace in namespaces]
        tasks = spreading.went_on(desk.tasks(), task, listing.resume, len(listing.pages))
        cursors = {SPREAD: spreading.tasks_text(tasks)}
        if task.kind == "template":
            await desk.note(cursors, stale=ids)
            continue
        # A whole namespace must not go before what people save.
        priority = Priority.SWEPT if task.kind == "namespace" else Priority.SAVED
        for some in parts(ids):  # pages that nobody knew are among them
            read = await desk.read(ids=some)
            outcome = outcome.plus(await desk.write(read, {}, priority=priority))
        await desk.note(cursors)
    return outcome, True


async def _take(
    desk: Desk, batch: ChangeBatch, hinted: Collection[int], *, has_gap: bool
) -> Outcome:
    """Look where the changes of a batch say, and write its cursor with the last of it."""
    now, namespaces = desk.now(), desk.criteria().namespaces
    looks = looks_for(batch.changes, namespaces)
    recent = looks_for(young(batch.changes, now=batch.now), namespaces)
    ids, titles = await asyncio.to_thread(_places, desk, looks)
    cursors = {CHANGES: batch.cursor, **_spreading(desk, looks, now)}
    if has_gap:
        cursors[SWEEP] = _sweep_anew(desk, now)
    outcome, again = Outcome(), set[int]()
    read = Read()
    for some_titles in text_parts(sorted(titles)):
        outcome = outcome.plus(await desk.write(read, {}))
        read = await desk.read(titles=some_titles)
        again.update(page.page_id for page in read.pages if page.title in recent.titles)
    for some_ids in parts(sorted({*ids, *hinted})):
        outcome = outcome.plus(await desk.write(read, {}))
        read = await desk.read(ids=some_ids)
    again |= recent.ids | set(hinted)
    if again:
        settling = with_settling(read_settling(desk.cursor(SETTLING)), again, now=now)
        cursors[SETTLING] = settling_text(settling)
    if looks.has_categories:
        desk.doubt_trees()
    return outcome.plus(await desk.write(read, cursors))


def _places(desk: Desk, looks: Looks) -> tuple[set[int], frozenset[str]]:
    """Pages by their numbers and by their names; whoever bore a name is looked at, too."""
    with desk.store.snapshot() as reader:
        named = find_titled(reader, desk.wiki.id, looks.titles)
    return {*looks.ids, *(row.page_id for row in named)}, looks.titles


def _asked(desk: Desk) -> list[AskedPage]:
    with desk.store.reading() as connection:
        return asked_pages.waiting(connection, desk.wiki.id, limit=STALE)


def _finish_asked(desk: Desk, rows: Sequence[AskedPage], pages: Sequence[WikiPage]) -> None:
    """Note that the pages were read, with the links of those that are not observed."""
    by_id = {page.page_id: page for page in pages}
    by_title = {page.title: page for page in pages}
    keys: dict[AskedPage, list[bytes]] = {}
    with desk.store.writing() as connection:
        rules = desk.shared.rules.rules_of(connection, desk.wiki.id)
        observed = find_pages(connection, desk.wiki.id, by_id)
        for row in rows:
            capital = row.title[:1].upper() + row.title[1:]
            named = by_title.get(row.title) or by_title.get(capital)
            page = by_id.get(row.page_id) if row.page_id else named
            if page is not None and page.page_id not in observed:
                links = sorted_links(links_of(page, desk.facts.interwikis), rules)
                keys[row] = [key_of(link.identity) for link in links if link.is_watched]
        day = day_of(desk.now())
        asked_pages.finish(connection, desk.wiki.id, rows, day=day, keys=keys)


def _stale(desk: Desk) -> list[PageRow]:
    with desk.store.snapshot() as reader:
        return next_stale(reader, desk.wiki.id, limit=STALE)


def _spreading(desk: Desk, looks: Looks, now: datetime) -> Mapping[str, str]:
    if not looks.templates:
        return {}
    tasks = spreading.begun(desk.tasks(), looks.templates, (), now=now)
    return {SPREAD: spreading.tasks_text(tasks)}


def _sweep_anew(desk: Desk, now: datetime) -> str:
    """The wiki has forgotten changes: all of its pages must be read."""
    log.warning("%s: the wiki has forgotten changes since we asked last; sweeping", desk.wiki.name)
    return sweeping.begun(Sweep.parse(desk.cursor(SWEEP)), now=now, day=day_of(now)).text()
