"""Every question that the front asks of the registry finds its rows by an index."""

from collections.abc import Iterator
from typing import Any

from links.registry.database import RegistryStore
from playback.web.registry import registry_lists
from playback.web.registry.registry_reader import LAST_SEEN, SPAM_BY_KEY, URL_BY_KEY
from playback.web.registry.registry_values import WikiListKind
from tests.support.registry_builder import RegistryBuilder


def statements(speaks: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the SQL of each statement in the dialect, with literal values."""
    made: dict[str, Any] = {
        f"list-{kind}": registry_lists.count_findings(kind, 1, 5, 500).limit(51) for kind in WikiListKind
    }
    made["round"] = registry_lists.last_of_round(1, 5)
    by_key: Any = URL_BY_KEY.body
    seen: Any = LAST_SEEN.body
    spam: Any = SPAM_BY_KEY.body
    made["spam"] = spam.params(key=b"x" * 16, wiki=1, most=101)
    made["key"] = by_key.params(key=b"x" * 16)
    made["seen"] = seen.params(ids=[1, 2, 3])
    for name, statement in made.items():
        options = {"literal_binds": True, "render_postcompile": True}
        yield name, str(statement.compile(dialect=speaks, compile_kwargs=options))


def plans(store: RegistryStore) -> dict[str, str]:
    """Return the database's query plan of each statement, by its name."""
    plan_by_name = {}
    dialect = store.engine.dialect.name
    explain = "EXPLAIN QUERY PLAN " if dialect == "sqlite" else "EXPLAIN "
    with store.reading() as rows:
        if dialect == "postgresql":
            rows.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for name, text in statements(store.engine.dialect):
            lines = rows.exec_driver_sql(explain + text.replace("%", "%%")).fetchall()
            plan_by_name[name] = "\n".join(str(line[-1]) for line in lines)
    return plan_by_name


def test_no_question_reads_a_whole_table(either: RegistryBuilder) -> None:
    """On both databases; PostgreSQL is told to avoid that where it can."""
    either.fill()
    for name, plan in plans(either.store).items():
        for line in plan.splitlines():
            is_whole = line.strip().startswith(("SCAN link_", "SCAN anon")) or "Seq Scan" in line
            assert not (is_whole and "link_" in line and "USING" not in line), (name, plan)
