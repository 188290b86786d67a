"""Captured pages for the reader pages; access control is in `PageStore.pages_of` and `PageStore.moments`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any, TypeVar

from core.captures import ArtifactKind, artifact_uri, parse_artifact_uri
from core.errors import BadUrlError, PermanentError
from core.media_types import DOWNLOAD_TYPES, PDF, READ_TYPES
from core.page_classes import GOOD, WITHHELD, class_rank, is_usable
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import from_unix_milliseconds, timestamp14, timestamp14_at, unix_milliseconds
from core.url_keys import replay_key
from playback.access.control import PAGE_FACTS, WITH_FRAMES, AccessControl, PageFacts, TakenDownError, page_facts
from playback.access.takedowns import Takedown, TakedownEffect, TakedownSet, TakedownSubject
from playback.mementos import url_values
from playback.url_paths import is_web_url
from playback.web.page_request import EVERYTHING, CaptureFacets
from warc.artifact_reader import ArtifactReader, RecordPlace
from warc.index.database import IndexDatabase, in_lists, key_values
from warc.index.queries import BEST_FIRST, OFFERED, QUALITY, SHOWN, USABLE, BestPageQuery, best_pages

_LOG = logging.getLogger(__name__)
_Artifact = TypeVar("_Artifact")
MOST_MOMENTS = 50_000  # of one URL's captures in its calendar, the newest
_CANDIDATES = 20  # candidates read to find one that can be shown
_LATEST_MS = 2**53
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # without take-downs the time does not matter
_PLACE = 'url, filename, "offset", length, digest'
_NOT_OFFERED = {VisitOutcome.FAILED, VisitOutcome.SKIPPED}
_OWN_COLUMNS = (
    *("page_id", "url", "timestamp", "final_url", "outcome", "reason", "status", "mime", "title"),
    *("records", "stored_bytes", "page_class", "class_score", "class_evidence"),
    *("device", "language", "login"),
)
COLUMNS = f"{', '.join(_OWN_COLUMNS)}, captured_ms, {QUALITY} AS quality"


@dataclass(frozen=True, slots=True)
class CapturedPage:
    """Captured page, as used by lists and the reader page."""

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
    stored_bytes: int  # size of all its records on disk
    page_class: str  # classification; see `core.page_classes`
    class_score: float  # confidence of the classification, from 0 to 1
    class_evidence: str  # evidence for it, one sentence per line
    artifacts: dict[ArtifactKind, str]  # its artifact URIs by kind
    text_digest: str = ""  # of its visible text as stored; empty without one
    taken_down: Takedown | None = None  # then only address and time are disclosed
    withheld: TakedownEffect | None = None  # a framed document, text and pictures are not shown
    quality: int = 0  # rank penalty from the replay check; see `core.playback_check.choice_penalty`
    device: str = ""  # device profile (`core.page_manifest.DeviceType`); empty when not recorded
    language: str = ""  # the browser's first Accept-Language; empty when not recorded
    login: str = ""  # name of the login used for the visit; empty without one

    @property
    def label(self) -> str:
        """Return the title or, without one, the URL."""
        return self.title.strip() or self.url

    @property
    def live_url(self) -> str | None:
        """Return the URL on the live web; None when it must not become a link."""
        return self.url if is_web_url(self.url) else None

    @property
    def has_copy(self) -> bool:
        """Return True when replay can show it; copies of failed visits are never offered."""
        return self.is_showable and self.page_class not in WITHHELD

    @property
    def is_showable(self) -> bool:
        """Return True when replay can show it on request for exactly this capture."""
        shown = ArtifactKind.DOM in self.artifacts or self.mime in READ_TYPES
        return shown and self.outcome not in _NOT_OFFERED and self.taken_down is None

    @property
    def is_usable(self) -> bool:
        """Return True for a usable copy, held for a threat (`PageStore.threatened`) or not."""
        return is_usable(self.page_class, self.status, is_shown=self.has_copy or self.is_download)

    @property
    def is_good(self) -> bool:
        """Return True when nothing indicates that the capture shows something other than the page."""
        return self.class_rank == 0

    @property
    def class_rank(self) -> int:
        """Return the rank of its class, 0 is good; see `core.page_classes.class_rank`."""
        return class_rank(self.page_class, self.status)

    @property
    def rank(self) -> int:
        """Return the rank of its copy, 0 is good: class rank plus penalty of the replay check."""
        return self.class_rank + self.quality

    @property
    def evidence(self) -> list[str]:
        """Return the evidence for its class, if that is not a good one."""
        return [] if self.page_class in GOOD else self.class_evidence.splitlines()

    @property
    def is_download(self) -> bool:
        """Return True when the copy is a file to download rather than a page."""
        return (
            self.mime in DOWNLOAD_TYPES
            and self.outcome not in _NOT_OFFERED
            and self.page_class not in WITHHELD
            and self.taken_down is None
        )

    @property
    def is_pdf(self) -> bool:
        """Return True when the copy is a PDF, which is shown by page and offered as download."""
        return self.mime == PDF and self.has_copy

    @property
    def is_file(self) -> bool:
        """Return True when the copy is a file that can only be downloaded."""
        return self.is_download and not self.is_pdf

    @property
    def picture(self) -> str | None:
        """Return the URI of the best screenshot; None when there is none."""
        return self.artifacts.get(ArtifactKind.FULL_PAGE) or self.artifacts.get(ArtifactKind.VIEW)

    @property
    def thumbnail(self) -> str | None:
        """Return the URI of the thumbnail; None when there is none."""
        return self.artifacts.get(ArtifactKind.THUMBNAIL)


@dataclass(frozen=True, slots=True)
class CaptureMoment:
    """Capture as an entry of the calendar: time, facets, and whether there is a copy."""

    timestamp: str
    is_offered: bool
    page: PageFacts
    device: str = ""
    language: str = ""
    text_digest: str = ""  # of its visible text; empty: unknown


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Half-open interval from `start` to `end`."""

    start: datetime
    end: datetime


class PageStore:
    """Look-up of pages, without hidden ones, of blocked ones address and time. Thread-safe; may raise TransientError."""

    def __init__(self, database: IndexDatabase, permits: AccessControl | None = None) -> None:
        self._database = database
        self._permits = permits or AccessControl(TakedownSet(()), database.rows, lambda: _ANY_TIME, show_logins=True)

    def nearest(self, url: str, at: datetime | None, *, exact: bool = True) -> CapturedPage | None:
        """Return the page of `url` to show for the time `at` (None: the newest), captures that can be shown first.

        With `exact`, a capture of exactly that time is preferred; otherwise the best, and of equally good ones the
        nearest (`warc.index.queries`). Raises TakenDownError: that capture is blocked, or all captures are.
        """
        try:
            values = key_values(replay_key(url))
        except BadUrlError:
            return None
        timestamp = "" if at is None or not exact else timestamp14(at)
        wanted = BestPageQuery(url, _LATEST_MS if at is None else unix_milliseconds(at), timestamp, OFFERED)
        rows, blocked = self._best(values, wanted), None
        pages: list[CapturedPage] = []
        while not pages and (part := list(islice(rows, _CANDIDATES))):
            for page in self.pages_of(part):
                if page.taken_down is None:
                    pages.append(page)
                    continue
                blocked = blocked or TakenDownError(page.taken_down)
                if page.timestamp == timestamp and page.url == url:
                    raise TakenDownError(page.taken_down)
        if not pages:
            if blocked is not None:
                raise blocked
            return None
        first = pages[0]
        if timestamp and first.timestamp == timestamp:
            return first
        equals = [each for each in pages if (each.rank, each.url) == (first.rank, first.url)]
        shown = (each for each in equals if each.has_copy or each.is_download)
        return next(shown, first)

    def usable(self, url: str, at: datetime | None) -> Iterator[CapturedPage]:
        """Yield the copies of `url` and equivalent URLs to offer, best first, then nearest to `at`."""
        try:
            values = key_values(replay_key(url))
        except BadUrlError:
            return
        wanted = BestPageQuery(url, _LATEST_MS if at is None else unix_milliseconds(at), "", USABLE)
        rows = best_pages(self._database.rows, self._database.has_key, values, COLUMNS, wanted)
        while part := list(islice(rows, _CANDIDATES)):
            pages = [page for page in self.pages_of(part) if page.is_usable]
            threatened = self.threatened(pages)
            yield from (page for page in pages if page.page_id not in threatened)

    def _best(self, key: dict[str, str], wanted: BestPageQuery) -> Iterator[Any]:
        """Yield rows of pages, best first; failed or skipped visits come last, unless requested."""
        named = f"captured_ms BETWEEN :first AND :first + 999 AND timestamp = :timestamp AND NOT ({OFFERED})"
        facts = {**wanted.values(key), "first": wanted.at_ms - wanted.at_ms % 1000}
        seen: list[str] = []
        if wanted.timestamp:
            very = self._database.rows(
                f"SELECT {COLUMNS} FROM pages WHERE {self._database.has_key} AND {named}"  # noqa: S608 constants of ours
                f" AND url IN (:url, :twin) ORDER BY {BEST_FIRST} LIMIT 20",
                facts,
            )
            if very:
                # An offered capture of the same time takes precedence.
                offered = best_pages(self._database.rows, self._database.has_key, key, COLUMNS, wanted)
                urls = (facts["url"], facts["twin"])
                first = list(
                    takewhile(lambda row: row["timestamp"] == wanted.timestamp and row["url"] in urls, offered)
                )
                seen = [row["page_id"] for row in (*first, *very)]
                yield from (*first, *very)
        for shown in (OFFERED, f"NOT ({OFFERED})"):
            rows = best_pages(self._database.rows, self._database.has_key, key, COLUMNS, replace(wanted, shown=shown))
            yield from (row for row in rows if row["page_id"] not in seen)

    def better(self, page: CapturedPage) -> CapturedPage | None:
        """Return a better capture of the same URL; None when `page` is the best."""
        try:
            candidate = self.nearest(page.url, page.captured_at, exact=False)
        except TakenDownError:
            return None
        is_better = candidate is not None and candidate.rank < page.rank and candidate.outcome not in _NOT_OFFERED
        return candidate if is_better else None

    def captures(
        self,
        url: str,
        *,
        span: TimeSpan | None = None,
        limit: int,
        oldest_first: bool = False,
        facets: CaptureFacets = EVERYTHING,
    ) -> tuple[CapturedPage, ...]:
        """Return at most `limit` pages of `url` under both schemes, newest first."""
        values = url_values(url)
        if values is None:
            return ()
        within = ""
        if span is not None:
            within = " AND captured_ms >= :start AND captured_ms < :end"
            values |= {"start": unix_milliseconds(span.start), "end": unix_milliseconds(span.end)}
        if facets.device:
            within += " AND device = :device"
        if facets.language:
            within += " AND language = :language"
        values |= {"device": facets.device, "language": facets.language}
        order = "ASC" if oldest_first else "DESC"
        query = (
            f"SELECT {COLUMNS} FROM pages WHERE {self._database.has_key}"  # noqa: S608 constants of ours
            f" AND url IN (:url, :twin){within}"
            f" ORDER BY captured_ms {order}, page_id {order} LIMIT :limit OFFSET :offset"
        )
        pages: list[CapturedPage] = []
        # Hidden rows are skipped without a gap.
        for offset in range(0, MOST_MOMENTS, limit):
            rows = self._database.rows(query, {**values, "limit": limit, "offset": offset})
            pages += filter(facets.include, self.pages_of(rows))
            if len(pages) >= limit or len(rows) < limit:
                break
        return tuple(pages[:limit])

    def moments(self, url: str) -> tuple[CaptureMoment, ...]:
        """Return the newest `MOST_MOMENTS` captures of `url` under both schemes, newest first."""
        values = url_values(url)
        if values is None:
            return ()
        rows = self._database.rows(
            f"SELECT {PAGE_FACTS}, device, language,"  # noqa: S608 constants of ours
            f" CASE WHEN {USABLE} THEN 1 ELSE 0 END AS offered"
            f" FROM pages WHERE {self._database.has_key} AND url IN (:url, :twin)"
            " ORDER BY captured_ms DESC LIMIT :limit",
            {**values, "limit": MOST_MOMENTS},
        )
        facts = [page_facts(row) for row in rows]
        taken_down = self._permits.pages(facts)
        digests = self._text_digests(values["url"]) | self._text_digests(values["twin"])
        digests = {key: digests[key] for key in digests.keys() - self._permits.embedded(list(digests)).keys()}
        moments = []
        for row, page in zip(rows, facts, strict=True):
            takedown = taken_down.get(page.page_id)
            if takedown is None:
                digest = digests.get(page.page_id, "")
                shown = bool(row["offered"]), page, row["device"], row["language"], digest
                moments.append(CaptureMoment(row["timestamp"], *shown))
            elif takedown.effect is TakedownEffect.BLOCK:  # without a copy; hidden ones not at all
                moments.append(CaptureMoment(row["timestamp"], is_offered=False, page=page))
        return tuple(moments)

    def _text_digests(self, url: str) -> dict[str, str]:
        """Return the digests of the visible texts of the newest captures of exactly that URL, by page."""
        uri = artifact_uri(ArtifactKind.TEXT, url)
        rows = self._database.rows(
            f"SELECT page_id, digest FROM captures WHERE {self._database.has_key} AND url = :uri"  # noqa: S608 ours
            " AND page_id IS NOT NULL ORDER BY captured_ms DESC LIMIT :limit",
            {**key_values(replay_key(uri)), "uri": uri, "limit": MOST_MOMENTS},
        )
        return {row["page_id"]: row["digest"] for row in rows}

    def days(self, url: str) -> dict[str, tuple[int, str]]:
        """Return number and newest timestamp of the captures of each day, by its eight digits, by the index alone.

        Captures of all URLs with the same replay key count, hidden ones too: only for a store without permits.
        """
        assert self.are_open()
        values = url_values(url)
        if values is None:
            return {}
        rows = self._database.rows(
            "SELECT captured_ms / 86400000 AS day, count(*) AS captures, max(captured_ms) AS newest"  # noqa: S608 ours
            f" FROM pages WHERE {self._database.has_key} GROUP BY captured_ms / 86400000",
            values,
        )
        newest = [timestamp14_at(row["newest"]) for row in rows]
        return {each[:8]: (row["captures"], each) for row, each in zip(rows, newest, strict=True)}

    def spellings(self, url: str, *, limit: int) -> tuple[str, ...]:
        """Return other URLs with the same replay key, which may be different pages."""
        values = url_values(url)
        if values is None:
            return ()
        rows = self._database.rows(
            f"SELECT {PAGE_FACTS} FROM ("  # noqa: S608 constants of ours
            f"SELECT {PAGE_FACTS} FROM pages WHERE {self._database.has_key}"
            " ORDER BY captured_ms DESC LIMIT :most) AS newest"
            " WHERE url NOT IN (:url, :twin) ORDER BY url",
            {**values, "most": MOST_MOMENTS},
        )
        known = [page_facts(row) for row in rows]
        hidden = {key for key, each in self._permits.pages(known).items() if each.effect is TakedownEffect.HIDE}
        return tuple(dict.fromkeys(each.url for each in known if each.page_id not in hidden))[:limit]

    def place(self, page: CapturedPage, kind: ArtifactKind) -> RecordPlace | None:
        """Return the location of the page's artifact of that kind; None when it has none."""
        uri = page.artifacts.get(kind)
        place = self._place(page, uri) if uri is not None else None
        if place is None:
            return None
        subject = TakedownSubject(place.url, page.timestamp, place.digest)
        return place if self._permits.subject(subject) is None else None

    def document(self, page: CapturedPage) -> RecordPlace | None:
        """Return the location of the page's main resource; None when unknown."""
        return self._place(page, page.final_url, "AND status BETWEEN 200 AND 299")

    def _place(self, page: CapturedPage, url: str, condition: str = "") -> RecordPlace | None:
        rows = self._database.rows(
            f"SELECT {_PLACE} FROM captures"  # noqa: S608 constants of ours
            f" WHERE page_id = :page_id AND url = :url {condition} LIMIT 1",
            {"page_id": page.page_id, "url": url},
        )
        return RecordPlace(**dict(rows[0])) if rows else None

    def takedowns_of(self, urls: Sequence[str]) -> list[Takedown | None]:
        """Return the take-downs of URLs regardless of time: URL, host and prefix."""
        return [self._permits.subject(TakedownSubject(url)) for url in urls]

    @property
    def page_condition(self) -> str:
        """Return the SQL condition on ``pages`` that excludes pages hidden for their login."""
        return self._permits.page_condition

    def are_open(self) -> bool:
        """Return True when nothing is taken down or hidden, so that page counts disclose nothing."""
        return self._permits.are_open()

    def threatened(self, pages: Sequence[CapturedPage]) -> frozenset[str]:
        """Return the `page_id` of those pages whose copy is held for a threat."""
        return frozenset(self._permits.threats([page.page_id for page in pages]))

    def searchable(self, page_ids: Sequence[str]) -> dict[str, Any]:
        """Return the rows of those pages whose text may be found, by id: facts, type, status, class, outcome."""
        rows: dict[str, Any] = {}
        for marks, values in in_lists(page_ids):
            query = (
                f"SELECT {PAGE_FACTS}, captured_ms, mime, status, page_class, outcome FROM pages"  # noqa: S608 ours
                f" WHERE page_id IN ({marks}) AND {SHOWN}"
            )
            rows |= {row["page_id"]: row for row in self._database.rows(query, values)}
        shown = self._permits.searchable([page_facts(row) for row in rows.values()])
        return {page_id: row for page_id, row in rows.items() if page_id in shown}

    def with_ids(self, page_ids: Sequence[str]) -> dict[str, CapturedPage]:
        """Return the pages with these identifiers; hidden and missing ones are omitted."""
        pages_by_id: dict[str, CapturedPage] = {}
        for marks, values in in_lists(page_ids):
            rows = self._database.rows(
                f"SELECT {COLUMNS} FROM pages WHERE page_id IN ({marks})",  # noqa: S608 names of values
                values,
            )
            pages_by_id |= {page.page_id: page for page in self.pages_of(rows)}
        return pages_by_id

    def pages_of(self, rows: Sequence[Any], *, artifacts_too: bool = True) -> tuple[CapturedPage, ...]:
        """Convert rows to pages without hidden ones; a copy may need `artifacts_too` to be found."""
        artifacts = self._artifacts([row["page_id"] for row in rows]) if artifacts_too else {}
        pages = [_page(row, artifacts.get(row["page_id"], {})) for row in rows]
        taken_down = self._permits.pages(map(page_facts, rows))
        embedded = self._permits.embedded([page.page_id for page in pages])
        shown = []
        for page in pages:
            takedown = taken_down.get(page.page_id)
            if takedown is None and page.page_id in embedded:
                # Reduced for framed documents that must not be shown.
                is_disclosed = {each.takedown.effect for each in embedded[page.page_id]} <= {TakedownEffect.BLOCK}
                reduced = replace(
                    page,
                    artifacts={kind: uri for kind, uri in page.artifacts.items() if kind not in WITH_FRAMES},
                    text_digest="",
                    withheld=TakedownEffect.BLOCK if is_disclosed else TakedownEffect.HIDE,
                )
                shown.append(reduced)
            elif takedown is None:
                shown.append(page)
            elif takedown.effect is TakedownEffect.BLOCK:
                blocked = replace(
                    page,
                    final_url=page.url,
                    reason="",
                    title="",
                    class_evidence="",
                    artifacts={},
                    text_digest="",
                    taken_down=takedown,
                    device="",
                    language="",
                )
                shown.append(blocked)
        return tuple(shown)

    def _artifacts(self, page_ids: list[str]) -> dict[str, dict[ArtifactKind, tuple[str, str]]]:
        """Return URI and digest of artifacts by page and kind."""
        artifacts: dict[str, dict[ArtifactKind, tuple[str, str]]] = {}
        query = "SELECT page_id, url, digest FROM captures WHERE page_id IN ({marks}) AND substr(url, 1, 4) = 'urn:'"
        for marks, values in in_lists(page_ids):
            for row in self._database.rows(query.format(marks=marks), values):
                if (parsed := parse_artifact_uri(row["url"])) is not None:
                    artifacts.setdefault(row["page_id"], {})[parsed[0]] = row["url"], row["digest"]
        return artifacts


class PageRecords:
    """Manifests and texts of pages; without a reader there are none. Thread-safe."""

    def __init__(self, store: PageStore, records: ArtifactReader | None) -> None:
        self._store = store
        self._records = records

    def manifest(self, page: CapturedPage) -> PageInfo | None:
        """Return the page's manifest; None when it cannot be read."""
        return self._read(page, ArtifactKind.PAGEINFO, ArtifactReader.manifest)

    def text(self, page: CapturedPage) -> str | None:
        """Return the page's visible text; None when it cannot be read."""
        return self._read(page, ArtifactKind.TEXT, ArtifactReader.text)

    def picture(self, page: CapturedPage, kind: ArtifactKind) -> bytes | None:
        """Return the page's picture of that kind; None when it cannot be read."""
        return self._read(page, kind, ArtifactReader.picture)

    def _read(
        self, page: CapturedPage, kind: ArtifactKind, read: Callable[[ArtifactReader, RecordPlace], _Artifact]
    ) -> _Artifact | None:
        if self._records is None or (place := self._store.place(page, kind)) is None:
            return None
        try:
            return read(self._records, place)
        except PermanentError as error:
            _LOG.warning("front.%s_unreadable: page_id=%s %s", kind, page.page_id, error)
            return None


def _page(row: Any, artifacts: dict[ArtifactKind, tuple[str, str]]) -> CapturedPage:
    return CapturedPage(
        **{name: row[name] for name in _OWN_COLUMNS},
        captured_at=from_unix_milliseconds(row["captured_ms"]),
        artifacts={kind: uri for kind, (uri, _) in artifacts.items()},
        text_digest=artifacts.get(ArtifactKind.TEXT, ("", ""))[1],
        quality=row["quality"],
    )
