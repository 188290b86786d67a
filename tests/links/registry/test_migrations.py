"""The registry's tables are brought up to date when it is opened."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from core.errors import CollectionVersionError
from core.layout import Layout
from links.registry.database import (
    HEAD,
    MIGRATIONS_FOLDER,
    RegistryStore,
    open_registry_store,
    steps,
    upgrade_schema,
    version_of,
)


def test_the_newest_step_is_the_one_that_is_named() -> None:
    """What is asked of each registry without loading the steps."""
    assert steps().get_current_head() == HEAD


def test_a_newer_registry_is_left_alone(store: RegistryStore) -> None:
    """The error says what to install, and nothing is changed."""
    with store.writing() as rows:
        rows.execute(text("UPDATE link_version SET version_num = '9999'"))
        with pytest.raises(CollectionVersionError, match=r"9999.*install"):
            upgrade_schema(rows, store.where)
        assert version_of(rows) == "9999"


def test_tables_without_a_version_are_not_taken_for_ours(tmp_path: Path) -> None:
    """Somebody else's database is not filled."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with closing(sqlite3.connect(layout.links_db)) as other:
        other.execute("CREATE TABLE link_urls (id INTEGER)")

    with pytest.raises(CollectionVersionError, match="do not say their version"):
        open_registry_store(layout)


def test_an_installed_package_has_the_steps() -> None:
    """They are found as packages, so a wheel holds them."""
    for folder in (MIGRATIONS_FOLDER, MIGRATIONS_FOLDER / "versions"):
        assert (folder / "__init__.py").is_file(), folder
