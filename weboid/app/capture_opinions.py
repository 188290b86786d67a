"""Link check results derived from the captures of a collection."""

from collections.abc import Iterator
from datetime import datetime

from core.captures import ArtifactKind
from core.errors import PermanentError
from core.page_classes import parse_page_class
from core.page_manifest import VisitOutcome
from core.timestamps import unix_milliseconds
from links.check_result import CheckResult, CheckVerdict
from links.checker.browser_check import (
    DriftEvidence,
    PageText,
    VisitSummary,
    compare_with_copy,
    result_of_visit,
)
from playback.web.page_store import COLUMNS, CapturedPage, PageRecords, PageStore, TimeSpan
from qa.compare.picture_comparison import compare_pictures
from qa.compare.text_comparison import compare_texts
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase

_CAPTURES_LOOKED_AT = 50
_BATCH = 500


class CaptureOpinions:
    """Captures of one collection as link check results. Not thread-safe."""

    def __init__(self, database: IndexDatabase, records: ArtifactReader) -> None:
        """Use the captures index and the WARCs, which the caller owns and closes."""
        self._database = database
        self._store = PageStore(database)
        self._records = PageRecords(self._store, records)

    def opinion(
        self, url: str, *, since: datetime, until: datetime
    ) -> tuple[CheckResult, datetime] | None:
        """Return the result of the newest visit to the URL in that interval; None without a visit.

        A good result is compared with the oldest good copy.
        """
        pages = self._store.captures(url, span=TimeSpan(since, until), limit=_CAPTURES_LOOKED_AT)
        for page in pages:
            finding = result_of_visit(_seen(page))
            if finding.verdict is not CheckVerdict.UNDECIDED or page is pages[-1]:
                return self._held_against_copy(finding, page), page.captured_at
        return None

    def verdicts(self, since: datetime) -> Iterator[tuple[str, CheckVerdict]]:
        """Yield (URL, verdict) of each page visited since then, oldest first."""
        for page in self._visited(since):
            yield page.url, result_of_visit(_seen(page)).verdict

    def compared(self, since: datetime) -> Iterator[tuple[str, CheckResult, datetime]]:
        """Yield (URL, result, time) of each page visited since then."""
        for page in self._visited(since):
            finding = result_of_visit(_seen(page))
            if finding.verdict is not CheckVerdict.UNDECIDED:
                yield page.url, self._held_against_copy(finding, page), page.captured_at

    def _held_against_copy(self, finding: CheckResult, page: CapturedPage) -> CheckResult:
        """Return a visit's result; adjust a good one by the similarity to the oldest good copy.

        It is unchanged when it cannot be compared: no older copy, or a missing or damaged text.
        """
        if finding.verdict is not CheckVerdict.OK:
            return finding
        now, older = self._face(page), self._oldest_face(page)
        if now is None or older is None:
            return finding
        copy, then = older

        def ask() -> DriftEvidence:
            return DriftEvidence(
                compare_texts(then.text, now.text).score, self._picture(copy, page)
            )

        return compare_with_copy(finding, then, now, ask=ask)[0]

    def _picture(self, then: CapturedPage, now: CapturedPage) -> float | None:
        """Return the share of the copy's picture in the page's; None unless both have one kind."""
        for kind in (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW):
            old = self._records.picture(then, kind)
            new = self._records.picture(now, kind) if old is not None else None
            if old is None or new is None:
                continue
            try:
                found = compare_pictures(old, new)
            except PermanentError:
                continue
            return None if found.seen_blank else found.score
        return None

    def _visited(self, since: datetime) -> Iterator[CapturedPage]:
        at, last = unix_milliseconds(since), ""
        while True:
            rows = self._database.rows(
                f"SELECT {COLUMNS} FROM pages WHERE captured_ms >= :at"  # noqa: S608 a constant of ours
                " AND (captured_ms > :at OR page_id > :last) ORDER BY captured_ms, page_id LIMIT :limit",
                {"at": at, "last": last, "limit": _BATCH},
            )
            if not rows:
                return
            yield from self._store.pages_of(rows)
            at, last = rows[-1]["captured_ms"], rows[-1]["page_id"]

    def _oldest_face(self, page: CapturedPage) -> tuple[CapturedPage, PageText] | None:
        older = self._store.captures(page.url, limit=_CAPTURES_LOOKED_AT, oldest_first=True)
        for each in older:
            if each.page_id == page.page_id or each.captured_at >= page.captured_at:
                return None
            if each.is_good and each.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL):
                face = self._face(each)
                if face is not None:
                    return each, face
        return None

    def _face(self, page: CapturedPage) -> PageText | None:
        text = self._records.text(page)
        return None if text is None else PageText(page.title, text)


def _seen(page: CapturedPage) -> VisitSummary:
    return VisitSummary(
        url=page.url,
        final_url=page.final_url,
        outcome=VisitOutcome(page.outcome),
        reason=page.reason,
        status=page.status,
        mime=page.mime,
        page_class=parse_page_class(page.page_class),
        evidence=tuple(page.evidence),
    )
