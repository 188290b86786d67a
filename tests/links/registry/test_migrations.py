"""The registry's tables are brought up to date when it is opened."""

import sqlite3
import tomllib
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
    migration_files,
    open_registry_store,
    upgrade_schema,
    version_of,
)

ROOT = Path(__file__).resolve().parents[3]


def test_head_is_the_newest_step_and_each_step_is_there_for_both_databases() -> None:
    """Each database gets the same steps, the last of which is `HEAD`."""
    steps = [
        [file.name.removesuffix(f".{dialect}.sql") for file in migration_files(dialect)]
        for dialect in ("sqlite", "postgresql")
    ]
    assert steps[0] == steps[1]
    assert steps[0][-1].partition("_")[0] == HEAD


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

    with pytest.raises(CollectionVersionError, match="have no version"):
        open_registry_store(layout)


def test_an_installed_package_has_the_steps() -> None:
    """They lie in a package, whose SQL files the package data name."""
    assert (MIGRATIONS_FOLDER / "__init__.py").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "*.sql" in project["tool"]["setuptools"]["package-data"]["*"]
