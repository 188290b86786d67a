"""Recovery after a crash: nothing acknowledged is lost silently."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.config.settings import ProxySettings
from core.layout import Layout
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, check, records
from tests.support.warc_damage import SITE, captures, copied, flip, make_collection, resource, sql
from tests.warc.test_file_check import fetch
from warc.record_builder import record_member
from warc.recovery import RecoveryOutcome, WarcRecovery, recover_collection
from warc.verification import verify_collection

pytestmark = pytest.mark.proxy

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GARBAGE = bytes(range(256)) * 8


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Return the collection of a killed proxy, all of it acknowledged; tests must not change it."""
    return make_collection(tmp_path_factory.mktemp("killed") / "collection", killed=True)


@pytest.fixture
def layout(killed: Layout, tmp_path: Path) -> Layout:
    """Return a copy that a test may damage."""
    return copied(killed, tmp_path / "copy")


def recovered(layout: Layout) -> dict[str, WarcRecovery]:
    """Put it in order as a proxy does at its start; what it says of each file."""
    done = recover_collection(layout, ProxySettings(), now=NOW)
    assert list(layout.archive.glob("*.open")) == []
    return {each.filename: each for each in done}


def of_captures(layout: Layout) -> WarcRecovery:
    """Recover the collection; return the result for the file with the captures."""
    name = captures(layout).name.removesuffix(".open")
    return recovered(layout)[name]


def append(layout: Layout, data: bytes) -> None:
    """Add what was never acknowledged."""
    with captures(layout).open("ab") as file:
        file.write(data)


def offset_of(layout: Layout, path: str) -> int:
    """Return the offset of the record of that path."""
    ((offset,),) = sql(layout, "SELECT offset FROM captures WHERE url = ?", f"{SITE}{path}")
    assert isinstance(offset, int)
    return offset


def urls(layout: Layout) -> set[object]:
    """Return the URLs of the captures in the index."""
    return {row[0] for row in sql(layout, "SELECT url FROM captures WHERE url LIKE 'http%'")}


def exchange(number: int) -> tuple[bytes, bytes]:
    """Return a `response` and its `request` as members."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    kinds = (
        ("response", "application/http; msgtype=response", head + b"late"),
        ("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n"),
    )
    pair = [
        record_member(
            [
                ("WARC-Type", kind),
                ("WARC-Record-ID", f"<urn:uuid:00000000-0000-4000-8000-00000000000{number}>"),
                ("WARC-Date", "2026-01-31T12:00:00.000Z"),
                ("WARC-Target-URI", f"{SITE}/late{number}"),
                ("Content-Type", mime),
                ("Content-Length", str(len(block))),
            ],
            block,
        )
        for kind, mime, block in kinds
    ]
    return pair[0], pair[1]


def test_files_that_were_merely_interrupted_lose_nothing(layout: Layout) -> None:
    """They get their names, and their checksums from the next proxy."""
    before = urls(layout)
    done = recovered(layout)

    assert {(each.outcome, each.cut, each.lost_records) for each in done.values()} == {(RecoveryOutcome.CLOSED, 0, 0)}
    assert urls(layout) == before
    check(layout)


def test_a_record_that_was_not_finished_is_cut(layout: Layout) -> None:
    """A tail that ends in the midst of a member; what is whole before it is indexed."""
    late, request = exchange(1)
    append(layout, late + request[:-5])
    done = of_captures(layout)

    assert (done.outcome, done.cut, done.indexed, done.lost_bytes) == (RecoveryOutcome.CLOSED, len(request) - 5, 1, 0)
    assert f"{SITE}/late1" in urls(layout)
    assert not layout.damaged.exists()
    check(layout)


def test_a_response_without_its_request_is_kept(layout: Layout) -> None:
    """A tail that ends at the member's boundary between the two is a whole file."""
    append(layout, exchange(1)[0])
    done = of_captures(layout)

    assert (done.cut, done.indexed) == (0, 1)
    assert f"{SITE}/late1" in urls(layout)
    check(layout)


def test_zeroes_at_the_end_are_cut(layout: Layout) -> None:
    """As a file system leaves them after a power cut: there is nothing in them to keep."""
    append(layout, bytes(70_000))
    done = of_captures(layout)

    assert (done.cut, done.lost_bytes, done.kept_in) == (70_000, 0, "")
    check(layout)


def test_garbage_at_the_end_is_cut_and_kept(layout: Layout) -> None:
    """Nobody knows what it is, so it is not thrown away."""
    append(layout, exchange(1)[0] + GARBAGE)
    done = of_captures(layout)

    assert (done.cut, done.indexed, done.lost_bytes) == (len(GARBAGE), 1, 0)
    assert (layout.root / done.kept_in).read_bytes() == GARBAGE
    assert done.kept_in.startswith("archive/damaged/")
    check(layout)


def test_whole_records_behind_unacknowledged_damage_are_kept_aside(layout: Layout) -> None:
    """The file ends before the flipped bit; what lay behind it can be looked at."""
    first, second = b"".join(exchange(1)), b"".join(exchange(2))
    size = captures(layout).stat().st_size
    append(layout, first + second)
    flip(captures(layout), size + 40)
    done = of_captures(layout)

    assert (done.cut, done.indexed, done.lost_bytes) == (len(first + second), 0, 0)
    assert (layout.root / done.kept_in).read_bytes().endswith(second)
    check(layout)


def test_an_empty_file_is_removed(layout: Layout) -> None:
    """A proxy that died before its first byte; it is told all the same."""
    (layout.archive / "weboid-1.warc.gz.open").write_bytes(b"")
    done = recovered(layout)["weboid-1.warc.gz"]

    assert done.outcome is RecoveryOutcome.REMOVED
    assert "empty" in done.text
    assert list(layout.archive.glob("weboid-1*")) == []


@pytest.mark.parametrize(
    "content",
    [bytes(50_000), GARBAGE, b"WARC/1.1\r\nWARC-Type: warcinfo\r\n\r\n", GARBAGE + exchange(1)[0]],
    ids=["zeroes", "garbage", "not-gzip", "garbage-first"],
)
def test_a_file_in_which_nothing_can_be_saved_is_set_aside(layout: Layout, content: bytes) -> None:
    """It is moved, never deleted, and the others are put in order."""
    (layout.archive / "weboid-1.warc.gz.open").write_bytes(content)
    done = recovered(layout)
    recovery = done["weboid-1.warc.gz"]

    assert len(done) == 3
    assert (recovery.outcome, recovery.lost_bytes) == (RecoveryOutcome.SET_ASIDE, 0)
    assert (layout.root / recovery.kept_in).read_bytes() == content
    assert recovery.kept_in in recovery.text
    check(layout)


def test_a_file_of_gzip_that_is_no_warc_is_set_aside(layout: Layout) -> None:
    """Not ours."""
    (layout.archive / "notes.warc.gz.open").write_bytes(record_member([], b"")[:10] + b"\x03\0" + bytes(8))

    assert recovered(layout)["notes.warc.gz"].outcome is RecoveryOutcome.SET_ASIDE


@pytest.mark.parametrize("what", ["folder", "dangling", "pipe"])
def test_what_is_no_file_is_set_aside(layout: Layout, what: str) -> None:
    """Whatever has such a name does not keep the proxy from starting."""
    path = layout.archive / "weboid-1.warc.gz.open"
    if what == "folder":
        path.mkdir()
    elif what == "dangling":
        path.symlink_to("nowhere")
    else:
        os.mkfifo(path)
    done = recovered(layout)["weboid-1.warc.gz"]

    assert done.outcome is RecoveryOutcome.SET_ASIDE
    assert os.path.lexists(layout.root / done.kept_in)


def test_files_set_aside_do_not_overwrite_each_other(layout: Layout) -> None:
    """The second of a name gets another."""
    for content in (b"first", b"second"):
        (layout.archive / "weboid-1.warc.gz.open").write_bytes(content)
        recovered(layout)

    assert sorted(path.read_bytes() for path in layout.damaged.iterdir()) == [b"first", b"second"]


def test_a_flipped_bit_in_what_was_acknowledged_costs_one_record_and_is_told(layout: Layout) -> None:
    """Acknowledged records behind the damage stay where they are."""
    at = offset_of(layout, "/picture")
    before = urls(layout)
    flip(captures(layout), at + 1000)
    done = of_captures(layout)

    assert (done.outcome, done.cut, done.damaged, done.lost_records) == (RecoveryOutcome.CLOSED, 0, (at,), 1)
    assert "LOST" in done.text
    assert "copy" in done.text
    assert before - urls(layout) == {f"{SITE}/picture"}
    assert {each.kind for each in verify_collection(layout).faults} == {"gzip", "no-checksum"}


def test_a_revisit_whose_original_is_lost_is_not_left_pointing_to_it(layout: Layout) -> None:
    """Nor does dedup go on referring to it."""
    at = offset_of(layout, "/a")
    flip(captures(layout), at + 100)
    of_captures(layout)

    assert sql(layout, "SELECT 1 FROM payloads WHERE offset = ?", at) == []
    assert sql(layout, "SELECT 1 FROM captures WHERE orig_offset = ?", at) == []


def test_a_file_shorter_than_the_index_says_is_told_loudly(layout: Layout) -> None:
    """Rows of lost records are removed, and the loss is reported."""
    at = offset_of(layout, "/chunked")
    path = captures(layout)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(at + 50)
    done = of_captures(layout)

    assert (done.cut, done.lost_bytes) == (50, size - at)
    assert done.lost_records == 3  # /chunked, /again and /same
    assert "LOST" in done.text
    assert urls(layout) == {f"{SITE}/a", f"{SITE}/picture"}
    check(layout)


@pytest.mark.parametrize("content", [b"", bytes(5000)], ids=["empty", "zeroes"])
def test_an_acknowledged_file_of_which_nothing_is_left_is_told_loudly(layout: Layout, content: bytes) -> None:
    """No row refers to it any more, and a page whose manifest is gone is not known as finished."""
    (path,) = layout.archive.glob("artifacts-*")
    path.write_bytes(content)
    name = path.name.removesuffix(".open")
    done = recovered(layout)[name]

    assert (done.outcome, done.lost_records) == (RecoveryOutcome.SET_ASIDE, 2)
    assert "LOST" in done.text
    assert sql(layout, "SELECT 1 FROM pages") == []
    assert sql(layout, "SELECT 1 FROM captures WHERE filename = ?", name) == []


def test_a_beginning_that_is_damaged_does_not_cost_what_was_acknowledged(layout: Layout) -> None:
    """Records behind it can be read at their places: the file stays."""
    before = urls(layout)
    flip(captures(layout), 60)
    done = of_captures(layout)

    assert (done.outcome, done.damaged, done.lost_records) == (RecoveryOutcome.CLOSED, (0,), 0)
    assert urls(layout) == before


def test_it_is_noted_in_the_reports(layout: Layout) -> None:
    """For those who were not there: a line a file."""
    append(layout, GARBAGE)
    done = of_captures(layout)
    lines = [json.loads(line) for line in layout.recovery_report.read_text().splitlines()]
    (noted,) = (each for each in lines if each["filename"] == done.filename)

    assert noted["at"] == "2026-01-31T12:00:00.000Z"
    assert noted["text"] == done.text
    assert noted["cut"] == len(GARBAGE)


async def test_a_file_that_lives_is_left_alone(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """Its writer holds a lock on it."""
    proxy = start()
    await fetch(proxy, f"{SITE}/new", page_id="new")
    living = set(layout.archive.glob("*.open"))
    other = start("second")

    assert other.recovered == []
    assert set(layout.archive.glob("*.open")) == living
    assert len(living) == 2


def test_a_proxy_starts_whatever_lies_there_and_says_so(start: Callable[..., ProxyInProcess], layout: Layout) -> None:
    """A real one: it says in its first line what it did, and goes on archiving."""
    late = exchange(1)[0]
    append(layout, late + GARBAGE)
    (layout.archive / "weboid-1.warc.gz.open").write_bytes(GARBAGE)
    (layout.archive / "weboid-2.warc.gz.open").mkdir()
    proxy = start()
    recovery_by_file = {each["filename"]: each for each in proxy.recovered}
    proxy.stop()

    assert len(recovery_by_file) == 4
    assert recovery_by_file["weboid-1.warc.gz"]["outcome"] == "set aside"
    assert [each["cut"] for each in recovery_by_file.values() if each["indexed"]] == [len(GARBAGE)]
    assert verify_collection(layout).is_sound
    check(layout)
    assert len([each for each in records(layout) if each.url == f"{SITE}/late1"]) == 1


def test_a_file_that_another_tool_left_open_is_closed(layout: Layout) -> None:
    """Whole records are indexed whoever wrote them."""
    (layout.archive / "other.warc.gz.open").write_bytes(resource("urn:x:1", b"text"))
    done = recovered(layout)["other.warc.gz"]

    assert (done.outcome, done.indexed) == (RecoveryOutcome.CLOSED, 1)
