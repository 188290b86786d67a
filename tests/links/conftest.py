"""A registry on each database it runs on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.layout import Layout
from links.store.store import Store, open_store


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A registry of one collection."""
    store = open_store(Layout(tmp_path))
    yield store
    store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty registry, on either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    opened = open_store(Layout(tmp_path), url)
    yield opened
    opened.close()
