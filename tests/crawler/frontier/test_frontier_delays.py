"""Host delays: rests, delays, blocks that double, hosts that are down."""

from datetime import datetime, timedelta

from core.config.settings import PolitenessSettings
from crawler.frontier.base import Frontier, HostBackOff, HostBlock, ItemState, NewItem
from tests.crawler.frontier.conftest import OpenFrontier
from tests.crawler.frontier.support import (
    A1,
    A2,
    A3,
    B1,
    B2,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    A,
    B,
    claim_one,
    claimed_urls,
    visit,
)

NOT_ASKED = timedelta(0)
POLITENESS = PolitenessSettings(host_retry_s=60, host_retry_limit_s=600, host_failures=3, host_down_s=3600)


def take_down(frontier: Frontier, host: str, now: datetime) -> datetime:
    """Let the host fail until it is down; until when."""
    until = now
    for _ in range(POLITENESS.host_failures):
        until = frontier.back_off(HostBackOff(host, "no route", down=True), now=now)
    return until


def test_a_delay_that_is_told_replaces_the_rule(frontier: Frontier, now: datetime) -> None:
    """A robots.txt asks for ten seconds: ten seconds it is, however short the visit."""
    frontier.add([A1, A2], now=now)
    visit(frontier, now, duration=SECOND, delay=10 * SECOND)

    assert frontier.next_wakeup(now) == now + 10 * SECOND
    assert claimed_urls(frontier, now + 10 * SECOND) == [A2.url]


def test_no_rest_is_longer_than_the_longest_delay(frontier: Frontier, now: datetime) -> None:
    """A robots.txt that asks for a month does not get it: `crawl_delay_limit_s`."""
    longest = timedelta(seconds=PolitenessSettings().crawl_delay_limit_s)
    frontier.add([A1, A2, B1], now=now)
    visit(frontier, now, delay=30 * DAY)
    frontier.rest({B: now + 30 * DAY}, now=now)

    assert claimed_urls(frontier, now + longest - SECOND) == []
    assert claimed_urls(frontier, now + longest) == [A2.url, B1.url]


def test_a_host_that_was_not_asked_stays_as_it_is(frontier: Frontier, now: datetime) -> None:
    """Delay zero: no rest, no end of a row of failures, no statistics; the item ends all the same."""
    frontier.add([A1, A2, A3], now=now)
    frontier.back_off(HostBackOff(A, "503"), now=now)
    before = frontier.host(A, now=now + HOUR)
    assert before is not None

    done = frontier.claim(now=now + HOUR, worker="w")[0]
    frontier.complete(done, now=now + HOUR, outcome="known", duration=MINUTE, delay=NOT_ASKED, stored_bytes=5)
    skipped = frontier.claim(now=now + HOUR, worker="w")[0]
    frontier.skip(skipped, now=now + HOUR, reason="policy", duration=MINUTE, delay=NOT_ASKED)
    failed = frontier.claim(now=now + HOUR, worker="w")[0]
    frontier.fail(failed, now=now + HOUR, reason="no scope", delay=NOT_ASKED)

    after = frontier.host(A, now=now + HOUR)
    assert after is not None
    assert (after.failures, after.done, after.bytes, after.busy, after.mean, after.ready_at) == (
        before.failures,
        before.done,
        before.bytes,
        before.busy,
        before.mean,
        before.ready_at,
    )
    assert frontier.counts()[ItemState.DONE] == 1
    assert frontier.stats(now).bytes == 5


def test_a_host_that_was_not_asked_keeps_the_rest_it_had(open_frontier: OpenFrontier, now: datetime) -> None:
    """Two visits at once: one asked the host, the other did not."""
    frontier = open_frontier(PolitenessSettings(visits_per_host=2))
    frontier.add([A1, A2, A3], now=now)
    visited, other = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(visited, now=now, outcome="ok", duration=9 * SECOND)
    frontier.complete(other, now=now, outcome="ok", duration=9 * SECOND, delay=NOT_ASKED)

    assert frontier.next_wakeup(now) == now + 9 * SECOND


def test_every_ending_that_asked_the_host_lets_it_rest(frontier: Frontier, now: datetime) -> None:
    """Good or bad, a visit is a visit."""
    frontier.add([A1, B1, NewItem("https://c.test/"), NewItem("https://d.test/")], now=now)
    one, two, three, four = frontier.claim(now=now, worker="w", limit=4)
    frontier.complete(one, now=now, outcome="ok", duration=7 * SECOND)
    frontier.retry(two, now=now, reason="x", duration=7 * SECOND)
    frontier.fail(three, now=now, reason="x", duration=7 * SECOND)
    frontier.skip(four, now=now, reason="noarchive", duration=7 * SECOND)

    reports = [frontier.host(item.host, now=now) for item in (one, two, three, four)]

    assert [report.ready_at for report in reports if report] == [now + 7 * SECOND] * 4
    assert [report.busy for report in reports if report] == [7 * SECOND] * 4
    assert [report.done for report in reports if report] == [1, 0, 0, 0]


def test_a_host_that_was_asked_by_the_way_rests(frontier: Frontier, now: datetime) -> None:
    """Subresources of a page elsewhere count, too; a shorter rest shortens nothing."""
    frontier.add([A1, B1, B2], now=now)
    frontier.rest({A: now + 20 * SECOND, "unknown.test": now + 20 * SECOND}, now=now)
    frontier.rest({A: now + SECOND}, now=now)

    assert claimed_urls(frontier, now) == [B1.url]
    assert claimed_urls(frontier, now + 20 * SECOND - timedelta(milliseconds=1)) == []
    assert claimed_urls(frontier, now + 20 * SECOND) == [A1.url]
    assert frontier.host("unknown.test", now=now) is None


def test_a_block_doubles_with_each_refusal_up_to_a_limit(open_frontier: OpenFrontier, now: datetime) -> None:
    """429, 429, 429: one, two, four minutes, and ten at most (`host_retry_limit_s`)."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)

    waits = []
    for _ in range(6):
        until = frontier.back_off(HostBackOff(A, "429"), now=now)
        waits.append((until - now) / MINUTE)
        assert frontier.blocks(now=now) == [HostBlock(A, until, "429")]
        assert frontier.claim(now=until - SECOND, worker="w") == []
        now = until

    assert waits == [1, 2, 4, 8, 10, 10]
    report = frontier.host(A, now=now)
    assert report is not None
    assert report.failures == 6
    assert claimed_urls(frontier, now) == [A1.url]


def test_a_moment_that_the_host_named_holds_when_it_is_later(open_frontier: OpenFrontier, now: datetime) -> None:
    """Retry-After may ask for more than we would give, never for less."""
    frontier = open_frontier(POLITENESS)

    assert frontier.back_off(HostBackOff(A, "429", at_least=now + HOUR), now=now) == now + HOUR
    assert frontier.back_off(HostBackOff(B, "429", at_least=now + SECOND), now=now) == now + MINUTE


def test_a_refusal_never_shortens_a_block(open_frontier: OpenFrontier, now: datetime) -> None:
    """An operator paused the host for a day."""
    frontier = open_frontier(POLITENESS)
    frontier.block_until(A, now + DAY, "paused", now=now)

    assert frontier.back_off(HostBackOff(A, "429"), now=now) == now + DAY


def test_a_completed_visit_ends_a_row_of_failures(open_frontier: OpenFrontier, now: datetime) -> None:
    """The next refusal begins from the start; other endings do not count as an answer."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1, A2, A3], now=now)
    for _ in range(4):
        now = frontier.back_off(HostBackOff(A, "503"), now=now)
    frontier.fail(claim_one(frontier, now), now=now, reason="reset")
    now += HOUR
    assert frontier.back_off(HostBackOff(A, "503"), now=now) == now + 10 * MINUTE
    now += HOUR
    visit(frontier, now)

    assert frontier.back_off(HostBackOff(A, "503"), now=now) == now + MINUTE


def test_lifting_a_block_ends_a_row_of_failures(open_frontier: OpenFrontier, now: datetime) -> None:
    """An operator says that the host is well again."""
    frontier = open_frontier(POLITENESS)
    for _ in range(4):
        frontier.back_off(HostBackOff(A, "503"), now=now)

    frontier.block_until(A, now, "", now=now)

    assert frontier.back_off(HostBackOff(A, "503"), now=now) == now + MINUTE


def test_now_lifts_a_block_whatever_fraction_of_a_millisecond_it_has(
    open_frontier: OpenFrontier, now: datetime
) -> None:
    """No rounding makes a later moment of it."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)
    frontier.block_until(A, now + HOUR, "paused", now=now)
    odd = now + timedelta(microseconds=1_234_567)

    frontier.block_until(A, odd, "", now=odd)

    assert frontier.blocks(now=odd) == []
    assert claimed_urls(frontier, odd) == [A1.url]


def test_a_host_out_of_reach_is_given_up_for_a_while(open_frontier: OpenFrontier, now: datetime) -> None:
    """Its items come at once, with the reason, and can end without a delay (W46)."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1, A2, A3, B1], now=now)
    visit(frontier, now, duration=10 * SECOND)
    until = take_down(frontier, A, now)

    assert until == now + HOUR
    assert frontier.blocks(now=now) == []
    assert frontier.next_wakeup(now) == now
    for url in (A2.url, A3.url):
        (item,) = [
            item for item in frontier.claim(now=now, worker="w", limit=5) if item.url != B1.url or item.host_down
        ]
        assert (item.url, item.host_down) == (url, "no route")
        assert frontier.fail(item, now=now, reason=item.host_down, delay=NOT_ASKED)
    report = frontier.host(A, now=now)
    assert report is not None
    assert (report.down_until, report.blocked_until, report.failures) == (until, None, 3)
    assert report.blocked_reason == "no route"


def test_a_host_that_is_down_gives_no_more_items_at_once_than_others(
    open_frontier: OpenFrontier, now: datetime
) -> None:
    """`visits_per_host` holds, so that two workers do not ask in vain at once when it is up again."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1, A2], now=now)
    take_down(frontier, A, now)

    assert len(frontier.claim(now=now, worker="w", limit=5)) == 1


def test_down_ends_by_itself(open_frontier: OpenFrontier, now: datetime) -> None:
    """Later items are visited again; one more failure and it is down again."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1, A2], now=now)
    until = take_down(frontier, A, now)

    last = frontier.claim(now=until - timedelta(milliseconds=1), worker="w")[0]
    assert last.host_down
    frontier.fail(last, now=until, reason="down", delay=NOT_ASKED)
    item = claim_one(frontier, until)

    assert item.host_down == ""
    report = frontier.host(A, now=until)
    assert report is not None
    assert report.down_until is None
    assert frontier.back_off(HostBackOff(A, "no route", down=True), now=until) == until + HOUR


def test_when_down_ends_the_rest_holds(open_frontier: OpenFrontier, now: datetime) -> None:
    """Items that ended unvisited left the host's rest as it was."""
    frontier = open_frontier(PolitenessSettings(host_failures=1, host_down_s=5))
    frontier.add([A1, A2, A3], now=now)
    visit(frontier, now, duration=20 * SECOND)
    frontier.back_off(HostBackOff(A, "no route", down=True), now=now)
    frontier.fail(claim_one(frontier, now), now=now, reason="down", delay=NOT_ASKED)

    assert claimed_urls(frontier, now + 6 * SECOND) == []
    assert frontier.next_wakeup(now + 6 * SECOND) == now + 20 * SECOND
    assert claimed_urls(frontier, now + 20 * SECOND) == [A3.url]


def test_a_host_that_answers_with_refusals_is_never_down(open_frontier: OpenFrontier, now: datetime) -> None:
    """503 for a week is a block for a week, not a loss of its URLs."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)
    for _ in range(10):
        frontier.back_off(HostBackOff(A, "503"), now=now)

    assert frontier.claim(now=now, worker="w") == []
    report = frontier.host(A, now=now)
    assert report is not None
    assert report.down_until is None


def test_a_refusal_ends_down(open_frontier: OpenFrontier, now: datetime) -> None:
    """A host that says no is there."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)
    take_down(frontier, A, now)
    until = frontier.back_off(HostBackOff(A, "503"), now=now)

    assert frontier.claim(now=now, worker="w") == []
    assert claim_one(frontier, until).host_down == ""


def test_a_completed_visit_ends_down(open_frontier: OpenFrontier, now: datetime) -> None:
    """One of two visits came through: the host is there."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1, A2], now=now)
    item = claim_one(frontier, now)
    take_down(frontier, A, now)

    frontier.complete(item, now=now, outcome="ok", duration=9 * SECOND)

    report = frontier.host(A, now=now)
    assert report is not None
    assert (report.down_until, report.failures) == (None, 0)
    assert frontier.claim(now=now, worker="w") == []
    assert claim_one(frontier, now + 9 * SECOND).host_down == ""


def test_lifting_ends_down(open_frontier: OpenFrontier, now: datetime) -> None:
    """An operator mended the network."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)
    take_down(frontier, A, now)

    frontier.block_until(A, now, "", now=now)

    assert claim_one(frontier, now).host_down == ""


def test_a_block_holds_while_a_host_is_down(open_frontier: OpenFrontier, now: datetime) -> None:
    """An operator's pause is stronger than "give its items up"."""
    frontier = open_frontier(POLITENESS)
    frontier.add([A1], now=now)
    take_down(frontier, A, now)
    frontier.block_until(A, now + MINUTE, "paused", now=now)

    assert frontier.claim(now=now, worker="w") == []
    assert claim_one(frontier, now + MINUTE).host_down != ""


def test_blocks_and_downs_outlive_the_process(open_frontier: OpenFrontier, now: datetime) -> None:
    """A restart does not make a crawl less gentle."""
    first = open_frontier(POLITENESS)
    first.add([A1, B1], now=now)
    take_down(first, A, now)
    first.back_off(HostBackOff(B, "429"), now=now)
    first.close()

    second = open_frontier(POLITENESS)

    assert claim_one(second, now).host_down == "no route"
    assert second.back_off(HostBackOff(B, "429"), now=now) == now + 2 * MINUTE


def test_a_host_without_a_slot_gets_one(open_frontier: OpenFrontier, now: datetime) -> None:
    """Its robots.txt failed before its first URL was added."""
    frontier = open_frontier(POLITENESS)
    frontier.back_off(HostBackOff(A, "robots.txt: 503"), now=now)
    frontier.add([A1], now=now)

    assert frontier.claim(now=now, worker="w") == []
    assert frontier.stats(now).hosts == 1
    assert claimed_urls(frontier, now + MINUTE) == [A1.url]


def test_hosts_that_share_a_turn_are_visited_one_at_a_time(frontier: Frontier, now: datetime) -> None:
    """`NewItem.host`: two names, one address."""
    frontier.add([NewItem(A1.url, host="192.0.2.1"), NewItem(B1.url, host="192.0.2.1")], now=now)

    item = claim_one(frontier, now)
    assert (item.url, item.host) == (A1.url, "192.0.2.1")
    frontier.complete(item, now=now, outcome="ok", duration=9 * SECOND)
    assert frontier.claim(now=now + 8 * SECOND, worker="w") == []
    assert claimed_urls(frontier, now + 9 * SECOND) == [B1.url]
    assert frontier.host("192.0.2.1", now=now) is not None
    assert frontier.host(A, now=now) is None
