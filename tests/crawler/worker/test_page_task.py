"""An item's way from its claim to its end, as far as no browser is needed."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from core.config.settings import FrontierSettings, PolitenessSettings, RecrawlSettings, Settings
from core.errors import InputError, InvariantError, UnavailableError
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from core.urls import identity_key
from crawler.capture.page_capture import CaptureRequest, CaptureResult
from crawler.frontier.base import STOP_ORDER, Frontier, FrontierItem, HostBackOff, ItemState, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.pools.resource_pool import BrowserPool, ProxyAccess, ProxyPool, ResourcePool
from crawler.rules.visit_rule import FollowUp, RuleAction, RuleDecision, VisitRule
from crawler.run.context_builder import RunContext, build_crawl_context
from crawler.worker import page_task, worker_pool
from crawler.worker.crawl_events import Event, PageDeferred, PageDone, PageRetried, PageSkipped, SnapshotMade
from crawler.worker.page_task import CONNECTIONS_NOTE, NO_REST, ONE_ATTEMPT, CrawlContext, PageTask
from crawler.worker.worker_pool import SNAPSHOT_ORDER, WorkerPool
from render.chromium import BrowserExecutable
from tests.support.clocks import ManualClock
from warc.index.database import SqliteDatabase
from warc.index.sqlite import SqliteCaptureIndex

URL, OTHER = "https://a.test/page", "https://a.test/other"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REST = timedelta(seconds=7)


class FixedRule(VisitRule):
    """A rule that says one thing."""

    def __init__(self, verdict: RuleDecision | Exception) -> None:
        self.verdict = verdict
        self.request_count = 0

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Say it."""
        self.request_count += 1
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Nobody may ask."""
        raise AssertionError("nothing was visited")


class TaskHarness:
    """A frontier and an index, with two URLs of one host; and no browser."""

    def __init__(self, frontier: SqliteFrontier, index: SqliteCaptureIndex, path: Path, settings: Settings) -> None:
        self.frontier = frontier
        self.index = index
        self.events: list[Event] = []
        nothing = cast(BrowserExecutable, None)
        browsers = BrowserPool(settings.browser, nothing, ManualClock(NOW), needs=ProxyAccess)
        pool = ResourcePool(cast(ProxyPool, None), browsers)
        layout = Layout(Path("/nowhere"))
        self.context: CrawlContext = build_crawl_context(
            RunContext(*(layout, settings, frontier, pool, SqliteDatabase(path), ManualClock(NOW)), self.events.append)
        )
        frontier.add([NewItem(URL), NewItem(OTHER)], now=NOW)

    def claim(self) -> FrontierItem:
        """Claim the next item."""
        (item,) = self.frontier.claim(now=NOW, worker="w")
        return item

    async def run(self, *rules: FixedRule) -> FrontierItem:
        """Run a page task under these rules."""
        item = self.claim()
        self.context.rules = rules
        await PageTask(item, self.context).run()
        return item

    def state(self, url: str = URL) -> tuple[ItemState, str]:
        """Return the state and outcome of the URL in the frontier."""
        record = self.frontier.find(url)
        assert record is not None
        return record.state, record.outcome

    def is_ready(self) -> bool:
        """Return whether the host may be visited at once."""
        return self.frontier.next_wakeup(NOW) == NOW


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskHarness]:
    monkeypatch.setattr(worker_pool, "ORDERS_POLL_S", 0.02)
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
        harness = TaskHarness(frontier, index, tmp_path / "captures.sqlite", settings)
        with closing(harness.context.index):
            yield harness


async def test_a_rule_against_it_skips_the_item_and_the_books_say_why(harness: TaskHarness) -> None:
    """The host was not asked, so it does not rest."""
    await harness.run(FixedRule(RuleDecision(RuleAction.SKIP, "policy: no")))

    assert harness.state() == (ItemState.SKIPPED, "policy: no")
    assert harness.events == [PageSkipped(URL, "policy: no")]
    assert harness.is_ready()


async def test_the_first_rule_against_it_decides(harness: TaskHarness) -> None:
    """The others are not asked any more."""
    last = FixedRule(RuleDecision(RuleAction.FAIL, "c"))
    await harness.run(FixedRule(RuleDecision()), FixedRule(RuleDecision(RuleAction.SKIP, "b")), last)

    assert harness.state() == (ItemState.SKIPPED, "b")
    assert last.request_count == 0


async def test_a_host_that_was_asked_by_a_rule_rests(harness: TaskHarness) -> None:
    """Whichever rule asked it, and whichever said no."""
    await harness.run(FixedRule(RuleDecision(was_asked=True)), FixedRule(RuleDecision(RuleAction.SKIP, "no")))

    assert not harness.is_ready()


async def test_an_item_put_off_waits_for_its_moment_and_its_attempt_does_not_count(harness: TaskHarness) -> None:
    """The host's other items go on."""
    until = NOW + timedelta(hours=1)
    await harness.run(FixedRule(RuleDecision(RuleAction.LATER, "robots: 503", until)))
    record = harness.frontier.find(URL)

    assert record is not None
    assert (record.state, record.due_at, record.item.attempts) == (ItemState.QUEUED, until, 0)
    assert harness.events == [PageDeferred(URL, "robots: 503", until)]
    assert harness.claim().url == OTHER


async def test_what_cannot_be_visited_is_a_dead_letter(harness: TaskHarness) -> None:
    """With the rule's reason."""
    await harness.run(FixedRule(RuleDecision(RuleAction.FAIL, "address: private")))

    assert harness.state() == (ItemState.DEAD, "address: private")
    assert harness.events == [PageDone(URL, None, "address: private", 1)]


async def test_a_rule_that_breaks_costs_an_attempt_and_not_the_crawl(harness: TaskHarness) -> None:
    """It is tried again, and the reason is in the log."""
    await harness.run(FixedRule(InputError("The rule is odd.")))

    assert harness.events == [PageRetried(URL, "The rule is odd.", 1)]


@pytest.mark.parametrize("error", [OverflowError("int\ntoo large"), InvariantError("A bug.")])
async def test_an_error_nobody_foresaw_costs_its_page_an_attempt(
    harness: TaskHarness, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has its traceback, and the crawl goes on."""
    await harness.run(FixedRule(error))
    message = " ".join(f"{type(error).__name__}: {error}".split())

    assert harness.events == [PageRetried(URL, f"internal error: {message}", 1)]
    assert "Traceback" in caplog.text


async def test_a_page_that_ends_so_each_time_is_given_up(harness: TaskHarness) -> None:
    """With that reason, after as many attempts as any page has."""
    await harness.run(FixedRule(OverflowError("x")))
    for days in (1, 2):
        items = [
            item for _ in (URL, OTHER) for item in harness.frontier.claim(now=NOW + timedelta(days=days), worker="w")
        ]
        await PageTask(next(item for item in items if item.url == URL), harness.context).run()

    assert harness.state() == (ItemState.DEAD, "internal error: OverflowError: x")


async def test_page_after_page_that_ends_so_ends_the_run(harness: TaskHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says it; a page that ends well in between restarts the count."""
    monkeypatch.setattr(page_task, "MAX_INTERNAL_ERRORS", 2)
    broken, sound = FixedRule(OverflowError("x")), FixedRule(RuleDecision(RuleAction.SKIP, "no"))
    harness.frontier.add([NewItem(f"https://{name}.test/") for name in "bcd"], now=NOW)
    for rule in (broken, sound, broken):
        await harness.run(rule)
    with pytest.raises(InvariantError, match=r"2 pages in a row .* OverflowError: x"):
        await harness.run(broken)


async def test_what_waits_for_a_host_that_is_down_ends_unvisited(harness: TaskHarness) -> None:
    """All of it, at once, with the host's reason; no rule is asked."""
    harness.frontier.back_off(HostBackOff("a.test", "dns: no such name", down=True), now=NOW)
    rule = FixedRule(RuleDecision())
    await harness.run(rule)
    await harness.run(rule)

    assert harness.state(URL) == harness.state(OTHER) == (ItemState.DEAD, "host down: dns: no such name")
    assert rule.request_count == 0


def patient(harness: TaskHarness) -> None:
    """Let what waits for a host that is down wait."""
    settings = Settings(frontier=FrontierSettings(wait_for_sites=True))
    harness.context.settings_for = lambda _item: settings


async def test_what_waits_for_its_site_is_put_off_until_the_host_is_no_longer_left_alone(harness: TaskHarness) -> None:
    """An outage costs one attempt; the reason is in the books."""
    patient(harness)
    harness.frontier.back_off(HostBackOff("a.test", "dns: no such name", down=True), now=NOW)
    over = harness.frontier.host("a.test", now=NOW)
    await harness.run(FixedRule(RuleDecision()))
    record = harness.frontier.find(URL)

    assert over is not None
    assert record is not None
    assert (record.state, record.due_at) == (ItemState.QUEUED, over.down_until)
    assert [each.reason for each in record.attempts] == ["host down: dns: no such name"]


async def test_what_has_one_attempt_is_not_put_off(harness: TaskHarness) -> None:
    """Its failure is what was asked for; the next time it is tried as often as any."""
    patient(harness)
    harness.frontier.put_note(ONE_ATTEMPT, identity_key(URL), "", now=NOW)
    harness.frontier.back_off(HostBackOff("a.test", "dns: no such name", down=True), now=NOW)
    await harness.run(FixedRule(RuleDecision()))

    assert harness.state() == (ItemState.DEAD, "host down: dns: no such name")
    assert harness.frontier.note(ONE_ATTEMPT, identity_key(URL), now=NOW) is None


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (VisitOutcome.COMPLETE, ItemState.DONE),
        (VisitOutcome.PARTIAL, ItemState.DONE),
        (VisitOutcome.FAILED, ItemState.DEAD),
        (VisitOutcome.SKIPPED, ItemState.SKIPPED),
    ],
)
async def test_a_page_whose_manifest_is_there_is_not_visited_again(
    harness: TaskHarness, outcome: VisitOutcome, state: ItemState
) -> None:
    """Its worker died between the manifest and the end; it is still due again when it was kept."""
    item = harness.claim()
    moment = "2026-11-21T11:00:00.000Z"
    with harness.index.transaction():
        harness.index.add_page(PageInfo(item.id, URL, URL, moment, outcome))
    rule = FixedRule(RuleDecision())
    harness.context.rules = [rule]
    await PageTask(item, harness.context).run()
    record = harness.frontier.find(URL)

    assert record is not None
    assert (record.state, rule.request_count) == (state, 0)
    assert (record.due_at is not None) is (state is ItemState.DONE)
    assert harness.is_ready()


async def test_a_stop_order_ends_a_crew(harness: TaskHarness) -> None:
    """It comes through the frontier, from any process."""
    until = NOW + timedelta(hours=1)
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.LATER, "wait", until))]
    crew = WorkerPool(harness.context, lease_s=60, name="crew")
    running = asyncio.create_task(crew.run(2))
    while harness.frontier.stats(NOW).later < 2:
        await asyncio.sleep(0.01)
    assert not running.done()
    harness.frontier.give_order(STOP_ORDER, "", "")
    await running

    assert crew.stopping.is_set()
    assert harness.frontier.stats(NOW).later == 2


async def test_a_run_that_was_called_for_does_not_wait_for_weeks(harness: TaskHarness) -> None:
    """Items that wait for their site stay in the queue; a long-running worker goes on with them."""
    for url in (URL, OTHER):
        item = harness.claim()
        harness.frontier.retry(item, now=NOW, reason=url, not_before=NOW + timedelta(days=7), delay=NO_REST)
    async with asyncio.timeout(120):
        await WorkerPool(harness.context, lease_s=60, name="crew").run(1)

    assert harness.frontier.unfinished(NOW) == 2


async def test_a_run_that_was_called_for_takes_an_old_stop_order_back(harness: TaskHarness) -> None:
    """Whoever starts a crawl wants it to run."""
    harness.frontier.give_order(STOP_ORDER, "", "")
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.SKIP, "no"))]
    await WorkerPool(harness.context, lease_s=60, name="crew").run(1)

    assert harness.frontier.orders(STOP_ORDER) == {}
    assert harness.frontier.counts()[ItemState.SKIPPED] == 2


async def test_a_worker_that_stays_waits_while_a_stop_order_stands(harness: TaskHarness) -> None:
    """And begins when another run has taken it back."""
    harness.frontier.give_order(STOP_ORDER, "", "")
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.SKIP, "no"))]
    crew = WorkerPool(harness.context, lease_s=60, name="crew", endless=True)
    running = asyncio.create_task(crew.run(1))
    await asyncio.sleep(0)
    assert harness.frontier.counts()[ItemState.SKIPPED] == 0
    harness.frontier.take_back(STOP_ORDER, "")
    while harness.frontier.counts()[ItemState.SKIPPED] < 2:
        await asyncio.sleep(0.01)
    crew.stopping.set()
    await running


class FaultyFrontier:
    """The frontier, one verb of which raises for some calls."""

    def __init__(self, frontier: SqliteFrontier, verb: str, errors: list[Exception]) -> None:
        self._frontier = frontier
        self._verb = verb
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        """Return the frontier's attribute; for the faulty verb, raise the next error instead."""
        if name == self._verb and self._errors:
            raise self._errors.pop()
        return getattr(self._frontier, name)


def with_faults(harness: TaskHarness, verb: str, *errors: Exception) -> None:
    """Let the next calls of the verb raise these."""
    harness.context.frontier = cast(Frontier, FaultyFrontier(harness.frontier, verb, list(errors)))


async def test_cancellation_that_escapes_from_a_library_costs_an_attempt(harness: TaskHarness) -> None:
    """Nobody cancelled the page: given back without an attempt it would come again for ever."""
    item = harness.claim()
    harness.context.rules = [cast(FixedRule, CancellingRule())]
    await asyncio.create_task(PageTask(item, harness.context).run())

    assert harness.events == [PageRetried(URL, "internal error: CancelledError:", 1)]


class CancellingRule:
    """A rule out of which a cancellation comes that nobody asked for."""

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Raise it."""
        raise asyncio.CancelledError

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Nobody may ask."""
        raise AssertionError("nothing was visited")


async def test_page_whose_error_cannot_be_noted_is_left_to_its_lease(harness: TaskHarness) -> None:
    """The errand ends without an error, so that the other workers go on."""
    with_faults(harness, "retry", OverflowError("y"))
    await harness.run(FixedRule(OverflowError("x")))

    assert harness.state()[0] is ItemState.CLAIMED
    harness.frontier.claim(now=NOW + timedelta(days=1), worker="w")  # which notices the lease's end
    record = harness.frontier.find(URL)
    assert record is not None
    assert [each.ending for each in record.attempts] == ["expired"]


@pytest.mark.parametrize("verb", ["skip", "note"])
async def test_error_of_the_frontiers_own_costs_an_attempt(harness: TaskHarness, verb: str) -> None:
    """As one of the page's."""
    with_faults(harness, verb, OverflowError("x"))
    if verb == "note":
        harness.frontier.back_off(HostBackOff("a.test", "dns: no such name", down=True), now=NOW)
        patient(harness)
    await harness.run(FixedRule(RuleDecision(RuleAction.SKIP, "no")))

    assert harness.events == [PageRetried(URL, "internal error: OverflowError: x", 1)]


async def test_frontier_that_cannot_be_used_ends_the_run(harness: TaskHarness) -> None:
    """That is no internal error: its own words say what to do."""
    with_faults(harness, "retry", UnavailableError("gone"))
    with pytest.raises(UnavailableError, match="gone"):
        await harness.run(FixedRule(OverflowError("x")))


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers go on at once after an internal error."""
    monkeypatch.setattr(worker_pool, "BACKOFF_INITIAL_S", 0.0)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("verb", ["claim", "unfinished", "next_wakeup", "stats"])
async def test_internal_error_of_a_worker_ends_no_other(harness: TaskHarness, verb: str) -> None:
    """Each seam of the loop around pages: the crew does all that is to be done."""
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.SKIP, "no"))]
    crew = WorkerPool(harness.context, lease_s=60, name="crew")
    with_faults(harness, verb, OverflowError("x"))
    harness.frontier.add([NewItem("https://b.test/"), NewItem("https://c.test/")], now=NOW)
    await crew.run(2)

    assert harness.frontier.stats(NOW).skipped == 4


@pytest.mark.usefixtures("no_pause")
async def test_worker_that_fails_each_time_ends_the_run(harness: TaskHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash loop is broken, with one sentence."""
    monkeypatch.setattr(page_task, "MAX_INTERNAL_ERRORS", 3)
    with_faults(harness, "claim", *[OverflowError("x")] * 4)
    with pytest.raises(ExceptionGroup) as caught:
        await WorkerPool(harness.context, lease_s=60, name="crew").run(1)

    assert caught.group_contains(InvariantError, match="3 internal errors .* OverflowError: x")


async def test_order_to_stop_arrives_after_an_error_while_looking_for_orders(harness: TaskHarness) -> None:
    """The worker goes on polling for orders after an error."""
    until = NOW + timedelta(hours=1)
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.LATER, "wait", until))]
    with_faults(harness, "orders", OverflowError("x"))
    harness.frontier.give_order("job", "j", "")  # so that orders are asked for
    running = asyncio.create_task(WorkerPool(harness.context, lease_s=60, name="crew").run(1))
    while harness.frontier.stats(NOW).later < 2:
        await asyncio.sleep(0.01)
    harness.frontier.give_order(STOP_ORDER, "", "")

    await running


async def test_lease_that_could_not_be_renewed_once_is_renewed_again(harness: TaskHarness) -> None:
    """The page goes on: an error of the renewal is not the page's."""
    renewals = asyncio.Event()

    class WaitingRule(FixedRule):
        async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
            while len(errors):
                await asyncio.sleep(0.01)
            renewals.set()
            return await super().before(item, now=now)

    errors: list[Exception] = [OverflowError("x")]
    harness.context.frontier = cast(Frontier, FaultyFrontier(harness.frontier, "renew", errors))
    harness.context.rules = [WaitingRule(RuleDecision(RuleAction.SKIP, "no"))]
    await WorkerPool(harness.context, lease_s=0.1, name="crew").run(1)

    assert renewals.is_set()
    assert harness.state() == (ItemState.SKIPPED, "no")


async def test_snapshot_is_told_once_to_each_process(harness: TaskHarness) -> None:
    """Also to one that begins after it."""
    harness.context.rules = [FixedRule(RuleDecision(RuleAction.SKIP, "no"))]
    harness.frontier.give_order(SNAPSHOT_ORDER, "", "2026-11-21T12:00:00Z")
    crew = WorkerPool(harness.context, lease_s=60, name="crew", endless=True)
    running = asyncio.create_task(crew.run(1))
    while SnapshotMade(NOW) not in harness.events:
        await asyncio.sleep(0.01)
    harness.frontier.give_order("job", "j", "")
    harness.frontier.give_order(STOP_ORDER, "", "")
    await running

    assert harness.events.count(SnapshotMade(NOW)) == 1


@pytest.mark.parametrize(
    ("noted", "used", "then"),
    [(None, (), "browser"), ("browser", ("a.test",), "recorder"), ("recorder", (), "recorder")],
)
async def test_a_host_that_refuses_a_kind_of_connection_is_noted(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch, noted: str | None, used: tuple[str, ...], then: str
) -> None:
    """The browser's connections follow the recorder's; where neither helps, the recorder's are used."""
    if noted is not None:
        harness.frontier.put_note(CONNECTIONS_NOTE, "a.test", noted, now=NOW)
    wanted: list[CaptureRequest] = []

    async def challenged(request: CaptureRequest, **_: object) -> CaptureResult:
        wanted.append(request)
        page = PageInfo(request.page_id, URL, URL, warc_date(NOW), VisitOutcome.COMPLETE, status=403)
        return CaptureResult(replace(page, page_class=PageClass.CHALLENGE), again=True)

    monkeypatch.setattr(page_task, "capture", challenged)
    await harness.run()

    assert [each.browser_hosts for each in wanted] == [used]
    assert harness.frontier.note(CONNECTIONS_NOTE, "a.test", now=NOW) == then
    assert harness.context.ways == {"a.test": then}  # known to the next visit, which need not read all notes again
