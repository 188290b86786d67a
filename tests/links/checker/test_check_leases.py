"""Leases: two checkers never have one host at the same time."""

import threading
from itertools import product

import pytest

from core.errors import InputError
from links.checker.check_leases import (
    ALL_HOSTS,
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
from links.url_parts import BUCKETS

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
        start.wait(120)
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
        thread.join(120)

    assert len(had) == 1
