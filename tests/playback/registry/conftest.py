"""A registry with one page, and the front that shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.layout import Layout
from links.store.store import open_store
from tests.playback.registry.shelf import Front, Given, Shelf, open_front


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """A registry with one page: a dead link, one that works, and one that is none."""
    opened = open_store(Layout(tmp_path))
    found = Shelf(opened, tmp_path)
    found.fill()
    yield found
    opened.close()


@pytest.fixture
def front(shelf: Shelf, tmp_path: Path) -> Iterator[Front]:
    """The front of that registry."""
    with open_front(tmp_path, Given(shelf.store)) as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """An empty registry, on either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    opened = open_store(Layout(tmp_path), url)
    yield Shelf(opened, tmp_path)
    opened.close()
