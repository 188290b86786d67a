"""Where questions are answered: the registry's rows, our own copies, and what is noted of a question.

Everything blocks; Starlette runs it in threads. TransientError says that the registry is away.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.clock import Clock
from core.errors import TransientError
from core.layout import Layout
from links.books.wikis import WikiName
from links.days import day_of
from links.store.store import Store
from playback.front.registry.access import Access
from playback.front.registry.answers import (
    Answer,
    Link,
    Listed,
    ListKind,
    PageAnswer,
    Uses,
)
from playback.front.registry.asking import PageQuestion
from playback.front.registry.captures import OwnCopies
from playback.front.registry.formats import scoped
from playback.front.registry.listing import listed
from playback.front.registry.noting import note_request
from playback.front.registry.reading import Reading, UnknownWikiError
from playback.front.registry.searching import PatternFound, PatternQuestion, find, kept_out
from playback.front.registry.source import Source
from playback.front.registry.voice import Voice
from playback.front.registry.wiki_links import FoundLinks, WikiQuestion, find_links

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class LinkRegistry:
    """What a front must have to show a registry.

    Attributes:
        source: where it is; the caller's, who closes it.
        access: who may ask how often.
        voice: lets readers speak; None: they cannot.
        layout: the collection, whose key signs the form's stamps; None: each process has a key.
    """

    source: Source
    access: Access
    voice: Voice | None = None
    layout: Layout | None = None


class NoRegistryError(Exception):
    """The collection has no registry."""


class Desk:
    """Answers. From any thread."""

    def __init__(self, source: Source, own: OwnCopies, clock: Clock) -> None:
        self._source = source
        self._own = own
        self._clock = clock
        self._writing = threading.Lock()

    @property
    def day(self) -> int:
        """Today."""
        return day_of(self._clock.now())

    def answer(self, question: PageQuestion, *, is_internal: bool = False) -> Answer:
        """What is known of the pages, with the links that the scope asks for.

        Raises:
            NoRegistryError: there is none.
            UnknownWikiError: it does not know the wiki.
        """
        with self._store().snapshot() as reader:
            found = Reading(reader, self.day, is_internal=is_internal).pages(question)
        told = [scoped(each, question.scope) for each in found]
        return Answer(question.wiki, question.scope, self.day, tuple(self._with_copies(told)))

    def link(self, identity: str, *, is_internal: bool = False) -> tuple[int, Link] | None:
        """A URL and its row's number; None when it is on no page that is watched.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().snapshot() as reader:
            found = Reading(reader, self.day, is_internal=is_internal).link(identity)
        if found is None:
            return None
        captures = self._own.newest([identity])
        return found[0], replace(found[1], capture=captures.get(identity, ""))

    def spam(
        self, identity: str, wiki: WikiName, *, is_internal: bool = False
    ) -> tuple[Link, Uses] | None:
        """A URL that a spam list of the wiki names, and its pages; None when none does.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().snapshot() as reader:
            return Reading(reader, self.day, is_internal=is_internal).spam(identity, wiki)

    def uses(
        self, url_id: int, wiki: WikiName, *, farm_wide: bool, is_internal: bool = False
    ) -> Uses | None:
        """Pages of the wiki, or of its farm, that have the URL.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().snapshot() as reader:
            reading = Reading(reader, self.day, is_internal=is_internal)
            return reading.uses(url_id, wiki, farm_wide=farm_wide)

    def listed(
        self,
        wiki: WikiName,
        kind: ListKind,
        after: int,
        *,
        domain: str = "",
        is_internal: bool = False,
    ) -> Listed | None:
        """A part of a wiki's list.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().reading() as connection:
            reading = Reading(connection, self.day, is_internal=is_internal)
            return listed(connection, reading, wiki, kind, after=after, domain=domain)

    def links(self, question: WikiQuestion, *, is_internal: bool = False) -> FoundLinks:
        """Return a part of a wiki's links by their state.

        Raises:
            NoRegistryError: there is none.
            UnknownWikiError: it does not know the wiki.
        """
        with self._store().snapshot() as reader:
            found = find_links(Reading(reader, self.day, is_internal=is_internal), question)
        captures = self._own.newest([each.link.url for each in found.links])
        links = tuple(
            replace(each, link=replace(each.link, capture=captures.get(each.link.url, "")))
            for each in found.links
        )
        return replace(found, links=links)

    def search(self, question: PatternQuestion, *, is_internal: bool = False) -> PatternFound:
        """A part of the links that a pattern means.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().reading() as connection:
            reading = Reading(connection, self.day, is_internal=is_internal)
            found = find(connection, reading, question)
        captures = self._own.newest([use.link.url for use in found.uses])
        uses = [
            replace(use, link=replace(use.link, capture=captures.get(use.link.url, "")))
            for use in found.uses
        ]
        return replace(found, uses=tuple(uses))

    def kept_out(self, question: PatternQuestion, *, is_internal: bool = False) -> list[str] | None:
        """Return entries of exclusion lists that keep links out of the answer (X06, X10).

        None when nobody knows the wiki.

        Raises:
            NoRegistryError: there is none.
        """
        with self._store().reading() as connection:
            return kept_out(Reading(connection, self.day, is_internal=is_internal), question)

    def ping(self, question: PageQuestion, *, is_internal: bool = False) -> None:
        """Note that somebody asks for the pages, and that their links be read again (W22).

        Raises:
            NoRegistryError: there is none.
            UnknownWikiError: it does not know the wiki.
        """
        store = self._store()
        with store.snapshot() as reader:
            if Reading(reader, self.day, is_internal=is_internal).wiki(question.wiki) is None:
                raise UnknownWikiError
        if not self._writing.acquire(timeout=_PATIENCE_S):
            raise TransientError("The link registry is being written to.")
        try:
            note_request(store, question, self.day)
        finally:
            self._writing.release()

    def note(self, question: PageQuestion) -> None:
        """Note that somebody asked for the pages, if that costs nobody anything (W34).

        One question at a time may wait for a writer; another is not noted now, and will be when the
        page is asked for again.
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
        """Whether there is one; a registry that is away is there."""
        return self._source.is_there()

    def store(self) -> Store:
        """The registry itself.

        Raises:
            NoRegistryError: there is none.
        """
        return self._store()

    def _store(self) -> Store:
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
