"""Rebuild, completion and schema upgrade of the captures index from the WARCs.

``weboid index rebuild`` rebuilds it completely. `complete_index` runs before anything is written
and adds closed WARCs that the index lacks because it was lost or restored from an older backup.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from core.config.database_urls import is_frozen, read_only_uri
from core.config.settings import IndexSettings, ProxySettings
from core.errors import CollectionVersionError, InputError
from core.layout import OPEN_SUFFIX, Layout
from warc.artifact_reader import read_manifest_at
from warc.checksums import add_missing_sums, closed_warcs
from warc.dedup.payloads import PayloadIndex, PayloadKey
from warc.index.indexer import IndexingResult, index_file
from warc.index.opener import not_covered, open_index, open_payloads
from warc.index.protocol import CaptureIndex
from warc.index.schema import CAPTURES_DDL, MARK_LOGINS, SCHEMA_VERSION
from warc.index.sqlite import BUSY_TIMEOUT_MS
from warc.recovery import interrupted, os_error_text, recover_file, recovery_lock

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


def upgrade_index(layout: Layout, told: Callable[[str], None]) -> bool:
    """Convert the collection's own index from schema 4 to 5; return True when that was needed.

    Device and language of captures come from the manifests, and stay empty where one cannot be
    read. A collection that cannot be written to is left as it is. `told` is called with a sentence
    before and after. Raises CollectionVersionError if the index cannot be converted.
    """
    path = layout.captures_db
    if not path.exists() or is_frozen(path) or _version(layout) != _PREVIOUS_VERSION:
        return False
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        try:
            db.execute("BEGIN IMMEDIATE")  # two processes may start at once
            if db.execute("PRAGMA user_version").fetchone()[0] != _PREVIOUS_VERSION:
                return False
            (pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
            told(f"Upgrading the captures index: reading the manifests of {pages:,} pages.")
            for statement in _COLUMNS.split(";"):
                db.execute(statement)
            for page_id, *place in db.execute(_MANIFESTS).fetchall():
                manifest = read_manifest_at(layout, *place)
                if manifest is not None:
                    seen_with = (manifest.device, manifest.language, manifest.login, page_id)
                    db.execute(_CONDITIONS, seen_with)
            for statement in CAPTURES_DDL.split(";"):
                db.execute(statement)
            db.execute(MARK_LOGINS)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
        except sqlite3.Error as error:  # closing the database rolls back
            raise CollectionVersionError(
                f"{path} cannot be upgraded ({error}); run `weboid index rebuild`."
            ) from error
    told("The captures index is upgraded.")
    return True


def _version(layout: Layout) -> int:
    with closing(sqlite3.connect(read_only_uri(layout.captures_db), uri=True)) as db:
        try:
            return int(db.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error:  # damaged: reported when it is opened
            return 0


def complete_index(
    layout: Layout,
    settings: ProxySettings,
    *,
    index: IndexSettings | None = None,
    told: Callable[[str], None] = lambda _text: None,
) -> int:
    """Add our closed WARCs that the captures index lacks, upgrading it first; return their number.

    `told` is called with a sentence before the first file, for each damaged one, and at the end.
    Raises IndexUnavailableError, DedupUnavailableError or CollectionVersionError.
    """
    index = index or IndexSettings()
    if not index.url:
        upgrade_index(layout, told)
    with recovery_lock(layout), closing(open_index(layout, index)) as opened:
        missing = not_covered(layout, opened.indexed_to)
        if not missing:
            return 0
        told(
            f"The captures index does not cover {len(missing)} of the collection's"
            f" {len(closed_warcs(layout))} closed WARCs: reading them again."
        )
        rows = 0
        with closing(open_payloads(layout, settings, opened)) as payloads:
            for path in missing:
                found = _index_whole(
                    path, path.name, opened, settings.dedup_bucket, settings.dedup_min_bytes, told
                )
                rows += found.rows
                if payloads.shared:
                    payloads.add(opened.payloads_of(path.name))
        opened.settle([path.name for path in missing])
        add_missing_sums(layout, opened)
    told(f"{rows:,} records of {len(missing)} WARCs are in the captures index again.")
    return len(missing)


def rebuild_index(  # noqa: PLR0913 what a profile says of dedup, and whom to tell
    layout: Layout,
    *,
    bucket: str,
    min_bytes: int = 1,
    also: Sequence[str] = (),
    shared: PayloadIndex | None = None,
    progress: Callable[[str, int], None] | None = None,
    told: Callable[[str], None] = lambda _text: None,
    index: IndexSettings | None = None,
) -> dict[str, int]:
    """Rebuild the captures index from the WARCs; return rows by table, as `CaptureIndex.counts`.

    The old one stays until the new one is complete, and after any error. Interrupted files are
    recovered first. Damaged parts are skipped. Every closed WARC without a line in SHA256SUMS gets
    one. Buckets in `also` are read only. `shared`, the dedup index of several machines, gets every
    local payload, and locates the payloads of revisits that have none here. `progress` is called
    with each finished file's name and rows, `told` with a sentence for unreadable parts and lost
    files. Raises DedupUnavailableError, IndexUnavailableError, CollectionInUseError or OSError.
    """
    from warc.index.renewal import (
        renew_index,  # its PostgreSQL driver is a tenth of a command's start
    )

    with renew_index(layout, index or IndexSettings()) as (fresh, covered, publish):
        _recover_interrupted(layout, fresh, covered, told)
        for path in sorted((*closed_warcs(layout), *interrupted(layout))):
            filename = path.name.removesuffix(OPEN_SUFFIX)
            found = _index_whole(path, filename, fresh, bucket, min_bytes, told)
            if shared is not None:
                shared.add(found.payloads)
            if progress is not None:
                progress(filename, found.rows)
        fresh.settle()
        if shared is not None:
            shared.bury()
            _adopt_orphans(fresh, shared, bucket, also)
        add_missing_sums(layout, fresh)
        counts = fresh.counts()
        publish()
    return counts


def _recover_interrupted(
    layout: Layout,
    index: CaptureIndex,
    covered: Mapping[str, int],
    told: Callable[[str], None],
) -> None:
    """Recover interrupted files by the coverage in the old index; they are indexed afterwards."""
    gone = []
    for filename, end in covered.items():
        closed, still_open = layout.warc(filename)
        if still_open.exists():
            index.cover(filename, end)
        elif not closed.exists():
            gone.append(filename)
    if gone:
        names = ", ".join(sorted(gone)[:5]) + (", …" if gone[5:] else "")
        told(f"Not here, and so left out of the index: {len(gone)} WARCs that it knew ({names}).")
    for path in interrupted(layout):
        recovered = recover_file(layout, path, index, lambda _wreck, _start: 0)
        if recovered is not None:
            told(recovered.text)


def _index_whole(
    path: Path,
    filename: str,
    index: CaptureIndex,
    bucket: str,
    min_bytes: int,
    told: Callable[[str], None],
) -> IndexingResult:
    """Add the readable records of the file to the index; report the rest."""
    try:
        found = index_file(path, filename, index, bucket=bucket, min_bytes=min_bytes)
    except InputError as error:
        told(str(error))
    except OSError as error:
        told(f"{filename} was passed over, for it cannot be read: {os_error_text(error)}.")
    else:
        if found.damaged:
            places = ", ".join(map(str, found.damaged[:5])) + (", …" if found.damaged[5:] else "")
            told(
                f"{filename} is damaged at {places}: what is there was passed over. `weboid archive"
                " verify` has details; restore the file from a copy, then rebuild again."
            )
        return found
    return IndexingResult()


def _adopt_orphans(
    index: CaptureIndex, shared: PayloadIndex, bucket: str, also: Sequence[str]
) -> None:
    """Find payloads of revisits on other machines; a chunked one's key is not in the revisit."""
    orphans = {row: PayloadKey(digest, bucket) for row, digest in index.orphans().items()}
    found = shared.find(set(orphans.values()), also)
    with index.transaction():
        index.adopt({row: found[key] for row, key in orphans.items() if key in found})
