"""Repairs in the frontier: how the next visit of a URL is made, told through a real one."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import BehaviourSettings, PolitenessSettings, ProxySettings, Settings, VisitSettings
from core.errors import InputError
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureResult
from crawler.frontier.base import REPAIR_ORDER, Frontier, FrontierItem, Lane, NewItem
from crawler.jobs.crawl_orders import (
    RepairVisit,
    cancel_repair,
    order_repair,
    overlay_profile,
    parse_repair,
    read_repairs,
)
from crawler.jobs.job_settings import ORDERS_POLL_S, JobSettings, RepairRule
from crawler.profiles import load_profile
from crawler.rules.visit_rule import ALLOW_VISIT, FollowUp, RuleAction
from render.sign_in import Login, SiteLogins, SiteSession
from tests.crawler.frontier.conftest import NewPlace
from tests.support.clocks import ManualClock

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
URL = "https://a.example/page"
REPAIR = RepairVisit("0f3c", "repair-1")


@pytest.fixture
def frontier(new_place: NewPlace) -> Iterator[Frontier]:
    """Yield a frontier of every implementation, without host delays."""
    with new_place().open(PolitenessSettings(min_delay_s=0.0, max_delay_s=0.0)) as opened:
        yield opened


def test_a_repair_reaches_workers_and_is_forgotten(frontier: Frontier) -> None:
    """However its URL is spelled; the other URLs of the site are visited as ever."""
    clock = ManualClock(datetime(2026, 11, 21, 12, tzinfo=UTC))
    jobs = JobSettings(frontier, Settings(), clock=clock)
    assert jobs.repair_of(URL) is None

    order_repair(frontier, "https://a.example:443/page#part", REPAIR)
    clock.advance(seconds=2 * ORDERS_POLL_S)

    assert jobs.repair_of(URL) == REPAIR
    assert jobs.repair_of(f"{URL}/other") is None

    cancel_repair(frontier, URL)
    clock.advance(seconds=2 * ORDERS_POLL_S)

    assert jobs.repair_of(URL) is None


def test_what_is_no_repair_is_left_out(frontier: Frontier) -> None:
    """An order of another version, or of somebody else, ends no worker."""
    order_repair(frontier, URL, REPAIR)
    for number, text in enumerate(("", "[]", "[" * 5_000, '{"page_id": 1, "bucket": "b"}', "{}")):
        frontier.give_order(REPAIR_ORDER, f"https://b.example/{number}", text)

    assert list(read_repairs(frontier).values()) == [REPAIR]


@given(st.text(), st.text(), st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,50}\Z"))
def test_a_repair_is_read_as_it_was_written(page_id: str, login: str, bucket: str) -> None:
    """Reading is the inverse of writing."""
    repair = RepairVisit(page_id, bucket, login)

    assert parse_repair(repair.to_json()) == repair


@given(st.text())
def test_a_bucket_is_a_name(bucket: str) -> None:
    """A bucket name that a control socket would refuse is refused here."""
    text = json.dumps({"page_id": "a", "bucket": f"/{bucket}"})

    with pytest.raises(InputError):
        parse_repair(text)


def test_the_thorough_profile_is_laid_over_the_settings_and_the_rest_stays() -> None:
    """Politeness, device and proxy settings stay those of the run."""
    settings = Settings(
        visit=VisitSettings(mobile=True, timeout_s=7.0),
        behaviours=BehaviourSettings(run=()),
        politeness=PolitenessSettings(min_delay_s=9.0),
        proxy=ProxySettings(disk_reserve_bytes=5, dedup_bucket="mine"),
    )
    thorough = load_profile("thorough")

    merged = REPAIR.lay_over(settings)

    assert merged.visit.mobile
    assert merged.visit.timeout_s == thorough.visit.timeout_s
    assert merged.behaviours == thorough.behaviours
    assert merged.politeness == settings.politeness
    assert (merged.proxy.dedup_bucket, merged.proxy.disk_reserve_bytes) == ("repair-1", 5)


def test_of_a_profile_only_the_groups_that_were_asked_for_are_laid_over() -> None:
    """A gentle profile's politeness stays away where visits alone are meant."""
    assert overlay_profile(Settings(), "gentle", ("visit",)).politeness == Settings().politeness
    assert overlay_profile(Settings(), "gentle", ("politeness",)).politeness.min_delay_s == 5.0


def test_a_profile_that_is_missing_leaves_a_fresh_bucket() -> None:
    """A worker elsewhere may not have it: the page is captured again all the same."""
    merged = replace(REPAIR, profile="no-such-profile").lay_over(Settings())

    assert merged == replace(Settings(), proxy=ProxySettings(dedup_bucket="repair-1"), visit=VisitSettings(fresh=True))


ITEM = FrontierItem("id", URL, "a.example", Lane.STANDARD, 0, "", 1)
CLUB = SiteLogins([Login("club", ("a.example",), NOW, session=SiteSession())])


@pytest.mark.parametrize(
    ("captured_with", "logins", "action"),
    [
        ("", None, RuleAction.VISIT),
        ("club", CLUB, RuleAction.VISIT),
        ("club", None, RuleAction.FAIL),
        ("", CLUB, RuleAction.FAIL),
        ("other", CLUB, RuleAction.FAIL),
    ],
)
async def test_a_page_is_repaired_as_whom_it_was_captured_or_not_at_all(
    captured_with: str, logins: SiteLogins | None, action: RuleAction
) -> None:
    """A member's view never replaces a public capture, nor the other way round."""
    rule = RepairRule(lambda _: replace(REPAIR, login=captured_with), logins)

    verdict = await rule.before(ITEM, now=NOW)

    assert verdict.action is action
    assert verdict.reason.startswith("login:") is (action is RuleAction.FAIL)


@pytest.mark.parametrize("repair", [REPAIR, None])
async def test_a_repair_leads_nowhere(repair: RepairVisit | None) -> None:
    """Its links were decided on when it was captured first; those of other pages are followed."""
    rule = RepairRule(lambda _: repair, None)
    follow_up = FollowUp(links=[NewItem("https://a.example/next")])
    page = PageInfo("id", URL, URL, "2026-11-21T12:00:00Z", VisitOutcome.COMPLETE)

    await rule.after(ITEM, CaptureResult(page), follow_up, now=NOW)

    assert bool(follow_up.links) is (repair is None)
    assert await RepairRule(lambda _: None, CLUB).before(ITEM, now=NOW) == ALLOW_VISIT
