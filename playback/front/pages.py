"""What the front knows of captured pages: read from the captures index."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from core.errors import BadUrlError
from core.pages import Outcome
from core.records import ArtifactKind, parse_artifact_uri
from core.replay_keys import replay_key
from playback.addresses import is_web_url
from playback.database import Database, key_values

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

    def __init__(self, database: Database) -> None:
        self._database = database

    def search(self, words: str, *, number: int) -> PageList:
        """Page `number`, from 1, of the pages whose URL or title contains `words`."""
        pattern = f"%{_escape_like(words)}%"
        like = f"{self._database.contains} :pattern ESCAPE '\\'"
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM pages WHERE url {like} OR title {like}"  # noqa: S608 constants
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
            f"SELECT {_COLUMNS} FROM pages WHERE {self._database.has_key}"  # noqa: S608 constants of ours
            " ORDER BY captured_ms DESC LIMIT :limit",
            {**key_values(key), "limit": _MOST_SIBLINGS},
        )

    def _rows(self, query: str, values: dict[str, Any]) -> tuple[Page, ...]:
        rows = self._database.rows(query, values)
        artifacts = self._artifacts([row["page_id"] for row in rows])
        return tuple(_page(row, artifacts.get(row["page_id"], {})) for row in rows)

    def _artifacts(self, page_ids: list[str]) -> dict[str, dict[ArtifactKind, str]]:
        found: dict[str, dict[ArtifactKind, str]] = {}
        if not page_ids:
            return found
        values = {f"page_{number}": page_id for number, page_id in enumerate(page_ids)}
        marks = ", ".join(f":{name}" for name in values)
        for row in self._database.rows(
            f"SELECT page_id, url FROM captures WHERE page_id IN ({marks})"  # noqa: S608 names of values
            " AND substr(url, 1, 4) = 'urn:'",
            values,
        ):
            parsed = parse_artifact_uri(row["url"])
            if parsed is not None:
                found.setdefault(row["page_id"], {})[parsed[0]] = row["url"]
        return found


def _page(row: Any, artifacts: dict[ArtifactKind, str]) -> Page:
    values = {name: row[name] for name in row.keys() if name != "captured_ms"}  # noqa: SIM118 a Row iterates its values
    captured_at = _EPOCH + timedelta(milliseconds=row["captured_ms"])
    return Page(**values, captured_at=captured_at, artifacts=artifacts)


def _escape_like(words: str) -> str:
    """The words as LIKE takes them literally, a backslash being its escape."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
