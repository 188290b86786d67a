"""Feed of one wiki: rounds that follow changes, sweep, and hand links over.

A page that was just saved is read twice: at once, and after `SETTLING_DELAY`, because a wiki updates its link
table a moment after it lists the change. A round does urgent work first: changes, requested pages, due links;
then affected pages; then a part of the sweep. It may be interrupted anywhere. One round at a time.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from links.check_history import day_of
from links.feedback.reports import RequestedPage, finish_page_requests, waiting_pages
from links.registry.archive_backlog import ArchivePriority, due_links, next_due
from links.registry.link_import import sorted_links
from links.registry.pages import find_pages, find_titled, next_stale
from links.registry.wikis import Wiki
from links.url_parts import key_of
from wiki.api.models import PAGES_AT_ONCE, ChangeKind, PageChange, WikiPage, split_batches
from wiki.api.recent_changes import ChangeBatch
from wiki.sync import feed_context, page_criteria, sweep
from wiki.sync.archive_queue import BATCH, HandOver, HandOverResult
from wiki.sync.page_criteria import CATEGORIES, TEMPLATES
from wiki.sync.page_import import PageBatch, PageImportCounts, page_urls
from wiki.sync.sweep import PageSweeper, SweepCursor
from wiki.sync.wiki_source import WikiSource

SETTLING_DELAY = timedelta(seconds=20)
YOUNG_AGE = timedelta(minutes=10)  # what changed before that has settled
SETTLING_LIMIT = 10_000


@dataclass(frozen=True)
class ChangedPages:
    """Pages to read because of changes."""

    ids: frozenset[int] = frozenset()  # page ids
    titles: frozenset[str] = frozenset()  # page titles, which need not exist
    templates: tuple[str, ...] = ()  # changed templates, whose pages may have other links now
    has_categories: bool = False  # the category trees may have changed


def pages_changed(changes: Iterable[PageChange], namespaces: frozenset[int]) -> ChangedPages:
    """Return the pages to read for changes in the namespaces, also those that moved out of them."""
    ids, titles, templates, has_categories = set[int](), set[str](), dict[str, None](), False
    for change in changes:
        if change.kind is ChangeKind.OTHER:
            continue
        named = [(change.namespace, change.title)]
        if change.target_title:
            named.append((change.target_namespace, change.target_title))
        for namespace, title in named:
            if namespace in TEMPLATES:
                templates[title] = None
            has_categories |= namespace == CATEGORIES
        if not any(namespace in namespaces for namespace, _ in named):
            continue
        if change.page_id:
            ids.add(change.page_id)
        if not change.page_id or change.kind not in (ChangeKind.EDIT, ChangeKind.NEW):
            titles.update(title for _, title in named if title)
    return ChangedPages(frozenset(ids), frozenset(titles), tuple(templates), has_categories)


def read_settling(text: str) -> dict[int, int]:
    """Parse the cursor of second reads: page id to due time (seconds since 1970)."""
    return page_criteria.parse_cursor(text, lambda known: {int(page): int(due) for page, due in known.items()}, {})


def settling_text(settling: Mapping[int, int]) -> str:
    """Format the list as a cursor."""
    return json.dumps({str(page): due for page, due in settling.items()})


BATCHES = 10  # of changes in one round
STALE_AT_ONCE = 2 * PAGES_AT_ONCE  # pages in one round
TASKS = 4  # parts of lists in one round

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FollowResult:
    """Result of following changes."""

    changes: int = 0  # processed entries of the wiki's list
    pages: PageImportCounts = field(default_factory=PageImportCounts)  # counts of what was written
    is_more: bool = False  # more changes are available now


async def read_settling_pages(context: feed_context.FeedContext) -> PageImportCounts:
    """Read recently saved pages a second time: their links may have been stored only now."""
    settling = read_settling(context.cursor(feed_context.SETTLING))
    now = context.now().timestamp()
    due = [page for page, due in settling.items() if due <= now][: 4 * PAGES_AT_ONCE]
    outcome = PageImportCounts()
    for some in split_batches(due):
        read = await context.read(ids=some)
        for page_id in some:
            settling.pop(page_id, None)
        outcome = outcome.plus(await context.write(read, {feed_context.SETTLING: settling_text(settling)}))
    return outcome


async def read_stale_pages(context: feed_context.FeedContext) -> tuple[PageImportCounts, bool]:
    """Read pages marked on request (W34) or after a template change; return counts, and if more are due."""
    rows = await context.query(next_stale, limit=STALE_AT_ONCE)
    outcome, _ = await context.import_pages(ids=[row.page_id for row in rows])
    return outcome, len(rows) == STALE_AT_ONCE


async def read_requested_pages(context: feed_context.FeedContext) -> tuple[PageImportCounts, bool]:
    """Read requested pages that are not observed; adopt those that should be (W10, W34)."""
    rows = await context.query(waiting_pages, limit=STALE_AT_ONCE)
    outcome, pages = await context.import_pages(
        ids=[row.page_id for row in rows if row.page_id], titles=[row.title for row in rows if not row.page_id]
    )
    if rows:
        await asyncio.to_thread(_finish_requested, context, rows, pages)
    return outcome, len(rows) == STALE_AT_ONCE


async def read_list_tasks(context: feed_context.FeedContext) -> tuple[PageImportCounts, bool]:
    """Continue the page lists of changed templates and categories; return counts, and if more are due."""
    outcome = PageImportCounts()
    for _ in range(TASKS):
        task = page_criteria.next_task(context.tasks(), now=context.now())
        if task is None:
            return outcome, False
        listing = await context.source.listing(task.kind, task.title, task.resume)
        namespaces = context.criteria().namespaces
        ids = [each.page_id for each in listing.pages if each.namespace in namespaces]
        tasks = page_criteria.advance_task(context.tasks(), task, listing.resume, len(listing.pages))
        cursors = {feed_context.SPREAD_TASKS: page_criteria.tasks_text(tasks)}
        if task.kind == "template":
            await context.note(cursors, stale=ids)
            continue
        # A whole namespace must not go before what people save.
        priority = ArchivePriority.SWEPT if task.kind == "namespace" else ArchivePriority.SAVED
        part, _ = await context.import_pages(ids=ids, priority=priority)  # also unknown pages
        outcome = outcome.plus(part)
        await context.note(cursors)
    return outcome, True


async def _take(
    context: feed_context.FeedContext, batch: ChangeBatch, hinted: Collection[int], *, has_gap: bool
) -> PageImportCounts:
    """Read the pages of a batch of changes, and write its cursor with the last of them."""
    now, namespaces = context.now(), context.criteria().namespaces
    looks = pages_changed(batch.changes, namespaces)
    # The wiki may not have stored the links of the youngest yet, by its own clock.
    young = [change for change in batch.changes if batch.now - change.moment < YOUNG_AGE]
    recent = pages_changed(young, namespaces)
    registered = await context.query(find_titled, looks.titles)
    ids = {*looks.ids, *(row.page_id for row in registered), *hinted}
    cursors = {feed_context.CHANGES: batch.cursor}
    if looks.templates:
        lists = [("template", title) for title in looks.templates]
        cursors[feed_context.SPREAD_TASKS] = page_criteria.tasks_text(
            page_criteria.add_tasks(context.tasks(), lists, now=now)
        )
    if has_gap:
        # The wiki has forgotten changes: all of its pages must be read.
        name, last = context.wiki.name, SweepCursor.parse(context.cursor(feed_context.SWEEP))
        log.warning("%s: the wiki no longer lists changes since the last query; sweeping", name)
        # A page read earlier today may have left since: `untouched` counts by days, so today's are read again.
        cursors[feed_context.SWEEP] = sweep.begin_sweep(last, now=now, day=day_of(now) + 1).text()
    outcome, again = PageImportCounts(), set[int]()
    read = PageBatch()
    for some_titles in split_batches(sorted(looks.titles)):
        outcome = outcome.plus(await context.write(read, {}))
        read = await context.read(titles=some_titles)
        again.update(page.page_id for page in read.pages if page.title in recent.titles)
    for some_ids in split_batches(sorted(ids)):
        outcome = outcome.plus(await context.write(read, {}))
        read = await context.read(ids=some_ids)
    again |= recent.ids | set(hinted)
    if again:
        due = int((now + SETTLING_DELAY).timestamp())
        settling = {**read_settling(context.cursor(feed_context.SETTLING)), **dict.fromkeys(again, due)}
        cursors[feed_context.SETTLING] = settling_text(dict(list(settling.items())[-SETTLING_LIMIT:]))
    if looks.has_categories:
        context.doubt_trees()
    return outcome.plus(await context.write(read, cursors))


def _finish_requested(
    context: feed_context.FeedContext, rows: Sequence[RequestedPage], pages: Sequence[WikiPage]
) -> None:
    """Mark requested pages as read, with the links of those that are not observed."""
    by_id, by_title = {page.page_id: page for page in pages}, {page.title: page for page in pages}
    keys: dict[RequestedPage, list[bytes]] = {}
    with context.store.writing() as connection:
        rules = context.shared.rules.rules_of(connection, context.wiki.id)
        observed = find_pages(connection, context.wiki.id, by_id)
        for row in rows:
            named = by_title.get(row.title) or by_title.get(row.title[:1].upper() + row.title[1:])
            page = by_id.get(row.page_id) if row.page_id else named
            if page is not None and page.page_id not in observed:
                links = sorted_links(page_urls(page, context.facts.interwikis), rules)
                keys[row] = [key_of(link.identity) for link in links if link.is_watched]
        finish_page_requests(connection, context.wiki.id, rows, day=day_of(context.now()), keys=keys)


SECOND_READS = 200  # pages in one round


@dataclass(frozen=True)
class FeedRound:
    """Result of a round."""

    followed: FollowResult = field(default_factory=FollowResult)  # processed changes
    pages: PageImportCounts = field(default_factory=PageImportCounts)  # changed, requested and affected
    handed: HandOverResult = field(default_factory=HandOverResult)  # counts of due links
    swept: PageImportCounts = field(default_factory=PageImportCounts)
    sweep: SweepCursor | None = None  # the current sweep; None: none yet
    is_busy: bool = False  # there is more to do at once


class WikiFeed:
    """Feed of one wiki."""

    def __init__(self, wiki: Wiki, source: WikiSource, shared: feed_context.SyncServices) -> None:
        self.context = feed_context.FeedContext(wiki, source, shared)
        self._hand_over = HandOver(shared.store, wiki.id, wiki.name, shared.archive, shared.rules)
        self.sweeper = PageSweeper(self.context, self._hand_over.offer_again)
        self._polled_at: datetime | None = None
        self._has_more = False

    @property
    def wiki(self) -> Wiki:
        """Return the registry's row of the wiki."""
        return self.context.wiki

    async def round(self, *, is_notified: bool = False, hinted: Collection[int] = (), sweeps: bool = True) -> FeedRound:
        """Do a bounded amount of work; notified or with `hinted` pages poll now. Raises as `FeedContext.refresh`."""
        await self.context.refresh()
        await feed_context.refresh_spam_lists(self.context)
        followed = await self._follow(hinted, is_notified=is_notified)
        pages = followed.pages.plus(await read_settling_pages(self.context))
        handed, is_more_due = await self._hand_on()
        stale, is_more_stale = await read_stale_pages(self.context)
        requested, is_more_asked = await read_requested_pages(self.context)
        stale, is_more_stale = stale.plus(requested), is_more_stale or is_more_asked
        spread_to, is_more_spread = await read_list_tasks(self.context)
        swept = await self.sweeper.go_on() if sweeps and not followed.is_more else PageImportCounts()
        sweep = self.sweeper.sweep()
        is_sweeping = sweeps and sweep is not None and not sweep.is_done
        later = stale.plus(spread_to).plus(swept)
        is_busy = followed.is_more or is_more_due or is_more_stale or is_more_spread or is_sweeping
        is_busy = is_busy or bool(later.added)  # which are not handed over yet
        return FeedRound(followed, pages.plus(stale).plus(spread_to), handed, swept, sweep, is_busy=is_busy)

    async def rest_s(self) -> float:
        """Return the seconds until there is work, always less than the lease."""
        now = self.context.now()
        poll = timedelta(seconds=max(self.context.feed.poll_s, 1.0))
        moments = [(self._polled_at or now - poll) + poll]
        settling = read_settling(self.context.cursor(feed_context.SETTLING))
        if settling:
            moments.append(now + timedelta(seconds=max(min(settling.values()) - now.timestamp(), 0.0)))
        if self.context.feed.archive and (due := await self.context.query(next_due)) is not None:
            moments.append(due)
        return max(min(min(moments) - now, poll, feed_context.LEASE_LENGTH / 2).total_seconds(), 0.0)

    async def _follow(self, hinted: Collection[int], *, is_notified: bool) -> FollowResult:
        """Process the changes since the cursor, when they are due, and pages named in notifications."""
        context, now = self.context, self.context.now()
        poll = timedelta(seconds=context.feed.poll_s)
        is_due = self._polled_at is None or not timedelta(0) <= now - self._polled_at < poll
        if not (is_due or is_notified or hinted or self._has_more):
            return FollowResult()
        count, outcome, is_more = 0, PageImportCounts(), True
        for _ in range(BATCHES):
            before = context.cursor(feed_context.CHANGES)
            batch = await context.source.changes(before)
            outcome = outcome.plus(await _take(context, batch, hinted, has_gap=batch.is_gap and bool(before)))
            count, hinted, is_more = count + len(batch.changes), (), not batch.is_end
            if not is_more:
                break
        self._polled_at, self._has_more = now, is_more
        return FollowResult(count, outcome, is_more)

    async def _hand_on(self) -> tuple[HandOverResult, bool]:
        """Hand over due links; delayed ones are read once more before."""
        if not self.context.feed.archive:
            return HandOverResult(), False
        now = self.context.now()
        rows = await self.context.query(due_links, now=now, limit=BATCH)
        if not rows:
            return HandOverResult(), False
        is_full = len(rows) == BATCH
        if self.context.feed.grace_h > 0:
            page_ids = list(dict.fromkeys(row.page_id for row in rows))
            looked = page_ids[:SECOND_READS]
            await self.context.import_pages(ids=looked)
            chosen = {(row.page, row.url_id) for row in rows if row.page_id in set(looked)}
            due_rows = await self.context.query(due_links, now=now, limit=BATCH)
            rows = [row for row in due_rows if (row.page, row.url_id) in chosen]
            is_full = is_full or len(page_ids) > len(looked)
        handed = await self._hand_over.hand_on(
            rows, now=now, days=self.context.feed.archived_days, own=self.context.own_origins
        )
        return handed, is_full and not handed.put_off
