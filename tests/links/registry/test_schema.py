"""Tests of `links.registry.schema`."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, select, text

from core.layout import Layout
from links.registry.database import HEAD, RegistryStore, open_registry_store, upgrade_schema, version_of
from links.registry.schema import farms, hosts, metadata

ROOT = Path(__file__).resolve().parents[3]


_OPEN = """
import sys
from pathlib import Path
from core.layout import Layout
from links.registry.database import open_registry_store
print("ready", flush=True)
sys.stdin.readline()
open_registry_store(Layout(Path(sys.argv[1])), sys.argv[2]).close()
"""


def _drawn(connection: Connection) -> dict[str, Any]:
    """Return the definitions of tables and indexes, regardless of the order of their constraints."""
    if connection.dialect.name == "sqlite":
        definitions = connection.exec_driver_sql(
            "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND type <> 'view'"
        ).all()
        # A column that a later step added stands behind the last one, on its line.
        return {
            name: sorted(filter(None, map(str.strip, re.split(r",\s*\n|\n|, (?=[a-z_]+ [A-Z])", sql))))
            for name, sql in definitions
        }
    columns = connection.exec_driver_sql(
        "SELECT table_name || '.' || column_name, data_type || is_nullable || "
        "coalesce(column_default, '') || coalesce(collation_name, '') "
        "FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name <> 'link_externallinks'"
    ).all()
    indexes = connection.exec_driver_sql(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
    ).all()
    return dict(map(tuple, [*columns, *indexes]))


def test_the_steps_lead_to_the_tables_as_they_are_drawn(store: RegistryStore) -> None:
    """Tables, columns, types, defaults and indexes: nothing is missing, nothing is too much."""
    with store.reading() as connection:
        made = _drawn(connection)
    with store.writing() as connection:
        connection.execute(text("DROP VIEW link_externallinks"))
        metadata.drop_all(connection)
        metadata.create_all(connection)
        wanted = _drawn(connection)

    assert made == wanted


def test_a_new_registry_knows_its_version_and_the_farms(store: RegistryStore) -> None:
    """W61: two farms are known from the beginning."""
    with store.reading() as connection:
        assert version_of(connection) == HEAD
        farm_rows = connection.execute(select(farms.c.id, farms.c.name).order_by(farms.c.id)).all()
    assert [tuple(row) for row in farm_rows] == [(0, "wmflabs"), (1, "WMF")]


def test_an_older_registry_is_brought_up_to_date(tmp_path: Path) -> None:
    """And keeps what it had."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    engine = create_engine(f"sqlite:///{layout.links_db}")
    with engine.begin() as connection:
        upgrade_schema(connection, "here", to="0001")
        connection.execute(
            text(
                "INSERT INTO link_hosts (name, domain_index, surt, domain, bucket)"
                " VALUES ('a.example', 'example.a.', 'example,a', 'a.example', 1)"
            )
        )
        assert not inspect(connection).has_table("link_externallinks")
    engine.dispose()

    with closing(open_registry_store(layout)) as store, store.reading() as rows:
        assert version_of(rows) == HEAD
        assert rows.execute(select(hosts.c.name)).scalar_one() == "a.example"
        assert rows.execute(text("SELECT * FROM link_externallinks")).all() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_programs_that_open_a_new_registry_at_once_all_succeed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One makes the tables, the others find them whole."""
    url = request.getfixturevalue("database_url") if kind == "postgresql" else ""
    if url:
        url += "?index=others"  # a schema that has to be made, too
    command = [sys.executable, "-c", _OPEN, str(tmp_path), url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [
        subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
        for _ in range(2)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    outcomes = [process.communicate(timeout=120) for process in running]

    assert [process.returncode for process in running] == [0] * 2, outcomes
    with closing(open_registry_store(Layout(tmp_path), url)) as store, store.reading() as rows:
        assert version_of(rows) == HEAD
        assert len(rows.execute(select(farms)).all()) == 2
