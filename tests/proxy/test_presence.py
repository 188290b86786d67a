"""Proxies on one shared folder: locks are seen to hold, or nothing begins."""

import fcntl
import json
import multiprocessing
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import UnavailableError
from core.layout import Layout
from proxy.archiving_proxy import RecorderAuthority
from proxy.process import ProxyPresence, join_collection
from tests.support.polling import wait_until
from warc.recovery import abandoned

pytestmark = pytest.mark.proxy


def left_behind(folder: Path, machine: str, beat: int = 7) -> Path:
    """Write the file of a proxy that is dead, or whose lock is not visible."""
    folder.mkdir(exist_ok=True)
    path = folder / "0123456789abcdef"
    path.write_text(json.dumps({"host": "far", "pid": 1, "machine": machine, "beat": beat}))
    return path


def unexpected(_seconds: float) -> None:
    """Nobody should have to wait."""
    raise AssertionError("waited")


def test_a_living_proxys_file_stays_and_goes_at_its_end(tmp_path: Path) -> None:
    """Of this machine and of another one: its lock says that it lives."""
    for machine in ("here", "there"):
        with closing(join_collection(tmp_path, machine=machine, wait=unexpected)):
            before = set(tmp_path.iterdir())
            with closing(join_collection(tmp_path, machine="here", wait=unexpected)):
                assert set(tmp_path.iterdir()) > before
            assert set(tmp_path.iterdir()) == before

    assert list(tmp_path.iterdir()) == []


def test_a_dead_one_of_this_machine_is_removed_at_once(tmp_path: Path) -> None:
    """On one machine a lock is never wrong."""
    path = left_behind(tmp_path, "here")
    with closing(join_collection(tmp_path, machine="here", wait=unexpected)):
        assert not path.exists()


def test_a_dead_one_of_another_machine_is_removed_when_it_was_silent(tmp_path: Path) -> None:
    """It is given the time of several beats."""
    path = left_behind(tmp_path, "there")
    waited: list[float] = []
    with closing(join_collection(tmp_path, machine="here", wait=waited.append)):
        assert not path.exists()

    assert len(waited) == 1


@pytest.mark.parametrize("text", ["", "no json", "[1]", "{}"])
def test_a_file_that_says_nothing_is_no_hindrance(tmp_path: Path, text: str) -> None:
    """Its writer died before it wrote, or something else did."""
    left_behind(tmp_path, "there").write_text(text)
    join_collection(tmp_path, machine="here", wait=lambda _: None).close()

    assert list(tmp_path.iterdir()) == []


def test_a_living_one_whose_lock_is_not_seen_refuses_the_folder(tmp_path: Path) -> None:
    """The file system does not carry locks: two would take the same files for a dead one's."""
    path = left_behind(tmp_path, "there")
    beats: Callable[[float], Path] = lambda _: left_behind(tmp_path, "there", beat=8)  # noqa: E731
    with pytest.raises(UnavailableError, match=r"locks are not visible here.*docs/how-to/cluster\.md"):
        join_collection(tmp_path, machine="here", wait=beats)

    assert list(tmp_path.iterdir()) == [path]


def test_the_number_grows_while_a_proxy_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what another machine looks at."""
    monkeypatch.setattr("proxy.process.BEAT_S", 0.01)
    with closing(ProxyPresence(tmp_path / "one", "here")):
        first = json.loads((tmp_path / "one").read_bytes())["beat"]
        wait_until(lambda: json.loads((tmp_path / "one").read_bytes())["beat"] > first)


def test_only_a_file_that_nobody_writes_is_abandoned(tmp_path: Path) -> None:
    """A lock, on whatever machine, says that somebody does."""
    layout = Layout(tmp_path)
    layout.archive.mkdir()
    for name in ("dead", "living"):
        (layout.archive / f"{name}.warc.gz.open").write_bytes(b"x")
    with (layout.archive / "living.warc.gz.open").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert abandoned(layout) == {"dead.warc.gz.open"}


def _spki(folder: Path, start: "threading.Barrier", queue: "multiprocessing.Queue[str]") -> None:
    start.wait()
    queue.put(RecorderAuthority(folder).spki)


def test_proxies_that_start_together_make_one_authority(tmp_path: Path) -> None:
    """Browsers know one key, whichever proxy a visit goes to."""
    context = multiprocessing.get_context("spawn")
    start, queue = context.Barrier(2), context.Queue()
    proxies = [context.Process(target=_spki, args=(tmp_path / "ca", start, queue)) for _ in range(2)]
    for each in proxies:
        each.start()
    public_keys = {queue.get(timeout=120) for _ in proxies}
    for each in proxies:
        each.join()
    queue.close()
    queue.join_thread()

    assert len(public_keys) == 1
