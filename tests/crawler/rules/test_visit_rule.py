"""Delays of hosts after a visit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import PolitenessSettings, RecrawlSettings, Settings
from core.page_classes import NOT_THE_PAGE, PageClass
from core.page_manifest import PageInfo, PageResource, VisitOutcome
from crawler.capture.page_capture import CaptureResult
from crawler.frontier.base import FrontierItem, HostBackOff, Lane
from crawler.rules.visit_rule import (
    HOSTS_LIMIT,
    FollowUp,
    PolitenessRule,
    RecrawlRule,
    RecrawlState,
    RuleAction,
    next_recrawl_state,
    parse_recrawl_state,
)
from net.connect_errors import NO_SUCH_HOST

NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLITENESS = PolitenessSettings(delay_factor=2, min_delay_s=3, max_delay_s=30)
URL = "https://www.a.test/page"


def resource(url: str, status: int | None = 200) -> PageResource:
    return PageResource(url, status=status)


def page(**changes: object) -> PageInfo:
    facts: dict[str, object] = {
        "page_id": "id",
        "url": URL,
        "final_url": URL,
        "captured_at": "2026-11-21T00:00:00.000Z",
        "outcome": VisitOutcome.COMPLETE,
        "status": 200,
        "seconds": 5.0,
    }
    return PageInfo(**(facts | changes))  # type: ignore[arg-type]


async def after(info: PageInfo, *, not_before: datetime | None = None, host: str = "www.a.test") -> FollowUp:
    rule = PolitenessRule(lambda _: Settings(politeness=POLITENESS))
    item, follow_up = FrontierItem("id", URL, host, Lane.NOW, 0, "", 1, 1), FollowUp()
    captured = CaptureResult(info, again=not_before is not None, not_before=not_before)
    await rule.after(item, captured, follow_up, now=NOW)
    return follow_up


async def test_the_host_rests_in_proportion_to_the_visit() -> None:
    """Twice the five seconds that it took."""
    assert (await after(page())).delay == timedelta(seconds=10)


async def test_hosts_of_parts_rest_too() -> None:
    """Each host that the page asked, but not its own, and not what asks nobody."""
    parts = (
        resource(URL),
        resource("https://cdn.test/a.js"),
        resource("http://cdn.test:8080/b.js"),
        resource("data:image/png;base64,AAAA"),
    )
    follow_up = await after(page(resources=parts))

    assert follow_up.rests == {"cdn.test": NOW + timedelta(seconds=3)}
    assert follow_up.back_offs == []


async def test_a_host_that_refuses_a_part_is_blocked() -> None:
    """429 counts wherever it is said; one good answer does not hide it."""
    parts = (resource("https://cdn.test/a.js", 429), resource("https://cdn.test/b.js"))
    follow_up = await after(page(resources=parts))

    assert follow_up.back_offs == [HostBackOff("cdn.test", "status 429 for a resource of a page")]


async def test_a_page_that_names_thousands_of_hosts_moves_a_bounded_number() -> None:
    """A hostile page must not fill our stores."""
    parts = tuple(resource(f"https://h{number}.test/") for number in range(10 * HOSTS_LIMIT))

    assert len((await after(page(resources=parts))).rests) == HOSTS_LIMIT


async def test_a_refusal_blocks_the_turn_that_the_item_took_for_as_long_as_the_host_says() -> None:
    """The turn may be that of an address (`politeness.per_address`)."""
    then = NOW + timedelta(hours=1)
    follow_up = await after(page(status=429), not_before=then, host="192.0.2.1")

    assert follow_up.back_offs == [HostBackOff("192.0.2.1", "Retry-After, status 429", then)]


async def test_a_check_for_robots_blocks_the_host_as_a_refusal_does() -> None:
    """Whatever its status; the next block in a row is longer."""
    follow_up = await after(page(status=200, page_class=PageClass.CHALLENGE))

    assert follow_up.back_offs == [HostBackOff("www.a.test", "challenge")]


async def test_a_refusal_after_a_redirect_blocks_the_host_that_refused() -> None:
    """The host that sent us there is not to blame."""
    follow_up = await after(page(status=503, final_url="https://b.test/"))

    assert [each.host for each in follow_up.back_offs] == ["b.test"]


async def test_a_host_that_cannot_be_reached_counts_as_down() -> None:
    """No name, or no connection; an answer of any kind is another matter."""
    failed = page(outcome=VisitOutcome.FAILED, status=None, reason="dns: a.test does not resolve.")
    reset = page(outcome=VisitOutcome.FAILED, status=None, reason="net::ERR_EMPTY_RESPONSE")

    unknown = replace(failed, reason=f"{NO_SUCH_HOST}: a.test does not exist (NXDOMAIN).")

    assert (await after(failed)).back_offs == [HostBackOff("www.a.test", failed.reason, down=True)]
    assert (await after(unknown)).back_offs == [HostBackOff("www.a.test", unknown.reason, down=True, blocks=False)]
    assert (await after(reset)).back_offs == []


NOW = datetime(2026, 11, 21, tzinfo=UTC)
SETTINGS = RecrawlSettings(enabled=True, first_s=100, min_s=10, max_s=1000, changed_factor=0.5, unchanged_factor=2)
intervals = st.floats(0, 1e9, allow_nan=False)
digests = st.sampled_from(["", "text:1", "text:2"])


def item(memo: str = "") -> FrontierItem:
    return FrontierItem("id", "https://a.test/", "a.test", Lane.STANDARD, 0, "", 1, 1, memo=memo)


def digested(
    digest: str, outcome: VisitOutcome = VisitOutcome.COMPLETE, page_class: PageClass = PageClass.OK
) -> PageInfo:
    return PageInfo(
        "id", "https://a.test/", "https://a.test/", "2026-11-21T00:00:00.000Z", outcome,
        text_digest=digest, page_class=page_class,
    )  # fmt: skip


async def visited(
    memo: str, digest: str, outcome: VisitOutcome = VisitOutcome.COMPLETE, page_class: PageClass = PageClass.OK
) -> FollowUp:
    rule, follow_up = RecrawlRule(lambda _: Settings(recrawl=SETTINGS)), FollowUp()
    await rule.after(item(memo), CaptureResult(digested(digest, outcome, page_class)), follow_up, now=NOW)
    return follow_up


@given(intervals, digests)
def test_a_memo_comes_back_from_its_text(interval_s: float, digest: str) -> None:
    """To a thousandth of a second."""
    memo = parse_recrawl_state(str(RecrawlState(interval_s, digest)))

    assert memo is not None
    assert memo.digest == digest
    assert abs(memo.interval_s - interval_s) <= 0.001


@given(st.text())
def test_what_is_no_memo_is_none_or_a_memo(text: str) -> None:
    """Whatever another version wrote, nothing is raised."""
    assert parse_recrawl_state(text) is None or isinstance(parse_recrawl_state(text), RecrawlState)


@pytest.mark.parametrize("text", ['[NaN,""]', '[Infinity,""]', '[1e999,""]', "[1]", "{}", "7"])
def test_a_memo_without_a_time_is_none(text: str) -> None:
    """JSON as Python reads it has numbers that no calendar has."""
    assert parse_recrawl_state(text) is None


@given(st.none() | st.builds(RecrawlState, intervals, digests), digests)
def test_the_interval_stays_within_its_bounds(old: RecrawlState | None, digest: str) -> None:
    """However often a page has changed, or not."""
    memo = next_recrawl_state(old, digest, SETTINGS)

    assert SETTINGS.min_s <= memo.interval_s <= SETTINGS.max_s


async def test_a_changed_page_is_visited_sooner_and_an_unchanged_one_later() -> None:
    """Half the interval, and twice it."""
    first = await visited("", "text:1")
    same = await visited(first.memo, "text:1")
    changed = await visited(same.memo, "text:2")

    assert first.due == NOW + timedelta(seconds=100)
    assert same.due == NOW + timedelta(seconds=200)
    assert changed.due == NOW + timedelta(seconds=100)


async def test_an_unknown_look_leaves_the_interval_and_what_is_remembered() -> None:
    """A page without a digest is compared with the last one that had one."""
    first = await visited("", "text:1")
    unknown = await visited(first.memo, "")
    same = await visited(unknown.memo, "text:1")

    assert unknown.due == NOW + timedelta(seconds=100)
    assert same.due == NOW + timedelta(seconds=200)


@pytest.mark.parametrize("page_class", sorted(NOT_THE_PAGE))
async def test_a_wall_in_the_place_of_a_page_is_no_change(page_class: PageClass) -> None:
    """Nor is the page's return: it is compared with what was seen of it last."""
    first = await visited("", "text:1")
    wall = await visited(first.memo, "text:wall", page_class=page_class)
    back = await visited(wall.memo, "text:1")

    assert wall.due == NOW + timedelta(seconds=100)
    assert back.due == NOW + timedelta(seconds=200)


async def test_a_page_that_failed_is_not_due() -> None:
    """It is a dead letter."""
    assert (await visited("", "text:1", VisitOutcome.FAILED)).due is None


async def test_without_recrawl_nothing_is_due_and_the_memo_is_kept() -> None:
    """The learned state is not lost while recrawling is switched off."""
    rule, follow_up = RecrawlRule(lambda _: Settings()), FollowUp()
    await rule.after(item("memo"), CaptureResult(digested("text:1")), follow_up, now=NOW)

    assert (follow_up.due, follow_up.memo) == (None, "memo")


async def test_an_interval_of_ones_own_is_kept_whatever_has_changed() -> None:
    """`every` switches it on, and goes before all bounds."""
    settings = Settings(recrawl=RecrawlSettings(every="90d"))
    rule, memo = RecrawlRule(lambda _: settings), ""
    for digest in ("text:1", "text:1", "text:2"):
        follow_up = FollowUp()
        await rule.after(item(memo), CaptureResult(digested(digest)), follow_up, now=NOW)
        assert follow_up.due == NOW + timedelta(days=90)
        memo = follow_up.memo


@pytest.mark.parametrize("status", [404, 410])
async def test_a_page_that_is_gone_is_not_due(status: int) -> None:
    """The earlier capture stays the last one; only pages that exist are captured again."""
    rule, follow_up = RecrawlRule(lambda _: Settings(recrawl=SETTINGS)), FollowUp()
    gone = replace(digested("text:1"), status=status)
    await rule.after(item("memo"), CaptureResult(gone), follow_up, now=NOW)
    assert (follow_up.due, follow_up.memo) == (None, "memo")


async def test_captures_again_have_a_share_of_each_hour() -> None:
    """A first capture is never put off by the limit."""
    rule = RecrawlRule(lambda _: Settings(recrawl=RecrawlSettings(every="90d", per_hour=2)))
    due = replace(item(str(RecrawlState(100, "text:1"))), lane=Lane.HIGH)
    for minutes in (0, 1):
        assert (await rule.before(due, now=NOW + timedelta(minutes=minutes))).action is RuleAction.VISIT
    verdict = await rule.before(due, now=NOW + timedelta(minutes=2))
    assert (verdict.action, verdict.until) == (RuleAction.LATER, NOW + timedelta(hours=1))
    new = replace(due, memo="")
    assert (await rule.before(new, now=NOW + timedelta(minutes=2))).action is RuleAction.VISIT
    assert (await rule.before(due, now=NOW + timedelta(hours=1))).action is RuleAction.VISIT
