"""An item's way from its claim to its end, as far as no browser is needed."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from core.errors import InputError
from core.pages import Outcome, PageInfo
from core.settings import FrontierSettings, PolitenessSettings, RecrawlSettings, Settings
from crawler.browsers import Browsers
from crawler.composing import Stores, compose
from crawler.errand import Errand, Means
from crawler.events import Event, PageDone, PagePutOff, PageSkipped, PageTriedAgain
from crawler.frontier.base import FrontierItem, ItemState, NewItem
from crawler.frontier.sqlite import SqliteFrontier
from crawler.lending import Needs, Proxies
from crawler.rules import Action, Aftermath, Verdict
from crawler.supervisor import Supervisor
from crawler.visiting import Captured
from crawler.worker import STOP_ORDER, Crew
from proxy.index.sqlite import SqliteCaptureIndex
from render.executable import BrowserExecutable

URL, OTHER = "https://a.test/page", "https://a.test/other"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REST = timedelta(seconds=7)


class Still:
    """A clock that stands still."""

    def now(self) -> datetime:
        """Always the same."""
        return NOW

    def monotonic(self) -> float:
        """Always the same."""
        return 0.0


class Says:
    """A rule that says one thing."""

    def __init__(self, verdict: Verdict | Exception) -> None:
        self.verdict = verdict
        self.asked = 0

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:
        """Say it."""
        self.asked += 1
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Nobody may ask."""
        raise AssertionError("nothing was visited")


class Desk:
    """A frontier and an index, with two URLs of one host; and no browser."""

    def __init__(
        self, frontier: SqliteFrontier, index: SqliteCaptureIndex, settings: Settings
    ) -> None:
        self.frontier = frontier
        self.index = index
        self.events: list[Event] = []
        nothing = cast(BrowserExecutable, None)
        browsers = Browsers(settings.browser, nothing, Still(), needs=Needs)
        stores = Stores(frontier, Supervisor(cast(Proxies, None), browsers), index, disk=None)
        self.means: Means = compose(stores, settings, clock=Still(), report=self.events.append)
        frontier.add([NewItem(URL), NewItem(OTHER)], now=NOW)

    def claim(self) -> FrontierItem:
        """The next item."""
        (item,) = self.frontier.claim(now=NOW, worker="w")
        return item

    async def run(self, *rules: Says) -> FrontierItem:
        """Run an errand under these rules."""
        item = self.claim()
        self.means.rules = rules
        await Errand(item, self.means).run()
        return item

    def state(self, url: str = URL) -> tuple[ItemState, str]:
        """What the books say."""
        record = self.frontier.find(url)
        assert record is not None
        return record.state, record.outcome

    def is_ready(self) -> bool:
        """Whether the host may be asked at once."""
        return self.frontier.next_wakeup(NOW) == NOW


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    settings = Settings(
        politeness=PolitenessSettings(min_delay_s=REST.total_seconds(), host_failures=1),
        recrawl=RecrawlSettings(enabled=True),
        frontier=FrontierSettings(attempts=2),
    )
    politeness = settings.politeness
    with (
        SqliteFrontier(tmp_path / "frontier.sqlite", politeness=politeness) as frontier,
        closing(SqliteCaptureIndex(tmp_path / "captures.sqlite")) as index,
    ):
        yield Desk(frontier, index, settings)


async def test_a_rule_against_it_skips_the_item_and_the_books_say_why(desk: Desk) -> None:
    """The host was not asked, so it does not rest."""
    await desk.run(Says(Verdict(Action.SKIP, "policy: no")))

    assert desk.state() == (ItemState.SKIPPED, "policy: no")
    assert desk.events == [PageSkipped(URL, "policy: no")]
    assert desk.is_ready()


async def test_the_first_rule_against_it_decides(desk: Desk) -> None:
    """The others are not asked any more."""
    last = Says(Verdict(Action.FAIL, "c"))
    await desk.run(Says(Verdict()), Says(Verdict(Action.SKIP, "b")), last)

    assert desk.state() == (ItemState.SKIPPED, "b")
    assert last.asked == 0


async def test_a_host_that_was_asked_by_a_rule_rests(desk: Desk) -> None:
    """Whichever rule asked it, and whichever said no."""
    await desk.run(Says(Verdict(asked=True)), Says(Verdict(Action.SKIP, "no")))

    assert not desk.is_ready()


async def test_an_item_put_off_waits_for_its_moment_and_its_attempt_does_not_count(
    desk: Desk,
) -> None:
    """The host's other items go on."""
    until = NOW + timedelta(hours=1)
    await desk.run(Says(Verdict(Action.LATER, "robots: 503", until)))
    record = desk.frontier.find(URL)

    assert record is not None
    assert (record.state, record.due_at, record.item.attempts) == (ItemState.QUEUED, until, 0)
    assert desk.events == [PagePutOff(URL, "robots: 503", until)]
    assert desk.claim().url == OTHER


async def test_what_cannot_be_visited_is_a_dead_letter(desk: Desk) -> None:
    """With the rule's reason."""
    await desk.run(Says(Verdict(Action.FAIL, "address: private")))

    assert desk.state() == (ItemState.DEAD, "address: private")
    assert desk.events == [PageDone(URL, None, "address: private", 1)]


async def test_a_rule_that_breaks_costs_an_attempt_and_not_the_crawl(desk: Desk) -> None:
    """It is tried again, and the reason is in the log."""
    await desk.run(Says(InputError("The rule is odd.")))

    assert desk.events == [PageTriedAgain(URL, "The rule is odd.", 1)]


async def test_what_waits_for_a_host_that_is_down_ends_unvisited(desk: Desk) -> None:
    """All of it, at once, with the host's reason; no rule is asked."""
    desk.frontier.back_off("a.test", "dns: no such name", now=NOW, down=True)
    rule = Says(Verdict())
    await desk.run(rule)
    await desk.run(rule)

    assert desk.state(URL) == desk.state(OTHER) == (ItemState.DEAD, "host down: dns: no such name")
    assert rule.asked == 0


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.COMPLETE, ItemState.DONE),
        (Outcome.PARTIAL, ItemState.DONE),
        (Outcome.FAILED, ItemState.DEAD),
        (Outcome.SKIPPED, ItemState.SKIPPED),
    ],
)
async def test_a_page_whose_manifest_is_there_is_not_visited_again(
    desk: Desk, outcome: Outcome, state: ItemState
) -> None:
    """Its worker died between the manifest and the end; it is still due again when it was kept."""
    item = desk.claim()
    moment = "2026-11-21T11:00:00.000Z"
    with desk.index.transaction():
        desk.index.add_page(PageInfo(item.id, URL, URL, moment, outcome))
    rule = Says(Verdict())
    desk.means.rules = [rule]
    await Errand(item, desk.means).run()
    record = desk.frontier.find(URL)

    assert record is not None
    assert (record.state, rule.asked) == (state, 0)
    assert (record.due_at is not None) is (state is ItemState.DONE)
    assert desk.is_ready()


async def test_a_stop_order_ends_a_crew(desk: Desk) -> None:
    """It comes through the frontier, from any process."""
    until = NOW + timedelta(hours=1)
    desk.means.rules = [Says(Verdict(Action.LATER, "wait", until))]
    crew = Crew(desk.means, lease_s=60, name="crew")
    running = asyncio.create_task(crew.run(2))
    while desk.frontier.stats(NOW).later < 2:
        await asyncio.sleep(0.01)
    assert not running.done()
    desk.frontier.give_order(STOP_ORDER, "", "")
    await running

    assert crew.stopping.is_set()
    assert desk.frontier.stats(NOW).later == 2


async def test_a_run_that_was_called_for_takes_an_old_stop_order_back(desk: Desk) -> None:
    """Whoever starts a crawl wants it to run."""
    desk.frontier.give_order(STOP_ORDER, "", "")
    desk.means.rules = [Says(Verdict(Action.SKIP, "no"))]
    await Crew(desk.means, lease_s=60, name="crew").run(1)

    assert desk.frontier.orders(STOP_ORDER) == {}
    assert desk.frontier.counts()[ItemState.SKIPPED] == 2


async def test_a_worker_that_stays_waits_while_a_stop_order_stands(desk: Desk) -> None:
    """And begins when another run has taken it back."""
    desk.frontier.give_order(STOP_ORDER, "", "")
    desk.means.rules = [Says(Verdict(Action.SKIP, "no"))]
    crew = Crew(desk.means, lease_s=60, name="crew", endless=True)
    running = asyncio.create_task(crew.run(1))
    await asyncio.sleep(0)
    assert desk.frontier.counts()[ItemState.SKIPPED] == 0
    desk.frontier.take_back(STOP_ORDER, "")
    while desk.frontier.counts()[ItemState.SKIPPED] < 2:
        await asyncio.sleep(0.01)
    crew.stopping.set()
    await running
