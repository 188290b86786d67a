"""A registry with one page, and the front that shows it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.layout import Layout
from tests.support.registry_shelf import FixedRegistry, Front, Shelf, open_front
from tests.support.services.registries import open_registry


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a filled registry, of which tests get copies: making one takes a while."""
    layout = Layout(tmp_path_factory.mktemp("filled"))
    opened = open_registry(layout)
    Shelf(opened).fill()
    opened.close()
    return layout.links_db


@pytest.fixture
def shelf(filled: Path, tmp_path: Path) -> Iterator[Shelf]:
    """A registry with one page: a dead link, one that works, and one that is none."""
    layout = Layout(tmp_path)
    layout.links_db.parent.mkdir(parents=True)
    shutil.copyfile(filled, layout.links_db)
    opened = open_registry(layout)
    yield Shelf(opened, tmp_path)
    opened.close()


@pytest.fixture
def front(shelf: Shelf, tmp_path: Path) -> Iterator[Front]:
    """The front of that registry."""
    with open_front(tmp_path, FixedRegistry(shelf.store)) as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """An empty registry, on either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    opened = open_registry(Layout(tmp_path), url)
    yield Shelf(opened, tmp_path)
    opened.close()
