"""Write the migration from the registry's last one to `links.store.schema`: what has changed there.

    python -m scripts.migration "Keep the length of a body"

Look at what it wrote: a library finds tables, columns and indexes, but knows nothing of what lies in
them. Then raise `links.store.upgrading.HEAD`.
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

from links.store.schema import metadata
from links.store.upgrading import FOLDER, VERSION_TABLE, bring_up_to_date, steps

_PAGE = '''"""{text}."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {before!r}


def upgrade() -> None:  # noqa: PLR0915
    """Take the step."""
    {body}
'''


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="what it does, as a sentence without its stop")
    arguments = parser.parse_args()
    before = steps().get_current_head()
    revision = f"{int(before or 0) + 1:04}"
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        if before:
            bring_up_to_date(connection, "memory", to=before)
        options = {"version_table": VERSION_TABLE, "compare_type": False}
        found = produce_migrations(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()
    upgrade = found.upgrade_ops
    assert isinstance(upgrade, ops.UpgradeOps)
    if upgrade.is_empty():
        sys.exit("Nothing has changed.")
    body = render_python_code(upgrade, migration_context=None)
    body = re.sub(r"\s*# (?:###|\w).*", "", body)
    body = body.replace(
        "Boolean(), server_default=sa.text('0')", "Boolean(), server_default=sa.false()"
    )
    word = re.sub(r"\W+", "_", arguments.text.lower()).strip("_")[:40]
    path = Path(FOLDER / "versions" / f"v{revision}_{word}.py")
    path.write_text(
        _PAGE.format(text=arguments.text, revision=revision, before=before, body=body.strip()),
        encoding="utf-8",
    )
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(path)], check=True)
    print(f"Wrote {path}; now look at it, and raise HEAD to {revision}.")


if __name__ == "__main__":
    main()
