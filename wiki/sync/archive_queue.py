"""Queue of links due for archiving, checked again and handed over at least once (`LinkArchiver`)."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from core.errors import WeboidError
from links.archives.archive_urls import WEBOID, recognise
from links.check_history import day_of
from links.registry.archive_backlog import (
    UNLESS_ARCHIVED,
    ArchivePriority,
    BacklogRow,
    current_links,
    forget_links,
    postpone_links,
    want_links,
)
from links.registry.database import RegistryStore
from links.registry.pages import MAX_PAGE_ID, LinkRef, number_of
from links.registry.urls import urls_by_id
from links.registry.wikis import WikiName, wiki_of
from links.rules.link_class import WikiRules, classify_link
from links.rules.wiki_rules import RuleBook
from links.states import LinkState

BATCH = 500
_FIRST_PAUSE = timedelta(seconds=30)
_LONGEST_PAUSE = timedelta(hours=1)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LIVING = frozenset({LinkState.UNKNOWN, LinkState.ALIVE, LinkState.PERMALIVE, LinkState.BLOCKED, LinkState.DEVIATED})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueLink:
    """Link due for archiving."""

    url: str  # as written on the page; for a copy in an archive the identity key of its original
    wiki: WikiName  # of the page
    page_id: int  # the wiki's page id
    priority: ArchivePriority  # of the request
    archived_days: int = 30  # captures within this number of days are recent enough
    page_url: str = ""  # the page's address; empty when the wiki's URL pattern is unknown
    pages_url: str = ""  # the wiki's page URL pattern, with ``$1`` for the title; likewise


class LinkArchiver(Protocol):
    """Receiver of links to archive."""

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:
        """Return those of the URLs that have a good capture of that time or later (A02)."""
        ...

    async def take(self, urls: Sequence[DueLink]) -> None:
        """Queue the links durably; ignore queued and excluded ones. WeboidError: all are handed over again later."""
        ...


@dataclass(frozen=True)
class HandOverResult:
    """Counts of a hand-over."""

    taken: int = 0
    fresh: int = 0  # archived recently, so there is nothing to do
    gone: int = 0  # not on their pages any more
    copies: int = 0  # addresses not to be archived, or our own
    put_off: int = 0  # the archive could not take them


def archivable_url(url: str, rules: WikiRules, own: Collection[str] = ()) -> str:
    """Return the URL to archive for a link: itself, or the original of a copy; empty for our own pages."""
    recognised = recognise(url, own=own)
    if recognised is None or not recognised.is_known:
        return url
    if recognised.service == WEBOID:
        return ""
    if not recognised.original:
        return url
    link = classify_link(recognised.original, rules)
    return link.identity if link.is_watched else ""


@dataclass(frozen=True)
class HandOver:
    """Hand-over of one wiki's links to the archiver."""

    store: RegistryStore
    wiki_id: int
    name: WikiName
    archive: LinkArchiver
    rules: RuleBook

    async def hand_on(
        self, rows: Sequence[BacklogRow], *, now: datetime, days: int, own: Collection[str] = ()
    ) -> HandOverResult:
        """Hand over due links after their second check; postpone one with an internal error. TransientError."""
        try:
            return await self._hand_on(rows, now, days, own)
        except WeboidError:
            raise
        except Exception:
            if len(rows) <= 1:
                log.exception("%s: links cannot be queued", self.name)
                await asyncio.to_thread(self._put_off, rows, [], now)
                return HandOverResult(put_off=len(rows))
        parts = [await self.hand_on([row], now=now, days=days, own=own) for row in rows]
        return HandOverResult(*map(sum, zip(*map(astuple, parts), strict=True)))

    async def _hand_on(
        self, rows: Sequence[BacklogRow], now: datetime, days: int, own: Collection[str]
    ) -> HandOverResult:
        removed = [row for row in rows if not row.is_there or row.gone_day is not None]
        present = [row for row in rows if row.is_there and row.gone_day is None]
        wanted = await asyncio.to_thread(self._due_links, present, days, own)
        try:
            fresh = await self._fresh(wanted, now - timedelta(days=days))
            stale = [each for each in wanted if each.url not in fresh]
            if stale:
                await self.archive.take(stale)
        except WeboidError as error:
            log.warning("%s: the archive does not accept %s links: %s", self.name, len(present), error)
            await asyncio.to_thread(self._put_off, present, removed, now)
            return HandOverResult(gone=len(removed), put_off=len(present))
        await asyncio.to_thread(self._put_off, [], rows, now)
        return HandOverResult(len(stale), len(wanted) - len(stale), len(removed), len(present) - len(wanted))

    async def offer_again(self, page_ids: Sequence[int], now: datetime, own: Collection[str]) -> int:
        """Queue living links of swept pages without a good copy again; return their number. Raises WeboidError."""
        links = await asyncio.to_thread(self._living, page_ids, day_of(now), own)
        if not links:
            return 0
        archived_urls = set(await self.archive.archived(list(dict.fromkeys(links.values())), _EARLIEST))
        lacking = [link for link, url in links.items() if url not in archived_urls]

        def write() -> None:
            with self.store.writing() as connection:
                want_links(connection, lacking, priority=ArchivePriority.WITHOUT_COPY, now=now)

        if lacking:
            await asyncio.to_thread(write)
        return len(lacking)

    def _living(self, page_ids: Sequence[int], day: int, own: Collection[str]) -> dict[LinkRef, str]:
        """Return the pages' archivable links and the URL for each, except those queued today."""
        numbers = [number_of(self.wiki_id, page_id) for page_id in page_ids if 0 < page_id <= MAX_PAGE_ID]
        with self.store.snapshot() as reader:
            links = current_links(reader, numbers, before=day)
            urls = urls_by_id(reader, [link.url_id for link in links])
        with self.store.reading() as connection:
            rules = self.rules.rules_of(connection, self.wiki_id)
        url_by_link = {
            link: archivable_url(urls[link.url_id].url, rules, own)
            for link in links
            if link.url_id in urls and urls[link.url_id].state in _LIVING
        }
        return {link: url for link, url in url_by_link.items() if url}

    async def _fresh(self, wanted: Sequence[DueLink], since: datetime) -> set[str]:
        fresh_urls: set[str] = set()
        for unless_archived, moment in ((False, since), (True, _EARLIEST)):
            urls = dict.fromkeys(
                each.url
                for each in wanted
                if (each.priority in UNLESS_ARCHIVED) is unless_archived and (unless_archived or each.archived_days)
            )
            if urls:
                fresh_urls |= set(await self.archive.archived(list(urls), moment))
        return fresh_urls

    def _due_links(self, rows: Sequence[BacklogRow], days: int, own: Collection[str]) -> list[DueLink]:
        with self.store.snapshot() as reader:
            urls = urls_by_id(reader, [row.url_id for row in rows])
        with self.store.reading() as connection:
            rules = self.rules.rules_of(connection, self.wiki_id)
            wiki = wiki_of(connection, self.wiki_id)
        due_links = []
        for row in rows:
            known = urls.get(row.url_id)
            if known is not None and (url := archivable_url(known.url, rules, own)):
                spelled = row.spelling if url == known.url else ""
                page_url = wiki.page_address(row.title)
                due_links.append(
                    DueLink(spelled or url, self.name, row.page_id, row.priority, days, page_url, wiki.pages_url)
                )
        return due_links

    def _put_off(self, postponed: Sequence[BacklogRow], finished: Sequence[BacklogRow], now: datetime) -> None:
        """Remove the links that are done or gone, and postpone the others."""
        with self.store.writing() as connection:
            forget_links(connection, [LinkRef(row.page, row.url_id) for row in finished])
            for row in postponed:
                pause = min(_FIRST_PAUSE * 2 ** min(row.attempts, 10), _LONGEST_PAUSE)
                postpone_links(connection, [row], until=now + pause)
