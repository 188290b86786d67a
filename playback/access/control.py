"""Access control: the one place that decides whether a page, capture or body may be shown.

Every route checks access twice: where captures and pages are looked up, hence before any cache and any 304, and where
bytes leave. Hidden items, captures with a login (docs/how-to/logins.md) and blocked items are skipped; if nothing else
is left, `TakenDownError` carries the reason. If decisions cannot be read, nothing is shown (P-22).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from core.captures import ArtifactKind, Capture, parse_artifact_uri
from core.errors import PermanentError
from core.media_types import HTML_TYPES, TEXT_TYPES
from core.timestamps import timestamp14
from playback.access.decision_store import DecisionStore
from playback.access.holds import HoldIndex, ScanVerdict, hold_of
from playback.access.takedowns import (
    LiveTakedowns,
    Takedown,
    TakedownEffect,
    TakedownKind,
    TakedownSet,
    TakedownSubject,
    strictest_takedown,
    url_within,
)
from warc.index.database import in_lists

Rows = Callable[[str, Mapping[str, Any]], Sequence[Any]]

_BY_ADDRESS = (TakedownKind.URL, TakedownKind.PREFIX, TakedownKind.HOST)
# Types displayed as documents in frames; images are withheld individually where embedded.
_FRAMED_TYPES = sorted(HTML_TYPES | TEXT_TYPES | {"text/xml", "application/xml", ""})
# Evidence of how a page looked; without active content.
_PICTURES = (ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL)
# Made of a page with all that is framed in it.
WITH_FRAMES = (*_PICTURES, ArtifactKind.TEXT, ArtifactKind.PDF)
_ALGORITHMS = ("sha256", "sha1", "md5", "sha512")
# Captures made with a login are treated as never captured.
_OF_A_LOGIN = Takedown(0, TakedownKind.CAPTURE, "", effect=TakedownEffect.HIDE)


class TakenDownError(PermanentError):
    """Captured, but taken down; the response states `takedown` in place of the content."""

    def __init__(self, takedown: Takedown) -> None:
        super().__init__("It was taken down.")
        self.takedown = takedown

    @property
    def is_disclosed(self) -> bool:
        """Return True when the reader is informed that a capture exists."""
        return self.takedown.effect is TakedownEffect.BLOCK


class EmbeddedDocument(NamedTuple):
    """Framed document of a page that must not be shown."""

    url: str
    takedown: Takedown


class PageFacts(NamedTuple):
    """Row of ``pages`` with the fields that access decisions depend on."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    login: str


PAGE_FACTS = ", ".join(PageFacts._fields)
_FRAMED = f"""
SELECT c.page_id, c.url, c.timestamp, c.digest, c.status FROM captures AS c
JOIN pages AS p ON p.page_id = c.page_id WHERE c.page_id IN ({{marks}})
AND c.url <> p.url AND c.url <> p.final_url AND substr(c.url, 1, 4) <> 'urn:'
AND c.mime IN ({", ".join(f"'{each}'" for each in _FRAMED_TYPES)})
"""  # noqa: S608 constants of ours
# The redirects that led to the pages' documents.
_HOPS = """
SELECT hop.page_id, hop.url FROM captures AS hop JOIN pages AS p ON p.page_id = hop.page_id
WHERE hop.page_id IN ({marks}) AND hop.status BETWEEN 300 AND 399
AND hop.captured_ms <= coalesce((SELECT min(document.captured_ms)
    FROM captures AS document WHERE document.page_id = hop.page_id AND document.url = p.final_url
    AND (document.status < 300 OR document.status >= 400)), hop.captured_ms)
"""
_TEXTS = "SELECT page_id, url, timestamp, digest FROM captures WHERE page_id IN ({marks}) AND substr(url, 1, 9) = 'urn:text:'"
# The payloads of the pages' documents: server response and DOM.
_DOCUMENTS = """
SELECT c.page_id, c.digest FROM captures AS c JOIN pages AS p ON p.page_id = c.page_id
WHERE c.page_id IN ({marks})
AND (c.url = p.url OR c.url = p.final_url OR substr(c.url, 1, 8) = 'urn:dom:')
"""


class AccessControl:
    """Access decisions for a collection. Thread-safe if `rows` is; all methods raise TransientError."""

    def __init__(
        self,
        # a decision store, whose changes are followed, or a set of take-downs
        decisions: DecisionStore | TakedownSet,
        rows: Rows,  # runs queries on the captures index
        now: Callable[[], datetime],  # returns the current time
        # further holds; None: payloads with a threat are held, threat lists are not used
        holds: HoldIndex | None = None,
        *,
        show_logins: bool = False,  # captures made with a login may be shown
    ) -> None:
        self._takedowns: Callable[[], TakedownSet] = (
            (lambda: decisions) if isinstance(decisions, TakedownSet) else LiveTakedowns(decisions).now
        )
        self._rows = rows
        self._now = now
        self._show_logins = show_logins
        self.holds = holds or HoldIndex(None if isinstance(decisions, TakedownSet) else decisions)

    def state_of_digests(self) -> str:
        """Return a cache key for derived payloads; it changes with digest take-downs and threats."""
        return f"{self._takedowns().state_of_digests}{self.holds.state()}"

    def are_open(self) -> bool:
        """Return True when nothing at all is taken down or hidden."""
        query = "SELECT 1 AS one FROM pages WHERE login <> '' LIMIT 1"
        return not self._takedowns() and (self._show_logins or not self._rows(query, {}))

    @property
    def page_condition(self) -> str:
        """Return the SQL condition on ``pages`` that excludes pages hidden because of their login."""
        return "1 = 1" if self._show_logins else "login = ''"

    def login(self, name: str | None) -> Takedown | None:
        """Return why captures made with that login must not be shown; None if they may."""
        return _OF_A_LOGIN if name and not self._show_logins else None

    def subject(self, subject: TakedownSubject) -> Takedown | None:
        """Return the take-down matching these facts alone; prefer `page` and `capture`."""
        return self._takedowns().on(subject, self._now())

    def page(self, page: PageFacts) -> Takedown | None:
        """Return the take-down of a page: of its URL, its final URL, or its document's payload."""
        return self.pages((page,)).get(page.page_id)

    def threats(self, page_ids: Sequence[str]) -> dict[str, ScanVerdict]:
        """Return the threats in the main documents of the pages, whose copies must not be shown, by `page_id`."""
        threats: dict[str, ScanVerdict] = {}
        if self.holds.any_threat():
            for row in self._rows_of(page_ids, _DOCUMENTS):
                if (verdict := self.holds.threat((row["digest"],))) is not None:
                    threats.setdefault(row["page_id"], verdict)
        return threats

    def searchable(self, pages: Sequence[PageFacts]) -> frozenset[str]:
        """Return the `page_id` of the pages whose text may be found, quoted and counted in a search."""
        hidden = set(self.pages(pages))
        ids = [page.page_id for page in pages if page.page_id not in hidden]
        hidden.update(self.embedded(ids), self.threats(ids))
        takedowns, now, any_threat = self._takedowns(), self._now(), self.holds.any_threat()
        for row in self._rows_of(ids, _TEXTS) if takedowns or any_threat else ():
            subject = TakedownSubject(row["url"], row["timestamp"], row["digest"])
            if takedowns.on(subject, now) or (any_threat and self.holds.payload(row["digest"])):
                hidden.add(row["page_id"])
        return frozenset(ids) - hidden

    def scan(self, page_id: str) -> ScanVerdict | None:
        """Return the scan verdict of a page's document, a threat first; None: not scanned."""
        digests = {row["digest"] for row in self._rows_of([page_id], _DOCUMENTS)}
        threat = self.holds.threat(sorted(digests))
        if threat is not None or not digests:
            return threat
        verdicts = [self.holds.verdict(each) for each in sorted(digests)]
        known = [each for each in verdicts if each is not None and not each.skipped]
        return known[0] if len(known) == len(verdicts) else None

    def _held_page(self, page_id: str) -> Takedown | None:
        """Return the hold on a page's copy because of a threat in its document."""
        verdict = self.threats((page_id,)).get(page_id)
        return None if verdict is None else hold_of(verdict)

    def check_copy(self, page_id: str) -> None:
        """Raise TakenDownError when a page's document has a threat; screenshots are not affected."""
        if (hold := self._held_page(page_id)) is not None:
            raise TakenDownError(hold)

    def download(self, capture: Capture) -> None:
        """Raise TakenDownError when a capture may not be downloaded as a file."""
        if (hold := self.holds.download(capture.digest)) is not None:
            raise TakenDownError(hold)

    def pages(self, pages: Iterable[PageFacts]) -> dict[str, Takedown]:
        """Return the take-downs of the pages, by `page_id`, including those hidden for their login."""
        takedowns, pages = self._takedowns(), list(pages)
        decisions: dict[str, Takedown] = {}
        for page in pages:
            _note(decisions, page.page_id, self.login(page.login))
        if not takedowns:
            return decisions
        now = self._now()
        for page in pages:
            for url in {page.url, page.final_url}:
                _note(decisions, page.page_id, takedowns.on(TakedownSubject(url, page.timestamp), now))
        if takedowns.has(*_BY_ADDRESS):
            for row in self._rows_of([page.page_id for page in pages if page.url != page.final_url], _HOPS):
                _note(decisions, row["page_id"], takedowns.on(TakedownSubject(row["url"]), now))
        if takedowns.has(TakedownKind.DIGEST):
            for row in self._rows_of([page.page_id for page in pages], _DOCUMENTS):
                _note(decisions, row["page_id"], _by_digest(takedowns, row["digest"], now))
        return decisions

    def capture(self, capture: Capture) -> Takedown | None:
        """Return the take-down of a capture: its own, or for artifacts and the document the page's.

        Subresources follow a take-down of that single capture only, and only if no other page has the same payload.
        """
        if (own := self.login(capture.login)) is not None:
            return own
        page_id, hold = capture.page_id or "", None
        artifact = parse_artifact_uri(capture.url) if page_id else None
        if self.holds.any_threat():  # in it or, for reader artifacts, in the page
            is_reading = artifact is not None and artifact[0] not in _PICTURES
            hold = self.holds.payload(capture.digest) or (self._held_page(page_id) if is_reading else None)
        has_frames = artifact is not None and artifact[0] in WITH_FRAMES
        framed = self.embedded((page_id,)).get(page_id, ()) if has_frames else ()
        return strictest_takedown((self._taken_down(capture), hold, *(each.takedown for each in framed)))

    def embedded(self, page_ids: Sequence[str]) -> dict[str, tuple[EmbeddedDocument, ...]]:
        """Return framed documents that must not be shown, by `page_id`: taken down or with a threat.

        They were captured at other URLs than the page's, redirects among them, as they may have led there.
        """
        takedowns = self._takedowns()
        if not takedowns and not self.holds.any_threat():
            return {}
        documents: dict[str, tuple[EmbeddedDocument, ...]] = {}
        now = self._now()
        rows = list(self._rows_of(page_ids, _FRAMED))
        with_frames = {row["page_id"] for row in rows if not 300 <= (row["status"] or 0) < 400}
        for row in rows:
            page_id = row["page_id"]
            if page_id not in with_frames:
                continue
            subject = TakedownSubject(row["url"], row["timestamp"], row["digest"])
            why = strictest_takedown((takedowns.on(subject, now), self.holds.payload(row["digest"])))
            if why is not None:
                documents[page_id] = (*documents.get(page_id, ()), EmbeddedDocument(row["url"], why))
        return documents

    def _taken_down(self, capture: Capture) -> Takedown | None:
        takedowns = self._takedowns()
        if not takedowns:
            return None
        now = self._now()
        subject = TakedownSubject(capture.url, timestamp14(capture.captured_at), capture.digest)
        own = takedowns.on(subject, now)
        if not capture.page_id or (own is not None and own.effect is TakedownEffect.HIDE):
            return own
        # The capture's page may cover it.
        query = f"SELECT {PAGE_FACTS} FROM pages WHERE page_id = :page"  # noqa: S608 names
        rows = self._rows(query, {"page": capture.page_id})
        if not rows:
            return own
        page = page_facts(rows[0])
        is_artifact = url_within(capture.url) != capture.url
        if is_artifact or capture.url in (page.url, page.final_url):
            return strictest_takedown((own, self.page(page)))
        by_page = strictest_takedown(
            takedowns.on_capture(url, page.timestamp, now) for url in (page.url, page.final_url)
        )
        # Another page may have the same payload.
        query = "SELECT 1 AS one FROM captures WHERE digest = :digest AND page_id <> :page LIMIT 1"
        values = {"digest": capture.digest, "page": capture.page_id}
        return own if by_page is None or self._rows(query, values) else strictest_takedown((own, by_page))

    def check_payload(self, body: bytes) -> None:
        """Raise TakenDownError when the decoded bytes, whose digest no record names, must not be sent."""
        if self.depend_on_payloads():
            self.check_digests(digests_of((body,)))

    def depend_on_payloads(self) -> bool:
        """Return True when a payload must be read to decide whether it may be sent."""
        return self.holds.any_threat() or self._takedowns().has(TakedownKind.DIGEST)

    def check_digests(self, digests: Iterable[str]) -> None:
        """Raise TakenDownError when a payload with these digests must not be sent."""
        takedowns, now = self._takedowns(), self._now()
        for digest in digests:
            if decision := _by_digest(takedowns, digest, now) or self.holds.payload(digest):
                raise TakenDownError(decision)

    def _rows_of(self, page_ids: Sequence[str], query: str) -> Iterator[Any]:
        for marks, values in in_lists(page_ids):
            yield from self._rows(query.format(marks=marks), values)


def digests_of(blocks: Iterable[bytes]) -> list[str]:
    """Return the digests of the joined blocks, by every algorithm that a take-down may name."""
    sums = [hashlib.new(algorithm, usedforsecurity=False) for algorithm in _ALGORITHMS]
    for block in blocks:
        for each in sums:
            each.update(block)
    return [f"{each.name}:{each.hexdigest()}" for each in sums]


def _by_digest(takedowns: TakedownSet, digest: str, now: datetime) -> Takedown | None:
    return takedowns.on(TakedownSubject("", digest=digest), now)


def _note(decisions: dict[str, Takedown], page_id: str, takedown: Takedown | None) -> None:
    if (counting := strictest_takedown((decisions.get(page_id), takedown))) is not None:
        decisions[page_id] = counting


def page_facts(row: Any) -> PageFacts:
    """Return the row's fields that access decisions depend on."""
    return PageFacts(*(row[name] for name in PageFacts._fields))
