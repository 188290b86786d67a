"""`weboid export`: WACZ files that hold what was chosen, and nothing that readers may not see."""

import base64
import gzip
import hashlib
import io
import json
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from warcio.archiveiterator import ArchiveIterator

from core.errors import DiskFullError, InputError, UnavailableError
from core.layout import COLLECTION_VERSION, Layout
from core.page_manifest import PageResource, VisitOutcome
from core.timestamps import warc_date
from tests.playback.replay.sanitizer.test_html_document import VECTORS
from tests.playback.replay.test_replay_in_browser import LEAKY
from tests.support.http_listener import HttpListener, ReceivedRequest, StubResponse
from tests.support.playback_fixtures import (  # noqa: F401 fixtures
    NOW,
    CollectionBuilder,
    HeadlessBrowser,
    LeakListener,
    browser,
    leak_listener,
    leaks,
    png,
)
from tests.support.signing_authorities import SigningAuthority
from warc.index.database import open_database
from warc.index.sqlite import SqliteCaptureIndex
from weboid.app.collection_export import CollectionExport, ExportForm, ExportRequest, ExportSelection
from weboid.cli.main import weboid

ONE, OTHER = "https://a.example/one", "https://b.example/other"
PICTURE, SHEET = "https://a.example/i.png", "https://a.example/s.css"
FORM = ("application/json", b'{"q": 1}')


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[CollectionBuilder]:
    """Yield a collection of two pages that share a picture; the second had its style sheet from the cache."""
    with closing(CollectionBuilder(tmp_path / "collection")) as builder:
        builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        one = builder.page(ONE, "<p>One", title="One", text="First words", shot=png())
        builder.response(ONE, b"<p>One", page_id=one, posted=FORM)
        picture = builder.response(PICTURE, png(), mime="image/png", page_id=one, posted=FORM)
        builder.response(SHEET, b"p{}", mime="text/css", page_id=one)
        cached = PageResource(SHEET, kept="cached", recorded_at=warc_date(NOW))
        other = builder.page(OTHER, "<p>Other", title="Other", text="More", resources=(cached,))
        builder.response(OTHER, b"<p>Other", page_id=other)
        builder.revisit("https://b.example/i.png", replace(picture, page_id=other))
        yield builder


@pytest.fixture
def layout(builder: CollectionBuilder) -> Layout:
    return builder.layout


def export(layout: Layout, *arguments: str, out: str = "out.wacz") -> Any:
    """Run `weboid export` of the collection and return its JSON."""
    words = ["export", str(layout.root.parent / out), *arguments, "--collection", str(layout.root), "--json", "--force"]
    result = CliRunner().invoke(weboid, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


def take_down(layout: Layout, *arguments: str) -> None:
    """Run `weboid takedown add`."""
    words = ["takedown", "add", *arguments, "--collection", str(layout.root)]
    assert CliRunner().invoke(weboid, words).exit_code == 0


def entries(layout: Layout) -> dict[str, bytes]:
    """Return the entries of the file, each stored uncompressed."""
    with zipfile.ZipFile(layout.root.parent / "out.wacz") as wacz:
        assert {each.compress_type for each in wacz.infolist()} == {zipfile.ZIP_STORED}
        return {name: wacz.read(name) for name in wacz.namelist()}


def index_lines(contents: dict[str, bytes]) -> list[tuple[str, dict[str, str]]]:
    """Return the lines of the index: key and timestamp, facts."""
    lines = gzip.decompress(contents["indexes/index.cdx.gz"]).decode().splitlines()
    parts = [line.partition(" {") for line in lines]
    return [(key, json.loads("{" + facts)) for key, _, facts in parts]


def records(contents: dict[str, bytes]) -> list[tuple[str, str]]:
    """Return (type, URL) of all records but `warcinfo`."""
    return [
        (record.rec_type, record.rec_headers.get_header("WARC-Target-URI"))
        for name, data in contents.items()
        if name.startswith("archive/")
        for record in ArchiveIterator(io.BytesIO(data))
        if record.rec_type != "warcinfo"
    ]


def pages(contents: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the lines of the list of pages, without the first."""
    head, *rows = map(json.loads, contents["pages/pages.jsonl"].splitlines())
    assert head["format"] == "json-pages-1.0"
    return rows


def test_a_whole_collection_has_its_warcs_byte_for_byte(layout: Layout) -> None:
    """And both pages with their text."""
    summary = export(layout, "--title", "All of it")
    contents = entries(layout)

    for path in layout.archive.glob("*.warc.gz"):
        assert contents[f"archive/{path.name}"] == path.read_bytes()
    assert summary["pages"] == 2
    assert [(each["url"], each["title"], each["text"]) for each in pages(contents)] == [
        (ONE, "One", "First words"),
        (OTHER, "Other", "More"),
    ]


@pytest.mark.parametrize("chosen", [(), (OTHER,)])
def test_each_line_of_the_index_names_its_record(layout: Layout, chosen: tuple[str, ...]) -> None:
    """The lines are sorted, and the offset is that of a record with the URL and digest."""
    summary = export(layout, *chosen)
    contents = entries(layout)
    lines = index_lines(contents)

    assert len(lines) == summary["records"]
    assert [key for key, _ in lines] == sorted(key for key, _ in lines)
    for _, facts in lines:
        start, length = int(facts["offset"]), int(facts["length"])
        member = contents[f"archive/{facts['filename']}"][start : start + length]
        (record,) = ArchiveIterator(io.BytesIO(member))
        assert record.rec_headers.get_header("WARC-Target-URI") == facts["url"]
        assert record.rec_headers.get_header("WARC-Payload-Digest") == facts["digest"]
        assert (facts["mime"] == "warc/revisit") == (record.rec_type == "revisit")


def test_the_package_has_the_digest_of_each_entry(layout: Layout) -> None:
    """And its own digest is beside it."""
    export(layout)
    contents = entries(layout)
    package = json.loads(contents["datapackage.json"])

    own = {"datapackage.json", "datapackage-digest.json"}
    assert {each["path"] for each in package["resources"]} == set(contents) - own
    for each in package["resources"]:
        data = contents[each["path"]]
        assert each["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert each["bytes"] == len(data)
    digest = hashlib.sha256(contents["datapackage.json"]).hexdigest()
    assert json.loads(contents["datapackage-digest.json"])["hash"] == f"sha256:{digest}"


def test_a_page_comes_with_what_it_shares(layout: Layout) -> None:
    """The payload of its revisit with its request, the style sheet it had from the cache; no other page's records."""
    export(layout, OTHER)
    contents = entries(layout)
    web = {each for each in records(contents) if not each[1].startswith("urn:")}

    assert [each["url"] for each in pages(contents)] == [OTHER]
    assert web == {
        ("response", OTHER),
        ("revisit", "https://b.example/i.png"),
        ("response", PICTURE),
        ("request", PICTURE),
        ("response", SHEET),
    }
    assert not [url for _, url in records(contents) if url.endswith(ONE)]


@pytest.mark.parametrize("chosen", [("--host", "example"), ("https://a.example/*",), (ONE,)])
def test_pages_are_chosen_by_host_and_url(layout: Layout, chosen: tuple[str, ...]) -> None:
    """A host means its subdomains, too."""
    export(layout, *chosen)

    urls = [each["url"] for each in pages(entries(layout))]
    assert urls == ([ONE, OTHER] if chosen[0] == "--host" else [ONE])


def test_pages_are_chosen_by_time(builder: CollectionBuilder) -> None:
    """From a moment on, and before one."""
    later = NOW + timedelta(days=2)
    builder.page(ONE, "<p>Later", at=later, title="Later")

    export(builder.layout, "--since", warc_date(NOW + timedelta(days=1))[:10])
    assert [each["title"] for each in pages(entries(builder.layout))] == ["Later"]
    export(builder.layout, "--until", warc_date(NOW + timedelta(days=1))[:10])
    assert [each["title"] for each in pages(entries(builder.layout))] == ["One", "Other"]


def test_pages_are_chosen_by_a_list(layout: Layout) -> None:
    """Its comments and empty lines are not URLs."""
    listing = layout.root.parent / "urls.txt"
    listing.write_text(f"# pages\n\n{OTHER}\n")

    export(layout, "--list", str(listing))

    assert [each["url"] for each in pages(entries(layout))] == [OTHER]


@pytest.mark.parametrize("chosen", [(), ("--host", "example")])
def test_nothing_of_a_page_that_was_taken_down(layout: Layout, chosen: tuple[str, ...]) -> None:
    """Neither records, nor requests, nor its text; with --withheld all of it."""
    take_down(layout, ONE)

    summary = export(layout, *chosen)
    contents = entries(layout)

    assert summary["withheld_pages"] == 1
    assert not [url for _, url in records(contents) if url.endswith(ONE)]
    assert b"First words" not in b"".join(contents.values())
    export(layout, *chosen, "--withheld")
    assert ("response", ONE) in records(entries(layout))


def test_nothing_that_was_captured_with_a_login(builder: CollectionBuilder) -> None:
    """Personal pages stay in the collection."""
    private = "https://c.example/mail"
    page = builder.page(private, "<p>Mail", login="me")
    builder.response(private, b"<p>Mail", page_id=page, login="me")

    summary = export(builder.layout)

    assert summary["withheld_pages"] == 1
    assert not [url for _, url in records(entries(builder.layout)) if private in url]


def test_nothing_to_export_leaves_no_file(layout: Layout) -> None:
    """The error says so."""
    with pytest.raises(InputError, match="Nothing to export"):
        export(layout, "https://unknown.example/")

    assert {each.name for each in layout.root.parent.iterdir()} == {"collection"}


def test_an_existing_file_is_kept(layout: Layout) -> None:
    """Unless --force is given."""
    out = layout.root.parent / "out.wacz"
    out.write_text("mine")
    words = ["export", str(out), "--collection", str(layout.root)]

    result = CliRunner().invoke(weboid, words, standalone_mode=False)

    assert isinstance(result.exception, InputError)
    assert "--force" in str(result.exception)
    assert out.read_text() == "mine"


def test_nothing_of_a_visit_that_was_skipped(builder: CollectionBuilder) -> None:
    """Its records are in a WARC of which the rest is exported."""
    forbidden = "https://c.example/excluded"
    page = builder.page(forbidden, outcome=VisitOutcome.SKIPPED)
    record = builder.response(forbidden, b"<p>Excluded", page_id=page)
    with closing(SqliteCaptureIndex(builder.layout.captures_db)) as index:
        index.forget(record.location.filename, record.location.offset, record.location.offset + 1)

    export(builder.layout)

    assert ("response", forbidden) not in records(entries(builder.layout))


def test_local_headers_are_those_of_the_central_directory(layout: Layout) -> None:
    """ReplayWeb.page takes an entry's beginning from there: the fields for ZIP64 are in both, or in none."""
    export(layout)
    file = layout.root.parent / "out.wacz"

    with zipfile.ZipFile(file) as package:
        for entry in package.infolist():
            lengths = file.read_bytes()[entry.header_offset + 26 : entry.header_offset + 30]
            assert struct.unpack("<HH", lengths) == (len(entry.filename), len(entry.extra))


def test_a_missing_warc_is_named(layout: Layout) -> None:
    """The rest is exported."""
    (layout.archive / "captures-00001.warc.gz").unlink()

    summary = export(layout)

    assert summary["missing_warcs"] == ["captures-00001.warc.gz"]
    assert ("response", OTHER) in records(entries(layout))


def test_a_prefix_ends_at_its_slash(builder: CollectionBuilder) -> None:
    """Pages of a folder, and not those of another whose name begins alike."""
    for path in ("docs/one", "docs2/two"):
        builder.page(f"https://c.example/{path}", "<p>Text", title=path)

    export(builder.layout, "https://c.example/docs/*")

    assert [each["title"] for each in pages(entries(builder.layout))] == ["docs/one"]


def test_a_line_that_is_no_url_is_named(layout: Layout) -> None:
    """With file and line; nothing is written."""
    listing = layout.root.parent / "urls.txt"
    listing.write_text(f"{OTHER}\nnothing at all\n")

    with pytest.raises(InputError, match="line 2"):
        export(layout, "--list", str(listing))

    assert not (layout.root.parent / "out.wacz").exists()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> SigningAuthority:
    """Create an authority for certificates and time stamps, valid at present."""
    return SigningAuthority(tmp_path_factory.mktemp("pki") / "ca", datetime.now(UTC))


def verify(*words: str) -> tuple[int, dict[str, str]]:
    """Run `weboid verify`; return the exit code, and the verdict of each check."""
    result = CliRunner().invoke(weboid, ["verify", *words, "--json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    checks = json.loads(result.stdout)["checks"]
    return result.return_value, {each["check"]: each["verdict"] for each in checks}


def test_a_signed_export_verifies(layout: Layout, authority: SigningAuthority) -> None:
    """As weboid.toml says, whose paths are relative to the collection; only WACZ files are signed."""
    for name, path in zip(("key.pem", "chain.pem"), authority.issue("archive.example"), strict=True):
        (layout.root / name).write_bytes(path.read_bytes())
    out = str(layout.root.parent / "out.wacz")
    with authority.serving() as url:
        (layout.root / "weboid.toml").write_text(
            f'[export]\nsign = true\nsign_key = "key.pem"\nsign_cert = "chain.pem"\ntimestamp_url = "{url}"\n'
        )
        export(layout)
        export(layout, ONE, out="one.txt")
        check = CliRunner().invoke(weboid, ["config", "check", "--collection", str(layout.root)])
    assert check.exit_code == 0, check.output

    code, verdicts = verify(out, "--trust", str(authority.root))
    assert (code, set(verdicts.values())) == (0, {"ok"})
    assert "domain" in verdicts
    assert verify(out)[0] == 1  # a browser does not trust that authority


def test_an_export_is_not_signed_by_chance(layout: Layout, authority: SigningAuthority) -> None:
    """Without a key, without a time stamp for a domain, or without an answer of the authority, before anything is written.

    Nor is it left unsigned when a key is given.
    """
    key, chain = map(str, authority.issue("archive.example"))
    with pytest.raises(InputError, match="need --sign"):
        export(layout, "--sign-key", key)
    for words, text in (
        ((), "no key"),
        (("--sign-key", key, "--sign-cert", chain), "time stamp"),
        (("--sign-key", key, "--timestamp-url", "http://127.0.0.1:9/"), "authority"),
    ):
        with pytest.raises((InputError, UnavailableError), match=text):
            export(layout, "--sign", *words)
    assert {each.name for each in layout.root.parent.iterdir()} == {"collection"}


def test_verify_compares_the_expected_key(layout: Layout, authority: SigningAuthority) -> None:
    """Of a file that is signed with a key alone."""
    key, chain = map(str, authority.issue("one.example"))
    export(layout, "--sign", "--sign-key", key)
    out = str(layout.root.parent / "out.wacz")

    assert verify(out)[1]["key"] == "note"
    assert verify(out, "--key", chain)[0] == 0
    assert verify(out, "--key", str(authority.issue("two.example")[1])) == (
        1,
        {"entries": "ok", "package": "ok", "signature": "ok", "key": "failed"},
    )


def several_warcs(builder: CollectionBuilder) -> list[str]:
    """Add pages whose records are in WARCs of their own; return the names of all WARCs."""
    for number in range(2, 5):
        url = f"https://c.example/{number}"
        page = builder.page(url, f"<p>{number}", title=f"Page {number}", at=NOW + timedelta(hours=number))
        builder.response(
            url, b"<p>" * 5000, page_id=page, at=NOW + timedelta(hours=number), warc=f"captures-0000{number}.warc.gz"
        )
    return sorted(path.name for path in builder.layout.archive.glob("*.warc.gz"))


def test_a_combined_warc_has_the_records_of_all(builder: CollectionBuilder) -> None:
    """In one file that other programs read, behind a `warcinfo` of its own."""
    several_warcs(builder)
    out = builder.layout.root.parent / "all.warc.gz"

    export(builder.layout, out=out.name)

    with out.open("rb") as file:
        pairs = [(each.rec_type, each.rec_headers.get_header("WARC-Target-URI")) for each in ArchiveIterator(file)]
    export(builder.layout)
    assert pairs[0][0] == "warcinfo"
    assert sorted(each for each in pairs if each[0] != "warcinfo") == sorted(records(entries(builder.layout)))


def test_an_index_names_the_records_of_the_collection(layout: Layout) -> None:
    """CDXJ, sorted, with the places of the collection's own WARCs."""
    export(layout, out="all.cdxj")

    lines = (layout.root.parent / "all.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    for line in lines:
        facts = json.loads(line.split(" ", 2)[2])
        with (layout.archive / facts["filename"]).open("rb") as file:
            file.seek(int(facts["offset"]))
            (record,) = ArchiveIterator(io.BytesIO(file.read(int(facts["length"]))))
        assert record.rec_headers.get_header("WARC-Target-URI") == facts["url"]


def test_a_large_export_is_split(builder: CollectionBuilder) -> None:
    """Each part is a WACZ file; together they have every WARC and page once, and a list names them."""
    names = several_warcs(builder)
    summary = export(builder.layout, "--size-limit", "1KB")

    *parts, listing = map(Path, summary["files"])
    archived: list[str] = []
    listed: list[str] = []
    for part in parts:
        with zipfile.ZipFile(part) as wacz:
            archived += [name.removeprefix("archive/") for name in wacz.namelist() if name.startswith("archive/")]
            listed += [each["url"] for each in pages({"pages/pages.jsonl": wacz.read("pages/pages.jsonl")})]
            assert verify(str(part))[0] == 0
    assert len(parts) > 1
    assert sorted(archived) == names
    assert len(listed) == len(set(listed)) == summary["pages"]
    resources = json.loads(listing.read_text())["resources"]
    assert [(each["path"], each["bytes"]) for each in resources] == [(each.name, each.stat().st_size) for each in parts]


@pytest.mark.parametrize("name", ["out.wacz", "out.warc.gz"])
@pytest.mark.parametrize("limit", [0, 1000])
def test_an_interrupted_export_continues(builder: CollectionBuilder, name: str, limit: int) -> None:
    """Behind the last whole WARC, with the same result; nothing else stays."""
    several_warcs(builder)
    folder = builder.layout.root.parent
    left = 3

    def interrupt(_count: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    form = ExportForm.WACZ if name == "out.wacz" else ExportForm.WARC
    request = ExportRequest(folder / name, ExportSelection(), {"title": "T"}, NOW, form=form, size_limit=limit)
    whole = replace(request, path=folder / f"all{name[3:]}")
    copied: list[int] = []
    with closing(open_database(builder.layout, "")) as database:
        with pytest.raises(KeyboardInterrupt):
            CollectionExport(builder.layout, database, None, interrupt).write(request)
        later = replace(request, moment=NOW + timedelta(days=1))
        count = CollectionExport(builder.layout, database, None, copied.append).write(later)
        other = CollectionExport(builder.layout, database, None).write(whole)
    assert count.is_resumed
    assert 0 < sum(copied) < other.stored_bytes
    assert len(count.files) == len(other.files) > (1 if limit else 0)
    for mine, its in zip(count.files, other.files, strict=True):
        if mine.suffix == ".wacz":
            assert mine.read_bytes() == its.read_bytes()
        elif mine.suffix == ".gz":  # but for the `warcinfo`
            assert mine.read_bytes()[-200:] == its.read_bytes()[-200:]
    assert not [each.name for each in folder.iterdir() if each.name.startswith(".")]


def test_a_take_down_begins_an_interrupted_export_again(layout: Layout, authority: SigningAuthority) -> None:
    """Pages that were chosen before the take-down are not exported after it."""
    key = str(authority.issue("archive.example")[0])
    requests = []

    def stamp_once(request: ReceivedRequest) -> StubResponse:
        requests.append(request)
        return StubResponse(200, authority.stamp(request.body)) if len(requests) in (1, 3, 4) else StubResponse(500)

    with HttpListener.running(stamp_once) as listener:
        words = ("--sign", "--sign-key", key, "--timestamp-url", listener.address)
        with pytest.raises(UnavailableError, match="authority"):
            export(layout, *words)
        take_down(layout, ONE)
        summary = export(layout, *words)

    assert (summary["resumed"], summary["withheld_pages"]) == (False, 1)
    assert ("response", ONE) not in records(entries(layout))


def test_nothing_of_a_record_that_is_being_written(builder: CollectionBuilder) -> None:
    """A crawl that runs has written half of it behind what the index covers."""
    page = builder.page("https://c.example/", "<p>New", title="New")
    name = "captures-00002.warc.gz"
    builder.response("https://c.example/", b"<p>New", page_id=page, warc=name, is_open=True)
    _, file = builder.layout.warc(name)
    whole = file.read_bytes()
    with closing(SqliteCaptureIndex(builder.layout.captures_db)) as index, index.transaction():
        index.cover(name, len(whole))
    file.write_bytes(whole + whole[: len(whole) // 2])

    export(builder.layout)

    assert entries(builder.layout)[f"archive/{name}"] == whole


# `weboid`, ended by SIGKILL when the parts are written, before their list.
KILLED = """
import os, signal, sys
from weboid.app import collection_export
from weboid.cli.main import main
collection_export._write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def test_nothing_stays_of_a_killed_export(builder: CollectionBuilder) -> None:
    """But the files that the same command completes; nor of the database in which it had its plan."""
    several_warcs(builder)
    folder = builder.layout.root.parent
    words = ["export", str(folder / "out.wacz"), "--size-limit", "1KB", "--collection", str(builder.layout.root)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    summary = export(builder.layout, "--size-limit", "1KB")

    assert summary["resumed"]
    assert {each.name for each in folder.iterdir()} == {"collection", *(Path(each).name for each in summary["files"])}


def test_one_export_writes_a_file(layout: Layout) -> None:
    """Another process that writes the same file is named."""
    plan = layout.root.parent / ".out.wacz.plan"
    with closing(sqlite3.connect(plan, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another export"):
            export(layout)


def test_a_folder_that_does_not_exist_is_named(layout: Layout) -> None:
    """And a file that `weboid verify` does not find."""
    with pytest.raises(InputError, match="nowhere"):
        export(layout, out="nowhere/out.wacz")
    with pytest.raises(InputError, match="nowhere"):
        export(layout, ONE, out="nowhere/one.txt")
    with pytest.raises(InputError, match="nowhere"):
        verify(str(layout.root.parent / "nowhere.wacz"))


@pytest.mark.parametrize(("out", "free_kb"), [("out.wacz", 8), ("out.wacz", 64), ("one.txt", 0)])
def test_a_full_disk_is_named(builder: CollectionBuilder, out: str, free_kb: int) -> None:
    """A full disk is reported for the plan and for the records; with more room the same command completes the file."""
    builder.response(ONE, random.Random(1).randbytes(100_000), warc="captures-00002.warc.gz")
    chosen = (ONE,) if out == "one.txt" else ()
    folder = builder.layout.root.parent / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        (folder / "filler").write_bytes(bytes((1024 - free_kb) << 10))
        with pytest.raises(DiskFullError, match="disk is full"):
            export(builder.layout, *chosen, out=f"small/{out}")
        assert {each.name for each in folder.iterdir()} <= {"filler", ".out.wacz.plan", ".out.wacz.part"}
        (folder / "filler").unlink()
        export(builder.layout, *chosen, out=f"small/{out}")
        assert [each.name for each in folder.iterdir()] == [out]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_an_unknown_form_is_refused(layout: Layout) -> None:
    """The error names the forms."""
    with pytest.raises(InputError, match=r"\.warc\.gz"):
        export(layout, out="out.zip")


@pytest.fixture
def page_builder(tmp_path: Path) -> Iterator[CollectionBuilder]:
    """Yield a collection of a page with an image, a style sheet that imports another, and a link."""
    with closing(CollectionBuilder(tmp_path / "collection")) as builder:
        builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        dom = (
            '<html><head><title>One</title><link rel="stylesheet" href="/s.css"></head><body><script>alert(1)</script>'
            '<p>First words <img src="/i.png"><img src="/missing.png"><a href="/other?a=1&amp;b=2">x</a>'
        )
        page = builder.page(ONE, dom, title="One", text="First words", shot=png())
        builder.response(ONE, b"<p>One", page_id=page)
        builder.response(PICTURE, png(), mime="image/png", page_id=page)
        builder.response(SHEET, b"@import 'd/t.css'; p{background:url(i.png)}", mime="text/css", page_id=page)
        builder.response("https://a.example/d/t.css", b"p{color:red}", mime="text/css", page_id=page)
        yield builder


def test_a_page_is_one_html_file(page_builder: CollectionBuilder) -> None:
    """Sanitised, with its image and style sheets in it; nothing is loaded, and links lead to the web."""
    summary = export(page_builder.layout, ONE, out="one.html")
    text = (page_builder.layout.root.parent / "one.html").read_text()
    sheet = base64.b64decode(re.findall(r'href="data:text/css;base64,([^"]*)"', text)[0]).decode()

    assert summary["url"] == ONE
    assert f"data:image/png;base64,{base64.b64encode(png()).decode()[:40]}" in text
    assert 'src="data:,"' in text
    assert "data:text/css" in sheet
    assert "data:image/png" in sheet
    assert 'href="https://a.example/other?a=1&amp;b=2"' in text
    for word in ("/c/2", "127.0.0.1", "alert"):
        assert word not in text
    assert "default-src 'none'" in text


def test_a_framed_document_is_in_the_file(page_builder: CollectionBuilder) -> None:
    """With its image, that of its styles, and links to the web."""
    inner = (
        '<html data-weboid-url="https://a.example/in"><p style="background:url(/i.png)">x<img src="/i.png?a=1&amp;b=2">'
        '<a href="/other?a=1&amp;b=2">y</a></p>'
    )
    dom = f'<p>Outer</p><iframe src="/in" data-weboid-document="{escape(inner)}"></iframe>'
    page = page_builder.page("https://a.example/outer", dom)
    page_builder.response(f"{PICTURE}?a=1&b=2", png("blue"), mime="image/png", page_id=page)

    export(page_builder.layout, "https://a.example/outer", out="outer.html")
    text = (page_builder.layout.root.parent / "outer.html").read_text()
    framed = unescape(re.findall(r'srcdoc="([^"]*)"', text)[0])

    red, blue = (f"data:image/png;base64,{base64.b64encode(png(colour)).decode()[:90]}" for colour in ("red", "blue"))
    assert f"background:url(&quot;{red}" in framed
    assert f'<img src="{blue}' in framed
    assert 'href="https://a.example/other?a=1&amp;b=2"' in framed
    assert "127.0.0.1" not in text


@pytest.mark.browser
@pytest.mark.parametrize("form", ["dom", "source"])
def test_a_file_of_a_hostile_page_runs_nothing_and_asks_nobody(
    page_builder: CollectionBuilder,
    browser: HeadlessBrowser,  # noqa: F811
    leaks: LeakListener,  # noqa: F811
    form: str,
) -> None:
    """Opened from a disk, where no server's policy protects its reader; words and pictures are shown."""
    hostile = "".join(VECTORS).replace("alert(1)", "document.title='ran'")
    framed = f'<iframe src="/in" data-weboid-document="{escape(LEAKY + hostile)}"></iframe>'
    dom = LEAKY.replace("<body", f'<body data-x="1"><p>Calm words<img src="{PICTURE}">{framed}<div', 1) + hostile
    url = f"https://a.example/{form}"
    page = page_builder.page(url, dom if form == "dom" else None)
    page_builder.response(url, dom.encode(), page_id=page)
    export(page_builder.layout, url, out="hostile.html")
    sent = browser.home / "sent.html"
    shutil.copy(page_builder.layout.root.parent / "hostile.html", sent)
    sent.chmod(0o644)

    text = browser.dump_dom(sent.as_uri(), leaks=leaks)

    assert "<title>calm</title>" in text
    assert "Calm words" in text
    assert f"data:image/png;base64,{base64.b64encode(png()).decode()[:40]}" in text
    assert ("srcdoc" in text) == (form == "dom")
    assert leaks.requests == []


def test_stored_text_and_picture_are_those_of_the_capture(page_builder: CollectionBuilder) -> None:
    """Nothing is rendered for them."""
    folder = page_builder.layout.root.parent
    for name in ("one.txt", "one.png"):
        export(page_builder.layout, ONE, out=name)

    assert (folder / "one.txt").read_text() == "First words"
    assert (folder / "one.png").read_bytes() == png()


@pytest.mark.browser
def test_what_is_not_stored_is_made_of_the_copy(page_builder: CollectionBuilder) -> None:
    """The PDF; and the text, once anything is taken down, as the stored one may have words of that."""
    export(page_builder.layout, ONE, out="one.pdf")
    take_down(page_builder.layout, PICTURE)
    export(page_builder.layout, ONE, out="one.txt")

    folder = page_builder.layout.root.parent
    assert (folder / "one.pdf").read_bytes().startswith(b"%PDF-")
    assert "First words" in (folder / "one.txt").read_text()


@pytest.mark.parametrize("name", ["one.html", "one.png", "one.txt"])
def test_a_page_that_was_taken_down_is_in_no_file(page_builder: CollectionBuilder, name: str) -> None:
    """As if it had not been archived; the stored ones with --withheld."""
    take_down(page_builder.layout, ONE)
    with pytest.raises(InputError, match="Nothing to export"):
        export(page_builder.layout, ONE, out=name)
    out = page_builder.layout.root.parent / name
    assert not out.exists()
    if name != "one.html":  # which playback makes
        export(page_builder.layout, ONE, "--withheld", out=name)
        assert out.exists()


def test_a_page_is_exported_at_its_level(page_builder: CollectionBuilder) -> None:
    """As readers see it: no images at the level html; with --withheld the stored picture is given out."""
    words = ["level", "set", "html", "--link", ONE, "--reason", "test", "--collection", str(page_builder.layout.root)]
    assert CliRunner().invoke(weboid, words).exit_code == 0

    export(page_builder.layout, ONE, out="one.html")
    assert "data:image" not in (page_builder.layout.root.parent / "one.html").read_text()
    export(page_builder.layout, ONE, "--withheld", out="one.png")
    assert (page_builder.layout.root.parent / "one.png").read_bytes() == png()


def test_a_file_of_one_page_needs_its_url(layout: Layout) -> None:
    """The error says so."""
    with pytest.raises(InputError, match="one page"):
        export(layout, out="one.html")
