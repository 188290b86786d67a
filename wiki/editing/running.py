"""A run of the bot over a wiki: recover, watch, then page by page, gently, until done or stopped.

    bot = Bot(store, api, wiki, makers, timing, job=new_job(now, chance))
    tally = await bot.run(Wish(limit=100), told=print)

Nothing is edited unless the wiki's settings say ``bot.enabled`` and name an account. These are read anew
before each batch of pages (B01), so that switching the bot off stops it within a minute. Two runs never
edit one wiki at once. A run that is killed at whatever point loses nothing and does nothing twice: the next
begins with what the first left open.
"""

import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from core.errors import InputError, WeboidError
from links.books.edits import (
    PARTLY,
    STANDING,
    Edit,
    EditKind,
    EditState,
    Lately,
    done_lately,
    edits_of_page,
    end_turn,
    held_links,
    last_made,
    take_turn,
)
from links.books.wikis import Wiki, wiki_of
from links.days import day_of
from links.reporters import Reporters
from links.store.store import Store
from wiki.api.client import Api
from wiki.api.edits import Me, StoppedError
from wiki.api.revisions import Head, heads
from wiki.editing.acting import Bench, Did, Outcome, Steps, Task, mend, task_basis
from wiki.editing.copy_looks import CopyLooks
from wiki.editing.crafts import Craft
from wiki.editing.deciding import Choosing
from wiki.editing.guarding import Guard, Timing
from wiki.editing.recovering import recover
from wiki.editing.talking import tell
from wiki.editing.tasks import AT_ONCE, pages_named, pages_to_mend, swept_lately, tasks_for
from wiki.editing.watching import Watch, look, watch
from wiki.editing.wikitexts import account_name
from wiki.settings import BotSettings, WikiSettings

log = logging.getLogger(__name__)

TURN_S: Final = 900  # a killed run keeps others out for so long
REFUSED_DAYS: Final = 7  # a page that refused us is left alone for so long, unless it changes
REFUSALS: Final = 5  # in a row: something else is wrong
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class Wish:
    """What a run should do.

    Attributes:
        titles: only these pages; empty: all that the registry knows to have something to mend.
        limit: edits at most (in a dry run: proposals); None: any number.
        is_dry: nothing is written, on the wiki or in the book.
    """

    titles: tuple[str, ...] = ()
    limit: int | None = None
    is_dry: bool = False


@dataclass(frozen=True)
class Makers:
    """What a run is given by whoever starts it.

    Attributes:
        craft: reads and repairs this wiki's text, as the settings want it.
        choosing: what copies are chosen by, at that moment, with the settings.
        looks: looks at copies before they are cited.
        reporters: makes digests of who reports; None: nobody is noted.
        step: told of each step.
        is_over: whether the run is to end with the page that it is at.
        adjust: what a dry run sets other than the registry.
    """

    craft: Callable[[datetime, BotSettings], Craft]
    choosing: Callable[[datetime, BotSettings], Choosing]
    looks: CopyLooks
    reporters: Reporters | None = None
    step: Steps = lambda _name: None
    is_over: Callable[[], bool] = lambda: False
    adjust: Callable[[BotSettings], BotSettings] = lambda settings: settings


@dataclass
class Tally:
    """What a run did.

    Attributes:
        did: pages, by what came of them.
        changes: by their kind.
        refused: links that have a remedy and were left as they are, by the reason.
        skipped: pages that are as they were when there was nothing to do.
        settled: edits of an earlier run of which it is known now whether they were made.
        undone: edits that were taken back since the last run.
        to_review: those of them that await a review; the others went with edits of others, or were
            undone with the bot's own account.
        messages: left on talk pages.
        unknown: titles that the registry does not know.
    """

    did: Counter[Did] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    settled: int = 0
    undone: int = 0
    to_review: int = 0
    messages: int = 0
    unknown: tuple[str, ...] = ()

    def note(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.did[outcome.did] += 1
        if outcome.repaired is not None:
            self.refused.update(str(each.reason) for each in outcome.repaired.refused)
        if outcome.did in (Did.EDITED, Did.PROPOSED) and outcome.repaired is not None:
            self.changes.update(str(change.kind) for change in outcome.repaired.changes)

    @property
    def made(self) -> int:
        """Edits, or proposals."""
        return self.did[Did.EDITED] + self.did[Did.PROPOSED]


class Bot:
    """Edits one wiki. Belongs to one event loop; owns nothing that it is given."""

    def __init__(
        self, store: Store, api: Api, wiki: Wiki, makers: Makers, timing: Timing, *, job: str
    ) -> None:
        """Take the registry, the wiki, how it is read, and the run's name."""
        self._store = store
        self._api = api
        self._wiki = wiki
        self._makers = makers
        self._timing = timing
        self._job = job
        self._refusals = 0
        self._broken = 0  # pages in a row
        self._turn_s = TURN_S

    async def run(
        self, wish: Wish = Wish(), *, told: Callable[[Outcome | Edit], None] = lambda _each: None
    ) -> Tally:
        """Do what is wished; what was done.

        Args:
            wish: what to do.
            told: told of each page as it is done, and of each edit that was found undone.

        Raises:
            InputError: the bot is switched off, or lacks an account.
            BotBusyError: another run edits the wiki.
            StoppedError: nothing may be edited until a person did something.
            WikiAwayError: the wiki does not answer, is read-only, or wants to be left alone.
        """
        tally = Tally()
        settings = self._settings()
        guard = self._guard(settings)
        if wish.is_dry:
            await self._work(wish, guard, tally, told)
            return tally
        check_settings(settings, str(self._wiki.name))
        await guard.ask()
        # Between two edits the turn must not end, however far apart they are.
        self._turn_s = TURN_S + int(2 * 60 / settings.edits_per_minute)
        with self._turn():
            waiting = await self._look_back(settings, guard.me, tally, told)
            await self._work(wish, guard, tally, told, waiting=waiting)
        return tally

    async def look_back(self, *, told: Callable[[Outcome | Edit], None] = lambda _e: None) -> Tally:
        """Only see what became of earlier edits; raises as `run`."""
        tally = Tally()
        settings = self._settings()
        me = Me(account_name(settings.account))
        with self._turn():
            await self._look_back(settings, me, tally, told, is_eager=True)
        return tally

    async def _look_back(
        self,
        settings: BotSettings,
        me: Me,
        tally: Tally,
        told: Callable[[Outcome | Edit], None],
        *,
        is_eager: bool = False,
    ) -> frozenset[int]:
        now = self._timing.clock.now()
        settled, waiting = await recover(
            self._store, self._api, self._wiki.id, me=me.name, now=int(now.timestamp())
        )
        tally.settled = len(settled)
        found = await watch(self._watch(settings, me.name), is_eager=is_eager, told=told)
        tally.undone = sum(each.state in _UNDONE for each in found)
        tally.to_review = sum(each.state is EditState.REVERTED for each in found)
        return waiting

    async def _work(
        self,
        wish: Wish,
        guard: Guard,
        tally: Tally,
        told: Callable[[Outcome | Edit], None],
        *,
        waiting: frozenset[int] = frozenset(),
    ) -> None:
        seen: set[int] = set()
        limit = float("inf") if wish.limit is None else wish.limit
        for page_ids in self._batches(wish, tally):
            settings = self._settings()
            if not wish.is_dry:
                check_settings(settings, str(self._wiki.name))
            fresh = [each for each in page_ids if each not in seen and each not in waiting]
            seen.update(fresh)
            bench = self._bench(settings, guard)
            async for task, head in self._tasks(bench, fresh, wish, tally):
                outcome = await self._guarded(bench, task, head, wish, tally)
                told(outcome)
                if self._makers.is_over() or tally.made + tally.messages >= limit:
                    return

    def _batches(self, wish: Wish, tally: Tally) -> Iterable[list[int]]:
        if not wish.titles:
            return pages_to_mend(self._store, self._wiki)
        ids, unknown = pages_named(self._store, self._wiki, wish.titles)
        tally.unknown = tuple(unknown)
        return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]

    async def _tasks(
        self, bench: Bench, page_ids: list[int], wish: Wish, tally: Tally
    ) -> AsyncIterator[tuple[Task, Head]]:
        """The pages that are worth a look now, one after the other."""
        now = self._timing.clock.now()
        moment, day = int(now.timestamp()), day_of(now)
        tasks = tasks_for(self._store, self._wiki, page_ids, now=moment, day=day)
        there = await heads(self._api, [task.page_id for task in tasks])
        with self._store.reading() as rows:
            lately = done_lately(rows, self._wiki.id, [task.page_id for task in tasks])
        for task in tasks:
            head = there.get(task.page_id)
            if head is None or not head.rev_id:
                tally.did[Did.GONE] += 1
            elif head.is_redirect:
                tally.did[Did.UNFIT] += 1
            elif not wish.titles and is_done(task, head, lately, bench.settings, now=moment):
                tally.skipped += 1
            else:
                yield task, head

    async def _guarded(
        self, bench: Bench, task: Task, head: Head, wish: Wish, tally: Tally
    ) -> Outcome:
        """Do one page; an internal error costs no other page anything.

        Raises:
            StoppedError: page after page ended so; or as `_one`.
        """
        try:
            if not wish.is_dry:
                task = await self._looked_after(bench, task, head, tally)
                self._keep_turn()
            outcome = await self._one(bench, task, wish, tally)
        except WeboidError:
            raise
        except Exception as error:
            log.exception("%s: page %s failed", self._wiki.name, task.page_id)
            note = f"Internal error of Weboid: {type(error).__name__}."
            outcome = Outcome(Did.BROKEN, task.page_id, task.title, note=note)
            tally.note(outcome)
            self._broken += 1
            if self._broken >= REFUSALS:
                raise StoppedError(
                    f"{REFUSALS} pages in a row ended with an internal error of Weboid, the last "
                    f"{type(error).__name__}: {error}. The log has each with its traceback: please "
                    "report it."
                ) from error
        else:
            self._broken = 0
        return outcome

    async def _looked_after(self, bench: Bench, task: Task, head: Head, tally: Tally) -> Task:
        """The task, without links of which an earlier edit on the page was undone (B14).

        What stood for a month is no longer watched; so before anything is repeated, it is looked why it
        is not there.
        """
        with self._store.reading() as rows:
            done = edits_of_page(rows, self._wiki.id, task.page_id)
        links = {known.url_id for known in task.known.values()}
        undone = 0
        for edit in done:
            is_made = edit.kind is EditKind.PAGE and edit.state in (*STANDING, *PARTLY)
            if not is_made or edit.rev in (None, head.rev_id):
                continue
            if links & {change.url_id for change in edit.changes if not change.is_undone}:
                watching = self._watch(bench.settings, bench.guard.me.name)
                found = await look(watching, edit, head)
                is_undone = found.state in _UNDONE and found.changes != edit.changes
                undone += is_undone
                tally.to_review += is_undone and found.state is EditState.REVERTED
        if not undone:
            return task
        tally.undone += undone
        with self._store.reading() as rows:
            held = held_links(rows, self._wiki.id, [task.page_id]).get(task.page_id, {})
            done = edits_of_page(rows, self._wiki.id, task.page_id)
        held |= swept_lately(done, int(self._timing.clock.now().timestamp()))
        return Task(task.page_id, task.title, task.known, held)

    async def _one(self, bench: Bench, task: Task, wish: Wish, tally: Tally) -> Outcome:
        only_talk = bench.settings.talk == "only"
        outcome = await mend(bench, task, is_dry=wish.is_dry or only_talk)
        wants_talk = bench.settings.talk in ("beside", "only") and not wish.is_dry
        if wants_talk and outcome.did in (Did.EDITED, Did.PROPOSED):
            is_done = outcome.did is Did.EDITED
            tally.messages += await tell(bench, task, outcome, is_done=is_done)
        if only_talk and not wish.is_dry and outcome.did is Did.PROPOSED:
            tally.changes.update(str(each.kind) for each in outcome.repaired.changes)  # type: ignore[union-attr]
        else:
            tally.note(outcome)
        self._refusals = self._refusals + 1 if outcome.did is Did.REFUSED else 0
        if self._refusals >= REFUSALS:
            raise StoppedError(
                f"{REFUSALS} pages in a row could not be edited; the last: {outcome.note}"
                " The wiki may not want this bot: ask its administrators."
            )
        return outcome

    def _settings(self) -> BotSettings:
        with self._store.reading() as rows:
            said = WikiSettings.parse(wiki_of(rows, self._wiki.id).settings).bot
        return self._makers.adjust(said)

    def _guard(self, settings: BotSettings) -> Guard:
        with self._store.reading() as rows:
            last = last_made(rows, self._wiki.id)
        since = self._timing.clock.now().timestamp() - last
        return Guard(self._api, settings, self._timing, since_last_s=since)

    def _bench(self, settings: BotSettings, guard: Guard) -> Bench:
        return Bench(
            self._store,
            self._api,
            self._makers.craft(self._timing.clock.now(), settings),
            guard,
            self._makers.choosing(self._timing.clock.now(), settings),
            settings,
            self._wiki.id,
            self._job,
            self._makers.looks,
            self._makers.step,
        )

    def _watch(self, settings: BotSettings, me: str) -> Watch:
        return Watch(
            self._store,
            self._api,
            self._makers.craft(self._timing.clock.now(), settings),
            self._wiki.id,
            me,
            self._timing.clock.now(),
            self._makers.reporters,
            self._keep_turn,
        )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._keep_turn()
        try:
            yield
        finally:
            with self._store.writing() as rows:
                end_turn(rows, self._wiki.id, self._job)

    def _keep_turn(self) -> None:
        now = int(self._timing.clock.now().timestamp())
        with self._store.writing() as rows:
            take_turn(rows, self._wiki.id, self._job, now=now, length_s=self._turn_s)


_UNDONE: Final = (EditState.REVERTED, EditState.ACCEPTED, EditState.SWEPT)


def check_settings(settings: BotSettings, name: str) -> None:
    """See that the operator wants edits, and said who makes them.

    Raises:
        InputError: not so; the text says what to do.
    """
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


def is_done(
    task: Task, head: Head, lately: Mapping[int, Lately], settings: BotSettings, *, now: int
) -> bool:
    """Whether nothing has changed since there was nothing to do, or the page refused us."""
    last = lately.get(task.page_id)
    if last is None or last.base_rev != head.rev_id:
        return False
    if last.state is EditState.NOTHING:
        return last.basis is None or last.basis == task_basis(task, settings)
    return last.state is EditState.FAILED and now - last.moment < REFUSED_DAYS * _DAY_S


def new_job(now: datetime, chance: random.Random) -> str:
    """A name for a run, short enough for a summary.

    >>> new_job(datetime(2026, 11, 21), random.Random(1))
    '20261121-2265b1'
    """
    return f"{now:%Y%m%d}-{chance.getrandbits(24):06x}"
