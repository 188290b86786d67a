"""A registry on each database it runs on."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.layout import Layout
from links.registry.database import HEAD, RegistryStore
from links.registry.schema import metadata
from tests.support.services.postgres import PostgresServer
from tests.support.services.registries import open_registry

_FARMS = "SELECT id, name, address, internal FROM weboid.link_farms ORDER BY id"


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[RegistryStore]:
    """Open a registry of one collection, on SQLite."""
    store = open_registry(Layout(tmp_path))
    yield store
    store.close()


class SharedRegistry:
    """A registry on PostgreSQL that tests have after each other, emptied in between.

    A database has hundreds of files, which take longer to remove than most tests run.
    """

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._template = ""
        self._url = ""
        self._farms: list[tuple[object, ...]] = []

    def fresh(self) -> str:
        """Return the URL of a registry that no test had before: PostgreSQL has no statistics of its tables."""
        return self._server.database(like=self._made())

    def _made(self) -> str:
        if not self._template:
            url = self._server.database()
            open_registry(Layout(self._folder), url).close()
            with psycopg.connect(url) as client:
                self._farms = client.execute(_FARMS).fetchall()
            self._template = url.rpartition("/")[2]
        return self._template

    def empty(self) -> str:
        """Return the URL of an empty registry; of a new one when the last test spoiled it."""
        template = self._made()
        if not self._url or not self._is_emptied():
            self._url = self._server.database(like=template)
        return self._url

    def _is_emptied(self) -> bool:
        tables = [name for name in metadata.tables if name != "link_farms"]
        numbered = [name for name in tables if "id" in metadata.tables[name].columns]
        with psycopg.connect(self._url) as client:
            client.execute("SET search_path = weboid; SET lock_timeout = '5s'")
            try:
                version = client.execute("SELECT version_num FROM link_version").fetchone()
                client.execute("SELECT * FROM link_externallinks LIMIT 0")
                client.execute(";".join(f"DELETE FROM {name}" for name in tables).encode())
                client.execute("DELETE FROM link_farms WHERE id > 1")
                farms = client.execute(_FARMS).fetchall()
                for name in numbered:
                    sequence = f"pg_get_serial_sequence('{name}', 'id')"
                    client.execute(f"SELECT setval({sequence}, 1, false)".encode())
            except psycopg.Error:
                client.rollback()
                return False
        return version == (HEAD,) and farms == self._farms


@pytest.fixture(scope="session")
def shared_registry(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> SharedRegistry:
    """Return the registry that tests on PostgreSQL use one after the other."""
    return SharedRegistry(postgres, tmp_path_factory.mktemp("shared"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryStore]:
    """Open an empty registry, on either database."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("shared_registry").empty()
    opened = open_registry(Layout(tmp_path), url)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def unknown_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryStore]:
    """Open one like `store`, but without statistics: plans are made as for tables of any size."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("shared_registry").fresh()
    opened = open_registry(Layout(tmp_path), url)
    yield opened
    opened.close()
