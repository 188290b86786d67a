"""Run of the bot over a wiki: recovery, watch, page edits, talk page messages.

Talk page messages: one section per page, at most one in thirty days, never the same twice. Settings are read again
before each batch of pages (B01), so that disabling the bot stops it within a minute.
"""

import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from core.errors import InputError, PermanentError, WeboidError
from links.check_history import day_of
from links.feedback.reporter_limits import ReporterDigests
from links.registry import bot_edits
from links.registry.database import RegistryStore
from links.registry.wikis import Wiki, wiki_of
from wiki.api.client import ApiTiming, WikiApi
from wiki.api.edit_request import BotAccount, EditGuard, EditingStoppedError, EditOptions, add_section, may_message
from wiki.api.models import ReadOnlyError, ThrottledError, WikiAwayError, WikiPage, split_batches
from wiki.api.page_query import read_heads, read_now, read_text
from wiki.bot.page_edit import (
    EditContext,
    EditTask,
    PageEditResult,
    PageEditStatus,
    StepCallback,
    draft_changes,
    drop_intended,
    edit_page,
    settle_edit,
    task_basis,
)
from wiki.bot.page_selection import edit_tasks, pages_named, pages_to_edit, swept_lately
from wiki.bot.past_edits import EditWatch, check_edit, check_edits, recover_edits
from wiki.bot.remedies import CopyChecker, CopyPreferences
from wiki.bot.wikitext_adapter import PageAdapter, account_name
from wiki.settings import BotSettings, WikiSettings

MESSAGE_GAP_S: Final = 30 * 86_400
_LEFT: Final = (bot_edits.EditState.MADE, bot_edits.EditState.INTENDED, bot_edits.EditState.KEPT)


async def post_message(context: EditContext, task: EditTask, outcome: PageEditResult, *, is_done: bool) -> bool:
    """Post a message on the talk page; return True if posted. EditingStoppedError; WikiAwayError: it may be there."""
    if outcome.repaired is None:
        return False
    changes = draft_changes(task, outcome.repaired)
    with context.store.reading() as rows:
        done = bot_edits.edits_of_page(rows, context.wiki_id, outcome.page_id)
    left = [each for each in done if each.kind is bot_edits.EditKind.TALK and each.state in _LEFT]
    posted = {(change.url_id, change.kind) for each in left for change in each.changes}
    is_new = any((change.url_id, change.kind) not in posted for change in changes)
    if not is_new or any(context.moment - each.moment < MESSAGE_GAP_S for each in left):
        return False
    await context.guard.wait()
    await context.guard.check()
    page = await read_now(context.api, outcome.page_id)
    if page.is_missing or not page.talk_title:
        return False
    talk_text = await read_text(context.api, page.talk_title)
    if talk_text is not None and not may_message(talk_text, context.adapter.options.bot):
        return False
    repaired = outcome.repaired
    message = context.adapter.message(repaired, context.job, is_done=is_done)
    wanted = bot_edits.IntendedEdit(page.page_id, context.job, page.rev_id, "", bot_edits.EditKind.TALK, changes)
    with context.store.writing() as rows:
        number = bot_edits.record_intended_edit(rows, context.wiki_id, wanted, moment=context.moment)
    saving = EditOptions(
        context.adapter.summary(repaired, context.job), is_minor=False, is_marked=context.settings.mark
    )
    state, note, rev = bot_edits.EditState.FAILED, "", None
    try:
        edit = await add_section(context.api, page.talk_title, message.heading, message.text, saving)
        state, rev = bot_edits.EditState.MADE, edit.rev
    except PermanentError as error:
        note = str(error)
    except WikiAwayError as error:
        if error.is_unsent or isinstance(error, ReadOnlyError | ThrottledError):
            drop_intended(context, number)
        raise
    finally:
        context.guard.made()
    settle_edit(context, number, state, rev=rev, note=note)
    return state is bot_edits.EditState.MADE


log = logging.getLogger(__name__)

LEASE_S: Final = 900  # a killed run keeps others out for so long
REFUSED_DAYS: Final = 7  # pause after a refused edit, unless the page changes
REFUSALS_LIMIT: Final = 5  # in a row: there is another problem
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class BotOptions:
    """Options of a run."""

    titles: tuple[str, ...] = ()  # empty: all that need repairs according to the registry
    limit: int | None = None  # maximum number of edits (in a dry run: proposals); None: unlimited
    is_dry: bool = False  # write nothing, neither on the wiki nor in the edit log
    approved: str = ""  # `PageEditResult.digest` of the only edit that may be made; empty: any


@dataclass(frozen=True)
class BotDependencies:
    """Dependencies of a run, supplied by its caller."""

    adapter: Callable[[BotSettings, datetime], PageAdapter]  # creates the wikitext adapter
    choosing: CopyPreferences  # used with the current time
    copy_checker: CopyChecker  # checks copies before they are cited
    reporters: ReporterDigests | None = None  # None: reporters are not recorded
    step: StepCallback = lambda _name: None  # progress callback
    is_over: Callable[[], bool] = lambda: False  # predicate: end the run after the current page
    adjust: Callable[[BotSettings], BotSettings] = lambda settings: settings  # for a dry run


@dataclass
class BotRunSummary:
    """Counts of a run."""

    did: Counter[PageEditStatus] = field(default_factory=Counter)  # pages, by outcome
    changes: Counter[str] = field(default_factory=Counter)  # by kind
    refused: Counter[str] = field(default_factory=Counter)  # links left although a remedy exists
    skipped: int = 0  # unchanged pages that needed no edit before
    settled: int = 0  # edits of an earlier run whose outcome is now known
    undone: int = 0  # edits reverted since the last run
    to_review: int = 0  # neither undone with others' edits nor by the bot's account
    messages: int = 0  # posted on talk pages
    unknown: tuple[str, ...] = ()  # titles that the registry does not have

    def note(self, outcome: PageEditResult) -> None:
        """Count a page's outcome."""
        self.did[outcome.did] += 1
        if outcome.repaired is not None:
            self.refused.update(str(each.reason) for each in outcome.repaired.refused)
        if outcome.did in (PageEditStatus.EDITED, PageEditStatus.PROPOSED) and outcome.repaired is not None:
            self.changes.update(str(change.kind) for change in outcome.repaired.changes)

    @property
    def made(self) -> int:
        """Return the number of edits or proposals."""
        return self.did[PageEditStatus.EDITED] + self.did[PageEditStatus.PROPOSED]


@dataclass
class WikiBot:
    """Bot for one wiki, for one run. Belongs to one event loop; does not own its dependencies."""

    store: RegistryStore
    api: WikiApi
    wiki: Wiki
    dependencies: BotDependencies
    timing: ApiTiming
    job: str
    # receives each page's result, and each edit found undone
    on_result: Callable[[PageEditResult | bot_edits.BotEdit], None] = lambda _each: None
    run_options: BotOptions = BotOptions()
    tally: BotRunSummary = field(default_factory=BotRunSummary)
    _refusals: int = 0  # pages in a row
    _broken: int = 0  # pages in a row
    _turn_s: int = LEASE_S

    async def run(self) -> BotRunSummary:
        """Run the bot and return its summary.

        Raises InputError: the bot is disabled or lacks an account; BotBusyError: another run edits the wiki;
        EditingStoppedError: an operator must intervene; WikiAwayError: the wiki is away, read-only or wants a pause.
        """
        settings = self._settings()
        with self.store.reading() as rows:
            last = bot_edits.last_made(rows, self.wiki.id)
        guard = EditGuard(self.api, settings, self.timing, since_last_s=self.timing.clock.now().timestamp() - last)
        if self.run_options.is_dry:
            await self._work(guard)
            return self.tally
        check_settings(settings, str(self.wiki.name))
        await guard.check()
        # The lease must not expire between two edits, however far apart they are.
        self._turn_s = LEASE_S + int(2 * 60 / settings.edits_per_minute)
        with self._turn():
            waiting = await self._look_back(settings, guard.me)
            await self._work(guard, waiting)
        return self.tally

    async def look_back(self) -> BotRunSummary:
        """Check the outcome of earlier edits only; raises as `run`."""
        settings = self._settings()
        with self._turn():
            await self._look_back(settings, BotAccount(account_name(settings.account)), is_eager=True)
        return self.tally

    async def _look_back(self, settings: BotSettings, me: BotAccount, *, is_eager: bool = False) -> frozenset[int]:
        now = self.timing.clock.now()
        settled, waiting = await recover_edits(self.store, self.api, self.wiki.id, me=me.name, now=int(now.timestamp()))
        self.tally.settled = len(settled)
        undone = await check_edits(self._watch(settings, me.name), is_eager=is_eager, on_undone=self.on_result)
        self.tally.undone = sum(each.state in _UNDONE for each in undone)
        self.tally.to_review = sum(each.state is bot_edits.EditState.REVERTED for each in undone)
        return waiting

    async def _work(self, guard: EditGuard, waiting: frozenset[int] = frozenset()) -> None:
        seen: set[int] = set(waiting)
        limit = float("inf") if self.run_options.limit is None else self.run_options.limit
        wanted: Iterable[int] = pages_to_edit(self.store, self.wiki)
        if self.run_options.titles:
            wanted, self.tally.unknown = pages_named(self.store, self.wiki, self.run_options.titles)
        for page_ids in split_batches(wanted):
            settings = self._settings()
            if not self.run_options.is_dry:
                check_settings(settings, str(self.wiki.name))
            fresh = [each for each in page_ids if each not in seen]
            seen.update(fresh)
            now, dependencies = self.timing.clock.now(), self.dependencies
            adapter, choosing = dependencies.adapter(settings, now), replace(dependencies.choosing, now=now)
            which = (self.wiki.id, self.job, dependencies.copy_checker, dependencies.step, self.run_options.approved)
            context = EditContext(self.store, self.api, adapter, guard, choosing, settings, *which)
            async for task, head in self._tasks(context, fresh):
                self.on_result(await self._guarded(context, task, head))
                if self.dependencies.is_over() or self.tally.made + self.tally.messages >= limit:
                    return

    async def _tasks(self, context: EditContext, page_ids: list[int]) -> AsyncIterator[tuple[EditTask, WikiPage]]:
        now = self.timing.clock.now()
        moment, day = int(now.timestamp()), day_of(now)
        tasks = edit_tasks(self.store, self.wiki, page_ids, context.settings, now=moment, day=day)
        heads = await read_heads(self.api, [task.page_id for task in tasks])
        with self.store.reading() as rows:
            lately = bot_edits.last_edits(rows, self.wiki.id, [task.page_id for task in tasks])
        for task in tasks:
            head = heads.get(task.page_id)
            if context.settings.is_off_for(title=task.title):
                self.tally.did[PageEditStatus.OFF] += 1
            elif head is None or not head.rev_id:
                self.tally.did[PageEditStatus.GONE] += 1
            elif head.is_redirect:
                self.tally.did[PageEditStatus.UNFIT] += 1
            elif not self.run_options.titles and needs_no_edit(task, head, lately, context.settings, now=moment):
                self.tally.skipped += 1
            else:
                yield task, head

    async def _guarded(self, context: EditContext, task: EditTask, head: WikiPage) -> PageEditResult:
        """Process one page; an internal error does not affect others, unless several in a row fail so."""
        try:
            if not self.run_options.is_dry:
                task = await self._looked_after(context, task, head)
                self._keep_turn()
            outcome = await self._one(context, task)
        except WeboidError:
            raise
        except Exception as error:
            log.exception("%s: page %s failed", self.wiki.name, task.page_id)
            note = f"Internal error of Weboid: {type(error).__name__}."
            outcome = PageEditResult(PageEditStatus.BROKEN, task.page_id, task.title, note=note)
            self.tally.note(outcome)
            self._broken += 1
            if self._broken >= REFUSALS_LIMIT:
                raise EditingStoppedError(
                    f"{REFUSALS_LIMIT} pages in a row ended with an internal error of Weboid, the last "
                    f"{type(error).__name__}: {error}. The log has each with its traceback: please "
                    "report it."
                ) from error
        else:
            self._broken = 0
        return outcome

    async def _looked_after(self, context: EditContext, task: EditTask, head: WikiPage) -> EditTask:
        """Remove links whose earlier edit on the page was undone (B14), also longer than a month ago."""
        with self.store.reading() as rows:
            done = bot_edits.edits_of_page(rows, self.wiki.id, task.page_id)
        links = {known.url_id for known in task.known.values()}
        undone = 0
        for edit in done:
            is_made = edit.kind is bot_edits.EditKind.PAGE and edit.state in (*bot_edits.STANDING, *bot_edits.PARTLY)
            if not is_made or edit.rev in (None, head.rev_id):
                continue
            if links & {change.url_id for change in edit.changes if not change.is_undone}:
                outcome = await check_edit(self._watch(context.settings, context.guard.me.name), edit, head)
                is_undone = outcome.state in _UNDONE and outcome.changes != edit.changes
                undone += is_undone
                self.tally.to_review += is_undone and outcome.state is bot_edits.EditState.REVERTED
        if not undone:
            return task
        self.tally.undone += undone
        with self.store.reading() as rows:
            held = bot_edits.held_links(rows, self.wiki.id, [task.page_id]).get(task.page_id, {})
            done = bot_edits.edits_of_page(rows, self.wiki.id, task.page_id)
        held |= swept_lately(done, int(self.timing.clock.now().timestamp()))
        return EditTask(task.page_id, task.title, task.known, held)

    async def _one(self, context: EditContext, task: EditTask) -> PageEditResult:
        only_talk = context.settings.talk == "only"
        outcome = await edit_page(context, task, is_dry=self.run_options.is_dry or only_talk)
        wants_talk = context.settings.talk in ("beside", "only") and not self.run_options.is_dry
        if wants_talk and outcome.did in (PageEditStatus.EDITED, PageEditStatus.PROPOSED):
            is_done = outcome.did is PageEditStatus.EDITED
            self.tally.messages += await post_message(context, task, outcome, is_done=is_done)
        if only_talk and not self.run_options.is_dry and outcome.did is PageEditStatus.PROPOSED:
            self.tally.changes.update(str(each.kind) for each in outcome.repaired.changes)  # type: ignore[union-attr]
        else:
            self.tally.note(outcome)
        self._refusals = self._refusals + 1 if outcome.did is PageEditStatus.REFUSED else 0
        if self._refusals >= REFUSALS_LIMIT:
            raise EditingStoppedError(
                f"{REFUSALS_LIMIT} pages in a row could not be edited; the last: {outcome.note}"
                " The wiki may not want this bot: ask its administrators."
            )
        return outcome

    def _settings(self) -> BotSettings:
        with self.store.reading() as rows:
            return self.dependencies.adjust(WikiSettings.parse(wiki_of(rows, self.wiki.id).settings).bot)

    def _watch(self, settings: BotSettings, me: str) -> EditWatch:
        now = self.timing.clock.now()
        adapter, reporters = self.dependencies.adapter(settings, now), self.dependencies.reporters
        return EditWatch(self.store, self.api, adapter, self.wiki.id, me, now, reporters, self._keep_turn)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._keep_turn()
        try:
            yield
        finally:
            with self.store.writing() as rows:
                bot_edits.release_edit_lock(rows, self.wiki.id, self.job)

    def _keep_turn(self) -> None:
        now = int(self.timing.clock.now().timestamp())
        with self.store.writing() as rows:
            bot_edits.take_edit_lock(rows, self.wiki.id, self.job, now=now, length_s=self._turn_s)


_UNDONE: Final = (bot_edits.EditState.REVERTED, bot_edits.EditState.ACCEPTED, bot_edits.EditState.SWEPT)


def check_settings(settings: BotSettings, name: str) -> None:
    """Check that the bot is enabled and has an account; else InputError describes the setting."""
    if not settings.enabled:
        raise InputError(
            f"The bot is off for {name}. `weboid wiki bot on {name} --account USER@APP --password-file"
            " FILE` switches it on; --dry-run shows what it would do."
        )
    if not settings.account or not settings.password_file:
        raise InputError(
            f"The bot needs an account of its own on {name}: `weboid wiki bot on {name} --account"
            " USER@APP --password-file FILE`."
        )
    if settings.edits_per_minute <= 0:
        raise InputError("bot.edits_per_minute must be above 0.")


def needs_no_edit(
    task: EditTask, head: WikiPage, lately: Mapping[int, bot_edits.LastEdit], settings: BotSettings, *, now: int
) -> bool:
    """Return True if nothing changed since the page needed no edit, or the page refused the bot."""
    last = lately.get(task.page_id)
    if last is None or last.base_rev != head.rev_id:
        return False
    if last.state is bot_edits.EditState.NOTHING:
        return last.basis is None or last.basis == task_basis(task, settings)
    return last.state is bot_edits.EditState.FAILED and now - last.moment < REFUSED_DAYS * _DAY_S


def new_job_name(now: datetime, chance: random.Random) -> str:
    """Create a name for a run, short enough for an edit summary.

    >>> new_job_name(datetime(2026, 11, 21), random.Random(1))
    '20261121-2265b1'
    """
    return f"{now:%Y%m%d}-{chance.getrandbits(24):06x}"
