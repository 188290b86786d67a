"""Capture offered when checks found some broken; the same on both databases, on every way."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from core.captures import RecordLocation
from core.config.database_urls import parse_index_url
from core.page_classes import PageClass, class_rank
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, QaVerdict
from core.timestamps import timestamp14, warc_date
from playback.access.control import AccessControl
from playback.access.takedowns import TakedownSet
from playback.mementos import MementoIndex
from playback.replay.capture_lookup import CaptureLookup
from playback.web.copy_lookup import CopyLookup, UrlSpellings
from playback.web.page_store import CapturedPage, PageStore
from tests.support.playback_fixtures import NOW
from warc.index.database import IndexDatabase, SqliteDatabase
from warc.index.postgres import PostgresCaptureIndex, PostgresDatabase
from warc.index.protocol import quality_row
from warc.index.queries import FEW
from warc.index.sqlite import SqliteCaptureIndex

pytestmark = pytest.mark.playback

URL = "https://a.example/page"


class IndexBuilder:
    """An index that is written as the proxy does, and every way that leads to a capture."""

    def __init__(self, writer: SqliteCaptureIndex | PostgresCaptureIndex, database: IndexDatabase) -> None:
        self._writer = writer
        self._checks = 0
        self.database = database
        self.store = PageStore(database)

    def page(self, day: int, *, page_class: PageClass = PageClass.OK, url: str = URL) -> str:
        """Add a capture of that day; return its page identifier."""
        page_id = hashlib.sha256(f"{url} {day}".encode()).hexdigest()[:16]
        about = PageInfo(page_id, url, url, warc_date(at(day)), VisitOutcome.COMPLETE, mime="text/html")
        self._writer.add_page(replace(about, status=200, page_class=page_class))
        return page_id

    def check(
        self,
        page_id: str,
        verdict: QaVerdict = QaVerdict.BROKEN,
        *,
        day: int = 100,
        better: str = "",
        level: str = "images",
    ) -> None:
        """Add a playback check of that page, made on `day`."""
        check = PlaybackCheck(page_id, URL, warc_date(NOW), level, warc_date(at(day)), "e", verdict)
        self._checks += 1
        place = RecordLocation("artifacts-1.warc.gz", self._checks, 1)
        self._writer.add_qualities([quality_row(replace(check, better=better), place)])

    def offered(self, day: int) -> set[int]:
        """Return the days of the captures that each look-up finds near that day; one, when they agree."""
        when = at(day) + timedelta(seconds=1)  # of no capture's own second
        capture = CaptureLookup(self.database).page(URL, when)
        near = self.store.nearest(URL, when)
        memento = self.mementos.nearest(URL, when)
        assert capture is not None
        assert near is not None
        assert memento is not None
        return {day_of(each.timestamp) for each in (capture, near, memento)}

    def newest(self) -> set[int]:
        """Return the days of the captures that each look-up offers beside links; one, when they agree."""
        (offer,) = CopyLookup(self.database, self.store).of([UrlSpellings.of(URL)])
        own = CopyLookup(self.database, self.store).newest([URL])
        near = self.store.nearest(URL, None)
        assert offer is not None
        assert offer.page is not None
        assert near is not None
        return {day_of(each) for each in (offer.page.timestamp, own[URL], near.timestamp)}

    @property
    def mementos(self) -> MementoIndex:
        """Return the index's mementos, none of them taken down."""
        permits = AccessControl(TakedownSet(()), self.database.rows, lambda: NOW)
        return MementoIndex(CaptureLookup(self.database), permits)


def at(day: int) -> datetime:
    """Return the time of that day's capture."""
    return NOW + timedelta(days=day)


def day_of(timestamp: str) -> int:
    """Which day's capture it is."""
    return next(day for day in range(400) if timestamp14(at(day)) == timestamp)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def index_builder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexBuilder]:
    """Yield an empty index, on either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    path = tmp_path / "captures.sqlite"
    database: IndexDatabase = PostgresDatabase(parse_index_url(url)) if url else SqliteDatabase(path)
    writer = PostgresCaptureIndex(parse_index_url(url)) if url else SqliteCaptureIndex(path)
    with ExitStack() as stack:
        stack.callback(database.close)
        stack.callback(writer.close)
        yield IndexBuilder(writer, database)


@pytest.mark.parametrize("others", [0, FEW])
def test_a_broken_capture_is_not_offered_where_a_good_one_is(index_builder: IndexBuilder, others: int) -> None:
    """Of few captures and of many; a capture that no check looked at counts as good."""
    for day in (1, 5, 10, *range(200, 200 + others)):
        index_builder.page(day)
    assert index_builder.offered(5) == {5}
    index_builder.check(index_builder.page(5))

    assert index_builder.offered(5) == {1}
    index_builder.check(index_builder.page(1))
    assert index_builder.offered(5) == {10}


@pytest.mark.parametrize("others", [0, FEW])
def test_of_broken_captures_that_without_a_better_one_goes_first(index_builder: IndexBuilder, others: int) -> None:
    """Something is offered, however bad all of it is; a worse class is still worse."""
    for day in (1, 5, *range(200, 200 + others)):
        index_builder.check(index_builder.page(day), better="other" if day >= 5 else "")
    index_builder.page(6, page_class=PageClass.PARKED)

    assert index_builder.offered(5) == {1}


def test_the_newest_good_capture_stands_beside_links(index_builder: IndexBuilder) -> None:
    """A newer one that is broken does not; where all are broken, one of them does."""
    for day in (1, 5):
        index_builder.page(day)
    index_builder.check(index_builder.page(9))
    assert index_builder.newest() == {5}

    for day in (1, 5):
        index_builder.check(index_builder.page(day))
    assert index_builder.newest() == {9}


def test_a_wall_that_is_broken_is_offered_as_any_wall_is(index_builder: IndexBuilder) -> None:
    """A check moves a copy behind others, it takes none away."""
    page_id = index_builder.page(1, page_class=PageClass.LOGIN_WALL)
    index_builder.check(page_id, better="other")

    assert index_builder.newest() == {1}


def test_the_very_capture_that_is_asked_for_is_shown_however_broken(index_builder: IndexBuilder) -> None:
    """On every way; and the reader is told of a better one."""
    index_builder.page(1)
    index_builder.check(index_builder.page(5), better="other")
    capture = CaptureLookup(index_builder.database).page(URL, at(5))
    near = index_builder.store.nearest(URL, at(5))
    memento = index_builder.mementos.nearest(URL, at(5))

    assert capture is not None
    assert near is not None
    assert memento is not None
    assert {day_of(each.timestamp) for each in (capture, near, memento)} == {5}
    better = index_builder.store.better(near)
    assert better is not None
    assert day_of(better.timestamp) == 1
    assert near.is_good
    assert (near.rank, near.class_rank) == (2, 0)


def test_the_newest_check_at_the_default_level_counts(index_builder: IndexBuilder) -> None:
    """Whichever was written first; one of another level says nothing of what is offered."""
    first, second = index_builder.page(1), index_builder.page(9)
    index_builder.check(second, level="full")
    assert index_builder.offered(9) == {9}
    index_builder.check(second, day=50)
    index_builder.check(second, QaVerdict.GOOD, day=40)
    assert index_builder.offered(9) == {1}
    index_builder.check(second, QaVerdict.GOOD, day=60)
    index_builder.check(first, QaVerdict.DOUBTFUL)

    assert index_builder.offered(9) == {9}
    assert index_builder.offered(1) == {1}


def test_sql_and_python_agree_on_the_rank(index_builder: IndexBuilder) -> None:
    """For every class, checked or not."""
    for day, page_class in enumerate(PageClass):
        page_id = index_builder.page(day, page_class=page_class)
        if day % 2:
            index_builder.check(page_id, better="other")
    pages: tuple[CapturedPage, ...] = index_builder.store.captures(URL, limit=50)

    assert len(pages) == len(PageClass)
    for page in pages:
        quality = 2 * (day_of(page.timestamp) % 2)
        assert page.rank == class_rank(page.page_class, page.status) + quality
