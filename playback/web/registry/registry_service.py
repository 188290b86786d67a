"""Registry service: opens the registry, answers queries and records page requests, once a day.

A ping, or a query that names another revision than the one read (W08), also marks the page, so that its links are
read again. A page that is not observed is passed to its wiki's feeder; queries create neither pages nor URLs (W10,
W12). All methods block. TransientError means that the registry is unavailable.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection

from core.clock import Clock
from core.errors import TransientError, UnavailableError
from core.layout import Layout
from links.check_history import day_of
from links.feedback.replacements import ArchiveCopySink
from links.feedback.reporter_limits import Limits, limits_of
from links.feedback.reports import are_requested, put_page_requests
from links.registry.citations import revisions_of
from links.registry.database import RegistryStore, open_registry_store
from links.registry.pages import ask_for, find_pages, find_titled, mark_stale
from links.registry.wikis import WikiName
from playback.web.copy_lookup import CopyLookup
from playback.web.rate_limits import RateLimitPolicy
from playback.web.registry import registry_lists
from playback.web.registry.registry_reader import RegistryReader, UnknownWikiError, capitalize_title
from playback.web.registry.registry_values import (
    LinkRecord,
    LinkScope,
    PageQuestion,
    RegistryAnswer,
    UrlUses,
    WikiListKind,
    WikiListPart,
)

_Use = TypeVar("_Use", registry_lists.LinkOfPage, registry_lists.FoundUse)

RETRY_S = 5.0  # after a failure to open it, in which requests do not block
READ_LIMIT_S = 10.0  # of a query that a page asks; as `warc.index.postgres.ANSWER_LIMIT_S`
_PATIENCE_S = 5.0
_LOG = logging.getLogger(__name__)


class NoRegistryError(Exception):
    """Collection without a registry."""


class RegistrySource:
    """Registry of a collection, or the one next to an index, opened on demand. Thread-safe; `close` it."""

    def __init__(self, layout: Layout, url: str = "", *, read_limit_s: float = 0) -> None:
        """Store the place; a database server cancels queries after `read_limit_s`; 0: no limit."""
        self._layout = layout
        self._url = url
        self._read_limit_s = read_limit_s
        self._lock = threading.Lock()
        self._opened: RegistryStore | None = None
        self._failed: tuple[float, str] | None = None

    def is_there(self) -> bool:
        """Return True when there is a registry, available or not; does not block."""
        return bool(self._url) or self._layout.links_db.is_file()

    def store(self) -> RegistryStore:
        """Return the registry, opened if necessary; raises NoRegistryError or TransientError."""
        if not self.is_there():
            raise NoRegistryError
        with self._lock:
            if self._opened is not None:
                return self._opened
            now = time.monotonic()
            if self._failed is not None and now - self._failed[0] < RETRY_S:
                raise TransientError(self._failed[1])
            try:
                self._opened = open_registry_store(self._layout, self._url, read_limit_s=self._read_limit_s)
            except (TransientError, UnavailableError) as error:
                self._failed = (now, str(error))
                raise TransientError(str(error)) from error
            return self._opened

    def close(self) -> None:
        """Close the registry."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Settings of reader reports."""

    layout: Layout  # the collection, which stores the key of digests
    limits: Limits = field(default_factory=limits_of)  # rate limits of reports
    archives: ArchiveCopySink | None = None  # receives addresses of archives; None: none


class RegistryWriters:
    """Limit of the requests that wait to write to the registry, so that others are not blocked."""

    def __init__(self, most: int) -> None:
        self.places = threading.BoundedSemaphore(most)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Take a place; raise TransientError when none becomes free."""
        if not self.places.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            yield
        finally:
            self.places.release()


def note_request(store: RegistryStore, question: PageQuestion, day: int) -> None:
    """Record that pages of a disclosed wiki were requested today; write only what is new."""
    with store.reading() as connection:
        wiki = RegistryReader(connection, day, is_internal=True).wiki(question.wiki)
        if wiki is None:
            return
        known = find_pages(connection, wiki.id, question.page_ids)
        titled = {title: [title, capitalize_title(title)] for title in question.titles}
        rows = find_titled(connection, wiki.id, [each for two in titled.values() for each in two])
        stored_titles = {row.title for row in rows}
        news = {
            row.page_id
            for row in (*known.values(), *rows)
            if row.asked_day is None or row.asked_day < day or (question.is_ping and not row.is_stale)
        }
        late: set[int] = set()
        if question.revision:
            fresh = [row for row in (*known.values(), *rows) if not row.is_stale]
            read = revisions_of(connection, [row.id for row in fresh])
            late = {row.page_id for row in fresh if read.get(row.id) != question.revision}
        news |= late
        ids = [each for each in question.page_ids if each not in known]
        titles = [title for title, two in titled.items() if stored_titles.isdisjoint(two)]
        is_noted = are_requested(connection, wiki.id, ids, titles, day=day)
    if not news and is_noted:
        return
    with store.writing() as connection:
        ask_for(connection, wiki.id, news, day=day)
        if question.is_ping:
            late |= news
        if late:
            mark_stale(connection, wiki.id, late)
        if not is_noted:
            put_page_requests(connection, wiki.id, ids, titles, day=day)


@dataclass(frozen=True, slots=True)
class LinkRegistry:
    """Components of a front with a registry."""

    source: RegistrySource  # opens the registry; closed by the caller
    access: RateLimitPolicy
    report_options: ReportOptions | None = None  # settings of reader reports; None: disabled
    layout: Layout | None = None  # its key signs stamps; None: the process's own


class RegistryService:
    """Queries with the caller's permissions. Thread-safe; raises NoRegistryError, UnknownWikiError."""

    def __init__(self, source: RegistrySource, copies: CopyLookup, clock: Clock) -> None:
        self._source = source
        self._copies = copies
        self._clock = clock
        self._writers = RegistryWriters(1)

    @property
    def day(self) -> int:
        """Return today's day number."""
        return day_of(self._clock.now())

    @contextmanager
    def _snapshot(self, is_internal: bool) -> Iterator[RegistryReader]:  # noqa: FBT001
        with self._source.store().snapshot() as reader:
            yield RegistryReader(reader, self.day, is_internal=is_internal)

    @contextmanager
    def _reading(self, is_internal: bool) -> Iterator[tuple[Connection, RegistryReader]]:  # noqa: FBT001
        with self._source.store().reading() as connection:
            yield connection, RegistryReader(connection, self.day, is_internal=is_internal)

    def answer(self, question: PageQuestion, *, is_internal: bool = False) -> RegistryAnswer:
        """Return the records of the pages, with the links selected by the scope."""
        with self._snapshot(is_internal) as reading:
            answers = reading.pages(question)
        if question.scope is not LinkScope.ALL:
            answers = tuple(
                replace(page, links=tuple(each for each in page.links if each.has_findings)) for page in answers
            )
        links = iter(self._with_captures([link for page in answers for link in page.links]))
        pages = [replace(page, links=tuple(islice(links, len(page.links)))) for page in answers]
        return RegistryAnswer(question.wiki, question.scope, self.day, tuple(pages))

    def link(
        self, identity: str, wiki: WikiName | None, *, farm_wide: bool, is_internal: bool = False
    ) -> tuple[LinkRecord | None, UrlUses | None]:
        """Return a URL's record, and the pages of the wiki, or of its farm, that contain it."""
        with self._snapshot(is_internal) as reading:
            numbered_link = reading.link(identity)
            if numbered_link is None:
                return (reading.spam(identity, wiki) if wiki else None) or (None, None)
            uses = reading.uses(numbered_link[0], wiki, farm_wide=farm_wide) if wiki else None
        return self._with_captures([numbered_link[1]])[0], uses

    def listed(
        self, wiki: WikiName, kind: WikiListKind, after: int, *, domain: str = "", is_internal: bool = False
    ) -> WikiListPart | None:
        """Return a part of a wiki's list; None for an unknown wiki."""
        with self._reading(is_internal) as (connection, reader):
            return registry_lists.read_list(connection, reader, wiki, kind, after=after, domain=domain)

    def links(self, question: registry_lists.WikiQuestion, *, is_internal: bool = False) -> registry_lists.FoundLinks:
        """Return a part of a wiki's links by their state."""
        with self._snapshot(is_internal) as reading:
            part = registry_lists.find_links(reading, question)
        return replace(part, links=self._captured(part.links))

    def search(
        self, question: registry_lists.PatternQuestion, *, is_internal: bool = False
    ) -> registry_lists.PatternFound:
        """Return a part of the links that match a pattern."""
        with self._reading(is_internal) as (connection, reader):
            matches = registry_lists.find_by_pattern(connection, reader, question)
        return replace(matches, uses=self._captured(matches.uses))

    def kept_out(self, question: registry_lists.PatternQuestion, *, is_internal: bool = False) -> list[str] | None:
        """Return exclusion list entries that remove links from the result (X06, X10); None: unknown wiki."""
        with self._reading(is_internal) as (_, reader):
            return registry_lists.exclusions_for(reader, question)

    def ping(self, question: PageQuestion, *, is_internal: bool = False) -> None:
        """Record a request for the pages, and mark them to be read again (W22)."""
        with self._snapshot(is_internal) as reading:
            if reading.wiki(question.wiki) is None:
                raise UnknownWikiError
        with self._writers.waiting():
            note_request(self._source.store(), question, self.day)

    def note(self, question: PageQuestion) -> None:
        """Record a request for the pages (W34), unless another one waits for a writer already."""
        if not self._writers.places.acquire(blocking=False):
            return
        try:
            note_request(self._source.store(), question, self.day)
        except (TransientError, NoRegistryError) as error:
            _LOG.warning("front.registry_not_noted: %s", error)
        finally:
            self._writers.places.release()

    def has_registry(self) -> bool:
        """Return True when there is a registry, available or not."""
        return self._source.is_there()

    def _with_captures(self, links: Sequence[LinkRecord]) -> list[LinkRecord]:
        captures = self._copies.newest([link.url for link in links])
        return [replace(link, capture=captures.get(link.url, "")) for link in links]

    def _captured(self, uses: Sequence[_Use]) -> tuple[_Use, ...]:
        """Return the entries, their links with this archive's newest copy."""
        pairs = zip(uses, self._with_captures([each.link for each in uses]), strict=True)
        return tuple(replace(each, link=link) for each, link in pairs)
