"""Context of one wiki's sync: registry access, settings, site facts, spam lists.

All requests to the wiki and writes to the registry go through here, under the lease that excludes other processes. The
wiki's spam lists are pages of it; a farm has a shared one. A changed list applies to links written from then on, so to
every page within a sweep. One that cannot be fetched stays unchanged.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from core.clock import Clock
from core.errors import InputError, WeboidError
from links.check_history import day_of
from links.registry.archive_backlog import ArchivePriority
from links.registry.database import RegistryStore
from links.registry.wikis import Wiki, all_wikis, feeds_of, put_cursors, release_feed_lease, take_feed_lease, wiki_of
from links.rules.spam_list import SpamList, list_kind
from links.rules.wiki_rules import FARM_WIDE, RuleBook, has_list, put_list, remove_list
from wiki.api.models import SiteFacts, WikiPage, split_batches
from wiki.settings import FeedSettings, WikiSettings
from wiki.sync import page_criteria, page_import
from wiki.sync.archive_queue import LinkArchiver
from wiki.sync.wiki_source import FarmPages, WikiSource, missing_targets
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.template_map import rules_for

CHANGES = "changes"
SETTLING = "settling"
SPREAD_TASKS = "spread"
SWEEP = "sweep"
SITE = "site"
TREE = "tree"
ORDERED_LISTS = "ordered"  # lists of pages to be read now: `order_lists`

LEASE_LENGTH = timedelta(seconds=90)
LISTS_MOST = 500
_FACTS_KEPT = timedelta(hours=1)

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class WikiRenamedError(InputError):
    """Another wiki at the same address: nothing is changed until an operator confirms it."""


# Gives what reads the wikitext of a wiki.
CitingFactory = Callable[[SiteFacts, WikiSettings], page_import.Cite]


@dataclass(frozen=True)
class SyncServices:
    """Services shared by the feeds of several wikis."""

    store: RegistryStore
    archive: LinkArchiver  # receiver of links to archive
    clock: Clock  # current time
    holder: str  # this process's unique name
    citing: CitingFactory = lambda _facts, _settings: page_import.no_citations  # creates citation readers
    rules: RuleBook = field(default_factory=RuleBook)  # URL rules of wikis
    is_gone: Callable[[str], bool] = lambda _holder: False  # a named process has certainly ended


class FeedContext:
    """State of one wiki's sync; used by one task at a time."""

    def __init__(self, wiki: Wiki, source: WikiSource, shared: SyncServices) -> None:
        self.wiki = wiki
        self.source = source
        self.shared, self.store = shared, shared.store
        self._books = page_import.PageImporter(shared.store, wiki.id, shared.holder, shared.rules)
        self._settings = WikiSettings()
        self._facts: SiteFacts | None = None
        self._facts_at: datetime | None = None
        self._trees: page_criteria.CategoryTrees | None = None
        self._tree_is_changed = False
        self._cite: page_import.Cite | None = None
        self._cursors: dict[str, str] = {}
        self._farm: list[Wiki] = []
        self._criteria: page_criteria.PageCriteria | None = None
        self._criteria_of: tuple[object, ...] = (None, None, None)

    @property
    def feed(self) -> FeedSettings:
        """Return the operator's settings, as last read."""
        return self._settings.feed

    @property
    def own_origins(self) -> tuple[str, ...]:
        """Return the origins of our own copies, as cited by the bot."""
        return (self._settings.bot.front,) if self._settings.bot.front else ()

    @property
    def facts(self) -> SiteFacts:
        """Return the wiki's site information, as last read."""
        assert self._facts is not None, "refresh first"
        return self._facts

    def now(self) -> datetime:
        """Return the current time."""
        return self.shared.clock.now()

    def cursor(self, kind: str) -> str:
        """Return a feed's cursor; empty: it has not started."""
        return self._cursors.get(kind, "")

    def criteria(self) -> page_criteria.PageCriteria:
        """Return the criteria of observed pages; recompiled after changes."""
        known = (self.feed, self.facts, self._trees)
        if self._criteria is None or any(one is not other for one, other in zip(known, self._criteria_of, strict=True)):
            self._criteria_of = known
            self._criteria = page_criteria.compile_criteria(*known)
        return self._criteria

    def tasks(self) -> tuple[page_criteria.ListTask, ...]:
        """Return the pending page lists of changed templates and categories."""
        return page_criteria.read_tasks(self.cursor(SPREAD_TASKS))

    def doubt_trees(self) -> None:
        """Mark the category trees as changed, so that they are read again soon."""
        self._tree_is_changed = True

    async def refresh(self) -> None:
        """Acquire the lease, and read settings, site information and category trees again.

        Raises FeedHeldError: another process feeds the wiki; WikiRenamedError: another wiki is at this address;
        ConfigError: the settings are invalid; WeboidError: the wiki or the registry is unavailable.
        """
        now = self.now()
        await asyncio.to_thread(self._refresh_books, now)
        if self._facts is None or self._facts_at is None or now - self._facts_at >= _FACTS_KEPT:
            facts = await self.source.facts()
            text = f"{facts.dbname} {facts.server}"
            site = text.encode("ascii", "backslashreplace").decode().replace("\0", "")
            known = self.cursor(SITE)
            if known and known != site:
                raise WikiRenamedError(
                    f"Another wiki is now at the address of {self.wiki.name}: {site} instead of "
                    f"{known}. Nothing is changed. If it is the same wiki under another name, run "
                    f"`weboid wiki add {self.wiki.url}`."
                )
            if not known:
                await self.note({SITE: site})
            self._facts, self._facts_at, self._cite = facts, now, None
        if self._cite is None:
            self._cite = self.shared.citing(self._facts, self._settings)
        await self._refresh_trees(now)

    async def query(self, function: Callable[..., _T], *arguments: object, **options: object) -> _T:
        """Call a function with a snapshot of the registry and the wiki's id, in a thread."""

        def read() -> _T:
            with self.store.snapshot() as reader:
                return function(reader, self.wiki.id, *arguments, **options)

        return await asyncio.to_thread(read)

    def give_back(self) -> None:
        """Release the lease, so that another process can continue at once."""
        with self.store.writing() as connection:
            release_feed_lease(connection, self.wiki.id, self.shared.holder, now=self.now())

    async def read(self, *, ids: Collection[int] = (), titles: Collection[str] = ()) -> page_import.PageBatch:
        """Read a batch of pages from the wiki."""
        assert self._cite is not None, "refresh first"
        read = await page_import.read_page_batch(self.source, self._cite, self.criteria(), ids=ids, titles=titles)
        farm = FarmPages(self._farm, self.wiki, self.facts.pages_url)
        missing = await missing_targets(self.source, read.pages, self.facts.interwikis, farm)
        return replace(read, missing_targets=missing)

    async def import_pages(
        self, *, ids: Iterable[int] = (), titles: Iterable[str] = (), priority: ArchivePriority = ArchivePriority.SAVED
    ) -> tuple[page_import.PageImportCounts, list[WikiPage]]:
        """Read and write any number of pages, in batches; return the counts and the pages."""
        outcome, pages = page_import.PageImportCounts(), list[WikiPage]()
        batches: list[tuple[Sequence[int], Sequence[str]]]
        batches = [(some, ()) for some in split_batches(ids)]
        batches += [((), some) for some in split_batches(titles)]
        for some_ids, some_titles in batches:
            read = await self.read(ids=some_ids, titles=some_titles)
            outcome = outcome.plus(await self.write(read, {}, priority=priority))
            pages += read.pages
        return outcome, pages

    async def write(
        self,
        read: page_import.PageBatch,
        cursors: Mapping[str, str],
        *,
        priority: ArchivePriority = ArchivePriority.SAVED,
        is_first: bool = False,
    ) -> page_import.PageImportCounts:
        """Write pages and cursors in one transaction, leaving out a page that fails internally. Raises FeedHeldError."""
        order = page_import.ImportOptions(
            self.criteria(),
            self.facts.interwikis,
            priority if self.feed.archive else None,
            timedelta(hours=self.feed.grace_h),
            is_first,
        )
        outcome = await asyncio.to_thread(self._write, read, order, cursors)
        self._cursors.update(cursors)
        return outcome

    def _write(
        self, read: page_import.PageBatch, order: page_import.ImportOptions, cursors: Mapping[str, str]
    ) -> page_import.PageImportCounts:
        try:
            return self._books.write(read, order, now=self.now(), cursors=cursors)
        except WeboidError:
            raise
        except Exception:
            if not read.pages:
                raise
            if len(read.pages) == 1:
                log.exception("%s: page %s cannot be written", self.wiki.name, read.pages[0].page_id)
        outcome = page_import.PageImportCounts()
        for page in read.pages if len(read.pages) > 1 else ():
            outcome = outcome.plus(self._write(page_import.PageBatch((page,), citations=read.citations), order, {}))
        return outcome.plus(self._write(replace(read, pages=()), order, cursors))

    async def note(self, cursors: Mapping[str, str], *, stale: Sequence[int] = ()) -> None:
        """Write feed cursors, and the pages that must be read because of them."""
        await asyncio.to_thread(self._books.note, cursors, now=self.now(), stale=stale)
        self._cursors.update(cursors)

    def _refresh_books(self, now: datetime) -> None:
        with self.store.writing() as connection:
            take_feed_lease(
                connection, self.wiki.id, self.shared.holder, now=now, length=LEASE_LENGTH, is_gone=self.shared.is_gone
            )
            self.wiki = wiki_of(connection, self.wiki.id)
            self._farm = [each for each in all_wikis(connection) if each.farm_id == self.wiki.farm_id]
            self._cursors = {kind: feed.cursor for kind, feed in feeds_of(connection, self.wiki.id).items()}
            if lists := read_lists(self._cursors.get(ORDERED_LISTS, "")):
                tasks = page_criteria.add_tasks(self.tasks(), lists, now=now)
                cursors = {SPREAD_TASKS: page_criteria.tasks_text(tasks), ORDERED_LISTS: ""}
                put_cursors(connection, self.wiki.id, cursors, now=now)
                self._cursors.update(cursors)
        settings = WikiSettings.parse(self.wiki.settings)
        if settings != self._settings:
            self._settings, self._cite = settings, None

    async def _refresh_trees(self, now: datetime) -> None:
        if not page_criteria.are_trees_due(self._trees, self.feed, now=now, is_changed=self._tree_is_changed):
            return
        before: frozenset[str] | None = page_criteria.parse_cursor(self.cursor(TREE), frozenset, None)
        trees = await page_criteria.read_trees(self.source, self.feed, self.facts, now=now)
        if not trees.is_whole:
            log.warning("%s: too many categories; the rest is not observed", self.wiki.name)
        self._trees, self._tree_is_changed = trees, False
        if trees.inside is None or trees.inside == before:
            return
        new = [] if before is None else sorted(trees.inside - before)
        lists = [("category", page_criteria.category_title(name, self.facts)) for name in new]
        tasks = page_criteria.add_tasks(self.tasks(), lists, now=now)
        await self.note({TREE: json.dumps(sorted(trees.inside)), SPREAD_TASKS: page_criteria.tasks_text(tasks)})


def order_lists(store: RegistryStore, wiki_id: int, lists: Sequence[tuple[str, str]], *, now: datetime) -> None:
    """Request that the wiki's feed reads the pages of these lists (kind, title) soon; InputError: too many."""
    if len(lists) > LISTS_MOST:
        raise InputError(
            f"The category has {len(lists):,} lists of pages, and at most {LISTS_MOST:,} can be swept at a time: name a smaller "
            "category."
        )
    with store.writing() as connection:
        feed = feeds_of(connection, wiki_id).get(ORDERED_LISTS)
        waiting = read_lists(feed.cursor) if feed is not None else []
        text = json.dumps([*dict.fromkeys([*waiting, *lists])][-LISTS_MOST:])
        put_cursors(connection, wiki_id, {ORDERED_LISTS: text}, now=now)


def read_lists(text: str) -> list[tuple[str, str]]:
    """Parse the lists in the cursor of `ORDERED_LISTS`; empty when invalid."""
    return page_criteria.parse_cursor(text, lambda lists: [(str(kind), str(title)) for kind, title in lists], [])


SPAM_CURSOR = "spam"
SPAM_INTERVAL = timedelta(hours=1)


async def refresh_spam_lists(context: FeedContext) -> None:
    """Fetch the wiki's spam lists when due. Raises as `FeedContext.note`."""
    now = context.now()
    fetched_at = page_criteria.parse_cursor(context.cursor(SPAM_CURSOR), lambda known: float(known["at"]), 0.0)
    if now.timestamp() - fetched_at < SPAM_INTERVAL.total_seconds():
        return
    feed, farm_id = context.feed, context.wiki.farm_id
    sources = [(feed.spam_lists, "", context.wiki.id)]
    if feed.farm_spam_api:
        sources.append((feed.farm_spam_lists, feed.farm_spam_api, FARM_WIDE))

    def put(texts: Mapping[str, str | None], wiki_id: int) -> None:
        for title, text in texts.items():
            with context.store.writing() as rows:
                if not text or not text.strip():
                    remove_list(rows, farm_id, title, wiki_id=wiki_id)
                    continue
                spam_list = SpamList(title, list_kind(title), text)
                if has_list(rows, farm_id, spam_list, wiki_id=wiki_id):
                    continue
                try:
                    put_list(rows, farm_id, spam_list, wiki_id=wiki_id, today=day_of(context.now()))
                except InputError as error:
                    log.warning("%s: %s", context.wiki.name, error)

    for titles, address, wiki_id in sources:
        try:
            texts = await context.source.texts(titles, address) if titles else {}
        except WeboidError as error:
            log.warning("%s: its spam lists cannot be fetched, and are unchanged: %s", context.wiki.name, error)
            continue
        await asyncio.to_thread(put, texts, wiki_id)
    await context.note({SPAM_CURSOR: json.dumps({"at": int(now.timestamp())})})


def citation_readers(clock: Clock) -> CitingFactory:
    """Create a factory of citation readers for each wiki's language and settings."""

    def of_wiki(facts: SiteFacts, settings: WikiSettings) -> page_import.Cite:
        rules = rules_for(facts.language, settings.templates)
        return lambda text: read_citations(text, rules, today=clock.now().date())

    return of_wiki
