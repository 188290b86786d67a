"""Exports, imports, snapshots and the crawl log: the books outside the frontier."""

import io
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import InputError, UnavailableError
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome
from crawler.collection import copy_database
from crawler.frontier.base import Frontier, ItemState, Lane, NewItem
from crawler.frontier.frontier_export import (
    LINE_LIMIT_BYTES,
    FrontierImport,
    ItemSelection,
    export_lines,
    import_items,
    select_items,
)
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.worker.crawl_events import (
    CrawlLog,
    LinksAdded,
    PageDone,
    PageRetried,
    PageSkipped,
    SnapshotMade,
    rotate_crawl_log,
)
from tests.support.clocks import ManualClock
from weboid.cli.crawl.frontier_transfer import snapshot_frontier

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UNFINISHED = frozenset({ItemState.QUEUED, ItemState.CLAIMED})
OpenIn = Callable[[str], Frontier]


def layout_at(root: Path) -> Layout:
    """Create a collection's folders and marker and return its layout."""
    layout = Layout(root)
    for folder in (layout.databases, layout.reports, layout.archive):
        folder.mkdir(parents=True)
    layout.marker.write_text("version = 1\n")
    return layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create a collection's folders."""
    return layout_at(tmp_path / "collection")


@pytest.fixture
def frontier(layout: Layout) -> Iterator[Frontier]:
    """Yield the collection's frontier, empty."""
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Frontier]:
    """Yield the empty frontier of another collection."""
    layout = layout_at(tmp_path / "other")
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as opened:
        yield opened


def lines_of(frontier: Frontier) -> list[str]:
    """Return the lines of an export of all states."""
    return [line for state in ItemState for line in export_lines(frontier, state)]


def import_lines(frontier: Frontier, text: str | bytes, states: frozenset[ItemState] = UNFINISHED) -> FrontierImport:
    """Import the text and return the result."""
    data = text.encode() if isinstance(text, str) else text
    return import_items(frontier, io.BytesIO(data), states, now=lambda: NOW)


def one_in_each_state(frontier: Frontier) -> None:
    """Add a host for each state and bring its item into that state; one more queued item has a job."""
    items = [
        NewItem(f"https://{state}.example/", Lane.HIGH, hops=2, via="https://seed.example/") for state in ItemState
    ]
    frontier.add([*items, NewItem("https://job.example/", job="news", hops_off=1)], now=NOW)
    for item in frontier.claim(now=NOW, worker="w", limit=6):
        match item.host.split(".")[0]:
            case "done":
                frontier.complete(item, now=NOW, outcome="complete", memo="m", due=None)
            case "skipped":
                frontier.skip(item, now=NOW, reason="blacklist: x")
            case "dead":
                frontier.fail(item, now=NOW, reason="dns: no such name")
            case "claimed":
                pass
            case _:
                frontier.release(item, now=NOW)


def test_an_export_tells_each_item_once_with_all_that_is_known(frontier: Frontier) -> None:
    """A line of JSON each, whatever its state."""
    one_in_each_state(frontier)
    facts_by_url = {facts["url"]: facts for facts in map(json.loads, lines_of(frontier))}

    assert len(facts_by_url) == 6
    for state in ItemState:
        assert facts_by_url[f"https://{state}.example/"]["state"] == state
    assert facts_by_url["https://dead.example/"]["attempts"][0]["reason"] == "dns: no such name"
    assert facts_by_url["https://done.example/"]["memo"] == "m"
    assert facts_by_url["https://claimed.example/"]["worker"] == "w"


def test_an_import_queues_what_was_still_to_be_visited(frontier: Frontier, other: Frontier) -> None:
    """With lane, hops, way and job; twice adds nothing; what had ended is left out and counted."""
    one_in_each_state(frontier)
    text = "\n".join(lines_of(frontier))
    first, second = import_lines(other, text), import_lines(other, text)
    queued = other.find("https://queued.example/")
    job = other.find("https://job.example/")

    assert (first.added.added, first.other, first.bad) == (3, 3, 0)
    assert (second.added.added, second.added.duplicates) == (0, 3)
    assert queued is not None
    assert (queued.item.lane, queued.item.hops, queued.item.via) == (Lane.HIGH, 2, "https://seed.example/")
    assert job is not None
    assert (job.item.job, job.item.hops_off) == ("news", 1)
    assert other.find("https://dead.example/") is None
    assert import_lines(other, text, frozenset({ItemState.DEAD})).added.added == 1


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"url": 5}',
        '{"url": "ftp://a.example/"}',
        '{"url": "https://a.example/", "lane": "fast"}',
        '{"url": "https://a.example/", "hops": -1}',
        '{"url": "https://a.example/", "hops": true, "via": 7}',
        '{"url": "https://a.example/", "state": "lost"}',
        "[" * 5_000,
        '{"url": "https://a.example/", "x": "' + "y" * LINE_LIMIT_BYTES + '"}',
        b"\xff\xfe",
    ],
    ids=range(12),
)
def test_a_line_that_cannot_be_used_is_named_and_the_rest_goes_on(other: Frontier, line: str | bytes) -> None:
    """The good line after it is taken."""
    data = line.encode() if isinstance(line, str) else line
    taken = import_lines(other, data + b'\n\n{"url": "https://good.example/"}\n')

    assert taken.bad == 1
    assert taken.problems[0].startswith("line 1: ")
    assert taken.added.added == 1


@pytest.mark.slow
@given(data=st.binary(max_size=200))
def test_no_bytes_break_an_import(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """They are lines of an export, or named as none."""
    layout = layout_at(tmp_path_factory.mktemp("bytes") / "c")
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as opened:
        taken = import_lines(opened, data)

    assert taken.bad + taken.other + taken.added.added <= data.count(b"\n") + 1


def test_items_are_selected_by_all_that_is_asked(frontier: Frontier) -> None:
    """Host, job, reason and pattern must all hold."""
    one_in_each_state(frontier)

    def selected(state: ItemState, **wanted: object) -> list[str]:
        batches = select_items(frontier, state, ItemSelection(**wanted))  # type: ignore[arg-type]
        return [record.item.host for batch in batches for record in batch]

    assert selected(ItemState.DEAD, reason="NO SUCH") == ["dead.example"]
    assert selected(ItemState.DEAD, reason="tls") == []
    assert selected(ItemState.QUEUED, job="news") == ["job.example"]
    assert selected(ItemState.QUEUED, job="", host="job.example") == []
    assert sorted(selected(ItemState.QUEUED)) == ["job.example", "queued.example"]


def test_a_snapshot_is_a_collection_with_the_frontier_of_one_moment(
    frontier: Frontier, layout: Layout, tmp_path: Path
) -> None:
    """A batch that is added meanwhile is in it as a whole or not at all, and no writer waits."""
    frontier.add([NewItem("https://a.example/0")], now=NOW)
    made, stop = threading.Event(), threading.Event()

    def work() -> None:
        number = 1
        while not stop.is_set():
            urls = [f"https://a.example/{number}/{part}" for part in range(10)]
            frontier.add(map(NewItem, urls), now=NOW)
            number += 1
            made.set()

    adding = threading.Thread(target=work)
    adding.start()
    try:
        assert made.wait(120)
        _, log = snapshot_frontier(layout, tmp_path / "copy", now=NOW)
    finally:
        stop.set()
        adding.join()
    with open_frontier(Layout(tmp_path / "copy"), FrontierSettings(), PolitenessSettings()) as copy:
        queued = copy.stats(NOW).queued
        listed = sum(len(batch) for batch in select_items(copy, ItemState.QUEUED, ItemSelection()))

    assert log is None
    assert queued == listed
    assert queued % 10 == 1
    assert 11 <= queued <= frontier.stats(NOW).queued


def test_a_crawl_can_go_on_from_a_snapshot(frontier: Frontier, layout: Layout, tmp_path: Path) -> None:
    """The copy is written like any frontier; the original does not notice."""
    one_in_each_state(frontier)
    snapshot_frontier(layout, tmp_path / "copy", now=NOW)
    later = NOW + timedelta(hours=1)
    with open_frontier(Layout(tmp_path / "copy"), FrontierSettings(), PolitenessSettings()) as copy:
        claimed = {item.host for item in copy.claim(now=later, worker="v", limit=9)}

    assert claimed == {"queued.example", "claimed.example", "job.example"}
    assert frontier.stats(NOW).queued == 2


def test_a_folder_with_something_in_it_is_left_alone(frontier: Frontier, layout: Layout, tmp_path: Path) -> None:
    """Nobody's earlier snapshot is written over, and one without a marker is no collection."""
    snapshot_frontier(layout, tmp_path / "copy", now=NOW)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("x")

    for name in ("copy", "notes"):
        with pytest.raises(InputError, match="already"):
            snapshot_frontier(layout, tmp_path / name, now=NOW)


PAGE = PageInfo(
    page_id="id",
    url="https://a.example/",
    final_url="https://a.example/home",
    captured_at="2026-11-21T12:00:00.000Z",
    outcome=VisitOutcome.COMPLETE,
    status=200,
    mime="text/html",
    records=3,
    stored_bytes=1_000,
    seconds=1.5,
)


def logged(path: Path) -> list[dict[str, object]]:
    """Return the parsed lines of the log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_attempt_has_a_line_with_its_result(layout: Layout) -> None:
    """Done, tried again, given up, skipped; what ends no attempt has none."""
    with closing(CrawlLog(layout.crawl_log, clock=ManualClock(NOW))) as log:
        log.note(PageDone(PAGE.url, PAGE, "", 1))
        log.note(PageRetried("https://b.example/", "net: reset", 2))
        log.note(PageDone("https://b.example/", None, "net: reset", 3))
        log.note(PageSkipped("https://c.example/", "robots: /"))
        log.note(LinksAdded(PAGE.url, 7))
    lines = logged(layout.crawl_log)

    assert [line["outcome"] for line in lines] == ["complete", "retry", "failed", "skipped"]
    assert (lines[0]["status"], lines[0]["bytes"], lines[0]["page_id"]) == (200, 1_000, "id")
    assert (lines[2]["attempt"], lines[2]["reason"]) == (3, "net: reset")
    assert {line["time"] for line in lines} == {"2026-11-21T12:00:00.000Z"}


def test_a_log_that_is_rotated_by_another_process_goes_on_in_a_new_file(
    frontier: Frontier, layout: Layout, tmp_path: Path
) -> None:
    """`snapshot` rotates it; no line is lost or in both."""
    with closing(CrawlLog(layout.crawl_log, clock=ManualClock(NOW))) as log:
        log.note(PageSkipped("https://a.example/", "x"))
        _, rotated = snapshot_frontier(layout, tmp_path / "copy", now=NOW)
        again = rotate_crawl_log(layout.crawl_log, now=NOW)
        log.note(PageSkipped("https://b.example/", "x"))
    assert rotated is not None
    assert rotated.name == "crawl-20261121120000.jsonl"
    assert again is None
    assert [line["url"] for line in logged(rotated)] == ["https://a.example/"]
    assert [line["url"] for line in logged(layout.crawl_log)] == ["https://b.example/"]


def test_workers_that_share_a_folder_rotate_their_log_once_for_a_snapshot(layout: Layout) -> None:
    """The first that is told; a log that was begun after the snapshot stays."""
    moment, clock = NOW + timedelta(seconds=1), ManualClock(NOW)
    with ExitStack() as stack:
        logs = [stack.enter_context(closing(CrawlLog(layout.crawl_log, clock=clock))) for _ in range(2)]
        for log in logs:
            log.note(PageSkipped("https://a.example/", "x"))
        logs[0].note(SnapshotMade(moment))
        clock.moment = moment + timedelta(seconds=1)
        logs[0].note(PageSkipped("https://b.example/", "x"))
        logs[1].note(SnapshotMade(moment))
    files = sorted(layout.reports.iterdir())

    assert [path.name for path in files] == ["crawl-20261121120001.jsonl", "crawl.jsonl"]
    assert [len(logged(path)) for path in files] == [2, 1]


def test_log_that_cannot_be_read_is_rotated_too(layout: Layout) -> None:
    """A line that was cut by a full disk is older than any snapshot."""
    layout.crawl_log.write_text('{"time": 1')

    assert rotate_crawl_log(layout.crawl_log, now=NOW, older=True) is not None
    assert rotate_crawl_log(layout.crawl_log, now=NOW, older=True) is None


def test_a_log_is_rotated_at_its_size_and_no_name_is_used_twice(layout: Layout) -> None:
    """Also when several fill up within a second."""
    with closing(CrawlLog(layout.crawl_log, clock=ManualClock(NOW), limit_bytes=200)) as log:
        for number in range(6):
            log.note(PageSkipped(f"https://a.example/{number}", "x" * 100))
    files = sorted(layout.reports.iterdir())
    urls = [str(line["url"]) for path in files for line in logged(path)]

    assert len(files) == 6
    assert sorted(urls) == [f"https://a.example/{number}" for number in range(6)]


def test_a_log_that_cannot_be_written_says_so(layout: Layout) -> None:
    """A run must not go on as if it were noted."""
    layout.crawl_log.mkdir()
    with (
        closing(CrawlLog(layout.crawl_log, clock=ManualClock(NOW))) as log,
        pytest.raises(UnavailableError, match="cannot be written"),
    ):
        log.note(PageSkipped("https://a.example/", "x"))


_WRITER = """
import sys
from pathlib import Path
from core.clock import SystemClock
from crawler.worker.crawl_events import CrawlLog
from crawler.worker.crawl_events import PageSkipped

log = CrawlLog(Path(sys.argv[1]), clock=SystemClock(), limit_bytes=20_000)
for number in range(200):
    log.note(PageSkipped(f"https://{sys.argv[2]}.example/{number}", "x" * 500))
"""


@pytest.mark.slow
def test_processes_share_a_log_line_by_line(layout: Layout) -> None:
    """Two writers who rotate it at its size, and somebody else who does: each line is there once."""
    root = Path(__file__).resolve().parents[4]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(layout.crawl_log), name], env={**os.environ, "PYTHONPATH": str(root)}
        )
        for name in "ab"
    ]
    while any(writer.poll() is None for writer in writers):
        rotate_crawl_log(layout.crawl_log, now=NOW)
    urls = [str(line["url"]) for path in layout.reports.iterdir() for line in logged(path)]

    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(urls) == 400
    assert len(set(urls)) == 400


def test_database_is_copied_whatever_its_folder_is_called(tmp_path: Path) -> None:
    """In the URI by which SQLite opens it `?`, `#` and `%` would mean something else."""
    folder = tmp_path / "a 100%25?b#c"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "old.sqlite")) as old:
        old.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (7);")

    copy_database(folder / "old.sqlite", folder / "new.sqlite")

    with closing(sqlite3.connect(folder / "new.sqlite")) as new:
        assert new.execute("SELECT a FROM t").fetchall() == [(7,)]
