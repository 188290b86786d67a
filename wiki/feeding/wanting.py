"""Links that are due, on to the archive (A01, A02): looked at once more, and handed on at least once.

Whoever archives is an `Archive`; it may be given a link twice, so it must know what waits there already.
Of a link to a copy in an archive what that copy is of is archived, not the copy (`asked_for`).
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from core.errors import WeboidError
from links.archives.recognising import recognise
from links.archives.services import WEBOID
from links.books.pages import Ref
from links.books.urls import urls_by_id
from links.books.wanted import Priority, WantedRow, due_links, forget, postpone
from links.books.wikis import WikiName
from links.rulebook import RuleBook
from links.sorting import Sort, WikiRules, sort_link
from links.store.store import Store

BATCH = 500
_FIRST_PAUSE = timedelta(seconds=30)
_LONGEST_PAUSE = timedelta(hours=1)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A link that is to be archived.

    Attributes:
        url: its identity key, which can be asked for; of a copy in an archive that of what it is of.
        wiki: whose page has it.
        page_id: that page's number there.
        title: that page's name.
        since: when it was found there.
        priority: who waits for it.
        archived_days: what was archived so lately need not be again.
    """

    url: str
    wiki: WikiName
    page_id: int
    title: str
    since: datetime
    priority: Priority
    archived_days: int = 30


class Archive(Protocol):
    """Who archives links."""

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:
        """Those of the URLs of which there is a good capture of that moment or later (A02)."""
        ...

    async def take(self, urls: Sequence[Wanted]) -> None:
        """Keep that these are to be archived; when it returns, they will not be forgotten.

        What waits already or may not be archived is taken like all else, and left at that.

        Raises:
            WeboidError: nothing is known to be kept; the same links come again later.
        """
        ...


@dataclass(frozen=True)
class Handed:
    """What became of links that were due."""

    taken: int = 0
    fresh: int = 0  # archived so lately that nothing is to be done
    gone: int = 0  # not on their pages any more
    copies: int = 0  # of what is not to be archived, or of ours
    put_off: int = 0  # the archive could not take them


def asked_for(url: str, rules: WikiRules, own: Collection[str] = ()) -> str:
    """What is archived of a link: itself; of a copy in a known archive what that is of; of ours nothing.

    A copy whose address does not say what it is of is archived like any other page.

    Args:
        url: the link.
        rules: of its wiki; they hold for what a copy is of, too.
        own: origins of this archive's own pages.
    """
    found = recognise(url, own=own)
    if found is None or not found.is_known:
        return url
    if found.service == WEBOID:
        return ""
    if not found.original:
        return url
    link = sort_link(found.original, rules)
    return link.identity if link.sort is Sort.WATCHED else ""


class HandOver:
    """Hands one wiki's links on."""

    def __init__(
        self, store: Store, wiki_id: int, name: WikiName, archive: Archive, rules: RuleBook
    ) -> None:
        """Take the registry, the wiki, who archives, and what wikis say of URLs."""
        self._store = store
        self._rules = rules
        self._wiki_id = wiki_id
        self._name = name
        self._archive = archive

    def due(self, now: datetime, *, limit: int = BATCH) -> list[WantedRow]:
        """What is due now, as the registry knows it."""
        with self._store.snapshot() as reader:
            return due_links(reader, self._wiki_id, now=now, limit=limit)

    async def hand_on(
        self,
        rows: Sequence[WantedRow],
        *,
        now: datetime,
        days: int,
        own: Collection[str] = (),
    ) -> Handed:
        """Hand links on that were looked at once more.

        Args:
            rows: what `due` told after the second look.
            now: the moment.
            days: what was archived so lately is not archived again.
            own: origins of this archive's own pages.

        Raises:
            TransientError: the registry does not answer; the links come again.
        """
        gone = [row for row in rows if not row.is_there or row.gone_day is not None]
        there = [row for row in rows if row.is_there and row.gone_day is None]
        wanted = await asyncio.to_thread(self._named, there, days, own)
        try:
            fresh = await self._fresh(wanted, now - timedelta(days=days)) if days else set()
            asked = [each for _, each in wanted if each.url not in fresh]
            if asked:
                await self._archive.take(asked)
        except WeboidError as error:
            log.warning("%s: the archive does not take %s links: %s", self._name, len(there), error)
            await asyncio.to_thread(self._put_off, there, gone, now)
            return Handed(gone=len(gone), put_off=len(there))
        await asyncio.to_thread(self._forget, rows)
        copies = len(there) - len(wanted)
        return Handed(len(asked), len(wanted) - len(asked), len(gone), copies)

    async def _fresh(self, wanted: Sequence[tuple[WantedRow, Wanted]], since: datetime) -> set[str]:
        urls = list(dict.fromkeys(each.url for _, each in wanted))
        return set(await self._archive.archived(urls, since)) if urls else set()

    def _named(
        self, rows: Sequence[WantedRow], days: int, own: Collection[str]
    ) -> list[tuple[WantedRow, Wanted]]:
        with self._store.snapshot() as reader:
            urls = urls_by_id(reader, [row.url_id for row in rows])
        with self._store.reading() as connection:
            rules = self._rules.rules_of(connection, self._wiki_id)
        asked = {number: asked_for(each.url, rules, own) for number, each in urls.items()}
        return [
            (
                row,
                Wanted(
                    asked[row.url_id],
                    self._name,
                    row.page_id,
                    row.title,
                    row.since,
                    row.priority,
                    days,
                ),
            )
            for row in rows
            if asked.get(row.url_id)
        ]

    def _forget(self, rows: Sequence[WantedRow]) -> None:
        with self._store.writing() as connection:
            forget(connection, [Ref(row.page, row.url_id) for row in rows])

    def _put_off(
        self, there: Sequence[WantedRow], gone: Sequence[WantedRow], now: datetime
    ) -> None:
        with self._store.writing() as connection:
            forget(connection, [Ref(row.page, row.url_id) for row in gone])
            for row in there:
                pause = min(_FIRST_PAUSE * 2 ** min(row.attempts, 10), _LONGEST_PAUSE)
                postpone(connection, [row], until=now + pause)
