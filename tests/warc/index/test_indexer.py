"""Checks of copies among the records: what the captures index takes from them, live and afterwards."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.digests import sha256_digest
from core.errors import WeboidError
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, QaVerdict, check_record, choice_penalty
from core.timestamps import warc_date
from proxy.control.client import NewArtifact
from tests.support.examples import examples
from tests.support.proxy_fixtures import ProxyCommand, ProxyInProcess, ScriptedOrigin
from tests.warc.test_file_check import fetch, rows, verified
from warc.index.indexer import index_file
from warc.index.queries import QUALITY
from warc.index.sqlite import SqliteCaptureIndex
from warc.rebuild import rebuild_index
from warc.record_builder import new_record_id, record_member
from warc.verification import verify_collection

pytestmark = pytest.mark.proxy

URL = "http://origin.example/page"
NOW = datetime(2026, 11, 22, tzinfo=UTC)
QUALITIES = "SELECT * FROM qualities ORDER BY filename, offset"
CAPTURES = "SELECT urlkey, url, captured_ms, page_id, filename, offset FROM captures ORDER BY 5, 6"
FOUND = f"SELECT page_id, {QUALITY} FROM pages ORDER BY page_id"


def a_check(page_id: str = "p", *, second: int = 0, verdict: QaVerdict = QaVerdict.BROKEN) -> PlaybackCheck:
    """Return a check of the page's copy."""
    at = NOW + timedelta(seconds=second)
    return PlaybackCheck(page_id, URL, warc_date(NOW), "images", warc_date(at), "e", verdict)


async def write(proxy: ProxyInProcess, data: bytes, *, page_id: str) -> None:
    """Write a record that says of the page what it says, as whoever records checks does."""
    async with proxy.client.visit(page_id, bucket="default") as visit:
        record = NewArtifact(f"urn:pageinfo:{URL}", "application/json", data)
        await visit.write([record], document=URL, date=NOW)
        await visit.seal(grace_s=0)


async def test_a_check_is_no_capture_of_its_page(
    start_process: Callable[..., ProxyCommand],
    start: Callable[..., ProxyInProcess],
    origin: ScriptedOrigin,
    layout: Layout,
) -> None:
    """It is no page, no look-up by URL finds it, it is counted apart, and all of that after a crash, too."""
    proxy = start_process("first")
    await fetch(proxy, URL)
    await write(proxy, check_record(a_check(), "c1"), page_id="c1")
    before = rows(layout, QUALITIES), rows(layout, CAPTURES), rows(layout, FOUND)

    assert before[2] == [("p", 1)]
    assert [row[:2] for row in before[1] if row[3] == "c1"] == [("", f"urn:pageinfo:{URL}")]
    assert rows(layout, "SELECT page_id FROM pages") == [("p",)]
    proxy.kill()
    with closing(SqliteCaptureIndex(layout.captures_db)) as index, index.transaction():
        for table in ("captures", "payloads", "files", "pages", "qualities"):
            index._db.execute(f"DELETE FROM {table}")
    start("second").stop()
    assert (rows(layout, QUALITIES), rows(layout, CAPTURES), rows(layout, FOUND)) == before
    assert verified(layout) == []

    layout.captures_db.unlink()
    assert rebuild_index(layout, bucket="default")["qualities"] == 1
    assert (rows(layout, QUALITIES), rows(layout, CAPTURES), rows(layout, FOUND)) == before
    assert verify_collection(layout).faults == []


async def test_what_is_neither_page_nor_check_is_not_written(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Whoever writes it is told; a check of a page that can be none, too."""
    for data in (b"{}", check_record(replace(a_check(), page_id="../x"), "c"), b"no JSON"):
        with pytest.raises(WeboidError):
            await write(proxy, data, page_id="c")

    assert rows(layout, QUALITIES) == []


def record(data: bytes, page_id: str) -> bytes:
    """Return a ``urn:pageinfo:`` record."""
    digest = sha256_digest(data)
    return record_member(
        [
            ("WARC-Type", "resource"),
            ("WARC-Record-ID", new_record_id()),
            ("WARC-Date", warc_date(NOW)),
            ("WARC-Target-URI", f"urn:pageinfo:{URL}"),
            ("WARC-Page-ID", page_id),
            ("Content-Type", "application/json"),
            ("WARC-Payload-Digest", digest),
            ("WARC-Block-Digest", digest),
            ("Content-Length", str(len(data))),
        ],
        data,
    )


def manifest(page_id: str) -> bytes:
    """Return the record of a page's own manifest."""
    info = PageInfo(page_id, URL, URL, warc_date(NOW), VisitOutcome.COMPLETE, status=200)
    return record(info.to_json(), page_id)


def indexed(folder: Path, names: list[str]) -> SqliteCaptureIndex:
    """Build an index of the files, read in that order."""
    index = SqliteCaptureIndex(folder / f"{'-'.join(names)}.sqlite")
    for name in names:
        index_file(folder / name, name, index, bucket="default", min_bytes=1)
    index.settle()
    return index


_checks = st.builds(
    lambda page, second, verdict, better, level: replace(
        a_check(page, second=second, verdict=verdict), better=better, level=level
    ),
    st.sampled_from(("one", "two")),
    st.integers(0, 3),
    st.sampled_from(QaVerdict),
    st.sampled_from(("", "other")),
    st.sampled_from(("images", "images", "full")),
)


@settings(max_examples=examples(20))
@given(st.lists(st.lists(_checks, max_size=4), min_size=3, max_size=3), st.permutations("abc"))
def test_the_newest_check_counts_in_whatever_order_files_are_read(
    files: list[list[PlaybackCheck]], order: list[str]
) -> None:
    """At the level that readers are shown; of two of one moment the one that says worse."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for letter, checks in zip("abc", files, strict=True):
            records = [record(check_record(each, "c"), "c") for each in checks]
            records += [manifest("one"), manifest("two")] if letter == "a" else []
            (folder / letter).write_bytes(b"".join(records) or manifest("three"))
        with closing(indexed(folder, list("abc"))) as one, closing(indexed(folder, order)) as two:
            rows = one._db.execute(FOUND).fetchall()
            assert rows == two._db.execute(FOUND).fetchall()
            assert one._db.execute(QUALITIES).fetchall() == two._db.execute(QUALITIES).fetchall()

    counts = dict.fromkeys(("one", "two"), (-1, 0))
    for each in (check for checks in files for check in checks if check.level == "images"):
        place = int(each.checked_at[17:19]), choice_penalty(each)
        counts[each.page_id] = max(counts[each.page_id], place)
    assert {page: dict(rows)[page] for page in counts} == {page: quality for page, (_, quality) in counts.items()}


_scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
_anything = st.recursive(_scalar, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@settings(max_examples=examples(25))
@given(st.dictionaries(st.sampled_from(PlaybackCheck.__slots__), _anything, max_size=4))
def test_whatever_a_record_says_of_a_check_its_file_is_read_whole(odd: dict[str, object]) -> None:
    """Anybody may have written a WARC that is added; what cannot be read says nothing."""
    document = json.loads(check_record(a_check("one"), "c"))
    document["checked"] |= odd
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").write_bytes(record(json.dumps(document).encode(), "c") + manifest("one") + manifest("two"))
        with closing(indexed(folder, ["a"])) as index:
            counts = index.counts()
            rows = index._db.execute(FOUND).fetchall()

    assert (counts["captures"], counts["pages"]) == (3, 2)
    assert all(quality in (0, 1, 2) for _, quality in rows)


def test_an_index_without_checks_is_of_an_older_version(tmp_path: Path) -> None:
    """It is refused, not read wrongly."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(sqlite3.connect(layout.captures_db)) as database:
        database.execute("PRAGMA user_version = 3")
    with pytest.raises(WeboidError, match="weboid collection rebuild"):
        SqliteCaptureIndex(layout.captures_db)
