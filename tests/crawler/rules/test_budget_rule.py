"""Budgets: kept exactly whoever works, and told with their reason."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.config.profile import parse_settings
from core.config.settings import FrontierSettings, PolitenessSettings, Settings
from crawler.frontier.base import JOB_ORDER, Frontier, ItemState, Lane, NewItem
from crawler.jobs.crawl_orders import Job
from crawler.jobs.job_settings import JobSettings
from crawler.rules.scope_rule import BudgetRule
from crawler.rules.visit_rule import RuleAction
from net.backoff import StoreRetry
from tests.crawler.frontier.conftest import NewPlace
from tests.crawler.frontier.support import FrontierLocation
from tests.support.examples import examples

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SEED = "https://a.example/"
POLITENESS = PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0, visits_per_host=100)


async def at_once(_seconds: float) -> None:
    """Nobody waits."""
    await asyncio.sleep(0)


class BudgetProcess:
    """A process of a crawl: its own connection to the frontier, its own rule."""

    def __init__(self, place: FrontierLocation) -> None:
        self.frontier: Frontier = place.open(POLITENESS, FrontierSettings(lease_s=1e6))
        clock = SystemClock()
        self.jobs = JobSettings(self.frontier, Settings(), clock=clock)
        self.rule = BudgetRule(self.jobs, self.frontier, StoreRetry(clock, lambda _: None), sleep=at_once)


@pytest.fixture
def machine(new_place: NewPlace) -> Iterator[BudgetProcess]:
    """Yield one process, on a frontier of every implementation."""
    one = BudgetProcess(new_place())
    with one.frontier:
        yield one


def begin(frontier: Frontier, scope: str, urls: int = 10) -> None:
    """Start a job with that scope, with so many pages, of two hosts in turn."""
    text = f"[scope]\nkind = 'any'\n{scope}\n"
    job = Job("mine", (SEED,), parse_settings(text), Lane.STANDARD, NOW)
    frontier.give_order(JOB_ORDER, "mine", job.to_json())
    items = (NewItem(f"https://{'ab'[n % 2]}.example/{n}", job="mine") for n in range(urls))
    frontier.add(items, now=NOW)


async def work(machine: BudgetProcess, chance: random.Random, done: list[str], *, dying: float = 0.2) -> None:
    """Run one worker to its end: visit as the rule decides, give some visits back to be tried again."""
    now = NOW
    while True:
        now += timedelta(seconds=1)
        claimed = machine.frontier.claim(now=now, worker="w")
        if not claimed:
            if not machine.frontier.unfinished(now):
                return
            await asyncio.sleep(0)
            continue
        item = claimed[0]
        verdict = await machine.rule.before(item, now=now)
        await asyncio.sleep(0)
        if verdict.action is RuleAction.SKIP:
            machine.frontier.skip(item, now=now, reason=verdict.reason, delay=timedelta(0))
        elif verdict.action is RuleAction.LATER:
            machine.frontier.release(item, now=now, not_before=verdict.until)
        elif chance.random() < dying:
            machine.frontier.release(item, now=now, reason="the browser died")
        else:
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            done.append(item.url)
            machine.frontier.complete(
                item, now=now, outcome="complete", stored_bytes=10, delay=timedelta(milliseconds=1)
            )


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32))
def test_a_budget_of_pages_is_kept_exactly_by_workers_on_several_machines(
    new_place: NewPlace, limit: int, workers: int, seed: int
) -> None:
    """Never one more, and never one less while there are pages."""
    place = new_place()
    chance, done = random.Random(seed), list[str]()
    with ExitStack() as stack:
        machines = [BudgetProcess(place), BudgetProcess(place)]
        for each in machines:
            stack.enter_context(each.frontier)
        begin(machines[0].frontier, f"pages = {limit}")

        async def crew() -> None:
            await asyncio.gather(*(work(machines[n % 2], chance, done) for n in range(workers)))

        asyncio.run(crew())

        assert len(done) == len(set(done)) == min(limit, 10)
        counts = machines[0].frontier.job_counts("mine")
        assert (counts.done, counts.skipped) == (len(done), 10 - len(done))


async def test_who_waits_looks_again_before_giving_back(machine: BudgetProcess) -> None:
    """The oldest claim that is left goes, so that waiting ones cannot wait for one another."""
    begin(machine.frontier, "pages = 1")
    first, second = machine.frontier.claim(now=NOW, worker="w", limit=2)

    async def first_one_fails(_seconds: float) -> None:
        machine.frontier.release(first, now=NOW, reason="the browser died")

    machine.rule = BudgetRule(
        machine.jobs, machine.frontier, StoreRetry(SystemClock(), lambda _: None), sleep=first_one_fails
    )

    assert (await machine.rule.before(second, now=NOW)).action is RuleAction.VISIT


async def test_a_host_s_budget_is_the_host_s(machine: BudgetProcess) -> None:
    """Each of two hosts gets its pages."""
    begin(machine.frontier, "host_pages = 2")
    done: list[str] = []

    await asyncio.gather(*(work(machine, random.Random(1), done) for _ in range(4)))

    assert sorted(url[8] for url in done) == ["a", "a", "b", "b"]
    reasons = {record.outcome for record in machine.frontier.ls(ItemState.SKIPPED)}
    assert reasons == {"budget: 2 pages of a.example", "budget: 2 pages of b.example"}


@pytest.mark.parametrize(
    ("scope", "reason", "visits"),
    [
        ("bytes = 25", "budget: 25 bytes", 3),
        ("host_bytes = 15", "budget: 15 bytes of a.example", 4),
        ("seconds = 4.5", "budget: 4 s", 4),
    ],
)
async def test_bytes_and_seconds_are_looked_at_before_a_visit(
    machine: BudgetProcess, scope: str, reason: str, visits: int
) -> None:
    """Pages in progress are finished, so the last one may exceed the limit."""
    begin(machine.frontier, scope)
    done: list[str] = []

    await work(machine, random.Random(1), done, dying=0.0)

    assert len(done) == visits
    assert reason in {record.outcome for record in machine.frontier.ls(ItemState.SKIPPED)}


async def test_a_page_that_may_be_too_many_waits_for_the_older_ones(machine: BudgetProcess) -> None:
    """It is given back for a second or two, not skipped: the older one may come to nothing."""
    begin(machine.frontier, "pages = 1", urls=2)
    older, newer = machine.frontier.claim(now=NOW, worker="w", limit=2)

    assert (await machine.rule.before(newer, now=NOW)).action is RuleAction.LATER
    assert (await machine.rule.before(older, now=NOW)).action is RuleAction.VISIT


async def test_what_is_left_over_is_skipped_together(machine: BudgetProcess) -> None:
    """A crawl of a million queued pages ends with its budget, and says why; lists are not meant."""
    begin(machine.frontier, "pages = 1", urls=3_000)
    machine.frontier.add([NewItem("https://c.example/list")], now=NOW)
    first, second = machine.frontier.claim(now=NOW, worker="w", limit=2)
    machine.frontier.complete(first, now=NOW, outcome="complete")

    verdict = await machine.rule.before(second, now=NOW)

    assert (verdict.action, verdict.reason) == (RuleAction.SKIP, "budget: 1 page")
    counts = machine.frontier.job_counts("mine")
    assert (counts.queued, counts.skipped) == (0, 2_998)
    assert machine.frontier.stats(NOW).queued == 1


async def test_a_list_has_no_budget(machine: BudgetProcess) -> None:
    """Nor has a job that nobody knows any more."""
    machine.frontier.add([NewItem(SEED), NewItem(f"{SEED}x", job="gone")], now=NOW)

    for item in machine.frontier.claim(now=NOW, worker="w", limit=2):
        assert (await machine.rule.before(item, now=NOW)).action is RuleAction.VISIT
