"""Check of one page: its copy is rendered and compared with its capture.

`PageSource` and `PlaybackSource` are the interfaces to playback (`qa.local_replay`).

    stored artifacts ──┐
                       ├─> picture, text, parts compared ─> verdict ─> check, and three pictures
    view of the copy ──┘

Artifacts that were not stored are not compared: a page without a picture is judged by its text and
its parts. Withheld pages are not opened.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol, TypeVar

from core.captures import ArtifactKind, artifact_uri
from core.clock import Clock
from core.errors import BrowserUnavailableError, PermanentError, UnavailableError
from core.page_manifest import PageInfo, PageScreen, VisitOutcome
from core.playback_check import MOST_CHARACTERS, LostPart, PlaybackCheck, PlaybackFault, QaVerdict
from core.timestamps import warc_date
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from qa.compare.resource_comparison import (
    PartRequest,
    ResourceComparison,
    compare_resources,
    describe_losses,
    judge_losses,
    part_at_capture,
    part_at_playback,
)
from qa.compare.text_comparison import TextComparison, compare_texts
from qa.compare.verdict_rules import CopyJudgement, judge_copy
from qa.copy_view import (
    COPY_TIMEOUTS,
    TALLEST_PX,
    CopyAddress,
    CopyTimeouts,
    CopyView,
    picture_height_limit,
    screen_at_capture,
    view_copy,
)
from qa.sample import SampleCandidate
from render.browser import Browser


class PageSource(Protocol):
    """Stored artifacts of one page. Thread-safe; a damaged artifact raises PermanentError."""

    @property
    def withheld(self) -> str:
        """Return why the page must not be shown at the level, as a sentence; empty: it may."""
        ...

    @property
    def address(self) -> CopyAddress:
        """Return the address of its copy at the level."""
        ...

    def manifest(self) -> PageInfo | None:
        """Return its manifest; None when none was stored."""
        ...

    def artifact(self, kind: ArtifactKind) -> bytes | None:
        """Return an artifact; None when none was stored."""
        ...


class PlaybackSource(Protocol):
    """Collection and its playback at one level. Thread-safe; raises TransientError."""

    @property
    def level(self) -> str:
        """Return the playback level (`playback.access.levels`)."""
        ...

    @property
    def engine(self) -> str:
        """Return the versions of the playback and comparison engines."""
        ...

    def page(self, page_id: str) -> PageSource | None:
        """Return the stored page; None when it is hidden or missing."""
        ...

    def lost(self, page: PageInfo) -> Sequence[LostPart]:
        """Return the parts of the page that the archive does not hold as captured."""
        ...

    def is_hidden(self, url: str, digest: str) -> bool:
        """Return whether a part was taken down or is held back."""
        ...

    def original(self, url: str) -> str | None:
        """Return the archived URL of a playback address; None when it has none."""
        ...

    def refusal(self, address: str, kind: str) -> tuple[int | None, str]:
        """Return the status and reason with which playback refuses a part of a CDP resource type."""
        ...

    async def answers(self) -> bool:
        """Return whether the replay server answers; without it a missing response is no fault."""
        ...


COMPARISON_VERSION = 2
_LONGEST_REASON = 200
# The browser's reasons for blocking a cross-origin response.
_KEPT_FROM_PAGE = frozenset({"corp-not-same-origin", "net::ERR_BLOCKED_BY_ORB"})
_MOST_ASKED = 50  # parts of a copy whose refusal reason is requested
VIEW_ATTEMPTS = 2  # a browser that died or hung costs one
# Pictures to compare with by level; at other levels copies are not meant to look alike.
_PICTURES: Mapping[str, tuple[ArtifactKind, ...]] = {
    "images": (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW),
    "full": (ArtifactKind.VIEW,),
}
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_NO_COPY = frozenset({VisitOutcome.FAILED, VisitOutcome.SKIPPED})

_T = TypeVar("_T")
LendBrowser = Callable[[], AbstractAsyncContextManager[Browser]]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Check of a page, with its view and pictures.

    Attributes:
        pictures: available pictures by `core.playback_check.PICTURES`; of a good page only the
            first two.
        timings: seconds by step.
        is_withheld: True when the page must not be shown, so that it was not opened.
        look: view of the copy; None when it was not opened.
    """

    page: SampleCandidate
    check: PlaybackCheck
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    timings: Mapping[str, float] = field(default_factory=dict)
    is_withheld: bool = False
    look: CopyView | None = field(default=None, repr=False)


@dataclass(slots=True)
class _CaptureEvidence:
    """Stored artifacts of a page, read before its copy is opened; None: not stored, or damaged."""

    manifest: PageInfo | None = None
    kind: ArtifactKind | None = None
    picture: bytes | None = None
    text: str | None = None
    lost: list[LostPart] = field(default_factory=list)


class PlaybackChecker:
    """Checker of pages, several at a time; `lend` lends a browser for one view, `pool` compares."""

    def __init__(
        self,
        playback: PlaybackSource,
        lend: LendBrowser,
        pool: Executor,
        clock: Clock,
        *,
        patience: CopyTimeouts = COPY_TIMEOUTS,
    ) -> None:
        self._playback = playback
        self._lend = lend
        self._pool = pool
        self._clock = clock
        self._patience = patience

    async def check(self, page: SampleCandidate) -> CheckOutcome:
        """Check the page.

        Raises:
            BrowserUnavailableError: no browser starts.
            UnavailableError: the replay server does not answer.
            TransientError: index or decisions cannot be read.
        """
        began = self._clock.monotonic()
        found = await self._found(page)
        spent_s = round(self._clock.monotonic() - began, 3)
        return replace(found, check=replace(found.check, seconds=spent_s))

    async def _found(self, page: SampleCandidate) -> CheckOutcome:
        if page.outcome in _NO_COPY:
            return self._withheld(page, f"There is no copy: the visit {page.outcome}.")
        there = await self._in_pool(self._playback.page, page.page_id)
        if there is None:
            return self._withheld(page, "Taken down: nothing of it is shown.")
        if there.withheld:
            return self._withheld(page, there.withheld)
        kept = await self._in_pool(self._read, there, page.url)
        if page.mime not in _MARKUP and kept.picture is None and kept.text is None:
            return self._judged(page, kept, _of_file(kept))
        seen = await self._look(there, kept)
        if seen.reason:
            judgement = CopyJudgement(
                QaVerdict.BROKEN, 0.0, (PlaybackFault.NOT_SHOWN,), seen.reason
            )
            pictures = {"seen": kept.picture} if kept.picture is not None else {}
            found = self._judged(page, kept, judgement, pictures=pictures, timings=seen.timings)
            return replace(found, look=seen)
        return replace(await self._compared(page, kept, seen), look=seen)

    async def _look(self, there: PageSource, kept: _CaptureEvidence) -> CopyView:
        """View the copy; retry once when the browser died."""
        screen = screen_at_capture(kept.manifest) if kept.manifest is not None else PageScreen()
        tallest = (
            picture_height_limit(kept.manifest, screen) if kept.manifest is not None else TALLEST_PX
        )
        if kept.kind is ArtifactKind.VIEW:
            tallest = 0
        address = there.address
        died = ""
        for _ in range(VIEW_ATTEMPTS):
            async with self._lend() as browser:
                try:
                    seen = await view_copy(
                        browser,
                        address,
                        screen,
                        clock=self._clock,
                        tallest_px=tallest,
                        patience=self._patience,
                    )
                except BrowserUnavailableError as error:
                    died = str(error)
                    continue
            if seen.status is None and not await self._playback.answers():
                raise UnavailableError("Playback does not answer: nothing can be checked.")
            return seen
        return CopyView(reason=f"No browser survived the copy: {died}")

    async def _compared(
        self, page: SampleCandidate, kept: _CaptureEvidence, seen: CopyView
    ) -> CheckOutcome:
        began = self._clock.monotonic()
        picture, text, parts = await self._in_pool(self._compare, page, kept, seen)
        judgement = judge_copy(picture, text, parts)
        pictures = {}
        if picture is not None and kept.picture is not None and seen.picture is not None:
            pictures = {"seen": kept.picture, "shown": seen.picture}
            if picture.heat is not None:
                pictures["heat"] = picture.heat
        timings = {**seen.timings, "compare": self._clock.monotonic() - began}
        found = self._judged(page, kept, judgement, pictures=pictures, timings=timings)
        lost = (*found.check.lost, *(parts.lost if parts is not None else ()))
        check = replace(
            found.check,
            picture=picture.score if picture is not None else None,
            text=text.score if text is not None else None,
            resources=parts.score if parts is not None else None,
            lost=lost,
            parts_seen=parts.seen if parts is not None else 0,
            parts_shown=parts.shown if parts is not None else 0,
        )
        return replace(found, check=check)

    def _compare(
        self, page: SampleCandidate, kept: _CaptureEvidence, seen: CopyView
    ) -> tuple[PictureComparison | None, TextComparison | None, ResourceComparison | None]:
        text = None
        if kept.text is not None and seen.text is not None:
            text = compare_texts(kept.text, seen.text)
        parts = None
        if kept.manifest is not None:
            # Requests of the page, except parts that were taken down since: these are not missing.
            is_hidden = self._playback.is_hidden
            parts = compare_resources(
                (
                    [
                        part_at_capture(each)
                        for each in kept.manifest.resources
                        if not is_hidden(each.url, each.digest)
                    ]
                ),
                self._parts_shown(seen),
                level=self._playback.level,
            )

        def is_doubted(picture: PictureComparison) -> bool:
            return judge_copy(picture, text, parts).verdict in (
                QaVerdict.BROKEN,
                QaVerdict.DOUBTFUL,
            )

        picture = None
        if kept.picture is not None and seen.picture is not None:
            try:
                picture = compare_pictures(kept.picture, seen.picture, heat=is_doubted)
            except PermanentError as error:
                kept.lost.append(_damaged(kept.kind or ArtifactKind.VIEW, page.url, error))
        return picture, text, parts

    def _parts_shown(self, seen: CopyView) -> list[PartRequest]:
        """Return the parts that the copy requested, by their archived URLs.

        The browser reports a refused cross-origin answer only as blocked, so the reason is
        requested from playback.
        """
        found: list[PartRequest] = []
        requested = 0
        for each in seen.requests:
            url = self._playback.original(each.url)
            if url is None:
                continue
            part = part_at_playback(url, each)
            if part.status is None and part.failed in _KEPT_FROM_PAGE and requested < _MOST_ASKED:
                requested += 1
                status, reason = self._playback.refusal(each.url, each.resource_type)
                if status is not None and status >= HTTPStatus.BAD_REQUEST:
                    part = replace(part, status=status, failed=reason)
            found.append(part)
        return found

    def _judged(
        self,
        page: SampleCandidate,
        kept: _CaptureEvidence,
        judgement: CopyJudgement,
        *,
        pictures: Mapping[str, bytes] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> CheckOutcome:
        verdict, faults, reason = judgement.verdict, judgement.faults, judgement.reason
        if kept.lost:
            faults = (*faults, PlaybackFault.DAMAGED)
            reason = f"{reason} {describe_losses(kept.lost)}".strip()
            by_loss = judge_losses(kept.lost, kept.manifest, self._playback.level)
            verdict = (
                by_loss
                if by_loss is not QaVerdict.GOOD and verdict is not QaVerdict.BROKEN
                else verdict
            )
        check = replace(
            self._blank(page),
            verdict=verdict,
            score=judgement.score,
            faults=faults,
            lost=tuple(kept.lost),
            reason=reason[:MOST_CHARACTERS],
        )
        return CheckOutcome(page, check, pictures or {}, timings or {})

    def _withheld(self, page: SampleCandidate, reason: str) -> CheckOutcome:
        check = replace(self._blank(page), reason=reason[:MOST_CHARACTERS])
        return CheckOutcome(page, check, is_withheld=True)

    def _blank(self, page: SampleCandidate) -> PlaybackCheck:
        return PlaybackCheck(
            page_id=page.page_id,
            url=page.url,
            captured_at=warc_date(page.captured_at),
            level=self._playback.level,
            checked_at=warc_date(self._clock.now()),
            engine=self._playback.engine,
            verdict=QaVerdict.UNCHECKED,
        )

    def _read(self, there: PageSource, url: str) -> _CaptureEvidence:
        """Read the stored artifacts of the page, as far as possible."""
        kept = _CaptureEvidence()
        try:
            kept.manifest = there.manifest()
        except PermanentError as error:
            kept.lost.append(_damaged(ArtifactKind.PAGEINFO, url, error))
        else:
            if kept.manifest is not None:
                kept.lost += self._playback.lost(kept.manifest)
        for kind in _PICTURES.get(self._playback.level, ()):
            kept.picture = _artifact(there, kind, url, kept)
            if kept.picture is not None:
                kept.kind = kind
                break
        text = _artifact(there, ArtifactKind.TEXT, url, kept)
        kept.text = None if text is None else text.decode(errors="replace")
        return kept

    async def _in_pool(self, function: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)


def _artifact(
    there: PageSource, kind: ArtifactKind, url: str, kept: _CaptureEvidence
) -> bytes | None:
    try:
        return there.artifact(kind)
    except PermanentError as error:
        kept.lost.append(_damaged(kind, url, error))
        return None


def _of_file(kept: _CaptureEvidence) -> CopyJudgement:
    """Judge a page that is a downloadable file by whether the archive holds it."""
    if kept.manifest is None:
        return CopyJudgement(QaVerdict.UNCHECKED, None, (), "Nothing could be compared.")
    return CopyJudgement(QaVerdict.GOOD, 0.0 if kept.lost else 1.0, (), "")


def _damaged(kind: ArtifactKind, url: str, error: PermanentError) -> LostPart:
    return LostPart(artifact_uri(kind, url), f"damaged: {error}"[:_LONGEST_REASON])
