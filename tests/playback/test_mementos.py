"""Mementos and rows of the captures index: SQLite and a real PostgreSQL give the same answers."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind, Capture, RecordLocation, RecordType, artifact_uri
from core.config.database_urls import parse_index_url
from core.page_classes import PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import timestamp14, unix_milliseconds, warc_date
from core.url_keys import replay_key
from playback.access.control import PageFacts
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.mementos import _IS_MEMENTO, MementoIndex, PageMemento, url_values
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, index_row
from tests.support.services.postgres import PostgresServer
from warc.index.database import IndexDatabase, SqliteDatabase
from warc.index.postgres import PostgresCaptureIndex, PostgresDatabase
from warc.index.queries import BEST_FIRST, EXACT_FIRST, CaptureQueries, IndexPosition, KeyRange, TimeRange
from warc.index.sqlite import SqliteCaptureIndex

pytestmark = pytest.mark.playback

LONG = "x" * 600
EVERYTHING = TimeRange()
_hosts = count()  # each example has one of its own, so that nothing need be emptied


def urls_of(host: str) -> tuple[str, ...]:
    """Generate URLs whose keys lie close together, or are the same."""
    return (
        f"https://{host}.example/",
        f"http://{host}.example/",
        f"https://{host}.example/A",
        f"https://{host}.example/a",
        f"https://{host}.example/a/b",
        f"https://{host}.example/a?b",
        f"https://{host}.example/a/{LONG}1",
        f"https://{host}.example/a/{LONG}2",
        f"https://b.{host}.example/",
        f"https://{host}-b.example/",
    )


def new_host() -> str:
    """Return a new host label that no other host begins with."""
    return f"h{next(_hosts):05}"


URLS = urls_of("a")
KEYS = tuple(replay_key(url) for url in URLS)
HIDDEN = Takedown(1, TakedownKind.URL, URLS[0], "", TakedownEffect.HIDE, "", "", "test", NOW, None)


class NoTakedowns:
    """Nothing is taken down."""

    def pages(self, pages: object) -> dict[str, Takedown]:
        """Return no take-downs."""
        del pages
        return {}


def capture(url: str, second: int, number: int, page_id: str | None = None) -> Capture:
    """Return a row for the index, captured `second` seconds after NOW; no WARC record belongs to it."""
    return Capture(
        url,
        replay_key(url),
        NOW + timedelta(seconds=second),
        RecordType.RESPONSE,
        "text/html",
        200,
        "sha256:0",
        RecordLocation(f"{replay_key(url)[8:14]}.warc.gz", number, 9),
        page_id=page_id,
    )


class BothDatabases:
    """The same rows in both databases."""

    def __init__(self, stack: ExitStack, folder: Path, url: str) -> None:
        address, path = parse_index_url(url), folder / "captures.sqlite"
        self.writers: list[SqliteCaptureIndex | PostgresCaptureIndex] = [
            SqliteCaptureIndex(path),
            PostgresCaptureIndex(address),
        ]
        self.readers: list[IndexDatabase] = [SqliteDatabase(path), PostgresDatabase(address)]
        for each in (*self.writers, *self.readers):
            stack.callback(each.close)

    def write(self, captures: list[Capture], pages: list[PageInfo]) -> None:
        """Write them, in one transaction each."""
        for writer in self.writers:
            with writer.transaction():
                writer.add_rows([index_row(each) for each in captures])
                for info in pages:
                    writer.add_page(info)


@pytest.fixture(scope="module")
def both(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothDatabases]:
    """Yield both databases, which all tests share."""
    with ExitStack() as stack:
        yield BothDatabases(stack, tmp_path_factory.mktemp("both"), postgres.database())


_rows = st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3)), max_size=30)
_ranges = st.one_of(
    st.integers(0, 9).map(lambda place: (KeyRange.of_key, place, "")),
    st.tuples(st.just(KeyRange.of_prefix), st.integers(0, 9), st.sampled_from(("", "/", "a", "a/", f"a/{LONG}"))),
)


@settings(max_examples=examples(25))
@given(_rows, _ranges, st.booleans(), st.integers(1, 7))
def test_rows_come_in_order_however_they_are_asked_for(
    both: BothDatabases, rows: list[tuple[int, int]], range_parts: Any, descending: bool, limit: int
) -> None:
    """Some at a time, going on from any place: each once, in the order of key, time and arrival."""
    urls = urls_of(new_host())
    make, place, more = range_parts
    keys = make(replay_key(urls[place]) + more)
    written = [capture(urls[url], second, number) for number, (url, second) in enumerate(rows)]
    both.write(written, [])
    expected = sorted(
        (each.urlkey, unix_milliseconds(each.captured_at)) for each in written if keys.low <= each.urlkey < keys.high
    )
    for database in both.readers:
        source = CaptureQueries(database)
        positions = _walked(source, keys, descending, limit)
        in_order = [(each.urlkey, each.captured_ms) for each in positions]
        assert in_order == (expected[::-1] if descending else expected)
        assert len(set(positions)) == len(positions)
        assert source.count(keys, EVERYTHING, most=1_000) == len(positions)
        assert source.count(keys, EVERYTHING, most=2) == min(2, len(positions))
        for offset in {0, 1, max(len(positions) - 1, 0), len(positions)}:
            there = source.place(keys, EVERYTHING, offset=offset, descending=descending)
            assert there == (positions[offset] if offset < len(positions) else None)
        if len(positions) > 2:
            there = source.place(keys, EVERYTHING, offset=1, after=positions[0], descending=descending)
            assert there == positions[2]


def _walked(source: CaptureQueries, keys: KeyRange, descending: bool, limit: int) -> list[IndexPosition]:
    positions: list[IndexPosition] = []
    while True:
        after = positions[-1] if positions else None
        if keys.is_one:
            part = source.of_key(keys.low, EVERYTHING, after=after, descending=descending, limit=limit)
        else:
            part = source.of_range(keys, after=after, descending=descending, limit=limit)
        positions += [row.position for row in part]
        if len(part) < limit:
            return positions


@pytest.mark.parametrize("descending", [False, True])
def test_a_span_of_time_bounds_the_rows_of_a_key(both: BothDatabases, descending: bool) -> None:
    """Both ends belong to it."""
    url = urls_of(new_host())[0]
    key = replay_key(url)
    both.write([capture(url, second, second) for second in range(6)], [])
    span = TimeRange(*(unix_milliseconds(NOW + timedelta(seconds=each)) for each in (2, 4)))
    for database in both.readers:
        rows = CaptureQueries(database).of_key(key, span, descending=descending, limit=9)
        seconds = [row.position.captured_ms // 1000 % 60 for row in rows]
        assert seconds == ([4, 3, 2] if descending else [2, 3, 4])
        assert CaptureQueries(database).count(KeyRange.of_key(key), span, most=9) == 3


# ------------------------------------------------------------------------------- mementos

_pages = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(-5, 5),
        st.sampled_from(VisitOutcome),
        st.sampled_from(("text/html", "application/zip", "application/pdf")),
        st.sampled_from((PageClass.OK, PageClass.CHALLENGE, PageClass.SOFT_404)),
        st.sampled_from((200, 404, None)),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=examples(25))
@given(_pages, st.integers(0, 3), st.integers(-7, 7))
def test_mementos_are_the_same_in_both_and_agree_with_a_model(
    both: BothDatabases, visits: list[Any], place: int, second: int
) -> None:
    """Usable copies, once an address, in the order of time, with their neighbours."""
    host = new_host()
    urls = urls_of(host)
    url, at = urls[place], timestamp14(NOW + timedelta(seconds=second))
    doms, pages, offered = list[Capture](), list[PageInfo](), set[tuple[str, str]]()
    for number, (which, moment, outcome, mime, page_class, status, has_dom) in enumerate(visits):
        when = NOW + timedelta(seconds=moment)
        page_id = f"{host} {number}"
        pages.append(
            PageInfo(
                page_id, urls[which], "https://final.example/", warc_date(when), outcome,
                mime=mime, page_class=page_class, status=status,
            )
        )  # fmt: skip
        if has_dom:
            dom = artifact_uri(ArtifactKind.DOM, urls[which])
            doms.append(replace(capture(urls[which], moment, number, page_id), url=dom))
        if (
            outcome not in (VisitOutcome.FAILED, VisitOutcome.SKIPPED)
            and page_class is PageClass.OK
            and status == 200
            and (mime != "application/zip" or has_dom)
            and replay_key(urls[which]) == replay_key(url)
        ):
            offered.add((timestamp14(when), urls[which]))
    both.write(doms, pages)
    twins = {url, url.replace("https:", "http:"), url.replace("http:", "https:")}
    mine = sorted(each for each in offered if each[1] in twins) or sorted(offered)
    for database in both.readers:
        mementos = MementoIndex(database, NoTakedowns())  # type: ignore[arg-type]
        listed = [(each.timestamp, each.url) for each in mementos.listed(url)]
        assert sorted(listed) == mine
        assert [each[0] for each in listed] == [each[0] for each in mine]
        nearest = mementos.nearest(url, NOW + timedelta(seconds=second))
        assert (nearest is None) == (not mine)
        assert nearest is None or (nearest.timestamp, nearest.url) in mine
        assert nearest is None or mementos.is_listed(nearest)
        assert mementos.is_listed(PageMemento(url, at)) == ((at, url) in mine)
        moment = NOW + timedelta(seconds=second)
        best = database.rows(
            f"SELECT url, timestamp FROM pages WHERE {database.has_key} AND {_IS_MEMENTO}"
            f" ORDER BY {EXACT_FIRST}, {BEST_FIRST} LIMIT 1",
            {**url_values(url), "at": unix_milliseconds(moment), "timestamp": at},  # type: ignore[dict-item]
        )
        assert nearest == (PageMemento(best[0]["url"], best[0]["timestamp"]) if best else None)
        around = mementos.around(url, at)
        moments = [each and each.timestamp for each in (around.first, around.previous, around.next, around.last)]
        assert moments == [
            mine[0][0] if mine else None,
            max((each[0] for each in mine if each[0] < at), default=None),
            min((each[0] for each in mine if each[0] > at), default=None),
            mine[-1][0] if mine else None,
        ]


def test_a_memento_behind_many_hidden_ones_is_found(tmp_path: Path) -> None:
    """However many take-downs hide its neighbours, and without asking for each of them."""
    path = tmp_path / "captures.sqlite"
    with closing(SqliteCaptureIndex(path)) as writer, writer.transaction():
        for number in range(1_200):
            at = warc_date(NOW + timedelta(seconds=number))
            name = "shown" if number == 700 else f"hidden {number}"
            writer.add_page(PageInfo(name, URLS[0], URLS[0], at, VisitOutcome.COMPLETE, status=200, mime="text/html"))
    queries: list[str] = []

    class Counted(SqliteDatabase):
        def rows(self, query: str, values: object) -> list[object]:
            queries.append(query)
            return super().rows(query, values)  # type: ignore[arg-type]

    class Hiding:
        def pages(self, pages: list[PageFacts]) -> dict[str, Takedown]:
            return {each.page_id: HIDDEN for each in pages if each.page_id != "shown"}

    with closing(Counted(path)) as database:
        mementos = MementoIndex(database, Hiding())  # type: ignore[arg-type]
        shown = timestamp14(NOW + timedelta(seconds=700))
        assert [each.timestamp for each in mementos.listed(URLS[0])] == [shown]
        nearest = mementos.nearest(URLS[0], NOW)
        assert nearest is not None
        assert nearest.timestamp == shown
        around = mementos.around(URLS[0], timestamp14(NOW))
        assert around.previous is None
        assert around.next == around.first == around.last == nearest
    assert len(queries) < 30


def test_questions_read_ranges_of_an_index_and_sort_nothing(tmp_path: Path) -> None:
    """So that an answer takes as long with a thousand million rows as with ten."""
    path = tmp_path / "captures.sqlite"
    with closing(SqliteCaptureIndex(path)) as writer:
        writer.add_rows([index_row(capture(URLS[0], 0, 0))])
    plans: list[str] = []

    class Explained(SqliteDatabase):
        def rows(self, query: str, values: object) -> list[object]:
            with closing(sqlite3.connect(path)) as connection:
                plan_rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", values)  # type: ignore[arg-type]
                plans.extend(row[3] for row in plan_rows)
            return super().rows(query, values)  # type: ignore[arg-type]

    with closing(Explained(path)) as database:
        rows, mementos = CaptureQueries(database), MementoIndex(database, NoTakedowns())  # type: ignore[arg-type]
        prefix, one = KeyRange.of_prefix("example,a"), KeyRange.of_key(KEYS[0])
        place = IndexPosition(KEYS[0], 0, 0)
        for descending in (False, True):
            rows.of_range(prefix, descending=descending, limit=3)
            rows.of_range(prefix, after=place, descending=descending, limit=3)
            rows.of_key(KEYS[0], EVERYTHING, after=place, descending=descending, limit=3)
            for keys in (prefix, one):
                rows.place(keys, EVERYTHING, offset=3, descending=descending)
                rows.place(keys, EVERYTHING, offset=3, after=place, descending=descending)
        rows.count(prefix, EVERYTHING, most=9)
        list(mementos.listed(URLS[0]))
        mementos.around(URLS[0], timestamp14(NOW))
    assert len(plans) > 12
    assert not [plan for plan in plans if plan.startswith("SCAN captures") and "USING" not in plan]
    assert not [plan for plan in plans if "TEMP B-TREE" in plan or plan.startswith("SCAN pages")]
