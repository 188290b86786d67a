"""The registry's tables, brought up to date when it is opened.

Each version of the tables has a number, kept in ``link_version``; a step in `links.store.migrations`
leads from one to the next. A registry of this version costs one question. An older one, and an empty
database, take all steps that they lack in one transaction: two programs that open it at once both find
it whole. A newer one is left alone.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, inspect, text

from core.errors import CollectionVersionError

HEAD = "0011"  # the newest step's number; a test holds it to the folder
VERSION_TABLE = "link_version"
FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x6C696E6B73  # "links": of PostgreSQL's advisory locks, held while tables are made


def version_of(connection: Connection) -> str:
    """The version of the tables; empty when there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return ""
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return str(found or "")


def bring_up_to_date(connection: Connection, where: str, *, to: str = HEAD) -> None:
    """Take the steps that the tables lack, inside of the connection's transaction.

    Args:
        connection: of a transaction that writes.
        where: the database for people.
        to: the version to stop at.

    Raises:
        CollectionVersionError: the tables are of a version that this program does not know.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    version = version_of(connection)
    if version == to:
        return
    # What follows loads a library that is not needed for a registry of this version.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    scripts = steps()
    known = [script.revision for script in scripts.walk_revisions()]
    if version and version not in known:
        raise CollectionVersionError(
            f"The link registry at {where} is of version {version[:40]}, this Weboid knows versions up to "
            f"{HEAD}: install the Weboid that made it, or a newer one."
        )
    if not version and inspect(connection).has_table("link_urls"):
        raise CollectionVersionError(
            f"The tables of the link registry at {where} do not say their version: they are not "
            "Weboid's, or from before its first release. Move them away, then try again."
        )
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    with Operations.context(context):
        for script in reversed(list(scripts.iterate_revisions(to, version or "base"))):
            module: Any = script.module
            module.upgrade()
            context.stamp(scripts, script.revision)


def steps() -> Any:
    """All steps, as the library keeps them: an ``alembic.script.ScriptDirectory``."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(FOLDER))


def make_schema(engine: Engine, schema: str) -> None:
    """Make the schema that holds the tables, unless it is there: PostgreSQL only.

    It is looked for first: whoever may not make one may still use one.
    """
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if schema not in inspect(connection).get_schema_names():
            connection.execute(text(f'CREATE SCHEMA "{schema}"'))
