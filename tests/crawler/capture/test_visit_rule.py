"""What hosts are owed after a visit."""

from datetime import UTC, datetime, timedelta

from core.config.settings import PolitenessSettings, Settings
from core.page_classes import PageClass
from core.page_manifest import PageInfo, PageResource, VisitOutcome
from crawler.capture.page_capture import CaptureResult
from crawler.capture.visit_rule import FollowUp, HostBackOff
from crawler.frontier.base import FrontierItem, Lane
from crawler.rules.after_visit import HOSTS_LIMIT, PolitenessRule

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


async def after(
    info: PageInfo, *, not_before: datetime | None = None, host: str = "www.a.test"
) -> FollowUp:
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

    assert follow_up.back_offs == [HostBackOff("cdn.test", "status 429 for a part of a page")]


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

    assert (await after(failed)).back_offs == [HostBackOff("www.a.test", failed.reason, down=True)]
    assert (await after(reset)).back_offs == []
