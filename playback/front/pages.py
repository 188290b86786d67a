"""What the front knows of captured pages: read from the captures index."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from core.classes import GOOD, WITHHELD, rank
from core.errors import BadUrlError
from core.pages import Outcome
from core.records import ArtifactKind, parse_artifact_uri
from core.replay_keys import replay_key
from core.timestamps import timestamp14
from playback.addresses import is_web_url
from playback.choosing import BEST_FIRST, EXACT_FIRST, OFFERED, twin_of
from playback.database import Database, key_values
from playback.decisions.takedowns import Effect, Takedown
from playback.permits import Permits, TakenDownError

PAGE_SIZE = 50
_MOST_SIBLINGS = 200
_CANDIDATES = 20  # looked at for one that can be shown
_MOST_COUNTED = 200  # parts of a list; further back, what is hidden makes a part shorter
_COUNTED_AT_ONCE = 200  # rows
_LATEST_MS = 2**53
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
    " records, stored_bytes, page_class, class_score, class_evidence"
)


@dataclass(frozen=True, slots=True)
class Page:
    """A captured page as lists and the reader page show it.

    Attributes:
        artifacts: its artifact URIs by kind.
        stored_bytes: what all its records take on disk.
        page_class: what sort of page it is; see `core.classes`.
        class_score: how sure that is, from 0 to 1.
        class_evidence: what speaks for it, a sentence a line.
        taken_down: why it is blocked; then nothing is told of it but its address and its moment.
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
    page_class: str
    class_score: float
    class_evidence: str
    artifacts: dict[ArtifactKind, str]
    taken_down: Takedown | None = None

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
        return self.is_showable and self.page_class not in WITHHELD

    @property
    def is_showable(self) -> bool:
        """True when replay can show it to who asks for this very capture."""
        shown = ArtifactKind.DOM in self.artifacts or self.mime in _SHOWN_TYPES
        return shown and self.outcome not in _NOT_OFFERED and self.taken_down is None

    @property
    def is_good(self) -> bool:
        """True when nothing speaks against taking it for the page."""
        return self.rank == 0

    @property
    def rank(self) -> int:
        """How far it is from good; see `core.classes.rank`."""
        return rank(self.page_class, self.status)

    @property
    def evidence(self) -> list[str]:
        """What speaks for its class, when that is not a good one."""
        return [] if self.page_class in GOOD else self.class_evidence.splitlines()

    @property
    def is_download(self) -> bool:
        """True when the copy is a file to download rather than a page to read."""
        return (
            self.mime == _PDF
            and self.outcome not in _NOT_OFFERED
            and self.page_class not in WITHHELD
            and self.taken_down is None
        )

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
    is none yet. Pages that are hidden are not found; of one that is blocked, its address and its
    moment are. Without `permits` everything may be shown.
    """

    def __init__(self, database: Database, permits: Permits | None = None) -> None:
        self._database = database
        self._permits = permits

    def search(self, words: str, *, number: int) -> PageList:
        """Page `number`, from 1, of the pages whose URL or title contains `words`."""
        pattern = f"%{_escape_like(words)}%"
        like = f"{self._database.contains} :pattern ESCAPE '\\'"
        query = (
            f"SELECT {_COLUMNS} FROM pages WHERE url {like} OR title {like}"  # noqa: S608 constants
            " ORDER BY captured_ms DESC, page_id LIMIT :limit OFFSET :offset"
        )
        first = (number - 1) * PAGE_SIZE
        if self._permits is None or self._permits.are_open() or number > _MOST_COUNTED:
            values = {"pattern": pattern, "limit": PAGE_SIZE + 1, "offset": first}
            rows = tuple(self._found(query, values, words))
            return PageList(rows[:PAGE_SIZE], len(rows) > PAGE_SIZE)
        # What is hidden leaves no gap, so what may be shown is counted from the first page on.
        shown = self._shown(query, {"pattern": pattern}, words)
        rows = tuple(islice(shown, first, first + PAGE_SIZE + 1))
        return PageList(rows[:PAGE_SIZE], len(rows) > PAGE_SIZE)

    def _shown(self, query: str, values: dict[str, Any], words: str) -> Iterator[Page]:
        """Every page that the question finds and that may be listed."""
        offset = 0
        while True:
            part = {**values, "limit": _COUNTED_AT_ONCE, "offset": offset}
            rows = self._database.rows(query, part)
            yield from self._listed(rows, words)
            if len(rows) < _COUNTED_AT_ONCE:
                return
            offset += _COUNTED_AT_ONCE

    def _found(self, query: str, values: dict[str, Any], words: str) -> Iterator[Page]:
        return self._listed(self._database.rows(query, values), words)

    def _listed(self, rows: list[Any], words: str) -> Iterator[Page]:
        """The rows as pages; the words of a blocked page's title do not find it."""
        for page in self._pages(rows):
            if page.taken_down is None or words.lower() in page.url.lower():
                yield page

    def nearest(self, url: str, at: datetime | None, *, exact: bool = True) -> Page | None:
        """The page of `url` to show for the moment `at` (None: the newest).

        That is the very capture whose timestamp `at` names, if there is one and `exact` is true; else
        the best, and of several equally good ones the nearest (`playback.choosing`). What can be shown
        goes before what cannot.

        Raises:
            TakenDownError: that very capture is blocked, or every one that there is.
        """
        try:
            values = key_values(replay_key(url))
        except BadUrlError:
            return None
        order = f"CASE WHEN {OFFERED} THEN 0 ELSE 1 END, {BEST_FIRST}"
        if exact and at is not None:
            order = f"{EXACT_FIRST}, {order}"
        query = (
            f"SELECT {_COLUMNS} FROM pages WHERE {self._database.has_key}"  # noqa: S608 constants of ours
            f" ORDER BY {order} LIMIT :limit OFFSET :offset"
        )
        facts = {
            **values,
            "url": url,
            "twin": twin_of(url),
            "at": _LATEST_MS if at is None else (at - _EPOCH) // timedelta(milliseconds=1),
            "timestamp": "" if at is None or not exact else timestamp14(at),
        }
        pages = self._candidates(query, facts)
        if not pages:
            return None
        first = pages[0]
        if exact and at is not None and first.timestamp == timestamp14(at):
            return first
        equals = [each for each in pages if (each.rank, each.url) == (first.rank, first.url)]
        shown = (each for each in equals if each.has_copy or each.is_download)
        return next(shown, first)

    def _candidates(self, query: str, facts: dict[str, Any]) -> tuple[Page, ...]:
        """The first pages that may be shown, the best before the others.

        Raises:
            TakenDownError: the very one that was asked for is blocked, or all are.
        """
        offset, blocked = 0, None
        while True:
            part = {**facts, "limit": _CANDIDATES, "offset": offset}
            rows = self._database.rows(query, part)
            pages = tuple(self._pages(rows))
            for page in pages:
                if page.taken_down is not None:
                    blocked = blocked or TakenDownError(page.taken_down)
                    if page.timestamp == facts["timestamp"] and page.url == facts["url"]:
                        raise TakenDownError(page.taken_down)
            shown = tuple(page for page in pages if page.taken_down is None)
            if shown or len(rows) < _CANDIDATES:
                break
            offset += _CANDIDATES
        if not shown and blocked is not None:
            raise blocked
        return shown

    def better(self, page: Page) -> Page | None:
        """A capture of the same URL to be read rather than `page`; None when `page` is the best."""
        try:
            found = self.nearest(page.url, page.captured_at, exact=False)
        except TakenDownError:
            return None
        if found is None or found.rank >= page.rank or found.outcome in _NOT_OFFERED:
            return None
        return found

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
        return tuple(self._pages(self._database.rows(query, values)))

    def _pages(self, rows: list[Any]) -> Iterator[Page]:
        """The rows as pages, without those that are hidden."""
        artifacts = self._artifacts([row["page_id"] for row in rows])
        pages = [_page(row, artifacts.get(row["page_id"], {})) for row in rows]
        taken_down = {} if self._permits is None else self._permits.pages(pages)
        for page in pages:
            takedown = taken_down.get(page.page_id)
            if takedown is None:
                yield page
            elif takedown.effect is Effect.BLOCK:
                yield _blocked(page, takedown)

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


def _blocked(page: Page, takedown: Takedown) -> Page:
    """What may be told of a page that is blocked."""
    return replace(
        page,
        final_url=page.url,
        reason="",
        title="",
        class_evidence="",
        artifacts={},
        taken_down=takedown,
    )


def _escape_like(words: str) -> str:
    """The words as LIKE takes them literally, a backslash being its escape."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
