"""Payloads erased from WARCs: tombstones, everything else as it was, and no harm from kill -9."""

import gzip
import os
import shutil
import signal
import sqlite3
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from core.errors import PermanentError, UnavailableError
from core.layout import Layout
from tests.support.playback_fixtures import CollectionBuilder, png
from warc.checksums import add_missing_sums, read_sums
from warc.erasure import PLAN_NAME, TombstoneLines, erase_records, finish_erasure, is_interrupted, remove_leftovers
from warc.file_reader import WarcMember, walk_records
from warc.index.sqlite import SqliteCaptureIndex
from warc.verification import verify_collection

pytestmark = pytest.mark.playback

_SECRET = b"the secret of the wombat"
_LINES = (("erased", "2026-03-02T00:00:00.000Z"), ("erased-by", "anna"), ("reason", "Order\r\n 7"))


class ErasureCollection:
    """A collection with records to erase among others, and what is known of it."""

    def __init__(self, folder: Path) -> None:
        self.builder = CollectionBuilder(folder)
        self.layout = self.builder.layout
        page = self.builder.page("https://a.example/", f"<p>{_SECRET.decode()}", title="Wombats")
        self.gone = [self.builder.response(f"https://a.example/{n}", _SECRET * n, page_id=page) for n in (1, 2000)]
        self.builder.page("https://b.example/", "<p>other</p>", shot=png())
        self.others = [self.builder.response(f"https://b.example/{n}", b"other %d" % n) for n in range(5)]
        self.gone.append(self.builder.response("https://a.example/last", _SECRET * 3))
        self.lost = self.builder.revisit("https://c.example/", self.gone[0])
        self.others.append(self.builder.revisit("https://d.example/", self.others[2]))
        with closing(sqlite3.connect(self.layout.captures_db)) as database, database:
            query = "SELECT filename, offset FROM captures WHERE page_id = ? AND url LIKE 'urn:%'"
            self.artifacts = database.execute(query, (page,)).fetchall()
            for each in (*self.others[:5], *self.gone):
                values = (each.digest, each.digest, each.location.filename, each.location.offset,
                          each.location.length, each.url)  # fmt: skip
                database.execute("INSERT INTO payloads VALUES (?, '', ?, ?, ?, ?, ?, 0)", values)
        with closing(SqliteCaptureIndex(self.layout.captures_db)) as index:
            for path in self.layout.archive.glob("*.gz"):
                index.cover(path.name, path.stat().st_size)
            add_missing_sums(self.layout, index)
        self.builder.close()

    @property
    def orders(self) -> dict[str, dict[int, TombstoneLines]]:
        """Return the tombstones of all records to erase, by file and offset."""
        places = [(each.location.filename, each.location.offset) for each in self.gone]
        places += [(self.lost.location.filename, self.lost.location.offset), *self.artifacts]
        tombstones: dict[str, dict[int, TombstoneLines]] = {}
        for filename, offset in places:
            tombstones.setdefault(filename, {})[offset] = _LINES
        return tombstones


@pytest.fixture
def house(tmp_path: Path) -> ErasureCollection:
    """Return a collection that passes verification."""
    made = ErasureCollection(tmp_path / "collection")
    assert verify_collection(made.layout).faults == []
    return made


def records(layout: Layout) -> dict[str, list[bytes]]:
    """Return the bytes of every record of every WARC."""
    members_by_file = {}
    for path in sorted(layout.archive.glob("*.gz")):
        data = path.read_bytes()
        members = [each for each in walk_records(path) if isinstance(each, WarcMember)]
        members_by_file[path.name] = [data[each.offset : each.offset + each.length] for each in members]
    return members_by_file


def assert_erased(house: ErasureCollection, before: dict[str, list[bytes]]) -> None:
    """Assert that nothing of the secret is left, all else is unchanged and the collection has no fault."""
    after = records(house.layout)
    changed = 0
    for name, members in before.items():
        assert len(after[name]) == len(members)
        for old, new in zip(members, after[name], strict=True):
            if old != new:
                changed += 1
                assert b"WARC-Type: metadata\r\n" in gzip.decompress(new)
    assert changed == sum(map(len, house.orders.values()))
    for path in house.layout.root.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert _SECRET not in data, path
            assert b"Wombats" not in data, path
    assert verify_collection(house.layout).faults == []
    assert verify_collection(house.layout, quick=True).faults == []
    names = {path.name for path in house.layout.archive.iterdir()}
    assert names == {*before, "SHA256SUMS", "SHA256SUMS.chain"}


def test_tombstones_stand_in_the_records_places(house: ErasureCollection) -> None:
    """WARC-Record-ID, target and date stay; the block says why; readers of WARCs find no fault."""
    before = records(house.layout)
    headers = _headers(house.layout)
    erased = erase_records(house.layout, house.orders)

    assert_erased(house, before)
    assert len(erased) == 3 + 1 + len(house.artifacts)
    now = _headers(house.layout)
    assert [each[1:] for each in now] == [each[1:] for each in headers]
    kinds = {url: kind for kind, _, url, _ in now}
    assert (kinds["https://a.example/1"], kinds["https://b.example/1"]) == ("metadata", "response")
    assert kinds["https://c.example/"] == "metadata"
    paths = [str(path) for path in house.layout.archive.glob("*.gz")]
    assert Checker(Namespace(inputs=paths, verbose=False)).process_all() == 0


def _headers(layout: Layout) -> list[tuple[str, str, str, str]]:
    headers = []
    for path in sorted(layout.archive.glob("*.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                get = record.rec_headers.get_header
                headers.append((record.rec_type, get("WARC-Record-ID"), get("WARC-Target-URI"), get("WARC-Date")))
    return headers


def test_the_block_of_a_tombstone_is_one_line_a_fact(house: ErasureCollection) -> None:
    """application/warc-fields, and no value can begin a line of its own."""
    erase_records(house.layout, house.orders)
    with (house.layout.archive / "captures-00000.warc.gz").open("rb") as file:
        record = next(iter(ArchiveIterator(file)))
        block = record.content_stream().read()
        content_type = record.rec_headers.get_header("Content-Type")
    assert content_type == "application/warc-fields"
    assert block == (
        b"erased: 2026-03-02T00:00:00.000Z\r\nerased-by: anna\r\nreason: Order 7\r\nerased-record-type: response\r\n"
    )


def test_the_index_moves_with_the_records(house: ErasureCollection) -> None:
    """Rows, payloads and what revisits refer to lie where the records are now; the rest is gone."""
    erase_records(house.layout, house.orders)
    with closing(sqlite3.connect(house.layout.captures_db)) as database:
        rows = database.execute(
            "SELECT url, filename, offset, length, orig_filename, orig_offset, orig_length FROM captures"
        ).fetchall()
        payloads = database.execute("SELECT url, filename, offset, length FROM payloads").fetchall()
        pages = database.execute("SELECT url FROM pages").fetchall()
    urls = {row[0] for row in rows}
    assert not any("a.example" in url or "c.example" in url for url in urls)
    assert {each.url for each in house.others} <= urls
    assert pages == [("https://b.example/",)]
    for url, filename, offset, length, *original in rows:
        assert _target(house.layout, filename, offset, length) == url
        if original[0] is not None:
            assert _target(house.layout, *original) == "https://b.example/2"
    assert len(payloads) == 5
    for url, filename, offset, length in payloads:
        assert _target(house.layout, filename, offset, length) == url


def _target(layout: Layout, filename: str, offset: int, length: int) -> str:
    with (layout.archive / filename).open("rb") as file:
        file.seek(offset)
        text = gzip.decompress(file.read(length)).decode("utf-8", "replace")
    return next(line[17:] for line in text.split("\r\n") if line.startswith("WARC-Target-URI: "))


def _killed(run: Callable[[Callable[[str], None]], object], at: int) -> bool:
    """Run it in a process that kills itself at its step number `at`; False when it came to its end."""
    child = os.fork()
    if child == 0:
        steps = iter(range(10_000))

        def step(_name: str) -> None:
            if next(steps) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            run(step)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_kill_9_at_any_step_loses_nothing(house: ErasureCollection, tmp_path: Path) -> None:
    """Before the plan all is as it was; after it, `finish` ends what was begun, however often killed."""
    before = records(house.layout)
    away = tmp_path / "away"
    house.layout.root.rename(away)
    at = 0
    while True:
        shutil.rmtree(house.layout.root, ignore_errors=True)
        shutil.copytree(away, house.layout.root)
        if not _killed(lambda step: erase_records(house.layout, house.orders, step=step), at):
            break
        if is_interrupted(house.layout):
            with pytest.raises(UnavailableError, match="--finish"):
                erase_records(house.layout, house.orders)
            _killed(lambda step: finish_erasure(house.layout, step=step), at % 3)
            finish_erasure(house.layout)
        else:
            assert records(house.layout) == before
            assert verify_collection(house.layout).faults == []
            erase_records(house.layout, house.orders)
        assert_erased(house, before)
        at += 1
    assert at >= 8
    assert_erased(house, before)


def test_what_is_not_as_it_should_be_is_refused(house: ErasureCollection) -> None:
    """An open WARC, one that is not what its checksum says, a place where no record is."""
    before = records(house.layout)
    name = house.gone[0].location.filename
    path = house.layout.archive / name
    with pytest.raises(PermanentError, match="no record at 7"):
        erase_records(house.layout, {name: {7: _LINES}})
    path.rename(path.with_name(f"{name}.open"))
    with pytest.raises(UnavailableError, match="open"):
        erase_records(house.layout, house.orders)
    path.with_name(f"{name}.open").rename(path)
    data = path.read_bytes()
    path.write_bytes(data + house.builder.layout.checksums.read_bytes())
    with pytest.raises(PermanentError, match="verify"):
        erase_records(house.layout, house.orders)
    path.write_bytes(data)
    remove_leftovers(house.layout)
    assert records(house.layout) == before
    assert verify_collection(house.layout).faults == []
    assert not (house.layout.archive / PLAN_NAME).exists()


def test_nothing_to_erase_changes_nothing(house: ErasureCollection) -> None:
    """And finishing what was not begun neither."""
    before = records(house.layout), read_sums(house.layout).by_name
    assert erase_records(house.layout, {}) == []
    assert finish_erasure(house.layout) == []
    assert (records(house.layout), read_sums(house.layout).by_name) == before
