"""Rebuild, completion and schema upgrade of the captures index from the WARCs.

Readers use the old one until the new one is complete; no other process writes. `complete_index` runs before anything is
written and adds closed WARCs that the index lacks because it was lost or restored from an older backup.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from core.config.database_urls import IndexAddress, parse_index_url
from core.config.settings import IndexSettings, ProxySettings
from core.errors import CollectionInUseError, CollectionVersionError, IndexUnavailableError, InputError
from core.layout import OPEN_SUFFIX, Layout, is_frozen
from warc.artifact_reader import read_manifest_at
from warc.checksums import add_missing_sums
from warc.dedup.payloads import PayloadIndex, PayloadKey
from warc.index.database import SCHEMA_VERSION, covered_by_file, not_covered, schema_version
from warc.index.indexer import index_file
from warc.index.protocol import CAPTURES_DDL, MARK_LOGINS, CaptureIndex
from warc.index.sqlite import BUSY_TIMEOUT_MS, SqliteCaptureIndex, open_index, open_payloads
from warc.local_storage import WarcPath, closed_warcs, open_warcs, remove_database, sync_folder
from warc.recovery import os_error_text, recover_file, recovery_lock

_PREVIOUS_VERSION = 4
_COLUMNS = """
ALTER TABLE captures ADD COLUMN login TEXT;
ALTER TABLE pages ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE pages ADD COLUMN language TEXT NOT NULL DEFAULT '';
ALTER TABLE pages ADD COLUMN login TEXT NOT NULL DEFAULT ''
"""
_MANIFESTS = (
    "SELECT page_id, filename, offset, length FROM captures"
    " WHERE url LIKE 'urn:pageinfo:%' AND urlkey <> '' AND page_id IS NOT NULL ORDER BY captured_ms"
)
_CONDITIONS = "UPDATE pages SET device = ?, language = ?, login = ? WHERE page_id = ?"


def upgrade_index(layout: Layout, report: Callable[[str], None]) -> bool:
    """Convert the collection's own index from schema 4 to 5, if writable; return True when that was needed.

    Device and language of captures come from readable manifests. `report` gets a sentence before and after. Raises
    CollectionVersionError if the index cannot be converted.
    """
    path = layout.captures_db
    # A damaged one is reported when it is opened.
    if not path.exists() or is_frozen(path) or schema_version(path) != _PREVIOUS_VERSION:
        return False
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        try:
            db.execute("BEGIN IMMEDIATE")  # two processes may start at once
            if db.execute("PRAGMA user_version").fetchone()[0] != _PREVIOUS_VERSION:
                return False
            (pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
            report(f"Upgrading the captures index: reading the manifests of {pages:,} pages.")
            for statement in _COLUMNS.split(";"):
                db.execute(statement)
            for page_id, *place in db.execute(_MANIFESTS).fetchall():
                if (manifest := read_manifest_at(layout, *place)) is not None:
                    db.execute(_CONDITIONS, (manifest.device, manifest.language, manifest.login, page_id))
            for statement in CAPTURES_DDL.split(";"):
                db.execute(statement)
            db.execute(MARK_LOGINS)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
        except sqlite3.Error as error:  # closing the database rolls back
            raise CollectionVersionError(
                f"{path} cannot be upgraded ({error}); run `weboid collection rebuild`."
            ) from error
    report("The captures index is upgraded.")
    return True


def complete_index(
    layout: Layout,
    settings: ProxySettings,
    *,
    index: IndexSettings | None = None,
    report: Callable[[str], None] = lambda _text: None,
) -> int:
    """Add our closed WARCs that the captures index lacks, upgrading it first; return their number.

    `report` gets sentences. Raises IndexUnavailableError, DedupUnavailableError or CollectionVersionError.
    """
    index = index or IndexSettings()
    if not index.url:
        upgrade_index(layout, report)
    with recovery_lock(layout), closing(open_index(layout, index)) as opened:
        if not (missing := not_covered(layout, opened.indexed_to)):
            return 0
        report(
            f"The captures index does not cover {len(missing)} of the collection's"
            f" {len(closed_warcs(layout))} closed WARCs: reading them again."
        )
        rows = 0
        with closing(open_payloads(layout, settings, opened)) as payloads:
            for path in missing:
                rows += _index_whole(path, path.name, opened, settings.dedup_bucket, settings.dedup_min_bytes, report)
                if payloads.shared:
                    payloads.add(opened.payloads_of(path.name))
        opened.settle([path.name for path in missing])
        add_missing_sums(layout, opened)
    report(f"{rows:,} records of {len(missing)} WARCs are in the captures index again.")
    return len(missing)


TABLES = ("captures", "pages", "payloads", "qualities", "files", "version")
LOCK_TRIES = 50  # a status query or a checksum write takes only a moment
LOCK_PAUSE_S = 0.1


# The fresh index, the bytes that the old one covers by file (none when it cannot be read), and a
# function that replaces the old one by the fresh one; no writes may follow.
IndexRenewal = tuple[CaptureIndex, Mapping[str, int], Callable[[], None]]


@contextmanager
def renew_index(layout: Layout, settings: IndexSettings) -> Iterator[IndexRenewal]:
    """Yield an index that is discarded unless published; raises CollectionInUseError or IndexUnavailableError."""
    if settings.url:
        with _renew_server(parse_index_url(settings.url)) as renewal:
            yield renewal
        return
    path = layout.captures_db
    fresh = path.with_suffix(".rebuilding")
    remove_database(fresh)
    index = SqliteCaptureIndex(fresh)

    def publish() -> None:
        index.checkpoint()
        index.close()
        remove_database(path)
        fresh.rename(path)
        sync_folder(layout.databases)

    with closing(index):
        yield index, covered_by_file(path), publish


@contextmanager
def _renew_server(address: IndexAddress) -> Iterator[IndexRenewal]:
    # The PostgreSQL driver is a tenth of a command's start.
    from net.postgres_client import LOCK_NAME, PostgresConnection
    from warc.index.postgres import PostgresCaptureIndex

    name, fresh = address.index, f"{address.index}_rebuilding"
    drop = f'DROP SCHEMA IF EXISTS "{fresh}" CASCADE'
    with closing(PostgresConnection(address, holds=False)) as server:
        # Lock the index for exclusive use, for the lifetime of the connection.
        query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        for _ in range(LOCK_TRIES):
            row = server.execute(query, (LOCK_NAME + name,)).fetchone()
            if row is not None and row[0]:
                break
            threading.Event().wait(LOCK_PAUSE_S)
        else:
            raise CollectionInUseError(
                f"The captures index at {address} is in use: end the crawl on every machine, then try again."
            )
        server.execute(drop)

        def publish() -> None:
            for table in TABLES:  # otherwise the first queries are planned for empty tables
                server.execute(f'ANALYZE "{fresh}"."{table}"', patient=True)
            # The schema stays: it may contain other tables.
            with server.transaction():
                server.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
                for table in TABLES:
                    server.execute(f'DROP TABLE IF EXISTS "{name}"."{table}"')
                    server.execute(f'ALTER TABLE "{fresh}"."{table}" SET SCHEMA "{name}"')

        try:
            with closing(PostgresCaptureIndex(replace(address, index=fresh))) as index:
                query = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = 'files'"
                row = server.execute(query, (name,)).fetchone()
                covered = {}
                if row is not None and row[0]:
                    query = "SELECT filename, indexed_to FROM files"
                    covered = dict(server.execute(query).fetchall())
                yield index, covered, publish
        finally:
            with suppress(IndexUnavailableError):  # otherwise the next renewal drops it
                server.execute(drop)
                # The server may be late in seeing that the connection has ended.
                server.execute("SELECT pg_advisory_unlock_all()")


def rebuild_index(  # noqa: PLR0913 what a profile says of dedup, and where to report
    layout: Layout,
    *,
    bucket: str,
    min_bytes: int = 1,
    also: Sequence[str] = (),
    shared: PayloadIndex | None = None,
    progress: Callable[[str, int], None] | None = None,
    report: Callable[[str], None] = lambda _text: None,
    index: IndexSettings | None = None,
) -> dict[str, int]:
    """Rebuild the captures index from the WARCs; return rows by table, as `CaptureIndex.counts`.

    The old one stays after any error. Interrupted files are recovered first, damaged parts skipped, SHA256SUMS
    completed. Buckets in `also` are read only. `shared`, the dedup index of several machines, gets every local
    payload, and locates those of revisits that have none here. `progress` gets each file's name and rows, `report`
    sentences. Raises DedupUnavailableError, IndexUnavailableError, CollectionInUseError or OSError.
    """
    with renew_index(layout, index or IndexSettings()) as (fresh, covered, publish):
        _recover_interrupted(layout, fresh, covered, report)
        for path in sorted((*closed_warcs(layout), *open_warcs(layout))):
            filename = path.name.removesuffix(OPEN_SUFFIX)
            rows = _index_whole(path, filename, fresh, bucket, min_bytes, report, shared=shared)
            if progress is not None:
                progress(filename, rows)
        fresh.settle()
        if shared is not None:
            shared.release_dead()
            # Find payloads of revisits on other machines; a chunked one's key is not in the revisit.
            orphans = {row: PayloadKey(digest, bucket) for row, digest in fresh.orphans().items()}
            originals = shared.find(set(orphans.values()), also)
            with fresh.transaction():
                fresh.adopt({row: originals[key] for row, key in orphans.items() if key in originals})
        add_missing_sums(layout, fresh)
        counts = fresh.counts()
        publish()
    return counts


def _recover_interrupted(
    layout: Layout, index: CaptureIndex, covered: Mapping[str, int], report: Callable[[str], None]
) -> None:
    """Recover interrupted files by the coverage in the old index; they are indexed afterwards."""
    missing = []
    for filename, end in covered.items():
        closed, still_open = layout.warc(filename)
        if still_open.exists():
            index.cover(filename, end)
        elif not WarcPath(closed).exists():
            missing.append(filename)
    if missing:
        names = ", ".join(sorted(missing)[:5]) + (", …" if missing[5:] else "")
        report(f"Missing, and therefore removed from the index: {len(missing)} WARCs ({names}).")
    for path in open_warcs(layout):
        recovered = recover_file(layout, path, index, lambda _interrupted, _start: 0)
        if recovered is not None:
            report(recovered.text)


def _index_whole(  # noqa: PLR0913 a file, an index, and what a profile says of dedup
    path: Path,
    filename: str,
    index: CaptureIndex,
    bucket: str,
    min_bytes: int,
    report: Callable[[str], None],
    *,
    shared: PayloadIndex | None = None,
) -> int:
    """Add the readable records of the file to the index; return the number of rows, and report the rest."""
    try:
        add = None if shared is None else shared.add
        indexed = index_file(path, filename, index, bucket=bucket, min_bytes=min_bytes, on_payloads=add)
    except InputError as error:
        report(str(error))
    except OSError as error:
        report(f"{filename} was skipped, since it cannot be read: {os_error_text(error)}.")
    else:
        if indexed.damaged:
            places = ", ".join(map(str, [*indexed.faults][:5])) + (", …" if indexed.damaged > 5 else "")
            report(
                f"{filename} is damaged at {places}: the damaged parts were skipped. `weboid verify` has "
                "details; restore the file from a copy, then rebuild again."
            )
        return indexed.rows
    return 0
