"""Caches of made values: in memory and in files, one maker per value, and the pause after a failure."""

import os
import stat
from pathlib import Path

import gevent
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import MakingFailedError
from playback.replay.made_cache import (
    FAILURE_S,
    CacheUsage,
    FileCache,
    MadeCache,
    cache_usage,
    clear_cache,
    sweep_cache,
)
from tests.support.examples import examples

NAME, OTHER = "a" * 64, "b" * 64
NOW = 1_800_000_000.0


def cache_in(folder: Path, *, limit: int = 100_000, now: float = NOW) -> FileCache:
    """Return a cache that sweeps at once and fails the test when it would wait."""

    def refuse(seconds: float) -> None:
        raise AssertionError(f"It waited {seconds} s.")

    return FileCache(folder, limit=limit, wait=refuse, later=lambda call, *values: call(*values), now=lambda: now)


def test_what_is_kept_is_found_by_another_process(tmp_path: Path) -> None:
    """It survives whoever made it."""
    cache_in(tmp_path / "cache").keep(NAME, b"value")

    assert cache_in(tmp_path / "cache").find(NAME) == b"value"
    assert cache_in(tmp_path / "cache").find(OTHER) is None


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """Copies of what a wiki cites are nobody else's business on a shared machine."""
    cache_in(tmp_path / "cache").keep(NAME, b"value")

    for path in (tmp_path / "cache").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600)


@settings(max_examples=examples(30))
@given(st.data())
def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path: Path, data: st.DataObject) -> None:
    """Cut short or changed anywhere, it is deleted and made again."""
    folder = tmp_path / "cache"
    cache = cache_in(folder)
    cache.keep(NAME, b"a value of some length")
    (path,) = folder.glob("??/*")
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(st.sampled_from(["cut", "changed", "longer"]))
    path.write_bytes(
        whole[:at] if damaged == "cut"
        else whole + b"x" if damaged == "longer"
        else whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    )  # fmt: skip

    assert cache.find(NAME) is None
    assert not path.exists()


def test_one_values_file_is_not_anothers(tmp_path: Path) -> None:
    """A file that is put under another name is damaged there."""
    cache = cache_in(tmp_path)
    cache.keep(NAME, b"value")
    (path,) = tmp_path.glob("??/*")
    (tmp_path / OTHER[:2]).mkdir()
    path.rename(tmp_path / OTHER[:2] / OTHER)

    assert cache.find(OTHER) is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    """Recently read files stay, up to nine tenths of the limit."""
    for number in range(20):
        cache_in(tmp_path, limit=10**9, now=NOW + 100 * number).keep(f"{number:064x}", bytes(5_000))
    for number, path in enumerate(sorted(tmp_path.glob("??/*"))):
        os.utime(path, (NOW + 100 * number, NOW + 100 * number))
    cache_in(tmp_path, now=NOW + 9_999).find(f"{0:064x}")

    sweep_cache(tmp_path, 50_000, NOW + 9_999)

    left = {int(path.name, 16) for path in tmp_path.glob("??/*")}
    assert left == {0, *range(13, 20)}


def test_the_limit_holds_while_values_are_kept(tmp_path: Path) -> None:
    """Nobody has to start a sweep."""
    cache = cache_in(tmp_path, limit=50_000)
    for number in range(100):
        cache.keep(f"{number:064x}", bytes(4_000))

    assert cache_usage(tmp_path).size <= 60_000
    assert cache.find(f"{99:064x}") is not None


def test_a_value_that_is_a_large_part_of_all_is_not_kept(tmp_path: Path) -> None:
    """It would drive out everything else."""
    cache_in(tmp_path, limit=100).keep(NAME, bytes(99))

    assert cache_usage(tmp_path) == CacheUsage(0, 0)


def test_a_disk_that_takes_nothing_only_costs_time(tmp_path: Path) -> None:
    """Full, read-only or no folder at all: nothing is kept, nothing is raised, nothing is left."""
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    nowhere = cache_in(in_the_way / "cache")
    nowhere.keep(NAME, b"value")
    assert nowhere.find(NAME) is None
    with nowhere.alone(NAME) as is_first:
        assert is_first
    full = cache_in(Path("/dev/full"))
    full.keep(NAME, b"value")
    assert (cache_usage(Path("/dev/full")), clear_cache(Path("/dev/full"))) == (CacheUsage(0, 0), CacheUsage(0, 0))


def test_leftovers_of_the_dead_are_swept(tmp_path: Path) -> None:
    """A process that was killed while it wrote leaves a file without end, which is no value."""
    cache_in(tmp_path).keep(NAME, b"value")
    leftover = tmp_path / NAME[:2] / f"{NAME}.x.new"
    leftover.write_bytes(b"half")
    os.utime(leftover, (NOW, NOW))
    assert cache_usage(tmp_path).values == 1

    sweep_cache(tmp_path, 10**9, NOW + 60)
    assert leftover.exists()
    sweep_cache(tmp_path, 10**9, NOW + 7_200)
    assert not leftover.exists()


def test_what_is_no_file_of_ours_is_left_alone(tmp_path: Path) -> None:
    """Links and strange folders are neither followed nor counted."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    folder = tmp_path / "cache"
    (folder / "ab").mkdir(parents=True)
    (folder / "cd").symlink_to(outside, target_is_directory=True)
    (folder / "ab" / "link").symlink_to(outside / "precious")
    (folder / "strange").mkdir()
    (folder / "strange" / "file").write_bytes(b"x")

    assert clear_cache(folder) == CacheUsage(0, 0)
    assert (outside / "precious").exists()
    assert (folder / "strange" / "file").exists()


def test_processes_take_turns_at_a_value(tmp_path: Path) -> None:
    """While another process holds its lock, a value is waited for; another value is not."""
    waited: list[float] = []
    cache_in(tmp_path).keep(NAME, b"")
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # holds the lock until it is told to stop
        with cache_in(tmp_path).alone(NAME):
            os.write(ready[1], b"x")
            os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)

    def wait(seconds: float) -> None:
        waited.append(seconds)
        os.write(done[1], b"x")
        os.waitpid(child, 0)

    cache = FileCache(tmp_path, limit=10**6, wait=wait, later=lambda *_: None, now=lambda: NOW)
    with cache.alone(OTHER) as is_first:
        assert is_first
    with cache.alone(NAME) as is_first:
        assert not is_first
    assert len(waited) == 1
    for each in (*ready, *done):
        os.close(each)


@pytest.mark.parametrize("verb", ["show", "clear"])
def test_a_cache_that_was_never_made_is_empty(tmp_path: Path, verb: str) -> None:
    """Asking makes no folder."""
    folder = tmp_path / "cache"

    assert {"show": cache_usage, "clear": clear_cache}[verb](folder) == CacheUsage(0, 0)
    assert not folder.exists()


def test_the_cache_drops_what_was_used_longest_ago() -> None:
    """Its size stays within the limit."""
    made: list[str] = []
    cache = MadeCache(40)

    def get(name: str, size: int = 10) -> None:
        def make() -> bytes:
            made.append(name)
            return bytes(size)

        assert cache.get(name, make) == bytes(size)

    for name in "abcdae":
        get(name)
    made.clear()
    for name in "acdeb":
        get(name)
    assert made == ["b"]


def test_a_value_that_would_fill_a_quarter_is_not_stored() -> None:
    """One large page must not displace all others."""
    cache = MadeCache(40)
    assert cache.get("a", lambda: bytes(11)) == bytes(11)
    assert cache.get("a", lambda: b"again") == b"again"


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


def test_a_stored_value_that_was_replaced_is_made_again(tmp_path: Path) -> None:
    """Nothing leaves that was not made by what runs now."""
    assert MadeCache(1_000, cache_in(tmp_path)).get("key", lambda: b"safe") == b"safe"
    (path,) = tmp_path.glob("??/*")
    path.write_bytes(b"<script>alert(1)</script>")

    assert MadeCache(1_000, cache_in(tmp_path)).get("key", lambda: b"safe") == b"safe"
    assert b"safe" in path.read_bytes()
