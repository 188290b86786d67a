"""Stored level of a visit, and the settings and checks that it leaves out: no browser."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.config.profile import check_settings
from core.config.settings import Settings
from core.config.stored_level import StoredLevel
from core.errors import ConfigError
from core.layout import COLLECTION_VERSION, Layout
from core.page_manifest import PageInfo, PageResource, VisitOutcome, parse_pageinfo
from crawler.capture.page_capture import announce_wikis, stored_level, wiki_of
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.profiles import load_profile
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import LevelActor, target_of
from qa.compare.content_comparison import compare_resources, part_at_capture
from weboid.cli.support.run_options import open_stored_levels, with_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIKIS = {
    "handbook": "https://wiki.example/wiki/$1",
    "farm": "https://wiki.example/$1",
    "query": "https://q.example/index.php?title=$1&uselang=de",
    "bare": "$1",
}


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    """Yield a frontier to which the wikis are announced."""
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        announce_wikis(frontier, WIKIS)
        yield frontier


def queued(frontier: Frontier, via: str, url: str = "https://a.example/") -> FrontierItem:
    """Queue an item that was found on the page `via`, and claim it."""
    frontier.add([NewItem(url, via=via)], now=NOW)
    (item,) = frontier.claim(now=NOW, worker="one")
    return item


@pytest.mark.parametrize(
    ("page", "wiki"),
    [
        ("https://wiki.example/wiki/Main_Page", "handbook"),
        ("https://wiki.example/Main_Page", "farm"),
        ("https://q.example/index.php?title=A&uselang=de", "query"),
        ("https://q.example/index.php?title=A", ""),
        ("https://wiki.example.org/wiki/A", ""),
        ("", ""),
    ],
)
def test_wiki_of_a_page_is_that_with_the_longest_address(page: str, wiki: str) -> None:
    """Several wikis may share a host; an address without a beginning is nobody's."""
    assert wiki_of(page, WIKIS) == wiki


def test_stored_level_is_that_of_the_wiki_that_cites_the_link(frontier: Frontier, tmp_path: Path) -> None:
    """Decided when the visit begins, so a decision counts for what waits already."""
    layout = Layout(tmp_path / "collection")
    layout.root.mkdir()
    layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
    item = queued(frontier, "https://wiki.example/wiki/Main_Page")
    with open_stored_levels(layout, "") as level_of:
        assert stored_level(item, Settings(), frontier, level_of) is StoredLevel.EVERYTHING

        store = open_decisions(layout)
        book = LevelStore(store)
        wiki = target_of(wiki="handbook")
        book.decide([wiki], StoredLevel.TEXT, actor=LevelActor("root"), now=NOW, is_stored=True)
        store.close()

        assert stored_level(item, Settings(), frontier, level_of) is StoredLevel.TEXT
        assert stored_level(replace(item, via=""), Settings(), frontier, level_of) is StoredLevel.EVERYTHING
        assert stored_level(replace(item, via="https://wiki.example/A"), Settings(), frontier, level_of) is (
            StoredLevel.EVERYTHING
        )
        own = with_store(Settings(), "no-media")
        assert stored_level(item, own, frontier, level_of) is StoredLevel.NO_MEDIA


def test_wikis_are_announced_once_and_again_when_they_move(frontier: Frontier) -> None:
    """Every order makes all workers read: what they know is not ordered again."""
    version = frontier.stats(NOW).version
    announce_wikis(frontier, WIKIS)
    assert frontier.stats(NOW).version == version
    announce_wikis(frontier, {"handbook": "https://moved.example/$1"})
    assert frontier.stats(NOW).version > version
    assert wiki_of("https://moved.example/A", frontier.orders("wiki")) == "handbook"


def test_a_profile_names_a_level_or_none() -> None:
    """An unknown level is refused when the profile is read; the error lists the known ones."""
    check_settings(with_store(Settings(), "text"), source="test")
    with pytest.raises(ConfigError, match="store must be one of text, no-media, everything"):
        check_settings(with_store(Settings(), "images"), source="test")


def test_the_profile_of_texts_records_texts() -> None:
    """And whoever extends it may say otherwise."""
    assert load_profile("text-only").visit.store == "text"
    assert load_profile("default").visit.store == ""


def test_what_was_left_out_is_no_part_that_a_copy_lacks() -> None:
    """QA: the copy asks for the image and gets none, and that is no fault of the copy."""
    image = PageResource("https://a.example/i.png", "GET", 403, "text/plain", "Image", "left-out", "level: image")
    seen = part_at_capture(image)
    compared = compare_resources([seen], [replace(seen, status=404)])
    assert (compared.seen, compared.lost, compared.score) == (0, (), 1.0)


def test_manifests_of_before_were_recorded_whole() -> None:
    """A manifest without the fields says everything; one with them comes back as it was."""
    page = PageInfo("p", "https://a.example/", "https://a.example/", "2026-03-01T12:00:00Z", VisitOutcome.COMPLETE)
    lines = page.to_json().replace(b',\n "stored": "everything",\n "left_out": 0', b"")
    assert b'stored"' not in lines
    assert parse_pageinfo(lines).stored == "everything"
    reduced_page = replace(page, stored="text", left_out=3)
    assert parse_pageinfo(reduced_page.to_json()) == reduced_page
