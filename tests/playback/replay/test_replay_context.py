"""Changed decisions are read once per request, and never known from before it (P-22)."""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from playback.replay.replay_context import PerRequestStore


class CountingStore:
    """A store that counts questions; `meanwhile` happens between reading and answering."""

    def __init__(self) -> None:
        self.current = 1
        self.request_count = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def version(self) -> int:
        """Return the version as of the call; `meanwhile` runs after it was read."""
        self.request_count += 1
        version = self.current
        self.meanwhile()
        return version

    def rows(self, query: str, values: object) -> list[Any]:
        """Refuse: these tests query no rows."""
        raise NotImplementedError

    def change(self, changes: Iterable[object]) -> None:
        """Increase the version by one."""
        del changes
        self.current += 1

    def close(self) -> None:
        """Do nothing."""


@given(st.lists(st.sampled_from(["begin", "change", "ask"])))
def test_a_request_never_sees_less_than_was_decided_before_it(steps: list[str]) -> None:
    """However requests and decisions of other processes follow one another."""
    store = CountingStore()
    asking = PerRequestStore(store)
    at_begin = 1
    for step in steps:
        if step == "begin":
            asking.begin()
            at_begin = store.current
        elif step == "change":
            store.change(())
        else:
            assert at_begin <= asking.version() <= store.current


def test_within_a_request_the_store_is_asked_once() -> None:
    """Nine times for one image would cost as much as reading it."""
    store = CountingStore()
    asking = PerRequestStore(store)
    for _ in range(3):
        asking.begin()
        assert {asking.version() for _ in range(9)} == {1}

    assert store.request_count == 3


def test_an_answer_that_is_late_counts_for_no_later_request() -> None:
    """It was read before a decision, and comes after a request that began behind it."""
    store = CountingStore()
    asking = PerRequestStore(store)
    asking.begin()

    def decide_and_begin() -> None:
        store.meanwhile = lambda: None
        store.change(())
        asking.begin()

    store.meanwhile = decide_and_begin
    assert asking.version() == 1  # the request that asked may have the old one
    assert asking.version() == 2


def test_ones_own_change_is_seen_at_once() -> None:
    """Without another request."""
    store = CountingStore()
    asking = PerRequestStore(store)
    assert asking.version() == 1

    asking.change([("UPDATE", {})])

    assert asking.version() == 2
