"""Import of pages into the registry: reading, links, citations, citation dates.

A batch is written in one transaction with its cursor, and repeated writes change nothing. For links older than
the first import the day is read from the page's history, on demand, since it takes a few requests per link.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import add, or_

from sqlalchemy import Connection

from core.errors import BodyTooLargeError
from links.check_history import day_of, day_of_date
from links.registry.archive_backlog import ArchivePriority, current_links, hold_back_pages, release_pages, want_links
from links.registry.citations import (
    CitationFlag,
    CitationRow,
    PageRevision,
    citations_of,
    days_cited,
    note_additions,
    put_citations,
)
from links.registry.database import RegistryStore
from links.registry.link_import import sorted_links
from links.registry.pages import (
    MAX_PAGE_ID,
    LinkRef,
    PageName,
    PutPage,
    WrittenLinks,
    drop_pages,
    find_pages,
    mark_stale,
    move_page,
    number_of,
    plain_title,
    put_pages,
)
from links.registry.urls import UrlRow, urls_by_id
from links.registry.wikis import InterwikiMap, hold_feed_lease, put_cursors
from links.rules.link_class import MISSING_TARGET, ClassifiedLink, LinkClass, WikiRules, classify_link
from links.rules.wiki_rules import RuleBook
from wiki.api.client import WikiApi
from wiki.api.models import WikiPage, split_batches
from wiki.api.page_query import first_revision_with
from wiki.sync.page_criteria import ExclusionReason, PageCriteria
from wiki.sync.wiki_source import WikiSource
from wiki.wikitext.citation_model import Citation

LINKS_LIMIT = 50_000  # of one page; MediaWiki's own limits make that a page of some megabytes
FIRST_ACCESS = 1996  # no archive has older copies

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PageBatch:
    """Pages as read from the wiki."""

    pages: tuple[WikiPage, ...] = ()  # existing pages
    missing: frozenset[int] = frozenset()  # ids of missing pages
    citations: Mapping[int, Sequence[Citation]] = field(default_factory=dict)  # by page id
    requested: frozenset[int] = frozenset()  # all requested ids
    missing_targets: frozenset[str] = frozenset()  # links to missing pages of the farm (W50)


@dataclass(frozen=True)
class ImportOptions:
    """Options for importing links."""

    criteria: PageCriteria  # of observed pages
    interwikis: InterwikiMap  # targets of interwiki prefixes (W49)
    priority: ArchivePriority | None = None  # of archiving; None: links are watched, not archived
    grace: timedelta = timedelta(0)  # minimum age of a link before archiving
    is_first: bool = False  # queue all links for archiving, including those already in the registry


@dataclass(frozen=True)
class PageImportCounts:
    """Counts of an import."""

    pages: int = 0  # observed pages written
    links: int = 0  # on them
    added: int = 0  # new or returned links
    gone: int = 0  # removed links
    dropped: int = 0  # removed pages
    refused: int = 0  # pages read that are not observed

    def plus(self, other: "PageImportCounts") -> "PageImportCounts":
        """Return the sum of both."""
        return PageImportCounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class PageImporter:
    """Writer of one wiki's pages; used from one thread at a time."""

    store: RegistryStore
    wiki_id: int
    holder: str  # of the wiki's lease
    rules: RuleBook

    def write(
        self, read: PageBatch, order: ImportOptions, *, now: datetime, cursors: Mapping[str, str]
    ) -> PageImportCounts:
        """Write pages and cursors in one transaction. FeedHeldError: another process has taken over; TransientError."""
        day = day_of(now)
        with self.store.writing() as connection:
            hold_feed_lease(connection, self.wiki_id, self.holder)
            dropped = drop_pages(connection, self.wiki_id, read.missing, day=day)
            known = find_pages(connection, self.wiki_id, [page.page_id for page in read.pages])
            observed, released = _split_observed(read.pages, order.criteria, known)
            rules = self.rules.rules_of(connection, self.wiki_id)
            put = [_put_page(page, order.interwikis, rules, read.missing_targets) for page in observed]
            written = put_pages(connection, self.wiki_id, put, day=day)
            pages = {number_of(self.wiki_id, page.page_id): page for page in observed}
            numbers = list(pages)
            revisions = []
            for number, page in pages.items():
                touched = day_of(page.touched) if page.touched is not None else day
                revisions.append(PageRevision(number, page.rev_id, page.parent_id, page.account, touched))
            note_additions(connection, revisions, written.new, day=day)
            if order.priority is not None:
                # Removed links stay queued until due: they may return by then, with the grace period running.
                release_pages(connection, numbers, now=now, grace=order.grace)
                links = current_links(connection, numbers) if order.is_first else written.added
                want_links(connection, links, priority=order.priority, now=now, grace=order.grace)
            rows = list(_citation_rows(pages, read.citations, written, rules))
            # Wikitext may contain URLs that render as text: only links that the page has are cited.
            has = set(current_links(connection, numbers)) if rows else set()
            put_citations(connection, numbers, [row for row in rows if row.link in has], day=day)
            self._release(connection, released, now)
            mark_stale(connection, self.wiki_id, read.requested - {page.page_id for page in observed}, is_stale=False)
            put_cursors(connection, self.wiki_id, cursors, now=now)
        added, removed = len(written.added), len(written.gone)
        return PageImportCounts(written.pages, written.urls, added, removed, dropped, len(released))

    def note(self, cursors: Mapping[str, str], *, now: datetime, stale: Collection[int] = ()) -> None:
        """Write feed cursors, and the pages that must be read because of them; raises as `write`."""
        with self.store.writing() as connection:
            hold_feed_lease(connection, self.wiki_id, self.holder)
            mark_stale(connection, self.wiki_id, stale)
            put_cursors(connection, self.wiki_id, cursors, now=now)

    def _release(self, connection: Connection, released: Sequence[WikiPage], now: datetime) -> None:
        """Release pages that left the criteria: rows stay for months (W37), links are watched, not archived."""
        known = find_pages(connection, self.wiki_id, [page.page_id for page in released])
        if not known:
            return
        for page in released:
            if page.page_id in known and plain_title(page.title):
                move_page(connection, self.wiki_id, PageName(page.page_id, page.title, page.namespace))
        mark_stale(connection, self.wiki_id, known, is_stale=False)
        hold_back_pages(connection, [row.id for row in known.values()], now=now)


def _split_observed(
    pages: Iterable[WikiPage], criteria: PageCriteria, known: Collection[int]
) -> tuple[list[WikiPage], list[WikiPage]]:
    """Split pages into observed ones (also known pages that became redirects) and others; drop malformed ones."""
    observed: dict[int, WikiPage] = {}
    released = []
    for page in pages:
        is_page = 0 < page.page_id <= MAX_PAGE_ID and abs(page.namespace) < 1 << 31
        if not is_page or not plain_title(page.title):
            log.warning("page %r, number %s, is skipped", page.title[:80], page.page_id)
            continue
        is_known = page.page_id in known
        reason = criteria.refusal(page, is_known=is_known)
        if reason is not None and not (is_known and reason is ExclusionReason.REDIRECT):
            released.append(page)
        elif page.rev_id >= observed.get(page.page_id, page).rev_id:
            observed[page.page_id] = page
    return list(observed.values()), released


def page_urls(page: WikiPage, interwikis: InterwikiMap) -> list[str]:
    """Return the page's external and interwiki links as unique URLs (W49), up to a limit."""
    urls = list(dict.fromkeys([*page.links, *interwikis.urls(page.interwiki_links)]))
    if len(urls) > LINKS_LIMIT:
        log.warning("page %s: of %s links %s are kept", page.page_id, len(urls), LINKS_LIMIT)
    return urls[:LINKS_LIMIT]


def _put_page(page: WikiPage, interwikis: InterwikiMap, rules: WikiRules, missing: Collection[str]) -> PutPage:
    name = PageName(page.page_id, page.title, page.namespace)
    links = sorted_links(page_urls(page, interwikis), rules)
    own = [link.text for link in links if link.sort is LinkClass.INTERNAL]
    lost = [
        ClassifiedLink(url, LinkClass.MISSING, note=MISSING_TARGET)
        for url in dict.fromkeys([*own, *interwikis.urls(page.interwiki_links, is_local=True)])
        if url in missing
    ]
    return PutPage(name, (*links, *lost))


def _citation_rows(
    pages: Mapping[int, WikiPage], citations: Mapping[int, Sequence[Citation]], written: WrittenLinks, rules: WikiRules
) -> Iterator[CitationRow]:
    for number, page in pages.items():
        for citation in citations.get(page.page_id, ()):
            link, access, archived = classify_link(citation.url, rules), citation.access_date, citation.archive_date
            url_id = written.ids.get(link.identity) if link.is_watched else None
            if url_id is not None:
                accessed = day_of_date(access) if access is not None and access.year >= FIRST_ACCESS else None
                stamp = f"{archived:%Y%m%d}" if archived else ""
                fields = (str(citation.way), accessed, citation.archive_url, stamp, _citation_fields(citation))
                yield CitationRow(LinkRef(number, url_id), *fields)


def _citation_fields(citation: Citation) -> CitationFlag:
    flags = {
        CitationFlag.DEAD: citation.is_said_dead,
        CitationFlag.PAYWALL: citation.is_paywalled,
        CitationFlag.MALFORMED: citation.is_malformed,
        CitationFlag.REFERENCE: citation.reference is not None,
        CitationFlag.HELD: citation.is_held,
        CitationFlag.LIVE: citation.status == "live",
    }
    return reduce(or_, (flag for flag, is_set in flags.items() if is_set), CitationFlag(0))


Cite = Callable[[str], Sequence[Citation]]


def no_citations(_text: str) -> Sequence[Citation]:
    """Return no citations, for imports of links only."""
    return ()


async def read_page_batch(
    source: WikiSource, cite: Cite, criteria: PageCriteria, *, ids: Collection[int] = (), titles: Collection[str] = ()
) -> PageBatch:
    """Read at most `PAGES_AT_ONCE` pages; one that is oversized is skipped until the next sweep. Raises WeboidError."""
    try:
        pages = await source.pages(ids, titles, is_classed=criteria.is_classed, items_at=criteria.items_at)
    except BodyTooLargeError:
        count = len(ids) + len(titles)
        if count <= 1:
            log.warning("page %s is too large to be read", next(iter([*ids, *titles]), "?"))
            return PageBatch(requested=frozenset(ids))
        half = (count + 1) // 2
        parts = [await read_page_batch(source, cite, criteria, ids=some) for some in split_batches(ids, half)] + [
            await read_page_batch(source, cite, criteria, titles=some) for some in split_batches(titles, half)
        ]
        existing = tuple(page for each in parts for page in each.pages)
        missing = frozenset().union(*(each.missing for each in parts))
        return PageBatch(
            existing,
            missing - {page.page_id for page in existing},
            dict(ChainMap(*(dict(each.citations) for each in parts))),
            frozenset(ids),
        )
    existing = tuple(page for page in pages if not page.is_missing and page.page_id)
    missing_ids = frozenset(page.page_id for page in pages if page.is_missing and page.page_id)
    return PageBatch(existing, missing_ids, await asyncio.to_thread(_cite_pages, existing, cite), frozenset(ids))


def _cite_pages(pages: Sequence[WikiPage], cite: Cite) -> dict[int, Sequence[Citation]]:
    citations_by_page = {}
    for page in pages:
        if page.text is not None and page.model == "wikitext":
            try:
                citations_by_page[page.page_id] = cite(page.text)
            except RecursionError:
                log.warning("the citations of page %s cannot be read", page.page_id)
            except Exception:
                log.exception("the citations of page %s cannot be read", page.page_id)
    return citations_by_page


async def find_cited_day(api: WikiApi, store: RegistryStore, link: LinkRef, page_id: int) -> int | None:
    """Return the day of access, of the adding revision, or first seen; None: never. Raises WeboidError."""

    def registered() -> tuple[int | None, CitationRow | None, UrlRow | None]:
        with store.reading() as reader:
            day = days_cited(reader, link.page).get(link.url_id)
            row = citations_of(reader, [link.page]).get(link)
            return day, row, urls_by_id(reader, [link.url_id]).get(link.url_id)

    cited_day, row, url = await asyncio.to_thread(registered)
    if cited_day is None or url is None:
        return None
    if row is not None and row.access_day is not None:
        return cited_day
    revision = await first_revision_with(api, page_id, url.url)  # None: it comes from a template
    return cited_day if revision is None else min(day_of(revision.moment), cited_day)
