"""Tests of `playback.takedown_audit`."""

import contextlib

import pytest

from core.timestamps import timestamp14
from playback.access.decision_store import open_decisions
from playback.takedown_audit import LeakTraces, every_route, front_paths
from tests.support.playback_fixtures import NOW, FullSite
from warc.index.database import open_database

pytestmark = pytest.mark.playback


TS = timestamp14(NOW)


_ODD_RESTS = (
    "https://never.example/",
    f"{TS}/https://never.example/",
    "99999999999999/https://never.example/",
    "00000000000000/https://never.example/",
    f"{TS}tx_/https://never.example/",
    f"{TS}zz_/https://never.example/",
    f"{TS}/{TS}/https://never.example/",
    f"99999999999999/{TS}/https://never.example/",
    "2026/https://never.example/",
    "9999/https://never.example/",
    "link/https://never.example/",
    "link/1/https://never.example/",
    "json/99999999999999999999/https://never.example/",
    "https://[::1/",
    "https://never.example:99999/",
    "https://never.example/%ff%00%7C%257C",
    "https://xn--.example/",
    "javascript:alert(1)",
    "urn:dom:https://never.example/",
    "%00",
    "%",
    "",
    "//",
    "a" * 9_000,
)


def test_no_route_fails_on_odd_urls_and_timestamps(full: FullSite) -> None:
    """Every route of the front has a page of its own for what it does not have, never a 500."""
    with (
        contextlib.closing(open_database(full.builder.layout, "")) as database,
        contextlib.closing(open_decisions(full.builder.layout)) as decisions,
    ):
        paths = front_paths(every_route(database, decisions, full.served.replay))
    targets = []
    for path in paths:
        before = path.replace("{wiki}", "any").partition("{rest")[0]
        queries = ("", "?url=https://[::1/", "?q=%00&page=x", "?url=x&timestamp=9&limit=-1")
        rests = _ODD_RESTS if "{rest" in path else queries
        targets += [before + each for each in rests]

    failed = {each: status for each in targets if (status := full.served.get(each).status) >= 500}

    assert len(targets) > 300
    assert failed == {}


def test_words_of_the_program_are_no_traces() -> None:
    """A page may be called like a part of the front; its other texts are searched for."""
    traces = LeakTraces([], ["About", "The secret garden"], [], [])
    assert traces.search(b"<h1>About this crawler</h1>")

    traces.omit_texts_of(b"<h1>About this crawler</h1>")

    assert traces.search(b"<h1>About this crawler</h1>") == ""
    assert "secret garden" in traces.search(b"<li>The secret garden</li>")
