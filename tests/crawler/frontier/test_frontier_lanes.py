"""Whose turn it is: lanes and their shares, orders, fairness, and what clocks may do to it."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from core.config.settings import FrontierSettings, PolitenessSettings
from core.urls import MAX_URL_LENGTH, fetch_key
from crawler.frontier.base import AFFINITY_HOSTS, Frontier, HostBackOff, ItemState, Lane, NewItem
from crawler.frontier.host_slots import longest_back_off, longest_wait
from tests.crawler.frontier.conftest import OpenFrontier
from tests.crawler.frontier.support import (
    A1,
    A2,
    A3,
    B1,
    B2,
    DAY,
    HOUR,
    LEASE,
    MINUTE,
    NO_DELAY,
    SECOND,
    A,
    B,
    claim_one,
    claimed_urls,
    visit,
    work_off,
)

MILLISECOND = timedelta(milliseconds=1)
LONGEST_BACK_OFF = longest_back_off(PolitenessSettings())
LONGEST_WAIT = longest_wait(PolitenessSettings())


def fill_lanes(frontier: Frontier, now: datetime, each: int = 30) -> None:
    """Add items of every lane, each on a host of its own."""
    for lane in Lane:
        urls = (f"https://{lane.name.lower()}-{number}.test/" for number in range(each))
        frontier.add([NewItem(url, lane) for url in urls], now=now)


def test_each_lane_has_its_share_of_the_claims(frontier: Frontier, now: datetime) -> None:
    """Of ten claims one looks in STANDARD first, another in HIGH, the others in NOW (U15)."""
    fill_lanes(frontier, now)

    claimed = [frontier.claim(now=now, worker="w")[0] for _ in range(20)]

    def owed(token: int) -> Lane:
        if token % 10 == 0:
            return Lane.STANDARD
        return Lane.HIGH if token % 5 == 0 else Lane.NOW

    assert [item.lane for item in claimed] == [owed(item.token) for item in claimed]
    assert Counter(item.lane for item in claimed) == {Lane.NOW: 16, Lane.HIGH: 2, Lane.STANDARD: 2}


def test_a_batch_of_claims_shares_lanes_as_single_claims_do(open_frontier: OpenFrontier, now: datetime) -> None:
    """Every item has a token of its own."""
    frontier = open_frontier(settings=FrontierSettings(high_every=2, standard_every=3))
    fill_lanes(frontier, now)

    claimed = frontier.claim(now=now, worker="w", limit=12)

    assert Counter(item.lane for item in claimed) == {Lane.NOW: 4, Lane.HIGH: 4, Lane.STANDARD: 4}
    assert all(item.lane is Lane.STANDARD for item in claimed if item.token % 3 == 0)


def test_without_shares_a_lower_lane_waits(open_frontier: OpenFrontier, now: datetime) -> None:
    """0: never."""
    frontier = open_frontier(settings=FrontierSettings(high_every=0, standard_every=0))
    fill_lanes(frontier, now)

    lanes = [item.lane for item in frontier.claim(now=now, worker="w", limit=70)]

    assert lanes == [Lane.NOW] * 30 + [Lane.HIGH] * 30 + [Lane.STANDARD] * 10


def test_an_empty_lane_gives_its_share_to_the_next(open_frontier: OpenFrontier, now: datetime) -> None:
    """No claim goes empty because of the order it looks in."""
    frontier = open_frontier(settings=FrontierSettings(high_every=2, standard_every=3))
    frontier.add([NewItem(f"https://h{n}.test/", Lane.NOW) for n in range(12)], now=now)

    assert len(frontier.claim(now=now, worker="w", limit=12)) == 12


def test_a_flood_in_one_lane_starves_no_lane_of_the_same_host(open_frontier: OpenFrontier, now: datetime) -> None:
    """The order of the claim also says which of the host's own lanes gives."""
    frontier = open_frontier(NO_DELAY)
    frontier.add([A1, NewItem(A2.url, Lane.HIGH)], now=now)
    flood = [NewItem(f"https://a.example.org/now/{n}", Lane.NOW) for n in range(50)]
    frontier.add(flood, now=now)

    first_twenty = work_off(frontier, now)[:20]

    assert {A1.url, A2.url} < set(first_twenty)


def test_a_flood_in_one_lane_starves_no_other_host(frontier: Frontier, now: datetime) -> None:
    """Hosts of lower lanes get their share however many wait in NOW."""
    fill_lanes(frontier, now, each=60)
    frontier.add([NewItem(f"https://late-{n}.test/", Lane.NOW) for n in range(60)], now=now)

    lanes = Counter(item.lane for item in frontier.claim(now=now, worker="w", limit=60))

    assert lanes[Lane.STANDARD] == lanes[Lane.HIGH] == 6


@pytest.mark.parametrize(("hosts", "visited"), [(AFFINITY_HOSTS, range(16, 17)), (4 * AFFINITY_HOSTS, range(3, 9))])
def test_claims_stay_with_few_hosts_while_many_are_ready(
    frontier: Frontier, now: datetime, hosts: int, visited: range
) -> None:
    """Their browser contexts are kept; the contexts of fewer hosts are kept in any order."""
    frontier.add((NewItem(f"https://h{n % hosts}.test/{n // hosts}") for n in range(hosts * 10)), now=now)

    claimed = [visit(frontier, now + n * SECOND, delay=SECOND).host for n in range(30)]

    assert len(set(claimed)) in visited


def test_new_hosts_come_as_they_were_added_however_many_are_ready(frontier: Frontier, now: datetime) -> None:
    """None of them has a browser context yet."""
    urls = [f"https://h{number}.test/" for number in range(3 * AFFINITY_HOSTS)]
    frontier.add(map(NewItem, urls), now=now)

    assert claimed_urls(frontier, now, limit=len(urls)) == urls


@pytest.mark.parametrize("lane", Lane)
def test_every_ready_host_has_its_turn_while_others_are_ready_again(
    open_frontier: OpenFrontier, now: datetime, lane: Lane
) -> None:
    """A host visited a moment ago is always ready; of 17 claims two go to the host that waits longest."""
    frontier, hosts = open_frontier(NO_DELAY), 2 * AFFINITY_HOSTS
    frontier.add((NewItem(f"https://h{n % hosts}.test/{n // hosts}", lane) for n in range(hosts * 20)), now=now)

    claimed = {visit(frontier, now + n * MILLISECOND).host for n in range(hosts * 9)}

    assert len(claimed) == hosts


def test_in_random_order_items_come_in_no_order(open_frontier: OpenFrontier, now: datetime) -> None:
    """Each once, and not as they were added (W40)."""
    frontier = open_frontier(settings=FrontierSettings(order="random"))
    urls = [f"https://a.example.org/{number}" for number in range(40)]
    frontier.add(map(NewItem, urls[:20]), now=now)
    frontier.add(map(NewItem, urls[20:]), now=now)

    order = work_off(frontier, now)

    assert order != urls
    assert sorted(order) == sorted(urls)
    assert min(order.index(url) for url in urls[20:]) < 20, "later ones are not after all others"


def test_in_random_order_hosts_take_turns_in_no_order(open_frontier: OpenFrontier, now: datetime) -> None:
    """The hosts of a list do not come as they stand there."""
    frontier = open_frontier(settings=FrontierSettings(order="random"))
    urls = [f"https://h{number:02}.test/" for number in range(40)]
    frontier.add(map(NewItem, urls), now=now)

    order = claimed_urls(frontier, now, limit=40)

    assert order != urls
    assert sorted(order) == urls


def test_in_random_order_a_host_rests_and_lanes_hold(open_frontier: OpenFrontier, now: datetime) -> None:
    """Only places are drawn; politeness and lanes are not."""
    frontier = open_frontier(settings=FrontierSettings(order="random"))
    frontier.add([A1, A2, NewItem(A3.url, Lane.NOW)], now=now)

    assert visit(frontier, now, duration=5 * SECOND).url == A3.url
    assert claimed_urls(frontier, now + 4 * SECOND) == []
    assert len(claimed_urls(frontier, now + 5 * SECOND)) == 1


def test_in_random_order_a_released_item_keeps_its_place(open_frontier: OpenFrontier, now: datetime) -> None:
    """Its place was drawn when it was added."""
    frontier = open_frontier(settings=FrontierSettings(order="random"))
    frontier.add([NewItem(f"https://a.example.org/{n}") for n in range(30)], now=now)
    first = claim_one(frontier, now)
    frontier.release(first, now=now)

    assert claim_one(frontier, now).url == first.url


def test_an_order_may_change_between_two_runs(open_frontier: OpenFrontier, now: datetime) -> None:
    """A setting never loses what waits under another."""
    urls = [f"https://a.example.org/{number}" for number in range(6)]
    for order, url in zip(("fifo", "random") * 3, urls, strict=True):
        frontier = open_frontier(settings=FrontierSettings(order=order))
        frontier.add([NewItem(url)], now=now)
        frontier.add([NewItem(url, Lane.HIGH)], now=now, again=timedelta(0))
        frontier.close()

    assert sorted(work_off(open_frontier(), now)) == urls


@pytest.mark.slow
def test_a_host_with_many_items_delays_no_host_with_one(open_frontier: OpenFrontier, now: datetime) -> None:
    """5,000 items of one host and 500 hosts with one: each has its turn."""
    frontier = open_frontier(NO_DELAY)
    giant, items, hosts = "https://giant.test/", 5_000, 500
    frontier.add((NewItem(f"{giant}{n}") for n in range(items)), now=now)
    frontier.add((NewItem(f"https://h{n}.test/") for n in range(hosts)), now=now)

    claimed: Counter[str] = Counter()
    for _ in range(7):
        now += MILLISECOND
        for item in frontier.claim(now=now, worker="w", limit=100):
            claimed[item.host] += 1
            assert frontier.complete(item, now=now, outcome="ok")

    assert len(claimed) == hosts + 1, "every host had a turn"
    assert frontier.counts()[ItemState.QUEUED] == items - claimed["giant.test"]


def test_a_very_long_url_is_kept_whole(frontier: Frontier, now: datetime) -> None:
    """The longest that may be fetched, through every verb."""
    start = "https://a.example.org/?"
    url = start + "q" * (MAX_URL_LENGTH - len(start))
    assert fetch_key(url) == url
    frontier.add([NewItem(url, via=url)], now=now)
    frontier.add([NewItem(url[:-1]), NewItem(url, Lane.NOW)], now=now, again=timedelta(0))

    item = visit(frontier, now, due=now + MINUTE, memo="m")

    assert (item.url == url, item.via == url, item.lane) == (True, True, Lane.NOW)
    record = frontier.find(url)
    assert record is not None
    assert record.state is ItemState.DONE
    again = frontier.claim(now=now + 2 * MINUTE, worker="w")[0]
    assert again.url == url
    scanned, _ = frontier.scan(ItemState.QUEUED)
    assert [len(each.item.url) for each in scanned] == [MAX_URL_LENGTH - 1]


def test_a_clock_that_is_put_back_lets_no_host_rest_for_long(frontier: Frontier, now: datetime) -> None:
    """A year back: no host waits for a year, and none is asked at once."""
    longest = timedelta(seconds=PolitenessSettings().crawl_delay_limit_s)
    frontier.add([A1, A2, B1, B2], now=now)
    for item in frontier.claim(now=now, worker="w", limit=2):
        frontier.complete(item, now=now, outcome="ok", duration=20 * SECOND)
    now -= 365 * DAY

    assert frontier.claim(now=now, worker="w", limit=9) == []
    wakeup = frontier.next_wakeup(now)
    assert wakeup is not None
    assert now < wakeup <= now + longest
    assert sorted(claimed_urls(frontier, now + longest)) == [A2.url, B2.url]


def test_a_clock_that_is_put_back_lifts_no_block_and_loses_no_item(frontier: Frontier, now: datetime) -> None:
    """A block or a not-before moment stays valid when the clock is set back."""
    frontier.add([A1, B1], now=now)
    frontier.block_until("a.example.org", now + MINUTE, "Retry-After", now=now)
    retried = claim_one(frontier, now)
    frontier.retry(retried, now=now, reason="503", not_before=now + MINUTE)
    back = now - 30 * DAY

    assert frontier.claim(now=back, worker="w") == []
    assert frontier.unfinished(back) == 2
    assert sorted(claimed_urls(frontier, now + MINUTE)) == [A1.url, B1.url]


def test_back_off_given_while_the_clock_was_ahead_is_cut(frontier: Frontier, now: datetime) -> None:
    """A year ahead and back: the host is asked again when its longest back-off is over."""
    frontier.add([A1], now=now)
    ahead = now + 365 * DAY
    frontier.back_off(HostBackOff(A, "503", at_least=ahead + HOUR), now=ahead)

    assert frontier.claim(now=now, worker="w") == [], "a back-off is not lifted"
    assert claimed_urls(frontier, now + LONGEST_BACK_OFF) == [A1.url]


def test_block_by_an_operator_outlasts_any_clock(frontier: Frontier, now: datetime) -> None:
    """Neither a back-off before it nor one after it makes it a back-off."""
    frontier.add([A1, B1], now=now)
    until = now + 365 * DAY
    frontier.back_off(HostBackOff(A, "503"), now=now)
    for host in (A, B):
        frontier.block_until(host, until, "paused", now=now)
    frontier.back_off(HostBackOff(B, "503"), now=now)

    assert claimed_urls(frontier, now - 30 * DAY) == []
    assert claimed_urls(frontier, until - DAY) == []
    assert [each.until for each in frontier.blocks(now=now)] == [until, until]


def test_block_of_an_operator_that_was_lifted_leaves_back_offs_cut(frontier: Frontier, now: datetime) -> None:
    """A back-off given while the clock was ahead is cut even if it follows an operator's block."""
    frontier.add([A1], now=now)
    ahead = now + 365 * DAY
    frontier.block_until(A, ahead + DAY, "paused", now=ahead)
    frontier.block_until(A, ahead, "", now=ahead)
    frontier.back_off(HostBackOff(A, "503"), now=ahead)

    assert frontier.claim(now=now, worker="w") == []
    assert claimed_urls(frontier, now + LONGEST_BACK_OFF) == [A1.url]


def test_retry_and_release_given_while_the_clock_was_ahead_are_cut(frontier: Frontier, now: datetime) -> None:
    """No item waits for longer than its longest wait, whatever its not-before moment."""
    frontier.add([A1, B1], now=now)
    ahead = now + 365 * DAY
    retried, released = frontier.claim(now=ahead, worker="w", limit=2)
    frontier.retry(retried, now=ahead, reason="503", not_before=ahead + DAY, delay=timedelta(0))
    frontier.release(released, now=ahead, not_before=ahead + DAY)

    assert frontier.claim(now=now, worker="w") == []
    assert frontier.claim(now=now + LONGEST_WAIT - SECOND, worker="w") == []
    assert claimed_urls(frontier, now + LONGEST_WAIT) == [A1.url, B1.url]


def test_wait_beyond_the_longest_is_cut_when_it_begins(frontier: Frontier, now: datetime) -> None:
    """So that one that is further off tells of a clock."""
    frontier.add([A1], now=now)
    frontier.retry(claim_one(frontier, now), now=now, reason="503", not_before=now + 365 * DAY)

    record = frontier.find(A1.url)
    assert record is not None
    assert record.due_at == now + LONGEST_WAIT


def test_host_down_since_the_clock_was_ahead_comes_up_again(frontier: Frontier, now: datetime) -> None:
    """Its items do not end unvisited for a year."""
    frontier.add([A1, A2], now=now)
    ahead = now + 365 * DAY
    for _ in range(PolitenessSettings().host_failures):
        frontier.back_off(HostBackOff(A, "refused", down=True), now=ahead)

    assert claim_one(frontier, now).host_down == "refused"
    frontier.claim(now=now + LONGEST_BACK_OFF, worker="w")
    later = claim_one(frontier, now + LONGEST_BACK_OFF + HOUR)
    assert not later.host_down


def test_page_that_ended_while_the_clock_was_ahead_is_old(frontier: Frontier, now: datetime) -> None:
    """Asked for again, it is not refused for a year as just archived."""
    frontier.add([A1], now=now)
    visit(frontier, now + 365 * DAY)

    assert frontier.add([A1], now=now, again=HOUR).requeued == 1


def test_a_clock_that_goes_back_a_little_changes_nothing(frontier: Frontier, now: datetime) -> None:
    """Clocks are set by seconds all the time."""
    frontier.add([A1, A2], now=now)
    visit(frontier, now, duration=30 * SECOND)
    back = now - 20 * SECOND

    assert frontier.claim(now=back, worker="w") == []
    assert claimed_urls(frontier, now + 29 * SECOND) == []
    assert claimed_urls(frontier, now + 30 * SECOND) == [A2.url]


def test_a_clock_that_jumps_ahead_loses_no_item(frontier: Frontier, now: datetime) -> None:
    """Leases run out early; the holder may still end its work until another is given it."""
    frontier.add([A1, B1], now=now)
    held, lost = frontier.claim(now=now, worker="w", limit=2)
    ahead = now + 3650 * DAY

    assert frontier.complete(held, now=ahead, outcome="ok")
    retaken = claim_one(frontier, ahead, "other")
    assert (retaken.url, retaken.attempts) == (lost.url, 2)
    assert not frontier.complete(lost, now=now + SECOND, outcome="ok")
    assert frontier.complete(retaken, now=now + SECOND, outcome="ok")
    assert frontier.unfinished(now + SECOND) == 0


def test_a_lease_renewed_before_the_clock_went_back_is_not_cut(frontier: Frontier, now: datetime) -> None:
    """A sign of life never counts less than an earlier one."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    assert frontier.renew(item, now=now - MINUTE)
    assert frontier.claim(now=now + LEASE - MILLISECOND, worker="w") == []
    assert len(frontier.claim(now=now + LEASE, worker="w")) == 1
