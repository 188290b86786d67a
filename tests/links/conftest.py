"""A registry on each database it runs on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.layout import Layout
from links.store.store import Store, open_store
from tests.services.postgres import PostgresServer


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A registry of one collection."""
    store = open_store(Layout(tmp_path))
    yield store
    store.close()


@pytest.fixture(scope="session")
def shared_registry(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with the registry's tables, of which others are copies: its name."""
    url = postgres.database()
    open_store(Layout(tmp_path_factory.mktemp("shared")), url).close()
    return url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty registry, on either database."""
    url = ""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database(like=request.getfixturevalue("shared_registry"))
    opened = open_store(Layout(tmp_path), url)
    yield opened
    opened.close()
