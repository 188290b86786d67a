"""Items that come back, and those that do not: due, requeued, released, skipped, discarded."""

from datetime import datetime, timedelta

import pytest

from core.config.settings import FrontierSettings
from core.errors import BadUrlError
from crawler.frontier.base import AddResult, Frontier, ItemState, Lane, NewItem
from tests.crawler.frontier.conftest import OpenFrontier
from tests.crawler.frontier.support import (
    A1,
    A2,
    A3,
    ALL_THAT_ENDED,
    B1,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    claim_one,
    claimed_urls,
    state_of,
    visit,
    work_off,
)


def test_a_due_item_comes_back_as_a_new_one_in_lane_high(frontier: Frontier, now: datetime) -> None:
    """A new id, fresh attempts, its memo; hops, via and job as they were (design 6)."""
    added = NewItem(A1.url, hops=2, via=B1.url, job="weekly", hops_off=1)
    frontier.add([added], now=now)
    frontier.retry(claim_one(frontier, now), now=now, reason="503", not_before=now + MINUTE)
    due = now + 7 * DAY
    first = visit(frontier, now + MINUTE, due=due, memo="etag: 1")

    assert frontier.claim(now=due - timedelta(milliseconds=1), worker="w") == []
    again = claim_one(frontier, due)

    assert (again.url, again.lane, again.attempts, again.memo) == (A1.url, Lane.HIGH, 1, "etag: 1")
    assert (again.hops, again.via, again.job, again.hops_off) == (2, B1.url, "weekly", 1)
    assert again.id != first.id
    assert again.token > first.token
    record = frontier.find(A1.url)
    assert record is not None
    assert (record.added_at, record.attempts, record.due_at) == (due, (), None)


def test_a_due_item_wakes_the_worker_but_is_no_unfinished_work(frontier: Frontier, now: datetime) -> None:
    """A crawl may end although pages will be due; one that stays sleeps until then."""
    frontier.add([A1], now=now)
    visit(frontier, now, due=now + DAY)

    assert frontier.unfinished(now) == 0
    assert frontier.next_wakeup(now) == now + DAY
    assert frontier.stats(now).due == 1
    assert state_of(frontier, A1.url) is ItemState.DONE
    record = frontier.find(A1.url)
    assert record is not None
    assert record.due_at == now + DAY

    claim_one(frontier, now + DAY)
    assert frontier.stats(now + DAY).due == 0
    assert frontier.counts()[ItemState.DONE] == 0


def test_a_due_item_waits_while_the_frontier_is_paused(frontier: Frontier, now: datetime) -> None:
    """Nothing is handed out, nothing is lost."""
    frontier.add([A1], now=now)
    visit(frontier, now, due=now + HOUR)
    frontier.pause("stop")

    assert frontier.claim(now=now + DAY, worker="w") == []
    frontier.resume()
    assert claimed_urls(frontier, now + DAY) == [A1.url]


def test_a_due_item_rests_and_waits_as_others_do(frontier: Frontier, now: datetime) -> None:
    """It takes its host's turn."""
    frontier.add([A1, A2], now=now)
    visit(frontier, now, due=now + SECOND, duration=10 * SECOND)

    assert frontier.claim(now=now + 2 * SECOND, worker="w") == []
    assert claimed_urls(frontier, now + 10 * SECOND, limit=1) == [A1.url]


def test_a_due_item_of_a_shared_turn_takes_it_again(frontier: Frontier, now: datetime) -> None:
    """Two hosts that share an address go on sharing it."""
    frontier.add([NewItem(A1.url, host="192.0.2.1"), NewItem(B1.url, host="192.0.2.1")], now=now)
    assert visit(frontier, now, due=now + HOUR).host == "192.0.2.1"

    assert claim_one(frontier, now + HOUR).host == "192.0.2.1"


@pytest.mark.slow
def test_many_due_items_are_queued_by_and_by(frontier: Frontier, now: datetime) -> None:
    """One claim takes some thousand at most, and the next ones the rest; none is lost."""
    count = 2_500
    frontier.add((NewItem(f"https://h{n}.test/") for n in range(count)), now=now)
    for item in frontier.claim(now=now, worker="w", limit=count):
        frontier.complete(item, now=now, outcome="ok", due=now + HOUR)
    now += DAY

    urls: set[str] = set()
    while items := frontier.claim(now=now, worker="w", limit=count):
        assert frontier.next_wakeup(now) is not None
        urls |= {item.url for item in items}

    assert len(urls) == count


def test_a_known_url_is_queued_again_when_it_ended_long_enough_ago(frontier: Frontier, now: datetime) -> None:
    """Archived "in a reasonable time" is archived (A02)."""
    frontier.add([A1], now=now)
    visit(frontier, now)

    just_before = now + HOUR - timedelta(milliseconds=1)
    assert frontier.add([A1], now=just_before, again=HOUR) == AddResult(duplicates=1)
    assert frontier.add([A1], now=now + HOUR, again=HOUR) == AddResult(requeued=1)
    assert frontier.add([A1], now=now + DAY, again=HOUR) == AddResult(duplicates=1)


def test_again_with_no_age_takes_all_that_ended_whatever_the_clock_says(frontier: Frontier, now: datetime) -> None:
    """An operator who says "again" means it."""
    frontier.add([A1], now=now)
    visit(frontier, now)

    back = now - DAY
    assert frontier.add([A1], now=back, again=ALL_THAT_ENDED) == AddResult(requeued=1)


def test_a_url_queued_again_is_as_the_new_item_says(frontier: Frontier, now: datetime) -> None:
    """Lane, hops, via, job and turn are the new ones; the memo is kept."""
    frontier.add([A1], now=now)
    visit(frontier, now, memo="m")
    new = NewItem(A1.url, Lane.NOW, hops=3, via=B1.url, job="j", hops_off=2, host="other.test")

    frontier.add([new], now=now, again=ALL_THAT_ENDED)

    item = claim_one(frontier, now)
    assert (item.lane, item.hops, item.via, item.job, item.hops_off, item.host, item.memo) == (
        Lane.NOW,
        3,
        B1.url,
        "j",
        2,
        "other.test",
        "m",
    )


def test_a_memo_outlives_failures_and_is_replaced_by_the_next_completion(frontier: Frontier, now: datetime) -> None:
    """It is what the last completion wanted to be remembered."""
    frontier.add([A1], now=now)
    visit(frontier, now, memo="one")
    frontier.add([A1], now=now, again=ALL_THAT_ENDED)
    now += HOUR
    failed = claim_one(frontier, now)
    frontier.fail(failed, now=now, reason="gone")
    frontier.add([A1], now=now, again=ALL_THAT_ENDED)
    now += HOUR
    completed = visit(frontier, now)
    frontier.add([A1], now=now, again=ALL_THAT_ENDED)

    assert (failed.memo, completed.memo) == ("one", "one")
    assert claim_one(frontier, now + HOUR).memo == ""


def test_a_due_item_that_is_queued_again_comes_once(frontier: Frontier, now: datetime) -> None:
    """A reader asked before it was due."""
    frontier.add([A1], now=now)
    visit(frontier, now, due=now + HOUR)
    frontier.add([A1], now=now, again=ALL_THAT_ENDED)

    visit(frontier, now + MINUTE)

    assert frontier.stats(now).due == 0
    assert frontier.claim(now=now + DAY, worker="w") == []


def test_a_skipped_item_is_in_the_books_with_its_reason(frontier: Frontier, now: datetime) -> None:
    """It is not archived, and a reader can be told why (A05)."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    assert frontier.skip(item, now=now, reason="policy: example.org", delay=timedelta(0))

    (record,) = frontier.ls(ItemState.SKIPPED)
    assert (record.item.url, record.state, record.outcome, record.ended_at) == (
        A1.url,
        ItemState.SKIPPED,
        "policy: example.org",
        now,
    )
    assert frontier.counts()[ItemState.SKIPPED] == frontier.stats(now).skipped == 1
    assert frontier.unfinished(now) == 0
    assert frontier.next_wakeup(now) is None
    assert not frontier.skip(item, now=now, reason="twice")


def test_a_skipped_item_can_be_queued_again(frontier: Frontier, now: datetime) -> None:
    """A policy was changed."""
    frontier.add([A1], now=now)
    frontier.skip(claim_one(frontier, now), now=now, reason="policy", delay=timedelta(0))

    assert frontier.add([A1], now=now) == AddResult(duplicates=1)
    assert frontier.add([A1], now=now, again=ALL_THAT_ENDED) == AddResult(requeued=1)
    assert claim_one(frontier, now).attempts == 1
    assert frontier.counts()[ItemState.SKIPPED] == 0


def test_a_discarded_item_that_is_queued_again_is_the_last_one(frontier: Frontier, now: datetime) -> None:
    """It comes after those that were queued meanwhile, not in the place that it had."""
    frontier.add([A1, A2, A3], now=now)
    frontier.discard([A1.url], now=now, reason="not wanted")
    frontier.add([A1], now=now, again=ALL_THAT_ENDED)

    assert work_off(frontier, now) == [A2.url, A3.url, A1.url]


@pytest.mark.parametrize("due", [False, True])
def test_an_item_that_comes_back_to_the_lane_it_left_is_the_last_one(
    frontier: Frontier, now: datetime, due: bool
) -> None:
    """Be it queued again or due, it comes after those that waited in the lane all the time."""
    high = [NewItem(each.url, Lane.HIGH) for each in (A1, A2, A3)]
    frontier.add(high, now=now)
    frontier.add([NewItem(A1.url, Lane.NOW)], now=now, again=ALL_THAT_ENDED)
    assert visit(frontier, now, due=now + MINUTE if due else None).url == A1.url
    if not due:
        frontier.add(high[:1], now=now, again=ALL_THAT_ENDED)

    assert work_off(frontier, now + MINUTE) == [A2.url, A3.url, A1.url]


def test_a_released_item_may_have_to_wait(frontier: Frontier, now: datetime) -> None:
    """A rule says "not now": no attempt is used up, and the host is free for others."""
    frontier.add([A1, A2], now=now)
    item = claim_one(frontier, now)

    assert frontier.release(item, now=now, reason="robots: 503", not_before=now + HOUR)

    assert frontier.stats(now).later == 1
    record = frontier.find(A1.url)
    assert record is not None
    assert (record.state, record.due_at) == (ItemState.QUEUED, now + HOUR)
    assert [each.ending for each in record.attempts] == ["release"]
    assert visit(frontier, now).url == A2.url, "the host does not rest"
    assert claimed_urls(frontier, now + HOUR - SECOND) == []
    again = claim_one(frontier, now + HOUR)
    assert (again.id, again.attempts) == (item.id, 1)


def test_a_release_lets_the_host_not_rest(frontier: Frontier, now: datetime) -> None:
    """It was not asked."""
    frontier.add([A1], now=now)
    item = claim_one(frontier, now)

    frontier.release(item, now=now + MINUTE)

    assert frontier.next_wakeup(now + MINUTE) == now + MINUTE
    assert claim_one(frontier, now + MINUTE).attempts == 1


def test_discarded_items_are_skipped_without_a_visit(frontier: Frontier, now: datetime) -> None:
    """An operator purges the queue; nothing leaves the books."""
    frontier.add([A1, A2, B1], now=now)

    assert frontier.discard([A2.url, B1.url, "https://unknown.test/"], now=now, reason="purge") == 2

    assert claimed_urls(frontier, now) == [A1.url]
    record = frontier.find(B1.url)
    assert record is not None
    assert (record.state, record.outcome, record.ended_at) == (ItemState.SKIPPED, "purge", now)
    assert frontier.stats(now).queued == 0
    assert frontier.discard([A2.url], now=now, reason="purge") == 0


def test_items_that_wait_for_their_moment_are_discarded_too(frontier: Frontier, now: datetime) -> None:
    """A retry that nobody wants."""
    frontier.add([A1], now=now)
    frontier.retry(claim_one(frontier, now), now=now, reason="503")

    assert frontier.discard([A1.url], now=now, reason="purge") == 1

    assert frontier.claim(now=now + DAY, worker="w") == []
    assert (frontier.unfinished(now), frontier.stats(now).later) == (0, 0)


def test_a_discard_leaves_claimed_and_ended_items_alone(frontier: Frontier, now: datetime) -> None:
    """Claimed items are ended by their worker; archived ones stay archived."""
    frontier.add([A1, B1], now=now)
    held, done = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(done, now=now, outcome="ok")

    assert frontier.discard([held.url, done.url], now=now, reason="purge") == 0

    assert frontier.complete(held, now=now, outcome="ok")
    assert frontier.counts()[ItemState.DONE] == 2


def test_a_discarded_due_item_stays_done_and_comes_no_more(frontier: Frontier, now: datetime) -> None:
    """Its captures are there; only the future is discarded."""
    frontier.add([A1], now=now)
    visit(frontier, now, due=now + HOUR)

    assert frontier.discard([A1.url], now=now, reason="purge") == 1

    assert state_of(frontier, A1.url) is ItemState.DONE
    assert frontier.stats(now).due == 0
    assert frontier.next_wakeup(now) is None
    assert frontier.claim(now=now + DAY, worker="w") == []


def test_a_discard_finds_a_url_however_it_is_spelled_or_discards_nothing(frontier: Frontier, now: datetime) -> None:
    """The identity key decides; a text that is no URL is a mistake."""
    frontier.add([NewItem("http://example.org/~a"), A1], now=now)

    assert frontier.discard(["http://EXAMPLE.org/%7Ea"], now=now, reason="purge") == 1
    with pytest.raises(BadUrlError):
        frontier.discard([A1.url, "mailto:a@example.org"], now=now, reason="purge")
    assert state_of(frontier, A1.url) is ItemState.QUEUED


def test_a_poisoned_item_delays_no_other(open_frontier: OpenFrontier, now: datetime) -> None:
    """A page that kills its workers is buried while its host's other pages are archived."""
    frontier = open_frontier(settings=FrontierSettings(attempts=1))
    frontier.add([A1, A2], now=now)
    done = []
    while items := frontier.claim(now=now, worker="w"):
        if items[0].url != A1.url:
            done.append(items[0].url)
            frontier.complete(items[0], now=now, outcome="ok")
        now += 10 * MINUTE

    assert done == [A2.url]
    assert [record.item.url for record in frontier.ls(ItemState.DEAD)] == [A1.url]
