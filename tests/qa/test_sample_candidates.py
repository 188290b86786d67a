"""The pages of an index as a stream of candidates: all of them once, each host's side by side."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

import pytest

from core.config.database_urls import parse_index_url
from core.layout import Layout
from core.page_classes import PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, QaVerdict
from core.timestamps import warc_date
from links.registry.database import RegistryStore
from qa import sample as module
from qa.check_store import store_checks
from qa.check_table import CheckedPage
from qa.sample import CandidateFilter, SampleCandidate, newest_captures, read_candidates
from tests.support.playback_fixtures import NOW
from tests.support.services.registries import open_registry
from warc.index.database import IndexDatabase, SqliteDatabase
from warc.index.postgres import PostgresCaptureIndex, PostgresDatabase
from warc.index.sqlite import SqliteCaptureIndex

WANTED = CandidateFilter("images", "engine 1")


class SampleIndexBuilder:
    """An index that is written as the proxy does, and a registry beside it."""

    def __init__(
        self, writer: SqliteCaptureIndex | PostgresCaptureIndex, database: IndexDatabase, registry: RegistryStore
    ) -> None:
        self._writer = writer
        self.database = database
        self.registry = registry

    def page(
        self, url: str, *, at: datetime = NOW, outcome: VisitOutcome = VisitOutcome.COMPLETE, size: int = 1_000
    ) -> str:
        """Add a page; return its id."""
        page_id = f"{abs(hash((url, at))):x}"
        about = PageInfo(page_id, url, url, warc_date(at), outcome, mime="text/html")
        about = replace(about, status=200, page_class=PageClass.OK, stored_bytes=size)
        self._writer.add_page(about)
        return page_id

    def check(self, page_id: str, engine: str = WANTED.engine) -> None:
        """Store a check of the page."""
        check = PlaybackCheck(
            page_id, "https://a.example/", warc_date(NOW), "images", warc_date(NOW), engine,
            QaVerdict.GOOD,
        )  # fmt: skip
        with self.registry.writing() as rows:
            store_checks(rows, [CheckedPage(check, "a.example")], NOW)

    def candidates(self, wanted: CandidateFilter = WANTED) -> list[SampleCandidate]:
        """Return all candidates."""
        return list(read_candidates(self.database, self.registry, wanted))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def index_builder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SampleIndexBuilder]:
    """Open an empty index, on either database, that is read a few rows at a time."""
    monkeypatch.setattr(module, "_CHUNK", 3)
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    path = layout.captures_db
    database: IndexDatabase = PostgresDatabase(parse_index_url(url)) if url else SqliteDatabase(path)
    writer = PostgresCaptureIndex(parse_index_url(url)) if url else SqliteCaptureIndex(path)
    registry = open_registry(layout, "")
    with ExitStack() as stack:
        for each in (database, writer, registry):
            stack.callback(each.close)
        yield SampleIndexBuilder(writer, database, registry)


def test_every_page_with_a_copy_comes_once_beside_those_of_its_host(index_builder: SampleIndexBuilder) -> None:
    """However few rows are read at a time; visits that brought no copy do not come."""
    long = "x" * 700  # longer than what PostgreSQL has of a key in its index
    urls = [f"https://h{host}.example/{path}" for host in range(4) for path in ("a", "b", long)]
    wanted = {index_builder.page(url, at=NOW + timedelta(days=day)) for url in urls for day in range(2)}
    for outcome in (VisitOutcome.FAILED, VisitOutcome.SKIPPED):
        index_builder.page(f"https://h1.example/{outcome}", outcome=outcome)

    candidates = index_builder.candidates()

    assert len(candidates) == len(wanted)
    assert {each.page_id for each in candidates} == wanted
    assert len([host for host, _ in groupby(each.host for each in candidates)]) == 4


def test_what_was_checked_is_left_out_and_its_host_is_known(index_builder: SampleIndexBuilder) -> None:
    """A check by another engine says nothing."""
    one = index_builder.page("https://a.example/1")
    two = index_builder.page("https://a.example/2")
    old = index_builder.page("https://b.example/")
    index_builder.check(one)
    index_builder.check(old, engine="engine 0")

    assert [(each.page_id, each.host_checked) for each in index_builder.candidates()] == [(two, True), (old, False)]
    again = index_builder.candidates(replace(WANTED, again=True))
    assert {each.page_id for each in again} == {one, two, old}


def test_a_capture_knows_how_large_the_one_before_was(index_builder: SampleIndexBuilder) -> None:
    """That of the very URL; also when only the newer one is wanted."""
    index_builder.page("https://a.example/page", size=5_000)
    index_builder.page("https://a.example/page?", size=1, at=NOW + timedelta(days=1))
    index_builder.page("https://a.example/page", size=9_000, at=NOW + timedelta(days=2))

    (new,) = index_builder.candidates(replace(WANTED, since=NOW + timedelta(days=2)))

    assert (new.stored_bytes, new.before_bytes) == (9_000, 5_000)


def test_of_one_host_no_other_pages_come(index_builder: SampleIndexBuilder) -> None:
    """Not of hosts below it, nor of those whose names begin so."""
    own = {index_builder.page("https://a.example/"), index_builder.page("http://a.example:8080/x")}
    for other in ("https://www.a.example/", "https://b.a.example/", "https://aa.example/"):
        index_builder.page(other)

    assert {each.page_id for each in index_builder.candidates(replace(WANTED, host="a.example"))} == own


def test_of_a_url_the_newest_capture_that_has_a_copy_is_found(index_builder: SampleIndexBuilder) -> None:
    """And of one that was never captured, or is none, nothing."""
    index_builder.page("https://a.example/")
    newer = index_builder.page("https://a.example/", at=NOW + timedelta(days=1))
    index_builder.page("https://a.example/", at=NOW + timedelta(days=2), outcome=VisitOutcome.FAILED)

    captures = dict(newest_captures(index_builder.database, ["https://a.example/", "https://no.example/", "no URL"]))

    assert captures["https://no.example/"] is captures["no URL"] is None
    assert captures["https://a.example/"] is not None
    assert captures["https://a.example/"].page_id == newer
