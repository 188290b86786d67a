"""Write the migration from the registry's last one to `links.registry.schema`: what has changed there.

    python -m scripts.migration "Keep the length of a body"
    python -m scripts.migration --first     # before the first release: writes the first step anew

Look at what it wrote: a library finds tables, columns and indexes, but knows nothing of what lies in
them, and nothing of indexes on expressions. The test of the steps says what is missing. Then raise `links.registry.database.HEAD`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from links.registry.database import MIGRATIONS_FOLDER, VERSION_TABLE, steps, upgrade_schema
from links.registry.schema import metadata

_PAGE = '''"""{text}."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {before!r}


def upgrade() -> None:  # noqa: PLR0915
    """Take the step."""
    {body}
'''


def _everything() -> ops.UpgradeOps:
    made: list[ops.MigrateOperation] = []
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        made.append(ops.CreateTableOp.from_table(table))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made += [ops.CreateIndexOp.from_index(index) for index in indexes]
    return ops.UpgradeOps(made)


def _changes_since(before: str) -> ops.UpgradeOps:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade_schema(connection, "memory", to=before)
        options = {"version_table": VERSION_TABLE, "compare_type": False}
        found = produce_migrations(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()
    assert isinstance(found.upgrade_ops, ops.UpgradeOps)
    return found.upgrade_ops


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", default="The first tables", help="what it does")
    parser.add_argument("--first", action="store_true", help="write the first step anew")
    arguments = parser.parse_args()
    before = None if arguments.first else steps().get_current_head()
    revision = f"{int(before or 0) + 1:04}"
    upgrade = _changes_since(before) if before else _everything()
    if upgrade.is_empty():
        sys.exit("Nothing has changed.")
    body = render_python_code(upgrade, migration_context=None)
    body = re.sub(r"\s*# (?:###|\w).*", "", body)
    body = body.replace(
        "Boolean(), server_default=sa.text('0')", "Boolean(), server_default=sa.false()"
    )
    word = re.sub(r"\W+", "_", arguments.text.lower()).strip("_")[:40]
    path = Path(MIGRATIONS_FOLDER / "versions" / f"v{revision}_{word}.py")
    path.write_text(
        _PAGE.format(text=arguments.text, revision=revision, before=before, body=body.strip()),
        encoding="utf-8",
    )
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(path)], check=True)
    print(f"Wrote {path}; now look at it, and raise HEAD to {revision}.")


if __name__ == "__main__":
    main()
