"""States of a repair, in a real frontier and a real registry; visits and checks are simulated."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import PolitenessSettings, Settings
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict
from core.timestamps import warc_date
from crawler.frontier.base import Frontier, ItemRecord, ItemState, NewItem
from crawler.jobs.crawl_orders import read_repairs
from crawler.jobs.job_settings import ORDERS_POLL_S
from crawler.run.context_builder import make_slot_assigner
from crawler.worker.crawl_events import PageRepaired
from links.registry.database import RegistryStore
from qa.check_store import find_checks, record_review, store_checks, want_repair
from qa.check_table import CheckedPage, RepairState
from qa.page_changes import PageChanges, PageDrift
from qa.repair import RepairManager, RepairOutcome
from tests.crawler.frontier.conftest import NewPlace
from tests.support.services.registries import open_registry

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
URL = "https://a.example/page"


class RepairKilled(BaseException):
    """The process dies here."""


class RepairHarness:
    """Repairs of one collection, whose visits and checks are acted.

    Attributes:
        shown: the verdict and score that a check of a capture finds, by page id.
        told: how repairs ended.
        withheld: ids of captures of which nothing may be shown.
        became: what the page of one capture had become in another, by their ids.
    """

    def __init__(self, frontier: Frontier, store: RegistryStore) -> None:
        self.frontier = frontier
        self.store = store
        self.manifests: dict[str, PageInfo] = {}
        self.shown: dict[str, tuple[QaVerdict, float]] = {}
        self.repaired: list[PageRepaired] = []
        self.withheld: set[str] = set()
        self.became: dict[tuple[str, str], PageChanges] = {}
        self.checks = 0
        self._seconds = 0.0
        self.repairs = RepairManager(
            store,
            frontier,
            make_slot_assigner(Settings()),
            self.manifests.get,
            self.check,
            {"images"},
            self.withheld.__contains__,
            self,
            self.repaired.append,
            reach_s=0.0,
            became=lambda old, new: self.became.get((old, new)),
        )

    def now(self) -> datetime:
        """Return the time, which advances by a second with each call."""
        self._seconds += 1
        return NOW + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._seconds

    async def check(self, page: PageInfo, level: str) -> CheckedPage:
        """Find what is to be found, and keep it."""
        self.checks += 1
        verdict, score = self.shown[page.page_id]
        return self.store_check(page.page_id, page.url, verdict, score, page.page_class, level)

    def store_check(
        self,
        page_id: str,
        url: str = URL,
        verdict: QaVerdict = QaVerdict.BROKEN,
        score: float = 0.3,
        page_class: PageClass = PageClass.OK,
        level: str = "images",
    ) -> CheckedPage:
        """Store a check; return its row."""
        now = self.now()
        faults = (PlaybackFault.LOST,) if verdict is QaVerdict.BROKEN else ()
        check = PlaybackCheck(
            page_id, url, warc_date(NOW), level, warc_date(now), "1", verdict,
            score=score, text=1.0, faults=faults,
        )  # fmt: skip
        row = CheckedPage(check, "a.example", page_class)
        with self.store.writing() as rows:
            store_checks(rows, [row], now)
        return self.row(page_id)

    def row(self, page_id: str) -> CheckedPage:
        """Return the page's check in the registry."""
        with self.store.reading() as rows:
            (row,) = find_checks(rows, [page_id])
        return row

    def item(self, url: str = URL) -> ItemRecord:
        """Return the URL's item in the frontier."""
        record = self.frontier.find(url)
        assert record is not None
        return record

    def visit(
        self,
        outcome: VisitOutcome = VisitOutcome.COMPLETE,
        *,
        verdict: QaVerdict = QaVerdict.GOOD,
        score: float = 1.0,
        **facts: Any,
    ) -> str:
        """Visit what waits, and keep a manifest; the page's id."""
        (item,) = self.frontier.claim(now=self.now(), worker="w")
        facts = {"page_class": PageClass.OK, "status": 200, **facts}
        page = PageInfo(item.id, item.url, item.url, warc_date(NOW), outcome, **facts)
        self.manifests[item.id] = page
        self.shown[item.id] = (verdict, score)
        if outcome is VisitOutcome.SKIPPED:
            self.frontier.skip(item, now=self.now(), reason=page.reason)
        else:
            self.frontier.complete(item, now=self.now(), outcome=str(outcome))
        return item.id

    def captured(self, url: str = URL, **facts: Any) -> str:
        """Archive a page whose copy is broken; return its id."""
        self.frontier.add([NewItem(url, hops=2, via="https://a.example/")], now=self.now())
        page_id = self.visit(**facts)
        self.store_check(page_id, url)
        return page_id


@pytest.fixture
def workshop(new_place: NewPlace, tmp_path: Path) -> Iterator[RepairHarness]:
    """Yield repairs with every implementation of the frontier."""
    politeness = PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0)
    store = open_registry(Layout(tmp_path))
    with new_place().open(politeness) as frontier:
        yield RepairHarness(frontier, store)
    store.close()


async def test_what_is_broken_is_captured_again_and_the_better_one_is_known(workshop: RepairHarness) -> None:
    """The item keeps its place in the crawl; its visit is a repair, with a bucket of its own."""
    old = workshop.captured()

    assert await workshop.repairs.begin(10) == 1

    assert workshop.item().state is ItemState.QUEUED
    assert (workshop.item().item.hops, workshop.item().item.via) == (2, "https://a.example/")
    (order,) = read_repairs(workshop.frontier).values()
    assert (order.page_id, order.bucket.startswith("repair-")) == (old, True)
    assert not workshop.repairs.others_wait()

    new = workshop.visit()
    await workshop.repairs.finish()

    row = workshop.row(old)
    assert (row.repair, row.repair_page_id) == (RepairState.DONE_BETTER, new)
    assert row.check.better == new
    assert "Captured again, and better" in row.check.reason
    assert read_repairs(workshop.frontier) == {}
    assert [each.state for each in workshop.repaired] == ["done-better"]


async def test_a_page_that_became_another_is_not_offered_in_its_place(workshop: RepairHarness) -> None:
    """The site leads to its front page now; both are kept, and the old copy is the better one."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    new = workshop.visit()
    workshop.became[old, new] = PageChanges(PageDrift.OTHER_PAGE)
    await workshop.repairs.finish()

    assert workshop.row(old).repair is RepairState.DONE_NOT_BETTER
    assert workshop.row(new).check.better == old
    assert "another page" in workshop.repaired[0].reason


async def test_a_capture_is_repaired_once(workshop: RepairHarness) -> None:
    """Not again by the next run, nor when it is found broken again."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    workshop.visit(verdict=QaVerdict.BROKEN, score=0.3)
    await workshop.repairs.finish()
    workshop.store_check(old)

    assert await workshop.repairs.begin(10) == 0

    assert workshop.item().state is ItemState.DONE


async def test_a_repair_is_not_repaired(workshop: RepairHarness) -> None:
    """Both are broken: the reviewer is told that playback is at fault, and the old one stays."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    new = workshop.visit(verdict=QaVerdict.BROKEN, score=0.3)
    await workshop.repairs.finish()

    assert "a playback fault" in workshop.row(old).check.reason
    assert workshop.row(new).check.better == old
    assert workshop.row(new).repair is RepairState.NONE
    assert workshop.repairs.wanted(10) == []


@pytest.mark.parametrize(
    ("outcome", "facts", "state"),
    [
        (VisitOutcome.FAILED, {"reason": "net::ERR_CONNECTION_REFUSED"}, RepairState.FAILED),
        (VisitOutcome.SKIPPED, {"reason": "noarchive: the page"}, RepairState.FAILED),
        (VisitOutcome.COMPLETE, {"page_class": PageClass.CHALLENGE}, RepairState.FAILED),
        (VisitOutcome.COMPLETE, {"page_class": PageClass.HTTP_ERROR, "status": 404}, RepairState.DONE_NOT_BETTER),
    ],
)
async def test_where_the_site_gives_nothing_better_the_old_capture_stays(
    workshop: RepairHarness, outcome: VisitOutcome, facts: dict[str, Any], state: RepairState
) -> None:
    """As it was, and the reason is told."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    workshop.visit(outcome, **facts)

    await workshop.repairs.finish()

    row = workshop.row(old)
    assert (row.repair, row.check.better) == (state, "")
    assert facts.get("reason", "") in workshop.repaired[0].reason
    assert workshop.repaired[0].reason in row.check.reason


async def test_a_visit_that_a_rule_refused_ends_the_repair(workshop: RepairHarness) -> None:
    """There is no manifest: the frontier's books say why."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    (item,) = workshop.frontier.claim(now=workshop.now(), worker="w")
    workshop.frontier.skip(item, now=workshop.now(), reason="robots: / is disallowed")

    await workshop.repairs.finish()

    assert workshop.row(old).repair is RepairState.FAILED
    assert "robots: / is disallowed" in workshop.repaired[0].reason


async def test_a_repair_whose_visit_is_to_come_stays_begun(workshop: RepairHarness) -> None:
    """Whoever comes after the visit finishes it."""
    old = workshop.captured()
    await workshop.repairs.begin(10)

    await workshop.repairs.finish()
    assert workshop.row(old).repair is RepairState.BEGUN


async def test_two_broken_captures_of_a_url_share_a_visit(workshop: RepairHarness) -> None:
    """The site is asked once."""
    first = workshop.captured()
    workshop.frontier.add([NewItem(URL)], now=workshop.now(), again=timedelta(0))
    second = workshop.visit()
    workshop.store_check(second)

    assert await workshop.repairs.begin(10) == 2
    new = workshop.visit()  # of both
    await workshop.repairs.finish()

    assert {workshop.row(each).repair_page_id for each in (first, second)} == {new}
    assert workshop.repairs.begun() == []


async def test_a_person_says_what_is_to_be_captured_again(workshop: RepairHarness) -> None:
    """By calling a copy bad that the machine finds good, or by asking for it, tried before or not."""
    page_id = workshop.captured()
    workshop.store_check(page_id, verdict=QaVerdict.GOOD, score=1.0)
    assert workshop.repairs.wanted(10) == []

    with workshop.store.writing() as rows:
        record_review(rows, page_id, "images", QaVerdict.BROKEN, by="Ada", now=workshop.now())
    await workshop.repairs.begin(10)
    workshop.visit()
    await workshop.repairs.finish()

    assert workshop.row(page_id).repair is RepairState.DONE_BETTER
    with workshop.store.writing() as rows:
        want_repair(rows, page_id, "images", now=workshop.now())

    assert await workshop.repairs.begin(10) == 1


async def test_a_run_begins_no_more_than_it_may(workshop: RepairHarness) -> None:
    """The others wait for the next one."""
    for number in range(3):
        workshop.captured(f"{URL}/{number}")

    assert await workshop.repairs.begin(2) == 2
    assert len(workshop.repairs.wanted(10)) == 1


async def test_a_page_that_is_being_visited_is_left_to_the_next_run(workshop: RepairHarness) -> None:
    """That visit is no repair: it shares payloads with what is damaged."""
    old = workshop.captured()
    workshop.frontier.add([NewItem(URL)], now=workshop.now(), again=timedelta(0))
    workshop.frontier.claim(now=workshop.now(), worker="w")

    await workshop.repairs.begin(10)

    assert workshop.row(old).repair is RepairState.WANTED
    assert read_repairs(workshop.frontier) == {}


async def test_what_was_taken_down_is_not_captured_again(workshop: RepairHarness) -> None:
    """Whoever had it taken down does not want another one."""
    old = workshop.captured()
    workshop.withheld.add(old)

    await workshop.repairs.begin(10)

    assert workshop.row(old).repair is RepairState.FAILED
    assert workshop.item().state is ItemState.DONE


async def test_what_others_wait_for_is_told_from_repairs(workshop: RepairHarness) -> None:
    """Whoever repairs is not to begin a crawl that somebody stopped."""
    workshop.captured()
    await workshop.repairs.begin(10)
    assert not workshop.repairs.others_wait()

    workshop.frontier.add([NewItem(f"{URL}/other")], now=workshop.now())

    assert workshop.repairs.others_wait()


async def test_two_who_finish_a_repair_tell_it_once(workshop: RepairHarness) -> None:
    """A run that stays and a command may meet at it."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    workshop.visit()
    (begun,) = workshop.repairs.begun()
    choice = RepairOutcome(RepairState.DONE_BETTER, "Better.")

    workshop.repairs._end(begun, choice)
    workshop.repairs._end(begun, choice)

    assert len(workshop.repaired) == 1
    assert workshop.row(old).check.reason == "Better."


async def test_who_claims_a_repair_has_had_the_time_to_know_it(
    workshop: RepairHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is given before the item is queued, and what is claimed in between is left alone."""
    old = workshop.captured()
    workshop.frontier.add([NewItem(URL)], now=workshop.now(), again=timedelta(0))
    pauses, sleep = [], asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds:  # a store that is busy is asked again
            await sleep(seconds)
            return
        pauses.append(seconds)
        assert read_repairs(workshop.frontier)
        workshop.frontier.claim(now=workshop.now(), worker="w")

    monkeypatch.setattr("qa.repair.asyncio.sleep", pause)

    await workshop.repairs.begin(10)

    assert pauses == [0.0]
    assert workshop.row(old).repair is RepairState.WANTED
    defaults: dict[str, Any] = {each.name: each.default for each in fields(RepairManager)}
    assert defaults["reach_s"] >= ORDERS_POLL_S


async def test_what_is_no_web_address_cannot_be_repaired(workshop: RepairHarness) -> None:
    """An index may hold anything."""
    workshop.store_check("p", "urn:uuid:1")

    await workshop.repairs.begin(10)

    assert workshop.row("p").repair is RepairState.FAILED


async def test_a_frontier_that_is_gone_lets_a_repair_start_again(workshop: RepairHarness) -> None:
    """Nobody visited the page."""
    old = workshop.captured()
    await workshop.repairs.begin(10)
    (item,) = workshop.frontier.claim(now=workshop.now(), worker="w")
    workshop.frontier.fail(item, now=workshop.now(), reason="lost")
    workshop.frontier.add([NewItem(URL)], now=workshop.now(), again=timedelta(0))

    await workshop.repairs.finish()

    assert workshop.row(old).repair is RepairState.WANTED


def _dying(workshop: RepairHarness, name: str, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Die at the frontier's verb, before it or after it."""
    verb: Callable[..., Any] = getattr(workshop.frontier, name)

    def die(*args: Any, **kwargs: Any) -> Any:
        if after:
            verb(*args, **kwargs)
        raise RepairKilled

    monkeypatch.setattr(workshop.frontier, name, die)


@pytest.mark.parametrize("verb", ["give_order", "add", "take_back"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_who_is_killed_at_any_step_asks_the_site_once(
    workshop: RepairHarness, monkeypatch: pytest.MonkeyPatch, verb: str, *, after: bool, elsewhere: bool
) -> None:
    """Somebody else may have visited meanwhile what was queued; the repair ends all the same."""
    old = workshop.captured()
    with monkeypatch.context() as patch:
        _dying(workshop, verb, patch, after=after)
        with suppress(RepairKilled):
            await workshop.repairs.begin(10)
            workshop.visit()
            await workshop.repairs.finish()
    visits = len(workshop.manifests)
    if elsewhere and workshop.item().state is ItemState.QUEUED:
        workshop.visit()
        visits += 1

    await workshop.repairs.begin(10)
    if workshop.item().state is ItemState.QUEUED:
        workshop.visit()
    await workshop.repairs.finish()
    await workshop.repairs.begin(10)

    assert len(workshop.manifests) == 2
    assert workshop.row(old).repair is RepairState.DONE_BETTER
    assert read_repairs(workshop.frontier) == {}
    assert workshop.item().state is ItemState.DONE
    assert visits <= 2
