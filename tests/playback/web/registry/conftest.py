"""A registry with one page, and the front that shows it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.layout import Layout
from tests.support.registry_builder import FixedRegistry, RegistryBuilder, RegistryFront, open_front
from tests.support.services.registries import open_registry


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database file of a filled registry, of which tests get copies: making one takes a while."""
    layout = Layout(tmp_path_factory.mktemp("filled"))
    opened = open_registry(layout)
    RegistryBuilder(opened).fill()
    opened.close()
    return layout.links_db


@pytest.fixture
def registry_builder(filled: Path, tmp_path: Path) -> Iterator[RegistryBuilder]:
    """Yield a registry with one page: a dead link, one that works, and one that is no valid URL."""
    layout = Layout(tmp_path)
    layout.links_db.parent.mkdir(parents=True)
    shutil.copyfile(filled, layout.links_db)
    opened = open_registry(layout)
    yield RegistryBuilder(opened, tmp_path)
    opened.close()


@pytest.fixture
def front(registry_builder: RegistryBuilder, tmp_path: Path) -> Iterator[RegistryFront]:
    """Yield the front of the registry of `registry_builder`."""
    with open_front(tmp_path, FixedRegistry(registry_builder.store)) as registry_front:
        yield registry_front


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryBuilder]:
    """Yield an empty registry, on either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    opened = open_registry(Layout(tmp_path), url)
    yield RegistryBuilder(opened, tmp_path)
    opened.close()
