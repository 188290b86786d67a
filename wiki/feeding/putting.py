"""Pages that were read, into the registry: links, citations, what is wanted, and the cursor, in one go.

One transaction takes all of a batch, or nothing. So a process that is killed at any moment loses
nothing: the next one asks from the cursor on, and finds what is written already as it is.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from links.books.additions import PageRevision, note_additions
from links.books.citing import CitingRow, Said, put_citations
from links.books.feeds import hold_lease, put_cursor
from links.books.importing import sorted_links
from links.books.pages import (
    MAX_PAGE_ID,
    PageName,
    PutPage,
    Ref,
    Written,
    clear_stale,
    drop_pages,
    find_pages,
    mark_stale,
    move_page,
    number_of,
    plain_title,
    write_pages,
)
from links.books.wanted import Priority, current_links, hold_back, let_go, want
from links.days import day_of, day_of_date
from links.interwiki import InterwikiMap
from links.rulebook import RuleBook
from links.sorting import MISSING_TARGET, Sort, Sorted, WikiRules, sort_link
from links.store.store import Store
from wiki.api.facts import WikiPage
from wiki.feeding.criteria import Criteria, Refusal
from wiki.wikitext.citations import Citation

LINKS_LIMIT = 50_000  # of one page; MediaWiki's own limits make that a page of some megabytes
FIRST_ACCESS = 1996  # no archive has older copies

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Read:
    """What the wiki told of pages.

    Attributes:
        pages: those that are there.
        missing: numbers of those that are not.
        citations: of the pages, by their numbers; of pages without there are none to be known.
        asked: all numbers that were asked for.
        missing_targets: links to pages of the farm that are not there (W50).
    """

    pages: tuple[WikiPage, ...] = ()
    missing: frozenset[int] = frozenset()
    citations: Mapping[int, Sequence[Citation]] = field(default_factory=dict)
    asked: frozenset[int] = frozenset()
    missing_targets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Order:
    """What becomes of the links that are found.

    Attributes:
        criteria: which pages are observed.
        interwikis: where interwiki links lead (W49).
        priority: who waits for the links; None: they are watched, not archived.
        grace: how long they must stand there before they are archived.
        is_first: all links are new to the archive, those that the registry had already among them.
    """

    criteria: Criteria
    interwikis: InterwikiMap
    priority: Priority | None = None
    grace: timedelta = timedelta(0)
    is_first: bool = False


@dataclass(frozen=True)
class Outcome:
    """What was written.

    Attributes:
        pages: that are observed and were put.
        links: that they have.
        added: links that are new or back.
        gone: links that are no more.
        dropped: pages that are no more.
        refused: pages that are there and not observed, by the reason.
    """

    pages: int = 0
    links: int = 0
    added: int = 0
    gone: int = 0
    dropped: int = 0
    refused: Mapping[Refusal, int] = field(default_factory=dict)

    def plus(self, other: "Outcome") -> "Outcome":
        """Both together."""
        kinds = self.refused.keys() | other.refused.keys()
        return Outcome(
            self.pages + other.pages,
            self.links + other.links,
            self.added + other.added,
            self.gone + other.gone,
            self.dropped + other.dropped,
            {kind: self.refused.get(kind, 0) + other.refused.get(kind, 0) for kind in kinds},
        )


class Books:
    """Writes what one wiki's feeder reads. From one thread at a time.

    Attributes:
        wiki_id: whose.
        store: the registry.
    """

    def __init__(self, store: Store, wiki_id: int, *, holder: str, rules: RuleBook) -> None:
        """Take the registry, the wiki, and the holder of its lease (`links.books.feeds`)."""
        self.store = store
        self.wiki_id = wiki_id
        self._holder = holder
        self._rules = rules

    def write(
        self,
        read: Read,
        order: Order,
        *,
        now: datetime,
        cursors: Mapping[str, str],
    ) -> Outcome:
        """Write all that was read, and how far the feeds have come with it.

        Args:
            read: the pages.
            order: what becomes of them.
            now: the moment.
            cursors: of the feeds that came further, by their kinds.

        Raises:
            FeedHeldError: another process feeds the wiki by now; nothing was written.
            TransientError: the database does not answer; nothing was written.
        """
        with self.store.writing() as connection:
            hold_lease(connection, self.wiki_id, self._holder)
            outcome = self._write(connection, read, order, now)
            for kind, cursor in cursors.items():
                put_cursor(connection, self.wiki_id, kind, cursor, now=now)
        return outcome

    def note(
        self, cursors: Mapping[str, str], *, now: datetime, stale: Collection[int] = ()
    ) -> None:
        """Write how far feeds have come, and which pages are to be read because of it.

        Raises:
            as `write`.
        """
        with self.store.writing() as connection:
            hold_lease(connection, self.wiki_id, self._holder)
            mark_stale(connection, self.wiki_id, stale)
            for kind, cursor in cursors.items():
                put_cursor(connection, self.wiki_id, kind, cursor, now=now)

    def _write(self, connection: Connection, read: Read, order: Order, now: datetime) -> Outcome:
        day = day_of(now)
        dropped = drop_pages(connection, self.wiki_id, read.missing, day=day)
        known = find_pages(connection, self.wiki_id, [page.page_id for page in read.pages])
        observed, refused = _parted(read.pages, order.criteria, known)
        rules = self._rules.rules_of(connection, self.wiki_id)
        put = [_put_page(page, order.interwikis, rules, read.missing_targets) for page in observed]
        written = write_pages(connection, self.wiki_id, put, day=day)
        note_additions(connection, self._revisions(observed, day), written.new, day=day)
        self._want(connection, observed, written, order, now)
        self._cite(connection, observed, read, written, rules, day)
        self._release(connection, [page for page, _ in refused], now)
        put_ids = {page.page_id for page in observed}
        clear_stale(connection, self.wiki_id, read.asked - put_ids)
        reasons = [reason for _, reason in refused]
        return Outcome(
            pages=written.put.pages,
            links=written.put.urls,
            added=written.put.added,
            gone=written.put.gone,
            dropped=dropped,
            refused={reason: reasons.count(reason) for reason in set(reasons)},
        )

    def _revisions(self, observed: Sequence[WikiPage], day: int) -> list[PageRevision]:
        return [
            PageRevision(
                number_of(self.wiki_id, page.page_id),
                page.rev_id,
                page.parent_id,
                page.account,
                day_of(page.touched) if page.touched is not None else day,
            )
            for page in observed
        ]

    def _want(
        self,
        connection: Connection,
        observed: Sequence[WikiPage],
        written: Written,
        order: Order,
        now: datetime,
    ) -> None:
        # What is gone stays wanted until it is due: it may be back by then, with its grace begun.
        if order.priority is None:
            return
        links: Iterable[Ref] = written.added
        numbers = [number_of(self.wiki_id, page.page_id) for page in observed]
        let_go(connection, numbers, now=now, grace=order.grace)
        if order.is_first:
            links = current_links(connection, numbers)
        want(connection, links, priority=order.priority, now=now, grace=order.grace)

    def _cite(
        self,
        connection: Connection,
        observed: Sequence[WikiPage],
        read: Read,
        written: Written,
        rules: WikiRules,
        day: int,
    ) -> None:
        rows = [
            row
            for page in observed
            for citation in read.citations.get(page.page_id, ())
            if (row := self._citing_row(page, citation, written, rules)) is not None
        ]
        numbers = [number_of(self.wiki_id, page.page_id) for page in observed]
        put_citations(connection, numbers, _of_links(connection, rows, numbers), day=day)

    def _citing_row(
        self, page: WikiPage, citation: Citation, written: Written, rules: WikiRules
    ) -> CitingRow | None:
        found = sort_link(citation.url, rules)
        url_id = written.ids.get(found.identity) if found.is_watched else None
        if url_id is None:
            return None
        access = citation.access_date
        return CitingRow(
            Ref(number_of(self.wiki_id, page.page_id), url_id),
            str(citation.way),
            None if access is None or access.year < FIRST_ACCESS else day_of_date(access),
            citation.archive_url,
            f"{citation.archive_date:%Y%m%d}" if citation.archive_date else "",
            _said(citation),
        )

    def _release(self, connection: Connection, released: Sequence[WikiPage], now: datetime) -> None:
        """Let go of pages that do not meet the criteria: they keep their rows for months (W37).

        Their links stay known, and watched, so that a short absence costs nothing; what waits to be
        archived is held back until the page is observed again.
        """
        known = find_pages(connection, self.wiki_id, [page.page_id for page in released])
        if not known:
            return
        for page in released:
            if page.page_id in known and plain_title(page.title):
                name = PageName(page.page_id, page.title, page.namespace)
                move_page(connection, self.wiki_id, name)
        clear_stale(connection, self.wiki_id, known)
        hold_back(connection, [row.id for row in known.values()], now=now)


def _parted(
    pages: Iterable[WikiPage], criteria: Criteria, known: Collection[int]
) -> tuple[list[WikiPage], list[tuple[WikiPage, Refusal]]]:
    """The pages that are observed, and the others with the reason; odd ones are in neither.

    Args:
        pages: as the wiki has them.
        criteria: which are observed.
        known: those that the registry has. One that has become a redirect is put: its links are gone.
    """
    observed: dict[int, WikiPage] = {}
    refused = []
    for page in pages:
        is_page = 0 < page.page_id <= MAX_PAGE_ID and abs(page.namespace) < 1 << 31
        if not is_page or not plain_title(page.title):
            log.warning("page %r, number %s, is passed over", page.title[:80], page.page_id)
            continue
        reason = criteria.refusal(page, is_known=page.page_id in known)
        if reason is Refusal.REDIRECT and page.page_id in known:
            reason = None
        if reason is not None:
            refused.append((page, reason))
            continue
        there = observed.get(page.page_id)
        if there is None or page.rev_id >= there.rev_id:
            observed[page.page_id] = page
    return list(observed.values()), refused


def links_of(page: WikiPage, interwikis: InterwikiMap) -> list[str]:
    """The page's external links and interwiki links as URLs (W49), each once, not too many."""
    urls = list(dict.fromkeys([*page.links, *interwikis.urls(page.interwiki_links)]))
    if len(urls) > LINKS_LIMIT:
        log.warning("page %s: of %s links %s are kept", page.page_id, len(urls), LINKS_LIMIT)
    return urls[:LINKS_LIMIT]


def _put_page(
    page: WikiPage, interwikis: InterwikiMap, rules: WikiRules, missing: Collection[str]
) -> PutPage:
    name = PageName(page.page_id, page.title, page.namespace)
    links = sorted_links(links_of(page, interwikis), rules)
    own = [link.text for link in links if link.sort is Sort.INTERNAL]
    lost = [
        Sorted(url, Sort.MISSING, note=MISSING_TARGET)
        for url in dict.fromkeys([*own, *interwikis.local_urls(page.interwiki_links)])
        if url in missing
    ]
    return PutPage(name, (*links, *lost))


def _of_links(
    connection: Connection, rows: Sequence[CitingRow], numbers: Sequence[int]
) -> list[CitingRow]:
    """Those of the rows whose pages have the link: wikitext may hold URLs that are none there."""
    has = set(current_links(connection, numbers)) if rows else set()
    return [row for row in rows if row.link in has]


def _said(citation: Citation) -> Said:
    bits = (
        (citation.is_said_dead, Said.DEAD),
        (citation.is_paywalled, Said.PAYWALL),
        (citation.is_malformed, Said.MALFORMED),
        (citation.reference is not None, Said.REFERENCE),
        (citation.is_held, Said.HELD),
        (citation.status == "live", Said.LIVE),
    )
    said = Said(0)
    for is_so, bit in bits:
        said |= bit if is_so else Said(0)
    return said
