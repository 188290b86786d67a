"""One item from its claim to its end.

    host down? ─> finished before? ─> rules: before ─> visit ─> rules: after ─> links, rests
                                                                                     │
                                                    end of the claim <─ manifest <───╯

Nothing that follows from a visit may be lost, and done means durable: links join the frontier before
the page's manifest is written, and the item ends after. Who dies in between leaves an item that is
claimed again and either visited again, which adds no link twice, or found finished by its manifest.
The manifest is written only while the claim is ours, so that a page is captured once.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from core.classes import WITHHELD
from core.clock import Clock
from core.errors import (
    BrowserUnavailableError,
    DedupUnavailableError,
    DiskFullError,
    IndexUnavailableError,
    LimitReachedError,
    ProxyUnavailableError,
    WeboidError,
)
from core.pages import Outcome, PageInfo
from core.settings import Settings
from crawler.events import Event, LinksAdded, PageDone, PagePutOff, PageSkipped, PageTriedAgain
from crawler.frontier.base import Frontier, FrontierItem, ItemState, NewItem
from crawler.logins import NO_LOGINS, Logins
from crawler.network import Network, NetworkAwayError
from crawler.patience import Patience
from crawler.plain import PlainVisits, is_rendered
from crawler.policy.rule import PolicyRule
from crawler.recrawl import RecrawlRule
from crawler.room import Room
from crawler.rules import VISIT, Action, Aftermath, BackOff, Rule, Verdict
from crawler.space import Space
from crawler.supervisor import Supervisor
from crawler.turns import Turns
from crawler.visiting import Captured, Wanted, capture
from proxy.index.protocol import CaptureIndex

log = logging.getLogger(__name__)

DEATHS = 5  # browsers or proxies that a page may see die before it counts as an attempt
WORTH_TELLING = timedelta(seconds=10)  # a shorter wait is nobody's concern
NO_REST = timedelta(0)  # the host was not asked
NOT_THE_PAGES_FAULT = (
    DiskFullError,
    LimitReachedError,
    DedupUnavailableError,
)
LINKS_AT_ONCE = 1_000  # a store is not kept from others for longer

_T = TypeVar("_T")


class ClaimLostError(WeboidError):
    """The lease ran out and another worker has the item: leave everything to it."""


@dataclass(slots=True)
class Means:
    """What errands are done with; one for all workers of a process.

    Attributes:
        rules: asked in this order.
        settings_for: the settings that hold for an item.
        policy: the one of the rules that says whether what was seen may be kept.
        recrawl: the one of the rules that says when a page is due again.
        turns: says whose turn a link takes.
        space: the collection's disk; None when proxies elsewhere look after theirs.
        room: this machine's memory.
        plain: fetches pages that are not rendered; None: all are.
        network: tells a dead host from a dead network.
        logins: what pages of some hosts are visited with.
        report: told what happens, as it happens.
    """

    frontier: Frontier
    supervisor: Supervisor
    index: CaptureIndex
    rules: Sequence[Rule]
    settings_for: Callable[[FrontierItem], Settings]
    policy: PolicyRule
    recrawl: RecrawlRule
    turns: Turns
    space: Space | None
    room: Room
    network: Network
    patience: Patience
    plain: PlainVisits | None
    clock: Clock
    report: Callable[[Event], None]
    logins: Logins = NO_LOGINS
    deaths: Counter[str] = field(default_factory=Counter)


class Errand:
    """One item's way. `run` it once."""

    def __init__(self, item: FrontierItem, means: Means) -> None:
        self._item = item
        self._means = means
        self._settings = means.settings_for(item)
        self._aftermath = Aftermath()

    async def run(self) -> None:
        """Do what is to be done with the item, and end its claim.

        Raises:
            DiskFullError, LimitReachedError, DedupUnavailableError: no page
                can be kept at the moment; the item was given back.
            ClaimLostError: another worker has it.
        """
        item = self._item
        if item.host_down:
            await self._fail(f"host down: {item.host_down}", delay=NO_REST)
            return
        if await self._was_finished():
            return
        try:
            verdict = await self._judge()
            if verdict.action is Action.VISIT:
                await self._visit()
            else:
                await self._refuse(verdict)
        except NOT_THE_PAGES_FAULT as error:
            await self._give_back(str(error))
            low = self._means.space is None or self._means.space.is_low()
            if not (isinstance(error, DiskFullError) and low):
                raise  # waiting for space would not help
        except (BrowserUnavailableError, ProxyUnavailableError) as error:
            await self._survive(error)
        except ClaimLostError:
            raise
        except (NetworkAwayError, IndexUnavailableError) as error:
            await self._give_back(str(error))
        except WeboidError as error:
            log.warning("visit.failed url=%s error=%s", item.url, error)
            await self._retry(str(error))

    async def _was_finished(self) -> bool:
        """Complete an item whose visit was over before its worker could say so."""
        item, means = self._item, self._means
        outcome = await self._ask(lambda: means.index.page_outcome(item.id))
        if outcome is None:
            return False
        if outcome is Outcome.FAILED:
            await self._fail("failed, as its manifest says", delay=NO_REST, attempts=-1)
        elif outcome is Outcome.SKIPPED:
            await self._skip("skipped, as its manifest says", delay=NO_REST)
        else:
            means.recrawl.schedule(item, None, self._aftermath, now=self._now())
            await self._complete(outcome, None, delay=NO_REST, attempts=-1)
        return True

    async def _judge(self) -> Verdict:
        """The word of the first rule that is against a visit."""
        asked = False
        for rule in self._means.rules:
            verdict = await rule.before(self._item, now=self._now())
            asked = asked or verdict.asked
            if verdict.action is not Action.VISIT:
                return Verdict(verdict.action, verdict.reason, verdict.until, asked=asked)
        return VISIT

    async def _refuse(self, verdict: Verdict) -> None:
        item, frontier = self._item, self._means.frontier
        delay = None if verdict.asked else NO_REST
        if verdict.action is Action.SKIP:
            await self._skip(verdict.reason, delay=delay)
        elif verdict.action is Action.FAIL:
            await self._fail(verdict.reason, delay=delay)
        else:
            await self._ask(
                lambda: frontier.release(
                    item, now=self._now(), reason=verdict.reason, not_before=verdict.until
                )
            )
            if verdict.until is not None and verdict.until - self._now() >= WORTH_TELLING:
                self._means.report(PagePutOff(item.url, verdict.reason, verdict.until))

    async def _visit(self) -> None:
        item, means = self._item, self._means
        last_attempt = item.attempts >= self._settings.frontier.attempts
        rendered = not item.hops or is_rendered(item.url, self._settings.visit.rendered_share)
        captured = await capture(
            Wanted(
                item.url,
                item.id,
                last_attempt,
                None if rendered else means.plain,
                means.logins.of(item.url),
            ),
            supervisor=means.supervisor,
            settings=self._settings,
            clock=means.clock,
            before_manifest=self._follow,
            forbids=means.policy.forbids(item),
        )
        page = captured.page
        if captured.again:
            await self._carry_out(captured)
            await self._retry(page.reason or _refused_how(page), page)
        elif page.outcome is Outcome.FAILED:
            await self._fail(page.reason, page=page, delay=self._aftermath.delay)
        elif page.outcome is Outcome.SKIPPED:
            await self._skip(page.reason, page=page, delay=self._aftermath.delay)
        else:
            await self._complete(page.outcome, page, delay=self._rest())

    def _rest(self) -> timedelta | None:
        """How long the host rests after a page that was kept.

        A refusal that was kept, an archived 503 say, has blocked the host for longer than any rest;
        as an answer it would end the row of refusals that the next block's length goes by.
        """
        refused = any(each.host == self._item.host for each in self._aftermath.back_offs)
        return NO_REST if refused else self._aftermath.delay

    async def _follow(self, page: PageInfo) -> None:
        """Make safe what follows from the visit; the manifest may be written when this returns.

        Raises:
            ClaimLostError, NetworkAwayError: it must not be written.
        """
        await self._carry_out(Captured(page))
        item, frontier = self._item, self._means.frontier
        if not await self._ask(lambda: frontier.renew(item, now=self._now())):
            raise ClaimLostError(f"{item.url} was given to another worker meanwhile.")

    async def _carry_out(self, captured: Captured) -> None:
        """Ask the rules what follows, and do all of it but the item's own end."""
        item, means, aftermath = self._item, self._means, self._aftermath
        frontier = means.frontier
        await means.network.judge(captured.page)
        for rule in means.rules:
            await rule.after(item, captured, aftermath, now=self._now())
        await self._add_links()
        if aftermath.rests:
            await self._ask(lambda: frontier.rest(aftermath.rests, now=self._now()))
        for each in aftermath.back_offs:
            await self._back_off(each)

    async def _add_links(self) -> None:
        means, added = self._means, 0
        links = await means.turns.assign(self._aftermath.links)
        for start in range(0, len(links), LINKS_AT_ONCE):
            added += await self._add(links[start : start + LINKS_AT_ONCE])
        if added:
            means.report(LinksAdded(self._item.url, added))

    async def _add(self, links: Sequence[NewItem]) -> int:
        frontier = self._means.frontier
        return (await self._ask(lambda: frontier.add(links, now=self._now()))).added

    async def _back_off(self, wanted: BackOff) -> None:
        frontier = self._means.frontier
        await self._ask(
            lambda: frontier.back_off(
                wanted.host,
                wanted.reason,
                now=self._now(),
                at_least=wanted.at_least,
                down=wanted.down,
            )
        )

    async def _complete(
        self, outcome: Outcome, page: PageInfo | None, *, delay: timedelta | None, attempts: int = 0
    ) -> None:
        item, frontier, aftermath = self._item, self._means.frontier, self._aftermath
        completed = await self._ask(
            lambda: frontier.complete(
                item,
                now=self._now(),
                outcome=str(outcome),
                duration=_duration(page),
                delay=delay,
                stored_bytes=page.stored_bytes if page is not None else 0,
                due=aftermath.due,
                memo=aftermath.memo,
            )
        )
        if completed:
            self._means.report(PageDone(item.url, page, "", item.attempts + attempts))

    async def _fail(
        self,
        reason: str,
        *,
        delay: timedelta | None,
        page: PageInfo | None = None,
        attempts: int = 0,
    ) -> None:
        item, frontier = self._item, self._means.frontier
        failed = await self._ask(
            lambda: frontier.fail(
                item, now=self._now(), reason=reason, duration=_duration(page), delay=delay
            )
        )
        if failed:
            self._means.report(PageDone(item.url, page, reason, item.attempts + attempts))

    async def _skip(
        self, reason: str, *, delay: timedelta | None, page: PageInfo | None = None
    ) -> None:
        item, frontier = self._item, self._means.frontier
        skipped = await self._ask(
            lambda: frontier.skip(
                item, now=self._now(), reason=reason, duration=_duration(page), delay=delay
            )
        )
        if skipped:
            self._means.report(PageSkipped(item.url, reason))

    async def _retry(self, reason: str, page: PageInfo | None = None) -> None:
        item, frontier = self._item, self._means.frontier
        state = await self._ask(
            lambda: frontier.retry(
                item,
                now=self._now(),
                reason=reason,
                duration=_duration(page),
                delay=self._aftermath.delay,
            )
        )
        if state is ItemState.DEAD:
            self._means.report(PageDone(item.url, None, reason, item.attempts))
        elif state is ItemState.QUEUED:
            self._means.report(PageTriedAgain(item.url, reason, item.attempts))

    async def _survive(self, error: WeboidError) -> None:
        """Give back an item whose browser or proxy died: that is seldom the page's fault.

        A page that kills them again and again is to blame after all.
        """
        item, means = self._item, self._means
        means.deaths[item.url] += 1
        if means.deaths[item.url] >= DEATHS:
            del means.deaths[item.url]
            await self._retry(str(error))
            return
        log.warning("visit.interrupted url=%s reason=%s", item.url, error)
        await self._give_back(str(error))

    async def _give_back(self, reason: str) -> None:
        item, means = self._item, self._means
        await self._ask(lambda: give_back(item, means, reason))

    async def _ask(self, verb: Callable[[], _T]) -> _T:
        return await self._means.patience.ask(verb)

    def _now(self) -> datetime:
        return self._means.clock.now()


def give_back(item: FrontierItem, means: Means, reason: str) -> None:
    """Release an item whose visit was broken off: the host may have been asked, so it rests."""
    now = means.clock.now()
    rest = timedelta(seconds=means.settings_for(item).politeness.min_delay_s)
    means.frontier.rest({item.host: now + rest}, now=now)
    means.frontier.release(item, now=now, reason=reason)


def _refused_how(page: PageInfo) -> str:
    """Why a page that came is visited again."""
    return str(page.page_class) if page.page_class in WITHHELD else f"status {page.status}"


def _duration(page: PageInfo | None) -> timedelta | None:
    return timedelta(seconds=page.seconds) if page is not None else None
