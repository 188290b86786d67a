"""Look-ups cost what they find, not what there is: plans, and steps of SQLite's machine."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind
from core.page_classes import PageClass
from core.page_manifest import DeviceType, VisitOutcome
from core.timestamps import timestamp14, unix_milliseconds
from core.url_keys import replay_key
from playback.access.control import PageFacts
from playback.replay.capture_lookup import CaptureLookup
from playback.web.page_store import PageStore
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW
from warc.index import queries as module
from warc.index.database import SqliteDatabase, key_values
from warc.index.protocol import CAPTURES_DDL
from warc.index.queries import BEST_FIRST, EXACT_FIRST, OFFERED, SHOWN, BestPageQuery, best_pages, other_scheme

URL = "https://a.example/page"
AT = unix_milliseconds(NOW)
_PAGE = (
    "INSERT INTO pages (page_id, url, urlkey, timestamp, captured_ms, final_url, outcome, reason,"
    " status, mime, title, records, stored_bytes, seconds, page_class, class_score, class_evidence,"
    " device) VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, '', '', 0, 0, 0, ?, 0, '', ?)"
)
_CAPTURE = (
    "INSERT INTO captures (urlkey, timestamp, captured_ms, url, record_type, mime, status, digest,"
    " filename, offset, length, page_id) VALUES (?, ?, ?, ?, 'response', '', ?, '', 'x', ?, 1, ?)"
)


class CountingDatabase(SqliteDatabase):
    """The database as replay has it, with each question's plan and SQLite's steps counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.steps = 0
        self.plans: list[str] = []

    def rows(self, query: str, values: Any) -> list[Any]:
        """Return the rows of a query; record its plan and count its steps."""
        super().rows("SELECT 1", {})  # so that a connection is kept, which is lent again
        ((_, connection),) = self._idle
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
        self.plans += [row["detail"] for row in plan]
        connection.set_progress_handler(self._step, 10)
        try:
            return super().rows(query, values)
        finally:
            connection.set_progress_handler(None, 10)

    def _step(self) -> int:
        self.steps += 10
        return 0


def page_row(number: int, url: str, at_ms: int, page_class: str, outcome: str, device: str = "") -> tuple[Any, ...]:
    """Return a row of `pages`."""
    at = timestamp14(NOW + timedelta(milliseconds=at_ms - AT))
    status = 200 if number % 7 else 404
    return (f"{number:08}", url, replay_key(url), at, at_ms, url, outcome, status, page_class, device)


def capture_row(number: int, url: str, at_ms: int, status: int = 200) -> tuple[Any, ...]:
    """Return a row of `captures`."""
    at = timestamp14(NOW + timedelta(milliseconds=at_ms - AT))
    return (replay_key(url), at, at_ms, url, status, number, f"{number:08}")


@contextlib.contextmanager
def filled(path: Path, pages: Any, captures: Any = ()) -> Iterator[CountingDatabase]:
    """Yield an index with these rows."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(CAPTURES_DDL)
        connection.executemany(_PAGE, pages)
        connection.executemany(_CAPTURE, captures)
        connection.commit()
    database = CountingDatabase(path)
    try:
        yield database
    finally:
        database.close()


_rows = st.lists(
    st.tuples(
        st.sampled_from([URL, "http://a.example/page", "https://a.example/PAGE"]),
        st.integers(-5_000, 5_000) | st.integers(-60, 60).map(lambda day: day * 86_400_000 + day),
        st.sampled_from(PageClass),
        st.sampled_from([VisitOutcome.COMPLETE, VisitOutcome.COMPLETE, VisitOutcome.FAILED]),
        st.sampled_from(["", DeviceType.DESKTOP, DeviceType.PHONE]),
    ),
    max_size=30,
    unique_by=lambda row: row[1],  # of those of one millisecond any may be the first
)


@settings(max_examples=examples(8))
@given(_rows, st.sampled_from([URL, "http://a.example/page"]), st.integers(-4_000, 4_000), st.booleans())
def test_the_best_are_those_that_sorting_all_would_give(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int, PageClass, VisitOutcome, str]],
    url: str,
    offset: int,
    purpose: bool,
) -> None:
    """In the same order to the last, also where only the nearest are read."""
    shown = OFFERED if purpose else SHOWN
    at = NOW + timedelta(milliseconds=offset)
    made = [page_row(number, row[0], AT + row[1], *row[2:]) for number, row in enumerate(rows)]
    with filled(tmp_path_factory.mktemp("best") / "x.sqlite", made) as database:
        key = key_values(replay_key(url))
        columns = "page_id, captured_ms, device"
        everything = database.rows(
            f"SELECT {columns} FROM pages WHERE urlkey = :key AND {shown} ORDER BY {EXACT_FIRST}, {BEST_FIRST}",
            {**key, "url": url, "twin": other_scheme(url), "at": AT + offset, "timestamp": timestamp14(at)},
        )
        wanted = BestPageQuery(url, AT + offset, timestamp14(at), shown)
        sizes = module.FEW, module._NEAREST
        for few, nearest in (sizes, (1, 2)):
            module.FEW, module._NEAREST = few, nearest
            try:
                best_rows = list(best_pages(database.rows, "urlkey = :key", key, columns, wanted))
            finally:
                module.FEW, module._NEAREST = sizes
            assert [row["page_id"] for row in best_rows] == [row["page_id"] for row in everything]


@settings(max_examples=examples(8))
@given(_rows, st.integers(-4_000, 4_000), st.booleans())
def test_the_front_finds_what_sorting_all_would_give(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int, PageClass, VisitOutcome, str]],
    offset: int,
    exact: bool,
) -> None:
    """Failed captures come last, unless their very moment is requested."""
    at = NOW + timedelta(milliseconds=offset)
    made = [page_row(number, row[0], AT + row[1], *row[2:]) for number, row in enumerate(rows)]
    with filled(tmp_path_factory.mktemp("front") / "x.sqlite", made) as database:
        key = key_values(replay_key(URL))
        facts = {"url": URL, "twin": other_scheme(URL), "at": AT + offset}
        facts["timestamp"] = timestamp14(at) if exact else ""
        everything = database.rows(
            f"SELECT page_id FROM pages WHERE urlkey = :key ORDER BY {EXACT_FIRST},"
            f" CASE WHEN {OFFERED} THEN 0 ELSE 1 END, {BEST_FIRST}",
            {**key, **facts},
        )
        wanted = BestPageQuery(URL, AT + offset, str(facts["timestamp"]), OFFERED)
        few = module.FEW
        module.FEW = 1
        try:
            best_rows = list(PageStore(database)._best(key, wanted))
        finally:
            module.FEW = few
        assert [row["page_id"] for row in best_rows] == [row["page_id"] for row in everything]


def questions(index: CaptureLookup, database: CountingDatabase) -> dict[str, Callable[[], object]]:
    """Return the queries of replay for a page and its parts, by name."""
    later = NOW + timedelta(seconds=77)
    page = PageFacts("00000005", URL, "", URL, "")
    return {
        "exact page": lambda: index.page(URL, NOW),
        "nearest page": lambda: index.page(URL, later + timedelta(milliseconds=3)),
        "part": lambda: next(index.captures(URL, later), None),
        "all near": lambda: list(index.captures(URL, later)),
        "window": lambda: list(index.captures(URL, later, window=timedelta(days=30))),
        "document": lambda: next(index.documents(URL, later), None),
        "artifact": lambda: index.artifact(page, ArtifactKind.DOM),
        "reader": lambda: PageStore(database).nearest(URL, later + timedelta(milliseconds=3)),
        "newest": lambda: PageStore(database).nearest(URL, None),
        "never": lambda: index.page("https://never.example/", NOW),
    }


def many(count: int, page_class: PageClass = PageClass.OK) -> tuple[list[Any], list[Any]]:
    """So many captures of one URL, a second apart, and as many of others."""
    urls = [URL] * count + [f"https://b.example/{number}" for number in range(count)]
    pages = [
        page_row(number, url, AT + (number % count) * 1000, page_class, VisitOutcome.COMPLETE)
        for number, url in enumerate(urls)
    ]
    captures = [capture_row(number, url, AT + (number % count) * 1000, 404) for number, url in enumerate(urls)]
    return pages, captures


@pytest.mark.slow
def test_a_url_captured_often_is_found_as_fast_as_another(tmp_path: Path) -> None:
    """Twenty times as many captures take at most twice the steps, whatever is asked."""
    steps: list[dict[str, int]] = []
    for count in (300, 6_000):
        with filled(tmp_path / f"{count}.sqlite", *many(count)) as database:
            index = CaptureLookup(database)
            one: dict[str, int] = {}
            for name, ask in questions(index, database).items():
                database.steps = 0
                ask()
                one[name] = max(database.steps, 100)
            steps.append(one)
    few, lots = steps
    slower = {name: (few[name], lots[name]) for name in few if lots[name] > 2 * few[name]}
    # Equals are looked for among the nearest 2,048 of either side, and few have so many.
    assert slower.keys() <= {"all near", "window", "document"}
    assert max(lots.values()) < 120_000


def test_no_question_scans_a_table_or_sorts_what_it_does_not_need(tmp_path: Path) -> None:
    """Every plan searches by an index; what is sorted is bounded by a LIMIT below it or by a page."""
    with filled(tmp_path / "x.sqlite", *many(500)) as database:
        index = CaptureLookup(database)
        for name, ask in questions(index, database).items():
            database.plans.clear()
            ask()
            tables = [line for line in database.plans if " pages" in line or " captures" in line]
            assert tables, name
            assert all(line.startswith("SEARCH ") for line in tables), (name, database.plans)


def test_a_url_that_was_never_good_is_counted_and_not_sorted(tmp_path: Path) -> None:
    """The best of many bad ones is the nearest of the best sort."""
    pages, _ = many(300, PageClass.SOFT_404)
    with filled(tmp_path / "x.sqlite", pages) as database:
        page_facts = CaptureLookup(database).page(URL, NOW - timedelta(seconds=5))
        assert page_facts is not None
        assert page_facts.timestamp == timestamp14(NOW)
        # What is sorted is what was captured in the very second that is asked for.
        assert sum("B-TREE FOR ORDER" in line for line in database.plans) == 1
