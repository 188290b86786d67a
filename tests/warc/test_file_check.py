"""Acknowledged records are on disk, exactly once, whatever dies."""

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import ProxySettings
from core.errors import DiskFullError
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from proxy.control.client import NewArtifact
from tests.support.proxy_fixtures import ProxyBrowser, ProxyCommand, ProxyInProcess, ScriptedOrigin, check, ok, records
from warc.file_check import CollectionFault
from warc.file_reader import FaultKind, WarcMember, walk_records
from warc.index.sqlite import SqliteCaptureIndex
from warc.rebuild import rebuild_index
from warc.record_builder import record_member
from warc.verification import verify_collection
from warc.writer import WarcFile


def rows(layout: Layout, query: str) -> list[tuple[object, ...]]:
    """Return the rows of the index that the query selects."""
    with sqlite3.connect(layout.captures_db) as database:
        index_rows = database.execute(query).fetchall()
    database.close()
    return index_rows


def verified(layout: Layout) -> list[CollectionFault]:
    """Return the faults that `verify` finds, but missing checksums: they are written at the end of a run."""
    return [each for each in verify_collection(layout).faults if each.kind is not FaultKind.NO_CHECKSUM]


def pageinfo(page_id: str, url: str, *, at: datetime) -> NewArtifact:
    """Return a page's manifest as the worker writes it."""
    info = PageInfo(page_id, url, url, warc_date(at), VisitOutcome.COMPLETE, title="T", status=200)
    return NewArtifact(f"urn:pageinfo:{url}", "application/json", info.to_json())


async def fetch(proxy: ProxyInProcess, *urls: str, page_id: str = "p") -> datetime:
    """Visit, fetch the URLs, seal, and write the manifest; when it began."""
    begun = datetime.now(UTC)
    async with proxy.client.visit(page_id, bucket="default") as visit:
        with closing(ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)) as browser:
            for url in urls:
                await asyncio.to_thread(browser.get, url)
            await visit.seal(grace_s=2)
        url = urls[0]
        info = pageinfo(page_id, url, at=begun)
        await visit.write([info], document=url, date=begun)
    return begun


@pytest.mark.proxy
async def test_a_revisits_row_locates_the_payload(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Playback needs one look-up, not a search by digest."""
    await fetch(proxy, "http://origin.example/a", "http://origin.example/b")
    ((filename, offset, length),) = rows(
        layout, "SELECT filename, offset, length FROM captures WHERE record_type = 'response'"
    )

    assert rows(
        layout, "SELECT orig_filename, orig_offset, orig_length, mime FROM captures WHERE record_type = 'revisit'"
    ) == [(filename, offset, length, "text/html")]


@pytest.mark.proxy
async def test_what_was_acknowledged_survives_a_kill(
    start_process: Callable[..., ProxyCommand],
    start: Callable[..., ProxyInProcess],
    origin: ScriptedOrigin,
    layout: Layout,
) -> None:
    """After SIGKILL the next process finds every sealed record; the WARC is whole and closed."""
    proxy = start_process("first")
    await fetch(proxy, *(f"http://origin.example/{n}" for n in range(5)))
    (left,) = layout.archive.glob("weboid-*.open")
    proxy.kill()
    with left.open("ab") as file:
        file.write(record_member([("WARC-Type", "response")], b"x" * 500)[:-20])  # a torn tail
    second = start("second")
    report = {each["filename"]: each for each in second.recovered}
    second.stop()
    check(layout)

    assert list(layout.archive.glob("*.open")) == []
    assert report[left.name.removesuffix(".open")]["cut"] > 0
    assert len(rows(layout, "SELECT url FROM captures WHERE url LIKE 'http%'")) == 5
    assert len([r for r in records(layout) if r.kind in ("response", "revisit")]) == 5


@pytest.mark.proxy
async def test_records_that_the_index_missed_are_found_again(
    start_process: Callable[..., ProxyCommand],
    start: Callable[..., ProxyInProcess],
    origin: ScriptedOrigin,
    layout: Layout,
) -> None:
    """A crash between disk and index loses no capture, and adds none twice."""
    proxy = start_process("first")
    await fetch(proxy, "http://origin.example/a", "http://origin.example/b")
    proxy.kill()
    before = rows(layout, "SELECT url, offset, orig_offset, page_id FROM captures ORDER BY url")
    index = SqliteCaptureIndex(layout.captures_db)
    with index.transaction():
        for statement in ("captures", "payloads", "files", "pages"):
            index._db.execute(f"DELETE FROM {statement}")
    index.close()
    start("second").stop()

    after = rows(layout, "SELECT url, offset, orig_offset, page_id FROM captures ORDER BY url")
    assert after == before
    assert rows(layout, "SELECT page_id, title FROM pages") == [("p", "T")]


@pytest.mark.proxy
async def test_the_index_can_be_made_again_from_the_warcs(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """`collection rebuild` gives the rows that writing gave."""
    origin.answers["/page"] = ok(b"<title>T</title>", status="404 Not Found", more="X-A: b\r\n")
    origin.answers["/chunks"] = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nsam\r\n1\r\ne\r\n0\r\n\r\n"
    )
    origin.answers["/plain"] = ok(b"same", mime="text/plain")
    site = "http://origin.example"
    await fetch(proxy, f"{site}/a", f"{site}/page", f"{site}/chunks", page_id="one")
    await fetch(proxy, f"{site}/a?again", f"{site}/plain", page_id="two")
    proxy.stop()
    tables = ("captures", "pages", "payloads", "files")
    columns = "urlkey, captured_ms, url, record_type, mime, status, digest, filename, offset"
    wanted = {
        "captures": f"SELECT {columns}, length, orig_filename, orig_offset, page_id FROM captures"
        " ORDER BY filename, offset",
        "pages": "SELECT * FROM pages ORDER BY page_id",
        "payloads": "SELECT * FROM payloads ORDER BY digest",
        "files": "SELECT * FROM files ORDER BY filename",
    }
    before = {table: rows(layout, wanted[table]) for table in tables}
    layout.captures_db.unlink()
    rebuild_index(layout, bucket="default")

    assert {table: rows(layout, wanted[table]) for table in tables} == before
    kinds = [row[3] for row in before["captures"]]
    assert [kinds.count(kind) for kind in ("response", "revisit", "resource")] == [3, 2, 2]


@pytest.mark.proxy
async def test_an_interrupted_attempt_leaves_no_capture_beside_the_page(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """A page visited again after a crash is in the index once, by its last visit."""
    url = "http://origin.example/page"
    async with proxy.client.visit("p", bucket="default") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.get(url)
        await visit.seal(grace_s=1)  # … and the worker dies before it writes the manifest
        browser.close()
    begun = datetime.now(UTC)
    async with proxy.client.visit("p", bucket="default") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.get(url)
        await visit.seal(grace_s=1)
        browser.close()
        info = pageinfo("p", url, at=begun)
        await visit.write([info], document=url, date=begun)
    proxy.stop()

    query = f"SELECT record_type FROM captures WHERE url = '{url}'"
    assert rows(layout, query) == [("revisit",)]
    rebuild_index(layout, bucket="default")
    assert rows(layout, query) == [("revisit",)]


@pytest.mark.proxy
async def test_artifacts_lie_beside_the_captures_and_refer_to_them(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """`artifacts-*` holds resource records with the page's date, id, URL and capture."""
    url = "http://origin.example/page"
    begun = await fetch(proxy, url)
    proxy.stop()
    check(layout)
    written = records(layout)
    (artifact,) = (record for record in written if record.kind == "resource")
    capture = next(record for record in written if record.kind == "response")

    assert artifact.filename.startswith("artifacts-")
    assert artifact.url == f"urn:pageinfo:{url}"
    assert json.loads(artifact.payload)["title"] == "T"
    assert artifact.headers["WARC-Date"] == warc_date(begun)
    assert artifact.headers["WARC-Page-ID"] == capture.headers["WARC-Page-ID"]
    assert not [name for name in artifact.headers if name.startswith("WARC-Refers-To")]  # 5.9, 5.10
    assert artifact.headers["WARC-Concurrent-To"] == capture.headers["WARC-Record-ID"]


@pytest.mark.proxy
async def test_below_the_reserve_no_visit_is_opened(start: Callable[..., ProxyInProcess]) -> None:
    """The error says how much is free and what to do; nothing is lost."""
    proxy = start(disk_reserve_bytes=1 << 60)
    with pytest.raises(DiskFullError, match="free some space"):
        async with proxy.client.visit("p", bucket="default"):
            raise AssertionError("opened")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.proxy
async def test_a_full_disk_fails_the_visit_loudly_and_leaves_whole_files(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout, small_disk: Path
) -> None:
    """ENOSPC reaches whoever waits; the WARC ends with its last whole record, and goes on."""
    layout.archive.symlink_to(small_disk)
    origin.answers["/small"] = ok(b"small")
    proxy = start()
    origin.answers["/large"] = ok(os.urandom(5_000_000))
    await fetch(proxy, "http://origin.example/small")
    with pytest.raises(DiskFullError):
        await fetch(proxy, "http://origin.example/large", page_id="q")
    await fetch(proxy, "http://origin.example/after", page_id="r")
    proxy.stop()
    check(layout)

    assert sorted(str(row[0]) for row in rows(layout, "SELECT page_id FROM pages")) == ["p", "r"]
    captured = {row[0] for row in rows(layout, "SELECT url FROM captures WHERE status = 200")}
    assert captured == {"http://origin.example/small", "http://origin.example/after"}


@pytest.mark.proxy
async def test_a_file_rolls_over_at_its_size_and_gets_its_final_name(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """Closed WARCs lose `.open`; their rows hold the final name from the start."""
    origin.answers = {f"/{n}": ok(os.urandom(30_000)) for n in range(2)}
    proxy = start(warc_limit_bytes=20_000)
    for number in range(2):
        await fetch(proxy, f"http://origin.example/{number}", page_id=str(number))
    proxy.stop()
    names = {path.name for path in layout.archive.glob("*.warc.gz*")}

    assert len([name for name in names if name.startswith("weboid-")]) == 2
    assert not any(name.endswith(".open") for name in names)
    assert {row[0] for row in rows(layout, "SELECT filename FROM captures")} <= names


def test_a_file_rolls_over_at_its_age_even_when_nothing_is_written(tmp_path: Path) -> None:
    """`warc_limit_s`: what is old enough is closed and gets its final name."""
    moments = [datetime(2026, 11, 21, tzinfo=UTC)]
    file = WarcFile(tmp_path, "w", settings=ProxySettings(warc_limit_s=60), now=lambda: moments[-1])
    file.append([record_member([("WARC-Type", "resource")], b"block")])
    file.sync()
    file.keep()
    moments.append(moments[-1] + timedelta(seconds=59))
    file.roll_over()
    (before,) = tmp_path.iterdir()
    moments.append(moments[-1] + timedelta(seconds=1))
    file.roll_over()
    (after,) = tmp_path.iterdir()

    assert before.name == after.name + ".open"
    assert file.end == 0


@pytest.mark.proxy
async def test_an_idle_proxy_closes_a_file_of_age(
    start: Callable[..., ProxyInProcess], layout: Layout, origin: ScriptedOrigin
) -> None:
    """Nobody needs to write for a file to be closed."""
    origin.answers["/"] = ok(b"a page")
    proxy = start(warc_limit_s=0.2)
    await fetch(proxy, "http://origin.example/")

    while any(path.suffix == ".open" for path in layout.archive.iterdir()):
        await asyncio.sleep(0.02)


@pytest.mark.proxy
async def test_bytes_in_flight_are_cut_when_half_of_the_reserve_is_gone(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout, small_disk: Path
) -> None:
    """A visit that has begun may use the other half; then it is cut and fails, to be made again."""
    layout.archive.symlink_to(small_disk)
    begun = threading.Event()

    def endless(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbegin")
        begun.set()
        while True:
            connection.sendall(b"and so on " * 100)

    origin.answers["/endless"] = endless
    proxy = start(disk_reserve_bytes=2_000_000)
    async with proxy.client.visit("p", bucket="default") as visit:
        browser = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        browser.send_only(
            b"GET http://origin.example/endless HTTP/1.1\r\nHost: origin.example\r\n"
            + browser.authorization.encode()
            + b"\r\n"
        )
        assert begun.wait(120)
        (small_disk / "filler").write_bytes(bytes(2_500_000))
        browser.rest()
        browser.close()
        with pytest.raises(DiskFullError, match="Half of the reserve"):
            await visit.seal(grace_s=20)
    proxy.stop()
    (small_disk / "filler").unlink()
    check(layout)

    (response,) = [record for record in records(layout) if record.kind == "response"]
    assert response.headers["WARC-Truncated"] == "unspecified"


@given(st.lists(st.binary(max_size=300), max_size=4), st.data())
def test_a_torn_tail_is_found_wherever_it_was_torn(tmp_path: Path, blocks: list[bytes], data: st.DataObject) -> None:
    """Of any prefix of a WARC, the last whole member is found."""
    whole = [record_member([("WARC-Type", "resource"), ("Content-Length", str(len(block)))], block) for block in blocks]
    ends = [sum(len(m) for m in whole[:n]) for n in range(len(whole) + 1)]
    cut = data.draw(st.integers(0, ends[-1]))
    path = tmp_path / "torn.warc.gz"
    path.write_bytes(b"".join(whole)[:cut])

    members = [each for each in walk_records(path) if isinstance(each, WarcMember)]
    last = members[-1].offset + members[-1].length if members else 0
    assert last == max(end for end in ends if end <= cut)


@given(st.binary(max_size=5000))
def test_a_member_is_one_gzip_record(block: bytes) -> None:
    """One member holds one whole record, and nothing else."""
    inflater = zlib.decompressobj(31)
    record = inflater.decompress(record_member([("Content-Length", str(len(block)))], block))

    assert inflater.eof
    assert record.endswith(block + b"\r\n\r\n")
    assert record.startswith(b"WARC/1.1\r\n")


async def test_a_page_that_was_skipped_is_not_offered(
    proxy: ProxyInProcess, origin: ScriptedOrigin, layout: Layout
) -> None:
    """Of a skipped page only the manifest is in the index, also of one that was rebuilt; other pages stay."""
    origin.answers["/no"] = ok(b"not for archives")
    origin.answers["/yes"] = ok(b"for archives")
    begun = datetime.now(UTC)
    async with proxy.client.visit("skipped", bucket="default") as visit:
        given = visit.credentials
        with closing(ProxyBrowser(proxy.port, given.username, given.password)) as browser:
            await asyncio.to_thread(browser.get, "http://origin.example/no")
            await visit.seal(grace_s=2)
        url = "http://origin.example/no"
        info = PageInfo("skipped", url, url, warc_date(begun), VisitOutcome.SKIPPED, "noarchive: x")
        manifest = NewArtifact(f"urn:pageinfo:{url}", "application/json", info.to_json())
        await visit.write([manifest], document=url, date=begun)
    await fetch(proxy, "http://origin.example/yes")
    proxy.stop()

    query = "SELECT url FROM captures WHERE record_type IN ('response', 'resource') ORDER BY url"
    wanted = [
        ("http://origin.example/yes",),
        ("urn:pageinfo:http://origin.example/no",),
        ("urn:pageinfo:http://origin.example/yes",),
    ]
    assert rows(layout, query) == wanted
    assert verified(layout) == []
    rebuild_index(layout, bucket="default", min_bytes=1)
    assert rows(layout, query) == wanted
    assert verified(layout) == []
    assert "http://origin.example/no" in [each.url for each in records(layout)]
