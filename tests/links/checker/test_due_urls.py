"""What is due, and in which order."""

from collections.abc import Callable

import pytest

from links.checker import due_urls
from links.checker.check_leases import ALL_HOSTS, HostShare
from links.checker.due_urls import START, DuePosition, DueUrl
from links.registry.database import RegistryStore
from links.url_parts import url_parts_of
from tests.support.check_rows import watch

MANY = [f"http://host{number % 7}.example/{number}" for number in range(40)]


def _all(read: Callable[[DuePosition], list[DueUrl]]) -> list[DueUrl]:
    found: list[DueUrl] = []
    after = START
    while window := read(after):
        found += window
        after = window[-1].place
    return found


def test_windows_show_each_due_url_once(store: RegistryStore) -> None:
    """However few are read at a time; what is due later is not among them."""
    ids = watch(store, MANY, day=3)
    watch(store, ["http://later.example/"], day=9)

    with store.reading() as rows:
        found = _all(lambda after: due_urls.due_window(rows, ALL_HOSTS, 8, after=after, limit=7))

    assert sorted(each.id for each in found) == sorted(ids.values())
    assert {each.url for each in found} == set(MANY)


def test_the_longest_due_come_first_and_a_day_in_the_order_of_keys(sqlite_store: RegistryStore) -> None:
    """Keys are digests: no host's URLs stand together (W40)."""
    watch(sqlite_store, MANY[20:], day=5)
    watch(sqlite_store, MANY[:20], day=2)

    with sqlite_store.reading() as rows:
        found = _all(lambda after: due_urls.due_window(rows, ALL_HOSTS, 8, after=after, limit=6))

    assert [each.due_day for each in found] == [2] * 20 + [5] * 20
    assert [each.key for each in found[:20]] == sorted(url_parts_of(url).key for url in MANY[:20])


def test_new_urls_are_read_apart(sqlite_store: RegistryStore) -> None:
    """What was never looked at comes first, however long others are due."""
    watch(sqlite_store, MANY[:5], day=1, checked_day=0)
    watch(sqlite_store, MANY[5:8], day=4)

    with sqlite_store.reading() as rows:
        found = due_urls.due_window(rows, ALL_HOSTS, 8, after=START, limit=10, only_new=True)

    assert {each.url for each in found} == set(MANY[5:8])
    assert all(each.is_new for each in found)


def test_parts_share_out_what_is_due(store: RegistryStore) -> None:
    """Each URL is in one part alone, and all of a host's in the same."""
    watch(store, MANY, day=1)
    parts = [HostShare(number, 4) for number in range(1, 5)]

    with store.reading() as rows:
        found = [due_urls.due_window(rows, part, 8, after=START, limit=100) for part in parts]
        counts = [due_urls.count_due(rows, part, 8) for part in parts]

    assert sorted(each.url for some in found for each in some) == sorted(MANY)
    assert counts == [len(some) for some in found]
    owners = [(each.host, number) for number, some in enumerate(found) for each in some]
    assert len(set(owners)) == len({host for host, _ in owners})


def test_a_hosts_urls_are_read_without_those_in_hand(sqlite_store: RegistryStore) -> None:
    """A host with more than a window holds is read on by itself."""
    ids = watch(sqlite_store, [f"http://big.example/{number}" for number in range(12)], day=1)
    host_id = 1
    passing = list(ids.values())[:5]

    with sqlite_store.reading() as rows:
        found = due_urls.due_urls_of_host(rows, host_id, 8, passing=passing, limit=4)

    assert len(found) == 4
    assert not {each.id for each in found} & set(passing)


def test_hosts_are_counted_by_what_is_due(sqlite_store: RegistryStore) -> None:
    """Those with the most first."""
    watch(sqlite_store, ["http://few.example/", *(f"http://many.example/{n}" for n in range(3))], day=1)

    with sqlite_store.reading() as rows:
        assert due_urls.count_by_host(rows, ALL_HOSTS, 8, limit=5) == [("many.example", 3), ("few.example", 1)]


def test_the_next_due_day_is_the_first_of_all(sqlite_store: RegistryStore) -> None:
    """What is never looked at has none."""
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
        due_urls.make_urgent(rows, list(ids.values()))
    with sqlite_store.reading() as rows:
        assert due_urls.due_window(rows, ALL_HOSTS, 8, after=START, limit=1)[0].id in ids.values()


@pytest.mark.parametrize("only_new", [True, False], ids=["new", "old"])
def test_windows_are_read_by_an_index(sqlite_store: RegistryStore, only_new: bool) -> None:
    """Reading what is due never walks through all URLs, and sorts nothing."""
    plans: list[str] = []
    with sqlite_store.reading() as rows:
        raw = rows.connection.dbapi_connection
        assert raw is not None
        asked: list[str] = []
        raw.set_trace_callback(asked.append)
        position = DuePosition(3, b"\x01")
        due_urls.due_window(rows, ALL_HOSTS, 8, after=position, limit=5, only_new=only_new)
        raw.set_trace_callback(None)
        for statement in asked:
            plans += [str(row[3]) for row in rows.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]

    assert any("USING INDEX link_urls_" in plan for plan in plans), plans
    assert not any("SCAN" in plan or "TEMP B-TREE" in plan for plan in plans), plans
