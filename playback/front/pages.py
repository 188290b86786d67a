"""What the front knows of captured pages: read from the captures index."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.errors import BadUrlError, TransientError
from core.pages import Outcome
from core.records import ArtifactKind, parse_artifact_uri
from core.replay_keys import replay_key
from playback.addresses import is_web_url
from playback.database import open_index

PAGE_SIZE = 50
_MOST_SIBLINGS = 200
_NOT_OFFERED = {Outcome.FAILED, Outcome.SKIPPED}
# What replay makes a document of when no DOM was kept.
_SHOWN_TYPES = frozenset(
    {
        "application/json",
        "application/xhtml+xml",
        "image/avif",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/html",
        "text/markdown",
        "text/plain",
    }
)
_PDF = "application/pdf"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = (
    "page_id, url, timestamp, captured_ms, final_url, outcome, reason, status, mime, title,"
    " records, stored_bytes"
)


@dataclass(frozen=True, slots=True)
class Page:
    """A captured page as lists and the reader page show it.

    Attributes:
        artifacts: its artifact URIs by kind.
        stored_bytes: what all its records take on disk.
    """

    page_id: str
    url: str
    timestamp: str
    captured_at: datetime
    final_url: str
    outcome: str
    reason: str
    status: int | None
    mime: str
    title: str
    records: int
    stored_bytes: int
    artifacts: dict[ArtifactKind, str]

    @property
    def label(self) -> str:
        """What the page is called: its title or, without one, its URL."""
        return self.title.strip() or self.url

    @property
    def live_url(self) -> str | None:
        """The page on the live web; None when the URL must not become a link."""
        return self.url if is_web_url(self.url) else None

    @property
    def has_copy(self) -> bool:
        """True when replay can show it; a failed visit is never offered as the copy."""
        shown = ArtifactKind.DOM in self.artifacts or self.mime in _SHOWN_TYPES
        return shown and self.outcome not in _NOT_OFFERED

    @property
    def is_download(self) -> bool:
        """True when the copy is a file to download rather than a page to read."""
        return self.mime == _PDF and self.outcome not in _NOT_OFFERED

    @property
    def picture(self) -> str | None:
        """The URI of the best screenshot; None when there is none."""
        for kind in (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW):
            if kind in self.artifacts:
                return self.artifacts[kind]
        return None

    @property
    def thumbnail(self) -> str | None:
        """The URI of the small picture; None when there is none."""
        return self.artifacts.get(ArtifactKind.THUMBNAIL)


@dataclass(frozen=True, slots=True)
class PageList:
    """One part of a list of pages, newest first, and whether there is more."""

    pages: tuple[Page, ...]
    has_more: bool


class PageStore:
    """Questions to the captures index of one collection; safe to ask from any thread.

    Every question raises TransientError when the index cannot be read, and finds nothing when there
    is none yet.
    """

    def __init__(self, captures_db: Path) -> None:
        self._path = captures_db

    def search(self, words: str, *, number: int) -> PageList:
        """Page `number`, from 1, of the pages whose URL or title contains `words`."""
        pattern = f"%{_escape_like(words)}%"
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM pages WHERE url LIKE :pattern ESCAPE '\\'"  # noqa: S608 constants
            " OR title LIKE :pattern ESCAPE '\\'"
            " ORDER BY captured_ms DESC, page_id LIMIT :limit OFFSET :offset",
            {
                "pattern": pattern,
                "limit": PAGE_SIZE + 1,
                "offset": (number - 1) * PAGE_SIZE,
            },
        )
        return PageList(rows[:PAGE_SIZE], len(rows) > PAGE_SIZE)

    def nearest(self, url: str, at: datetime | None) -> Page | None:
        """The page of `url` nearest to `at` (None: the newest), the very URL before its equals.

        Equals share their replay key, such as the http and https forms of a URL.
        """
        pages = self.all_of(url)
        if not pages:
            return None
        very = [page for page in pages if page.url == url] or list(pages)
        if at is None:
            offered = [page for page in very if page.has_copy or page.is_download]
            return (offered or very)[0]
        return min(very, key=lambda page: abs(page.captured_at - at))

    def all_of(self, url: str) -> tuple[Page, ...]:
        """The newest pages of `url` and its equals, newest first."""
        try:
            key = replay_key(url)
        except BadUrlError:
            return ()
        return self._rows(
            f"SELECT {_COLUMNS} FROM pages WHERE urlkey = :key"  # noqa: S608 constants of ours
            " ORDER BY captured_ms DESC LIMIT :limit",
            {"key": key, "limit": _MOST_SIBLINGS},
        )

    def _rows(self, query: str, values: dict[str, Any]) -> tuple[Page, ...]:
        with self._connection() as connection:
            if connection is None:
                return ()
            rows = connection.execute(query, values).fetchall()
            artifacts = _artifacts(connection, [row["page_id"] for row in rows])
            return tuple(_page(row, artifacts.get(row["page_id"], {})) for row in rows)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection | None]:
        connection = open_index(self._path)
        if connection is None:
            yield None
            return
        with closing(connection):
            try:
                yield connection
            except sqlite3.Error as error:
                raise TransientError(f"The captures index cannot be read: {error}.") from error


def _artifacts(
    connection: sqlite3.Connection, page_ids: list[str]
) -> dict[str, dict[ArtifactKind, str]]:
    marks = ",".join("?" * len(page_ids))
    found: dict[str, dict[ArtifactKind, str]] = {}
    for page_id, uri in connection.execute(
        f"SELECT page_id, url FROM captures WHERE page_id IN ({marks})"  # noqa: S608 question marks
        " AND substr(url, 1, 4) = 'urn:'",
        page_ids,
    ):
        parsed = parse_artifact_uri(uri)
        if parsed is not None:
            found.setdefault(page_id, {})[parsed[0]] = uri
    return found


def _page(row: sqlite3.Row, artifacts: dict[ArtifactKind, str]) -> Page:
    values = {name: row[name] for name in row.keys() if name != "captured_ms"}  # noqa: SIM118 a Row iterates its values
    captured_at = _EPOCH + timedelta(milliseconds=row["captured_ms"])
    return Page(**values, captured_at=captured_at, artifacts=artifacts)


def _escape_like(words: str) -> str:
    """The words as LIKE takes them literally, a backslash being its escape."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
