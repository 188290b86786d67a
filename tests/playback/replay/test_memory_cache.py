"""The memory cache of made values: its limit, one maker per value, and the pause after a failure."""

import gevent
import pytest

from core.errors import MakingFailedError
from playback.replay.memory_cache import FAILURE_S, ByteCache, MadeCache


def test_the_cache_drops_what_was_used_longest_ago() -> None:
    """Its size stays within the limit."""
    cache = ByteCache(40)
    for name in "abcd":
        cache.keep(name, bytes(10))
    assert cache.find("a") == bytes(10)
    cache.keep("e", bytes(10))
    assert [name for name in "abcde" if cache.find(name) is not None] == ["a", "c", "d", "e"]


def test_a_value_that_would_fill_a_quarter_is_not_stored() -> None:
    """One large page must not displace all others."""
    cache = ByteCache(40)
    cache.keep("a", bytes(11))
    assert cache.find("a") is None


def test_concurrent_requests_make_a_value_once() -> None:
    """The others wait for the first."""
    made: list[str] = []
    cache = MadeCache(1_000)

    def make() -> bytes:
        made.append("once")
        gevent.sleep(0.01)
        return b"value"

    jobs = [gevent.spawn(cache.get, "key", make) for _ in range(5)]
    gevent.joinall(jobs)
    assert [job.value for job in jobs] == [b"value"] * 5
    assert made == ["once"]


def test_a_failure_is_repeated_without_another_try_until_it_expires() -> None:
    """Each try occupies a maker."""
    now, tries = [0.0], []
    cache = MadeCache(1_000, monotonic=lambda: now[0])

    def fail() -> bytes:
        tries.append(now[0])
        raise MakingFailedError("no")

    for moment in (0.0, FAILURE_S - 1):
        now[0] = moment
        with pytest.raises(MakingFailedError):
            cache.get("key", fail)
    now[0] = FAILURE_S + 1
    assert cache.get("key", lambda: b"value") == b"value"
    assert tries == [0.0]
