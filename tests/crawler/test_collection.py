"""A collection is made, checked and locked."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import CollectionInUseError, CollectionVersionError, UnavailableError
from crawler import collection as collection_module
from crawler.collection import open_collection, read_collection
from crawler.status.collection_status import StatusReader, is_in_use

CLOCK = SystemClock()


async def test_a_new_collection_is_made_and_opens_again(tmp_path: Path) -> None:
    """The folder gets its marker and its folders once."""
    for _ in range(2):
        async with open_collection(tmp_path / "new", clock=CLOCK) as collection:
            assert collection.layout.archive.is_dir()

    assert read_collection(tmp_path / "new").marker.exists()


async def test_a_new_collection_is_its_owners_alone(tmp_path: Path) -> None:
    """An empty folder that becomes one, too; one that is there keeps what its owner gave it."""
    (tmp_path / "made").mkdir(mode=0o755)
    for name in ("made", "new"):
        async with open_collection(tmp_path / name, clock=CLOCK) as collection:
            assert collection.layout.root.stat().st_mode & 0o777 == 0o700
    (tmp_path / "new").chmod(0o750)
    async with open_collection(tmp_path / "new", clock=CLOCK) as collection:
        assert collection.layout.root.stat().st_mode & 0o777 == 0o750


async def test_a_collection_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes never write one collection; the error says what to do."""
    monkeypatch.setattr(collection_module, "LOCK_WAIT_S", 0.2)
    async with open_collection(tmp_path / "c", clock=CLOCK) as collection:
        assert is_in_use(collection.layout)
        with pytest.raises(CollectionInUseError, match="--collection"):
            async with open_collection(tmp_path / "c", clock=CLOCK):
                raise AssertionError("opened twice")

    assert not is_in_use(collection.layout)


async def test_a_child_that_still_writes_keeps_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run waits until the last writer of a killed one has ended."""
    monkeypatch.setattr(collection_module, "LOCK_WAIT_S", 0.2)
    async with open_collection(tmp_path / "c", clock=CLOCK) as collection:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=(collection.lock_fd,),
        )
    assert child.stdin is not None
    with pytest.raises(CollectionInUseError):
        async with open_collection(tmp_path / "c", clock=CLOCK):
            raise AssertionError("opened while a child writes")
    child.stdin.close()
    child.wait(120)
    async with open_collection(tmp_path / "c", clock=CLOCK):
        await asyncio.sleep(0)


@pytest.mark.parametrize("marker", ["version = 99\n", "version = 'x'\n", "no toml", ""])
async def test_a_collection_of_another_version_is_refused(tmp_path: Path, marker: str) -> None:
    """A collection that another version made is left as it is."""
    (tmp_path / "collection.toml").write_text(marker)
    with pytest.raises(CollectionVersionError):
        async with open_collection(tmp_path, clock=CLOCK):
            raise AssertionError("opened")
    with pytest.raises(CollectionVersionError):
        read_collection(tmp_path)

    assert (tmp_path / "collection.toml").read_text() == marker


async def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    """A typing error must not scatter WARCs over somebody's home."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UnavailableError, match="empty or new folder"):
        async with open_collection(tmp_path, clock=CLOCK):
            raise AssertionError("opened")

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_reading_what_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    """`serve` and `status` on nothing end with a sentence."""
    with pytest.raises(UnavailableError, match="weboid archive"):
        read_collection(tmp_path / "nothing")


async def test_the_status_of_an_empty_collection_is_all_zero(tmp_path: Path) -> None:
    """Nothing archived yet is no error."""
    async with open_collection(tmp_path / "c", clock=CLOCK) as collection:
        status = StatusReader(collection.layout, lambda: None, settings=Settings(), clock=CLOCK).status()

    assert status.holdings is not None
    assert status.frontier is None
    assert (status.holdings.responses, status.holdings.warcs) == (0, 0)
    assert status.holdings.in_use
    assert status.to_dict()["queued"] == 0
