"""Captured pages as the reader pages know them, read from the captures index.

Every page that a reader is told of comes out of `PageStore.pages_of`, every moment of the calendar
out of `PageStore.moments`: whoever must keep something from readers has these two places to do it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, NamedTuple

from core.captures import ArtifactKind, parse_artifact_uri
from core.errors import BadUrlError
from core.page_classes import GOOD, QUALITY_SQL, WITHHELD, class_rank, is_usable
from core.page_manifest import VisitOutcome
from core.timestamps import from_unix_milliseconds, timestamp14, unix_milliseconds
from core.url_keys import replay_key
from playback.access.control import WITH_FRAMES, AccessControl, TakenDownError
from playback.access.takedowns import Takedown, TakedownEffect, TakedownSubject
from playback.media_types import DOWNLOAD_TYPES, PDF, READ_TYPES
from playback.url_paths import is_web_url
from playback.web.page_request import EVERYTHING, CaptureFacets
from warc.artifact_reader import RecordPlace
from warc.index.database import IndexDatabase, key_values
from warc.index.page_choice import (
    BEST_FIRST,
    OFFERED,
    USABLE,
    BestPageQuery,
    best_pages,
    other_scheme,
)

MOST_MOMENTS = 50_000  # of one URL's captures in its calendar, the newest
_IDS_AT_ONCE = 200
_CANDIDATES = 20  # looked at for one that can be shown
_LATEST_MS = 2**53
_NOT_OFFERED = {VisitOutcome.FAILED, VisitOutcome.SKIPPED}
_OWN_COLUMNS = (
    *("page_id", "url", "timestamp", "final_url", "outcome", "reason", "status", "mime", "title"),
    *("records", "stored_bytes", "page_class", "class_score", "class_evidence"),
    *("device", "language", "login"),
)
COLUMNS = f"{', '.join(_OWN_COLUMNS)}, captured_ms, {QUALITY_SQL} AS quality"


@dataclass(frozen=True, slots=True)
class CapturedPage:
    """A captured page as lists and the reader page show it.

    Attributes:
        artifacts: its artifact URIs by kind.
        stored_bytes: what all its records take on disk.
        page_class: what sort of page it is; see `core.page_classes`.
        class_score: how sure that is, from 0 to 1.
        class_evidence: what speaks for it, a sentence a line.
        device: what it was seen on (`core.page_manifest.DeviceType`); empty where that was not recorded.
        language: the first that the browser asked for; empty where that was not recorded.
        login: the name of the login that it was visited with; empty without.
        quality: how far a check of its copy moves it behind others; see `core.playback_check.choice_penalty`.
        text_digest: of its visible text as it was kept; empty when none was.
        taken_down: why it is blocked; then nothing is told of it but its address and its moment.
        withheld: of a page with a framed document that must not be shown, whether that is told; then its
            copy is shown without the document, and neither its text nor its pictures are.
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
    text_digest: str = ""
    taken_down: Takedown | None = None
    withheld: TakedownEffect | None = None
    quality: int = 0
    device: str = ""
    language: str = ""
    login: str = ""

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
        shown = ArtifactKind.DOM in self.artifacts or self.mime in READ_TYPES
        return shown and self.outcome not in _NOT_OFFERED and self.taken_down is None

    @property
    def is_usable(self) -> bool:
        """True when it is an archived copy of the page (`core.page_classes.is_usable`).

        Whether a threat in it holds it back is asked of `PageStore.threatened`.
        """
        is_shown = self.has_copy or self.is_download
        return is_usable(self.page_class, self.status, is_shown=is_shown)

    @property
    def is_good(self) -> bool:
        """True when nothing speaks against taking what the visitor saw for the page."""
        return self.class_rank == 0

    @property
    def class_rank(self) -> int:
        """How far what the visitor saw is from good; see `core.page_classes.class_rank`."""
        return class_rank(self.page_class, self.status)

    @property
    def rank(self) -> int:
        """How far its copy is from good: by what the visitor saw, and by what a check saw of it."""
        return self.class_rank + self.quality

    @property
    def evidence(self) -> list[str]:
        """What speaks for its class, when that is not a good one."""
        return [] if self.page_class in GOOD else self.class_evidence.splitlines()

    @property
    def is_download(self) -> bool:
        """True when the copy is a file to download rather than a page to read."""
        return (
            self.mime in DOWNLOAD_TYPES
            and self.outcome not in _NOT_OFFERED
            and self.page_class not in WITHHELD
            and self.taken_down is None
        )

    @property
    def is_pdf(self) -> bool:
        """True when the copy is a PDF, which is shown page by page and handed out besides."""
        return self.mime == PDF and self.has_copy

    @property
    def is_file(self) -> bool:
        """True when the copy is a file that is handed out and not shown."""
        return self.is_download and not self.is_pdf

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
class CaptureMoment:
    """A capture as the calendar counts it: when, how it was seen, and whether there is a copy to read."""

    timestamp: str
    is_offered: bool
    page: "_AccessFields"
    device: str = ""
    language: str = ""


class _AccessFields(NamedTuple):
    """What a take-down is looked up by."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    login: str


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of time: from `start` to before `end`."""

    start: datetime
    end: datetime


_KNOWN = ", ".join(_AccessFields._fields)


class PageStore:
    """Questions to the captures index of one collection; safe to ask from any thread.

    Every question raises TransientError when the index cannot be read, and finds nothing when there
    is none yet. Pages that are hidden are not found; of one that is blocked, its address and its
    moment are. Without `permits` everything may be shown.
    """

    def __init__(self, database: IndexDatabase, permits: AccessControl | None = None) -> None:
        self._database = database
        self._permits = permits

    def nearest(self, url: str, at: datetime | None, *, exact: bool = True) -> CapturedPage | None:
        """The page of `url` to show for the moment `at` (None: the newest).

        That is the very capture whose timestamp `at` names, if there is one and `exact` is true; else
        the best, and of several equally good ones the nearest (`warc.index.page_choice`). What can be shown
        goes before what cannot.

        Raises:
            TakenDownError: that very capture is blocked, or every one that there is.
        """
        try:
            values = key_values(replay_key(url))
        except BadUrlError:
            return None
        timestamp = "" if at is None or not exact else timestamp14(at)
        wanted = BestPageQuery(
            url, _LATEST_MS if at is None else unix_milliseconds(at), timestamp, OFFERED
        )
        pages = self._candidates(values, wanted)
        if not pages:
            return None
        first = pages[0]
        if exact and at is not None and first.timestamp == timestamp14(at):
            return first
        equals = [each for each in pages if (each.rank, each.url) == (first.rank, first.url)]
        shown = (each for each in equals if each.has_copy or each.is_download)
        return next(shown, first)

    def usable(self, url: str, at: datetime | None) -> Iterator[CapturedPage]:
        """Yield the archived copies of `url` and its equals, the best first, then the nearest to `at`.

        None of them is taken down or held back for a threat.
        """
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

    def _candidates(self, key: dict[str, str], wanted: BestPageQuery) -> tuple[CapturedPage, ...]:
        """The first pages that may be shown, the best before the others.

        Raises:
            TakenDownError: the very one that was asked for is blocked, or all are.
        """
        rows, blocked = self._best(key, wanted), None
        while part := list(islice(rows, _CANDIDATES)):
            pages = self.pages_of(part)
            for page in pages:
                if page.taken_down is not None:
                    blocked = blocked or TakenDownError(page.taken_down)
                    if page.timestamp == wanted.timestamp and page.url == wanted.url:
                        raise TakenDownError(page.taken_down)
            shown = tuple(page for page in pages if page.taken_down is None)
            if shown:
                return shown
        if blocked is not None:
            raise blocked
        return ()

    def _best(self, key: dict[str, str], wanted: BestPageQuery) -> Iterator[Any]:
        """Rows of pages, the best first; what failed or was skipped comes last, unless it is named."""
        named = f"captured_ms BETWEEN :first AND :first + 999 AND timestamp = :timestamp AND NOT ({OFFERED})"
        facts = {
            **key,
            "url": wanted.url,
            "twin": other_scheme(wanted.url),
            "at": wanted.at_ms,
            "timestamp": wanted.timestamp,
            "first": wanted.at_ms - wanted.at_ms % 1000,
        }
        seen: list[str] = []
        if wanted.timestamp:
            very = self._database.rows(
                f"SELECT {COLUMNS} FROM pages WHERE {self._database.has_key} AND {named}"  # noqa: S608 constants of ours
                f" AND url IN (:url, :twin) ORDER BY {BEST_FIRST} LIMIT 20",
                facts,
            )
            if very:
                # What is offered of that very moment goes before it.
                offered = best_pages(
                    self._database.rows, self._database.has_key, key, COLUMNS, wanted
                )
                first = list(takewhile(lambda row: _is_named(row, facts), offered))
                seen = [row["page_id"] for row in (*first, *very)]
                yield from (*first, *very)
        for shown in (OFFERED, f"NOT ({OFFERED})"):
            rows = best_pages(
                self._database.rows,
                self._database.has_key,
                key,
                COLUMNS,
                replace(wanted, shown=shown),
            )
            yield from (row for row in rows if row["page_id"] not in seen)

    def better(self, page: CapturedPage) -> CapturedPage | None:
        """A capture of the same URL to be read rather than `page`; None when `page` is the best."""
        try:
            found = self.nearest(page.url, page.captured_at, exact=False)
        except TakenDownError:
            return None
        if found is None or found.rank >= page.rank or found.outcome in _NOT_OFFERED:
            return None
        return found

    def captures(
        self,
        url: str,
        *,
        span: TimeSpan | None = None,
        limit: int,
        oldest_first: bool = False,
        facets: CaptureFacets = EVERYTHING,
    ) -> tuple[CapturedPage, ...]:
        """Return at most `limit` pages of `url` under either of the web's schemes, newest first."""
        values = _of_url(url)
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
        # What is hidden leaves no gap.
        for offset in range(0, MOST_MOMENTS, limit):
            rows = self._database.rows(query, {**values, "limit": limit, "offset": offset})
            pages += filter(facets.include, self.pages_of(rows))
            if len(pages) >= limit or len(rows) < limit:
                break
        return tuple(pages[:limit])

    def moments(self, url: str) -> tuple[CaptureMoment, ...]:
        """The newest `MOST_MOMENTS` captures of `url` under either scheme, newest first."""
        values = _of_url(url)
        if values is None:
            return ()
        rows = self._database.rows(
            f"SELECT {_KNOWN}, device, language,"  # noqa: S608 constants of ours
            f" CASE WHEN {USABLE} THEN 1 ELSE 0 END AS offered"
            f" FROM pages WHERE {self._database.has_key} AND url IN (:url, :twin)"
            " ORDER BY captured_ms DESC LIMIT :limit",
            {**values, "limit": MOST_MOMENTS},
        )
        moments = (
            CaptureMoment(
                row["timestamp"],
                bool(row["offered"]),
                _AccessFields(*(row[name] for name in _AccessFields._fields)),
                row["device"],
                row["language"],
            )
            for row in rows
        )
        return tuple(self._permitted(moments))

    def _permitted(self, moments: Iterable[CaptureMoment]) -> Iterator[CaptureMoment]:
        """The moments without those that are hidden; blocked ones offer nothing."""
        if self._permits is None:
            yield from moments
            return
        every = list(moments)
        taken_down = self._permits.pages([each.page for each in every])
        for each in every:
            takedown = taken_down.get(each.page.page_id)
            if takedown is None:
                yield each
            elif takedown.effect is TakedownEffect.BLOCK:
                yield replace(each, is_offered=False, device="", language="")

    def spellings(self, url: str, *, limit: int) -> tuple[str, ...]:
        """Other URLs under the same replay key, which may be other pages."""
        values = _of_url(url)
        if values is None:
            return ()
        rows = self._database.rows(
            f"SELECT {_KNOWN} FROM ("  # noqa: S608 constants of ours
            f"SELECT {_KNOWN} FROM pages WHERE {self._database.has_key}"
            " ORDER BY captured_ms DESC LIMIT :most) AS newest"
            " WHERE url NOT IN (:url, :twin) ORDER BY url",
            {**values, "most": MOST_MOMENTS},
        )
        known = [_AccessFields(*(row[name] for name in _AccessFields._fields)) for row in rows]
        taken_down = {} if self._permits is None else self._permits.pages(known)
        hidden = {key for key, each in taken_down.items() if each.effect is TakedownEffect.HIDE}
        urls = dict.fromkeys(each.url for each in known if each.page_id not in hidden)
        return tuple(urls)[:limit]

    def place(self, page: CapturedPage, kind: ArtifactKind) -> RecordPlace | None:
        """Where the page's artifact of that kind lies; None when it has none."""
        uri = page.artifacts.get(kind)
        if uri is None:
            return None
        rows = self._database.rows(
            'SELECT url, filename, "offset", length, digest FROM captures'
            " WHERE page_id = :page_id AND url = :url LIMIT 1",
            {"page_id": page.page_id, "url": uri},
        )
        if not rows:
            return None
        place = RecordPlace(**{name: rows[0][name] for name in RecordPlace.__slots__})
        subject = TakedownSubject(place.url, page.timestamp, place.digest, page.page_id)
        is_shown = self._permits is None or self._permits.subject(subject) is None
        return place if is_shown else None

    def document(self, page: CapturedPage) -> RecordPlace | None:
        """Return where the page's main resource lies; None when that is not known."""
        rows = self._database.rows(
            'SELECT url, filename, "offset", length, digest FROM captures'
            " WHERE page_id = :page_id AND url = :url AND status BETWEEN 200 AND 299 LIMIT 1",
            {"page_id": page.page_id, "url": page.final_url},
        )
        return (
            RecordPlace(**{name: rows[0][name] for name in RecordPlace.__slots__}) if rows else None
        )

    def takedowns_of(self, urls: Sequence[str]) -> list[Takedown | None]:
        """What holds for URLs whenever they were captured: of themselves, their hosts, paths above."""
        if self._permits is None:
            return [None] * len(urls)
        return [self._permits.subject(TakedownSubject(url)) for url in urls]

    @property
    def page_condition(self) -> str:
        """Return the SQL condition on ``pages`` that all meet which are not hidden for their login."""
        return "1 = 1" if self._permits is None else self._permits.page_condition

    def are_open(self) -> bool:
        """Return True when nothing is taken down or hidden, so that numbers of pages tell of nothing hidden."""
        return self._permits is None or self._permits.are_open()

    def threatened(self, pages: Sequence[CapturedPage]) -> frozenset[str]:
        """Those of the pages, by `page_id`, whose copy is held back for a threat in it."""
        if self._permits is None:
            return frozenset()
        return frozenset(self._permits.threats([page.page_id for page in pages]))

    def with_ids(self, page_ids: Sequence[str]) -> dict[str, CapturedPage]:
        """The pages that have these identifiers, by them, without those that are hidden or not there."""
        found: dict[str, CapturedPage] = {}
        for start in range(0, len(page_ids), _IDS_AT_ONCE):
            part = page_ids[start : start + _IDS_AT_ONCE]
            values = {f"page_{number}": page_id for number, page_id in enumerate(part)}
            marks = ", ".join(f":{name}" for name in values)
            rows = self._database.rows(
                f"SELECT {COLUMNS} FROM pages WHERE page_id IN ({marks})",  # noqa: S608 names of values
                values,
            )
            found |= {page.page_id: page for page in self.pages_of(rows)}
        return found

    def pages_of(
        self, rows: Sequence[Any], *, artifacts_too: bool = True
    ) -> tuple[CapturedPage, ...]:
        """The pages of rows with `COLUMNS`, in the same order, without those that are hidden.

        Args:
            rows: of the index; other columns do no harm.
            artifacts_too: False where nobody asks which artifacts a page has; then only a page whose
                media type can be shown has a copy.
        """
        artifacts = self._artifacts([row["page_id"] for row in rows]) if artifacts_too else {}
        pages = [_page(row, artifacts.get(row["page_id"], _PageArtifacts({}, ""))) for row in rows]
        taken_down = {} if self._permits is None else self._permits.pages(pages)
        ids = [page.page_id for page in pages]
        embedded = {} if self._permits is None else self._permits.embedded(ids)
        shown = []
        for page in pages:
            takedown = taken_down.get(page.page_id)
            if takedown is None and page.page_id in embedded:
                why = [each.takedown for each in embedded[page.page_id]]
                shown.append(_without_frames(page, why))
            elif takedown is None:
                shown.append(page)
            elif takedown.effect is TakedownEffect.BLOCK:
                shown.append(_blocked(page, takedown))
        return tuple(shown)

    def _artifacts(self, page_ids: list[str]) -> dict[str, "_PageArtifacts"]:
        found: dict[str, _PageArtifacts] = {}
        if not page_ids:
            return found
        values = {f"page_{number}": page_id for number, page_id in enumerate(page_ids)}
        marks = ", ".join(f":{name}" for name in values)
        for row in self._database.rows(
            f"SELECT page_id, url, digest FROM captures WHERE page_id IN ({marks})"  # noqa: S608 names of values
            " AND substr(url, 1, 4) = 'urn:'",
            values,
        ):
            parsed = parse_artifact_uri(row["url"])
            if parsed is None:
                continue
            of_page = found.setdefault(row["page_id"], _PageArtifacts({}, ""))
            of_page.uris[parsed[0]] = row["url"]
            if parsed[0] is ArtifactKind.TEXT:
                of_page.text_digest = row["digest"]
        return found


@dataclass(slots=True)
class _PageArtifacts:
    """A page's artifacts: URI by kind, and the digest of its text."""

    uris: dict[ArtifactKind, str]
    text_digest: str


def _page(row: Any, artifacts: _PageArtifacts) -> CapturedPage:
    values = {name: row[name] for name in _OWN_COLUMNS}
    captured_at = from_unix_milliseconds(row["captured_ms"])
    return CapturedPage(
        **values,
        captured_at=captured_at,
        artifacts=artifacts.uris,
        text_digest=artifacts.text_digest,
        quality=row["quality"],
    )


def _blocked(page: CapturedPage, takedown: Takedown) -> CapturedPage:
    """What may be told of a page that is blocked."""
    return replace(
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


def _without_frames(page: CapturedPage, why: Iterable[Takedown]) -> CapturedPage:
    """Return what may be told of a page with framed documents that must not be shown."""
    is_told = all(each.effect is TakedownEffect.BLOCK for each in why)
    artifacts = {kind: uri for kind, uri in page.artifacts.items() if kind not in WITH_FRAMES}
    return replace(
        page,
        artifacts=artifacts,
        text_digest="",
        withheld=TakedownEffect.BLOCK if is_told else TakedownEffect.HIDE,
    )


def _of_url(url: str) -> dict[str, Any] | None:
    """The values that find a URL's pages; None when it has no key."""
    try:
        return {**key_values(replay_key(url)), "url": url, "twin": other_scheme(url)}
    except BadUrlError:
        return None


def _is_named(row: Any, facts: dict[str, Any]) -> bool:
    """Whether the row is the very capture that is asked for."""
    urls = (facts["url"], facts["twin"])
    return bool(row["timestamp"] == facts["timestamp"] and row["url"] in urls)
