"""`weboid import`: what comes in, from which files, and what no file can do to the collection."""

import base64
import gzip
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from core.captures import ArtifactKind, artifact_uri
from core.errors import InputError
from core.layout import COLLECTION_VERSION, Layout
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import timestamp14, warc_date
from tests.support.commands import WEBOID
from tests.support.playback_fixtures import NOW, CollectionBuilder, png
from warc.artifact_reader import read_manifest
from warc.checksums import read_sums
from warc.foreign_archives import ImportStorage, open_archives
from warc.index.database import SqliteDatabase
from warc.local_storage import DiskReserve
from warc.record_builder import header_block, new_record_id
from warc.verification import verify_collection
from weboid.cli.main import weboid

# Runs a command; prints its largest resident set, of which that of its parent is no part.
MEASURED = (
    "import resource as r, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
    "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
)
# `weboid`, ended by SIGKILL when the captures index has got its first batch of rows.
KILLED = """
import os, signal, sys
from warc.index.sqlite import SqliteCaptureIndex
from weboid.cli.main import main
add_rows = SqliteCaptureIndex.add_rows
def add_and_end(index, rows):
    add_rows(index, rows)
    os.kill(os.getpid(), signal.SIGKILL)
SqliteCaptureIndex.add_rows = add_and_end
main(sys.argv[1:])
"""
ONE, TWO, PICTURE = "https://a.example/one", "https://a.example/two", "https://a.example/i.png"
DATE = warc_date(NOW)


def run(root: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    """Run `weboid import` into the collection at `root` and return its JSON."""
    words = ["import", *map(str, arguments), "--collection", str(root), "--json"]
    result = CliRunner().invoke(weboid, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == code, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def record(
    url: str,
    body: bytes,
    mime: str = "text/html",
    *,
    kind: str = "response",
    gz: bool = True,
    head: str = "200 OK",
    **headers: str,
) -> bytes:
    """Return a record as other tools write it, with SHA-1 digests in base32."""
    block = body
    if kind == "response":
        block = f"HTTP/1.1 {head}\r\nContent-Type: {mime}\r\n\r\n".encode() + body
        mime = "application/http; msgtype=response"
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": new_record_id(),
        "WARC-Target-URI": url,
        "WARC-Date": DATE,
        "Content-Type": mime,
        "WARC-Payload-Digest": sha1(body),
        "WARC-Block-Digest": sha1(block),
        "Content-Length": str(len(block)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    data = header_block(list(fields.items())) + block + b"\r\n\r\n"
    return gzip.compress(data, mtime=0) if gz else data


def sha1(data: bytes) -> str:
    """Return the SHA-1 digest as warcio spells it."""
    return f"sha1:{base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()}"


def site(*, gz: bool = True) -> list[bytes]:
    """Return the records of a page with a picture and of another page."""
    return [
        record(ONE, b"<title>One</title><p>First", gz=gz),
        record(PICTURE, png(), "image/png", gz=gz),
        record(TWO, b"<title>Two</title><p>Second", gz=gz),
    ]


def warc(folder: Path, *records: bytes, name: str = "crawl.warc.gz") -> Path:
    """Write a file of the records."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(records))
    return folder / name


def wacz(path: Path, entries: dict[str, bytes], **stated: str) -> Path:
    """Write a WACZ of the entries, with its package; `stated` is the SHA-256 of each file instead of its own."""
    sums = {name: stated.get(Path(name).stem[0]) or hashlib.sha256(data).hexdigest() for name, data in entries.items()}
    hashes = {name: f"sha256:{each}" for name, each in sums.items()}
    package = {"profile": "data-package", "resources": [{"path": n, "hash": h} for n, h in hashes.items()]}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)
        file.writestr("datapackage.json", json.dumps(package))
    return path


def rows(root: Path, query: str) -> list[tuple[Any, ...]]:
    """Query the captures index."""
    with closing(sqlite3.connect(Layout(root).captures_db)) as index:
        return index.execute(query).fetchall()


def pages(root: Path) -> list[tuple[Any, ...]]:
    """Return URL, title, status and media type of the pages."""
    return rows(root, "SELECT url, title, status, mime FROM pages ORDER BY url")


def manifest(root: Path, url: str) -> PageInfo:
    """Return the manifest of the only page of that URL."""
    ((page_id,),) = rows(root, f"SELECT page_id FROM pages WHERE url = '{url}'")
    with closing(SqliteDatabase(Layout(root).captures_db)) as index:
        page = read_manifest(Layout(root), index, page_id)
    assert page is not None
    return page


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Create a collection of our own with one page and return its root."""
    root = tmp_path / "own"
    with closing(CollectionBuilder(root)) as builder:
        builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        page = builder.page(ONE, "<p>Ours", title="Ours", text="Our words", shot=png())
        builder.response(ONE, b"<p>Ours", page_id=page)
        picture = builder.response(PICTURE, png(), mime="image/png", page_id=page)
        builder.revisit("https://a.example/again.png", picture)
    return root


def test_an_export_comes_back_as_it_was(own: Path, tmp_path: Path) -> None:
    """Pages, captures, text and pictures of a WACZ of ours; each manifest names its origin."""
    out = tmp_path / "out.wacz"
    words = ["export", str(out), "--collection", str(own)]
    CliRunner().invoke(weboid, words, standalone_mode=False)
    root = tmp_path / "collection"

    done = run(root, out)

    assert (done["pages"], done["known_pages"], done["revisits_without_payload"]) == (1, 0, 0)
    facts = "SELECT url, title, outcome, page_class, timestamp, final_url FROM pages"
    assert rows(root, facts) == rows(own, facts)
    captures = "SELECT url, record_type, status, digest FROM captures WHERE url NOT LIKE 'urn:pageinfo:%' ORDER BY 1, 2"
    assert rows(root, captures) == rows(own, captures)
    page = manifest(root, ONE)
    assert page.imported is not None
    assert page.imported.source.startswith("out.wacz!archive/")
    assert page.imported.listed_in == "manifest"
    assert page.page_id != rows(own, "SELECT page_id FROM pages")[0][0]
    assert verify_collection(Layout(root)).is_sound


def test_a_second_import_adds_nothing(tmp_path: Path) -> None:
    """Files are known by their digest, under any name; pages by their records."""
    root, first = tmp_path / "collection", warc(tmp_path, *site())
    run(root, first)
    before = sorted(path.name for path in Layout(root).archive.iterdir()), pages(root)

    again = run(root, first.rename(tmp_path / "renamed.warc.gz"))

    assert [each["state"] for each in again["files"]] == ["known"]
    assert (again["pages"], again["known_pages"]) == (0, 2)
    assert (sorted(path.name for path in Layout(root).archive.iterdir()), pages(root)) == before


def packed_with_a_dictionary(records: list[bytes]) -> bytes:
    """Return a Zstandard file of the records, its dictionary in the first frame."""
    words = b"".join(records)
    dictionary = zstandard.ZstdCompressionDict(words[:1000])
    head = zstandard.compress(dictionary.as_bytes())
    frames = [zstandard.ZstdCompressor(dict_data=dictionary).compress(each) for each in records]
    return b"\x5d\x2a\x4d\x18" + len(head).to_bytes(4, "little") + head + b"".join(frames)


@pytest.mark.parametrize("form", ["members", "plain", "one-member", "later-member", "cut", "zst", "zst-dictionary"])
def test_every_compression_has_the_same_captures(tmp_path: Path, form: str) -> None:
    """Each record is a gzip member afterwards, with the bytes it had."""
    plain = site(gz=False)
    data = {
        "members": b"".join(map(gzip.compress, plain)),
        "plain": b"".join(plain),
        "one-member": gzip.compress(b"".join(plain)),
        "later-member": gzip.compress(plain[0]) + gzip.compress(b"".join(plain[1:])),
        "cut": gzip.compress(plain[0]) + gzip.compress(plain[1][:50]) + gzip.compress(plain[1][50:] + plain[2]),
        "zst": b"".join(map(zstandard.compress, plain)),
        "zst-dictionary": packed_with_a_dictionary(plain),
    }[form]
    root = tmp_path / "collection"

    done = run(root, warc(tmp_path, data, name="file"))

    assert [each["records"] for each in done["files"]] == [3]
    assert pages(root) == [(ONE, "One", 200, "text/html"), (TWO, "Two", 200, "text/html")]
    (stored,) = Layout(root).archive.glob("imported-*")
    assert gzip.decompress(stored.read_bytes()) == b"".join(plain)
    assert verify_collection(Layout(root)).is_sound


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("more", [b"", b"200 2c7a - 1234567 x.arc "], ids=["1.0", "2.0"])
def test_an_arc_file_has_its_pages(tmp_path: Path, is_packed: bool, more: bytes) -> None:
    """Its records get WARC headers; address and block stay. `more`: fields of version 2."""
    head = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>Old</title>"
    data = b"filedesc://x.arc 0.0.0.0 20050101000000 text/plain %s%d\n%s\n" % (more, len(head), head)
    data += b"http://old.example/ 10.0.0.1 20050102030405 text/html %s%d\n%s\n" % (more, len(body), body)
    root = tmp_path / "collection"

    run(root, warc(tmp_path, gzip.compress(data) if is_packed else data, name="x.arc"))

    assert pages(root) == [("http://old.example/", "Old", 200, "text/html")]
    assert rows(root, "SELECT timestamp FROM pages") == [("20050102030405",)]


def browsertrix(folder: Path) -> Path:
    """Write a WACZ as Browsertrix does: lists, page ids in captures, artifacts that name only the URL."""
    redirect = record("https://a.example/old", b"", head="301 Moved\r\nLocation: /one", WARC_Page_ID="b2")
    info = {"pageid": "b1", "url": ONE, "ts": DATE, "urls": {ONE: {"status": 200}}}
    records = [
        record(ONE, b"<title>In the page</title>", WARC_Page_ID="b1"),
        record(PICTURE, png(), "image/png", WARC_Page_ID="b1"),
        record(artifact_uri(ArtifactKind.VIEW, ONE), png("blue"), "image/png", kind="resource"),
        record(
            artifact_uri(ArtifactKind.PAGEINFO, ONE), json.dumps(info).encode(), "application/json", kind="resource"
        ),
        redirect,
    ]
    lines = [
        {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"},
        {"id": "b1", "url": ONE, "title": "Listed", "ts": DATE, "text": "Words of the page"},
        {"id": "b2", "url": "https://a.example/old", "title": "Moved", "ts": DATE},
        {"id": "b3", "url": "https://a.example/never", "ts": DATE},
    ]
    listing = "".join(json.dumps(each) + "\n" for each in lines).encode()
    return wacz(folder / "b.wacz", {"archive/rec.warc.gz": b"".join(records), "pages/pages.jsonl": listing})


def test_a_browsertrix_page_has_its_artifacts(tmp_path: Path) -> None:
    """Title and text of the list, the screenshot of the archive, its own resources; redirects are followed."""
    root = tmp_path / "collection"

    done = run(root, browsertrix(tmp_path))

    assert (done["pages"], done["pages_without_record"]) == (2, 1)
    assert pages(root) == [("https://a.example/old", "Moved", 200, "text/html"), (ONE, "Listed", 200, "text/html")]
    page = manifest(root, ONE)
    assert page.artifacts == ("text", "view")
    assert {each.url for each in page.resources} == {ONE, PICTURE}
    assert manifest(root, "https://a.example/old").final_url == ONE
    kinds = f"SELECT substr(url, 1, 9) FROM captures WHERE page_id = '{page.page_id}' AND url LIKE 'urn:%' ORDER BY 1"
    assert [kind for (kind,) in rows(root, kinds)] == ["urn:pagei", "urn:text:", "urn:view:"]
    assert verify_collection(Layout(root)).is_sound


@pytest.mark.parametrize("form", ["folder", "nested", "listed"])
def test_packages_of_several_archives(tmp_path: Path, form: str) -> None:
    """A folder of pywb's, a WACZ in a WACZ, a JSON list of WACZ files."""
    there, root = tmp_path / "there", tmp_path / "collection"
    warc(there / "archive", *site())
    source = there
    if form != "folder":
        inner = wacz(tmp_path / "inner.wacz", {"archive/a.warc.gz": b"".join(site())})
        source = tmp_path / "multi.json"
        source.write_text(json.dumps({"profile": "multi-wacz-package", "resources": [{"path": "inner.wacz"}]}))
        if form == "nested":
            source = wacz(tmp_path / "outer.wacz", {"inner.wacz": inner.read_bytes()})

    run(root, source)

    assert [url for url, *_ in pages(root)] == [ONE, TWO]


@pytest.mark.parametrize("name", ["a.warc.gz", "a.wacz"])
def test_a_file_that_was_compressed_once_more_is_read(tmp_path: Path, name: str) -> None:
    """As servers send it with a content coding."""
    inner = (
        wacz(tmp_path / name, {"archive/a.warc.gz": b"".join(site())}) if "wacz" in name else warc(tmp_path, *site())
    )
    outer = tmp_path / "outer"
    outer.write_bytes(gzip.compress(inner.read_bytes()))

    run(tmp_path / "collection", outer)

    assert len(pages(tmp_path / "collection")) == 2
    assert not list(Layout(tmp_path / "collection").archive.glob(".*"))


def test_files_of_one_name_are_both_stored(tmp_path: Path) -> None:
    """Each under its digest; no file replaces another."""
    one = warc(tmp_path / "1", record(ONE, b"<title>One</title>"))
    two = warc(tmp_path / "2", record(TWO, b"<title>Two</title>"))
    root = tmp_path / "collection"

    run(root, one, two)

    stored = {path.read_bytes() for path in Layout(root).archive.glob("imported-*")}
    assert stored == {one.read_bytes(), two.read_bytes()}
    sums = read_sums(Layout(root)).by_name.values()
    assert {hashlib.sha256(data).hexdigest() for data in stored} <= set(sums)


def test_no_file_forges_a_manifest_or_a_page_of_ours(own: Path, tmp_path: Path) -> None:
    """A manifest with our page's id, records under it, and a payload under a false digest."""
    ((page_id,),) = rows(own, "SELECT page_id FROM pages")
    before = rows(own, "SELECT * FROM pages"), rows(own, f"SELECT * FROM captures WHERE page_id = '{page_id}'")
    later = warc_date(NOW.replace(year=NOW.year + 1))
    forged = PageInfo(page_id, ONE, ONE, later, VisitOutcome.SKIPPED, title="Forged")
    uri = artifact_uri(ArtifactKind.PAGEINFO, ONE)
    false = "sha256:" + hashlib.sha256(b"what a site sends tomorrow").hexdigest()
    payload = record("https://a.example/app.js", b"evil()", "text/javascript", WARC_Payload_Digest=false)
    file = warc(
        tmp_path, record(uri, forged.to_json(), "application/json", kind="resource", WARC_Page_ID=page_id),
        record(ONE, b"<title>Theirs</title>", WARC_Page_ID=page_id), payload,
    )  # fmt: skip

    done = run(own, file)

    assert "WARC-Payload-Digest" in done["files"][0]["problems"][0]
    ours = rows(own, f"SELECT * FROM captures WHERE page_id = '{page_id}'")
    assert (rows(own, f"SELECT * FROM pages WHERE page_id = '{page_id}'"), ours) == before
    assert rows(own, f"SELECT * FROM payloads WHERE digest = '{false}' OR spelled = '{false}'") == []
    CliRunner().invoke(weboid, ["collection", "rebuild", "--collection", str(own)], standalone_mode=False)
    files = rows(own, f"SELECT DISTINCT filename FROM captures WHERE page_id = '{page_id}'")
    assert not [name for (name,) in files if name.startswith("imported-")]
    assert rows(own, f"SELECT title, outcome FROM pages WHERE page_id = '{page_id}'") == [("Ours", "complete")]


def test_dedup_knows_what_was_imported(tmp_path: Path) -> None:
    """By the SHA-256 of the payload, whatever digest the file has."""
    root = tmp_path / "collection"

    run(root, warc(tmp_path, *site()))

    digest = f"sha256:{hashlib.sha256(png()).hexdigest()}"
    assert rows(root, f"SELECT url FROM payloads WHERE digest = '{digest}'") == [(PICTURE,)]


def test_damage_is_reported_and_the_rest_is_imported(tmp_path: Path) -> None:
    """A member with a wrong checksum, and a file that ends within a record."""
    one, picture, two = site()
    broken = picture[:-8] + bytes(4) + picture[-4:]
    file = warc(tmp_path, one, broken, two, record(PICTURE, png("green"), "image/png")[:-20])
    root = tmp_path / "collection"

    done = run(root, file, code=1)

    (report,) = done["files"]
    assert (report["records"], report["damaged"]) == (2, 2)
    assert [each.partition(":")[0] for each in report["problems"]] == [
        f"At {len(one):,}",
        f"At {len(one + broken + two):,}",
    ]
    assert [url for url, *_ in pages(root)] == [ONE, TWO]
    (stored,) = Layout(root).archive.glob("imported-*")
    assert stored.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["../../evil.warc.gz", "/evil.warc.gz", "C:\\evil.warc.gz"])
def test_a_path_that_leaves_the_file_is_left_out(tmp_path: Path, name: str) -> None:
    """It is reported; the other entries are imported, and nothing is written elsewhere."""
    root = tmp_path / "deep" / "collection"
    file = wacz(tmp_path / "x.wacz", {name: b"".join(site()), "archive/a.warc.gz": record(ONE, b"<title>One</title>")})

    done = run(root, file, code=1)

    assert len(done["files"]) == 1
    assert "outside the file" in done["problems"][0]
    assert not list(tmp_path.rglob("evil*"))


def test_entries_of_one_name_are_both_imported(tmp_path: Path) -> None:
    """Neither replaces the other."""
    file = tmp_path / "x.wacz"
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("datapackage.json", "{}")
        package.writestr("archive/a.warc.gz", record(ONE, b"<title>One</title>"))
        with pytest.warns(UserWarning, match="Duplicate"):
            package.writestr("archive/a.warc.gz", record(TWO, b"<title>Two</title>"))
    root = tmp_path / "collection"

    run(root, file)

    assert [title for _, title, *_ in pages(root)] == ["One", "Two"]
    assert len(list(Layout(root).archive.glob("imported-*"))) == 2


def test_a_damaged_entry_is_read_as_far_as_it_is_sound(tmp_path: Path) -> None:
    """A wrong CRC is reported; the record that has it is damaged, and the last one is there."""
    one, picture, two = site()
    file = wacz(tmp_path / "x.wacz", {"pages/extraPages.jsonl": b""})
    with zipfile.ZipFile(file, "a") as package:  # of which the data package states no SHA-256
        package.writestr("archive/a.warc.gz", one + picture + two)
    data = bytearray(file.read_bytes())
    data[data.index(picture) + len(picture) - 12] ^= 1
    file.write_bytes(data)
    root = tmp_path / "collection"

    done = run(root, file, code=1)

    assert "CRC-32" in done["files"][0]["problems"][0]
    assert done["files"][0]["records"] == 2
    assert [url for url, *_ in pages(root)] == [ONE, TWO]


def test_a_damaged_beginning_loses_no_other_record(tmp_path: Path) -> None:
    """The first record does not inflate: the format is known by the next one."""
    one, *others = site()
    file = warc(tmp_path, one[:12] + bytes(12) + one[24:], *others)

    done = run(tmp_path / "collection", file, code=1)

    (report,) = done["files"]
    assert (report["records"], report["damaged"]) == (2, 1)
    assert [url for url, *_ in pages(tmp_path / "collection")] == [TWO]


def test_a_package_without_readable_warcs_says_why(tmp_path: Path) -> None:
    """Its only one is encrypted."""
    file = wacz(tmp_path / "x.wacz", {"archive/a.warc.gz": b"".join(site())})
    data = bytearray(file.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(data)

    with pytest.raises(InputError, match="encrypted"):
        run(tmp_path / "collection", file)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    """Before anything of it is unpacked; the next file is imported all the same."""
    with zipfile.ZipFile(tmp_path / "bomb.wacz", "w", zipfile.ZIP_DEFLATED) as package:
        for number in range(30):
            package.writestr(f"archive/{number}.warc", bytes(1_000_000))
        for entry in package.filelist:
            entry.file_size = 1 << 30
    warc(tmp_path, *site())
    root = tmp_path / "collection"

    done = run(root, tmp_path, code=1)

    assert "ZIP bomb" in done["problems"][0]
    assert [each["state"] for each in done["files"]] == ["imported"]


def test_an_entry_that_differs_from_its_package_is_reported(tmp_path: Path) -> None:
    """Its records are imported as far as they are sound."""
    entries = {"archive/a.warc.gz": b"".join(site()), "archive/b.warc.gz": record(TWO, b"<title>Other</title>")}
    file = wacz(tmp_path / "x.wacz", entries, b="0" * 64)

    done = run(tmp_path / "collection", file, code=1)

    assert [bool(each["problems"]) for each in done["files"]] == [False, True]


@pytest.mark.parametrize("gz", [True, False])
def test_headers_with_bare_line_feeds_are_read(tmp_path: Path, gz: bool) -> None:
    """As some tools wrote them; the block stays as it is. So does an offset in a date, which is no damage."""
    data = b"<title>Bare</title>\r\n\r\n<p>block"
    head, _, block = record(ONE, data, gz=False, WARC_Date="2026-01-31T14:00:00+02:00").partition(b"\r\n\r\n")
    bare = head.replace(b"\r\n", b"\n") + b"\n\n" + block.removesuffix(b"\r\n\r\n") + b"\n\n"
    other = record(TWO, b"<title>Two</title>", gz=False)
    records = (gzip.compress(each) if gz else each for each in (bare, other))
    summary = run(tmp_path / "c", warc(tmp_path, *records, name="crawl.warc.gz" if gz else "crawl.warc"))

    assert summary["files"][0]["problems"] == []
    assert pages(tmp_path / "c") == [(ONE, "Bare", 200, "text/html"), (TWO, "Two", 200, "text/html")]
    query = f"SELECT timestamp FROM captures WHERE url = '{ONE}'"
    assert rows(tmp_path / "c", query) == [("20260131120000",)]
    assert verify_collection(Layout(tmp_path / "c")).is_sound


def test_a_file_without_a_readable_record_has_its_reason(tmp_path: Path) -> None:
    """Errors in its records are reported, too."""
    summary = run(tmp_path / "c", warc(tmp_path, record(ONE, b"x", WARC_Date="yesterday")), code=1)

    assert [each["state"] for each in summary["files"]] == ["failed"]
    assert "no valid WARC-Date" in summary["files"][0]["problems"][1]


@pytest.mark.parametrize(
    "data", [b"PK\x03\x04 no zip", b"<html>", b"WARC/1.1\r\nnothing", gzip.compress(b"text", mtime=0)]
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    """And leaves no file."""
    root = tmp_path / "collection"
    try:
        done = run(root, warc(tmp_path, data), code=1)
        assert [each["state"] for each in done["files"]] == ["failed"]
    except InputError as error:
        assert "crawl.warc.gz" in str(error)  # noqa: PT017 either says so
    assert not list(Layout(root).archive.glob("*import*"))


def test_pages_of_a_host_that_is_taken_down_stay_hidden(tmp_path: Path) -> None:
    """They are stored, counted, and not shown."""
    root = tmp_path / "collection"
    run(root, warc(tmp_path, record("https://b.example/", b"<p>")))
    words = ["takedown", "add", "--host", "a.example", "--collection", str(root)]
    assert CliRunner().invoke(weboid, words).exit_code == 0

    done = run(root, warc(tmp_path, *site(), name="other.warc.gz"))

    assert (done["pages"], done["withheld_pages"]) == (2, 2)


def test_an_interrupted_import_is_completed(tmp_path: Path) -> None:
    """A file that was stored and not indexed, and a part of another."""
    root, file = tmp_path / "collection", warc(tmp_path, *site())
    run(root, warc(tmp_path, record("https://b.example/", b"<p>"), name="b.warc.gz"))
    layout = Layout(root)
    (archive,) = open_archives(file, tmp_path, lambda _count: None)
    ImportStorage(layout, DiskReserve(tmp_path, 0), {}, link=False).add(archive.files[0], "", lambda _count: None)
    (layout.archive / ".importing-1.part").write_bytes(b"half")

    done = run(root, file)

    assert (done["files"][0]["state"], done["pages"]) == ("imported", 2)
    assert not list(layout.archive.glob(".importing-*"))
    assert verify_collection(layout).is_sound


@pytest.mark.slow
def test_a_killed_import_is_completed_by_the_same_command(tmp_path: Path) -> None:
    """While its file is indexed, after a batch of rows: the collection is that of an import without a kill."""
    member = b"".join(record(f"https://a.example/{n}", b"<title>T</title>" + bytes(800)) for n in range(500))
    file, root = warc(tmp_path, *[member] * 3), tmp_path / "collection"
    words = ["import", str(file), "--collection", str(root)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [*Layout(root).archive.glob("imported-*")]

    run(root, file)
    run(tmp_path / "other", file)

    queries = (
        "SELECT page_id, url, title FROM pages ORDER BY 1",
        "SELECT count(*) FROM captures WHERE url LIKE 'http%'",
    )
    assert [rows(root, query) for query in queries] == [rows(tmp_path / "other", query) for query in queries]
    assert not list(Layout(root).archive.glob(".importing-*"))
    assert verify_collection(Layout(root)).is_sound


@pytest.mark.slow
def test_memory_does_not_grow_with_a_record(tmp_path: Path) -> None:
    """Of 200 MB, most of them a hole on the disk: it is packed and read piece by piece."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n"
    size = len(http) + (200 << 20)
    fields = ["WARC/1.0", "WARC-Type: response", f"WARC-Record-ID: {new_record_id()}", f"WARC-Date: {DATE}"]
    fields += ["WARC-Target-URI: <https://a.example/v>", f"Content-Length: {size}", "Content-Type: application/http"]
    head = "\r\n".join([*fields, "", ""]).encode()
    file = tmp_path / "hole.warc"
    file.write_bytes(head + http)
    with file.open("r+b") as target:
        target.truncate(len(head) + size)
        target.seek(0, os.SEEK_END)
        target.write(b"\r\n\r\n")
    root = tmp_path / "collection"

    words = [str(WEBOID), "--quiet", "import", str(file), "--collection", str(root), "--json"]
    ran = subprocess.run([sys.executable, "-c", MEASURED, *words], check=True, capture_output=True, text=True)

    assert rows(root, "SELECT url, status, mime FROM captures") == [("https://a.example/v", 200, "video/mp4")]
    assert int(ran.stdout.splitlines()[-1]) < 150_000  # KiB


@pytest.mark.parametrize("form", ["wacz", "plain", "members", "damaged"])
def test_a_dry_run_reports_what_comes_and_writes_nothing(own: Path, tmp_path: Path, form: str) -> None:
    """Files, records, damage and pages are those of the import that follows; after that, all is known."""
    file = browsertrix(tmp_path)
    if form != "wacz":
        records = b"".join(site(gz=form != "plain"))
        file = warc(tmp_path, records[:-20] if form == "damaged" else records)
    code = 1 if form == "damaged" else 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    planned = run(own, file, "--dry-run", code=code)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    done = run(own, file, code=code)
    again = run(own, file, "--dry-run")

    assert [each["state"] for each in planned["files"]] == ["new"]
    for result in (planned, done):
        result["dry_run"] = None
        result["files"] = [{**each, "state": "", "stored": ""} for each in result["files"]]
    assert planned == done
    assert ([each["state"] for each in again["files"]], again["pages"]) == (["known"], 0)


def test_a_linked_file_is_the_same_file(tmp_path: Path) -> None:
    """No second copy on the disk."""
    root, file = tmp_path / "collection", warc(tmp_path, *site())

    run(root, file, "--link")

    (stored,) = Layout(root).archive.glob("imported-*")
    assert stored.samefile(file)


def test_a_rebuilt_index_has_the_same_pages(tmp_path: Path) -> None:
    """Ids are derived from the files alone."""
    root = tmp_path / "collection"
    run(root, browsertrix(tmp_path))
    queries = (
        "SELECT page_id, url, title FROM pages ORDER BY 1",
        "SELECT filename, offset, page_id, urlkey, digest FROM captures ORDER BY 1, 2",
        "SELECT digest, spelled, filename, offset FROM payloads ORDER BY 1",
    )
    before = [rows(root, query) for query in queries]

    CliRunner().invoke(weboid, ["collection", "rebuild", "--collection", str(root)], standalone_mode=False)

    assert [rows(root, query) for query in queries] == before
    assert timestamp14(NOW) == rows(root, "SELECT timestamp FROM pages LIMIT 1")[0][0]
