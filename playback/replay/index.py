"""Which capture answers: look-ups in the captures index.

Captures are filed under pywb's key of their URL (`core.replay_keys`), which merges distinct pages:
letter case, the scheme, ``#!`` and more are folded, in a ``urn:``, too. A look-up therefore prefers
captures of the very URL asked for.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from core.captures import Capture, RecordLocation
from core.errors import BadUrlError, TransientError
from core.layout import Layout
from core.pages import Outcome
from core.records import ArtifactKind, RecordType, artifact_uri
from core.replay_keys import replay_key
from playback.database import open_index

_NEAREST = 16  # rows looked at on either side of the moment asked for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SIDES = """
SELECT * FROM (SELECT {columns} FROM {table} WHERE urlkey = :key AND captured_ms <= :at
    AND captured_ms >= :first AND {condition} ORDER BY captured_ms DESC LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT {columns} FROM {table} WHERE urlkey = :key AND captured_ms > :at
    AND captured_ms <= :last AND {condition} ORDER BY captured_ms LIMIT :limit)
"""
_CAPTURE_COLUMNS = (
    "url, urlkey, captured_ms, record_type, mime, status, digest, filename, offset, length,"
    " orig_filename, orig_offset, orig_length, page_id, truncated"
)
_PAGE_COLUMNS = "page_id, url, timestamp, captured_ms, final_url"
_OFFERED = f"outcome NOT IN ('{Outcome.FAILED}', '{Outcome.SKIPPED}')"


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page that may be shown."""

    page_id: str
    url: str
    timestamp: str
    final_url: str


class CaptureIndex:
    """Look-ups in a collection's captures index; `close` ends it.

    A collection without an index is empty. An index that was replaced by another file is opened
    anew at the next look-up.
    """

    def __init__(self, layout: Layout) -> None:
        self._path = layout.captures_db
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._opened = None, None

    def captures(
        self, url: str, at: datetime, *, window: timedelta | None = None
    ) -> Iterator[Capture]:
        """Captures of `url` not further than `window` from `at`; the best first.

        The best is of the very URL asked for, and then the nearest in time. Others are looked
        up only when they are asked for.

        Raises:
            TransientError: the index cannot be read.
        """
        for row in self._nearest("captures", _CAPTURE_COLUMNS, url, at, window=window):
            capture = _capture(row)
            if capture is not None:
                yield capture

    def page(self, url: str, at: datetime) -> FoundPage | None:
        """The page of `url` nearest to `at` that may be shown: neither failed nor skipped.

        Raises:
            TransientError: the index cannot be read.
        """
        rows = self._nearest("pages", _PAGE_COLUMNS, url, at, condition=_OFFERED)
        for row in rows:
            return FoundPage(row["page_id"], row["url"], row["timestamp"], row["final_url"])
        return None

    def artifact(self, page: FoundPage, kind: ArtifactKind) -> Capture | None:
        """The page's artifact of that kind, whichever of the page's URLs it goes by."""
        prefix = artifact_uri(kind, "")
        for row in self._query(
            f"SELECT {_CAPTURE_COLUMNS} FROM captures"  # noqa: S608 constants of ours
            " WHERE page_id = :page AND substr(url, 1, :length) = :prefix"
            " ORDER BY captured_ms DESC LIMIT 1",
            {"page": page.page_id, "length": len(prefix), "prefix": prefix},
        ):
            return _capture(row)
        return None

    def is_withheld(self, capture: Capture) -> bool:
        """True when the capture was made for a page that failed, and so must not be its copy."""
        if capture.page_id is None:
            return False
        query = f"SELECT 1 FROM pages WHERE page_id = :page AND NOT {_OFFERED}"  # noqa: S608 ours
        return bool(self._query(query, {"page": capture.page_id}))

    def _nearest(
        self,
        table: str,
        columns: str,
        url: str,
        at: datetime,
        *,
        window: timedelta | None = None,
        condition: str = "1",
    ) -> Iterator[sqlite3.Row]:
        try:
            key = replay_key(url)
        except BadUrlError:
            return  # nothing is ever filed under it
        moment = (at - _EPOCH) // timedelta(milliseconds=1)
        reach = window // timedelta(milliseconds=1) if window is not None else 2**53
        values = {
            "key": key,
            "url": url,
            "at": moment,
            "first": moment - reach,
            "last": moment + reach,
            "limit": _NEAREST,
        }
        for which in ("url = :url", "url <> :url"):
            query = _SIDES.format(
                columns=columns, table=table, condition=f"{which} AND {condition}"
            )
            found = self._query(query, values)
            yield from sorted(found, key=lambda row: abs(row["captured_ms"] - moment))

    def _query(self, query: str, values: dict[str, Any]) -> list[sqlite3.Row]:
        connection = self._connect()
        if connection is None:
            return []
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self.close()
            raise TransientError(f"The captures index cannot be read: {error}.") from error

    def _connect(self) -> sqlite3.Connection | None:
        try:
            found = self._path.stat()
            identity = (found.st_dev, found.st_ino)
        except OSError:
            identity = None
        if self._connection is None or identity != self._opened:
            self.close()
            self._connection = open_index(self._path)
            self._opened = identity if self._connection is not None else None
        return self._connection


def _capture(row: sqlite3.Row) -> Capture | None:
    """The row as a capture; None when it is none that we could have written."""
    try:
        original = None
        if row["orig_filename"] is not None:
            original = RecordLocation(
                row["orig_filename"], int(row["orig_offset"]), int(row["orig_length"])
            )
        return Capture(
            url=row["url"],
            urlkey=row["urlkey"],
            captured_at=_EPOCH + timedelta(milliseconds=row["captured_ms"]),
            record_type=RecordType(row["record_type"]),
            mime=row["mime"],
            status=row["status"],
            digest=row["digest"],
            location=RecordLocation(row["filename"], int(row["offset"]), int(row["length"])),
            original=original,
            page_id=row["page_id"],
            truncated=row["truncated"],
        )
    except (ValueError, TypeError, OverflowError):
        return None
