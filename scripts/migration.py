"""Write the migration from the registry's last one to `links.registry.schema`: what has changed there.

    python -m scripts.migration "Keep the length of a body"

Check the two files, for SQLite and PostgreSQL: the comparison finds tables, columns and indexes, but knows
nothing of their rows, and nothing of indexes on expressions. The test of the steps says what is missing.
Then raise `links.registry.database.HEAD`.
"""

import argparse
import io
import re
import sys

from alembic.autogenerate import produce_migrations
from alembic.operations import Operations, ops
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from links.registry.database import HEAD, MIGRATIONS_FOLDER, upgrade_schema
from links.registry.schema import metadata


def _changes() -> ops.UpgradeOps:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade_schema(connection, "memory")
        options = {"version_table": "link_version", "compare_type": False}
        migration = produce_migrations(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()
    assert isinstance(migration.upgrade_ops, ops.UpgradeOps)
    return migration.upgrade_ops


def _sql(changes: ops.UpgradeOps, dialect: str) -> str:
    written = io.StringIO()
    options = {"as_sql": True, "output_buffer": written}
    operations = Operations(MigrationContext.configure(dialect_name=dialect, opts=options))
    for change in changes.ops:
        for each in change.ops if isinstance(change, ops.OpContainer) else [change]:
            operations.invoke(each)
    lines = (line.rstrip() for line in written.getvalue().expandtabs(4).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="what it does")
    arguments = parser.parse_args()
    changes = _changes()
    if changes.is_empty():
        sys.exit("Nothing has changed.")
    number = f"{int(HEAD) + 1:04}"
    word = re.sub(r"\W+", "_", arguments.text.lower()).strip("_")[:40]
    for dialect in ("sqlite", "postgresql"):
        path = MIGRATIONS_FOLDER / f"{number}_{word}.{dialect}.sql"
        path.write_text(f"-- {arguments.text}.\n\n{_sql(changes, dialect)}\n", encoding="utf-8")
        print(f"Wrote {path}.")
    print(f"Now look at them, and raise HEAD to {number}.")


if __name__ == "__main__":
    main()
