"""Due URLs and their order."""

import threading
from collections.abc import Callable
from itertools import product

import pytest

from core.errors import InputError
from links.checker import due_urls
from links.checker.due_urls import (
    ALL_HOSTS,
    START,
    DuePosition,
    HostShare,
    LeaseHeldError,
    LeaseLostError,
    hold_check_lease,
    parse_host_share,
    release_check_lease,
    renew_check_lease,
    take_check_lease,
)
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow
from links.url_parts import BUCKETS, url_parts_of
from tests.support.check_rows import watch

EVERY_PART = [HostShare(number, count) for count in range(1, 7) for number in range(1, count + 1)]


def test_parts_overlap_when_a_bucket_is_in_both() -> None:
    """Found by arithmetic as by looking at each bucket."""
    buckets = {part: {bucket for bucket in range(BUCKETS) if part.has(bucket)} for part in EVERY_PART}

    for one, other in product(EVERY_PART, EVERY_PART):
        assert one.overlaps(other) == bool(buckets[one] & buckets[other]), (one, other)


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "1/1025", "a/b", "1/4/2", "-1/4"])
def test_what_is_no_part_is_refused(text: str) -> None:
    """With the form that is right."""
    with pytest.raises(InputError, match="i/n"):
        parse_host_share(text)


def test_a_part_has_one_holder(sqlite_store: RegistryStore) -> None:
    """Neither it nor one that overlaps it is given to another; the others are."""
    with sqlite_store.writing() as rows:
        take_check_lease(rows, HostShare(1, 2), "one", now=100, length_s=60)

    for part in (HostShare(1, 2), ALL_HOSTS, HostShare(3, 4)):
        with pytest.raises(LeaseHeldError, match="one"), sqlite_store.writing() as rows:
            take_check_lease(rows, part, "other", now=159, length_s=60)
    with sqlite_store.writing() as rows:
        take_check_lease(rows, HostShare(2, 4), "other", now=159, length_s=60)


def test_a_lease_that_is_over_is_taken_and_its_holder_writes_nothing_more(store: RegistryStore) -> None:
    """The fence of the next one is greater."""
    with store.writing() as rows:
        slept = take_check_lease(rows, ALL_HOSTS, "slept", now=100, length_s=60)
    with store.writing() as rows:
        awake = take_check_lease(rows, HostShare(1, 3), "awake", now=161, length_s=60)

    assert awake.fence > slept.fence
    with pytest.raises(LeaseLostError), store.writing() as rows:
        hold_check_lease(rows, slept)
    with pytest.raises(LeaseLostError), store.writing() as rows:
        renew_check_lease(rows, slept, now=162, length_s=60)
    with store.writing() as rows:
        hold_check_lease(rows, awake)


def test_a_lease_that_nobody_took_goes_on(sqlite_store: RegistryStore) -> None:
    """Though it was over: the database was away, for the others, too."""
    with sqlite_store.writing() as rows:
        lease = take_check_lease(rows, ALL_HOSTS, "one", now=100, length_s=60)
    with sqlite_store.writing() as rows:
        renew_check_lease(rows, lease, now=500, length_s=60)
    with pytest.raises(LeaseHeldError), sqlite_store.writing() as rows:
        take_check_lease(rows, ALL_HOSTS, "other", now=559, length_s=60)


def test_a_lease_given_back_is_free_at_once(sqlite_store: RegistryStore) -> None:
    """And giving back what another has already takes nothing from it."""
    with sqlite_store.writing() as rows:
        old = take_check_lease(rows, ALL_HOSTS, "one", now=100, length_s=60)
        release_check_lease(rows, old)
        new = take_check_lease(rows, ALL_HOSTS, "two", now=100, length_s=60)
        release_check_lease(rows, old)
        hold_check_lease(rows, new)


def test_of_many_that_take_at_once_one_has_it(store: RegistryStore) -> None:
    """Each through a connection of its own."""
    start = threading.Barrier(6)
    had: list[str] = []

    def run(name: str) -> None:
        start.wait(30)
        try:
            with store.writing() as rows:
                take_check_lease(rows, ALL_HOSTS, name, now=100, length_s=60)
        except LeaseHeldError:
            return
        had.append(name)

    threads = [threading.Thread(target=run, args=(f"checker{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(had) == 1


MANY = [f"http://host{number % 7}.example/{number}" for number in range(40)]


def _all(read: Callable[[DuePosition], list[UrlRow]]) -> list[UrlRow]:
    url_rows: list[UrlRow] = []
    after = START
    while window := read(after):
        url_rows += window
        after = DuePosition(window[-1].due_day or 0, window[-1].key)
    return url_rows


def test_windows_show_each_due_url_once(store: RegistryStore) -> None:
    """However few are read at a time; what is due later is not among them."""
    ids = watch(store, MANY, day=3)
    watch(store, ["http://later.example/"], day=9)

    with store.reading() as rows:
        url_rows = _all(lambda after: due_urls.due_window(rows, ALL_HOSTS, 8, after=after, limit=7))

    assert sorted(each.id for each in url_rows) == sorted(ids.values())
    assert {each.url for each in url_rows} == set(MANY)


def test_the_longest_due_come_first_and_a_day_in_the_order_of_keys(sqlite_store: RegistryStore) -> None:
    """Keys are digests: no host's URLs stand together (W40)."""
    watch(sqlite_store, MANY[20:], day=5)
    watch(sqlite_store, MANY[:20], day=2)

    with sqlite_store.reading() as rows:
        url_rows = _all(lambda after: due_urls.due_window(rows, ALL_HOSTS, 8, after=after, limit=6))

    assert [each.due_day for each in url_rows] == [2] * 20 + [5] * 20
    assert [each.key for each in url_rows[:20]] == sorted(url_parts_of(url).key for url in MANY[:20])


def test_new_urls_are_read_apart(sqlite_store: RegistryStore) -> None:
    """`only_new` reads URLs that were never checked, however long others are due."""
    watch(sqlite_store, MANY[:5], day=1, checked_day=0)
    watch(sqlite_store, MANY[5:8], day=4)

    with sqlite_store.reading() as rows:
        url_rows = due_urls.due_window(rows, ALL_HOSTS, 8, after=START, limit=10, only_new=True)

    assert {each.url for each in url_rows} == set(MANY[5:8])
    assert all(each.is_new for each in url_rows)


def test_parts_share_out_what_is_due(store: RegistryStore) -> None:
    """Each URL is in one part alone, and all of a host's in the same."""
    watch(store, MANY, day=1)
    parts = [HostShare(number, 4) for number in range(1, 5)]

    with store.reading() as rows:
        windows = [due_urls.due_window(rows, part, 8, after=START, limit=100) for part in parts]
        counts = [due_urls.count_due(rows, part, 8) for part in parts]

    assert sorted(each.url for some in windows for each in some) == sorted(MANY)
    assert counts == [len(some) for some in windows]
    owners = [(each.host, number) for number, some in enumerate(windows) for each in some]
    assert len(set(owners)) == len({host for host, _ in owners})


def test_a_hosts_urls_are_read_without_those_in_hand(sqlite_store: RegistryStore) -> None:
    """A host with more than a window holds is read on by itself."""
    ids = watch(sqlite_store, [f"http://big.example/{number}" for number in range(12)], day=1)
    host_id = 1
    passing = list(ids.values())[:5]

    with sqlite_store.reading() as rows:
        url_rows = due_urls.due_urls_of_host(rows, host_id, 8, passing=passing, limit=4)

    assert len(url_rows) == 4
    assert not {each.id for each in url_rows} & set(passing)


def test_hosts_are_counted_by_what_is_due(sqlite_store: RegistryStore) -> None:
    """Those with the most first."""
    watch(sqlite_store, ["http://few.example/", *(f"http://many.example/{n}" for n in range(3))], day=1)

    with sqlite_store.reading() as rows:
        assert due_urls.count_by_host(rows, ALL_HOSTS, 8, limit=5) == [("many.example", 3), ("few.example", 1)]


def test_the_next_due_day_is_the_first_of_all(sqlite_store: RegistryStore) -> None:
    """A URL that is never checked has no due day."""
    watch(sqlite_store, ["http://never.example/"], due_day=None)
    with sqlite_store.reading() as rows:
        assert due_urls.next_due_day(rows, ALL_HOSTS) is None
    watch(sqlite_store, ["http://a.example/", "http://b.example/"], day=7)
    with sqlite_store.reading() as rows:
        assert due_urls.next_due_day(rows, ALL_HOSTS) == 7


def test_a_url_asked_for_by_name_is_due_before_all_others(sqlite_store: RegistryStore) -> None:
    """Whichever checker has its host finds it first."""
    watch(sqlite_store, MANY, day=1)
    ids = watch(sqlite_store, ["http://urgent.example/"], day=99)

    with sqlite_store.writing() as rows:
        due_urls.set_due_day(rows, list(ids.values()))
    with sqlite_store.reading() as rows:
        assert due_urls.due_window(rows, ALL_HOSTS, 8, after=START, limit=1)[0].id in ids.values()


@pytest.mark.parametrize("only_new", [True, False], ids=["new", "old"])
def test_windows_are_read_by_an_index(sqlite_store: RegistryStore, only_new: bool) -> None:
    """Reading what is due never walks through all URLs, and sorts nothing."""
    plans: list[str] = []
    with sqlite_store.reading() as rows:
        raw = rows.connection.dbapi_connection
        assert raw is not None
        statements: list[str] = []
        raw.set_trace_callback(statements.append)
        position = DuePosition(3, b"\x01")
        due_urls.due_window(rows, ALL_HOSTS, 8, after=position, limit=5, only_new=only_new)
        raw.set_trace_callback(None)
        for statement in statements:
            plans += [str(row[3]) for row in rows.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]

    assert any("USING INDEX link_urls_" in plan for plan in plans), plans
    assert not any("SCAN" in plan or "TEMP B-TREE" in plan for plan in plans), plans
