"""Registry service: opens the registry, answers queries and records page requests.

A request for a page is recorded once per day. A ping also marks the page, so that the feeder reads
its links again; so does a query that names another revision than the one read (W08). A page that is
not observed is passed to the feeder of its wiki, which applies the wiki's criteria; queries create
neither pages nor URLs (W10, W12).

All methods block; Starlette runs them in threads. TransientError means that the registry is
unavailable.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from core.clock import Clock
from core.errors import TransientError, UnavailableError
from core.layout import Layout
from links.check_history import day_of
from links.feedback import page_requests
from links.feedback.replacements import ArchiveCopySink
from links.feedback.reporter_limits import Limits, limits_of
from links.registry.database import RegistryStore, open_registry_store
from links.registry.link_additions import revisions_of
from links.registry.pages import WikiPageRow, ask_for, find_pages, find_titled, mark_stale
from links.registry.statements import Reader
from links.registry.wikis import WikiName
from playback.web.copy_lookup import OwnCopies
from playback.web.rate_limits import RateLimitPolicy
from playback.web.registry.answer_formats import scoped
from playback.web.registry.registry_lists import (
    FoundLinks,
    PatternFound,
    PatternQuestion,
    WikiQuestion,
    exclusions_for,
    find_by_pattern,
    find_links,
    read_list,
)
from playback.web.registry.registry_reader import RegistryReader, UnknownWikiError, capitalize_title
from playback.web.registry.registry_values import (
    LinkRecord,
    PageAnswer,
    PageQuestion,
    RegistryAnswer,
    UrlUses,
    WikiListKind,
    WikiListPart,
)

RETRY_S = 5.0


class RegistrySource(Protocol):
    """Interface that opens the registry. TransientError means that it does not answer."""

    def is_there(self) -> bool:
        """Return True when a registry exists, available or not; does not block."""
        ...

    def store(self) -> RegistryStore | None:
        """Return the registry; None when the collection has none."""
        ...


class LazyRegistrySource:
    """Registry of a collection, or the one next to an index, opened on demand. Thread-safe; `close` it.

    A collection has a registry if its file exists; one created later is found, and none is created
    here. On a database server it always exists. After a failure, opening is not attempted for
    `RETRY_S`, so that requests do not block.
    """

    def __init__(
        self, layout: Layout, url: str = "", *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._layout = layout
        self._url = url
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._opened: RegistryStore | None = None
        self._failed: tuple[float, str] | None = None

    def is_there(self) -> bool:
        """Return True when there is a registry."""
        return bool(self._url) or self._layout.links_db.is_file()

    def store(self) -> RegistryStore | None:
        """Return the registry, opened if necessary."""
        if not self.is_there():
            return None
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        """Close the registry."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _open(self) -> RegistryStore:
        now = self._monotonic()
        if self._failed is not None and now - self._failed[0] < RETRY_S:
            raise TransientError(self._failed[1])
        try:
            return open_registry_store(self._layout, self._url)
        except (TransientError, UnavailableError) as error:
            self._failed = (now, str(error))
            raise TransientError(str(error)) from error


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Settings of reader reports."""

    layout: Layout  # the collection, which stores the key of digests
    limits: Limits = field(default_factory=limits_of)  # rate limits of reports
    archives: ArchiveCopySink | None = None  # receives addresses of archives; None: none


def note_request(store: RegistryStore, question: PageQuestion, day: int) -> None:
    """Record that pages of a disclosed wiki were requested today.

    The registry is written only for new information, so that repeated requests do not block
    writers.
    """
    with store.reading() as connection:
        wiki = RegistryReader(connection, day, is_internal=True).wiki(question.wiki)
        if wiki is None:
            return
        known = find_pages(connection, wiki.id, question.page_ids)
        titled = {title: [title, capitalize_title(title)] for title in question.titles}
        rows = find_titled(connection, wiki.id, [each for two in titled.values() for each in two])
        there = {row.title for row in rows}
        news = {
            row.page_id
            for row in (*known.values(), *rows)
            if row.asked_day is None
            or row.asked_day < day
            or (question.is_ping and not row.is_stale)
        }
        late = _outdated(connection, question, [*known.values(), *rows])
        news |= late
        ids = [each for each in question.page_ids if each not in known]
        titles = [title for title, two in titled.items() if there.isdisjoint(two)]
        is_noted = page_requests.are_requested(connection, wiki.id, ids, titles, day=day)
    if not news and is_noted:
        return
    with store.writing() as connection:
        ask_for(connection, wiki.id, news, day=day)
        if question.is_ping:
            late |= news
        if late:
            mark_stale(connection, wiki.id, late)
        if not is_noted:
            page_requests.put_page_requests(connection, wiki.id, ids, titles, day=day)


def _outdated(reader: Reader, question: PageQuestion, rows: Sequence[WikiPageRow]) -> set[int]:
    """Return the number of the page if its links were read from another revision."""
    if not question.revision:
        return set()
    read = revisions_of(reader, [row.id for row in rows if not row.is_stale])
    return {
        row.page_id for row in rows if not row.is_stale and read.get(row.id) != question.revision
    }


_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class LinkRegistry:
    """Components of a front with a registry."""

    source: RegistrySource  # opens the registry; closed by the caller
    access: RateLimitPolicy
    voice: ReportOptions | None = None  # settings of reader reports; None: disabled
    # the collection, whose key signs the form's stamps; None: each process has a key
    layout: Layout | None = None


class NoRegistryError(Exception):
    """Collection without a registry."""


class RegistryService:
    """Queries on the registry. Thread-safe.

    Raises NoRegistryError without a registry, UnknownWikiError for a wiki that it does not know.
    """

    def __init__(self, source: RegistrySource, own: OwnCopies, clock: Clock) -> None:
        self._source = source
        self._own = own
        self._clock = clock
        self._writing = threading.Lock()

    @property
    def day(self) -> int:
        """Return today's day number."""
        return day_of(self._clock.now())

    def answer(self, question: PageQuestion, *, is_internal: bool = False) -> RegistryAnswer:
        """Return the records of the pages, with the links selected by the scope."""
        with self._store().snapshot() as reader:
            found = RegistryReader(reader, self.day, is_internal=is_internal).pages(question)
        told = [scoped(each, question.scope) for each in found]
        return RegistryAnswer(
            question.wiki, question.scope, self.day, tuple(self._with_copies(told))
        )

    def link(self, identity: str, *, is_internal: bool = False) -> tuple[int, LinkRecord] | None:
        """Return a URL's row number and record; None when it is on no watched page."""
        with self._store().snapshot() as reader:
            found = RegistryReader(reader, self.day, is_internal=is_internal).link(identity)
        if found is None:
            return None
        captures = self._own.newest([identity])
        return found[0], replace(found[1], capture=captures.get(identity, ""))

    def spam(
        self, identity: str, wiki: WikiName, *, is_internal: bool = False
    ) -> tuple[LinkRecord, UrlUses] | None:
        """Return a URL on a spam list of the wiki, with its pages; None when it is on none."""
        with self._store().snapshot() as reader:
            return RegistryReader(reader, self.day, is_internal=is_internal).spam(identity, wiki)

    def uses(
        self, url_id: int, wiki: WikiName, *, farm_wide: bool, is_internal: bool = False
    ) -> UrlUses | None:
        """Return pages of the wiki, or of its farm, that contain the URL."""
        with self._store().snapshot() as reader:
            reading = RegistryReader(reader, self.day, is_internal=is_internal)
            return reading.uses(url_id, wiki, farm_wide=farm_wide)

    def listed(
        self,
        wiki: WikiName,
        kind: WikiListKind,
        after: int,
        *,
        domain: str = "",
        is_internal: bool = False,
    ) -> WikiListPart | None:
        """Return a part of a wiki's list."""
        with self._store().reading() as connection:
            reading = RegistryReader(connection, self.day, is_internal=is_internal)
            return read_list(connection, reading, wiki, kind, after=after, domain=domain)

    def links(self, question: WikiQuestion, *, is_internal: bool = False) -> FoundLinks:
        """Return a part of a wiki's links by their state."""
        with self._store().snapshot() as reader:
            found = find_links(RegistryReader(reader, self.day, is_internal=is_internal), question)
        captures = self._own.newest([each.link.url for each in found.links])
        links = tuple(
            replace(each, link=replace(each.link, capture=captures.get(each.link.url, "")))
            for each in found.links
        )
        return replace(found, links=links)

    def search(self, question: PatternQuestion, *, is_internal: bool = False) -> PatternFound:
        """Return a part of the links that match a pattern."""
        with self._store().reading() as connection:
            reading = RegistryReader(connection, self.day, is_internal=is_internal)
            found = find_by_pattern(connection, reading, question)
        captures = self._own.newest([use.link.url for use in found.uses])
        uses = [
            replace(use, link=replace(use.link, capture=captures.get(use.link.url, "")))
            for use in found.uses
        ]
        return replace(found, uses=tuple(uses))

    def kept_out(self, question: PatternQuestion, *, is_internal: bool = False) -> list[str] | None:
        """Return exclusion list entries that remove links from the result (X06, X10).

        None for an unknown wiki.
        """
        with self._store().reading() as connection:
            return exclusions_for(
                RegistryReader(connection, self.day, is_internal=is_internal), question
            )

    def ping(self, question: PageQuestion, *, is_internal: bool = False) -> None:
        """Record a request for the pages, and mark them to be read again (W22)."""
        store = self._store()
        with store.snapshot() as reader:
            if (
                RegistryReader(reader, self.day, is_internal=is_internal).wiki(question.wiki)
                is None
            ):
                raise UnknownWikiError
        if not self._writing.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            note_request(store, question, self.day)
        finally:
            self._writing.release()

    def note(self, question: PageQuestion) -> None:
        """Record a request for the pages, if the registry can be written without delay (W34).

        One request at a time may wait for a writer; others are dropped, and recorded when the page
        is requested again.
        """
        if not self._writing.acquire(blocking=False):
            return
        try:
            note_request(self._store(), question, self.day)
        except (TransientError, NoRegistryError) as error:
            _LOG.warning("front.registry_not_noted: %s", error)
        finally:
            self._writing.release()

    def has_registry(self) -> bool:
        """Return True when there is a registry, available or not."""
        return self._source.is_there()

    def store(self) -> RegistryStore:
        """Return the registry."""
        return self._store()

    def _store(self) -> RegistryStore:
        store = self._source.store()
        if store is None:
            raise NoRegistryError
        return store

    def _with_copies(self, pages: Sequence[PageAnswer]) -> list[PageAnswer]:
        captures = self._own.newest([link.url for page in pages for link in page.links])
        if not captures:
            return list(pages)
        return [
            replace(
                page,
                links=tuple(
                    replace(link, capture=captures.get(link.url, "")) for link in page.links
                ),
            )
            for page in pages
        ]
