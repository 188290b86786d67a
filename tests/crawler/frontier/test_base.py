"""Behaviour of every frontier, in whatever it is stored."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import BadUrlError, InputError
from crawler.frontier.base import AddResult, Frontier, HostBlock, ItemState, Lane, NewItem
from tests.crawler.frontier.support import (
    A1,
    A2,
    A3,
    ALL_THAT_ENDED,
    B1,
    B2,
    DAY,
    LEASE,
    MINUTE,
    SECOND,
    claim_one,
    claimed_urls,
    state_of,
)

OpenFrontier = Callable[..., Frontier]


def test_an_added_url_can_be_claimed_with_all_that_was_said(frontier: Frontier, now: datetime) -> None:
    """Nothing is lost between add and claim."""
    added = NewItem("https://a.example.org/", Lane.HIGH, hops=2, via="https://b.example.org/")
    assert frontier.add([added], now=now) == AddResult(added=1)

    item = claim_one(frontier, now)

    assert (item.url, item.lane, item.hops, item.via) == (added.url, added.lane, added.hops, added.via)
    assert (item.host, item.attempts) == ("a.example.org", 1)
    assert str(UUID(item.id)) == item.id
    assert item.token > 0


def test_an_empty_frontier_has_nothing_to_claim(frontier: Frontier, now: datetime) -> None:
    """No items, no wake-up, nothing unfinished."""
    assert frontier.claim(now=now, worker="w") == []
    assert frontier.next_wakeup(now) is None
    assert frontier.unfinished(now) == 0
    assert frontier.add([], now=now) == AddResult()


def test_a_claimed_url_is_not_claimed_twice(frontier: Frontier, now: datetime) -> None:
    """Two workers never visit one URL at once."""
    frontier.add([A1], now=now)

    claim_one(frontier, now)

    assert frontier.claim(now=now, worker="other") == []


def test_a_known_url_is_a_duplicate_however_it_is_spelled(frontier: Frontier, now: datetime) -> None:
    """The identity key decides (core.urls)."""
    frontier.add([NewItem("http://example.org/~a")], now=now)

    result = frontier.add([NewItem("http://example.org/%7Ea"), NewItem("http://example.org/~a?")], now=now)

    assert result == AddResult(duplicates=2)
    assert frontier.stats(now).duplicates == 2
    assert frontier.unfinished(now) == 1


def test_equal_urls_in_one_call_are_added_once(frontier: Frontier, now: datetime) -> None:
    """A page links to itself many times."""
    assert frontier.add([A1, A2, A1, A1], now=now) == AddResult(added=2, duplicates=2)


def test_urls_that_a_replay_key_would_merge_are_two(frontier: Frontier, now: datetime) -> None:
    """Scheme, case and a final slash count."""
    urls = ["http://e.org/a", "https://e.org/a", "http://e.org/A", "http://e.org/a/"]

    assert frontier.add(map(NewItem, urls), now=now) == AddResult(added=4)


def test_an_addition_with_a_bad_url_adds_nothing(frontier: Frontier, now: datetime) -> None:
    """All of them or none."""
    with pytest.raises(BadUrlError):
        frontier.add([A1, NewItem("mailto:a@example.org")], now=now)

    assert frontier.unfinished(now) == 0


def test_a_naive_moment_is_refused(frontier: Frontier) -> None:
    """Two machines must mean one moment."""
    with pytest.raises(InputError, match="time zone"):
        frontier.add([A1], now=datetime(2026, 1, 1))  # noqa: DTZ001 the rule under test


def test_a_host_is_visited_once_at_a_time(frontier: Frontier, now: datetime) -> None:
    """A host slot is taken until the visit ends."""
    frontier.add([A1, A2, B1], now=now)

    assert claimed_urls(frontier, now) == [A1.url, B1.url]
    assert claimed_urls(frontier, now + 10 * SECOND) == []


def test_a_host_may_be_visited_as_often_at_once_as_allowed(open_frontier: OpenFrontier, now: datetime) -> None:
    """`visits_per_host` is a setting."""
    frontier = open_frontier(PolitenessSettings(visits_per_host=2))
    frontier.add([A1, A2, A3], now=now)

    assert claimed_urls(frontier, now) == [A1.url, A2.url]


def test_a_host_rests_in_proportion_to_the_visit(open_frontier: OpenFrontier, now: datetime) -> None:
    """Heritrix's rule: a factor times the duration, within bounds."""
    frontier = open_frontier(PolitenessSettings(delay_factor=2, min_delay_s=1, max_delay_s=30))
    frontier.add([A1, A2], now=now)
    item = claim_one(frontier, now)

    assert frontier.complete(item, now=now + 5 * SECOND, outcome="ok", duration=4 * SECOND)

    assert frontier.next_wakeup(now + 5 * SECOND) == now + 13 * SECOND
    assert claimed_urls(frontier, now + 13 * SECOND - timedelta(microseconds=1)) == []
    assert claimed_urls(frontier, now + 13 * SECOND) == [A2.url]


def test_without_a_duration_the_host_was_busy_since_the_claim(frontier: Frontier, now: datetime) -> None:
    """The claim's age is what the frontier knows by itself."""
    frontier.add([A1, A2], now=now)
    frontier.complete(claim_one(frontier, now), now=now + 7 * SECOND, outcome="ok")

    assert frontier.next_wakeup(now + 7 * SECOND) == now + 14 * SECOND


def test_a_short_visit_does_not_cut_the_rest_after_a_long_one_short(open_frontier: OpenFrontier, now: datetime) -> None:
    """With several visits at once the longest rest counts."""
    frontier = open_frontier(PolitenessSettings(visits_per_host=2))
    frontier.add([A1, A2, A3], now=now)
    long, short = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(long, now=now + 9 * SECOND, outcome="ok", duration=9 * SECOND)
    frontier.complete(short, now=now + 10 * SECOND, outcome="ok", duration=1 * SECOND)

    assert frontier.next_wakeup(now + 10 * SECOND) == now + 18 * SECOND


def test_one_slow_host_delays_no_other(frontier: Frontier, now: datetime) -> None:
    """Each host has its own slot."""
    frontier.add([A1, A2, B1, B2], now=now)
    items = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(items[1], now=now, outcome="ok", duration=0 * SECOND)

    assert claimed_urls(frontier, now + 1 * SECOND) == [B2.url]


def test_the_host_that_waits_longest_is_first(frontier: Frontier, now: datetime) -> None:
    """Hosts take turns."""
    frontier.add([A1, A2, B1, B2], now=now)
    first, second = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(second, now=now, outcome="ok", duration=0 * SECOND)
    frontier.complete(first, now=now + SECOND, outcome="ok", duration=0 * SECOND)

    assert claimed_urls(frontier, now + 10 * SECOND, limit=1) == [B2.url]


def test_items_of_a_host_come_in_the_order_they_were_added(frontier: Frontier, now: datetime) -> None:
    """A list is archived from its top."""
    urls = [f"https://a.example.org/{page}" for page in (5, 3, 9, 1)]
    frontier.add(map(NewItem, urls), now=now)

    order = []
    for _ in urls:
        now += 60 * SECOND
        item = claim_one(frontier, now)
        order.append(item.url)
        frontier.complete(item, now=now, outcome="ok")

    assert order == urls


def test_a_higher_lane_goes_first_within_and_among_hosts(frontier: Frontier, now: datetime) -> None:
    """Somebody waits for an item in lane NOW."""
    frontier.add([A1, B1], now=now)
    frontier.add([NewItem(A2.url, Lane.NOW), NewItem("https://c.example.org/", Lane.HIGH)], now=now)

    assert claimed_urls(frontier, now, limit=1) == [A2.url]
    assert claimed_urls(frontier, now, limit=2) == ["https://c.example.org/", B1.url]


def test_a_known_url_moves_up_when_it_is_wanted_sooner(frontier: Frontier, now: datetime) -> None:
    """A reader asks for a URL that waits in a long queue."""
    frontier.add([A1, A2, A3], now=now)

    result = frontier.add([NewItem(A3.url, Lane.NOW)], now=now, again=ALL_THAT_ENDED)

    assert result == AddResult(duplicates=1)
    order = []
    while items := frontier.claim(now=now, worker="w"):
        order.append(items[0].url)
        frontier.complete(items[0], now=now, outcome="ok")
        now += 60 * SECOND
    assert order == [A3.url, A1.url, A2.url]


def test_a_known_url_never_moves_down(frontier: Frontier, now: datetime) -> None:
    """A link on some page does not undo a reader's wish."""
    frontier.add([A1, NewItem(A2.url, Lane.NOW)], now=now)
    frontier.add([A2], now=now, again=ALL_THAT_ENDED)

    assert claimed_urls(frontier, now) == [A2.url]


def test_a_completed_url_stays_done(frontier: Frontier, now: datetime) -> None:
    """A link found later does not start a second visit."""
    frontier.add([A1], now=now)
    frontier.complete(claim_one(frontier, now), now=now, outcome="complete")

    assert frontier.add([A1], now=now) == AddResult(duplicates=1)
    assert frontier.claim(now=now + 60 * SECOND, worker="w") == []
    assert frontier.counts()[ItemState.DONE] == 1


def test_a_completed_url_is_visited_again_when_that_is_asked_for(frontier: Frontier, now: datetime) -> None:
    """A new visit is a new page, with attempts of its own."""
    frontier.add([A1], now=now)
    first = claim_one(frontier, now)
    frontier.complete(first, now=now, outcome="complete")

    assert frontier.add([A1], now=now, again=ALL_THAT_ENDED) == AddResult(requeued=1)

    second = claim_one(frontier, now + 60 * SECOND)
    assert (second.url, second.attempts) == (A1.url, 1)
    assert second.id != first.id
    assert frontier.counts() == {
        ItemState.QUEUED: 0,
        ItemState.CLAIMED: 1,
        ItemState.DONE: 0,
        ItemState.SKIPPED: 0,
        ItemState.DEAD: 0,
    }


def test_again_leaves_a_claimed_url_alone(frontier: Frontier, now: datetime) -> None:
    """It is being visited this very moment."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    assert frontier.add([A1], now=now, again=ALL_THAT_ENDED) == AddResult(duplicates=1)
    assert frontier.complete(item, now=now, outcome="ok")
    assert frontier.unfinished(now) == 0


def test_a_lease_that_ran_out_is_claimable_while_other_work_waits(frontier: Frontier, now: datetime) -> None:
    """A dead worker's item comes back at once, not when the queue is empty."""
    frontier.add([A1, B1, B2], now=now)
    dead = frontier.claim(now=now, worker="dead", limit=1)[0]

    again = frontier.claim(now=now + LEASE, worker="w", limit=10)

    assert {item.url for item in again} == {A1.url, B1.url}
    retaken = next(item for item in again if item.url == A1.url)
    assert retaken.id == dead.id
    assert retaken.token > dead.token
    assert retaken.attempts == 2


def test_a_lease_holds_until_it_runs_out(frontier: Frontier, now: datetime) -> None:
    """Not a millisecond less."""
    frontier.add([A1], now=now)
    claim_one(frontier, now)

    assert frontier.claim(now=now + LEASE - timedelta(milliseconds=1), worker="w") == []
    assert frontier.next_wakeup(now) == now + LEASE


def test_a_claimed_item_says_since_when_and_until_when(frontier: Frontier, now: datetime) -> None:
    """Renewing moves the end, not the beginning; when the claim is over neither is told."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)
    later = now + LEASE / 2
    frontier.renew(item, now=later)
    (held,) = frontier.ls(ItemState.CLAIMED)
    frontier.release(item, now=later)
    free = frontier.find(A1.url)

    assert (held.claimed_at, held.lease_until, held.worker) == (now, later + LEASE, "w")
    assert free is not None
    assert (free.claimed_at, free.lease_until) == (None, None)


def test_a_lease_does_not_survive_a_clock_that_is_put_back(frontier: Frontier, now: datetime) -> None:
    """A dead worker's item and its host's others are handed out a lease later, not a year later."""
    frontier.add([A1, A2], now=now)
    frontier.claim(now=now, worker="dies")
    back = now - 400 * DAY

    assert frontier.claim(now=back, worker="w") == []
    frontier.claim(now=back + LEASE, worker="w")  # the host rests from now on
    assert len(frontier.claim(now=back + LEASE + MINUTE, worker="w", limit=2)) == 1


def test_a_renewed_lease_runs_from_then(frontier: Frontier, now: datetime) -> None:
    """A slow page keeps its claim while its worker lives."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    for _ in range(5):
        now += LEASE / 2
        assert frontier.renew(item, now=now)

    assert frontier.claim(now=now + LEASE / 2, worker="w") == []
    assert frontier.claim(now=now + LEASE, worker="w") != []


def test_the_old_holder_of_a_claim_is_refused(frontier: Frontier, now: datetime) -> None:
    """Fencing: a worker that woke up late changes nothing."""
    frontier.add([A1], now=now)
    old = claim_one(frontier, now, "old")
    later = now + LEASE
    new = claim_one(frontier, later, "new")

    assert not frontier.renew(old, now=later)
    assert not frontier.complete(old, now=later, outcome="ok")
    assert frontier.retry(old, now=later, reason="late") is None
    assert not frontier.fail(old, now=later, reason="late")
    assert not frontier.release(old, now=later)
    assert frontier.complete(new, now=later, outcome="ok")


def test_a_claim_ends_once(frontier: Frontier, now: datetime) -> None:
    """A second ending is refused, so counts stay true."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)
    assert frontier.complete(item, now=now, outcome="ok")

    assert not frontier.complete(item, now=now, outcome="ok")
    assert frontier.retry(item, now=now, reason="x") is None
    assert frontier.counts()[ItemState.DONE] == 1


def test_a_lease_that_ran_out_unnoticed_is_still_the_holders(frontier: Frontier, now: datetime) -> None:
    """Work that is done and durable counts as long as nobody else was given it."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    assert frontier.complete(item, now=now + 2 * LEASE, outcome="ok")


def test_a_retry_waits_for_its_moment(frontier: Frontier, now: datetime) -> None:
    """`not_before` is kept to, and wakes the worker."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)
    due = now + timedelta(hours=3)

    assert frontier.retry(item, now=now, reason="503", not_before=due) is ItemState.QUEUED

    assert frontier.claim(now=due - SECOND, worker="w") == []
    assert frontier.next_wakeup(now) == due
    again = claim_one(frontier, due)
    assert (again.id, again.attempts) == (item.id, 2)


def test_retries_back_off(frontier: Frontier, now: datetime) -> None:
    """Without a moment the delay doubles (A04)."""
    frontier.add([A1], now=now)
    delay = timedelta(seconds=FrontierSettings().retry_delay_s)

    frontier.retry(claim_one(frontier, now), now=now, reason="timeout")
    assert frontier.next_wakeup(now) == now + delay
    now += delay
    frontier.retry(claim_one(frontier, now), now=now, reason="timeout")

    assert frontier.next_wakeup(now) == now + 2 * delay


def test_used_up_attempts_end_in_the_dead_letters_with_every_reason(frontier: Frontier, now: datetime) -> None:
    """Nothing leaves the books (A04, A11)."""
    frontier.add([A1], now=now)
    states = []
    for reason in ("timeout", "reset", "503"):
        now += timedelta(days=1)
        states.append(frontier.retry(claim_one(frontier, now), now=now, reason=reason))

    assert states == [ItemState.QUEUED, ItemState.QUEUED, ItemState.DEAD]
    (record,) = frontier.ls(ItemState.DEAD)
    assert (record.item.url, record.outcome, record.ended_at) == (A1.url, "503", now)
    assert [attempt.reason for attempt in record.attempts] == ["timeout", "reset", "503"]
    assert {attempt.ending for attempt in record.attempts} == {"retry"}
    assert frontier.claim(now=now + timedelta(days=30), worker="w") == []
    assert frontier.unfinished(now) == 0


def test_a_failure_for_good_goes_to_the_dead_letters_at_once(frontier: Frontier, now: datetime) -> None:
    """No host, no scope: a second attempt would not help."""
    frontier.add([A1], now=now)

    assert frontier.fail(claim_one(frontier, now), now=now, reason="no such host")

    record = frontier.find(A1.url)
    assert record is not None
    assert (record.state, record.outcome) == (ItemState.DEAD, "no such host")


def test_a_dead_letter_can_be_tried_again(frontier: Frontier, now: datetime) -> None:
    """An operator mended the cause; the item has fresh attempts."""
    frontier.add([A1], now=now)
    frontier.fail(claim_one(frontier, now), now=now, reason="no such host")

    assert frontier.add([A1], now=now, again=ALL_THAT_ENDED) == AddResult(requeued=1)

    assert claim_one(frontier, now + 60 * SECOND).attempts == 1
    assert frontier.counts()[ItemState.DEAD] == 0


def test_a_page_that_kills_its_workers_is_not_handed_out_for_ever(frontier: Frontier, now: datetime) -> None:
    """Leases that keep running out end in the dead letters too, after more claims."""
    frontier.add([A1], now=now)
    claims = 0
    while frontier.claim(now=now, worker="w"):
        claims += 1
        now += timedelta(minutes=10)

    (record,) = frontier.ls(ItemState.DEAD)
    assert claims == 3 * FrontierSettings().attempts
    assert {attempt.ending for attempt in record.attempts} == {"expired"}


def test_a_released_item_keeps_its_place_and_attempts(frontier: Frontier, now: datetime) -> None:
    """A worker that stops gives back what it did not visit."""
    frontier.add([A1, A2], now=now)
    item = claim_one(frontier, now)

    assert frontier.release(item, now=now)

    again = claim_one(frontier, now + 60 * SECOND)
    assert (again.url, again.attempts) == (A1.url, 1)


def test_a_blocked_host_is_left_alone_until_then(frontier: Frontier, now: datetime) -> None:
    """Retry-After blocks the host, not the crawl."""
    frontier.add([A1, B1], now=now)
    until = now + timedelta(hours=1)

    frontier.block_until("a.example.org", until, "Retry-After", now=now)

    assert claimed_urls(frontier, now) == [B1.url]
    assert claimed_urls(frontier, until - SECOND) == [B1.url]
    assert claimed_urls(frontier, until) == [A1.url]


def test_a_block_holds_for_hosts_and_urls_that_come_later(frontier: Frontier, now: datetime) -> None:
    """robots.txt may be asked before the first URL is added."""
    frontier.block_until("a.example.org", now + 60 * SECOND, "robots.txt: 503", now=now)
    frontier.add([A1], now=now)

    assert frontier.claim(now=now, worker="w") == []
    assert frontier.next_wakeup(now) == now + 60 * SECOND
    assert claimed_urls(frontier, now + 60 * SECOND) == [A1.url]


def test_an_earlier_moment_does_not_shorten_a_block_but_a_past_one_lifts_it(frontier: Frontier, now: datetime) -> None:
    """Two answers of one host may disagree; an operator may overrule both."""
    frontier.add([A1], now=now)
    long = now + timedelta(hours=2)
    frontier.block_until("a.example.org", long, "Retry-After: 7200", now=now)
    frontier.block_until("a.example.org", now + SECOND, "Retry-After: 1", now=now)

    assert frontier.blocks(now=now) == [HostBlock("a.example.org", long, "Retry-After: 7200")]
    assert frontier.claim(now=now + 2 * SECOND, worker="w") == []

    frontier.block_until("a.example.org", now, "", now=now)
    assert frontier.blocks(now=now) == []
    assert claimed_urls(frontier, now) == [A1.url]


def test_a_block_is_lifted_at_a_moment_between_two_milliseconds(frontier: Frontier, now: datetime) -> None:
    """Clocks are finer than the books; rounding must not make a past moment a later one."""
    fine = now + timedelta(microseconds=1)
    frontier.add([A1], now=fine)
    frontier.block_until("a.example.org", fine + 60 * SECOND, "an operator", now=fine)
    frontier.block_until("a.example.org", fine, "", now=fine)

    assert claimed_urls(frontier, fine) == [A1.url]


def test_a_paused_frontier_hands_out_nothing_and_takes_everything(frontier: Frontier, now: datetime) -> None:
    """A full disk stops visits, not what is under way."""
    frontier.add([A1, B1], now=now)
    item = frontier.claim(now=now, worker="w")[0]
    frontier.pause("the disk is full")

    assert frontier.claim(now=now, worker="w") == []
    assert frontier.next_wakeup(now) is None
    assert frontier.stats(now).paused == "the disk is full"
    assert frontier.renew(item, now=now)
    assert frontier.complete(item, now=now, outcome="ok")
    assert frontier.add([A2], now=now).added == 1

    frontier.resume()
    assert claimed_urls(frontier, now) == [B1.url]
    assert frontier.stats(now).paused is None


def test_the_books_say_where_a_url_stands(frontier: Frontier, now: datetime) -> None:
    """Never seen, queued since, claimed, refused with a reason, done: the reader is told."""
    assert frontier.find(A1.url) is None
    frontier.add([A1], now=now)
    assert state_of(frontier, A1.url) is ItemState.QUEUED
    item = claim_one(frontier, now)
    assert state_of(frontier, A1.url) is ItemState.CLAIMED
    due = now + timedelta(hours=1)
    frontier.retry(item, now=now + SECOND, reason="timeout", not_before=due)

    record = frontier.find("https://A.example.org/1#top")

    assert record is not None
    assert (record.state, record.due_at, record.added_at) == (ItemState.QUEUED, due, now)
    (attempt,) = record.attempts
    assert (attempt.reason, attempt.worker, attempt.claimed_at, attempt.ended_at) == ("timeout", "w", now, now + SECOND)
    frontier.complete(claim_one(frontier, due), now=due, outcome="partial")
    record = frontier.find(A1.url)
    assert record is not None
    assert (record.state, record.outcome, record.ended_at) == (ItemState.DONE, "partial", due)


def test_many_urls_are_found_as_one_is(frontier: Frontier, now: datetime) -> None:
    """In the order of the question, whatever their states, with their attempts; None for the unknown."""
    many = [NewItem(f"https://many-{number}.example/") for number in range(600)]
    frontier.add([A1, A2], now=now)
    item = claim_one(frontier, now)
    frontier.retry(item, now=now + SECOND, reason="timeout", not_before=now + timedelta(hours=1))
    frontier.add([B1, *many], now=now)
    frontier.claim(now=now + SECOND, worker="w", limit=10)
    urls = [each.url for each in many[::-1]]
    addresses = ["https://unknown.example/", A1.url, *urls, A1.url, "https://B.example.org/1#top"]

    records = frontier.find_all(addresses)

    assert records == [frontier.find(url) for url in addresses]
    assert records[0] is None
    assert frontier.find_all([]) == []


def test_items_are_listed_by_state(frontier: Frontier, now: datetime) -> None:
    """Status shows what is in each state, a few at a time."""
    frontier.add([A1, A2, B1, NewItem("https://c.example.org/"), NewItem("https://d.test/")], now=now)
    items = {item.url: item for item in frontier.claim(now=now, worker="w", limit=10)}
    frontier.complete(items[A1.url], now=now, outcome="complete")
    frontier.fail(items[B1.url], now=now, reason="no such host")
    frontier.retry(items["https://c.example.org/"], now=now, reason="timeout")

    listed = {state: [r.item.url for r in frontier.ls(state)] for state in ItemState}

    assert listed == {
        ItemState.QUEUED: [A2.url, "https://c.example.org/"],
        ItemState.CLAIMED: ["https://d.test/"],
        ItemState.DONE: [A1.url],
        ItemState.SKIPPED: [],
        ItemState.DEAD: [B1.url],
    }
    assert frontier.counts() == {state: len(urls) for state, urls in listed.items()}
    assert [r.item.url for r in frontier.ls(ItemState.QUEUED, limit=1)] == [A2.url]
    assert {r.state for state in ItemState for r in frontier.ls(state)} == set(ItemState) - {ItemState.SKIPPED}


def test_statistics_add_up(frontier: Frontier, now: datetime) -> None:
    """Every item is in exactly one place."""
    frontier.add([A1, A2, B1], now=now)
    frontier.claim(now=now, worker="w", limit=1)

    stats = frontier.stats(now)
    assert (stats.queued, stats.claimed, stats.done, stats.dead, stats.hosts) == (2, 1, 0, 0, 2)
    late = frontier.stats(now + LEASE)
    assert (late.queued, late.claimed) == (3, 0)
    assert frontier.unfinished(now) == frontier.unfinished(now + LEASE) == 3


def test_the_books_outlive_the_process(open_frontier: OpenFrontier, now: datetime) -> None:
    """Another process sees the same queue, claims, delays, blocks and pause."""
    first = open_frontier()
    first.add([A1, A2, B1], now=now)
    item = first.claim(now=now, worker="w", limit=1)[0]
    first.block_until("b.example.org", now + 60 * SECOND, "Retry-After", now=now)
    first.pause("stop")
    first.close()

    second = open_frontier()

    assert second.stats(now).paused == "stop"
    second.resume()
    assert second.claim(now=now, worker="v") == []
    assert second.complete(item, now=now + 5 * SECOND, outcome="ok")
    assert claimed_urls(second, now + 9 * SECOND) == []
    assert claimed_urls(second, now + 10 * SECOND) == [A2.url]


def test_two_handles_share_one_frontier(open_frontier: OpenFrontier, now: datetime) -> None:
    """Several processes work off one queue."""
    one, other = open_frontier(), open_frontier()
    one.add([A1, B1], now=now)

    claimed = one.claim(now=now, worker="1", limit=1) + other.claim(now=now, worker="2", limit=1)

    assert {item.url for item in claimed} == {A1.url, B1.url}
    assert len({item.token for item in claimed}) == 2
    assert all(other.complete(item, now=now, outcome="ok") for item in claimed)
    assert one.unfinished(now) == 0


def test_any_thread_may_use_one_frontier(open_frontier: OpenFrontier, now: datetime) -> None:
    """A worker calls it from its event loop and from threads alike; each item goes to one."""
    frontier = open_frontier()
    with ThreadPoolExecutor(8) as pool:
        added = pool.map(lambda number: frontier.add([NewItem(f"https://h{number % 50}.test/")], now=now), range(100))
        assert sum(result.added for result in added) == 50
        claims = list(pool.map(lambda _: frontier.claim(now=now, worker="w", limit=4), range(20)))
        items = [item for claimed in claims for item in claimed]
        ended = pool.map(lambda item: frontier.complete(item, now=now, outcome="ok"), items)
        assert all(ended)

    assert len({item.url for item in items}) == len({item.token for item in items}) == 50
    assert len(items) == frontier.counts()[ItemState.DONE] == 50


def test_moments_of_any_zone_are_understood(frontier: Frontier, now: datetime) -> None:
    elsewhere = now.astimezone().replace(microsecond=999)
    frontier.add([A1], now=elsewhere)

    record = frontier.find(A1.url)

    assert record is not None
    assert record.added_at == now
    assert record.added_at.tzinfo is UTC
