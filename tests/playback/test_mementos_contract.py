"""Mementos and rows of the captures index: SQLite and a real PostgreSQL give the same answers."""

import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.captures import Capture, RecordLocation
from core.classes import PageClass
from core.index_url import parse_index_url
from core.pages import Outcome, PageInfo
from core.records import ArtifactKind, RecordType, artifact_uri
from core.replay_keys import replay_key
from core.timestamps import milliseconds, timestamp14, warc_date
from playback.captures_queries import Between, CaptureRows, KeyRange, Position
from playback.database import Database, KeptSqliteDatabase
from playback.decisions.takedowns import Effect, Takedown, TakedownKind
from playback.front.pages import _PDF, _SHOWN_TYPES
from playback.mementos import SHOWN_TYPES, Mementos, Visit
from playback.postgres import PostgresDatabase
from proxy.index.postgres import PostgresCaptureIndex
from proxy.index.sqlite import SqliteCaptureIndex
from tests.playback.conftest import NOW
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.playback

LONG = "x" * 600
URLS = (
    "https://a.example/",
    "http://a.example/",
    "https://a.example/A",
    "https://a.example/a",
    "https://a.example/a/b",
    "https://a.example/a?b",
    f"https://a.example/a/{LONG}1",
    f"https://a.example/a/{LONG}2",
    "https://b.a.example/",
    "https://a-b.example/",
)
KEYS = tuple(replay_key(url) for url in URLS)
EVERYTHING = Between()
HIDDEN = Takedown(1, TakedownKind.URL, URLS[0], "", Effect.HIDE, "", "", "test", NOW, None)


class Open:
    """Nothing is taken down."""

    def pages(self, pages: object) -> dict[str, Takedown]:
        """None."""
        del pages
        return {}


def capture(url: str, second: int, number: int, page_id: str | None = None) -> Capture:
    """A row of the index; there is no record to it."""
    return Capture(
        url,
        replay_key(url),
        NOW + timedelta(seconds=second),
        RecordType.RESPONSE,
        "text/html",
        200,
        "sha256:0",
        RecordLocation("weboid-1.warc.gz", number, 9),
        page_id=page_id,
    )


class Both:
    """The same rows in both databases."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        address = parse_index_url(url)
        self.sqlite_path = folder / "captures.sqlite"
        self.writers: list[SqliteCaptureIndex | PostgresCaptureIndex] = [
            SqliteCaptureIndex(self.sqlite_path),
            PostgresCaptureIndex(address),
        ]
        self.readers: list[Database] = [
            KeptSqliteDatabase(self.sqlite_path),
            PostgresDatabase(address),
        ]
        for each in (*self.writers, *self.readers):
            stack.callback(each.close)

    def write(self, captures: list[Capture], pages: list[PageInfo]) -> None:
        """Write them, in one transaction each."""
        for writer in self.writers:
            with writer.transaction():
                writer.add_captures(captures)
                for info in pages:
                    writer.add_page(info)


@pytest.fixture(scope="module")
def emptied(postgres: PostgresServer) -> str:
    """The URL of an index whose tables a test empties."""
    return postgres.database()


def _fresh(stack: ExitStack, url: str) -> Both:
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        index._server.execute("TRUNCATE captures, pages, payloads, files")
    return Both(stack, url)


_rows = st.lists(st.tuples(st.sampled_from(URLS), st.integers(-3, 3)), max_size=30)
_ranges = st.one_of(
    st.sampled_from(KEYS).map(KeyRange.of_key),
    st.sampled_from((*KEYS, "example,a)/a/", "example,a", f"example,a)/a/{LONG}")).map(
        KeyRange.of_prefix
    ),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_rows, _ranges, st.booleans(), st.integers(1, 7))
def test_rows_come_in_order_however_they_are_asked_for(
    emptied: str, rows: list[tuple[str, int]], keys: KeyRange, descending: bool, limit: int
) -> None:
    """Some at a time, going on from any place: each once, in the order of key, time and arrival."""
    with ExitStack() as stack:
        both = _fresh(stack, emptied)
        written = [capture(url, second, number) for number, (url, second) in enumerate(rows)]
        both.write(written, [])
        expected = sorted(
            (each.urlkey, milliseconds(each.captured_at), number)
            for number, each in enumerate(written)
            if keys.low <= each.urlkey < keys.high
        )
        if descending:
            expected.reverse()
        for database in both.readers:
            source, found = CaptureRows(database), list[Position]()
            while True:
                after = found[-1] if found else None
                if keys.is_one:
                    part = source.of_key(
                        keys.low, EVERYTHING, after=after, descending=descending, limit=limit
                    )
                else:
                    part = source.of_range(keys, after=after, descending=descending, limit=limit)
                found += [row.position for row in part]
                if len(part) < limit:
                    break
            assert [(each.urlkey, each.captured_ms) for each in found] == [
                each[:2] for each in expected
            ]
            assert len(set(found)) == len(found)
            assert source.count(keys, EVERYTHING, most=1_000) == len(found)
            assert source.count(keys, EVERYTHING, most=2) == min(2, len(found))
            for offset in (0, 1, len(found) - 1, len(found)):
                place = source.place(keys, EVERYTHING, offset=max(offset, 0), descending=descending)
                assert place == (found[max(offset, 0)] if max(offset, 0) < len(found) else None)
            if len(found) > 2:
                place = source.place(
                    keys, EVERYTHING, offset=1, after=found[0], descending=descending
                )
                assert place == found[2]


@pytest.mark.parametrize("descending", [False, True])
def test_a_span_of_time_bounds_the_rows_of_a_key(emptied: str, descending: bool) -> None:
    """Both ends belong to it."""
    with ExitStack() as stack:
        both = _fresh(stack, emptied)
        both.write([capture(URLS[0], second, second) for second in range(6)], [])
        span = Between(*(milliseconds(NOW + timedelta(seconds=each)) for each in (2, 4)))
        for database in both.readers:
            rows = CaptureRows(database).of_key(KEYS[0], span, descending=descending, limit=9)
            seconds = [row.position.captured_ms // 1000 % 60 for row in rows]
            assert seconds == ([4, 3, 2] if descending else [2, 3, 4])
            assert CaptureRows(database).count(KeyRange.of_key(KEYS[0]), span, most=9) == 3


# ------------------------------------------------------------------------------- mementos

_pages = st.lists(
    st.builds(
        PageInfo,
        page_id=st.uuids().map(str),
        url=st.sampled_from(URLS[:4]),
        final_url=st.just("https://a.example/final"),
        captured_at=st.integers(-5, 5).map(lambda n: warc_date(NOW + timedelta(seconds=n))),
        outcome=st.sampled_from(Outcome),
        status=st.sampled_from((200, 404)),
        mime=st.sampled_from(("text/html", "application/zip", "application/pdf")),
        page_class=st.sampled_from((PageClass.OK, PageClass.CHALLENGE, PageClass.SOFT_404)),
    ),
    max_size=12,
    unique_by=lambda info: info.page_id,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_pages, st.data(), st.sampled_from(URLS[:4]), st.integers(-7, 7))
def test_mementos_are_the_same_in_both_and_agree_with_a_model(
    emptied: str, pages: list[PageInfo], data: st.DataObject, url: str, second: int
) -> None:
    """Those that are offered, once an address, in the order of time, with their neighbours."""
    with_dom = data.draw(st.sets(st.sampled_from(pages))) if pages else set()
    doms = [
        replace(capture(info.url, 0, number, info.page_id), url=artifact_uri(ArtifactKind.DOM, ""))
        for number, info in enumerate(with_dom)
    ]
    with ExitStack() as stack:
        both = _fresh(stack, emptied)
        both.write(doms, pages)
        offered = sorted(
            {
                (_stamp(info), info.url)
                for info in pages
                if info.outcome not in (Outcome.FAILED, Outcome.SKIPPED)
                and info.page_class is not PageClass.CHALLENGE
                and (info.mime != "application/zip" or info in with_dom)
                and replay_key(info.url) == replay_key(url)
            }
        )
        twins = {url, url.replace("https:", "http:"), url.replace("http:", "https:")}
        mine = [each for each in offered if each[1] in twins] or offered
        at = timestamp14(NOW + timedelta(seconds=second))
        for database in both.readers:
            mementos = Mementos(database, Open())
            listed = [(each.timestamp, each.url) for each in mementos.listed(url)]
            assert sorted(listed) == mine
            assert [each[0] for each in listed] == [each[0] for each in mine]
            nearest = mementos.nearest(url, NOW + timedelta(seconds=second))
            assert (nearest is None) == (not mine)
            assert nearest is None or (nearest.timestamp, nearest.url) in mine
            around = mementos.around(url, at)
            moments = [
                each and each.timestamp
                for each in (around.first, around.previous, around.next, around.last)
            ]
            assert moments == [
                mine[0][0] if mine else None,
                max((each[0] for each in mine if each[0] < at), default=None),
                min((each[0] for each in mine if each[0] > at), default=None),
                mine[-1][0] if mine else None,
            ]


def _stamp(info: PageInfo) -> str:
    return "".join(character for character in info.captured_at[:19] if character.isdigit())


def test_a_memento_behind_many_hidden_ones_is_found(tmp_path: Path) -> None:
    """However many take-downs hide its neighbours, and without asking for each of them."""
    path = tmp_path / "captures.sqlite"
    with closing(SqliteCaptureIndex(path)) as writer, writer.transaction():
        for number in range(1_200):
            at = warc_date(NOW + timedelta(seconds=number))
            name = "shown" if number == 700 else f"hidden {number}"
            writer.add_page(
                PageInfo(name, URLS[0], URLS[0], at, Outcome.COMPLETE, mime="text/html")
            )
    asked: list[str] = []

    class Counted(KeptSqliteDatabase):
        def rows(self, query: str, values: object) -> list[object]:
            asked.append(query)
            return super().rows(query, values)  # type: ignore[arg-type]

    class Hiding:
        def pages(self, pages: list[Visit]) -> dict[str, Takedown]:
            return {each.page_id: HIDDEN for each in pages if each.page_id != "shown"}

    with closing(Counted(path)) as database:
        mementos = Mementos(database, Hiding())  # type: ignore[arg-type]
        shown = timestamp14(NOW + timedelta(seconds=700))
        assert [each.timestamp for each in mementos.listed(URLS[0])] == [shown]
        nearest = mementos.nearest(URLS[0], NOW)
        assert nearest is not None
        assert nearest.timestamp == shown
        around = mementos.around(URLS[0], timestamp14(NOW))
        assert around.previous is None
        assert around.next == around.first == around.last == nearest
    assert len(asked) < 30


def test_questions_read_ranges_of_an_index_and_sort_nothing(tmp_path: Path) -> None:
    """So that an answer takes as long with a thousand million rows as with ten."""
    path = tmp_path / "captures.sqlite"
    with closing(SqliteCaptureIndex(path)) as writer:
        writer.add_captures([capture(URLS[0], 0, 0)])
    plans: list[str] = []

    class Explained(KeptSqliteDatabase):
        def rows(self, query: str, values: object) -> list[object]:
            with closing(sqlite3.connect(path)) as connection:
                found = connection.execute(f"EXPLAIN QUERY PLAN {query}", values)  # type: ignore[call-overload]
                plans.extend(row[3] for row in found)
            return super().rows(query, values)  # type: ignore[arg-type]

    with closing(Explained(path)) as database:
        rows, mementos = CaptureRows(database), Mementos(database, Open())
        prefix, one = KeyRange.of_prefix("example,a"), KeyRange.of_key(KEYS[0])
        place = Position(KEYS[0], 0, 0)
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


def test_what_can_be_shown_is_what_the_front_shows() -> None:
    """One rule in two places."""
    assert set(SHOWN_TYPES) == _SHOWN_TYPES | {_PDF}
