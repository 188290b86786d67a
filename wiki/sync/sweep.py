"""Full sweep over a wiki's pages: cursor, execution in parts, dry run.

A sweep reads lists: the namespaces, or the categories or templates when these select the pages. Its last
stage, the rest, reads registered pages that were in no list: they are deleted or no longer observed.
The dry run (`survey_wiki`) writes nothing, needs no lease, and may run in parallel with a watcher.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta

from core.clock import Clock
from core.errors import WeboidError
from links.check_history import day_of
from links.registry.archive_backlog import ArchivePriority
from links.registry.database import RegistryStore
from links.registry.link_import import sorted_links
from links.registry.pages import PageName, untouched
from links.registry.wikis import Wiki
from links.rules.link_class import LinkClass, WikiRules
from links.rules.wiki_rules import RuleBook
from wiki.api.models import PAGES_AT_ONCE, SiteFacts, split_batches
from wiki.settings import WikiSettings
from wiki.sync import page_criteria
from wiki.sync.feed_context import SWEEP, FeedContext
from wiki.sync.page_import import PageImportCounts, no_citations, page_urls, read_page_batch
from wiki.sync.wiki_source import CATEGORY, NAMESPACE, TEMPLATE, WikiSource

REST = "rest"
DONE = "done"
LONGEST_DAYS = 28


@dataclass(frozen=True, slots=True, order=True)
class SweepList:
    """List of pages: of a namespace, in a category, or using a template."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class SweepCursor:
    """Cursor of a sweep."""

    round: int  # 1 is the first sweep of the wiki, its import
    began: int  # seconds since 1970
    began_day: int  # a number of `links.check_history`
    kind: str = ""  # of the current list; `REST`, `DONE`
    name: str = ""  # of that list
    resume: str = ""  # position in that list
    pages: int = 0  # read so far
    links: int = 0  # found so far
    after: int = 0  # in the rest, the registry's id of the last page

    @property
    def is_first(self) -> bool:
        """Return True for the wiki's initial import."""
        return self.round == 1

    @property
    def is_done(self) -> bool:
        """Return True if the sweep is complete."""
        return self.kind == DONE

    def text(self) -> str:
        """Return the cursor in its stored form."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> "SweepCursor | None":
        """Parse a stored cursor; None without one."""
        return page_criteria.parse_cursor(text, lambda stored: cls(**stored), None)


def late_warning(sweep: SweepCursor | None, *, now: datetime) -> str:
    """Return a warning about a sweep that takes over four weeks; empty otherwise (W38)."""
    if sweep is None or sweep.is_done:
        return ""
    days = (now - datetime.fromtimestamp(sweep.began, UTC)).days
    if days <= LONGEST_DAYS:
        return ""
    return (
        f"A sweep has been running for {days} days and has read {sweep.pages:,} pages; all pages should be "
        f"read within {LONGEST_DAYS}: observe fewer pages, or use an account with higher limits."
    )


def begin_sweep(last: SweepCursor | None, *, now: datetime, day: int) -> SweepCursor:
    """Create a new sweep; it counts as the first until one was completed."""
    number = 1 if last is None or (last.is_first and not last.is_done) else last.round + 1
    return SweepCursor(number, int(now.timestamp()), day)


def sweep_lists(criteria: page_criteria.PageCriteria, facts: SiteFacts) -> list[SweepList]:
    """Return the lists that contain all pages which may be observed."""
    if criteria.inside is not None:
        return sorted(SweepList(CATEGORY, page_criteria.category_title(name, facts)) for name in criteria.listed)
    if criteria.using is not None:
        return sorted(SweepList(TEMPLATE, title) for title in criteria.listed)
    return [SweepList(NAMESPACE, str(number)) for number in sorted(criteria.namespaces)]


def current_list(sweep: SweepCursor, lists: Sequence[SweepList]) -> tuple[SweepList, str] | None:
    """Return the current list, or the next one if the settings no longer have it, and the position; None: the rest."""
    if sweep.kind in (REST, DONE):
        return None
    at = SweepList(sweep.kind, sweep.name)
    if at in lists:
        return at, sweep.resume
    later = _list_after(at, lists)
    return (later, "") if later else None


def after_part(sweep: SweepCursor, at: SweepList, resume: str, lists: Sequence[SweepList]) -> SweepCursor:
    """Return the sweep after a part of the list was written; `resume` is empty at the list's end."""
    if resume:
        return replace(sweep, kind=at.kind, name=at.name, resume=resume)
    later = _list_after(at, lists)
    if later:
        return replace(sweep, kind=later.kind, name=later.name, resume="")
    return replace(sweep, kind=REST, name="", resume="", after=0)


def _list_after(at: SweepList, lists: Sequence[SweepList]) -> SweepList | None:
    def place(each: SweepList) -> tuple[str, int, str]:
        is_number = each.kind == NAMESPACE and each.name.lstrip("-").isdigit()
        return each.kind, int(each.name) if is_number else 0, each.name

    return next((each for each in lists if place(each) > place(at)), None)


log = logging.getLogger(__name__)


# `HandOver.offer_again`
OfferLinks = Callable[[Sequence[int], datetime, Collection[str]], Awaitable[int]]


class PageSweeper:
    """Sweeper of one wiki; keeps the current part of a list in memory."""

    def __init__(self, context: FeedContext, offer_again: OfferLinks) -> None:
        self._context = context
        self._offer_again = offer_again
        self._at: tuple[SweepList, str] | None = None
        self._waiting: list[PageName] = []
        self._resume = ""
        self._told_day: int | None = None
        self._gone_through = PageImportCounts()  # since the cursor was written

    def sweep(self) -> SweepCursor | None:
        """Return the current sweep, including unsaved progress."""
        sweep = SweepCursor.parse(self._context.cursor(SWEEP))
        return sweep and self._counted(sweep)

    async def begin(self) -> SweepCursor:
        """Start a new sweep; a running one continues."""
        sweep = SweepCursor.parse(self._context.cursor(SWEEP))
        if sweep is not None and not sweep.is_done:
            return sweep
        now = self._context.now()
        begun = begin_sweep(sweep, now=now, day=day_of(now))
        await self._context.note({SWEEP: begun.text()})
        return begun

    async def go_on(self) -> PageImportCounts:
        """Sweep a part when due; WeboidError: the wiki or the registry is unavailable, the part is repeated later."""
        context, now = self._context, self._context.now()
        sweep = SweepCursor.parse(context.cursor(SWEEP))
        next_at = (
            now if sweep is None else datetime.fromtimestamp(sweep.began, UTC) + timedelta(context.feed.sweep_days)
        )
        if sweep is None or (sweep.is_done and now >= next_at):
            sweep = await self.begin()
        if sweep.is_done:
            return PageImportCounts()
        sentence = late_warning(sweep, now=now)
        if sentence and self._told_day != day_of(now):
            self._told_day = day_of(now)
            log.warning("%s: %s", context.wiki.name, sentence)
        lists = sweep_lists(context.criteria(), context.facts)
        at = current_list(sweep, lists)
        if at is None:
            return await self._rest(sweep)
        if at != self._at:
            listing = await context.source.listing(at[0].kind, at[0].name, at[1])
            self._at, self._waiting, self._resume = at, list(listing.pages), listing.resume
            self._gone_through = PageImportCounts()
        part, self._waiting = self._waiting[:PAGES_AT_ONCE], self._waiting[PAGES_AT_ONCE:]
        try:
            return await self._part(sweep, at[0], part, lists)
        except BaseException:
            self._at = None  # that part of the list comes again
            raise

    async def _part(
        self, sweep: SweepCursor, at: SweepList, part: list[PageName], lists: list[SweepList]
    ) -> PageImportCounts:
        context = self._context
        namespaces = context.criteria().namespaces
        ids = [each.page_id for each in part if each.namespace in namespaces and each.page_id]
        outcome = PageImportCounts()
        if ids:
            read = await context.read(ids=ids)
            outcome = await context.write(read, {}, priority=ArchivePriority.SWEPT, is_first=sweep.is_first)
            if not sweep.is_first and context.feed.archive:
                try:
                    await self._offer_again(ids, context.now(), context.own_origins)
                except WeboidError:
                    raise
                except Exception:
                    log.exception("%s: the links of pages %s cannot be queued", self._context.wiki.name, ids)
        self._gone_through = self._gone_through.plus(outcome)
        if not self._waiting:
            await context.note({SWEEP: after_part(self._counted(sweep), at, self._resume, lists).text()})
            self._at, self._gone_through = None, PageImportCounts()
        return outcome

    async def _rest(self, sweep: SweepCursor) -> PageImportCounts:
        """Read registered pages that were in no list: deleted, or no longer observed (W27, W37)."""
        context = self._context
        rows = await context.query(untouched, before=sweep.began_day, after=sweep.after, limit=PAGES_AT_ONCE)
        outcome = PageImportCounts()
        if rows:
            read = await context.read(ids=[row.page_id for row in rows])
            sweep = replace(sweep, kind=REST, after=rows[-1].id)
            cursors = {SWEEP: sweep.text()}
            outcome = await context.write(read, cursors, priority=ArchivePriority.SWEPT, is_first=sweep.is_first)
        if len(rows) < PAGES_AT_ONCE:
            await context.note({SWEEP: replace(sweep, kind=DONE, name="", resume="").text()})
            log.info("%s: swept, %s pages", context.wiki.name, sweep.pages)
        return outcome

    def _counted(self, sweep: SweepCursor) -> SweepCursor:
        done = self._gone_through
        return replace(sweep, pages=sweep.pages + done.pages, links=sweep.links + done.links)


@dataclass
class SweepSurvey:
    """Counts of a dry run so far."""

    expected: int = 0  # approximate number of pages
    pages: int = 0  # that would be observed
    links: Counter[LinkClass] = field(default_factory=Counter)  # on them, by registry state
    refused: Counter[page_criteria.ExclusionReason] = field(default_factory=Counter)  # not observed, and why

    @property
    def examined(self) -> int:
        """Return the number of pages read."""
        return self.pages + sum(self.refused.values())


async def survey_wiki(wiki: Wiki, source: WikiSource, store: RegistryStore, clock: Clock) -> AsyncIterator[SweepSurvey]:
    """Read all pages of a sweep without writing; yield the counts. Raises ConfigError, WeboidError."""
    settings = WikiSettings.parse(wiki.settings).feed
    facts = await source.facts()
    trees = await page_criteria.read_trees(source, settings, facts, now=clock.now())
    criteria = page_criteria.compile_criteria(settings, facts, trees)

    def read_rules() -> WikiRules:
        with store.reading() as connection:
            return RuleBook().rules_of(connection, wiki.id)

    rules = await asyncio.to_thread(read_rules)
    survey = SweepSurvey(expected=await source.size(criteria.namespaces))
    yield survey
    for at in sweep_lists(criteria, facts):
        async for listing in source.whole_listing(at.kind, at.name):
            ids = [each.page_id for each in listing.pages if each.namespace in criteria.namespaces]
            for some in split_batches(ids):
                read = await read_page_batch(source, no_citations, criteria, ids=some)
                for page in read.pages:
                    reason = criteria.refusal(page)
                    if reason is not None:
                        survey.refused[reason] += 1
                        continue
                    survey.pages += 1
                    survey.links.update(link.sort for link in sorted_links(page_urls(page, facts.interwikis), rules))
                yield survey
