"""`weboid verify` finds every kind of damage, names its place, and changes nothing."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from core.layout import Layout
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, ok
from tests.support.warc_damage import SITE, captures, copied, flip, make_collection, resource, sql, tree
from tests.warc.test_file_check import fetch
from warc.checksums import read_sums
from warc.index.database import SCHEMA_VERSION
from warc.rebuild import rebuild_index
from warc.record_builder import warcinfo_member
from warc.verification import VerificationResult, verify_collection

pytestmark = pytest.mark.proxy


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Return a collection without a fault, at rest; tests must not change it."""
    return make_collection(tmp_path_factory.mktemp("sound") / "collection")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Return a collection whose proxy was killed; tests must not change it."""
    return make_collection(tmp_path_factory.mktemp("killed") / "collection", killed=True)


@pytest.fixture
def layout(sound: Layout, tmp_path: Path) -> Layout:
    """Return a copy that a test may damage."""
    return copied(sound, tmp_path / "copy")


def kinds(verdict: VerificationResult) -> set[str]:
    """Return the kinds of the faults."""
    return {str(fault.kind) for fault in verdict.faults}


def offset_of(layout: Layout, path: str) -> int:
    """Return the offset of the record of that path."""
    ((offset,),) = sql(layout, "SELECT offset FROM captures WHERE url = ?", f"{SITE}{path}")
    assert isinstance(offset, int)
    return offset


def test_a_sound_collection_has_no_fault_and_stays_as_it_is(sound: Layout) -> None:
    """Every record and row is read; no file is made, changed or touched."""
    before = tree(sound)
    verdict = verify_collection(sound)

    assert [*verdict.faults, *verdict.notes] == []
    assert verdict.files == 2
    assert verdict.rows == 7  # two manifests, three responses, two revisits; not the 304
    assert verdict.records == 2 + 2 + 6 + 6
    assert verify_collection(sound, quick=True).is_sound
    assert tree(sound) == before


def test_several_processes_find_the_same(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read side by side; what is found does not depend on it."""
    flip(captures(layout), offset_of(layout, "/picture") + 500)
    alone = verify_collection(layout).to_dict()
    monkeypatch.setattr("warc.verification.SINGLE_PROCESS_BYTES", 0)
    seen: list[tuple[int, int]] = []

    assert verify_collection(layout, jobs=2, progress=lambda *at: seen.append(at)).to_dict() == alone
    assert seen[-1][0] == seen[-1][1] == alone["bytes"]


def test_a_flipped_bit_is_found_where_it_is(layout: Layout) -> None:
    """The record is named, once, with what needs it; the records after it are read."""
    at = offset_of(layout, "/a")
    flip(captures(layout), at + 100)
    verdict = verify_collection(layout)

    assert kinds(verdict) == {"checksum", "gzip"}
    (fault,) = (each for each in verdict.faults if each.kind == "gzip")
    assert (fault.filename, fault.offset) == (captures(layout).name, at)
    assert f"{SITE}/a" in fault.text
    assert "1 revisits need it" in fault.text
    assert "copy" in fault.remedy
    assert verdict.records == 15


def test_a_flipped_bit_in_a_gzip_header_is_found_by_the_checksum(layout: Layout) -> None:
    """No CRC covers it (RFC 1952, 2.3.1); SHA256SUMS does."""
    flip(captures(layout), offset_of(layout, "/a") + 5)

    assert kinds(verify_collection(layout)) == {"checksum"}


def test_a_file_that_lost_its_end_is_found(layout: Layout) -> None:
    """Also without reading it."""
    path = captures(layout)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 40)
    verdict = verify_collection(layout)

    assert {"checksum", "size", "gzip"} <= kinds(verdict)
    assert kinds(verify_collection(layout, quick=True)) == {"size"}


def test_a_file_that_lost_whole_records_is_found(layout: Layout) -> None:
    """Cut at a member's boundary it reads well; its rows and references point to nothing."""
    path = captures(layout)
    with path.open("r+b") as file:
        file.truncate(offset_of(layout, "/picture"))

    assert kinds(verify_collection(layout)) == {"checksum", "size", "row", "payload", "original"}


def test_bytes_that_were_appended_are_found(layout: Layout) -> None:
    """Garbage after the last record."""
    path = captures(layout)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"garbage")
    verdict = verify_collection(layout)

    assert kinds(verdict) == {"checksum", "size", "gzip"}
    assert {each.offset for each in verdict.faults if each.kind == "gzip"} == {size}


def test_zeroes_in_the_midst_are_found(layout: Layout) -> None:
    """A block that never reached the disk."""
    at = offset_of(layout, "/picture") + 4096
    with captures(layout).open("r+b") as file:
        file.seek(at)
        file.write(bytes(4096))

    assert kinds(verify_collection(layout)) == {"checksum", "gzip"}


@pytest.mark.parametrize("quick", [False, True])
def test_a_missing_file_is_found(layout: Layout, quick: bool) -> None:
    """The index and SHA256SUMS know it; what needs it is named as well."""
    path = captures(layout)
    path.unlink()
    verdict = verify_collection(layout, quick=quick)

    assert kinds(verdict) == {"missing", "payload", "original"}
    assert {each.filename for each in verdict.faults} == {path.name}


def test_rows_of_a_file_that_nothing_else_knows_are_found(layout: Layout) -> None:
    """No row without its file, though SHA256SUMS and `files` have forgotten it, too."""
    path = captures(layout)
    path.unlink()
    layout.checksums.unlink()
    sql(layout, "DELETE FROM files WHERE filename = ?", path.name)

    assert "missing" in kinds(verify_collection(layout, quick=True))


@pytest.mark.parametrize("quick", [False, True])
def test_a_file_that_the_index_does_not_know_is_found(layout: Layout, quick: bool) -> None:
    """Somebody put a WARC there; after a rebuild all is well."""
    stranger = layout.archive / "stranger.warc.gz"
    stranger.write_bytes(resource("urn:text:http://x.example/", b"text"))
    verdict = verify_collection(layout, quick=quick)

    assert {"unknown", "no-checksum"} <= kinds(verdict)
    assert {each.filename for each in verdict.faults} == {"stranger.warc.gz"}
    rebuild_index(layout, bucket="default")
    assert verify_collection(layout).is_sound


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda text: text.split("\n", 1)[1], "no-checksum"),
        (lambda text: "", "no-checksum"),
        (lambda text: text + "nonsense\n", "bad-line"),
        (lambda text: text + "0" * 64 + text[64:], "bad-line"),
        (lambda text: "0" * 64 + text[64:], "checksum"),
        (lambda text: text + "0" * 64 + "  gone.warc.gz\n", "missing"),
    ],
)
def test_a_damaged_list_of_checksums_is_found(layout: Layout, change: Callable[[str], str], kind: str) -> None:
    """A line that is missing, says nothing, contradicts, is wrong, or names no file; the chain knows some of that."""
    layout.checksums.write_text(change(layout.checksums.read_text()))

    assert kinds(verify_collection(layout)) - {"chain"} == {kind}
    assert kinds(verify_collection(layout, quick=True)) - {"chain"} == {kind}


def test_a_known_link_must_be_in_the_chain(layout: Layout) -> None:
    """Whoever rewrites both files, and the index, cannot make an old link."""
    result = VerificationResult()
    result.check_link(layout, "")
    result.check_link(layout, result.chain_head)
    assert result.is_sound
    first, *_ = layout.checksum_chain.read_text().splitlines(keepends=True)
    layout.checksum_chain.write_text(first)
    result.check_link(layout, result.chain_head)

    assert kinds(result) == {"chain"}


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (resource("urn:x:1", b"text", WARC_Block_Digest="sha256:" + "0" * 64), "block-digest"),
        (resource("urn:x:1", b"text", WARC_Payload_Digest="sha1:" + "A" * 32), "payload-digest"),
        (resource("urn:x:1", b"text", Content_Length="3"), "length"),
        (resource("urn:x:1", b"text", Content_Length="5"), "length"),
        (resource("urn:x:1", b"text", Content_Length="many"), "warc"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00" + bytes(8), "warc"),
        (b"WARC/1.1\r\nWARC-Type: resource\r\nContent-Length: 0\r\n\r\n\r\n\r\n", "gzip"),
    ],
    ids=["block", "payload", "too-long", "too-short", "no-length", "empty-member", "not-gzip"],
)
def test_a_record_that_is_not_what_it_says_is_found(layout: Layout, record: bytes, kind: str) -> None:
    """Digests, lengths, headers and members, in a file that was closed like that."""
    first = warcinfo_member("odd.warc.gz", date="2026-01-31T12:00:00Z", software="test")
    (layout.archive / "odd.warc.gz").write_bytes(first + record)
    rebuild_index(layout, bucket="default")
    verdict = verify_collection(layout)
    places = {(each.filename, each.offset) for each in verdict.faults if each.kind == kind}

    assert places == {("odd.warc.gz", len(first))}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("url = 'http://other.example/'", "URL"),
        ("record_type = 'resource'", "type"),
        ("captured_ms = captured_ms + 1", "date"),
        ("length = length - 1", "length"),
        ("digest = 'sha256:0'", "digest"),
        ("status = 404", "status"),
        ("page_id = 'other'", "page"),
        ("offset = offset + 1", "no record begins here"),
    ],
)
def test_a_row_that_is_not_of_its_record_is_found(layout: Layout, change: str, says: str) -> None:
    """A row has its record's URL, type, date, length, digest, status and page."""
    at = offset_of(layout, "/chunked")
    sql(layout, f"UPDATE captures SET {change} WHERE offset = {at}")
    verdict = verify_collection(layout)

    assert any(each.kind == "row" and says in each.text for each in verdict.faults)
    rebuild_index(layout, bucket="default")
    assert verify_collection(layout).is_sound


def test_a_record_without_its_row_is_found(layout: Layout) -> None:
    """But for 304 and what an interrupted attempt left, every record has a row."""
    at = offset_of(layout, "/picture")
    sql(layout, f"DELETE FROM captures WHERE offset = {at}")

    assert [(each.kind, each.offset) for each in verify_collection(layout).faults] == [("no-row", at)]


@pytest.mark.parametrize(
    "change",
    [
        "SET (orig_filename, orig_offset, orig_length) = (NULL, NULL, NULL)",
        "SET orig_offset = 0",
        "SET orig_offset = orig_offset + 1",
        "SET orig_length = orig_length + 1",
        "SET orig_filename = 'gone.warc.gz'",
    ],
)
def test_a_revisit_without_its_original_is_found(layout: Layout, change: str) -> None:
    """Its row locates a whole `response` with that digest, or it cannot be played back."""
    sql(layout, f"UPDATE captures {change} WHERE record_type = 'revisit'")

    assert kinds(verify_collection(layout)) == {"original"}
    rebuild_index(layout, bucket="default")
    assert verify_collection(layout).is_sound


def test_a_payload_of_another_machine_is_a_note(layout: Layout) -> None:
    """With a shared dedup index a revisit may refer to a file that was never here."""
    sql(layout, "DELETE FROM payloads")
    sql(layout, "UPDATE captures SET orig_filename = 'theirs.warc.gz' WHERE record_type = 'revisit'")
    verdict = verify_collection(layout)

    assert verdict.is_sound
    assert [(str(each.kind), each.filename) for each in verdict.notes] == [
        ("elsewhere", "theirs.warc.gz"),
        ("elsewhere", "theirs.warc.gz"),
    ]


@pytest.mark.parametrize("change", ["offset = offset + 1", "offset = 0", "spelled = 'sha256:0'"])
def test_a_payload_that_refers_to_nothing_is_found(layout: Layout, change: str) -> None:
    """Dedup would write revisits of it."""
    digest = "SELECT max(digest) FROM payloads"
    sql(layout, f"UPDATE payloads SET {change} WHERE digest = ({digest})")

    assert "payload" in kinds(verify_collection(layout))


@pytest.mark.parametrize("coding", ["xchunked", "gzip, \x0bchunked", "chunked, gzip", "gzip, chunked"])
def test_all_agree_on_what_is_chunked(tmp_path: Path, coding: str) -> None:
    """Proxy, `verify` and `collection rebuild` find the same payload in a body that looks like chunks."""
    body = f"6\r\n{coding[:6].ljust(6)}\r\n0\r\n\r\n".encode()
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: {coding}\r\n\r\n"
    layout = make_collection(tmp_path / "c", more={"/odd": head.encode() + body})
    before = sql(layout, "SELECT digest, spelled FROM payloads ORDER BY digest")

    assert verify_collection(layout).is_sound
    rebuild_index(layout, bucket="default")
    assert verify_collection(layout).is_sound
    assert sql(layout, "SELECT digest, spelled FROM payloads ORDER BY digest") == before


def test_a_payload_by_its_chunked_spelling_is_held_to_its_content(layout: Layout) -> None:
    """`digest` is of the payload without chunks, and that is what is compared."""
    changed = sql(
        layout, "UPDATE payloads SET digest = 'sha256:' || hex(zeroblob(32)) WHERE digest != spelled RETURNING filename"
    )

    assert len(changed) == 1
    assert kinds(verify_collection(layout)) == {"payload"}


def test_a_page_without_its_manifest_is_found(layout: Layout) -> None:
    """Every listed page has a record that describes it."""
    sql(layout, "UPDATE pages SET page_id = 'nobody' WHERE page_id = 'one'")

    assert kinds(verify_collection(layout, quick=True)) == {"row"}


@pytest.mark.parametrize("harm", ["gone", "old", "garbage", "page"])
def test_an_index_of_no_use_is_found_and_the_files_are_checked(layout: Layout, harm: str) -> None:
    """The WARCs are the truth: they are held to their own digests."""
    at = offset_of(layout, "/picture")
    if harm == "gone":
        layout.captures_db.unlink()
    elif harm == "old":
        sql(layout, f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    elif harm == "garbage":
        layout.captures_db.write_bytes(b"no database" * 1000)
    else:
        with layout.captures_db.open("r+b") as file:
            file.seek(4096)
            file.write(bytes(4096))
    flip(captures(layout), at + 500)
    verdict = verify_collection(layout)

    assert kinds(verdict) == {"index", "checksum", "gzip"}
    assert "rebuild" in next(each.remedy for each in verdict.faults if each.kind == "index")


def test_interrupted_files_are_named_and_held_to_what_was_acknowledged(interrupted: Layout, tmp_path: Path) -> None:
    """A torn tail is no fault, the next start cuts it; damage before it is."""
    layout = copied(interrupted, tmp_path / "copy")
    with captures(layout).open("ab") as file:
        file.write(resource("urn:x:1", b"unfinished")[:-9])
    before = tree(layout)
    verdict = verify_collection(layout)

    assert verdict.is_sound
    assert sorted(str(each.kind) for each in verdict.notes) == ["interrupted", "interrupted"]
    assert {name: before[name] for name in before if "-shm" not in name} == {
        name: state for name, state in tree(layout).items() if "-shm" not in name
    }
    with captures(layout).open("r+b") as file:
        file.truncate(offset_of(layout, "/chunked"))
    assert {"size", "row"} <= kinds(verify_collection(layout))


def test_what_was_set_aside_is_named(layout: Layout) -> None:
    """Nobody forgets it; it is no fault."""
    layout.damaged.mkdir()
    (layout.damaged / "weboid-1.warc.gz").write_bytes(b"garbage")
    verdict = verify_collection(layout)

    assert verdict.is_sound
    assert [each.filename for each in verdict.notes] == ["damaged/weboid-1.warc.gz"]


async def test_a_collection_that_is_being_written_has_no_fault(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """Open files are checked as far as the index covers them, whatever comes meanwhile."""
    shutil.rmtree(layout.root)
    layout.root.mkdir()
    origin.answers = {f"/{number}": ok(bytes([number]) * 20_000) for number in range(6)}
    proxy = start(warc_limit_bytes=300)
    for number in range(5):
        await fetch(proxy, f"{SITE}/{number}", page_id=str(number))
        assert verify_collection(layout, live=True).faults == []
    proxy.stop()
    verdict = verify_collection(layout)

    assert [*verdict.faults, *verdict.notes] == []
    assert len(read_sums(layout).by_name) == verdict.files == 10


def test_a_list_of_checksums_that_cannot_be_read_is_a_fault(layout: Layout) -> None:
    """Everything else is checked all the same."""
    layout.checksums.unlink()
    layout.checksums.mkdir()

    assert kinds(verify_collection(layout)) == {"unreadable", "no-checksum"}


def test_an_index_that_breaks_while_it_is_read_is_a_fault(layout: Layout) -> None:
    """`--quick` does not look at its pages beforehand; the others are named all the same."""
    size = layout.captures_db.stat().st_size
    with layout.captures_db.open("r+b") as file:
        for page in range(2 * 4096, size, 4096):
            file.seek(page)
            file.write(b"\xff" * 512)
    verdict = verify_collection(layout, quick=True)

    assert "index" in kinds(verdict)
    assert verdict.files == 2


def test_faults_without_end_are_counted(layout: Layout) -> None:
    """A wholly wrong index does not fill the memory or the screen."""
    name = captures(layout).name
    with closing(sqlite3.connect(layout.captures_db)) as database, database:
        database.executemany(
            "INSERT INTO captures (urlkey, timestamp, captured_ms, url, record_type, mime, digest,"
            " filename, offset, length) VALUES ('', '', 0, 'u', 'resource', '', '', ?, ?, 1)",
            ((name, 10_000_000 + number) for number in range(500)),
        )
    verdict = verify_collection(layout)

    assert len(verdict.faults) + verdict.more >= 500
    assert len(verdict.faults) < 110
