"""No question reads a whole table: each statement of the books is explained on both databases."""

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from sqlalchemy import Connection

import links.registry
import qa
from links.registry.database import RegistryStore
from links.registry.statements import SqlStatement

# Few rows, whatever the registry's size.
SMALL = {"link_farms", "link_wikis", "link_imports"}
_SCANNED = re.compile(r"SCAN (link_\w+)")


def _statements() -> Iterator[tuple[str, SqlStatement]]:
    """Yield every statement that a module of `links.registry` or `qa` keeps under a name."""
    names = [f"links.registry.{info.name}" for info in iter_modules(links.registry.__path__)]
    names += [f"qa.{info.name}" for info in iter_modules(qa.__path__)]
    for module in map(import_module, names):
        place = module.__name__
        for name, value in sorted(vars(module).items()):
            if isinstance(value, SqlStatement):
                yield f"{place}.{name}", value
            elif isinstance(value, dict):
                for key, each in value.items():
                    if isinstance(each, SqlStatement):
                        yield f"{place}.{name}.{key}", each


STATEMENTS = dict(_statements())


def _values(statement: SqlStatement, connection: Connection) -> dict[str, Any]:
    """Return something of the right type for each value."""
    binds = statement.body.compile(dialect=connection.dialect).binds  # type: ignore[attr-defined]
    made: dict[str, Any] = {}
    for name, bind in binds.items():
        if bind.required:
            kind = bind.type.python_type
            some = {bytes: b"x", str: "x", bool: True}.get(kind, 7)
            made[name] = [some, some] if name in statement.lists else some
    return made


def _scans_on_sqlite(connection: Connection, text: str, given: Any) -> list[str]:
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", tuple(given)).all()
    matches = [_SCANNED.search(row[3]) for row in rows]
    return [hit[1] for hit in matches if hit is not None and hit[1] not in SMALL]


def _scans_on_postgresql(connection: Connection, text: str, given: Any) -> list[str]:
    connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    connection.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
    plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {text}", given).scalar_one()
    loaded = json.loads(plan) if isinstance(plan, str) else plan
    return [name for node in _nodes(loaded[0]["Plan"]) if (name := _whole(node))]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from _nodes(each)


def _whole(node: dict[str, Any]) -> str:
    """Return the table that the node reads as a whole; empty for none and for small ones."""
    table: str = node.get("Relation Name", "")
    is_whole = node["Node Type"] == "Seq Scan" or (
        node["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in node
    )
    return table if table and is_whole and table not in SMALL else ""


def _scans(connection: Connection, statement: SqlStatement) -> list[str]:
    values = _values(statement, connection)
    plan = statement.compiled(connection.dialect, [2] * len(statement.lists))
    given = plan.driver_parameters(values)
    if connection.dialect.name == "sqlite":
        return _scans_on_sqlite(connection, plan.text, given)
    return _scans_on_postgresql(connection, plan.text, given)


# Both answer in order of the number or of the day, from the place that is given: they end by their limit.
PAGED = {"looking.ALL_URLS"}


def test_every_statement_uses_an_index(unknown_store: RegistryStore) -> None:
    """On the way to a row no table is read that grows with the web."""
    with unknown_store.writing() as connection:
        scans = {
            name: tables
            for name, statement in STATEMENTS.items()
            if name not in PAGED and (tables := _scans(connection, statement))
        }

    assert scans == {}
    assert len(STATEMENTS) > 50


def test_a_statement_that_reads_a_whole_table_is_caught(store: RegistryStore) -> None:
    """The test of the plans can fail."""
    from sqlalchemy import select

    from links.registry.schema import urls

    whole = SqlStatement(select(urls.c.id).where(urls.c.mime == "pdf"))
    with store.writing() as connection:
        assert _scans(connection, whole) == ["link_urls"]


# These build statements: upserts and schema steps, which have no plan, and walks over known keys.
_BUILDERS = {"database", "quirks", "statements", "urls"}


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(Path(links.registry.__path__[0]).glob("*.py")) if path.stem not in _BUILDERS],
    ids=lambda path: path.stem,
)
def test_books_ask_by_statements_alone(path: Path) -> None:
    """Other statements would escape the test of the plans; only INSERTs may, which have no plan."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) in ("connection.execute", "reader.execute")
        and not ast.unparse(node.args[0]).startswith("insert(")
    ]
    assert [ast.unparse(call) for call in calls] == []
