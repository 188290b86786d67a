"""Check of one page: its copy is rendered and compared with its capture.

    stored artifacts ──┐
                       ├─> picture, text, parts compared ─> verdict ─> check, and three pictures
    view of the copy ──┘

Artifacts that were not stored are not compared. Withheld pages are not opened.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from classify.missing_page import UNFINISHED
from core.captures import ArtifactKind, artifact_uri
from core.clock import Clock
from core.errors import BrowserUnavailableError, PermanentError, UnavailableError
from core.layout import Layout
from core.page_manifest import PageBehaviour, PageInfo, PageScreen, VisitOutcome
from core.playback_check import MOST_CHARACTERS, LostPart, PlaybackCheck, PlaybackFault, QaVerdict
from core.timestamps import warc_date
from playback.access.levels import Level
from qa.compare import content_comparison
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from qa.compare.verdict_rules import CopyJudgement, judge_copy
from qa.copy_view import TALLEST_PX, CopyView, picture_height_limit, screen_at_capture, view_copy
from qa.local_replay import ENGINE, CollectionReplay, LendBrowser, StoredPage, open_collection_replay, running_replay
from qa.sample import SampleCandidate
from warc.object_storage import check_bucket

_LONGEST_REASON = 200
# The browser's reasons for blocking a cross-origin response.
_KEPT_FROM_PAGE = frozenset({"corp-not-same-origin", "net::ERR_BLOCKED_BY_ORB"})
_MOST_REFUSALS = 50  # parts of a copy whose refusal reason is requested
VIEW_ATTEMPTS = 2  # a browser that failed or hung costs one
# Pictures to compare with by level; at other levels copies are not meant to look alike.
_PICTURES: Mapping[str, tuple[ArtifactKind, ...]] = {
    "images": (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW),
    "full": (ArtifactKind.VIEW,),
}
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
# Notes of the manifest about what the capture itself lacks: no copy is better.
_CAPTURE_DEFECTS = ("glyphs:", "scenes:")
_NO_COPY = frozenset({VisitOutcome.FAILED, VisitOutcome.SKIPPED})
_DOUBTED = frozenset({QaVerdict.BROKEN, QaVerdict.DOUBTFUL})

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Check of a page, with its view and pictures."""

    page: SampleCandidate
    check: PlaybackCheck
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # those there are of `PICTURES`
    is_withheld: bool = False  # True when the page must not be shown, so that it was not opened
    view: CopyView | None = field(default=None, repr=False)  # view of the copy; None when it was not opened


@dataclass(slots=True)
class _CaptureEvidence:
    """Stored artifacts of a page, read before its copy is opened; None: not stored, or damaged."""

    manifest: PageInfo | None = None
    kind: ArtifactKind | None = None
    picture: bytes | None = None
    text: str | None = None
    lost: list[LostPart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlaybackChecker:
    """Checker of pages, several at a time."""

    _playback: CollectionReplay
    _lend: LendBrowser  # for one view
    _pool: Executor  # compares
    _clock: Clock

    async def check(self, page: SampleCandidate) -> CheckOutcome:
        """Check the page; UnavailableError: a tool cannot be used; TransientError: a store cannot be read."""
        began = self._clock.monotonic()
        outcome = await self._check(page)
        if outcome.check.verdict in _DOUBTED:
            await self._in_pool(check_bucket, self._playback.root)
        spent_s = round(self._clock.monotonic() - began, 3)
        return replace(outcome, check=replace(outcome.check, seconds=spent_s))

    async def _check(self, page: SampleCandidate) -> CheckOutcome:
        if page.outcome in _NO_COPY:
            return self._withheld(page, f"There is no copy: the visit {page.outcome}.")
        stored = await self._in_pool(self._playback.page, page.page_id)
        if stored is None:
            return self._withheld(page, "Taken down: it is not shown.")
        if stored.withheld:
            return self._withheld(page, stored.withheld)
        evidence = await self._in_pool(self._read, stored, page.url)
        if page.mime not in _MARKUP and evidence.picture is None and evidence.text is None:
            # A downloadable file: it is judged by whether the archive holds it.
            held = CopyJudgement(QaVerdict.GOOD, 0.0 if evidence.lost else 1.0, (), "")
            judgement = judge_copy(None) if evidence.manifest is None else held
            return CheckOutcome(page, self._judge(page, evidence, judgement))
        # A picture of the copy may lack content that is drawn late, e.g. images in 3D transforms: a copy that is not
        # good at first is viewed once more, and the better result counts.
        first = await self._compare_copy(page, evidence, await self._view(stored, evidence))
        if first.check.verdict is QaVerdict.GOOD or first.check.picture in (None, 1.0):
            return first
        second = await self._compare_copy(page, evidence, await self._view(stored, evidence))
        return second if (second.check.score or 0) > (first.check.score or 0) else first

    async def _compare_copy(self, page: SampleCandidate, evidence: _CaptureEvidence, view: CopyView) -> CheckOutcome:
        if view.reason:
            judgement = CopyJudgement(QaVerdict.BROKEN, 0.0, (PlaybackFault.NOT_SHOWN,), view.reason)
            pictures = {} if evidence.picture is None else {"seen": evidence.picture}
            return CheckOutcome(page, self._judge(page, evidence, judgement), pictures, view=view)
        picture, text, parts = await self._in_pool(self._compare, page, evidence, view)
        check = self._judge(page, evidence, judge_copy(picture, text, parts))
        looks, words = None if picture is None else picture.score, None if text is None else text.score
        check = replace(check, picture=looks, text=words)
        if parts is not None:
            lost = (*check.lost, *parts.lost)
            check = replace(check, resources=parts.score, lost=lost, parts_seen=parts.seen, parts_shown=parts.shown)
        by_kind = {"seen": evidence.picture, "shown": view.picture, "heat": None if picture is None else picture.heat}
        pictures = {kind: data for kind, data in by_kind.items() if picture is not None and data is not None}
        return CheckOutcome(page, check, pictures, view=view)

    async def _view(self, stored: StoredPage, evidence: _CaptureEvidence) -> CopyView:
        screen, tallest = PageScreen(), TALLEST_PX
        behaviours: Sequence[PageBehaviour] = ()
        if evidence.manifest is not None:
            behaviours = evidence.manifest.behaviours
            screen = screen_at_capture(evidence.manifest)
            tallest = picture_height_limit(evidence.manifest, screen)
        if evidence.kind is ArtifactKind.VIEW:
            tallest = 0
        failure = ""
        for _ in range(VIEW_ATTEMPTS):
            async with self._lend() as browser:
                try:
                    view = await view_copy(
                        browser, stored.address, screen, clock=self._clock, tallest_px=tallest, behaviours=behaviours
                    )
                except BrowserUnavailableError as error:
                    failure = str(error)
                    continue
            if view.status is None and not await self._playback.answers():
                raise UnavailableError("Playback does not answer: nothing can be checked.")
            return view
        return CopyView(reason=f"The copy crashed every browser: {failure}")

    def _compare(
        self, page: SampleCandidate, evidence: _CaptureEvidence, view: CopyView
    ) -> tuple[
        PictureComparison | None, content_comparison.TextComparison | None, content_comparison.ResourceComparison | None
    ]:
        text = None
        if evidence.text is not None and view.text is not None:
            text = content_comparison.compare_texts(evidence.text, view.text)
        parts = None
        if evidence.manifest is not None:
            # Parts that were taken down since are not missing.
            captured = [
                content_comparison.part_at_capture(each)
                for each in evidence.manifest.resources
                if not self._playback.is_hidden(each.url, each.digest)
            ]
            # The browser reports a refused cross-origin answer only as blocked, so the reason is
            # requested from playback.
            shown: list[content_comparison.PartRequest] = []
            requested = 0
            for sent in view.requests:
                url = self._playback.original(sent.url)
                if url is None:
                    continue
                part = content_comparison.part_at_playback(url, sent)
                is_blocked = part.status is None and part.failed in _KEPT_FROM_PAGE
                if is_blocked and requested < _MOST_REFUSALS:
                    requested += 1
                    status, reason = self._playback.refusal(sent.url, sent.resource_type)
                    if status is not None and status >= HTTPStatus.BAD_REQUEST:
                        part = replace(part, status=status, failed=reason)
                shown.append(part)
            parts = content_comparison.compare_resources(captured, shown, level=self._playback.level)

        def is_doubted(picture: PictureComparison) -> bool:
            return judge_copy(picture, text, parts).verdict in _DOUBTED

        picture = None
        if evidence.picture is not None and view.picture is not None:
            try:
                picture = compare_pictures(evidence.picture, view.picture, heat=is_doubted)
            except PermanentError as error:
                evidence.lost.append(_damaged(evidence.kind or ArtifactKind.VIEW, page.url, error))
        return picture, text, parts

    def _judge(self, page: SampleCandidate, evidence: _CaptureEvidence, judgement: CopyJudgement) -> PlaybackCheck:
        verdict, faults, reason = judgement.verdict, judgement.faults, judgement.reason
        if evidence.lost:
            faults = (*faults, PlaybackFault.DAMAGED)
            reason = f"{reason} {content_comparison.describe_losses(evidence.lost)}".strip()
            by_loss = content_comparison.judge_losses(evidence.lost, evidence.manifest, self._playback.level)
            if by_loss is not QaVerdict.GOOD and verdict is not QaVerdict.BROKEN:
                verdict = by_loss
        if evidence.manifest is not None:
            defects = [each for each in evidence.manifest.notes if each.startswith(_CAPTURE_DEFECTS)]
            unfinished = [each for each in evidence.manifest.class_evidence if each.startswith(UNFINISHED)]
            undrawn = [each for each in defects if each.startswith("scenes:")]
            if unfinished or undrawn:
                faults = (*faults, PlaybackFault.UNFINISHED)
            if unfinished:
                verdict = QaVerdict.BROKEN  # the copy is right, but another capture may be better
            elif undrawn and verdict is QaVerdict.GOOD:
                verdict = QaVerdict.DOUBTFUL
            reason = " ".join([reason, *unfinished, *defects]).strip()
        blank, lost = self._blank(page, reason), tuple(evidence.lost)
        return replace(blank, verdict=verdict, score=judgement.score, faults=faults, lost=lost)

    def _withheld(self, page: SampleCandidate, reason: str) -> CheckOutcome:
        return CheckOutcome(page, self._blank(page, reason), is_withheld=True)

    def _blank(self, page: SampleCandidate, reason: str) -> PlaybackCheck:
        return PlaybackCheck(
            page_id=page.page_id,
            url=page.url,
            captured_at=warc_date(page.captured_at),
            level=self._playback.level,
            checked_at=warc_date(self._clock.now()),
            engine=ENGINE,
            verdict=QaVerdict.UNCHECKED,
            reason=reason[:MOST_CHARACTERS],
        )

    def _read(self, stored: StoredPage, url: str) -> _CaptureEvidence:
        evidence = _CaptureEvidence()

        def read(kind: ArtifactKind, from_store: Callable[[], _T | None]) -> _T | None:
            try:
                return from_store()
            except PermanentError as error:
                evidence.lost.append(_damaged(kind, url, error))
                return None

        evidence.manifest = read(ArtifactKind.PAGEINFO, stored.manifest)
        if evidence.manifest is not None:
            evidence.lost += self._playback.lost(evidence.manifest)
        for kind in _PICTURES.get(self._playback.level, ()):
            evidence.picture = read(kind, partial(stored.artifact, kind))
            if evidence.picture is not None:
                evidence.kind = kind
                break
        text = read(ArtifactKind.TEXT, partial(stored.artifact, ArtifactKind.TEXT))
        evidence.text = None if text is None else text.decode(errors="replace")
        return evidence

    async def _in_pool(self, function: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)


def _damaged(kind: ArtifactKind, url: str, error: PermanentError) -> LostPart:
    return LostPart(artifact_uri(kind, url), f"damaged: {error}"[:_LONGEST_REASON])


@asynccontextmanager
async def open_checkers(  # noqa: PLR0913 independent options
    layout: Layout,
    database_url: str,
    levels: Sequence[Level],
    lend: LendBrowser,
    *,
    clock: Clock,
    fonts: bool = True,
    cached: bool = True,
) -> AsyncIterator[Mapping[Level, PlaybackChecker]]:
    """Open a checker per level, with their own replay server; UnavailableError: it does not start."""
    async with AsyncExitStack() as stack:
        replay = running_replay(layout, database_url, full=Level.FULL in levels, fonts=fonts, cached=cached)
        origins = await stack.enter_async_context(replay)
        pool = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="compare"))
        checkers = {}
        for level in levels:
            playback = stack.enter_context(open_collection_replay(layout, database_url, origins, level, clock=clock))
            checkers[level] = PlaybackChecker(playback, lend, pool, clock)
        yield checkers
