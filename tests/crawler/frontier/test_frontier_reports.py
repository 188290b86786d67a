"""Reports of the frontier: counts, jobs, minutes, hosts, listings and scans."""

from datetime import datetime, timedelta

from crawler.frontier.base import Frontier, HostOrder, ItemState, JobCounts, Lane, NewItem
from tests.crawler.frontier.conftest import OpenFrontier
from tests.crawler.frontier.support import (
    A1,
    A2,
    A3,
    ALL_THAT_ENDED,
    B1,
    B2,
    C1,
    HOUR,
    LEASE,
    MINUTE,
    NO_DELAY,
    SECOND,
    A,
    B,
    C,
    claim_one,
    claimed_urls,
    visit,
)

NOT_ASKED = timedelta(0)


def everything(frontier: Frontier, state: ItemState, limit: int = 2, cursor: str = "") -> list[str]:
    """Return the URLs of a whole scan, from that cursor on."""
    urls = []
    while True:
        records, cursor = frontier.scan(state, cursor=cursor, limit=limit)
        assert all(record.state is state for record in records)
        urls += [record.item.url for record in records]
        if not cursor:
            return urls


def test_the_counts_of_a_job_are_its_own(frontier: Frontier, now: datetime) -> None:
    """Two crawls share a frontier; each has a budget of its own."""
    items = [NewItem(f"https://h{n}.test/", job="one") for n in range(5)]
    frontier.add([*items, A1, NewItem(B1.url, job="two")], now=now)
    done, failed, skipped, held, _ = frontier.claim(now=now, worker="w", limit=5)
    frontier.complete(done, now=now, outcome="ok", stored_bytes=70)
    frontier.fail(failed, now=now, reason="x")
    frontier.skip(skipped, now=now, reason="x")
    frontier.release(held, now=now, not_before=now + HOUR)

    assert frontier.job_counts("one") == JobCounts(1, 1, 1, 1, 1, 70, now)
    assert frontier.job_counts("two") == JobCounts(1, 0, 0, 0, 0, 0, now)
    assert frontier.job_counts("") == JobCounts(1, 0, 0, 0, 0, 0, now)
    assert frontier.job_counts("three") == JobCounts(0, 0, 0, 0, 0, 0, None)


def test_a_job_begins_with_its_first_item(frontier: Frontier, now: datetime) -> None:
    """Budgets of time run from there."""
    frontier.add([NewItem(A1.url, job="j")], now=now)
    frontier.add([NewItem(A2.url, job="j")], now=now + HOUR)

    counts = frontier.job_counts("j")

    assert (counts.began_at, counts.queued) == (now, 2)


def test_a_url_that_another_job_queues_again_counts_there(frontier: Frontier, now: datetime) -> None:
    """An item belongs to one job; what the first one stored it has stored."""
    frontier.add([NewItem(A1.url, job="one")], now=now)
    visit(frontier, now, stored_bytes=9)
    frontier.add([NewItem(A1.url, job="two")], now=now, again=ALL_THAT_ENDED)

    assert frontier.job_counts("one") == JobCounts(0, 0, 0, 0, 0, 9, now)
    assert frontier.job_counts("two") == JobCounts(1, 0, 0, 0, 0, 0, now)


def test_a_lost_lease_and_a_due_item_count_for_their_job(frontier: Frontier, now: datetime) -> None:
    """From claimed back to queued, and from done to queued."""
    frontier.add([NewItem(A1.url, job="j"), NewItem(B1.url, job="j")], now=now)
    visit(frontier, now, due=now + LEASE)
    frontier.claim(now=now, worker="dead")
    assert frontier.job_counts("j").claimed == 1
    assert frontier.job_counts("j").done == 1

    assert len(frontier.claim(now=now + LEASE, worker="w", limit=9)) == 2

    assert frontier.job_counts("j") == JobCounts(0, 2, 0, 0, 0, 0, now)


def test_minutes_say_what_ended_in_each(frontier: Frontier, now: datetime) -> None:
    """Rates for the status; minutes without an end are zeros."""
    frontier.add([A1, B1, C1, NewItem("https://d.test/")], now=now)
    one, two, three, _ = frontier.claim(now=now, worker="w", limit=4)
    frontier.complete(one, now=now + 59 * SECOND, outcome="ok", stored_bytes=3)
    frontier.fail(two, now=now + 2 * MINUTE, reason="x")
    frontier.skip(three, now=now + 2 * MINUTE, reason="x", delay=NOT_ASKED)
    frontier.add([A2, A3], now=now)
    frontier.discard([A2.url, A3.url], now=now + 2 * MINUTE, reason="x")

    minutes = frontier.minutes(now + 3 * MINUTE, count=4)

    assert [m.begins_at for m in minutes] == [now + n * MINUTE for n in range(4)]
    assert [(m.done, m.skipped, m.dead, m.bytes) for m in minutes] == [
        (1, 0, 0, 3),
        (0, 0, 0, 0),
        (0, 3, 1, 0),
        (0, 0, 0, 0),
    ]
    assert len(frontier.minutes(now)) == len(frontier.minutes(now, count=1_000)) == 60


def test_minutes_of_an_earlier_hour_are_forgotten(frontier: Frontier, now: datetime) -> None:
    """They do not pile up, nor come back as younger ones."""
    frontier.add([A1, B1], now=now)
    one, two = frontier.claim(now=now, worker="w", limit=2)
    frontier.complete(one, now=now, outcome="ok")
    frontier.complete(two, now=now + 60 * MINUTE, outcome="ok")

    minutes = frontier.minutes(now + 60 * MINUTE)

    assert sum(minute.done for minute in minutes) == minutes[-1].done == 1


def test_a_hosts_report_says_how_it_was_used(frontier: Frontier, now: datetime) -> None:
    """Items, bytes, time; its mean follows new visits by a fifth."""
    frontier.add([A1, A2, A3, NewItem("https://a.example.org/4")], now=now)
    visit(frontier, now, duration=10 * SECOND, stored_bytes=5)
    now += MINUTE
    visit(frontier, now, duration=5 * SECOND, stored_bytes=7)
    now += MINUTE
    claim_one(frontier, now)

    report = frontier.host(A, now=now)

    assert report is not None
    assert (report.host, report.waiting, report.active) == (A, 1, 1)
    assert (report.done, report.bytes, report.busy) == (2, 12, 15 * SECOND)
    assert report.mean == 9 * SECOND
    assert (report.failures, report.blocked_until, report.down_until) == (0, None, None)
    assert frontier.host("unknown.test", now=now) is None


def test_a_host_may_be_asked_from_now_on_at_the_earliest(frontier: Frontier, now: datetime) -> None:
    """A moment that is over is not worth a word."""
    frontier.add([A1], now=now)

    report = frontier.host(A, now=now)

    assert report is not None
    assert report.ready_at == now


def test_slow_hosts_are_told_first(frontier: Frontier, now: datetime) -> None:
    """By the mean of their visits; those never visited are not told."""
    frontier.add([A1, B1, C1, NewItem("https://never.test/")], now=now)
    one, two, three, _ = frontier.claim(now=now, worker="w", limit=4)
    for item, seconds in ((one, 2), (two, 9), (three, 5)):
        frontier.complete(item, now=now, outcome="ok", duration=seconds * SECOND)

    slowest = frontier.hosts(HostOrder.SLOWEST, now=now)

    assert [report.host for report in slowest] == [B, C, A]
    assert [report.mean for report in slowest] == [9 * SECOND, 5 * SECOND, 2 * SECOND]
    assert len(frontier.hosts(HostOrder.SLOWEST, now=now, limit=2)) == 2


def test_long_queues_are_told_first(frontier: Frontier, now: datetime) -> None:
    """By the items that wait, as they change."""
    frontier.add([NewItem(f"https://a.example.org/{n}") for n in range(7)], now=now)
    frontier.add([NewItem(f"https://b.example.org/{n}", Lane.HIGH) for n in range(6)], now=now)
    frontier.add([C1], now=now)

    longest = frontier.hosts(HostOrder.LONGEST, now=now)
    assert [(report.host, report.waiting) for report in longest] == [(A, 7), (B, 6), (C, 1)]

    frontier.discard([f"https://a.example.org/{n}" for n in range(5)], now=now, reason="x")
    longest = frontier.hosts(HostOrder.LONGEST, now=now, limit=2)
    assert [(report.host, report.waiting) for report in longest] == [(B, 6), (A, 2)]


def test_a_listing_may_be_of_one_host(frontier: Frontier, now: datetime) -> None:
    """Every state, in the same order as for all."""
    pages = [f"https://a.example.org/{n}" for n in range(8)]
    frontier.add([*map(NewItem, pages), NewItem(pages[7], Lane.NOW), B1, B2], now=now)
    frontier.add([NewItem(pages[7], Lane.NOW)], now=now, again=ALL_THAT_ENDED)
    moments = [now + n * HOUR for n in range(6)]
    for moment in moments[:2]:
        (item,) = [i for i in frontier.claim(now=moment, worker="w", limit=2) if i.host == A]
        frontier.complete(item, now=moment, outcome="ok")
    (item,) = [i for i in frontier.claim(now=moments[2], worker="w", limit=9) if i.host == A]
    frontier.retry(item, now=moments[2], reason="x", not_before=moments[5])
    (claim,) = [i for i in frontier.claim(now=moments[3], worker="w", limit=9) if i.host == A]
    frontier.discard([pages[6]], now=moments[3], reason="x")

    def listed(state: ItemState, host: str = A) -> list[str]:
        return [record.item.url for record in frontier.ls(state, host=host)]

    assert listed(ItemState.DONE) == [pages[0], pages[7]]
    assert listed(ItemState.QUEUED) == [*pages[3:6], pages[1]]
    assert listed(ItemState.CLAIMED) == [claim.url] == [pages[2]]
    assert listed(ItemState.SKIPPED) == [pages[6]]
    assert listed(ItemState.DEAD) == []
    assert [r.item.url for r in frontier.ls(ItemState.QUEUED, host=A, limit=2)] == pages[3:5]
    assert frontier.ls(ItemState.QUEUED, host="unknown.test") == []


def test_a_claimed_record_says_who_holds_it_until_when(frontier: Frontier, now: datetime) -> None:
    """Leases, for the status."""
    frontier.add([A1, B1], now=now)
    item = frontier.claim(now=now, worker="machine-1")[0]
    frontier.renew(item, now=now + SECOND)

    (record,) = frontier.ls(ItemState.CLAIMED)

    assert record.item == item
    assert (record.worker, record.lease_until) == ("machine-1", now + SECOND + LEASE)
    (waiting,) = frontier.ls(ItemState.QUEUED)
    assert (waiting.worker, waiting.lease_until, waiting.item.token) == ("", None, 0)


def test_a_scan_tells_every_item_of_a_state_once(frontier: Frontier, now: datetime) -> None:
    """However many calls it takes."""
    urls = [f"https://h{n % 7}.test/{n}" for n in range(25)]
    frontier.add([NewItem(url, Lane(n % 3)) for n, url in enumerate(urls)], now=now)
    for item in frontier.claim(now=now, worker="w", limit=3):
        frontier.retry(item, now=now, reason="x")

    for limit in (1, 2, 10, 25, 1_000):
        assert sorted(everything(frontier, ItemState.QUEUED, limit)) == sorted(urls)
    for state in set(ItemState) - {ItemState.QUEUED}:
        assert everything(frontier, state) == []


def test_a_scan_tells_what_ended_and_what_is_claimed(frontier: Frontier, now: datetime) -> None:
    """The same for every state, many of one moment included."""
    count = 21
    frontier.add([NewItem(f"https://h{n}.test/") for n in range(4 * count)], now=now)
    claimed = frontier.claim(now=now, worker="w", limit=4 * count)
    urls = [item.url for item in claimed]
    for item in claimed[:count]:
        frontier.complete(item, now=now, outcome="ok")
    for item in claimed[count : 2 * count]:
        frontier.fail(item, now=now, reason="x")
    for item in claimed[2 * count : 3 * count]:
        frontier.skip(item, now=now, reason="x")

    assert sorted(everything(frontier, ItemState.DONE)) == sorted(urls[:count])
    assert sorted(everything(frontier, ItemState.DEAD)) == sorted(urls[count : 2 * count])
    assert sorted(everything(frontier, ItemState.SKIPPED)) == sorted(urls[2 * count : 3 * count])
    assert sorted(everything(frontier, ItemState.CLAIMED)) == sorted(urls[3 * count :])


def test_a_scan_misses_nothing_that_stays_while_others_come_and_go(open_frontier: OpenFrontier, now: datetime) -> None:
    """Between two calls items are claimed, added, moved up, and return from their waits."""
    frontier = open_frontier(NO_DELAY)
    staying = [f"https://stay-{n}.test/" for n in range(30)]
    moving = [f"https://go-{n}.test/" for n in range(30)]
    frontier.add(map(NewItem, moving), now=now)
    for item in frontier.claim(now=now, worker="w", limit=30):
        frontier.release(item, now=now, not_before=now + 5 * MINUTE)
    frontier.add(map(NewItem, staying), now=now)
    seen: set[str] = set()
    cursor, step = "", 0
    while step == 0 or cursor:
        records, cursor = frontier.scan(ItemState.QUEUED, cursor=cursor, limit=4)
        seen |= {record.item.url for record in records}
        step += 1
        now += MINUTE
        frontier.add([NewItem(staying[-step], Lane.NOW)], now=now, again=HOUR)
        frontier.add([NewItem(f"https://new-{step}.test/", Lane.HIGH)], now=now)
        taken = frontier.claim(now=now, worker="w", limit=1)
        for item in taken:
            frontier.release(item, now=now)
        assert step < 100
        seen |= {item.url for item in taken}  # it was not queued all the time

    assert seen >= {*staying, *moving}


def test_a_scan_of_what_ended_misses_nothing_while_more_ends(frontier: Frontier, now: datetime) -> None:
    """A long purge or export runs beside the crawl."""
    frontier.add([NewItem(f"https://h{n}.test/") for n in range(60)], now=now)
    items = frontier.claim(now=now, worker="w", limit=60)
    for item in items[:30]:
        frontier.complete(item, now=now, outcome="ok")
    seen: list[str] = []
    cursor, rest = "", items[30:]
    while not seen or cursor:
        records, cursor = frontier.scan(ItemState.DONE, cursor=cursor, limit=5)
        seen += [record.item.url for record in records]
        for item in rest[:2]:
            frontier.complete(item, now=now + SECOND, outcome="ok")
        rest = rest[2:]

    assert {item.url for item in items[:30]} <= set(seen)


def test_statistics_tell_what_waits_for_a_moment(frontier: Frontier, now: datetime) -> None:
    """Later ones are queued, due ones are done."""
    frontier.add([A1, B1, C1], now=now)
    one, two, three = frontier.claim(now=now, worker="w", limit=3)
    frontier.retry(one, now=now, reason="x")
    frontier.complete(two, now=now, outcome="ok", due=now + HOUR, stored_bytes=4)
    frontier.release(three, now=now, not_before=now + HOUR)

    stats = frontier.stats(now)

    assert (stats.queued, stats.later, stats.done, stats.due, stats.bytes) == (2, 2, 1, 1, 4)
    assert len(claimed_urls(frontier, now + HOUR)) == 3
    stats = frontier.stats(now)
    assert (stats.queued, stats.later, stats.done, stats.due) == (0, 0, 0, 0)
