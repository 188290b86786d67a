"""Nothing that was acknowledged is lost, whenever the axe falls."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.axe import swing
from core.layout import Layout
from tests.support.proxy_fixtures import ProxyCommand, ProxyInProcess
from tests.warc.test_file_check import fetch, rows
from warc.index.sqlite import SqliteCaptureIndex
from warc.local_storage import ScratchKind, scratch_folder

SEED = 20261121
ROUNDS = 2


@pytest.mark.proxy
@pytest.mark.slow
def test_proxies_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """Sealed records lie where they were said to, files are whole, and the index is the WARCs'."""
    for seed in range(SEED, SEED + 5):
        toll = swing(tmp_path / str(seed), seed, ROUNDS)
        assert toll.faults == [], f"seed {seed}"
        assert toll.rounds == ROUNDS
        if toll.promises:
            return
    raise AssertionError("Nothing was ever acknowledged before a kill.")


@pytest.mark.proxy
async def test_records_behind_what_the_index_covers_are_found_where_they_lie(
    start_process: Callable[..., ProxyCommand], start: Callable[..., ProxyInProcess], layout: Layout
) -> None:
    """Recovery that begins in the midst of a file counts offsets from the file's beginning."""
    proxy = start_process("first")
    await fetch(proxy, "http://origin.example/a", page_id="one")
    await fetch(proxy, "http://origin.example/b", page_id="two")
    proxy.kill()
    query = "SELECT url, filename, offset, length, orig_offset FROM captures ORDER BY filename, offset"
    before = rows(layout, query)
    index = SqliteCaptureIndex(layout.captures_db)
    with index.transaction():
        index._db.execute(
            "UPDATE files SET indexed_to = (SELECT max(offset) FROM captures WHERE captures.filename = files.filename)"
        )
        index._db.execute("DELETE FROM captures WHERE page_id = 'two'")
    index.close()
    start("second").stop()

    assert rows(layout, query) == before


@pytest.mark.proxy
async def test_the_index_covers_closed_files_to_their_end(start: Callable[..., ProxyInProcess], layout: Layout) -> None:
    """A file that has rolled over stays covered when the next batch goes elsewhere."""
    proxy = start(warc_limit_bytes=1)
    for page in ("one", "two"):
        await fetch(proxy, f"http://origin.example/{page}", page_id=page)
    proxy.stop()
    sizes = {(path.name, path.stat().st_size) for path in layout.archive.glob("*.warc.gz")}

    assert set(rows(layout, "SELECT filename, indexed_to FROM files")) == sizes


@pytest.mark.proxy
def test_a_file_that_was_opened_and_not_written_is_gone_and_forgotten(
    start: Callable[..., ProxyInProcess], layout: Layout
) -> None:
    """A proxy killed before its first record leaves neither a file nor a row."""
    layout.archive.mkdir()
    (layout.archive / "weboid-20261121000000-killed-00000.warc.gz.open").touch()
    start().stop()

    assert list(layout.archive.glob("*.warc.gz*")) == []
    assert rows(layout, "SELECT * FROM files") == []


def test_a_dead_proxys_spools_go_and_a_living_ones_stay(tmp_path: Path) -> None:
    """The next start removes spools that a kill left on the disk, and none that is in use."""
    left = tmp_path / ".spool-of-the-dead"
    left.mkdir()
    (left / ".lock").touch()
    (left / "body").write_bytes(b"long")
    spool = ScratchKind.SPOOL
    with scratch_folder(spool, tmp_path) as first, scratch_folder(spool, tmp_path) as second:
        assert set(tmp_path.glob(".spool-*")) == {first, second}

    assert list(tmp_path.glob(".spool-*")) == []
