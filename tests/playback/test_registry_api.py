"""What the registry answers to programs."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from core.layout import Layout
from links.states import State
from links.store.store import Store, open_store
from tests.playback.registry_shelf import TODAY, Front, Given, Shelf, open_front

DEAD, FINE = "https://example.net/gone", "https://example.net/fine"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty registry."""
    opened = open_store(Layout(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def shelf(store: Store) -> Shelf:
    """A registry with one page: a dead link, one that works, and one that is none."""
    found = Shelf(store)
    found.page(1, "Foo bar", DEAD, FINE, "http://example.com:8o8o/foo")
    found.state(DEAD, State.DEAD, code=18, first_fail_day=TODAY - 183, fails=9, checked_day=TODAY - 14)
    found.state(FINE, State.ALIVE, code=1, checked_day=TODAY - 1)
    return found


@pytest.fixture
def front(shelf: Shelf, tmp_path: Path) -> Iterator[Front]:
    """The front that shows it."""
    with open_front(tmp_path, Given(shelf.store)) as found:
        yield found


def test_smoke(front: Front) -> None:
    for q in ("", "&scope=all", "&format=xml", "&format=html", "&lang=de"):
        r = front.page("dbname=dewiki@WMF&curid=1" + q)
        print(r.status_code, dict(r.headers)); print(r.text)
    for p in ("/externalLinkProblem?dbname=dewiki@WMF&pageid=1", "/externalLinkInfo?dbname=dewiki@WMF&pageid=1&lang=de", "/links", "/links/list?dbname=dewiki&with=unreachable","/links/api/list?dbname=dewiki&with=unreachable", "/links?pattern=*.example.net"):
        r = front.get(p)
        print(r.status_code, dict(r.headers)); print(r.text)
    assert 0
