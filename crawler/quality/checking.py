"""One page checked: its copy is looked at, and held against what was kept when it was captured.

    what was kept ──┐
                    ├─> picture, text, parts compared ─> verdict ─> Check, and three pictures
    a look ─────────┘

What was not kept is not compared: a page without a picture is judged by its text and its parts. Of a page
that nobody may be shown nothing is looked at.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeVar

from core.clock import Clock
from core.errors import BrowserUnavailableError, PermanentError, UnavailableError
from core.pages import Outcome, PageInfo, Screen
from core.quality import MOST_CHARACTERS, Check, Fault, LostPart, Verdict
from core.records import ArtifactKind, artifact_uri
from core.timestamps import warc_date
from crawler.quality.damages import told, weighed
from crawler.quality.looking import (
    PATIENCE,
    TALLEST_PX,
    Look,
    Patience,
    look,
    screen_at_capture,
    tallest_of,
)
from crawler.quality.playing import KeptPage, Playback
from crawler.quality.sampling import Candidate
from render.browser import Browser
from render.compare.judging import Judgement, judge
from render.compare.pictures import PictureComparison, compare_pictures
from render.compare.resources import (
    Part,
    ResourceComparison,
    compare_resources,
    part_seen,
    part_shown,
)
from render.compare.texts import TextComparison, compare_texts

COMPARISON_VERSION = 2
_LONGEST_REASON = 200
# How the browser calls it when an answer of another origin is not what a page may embed.
_KEPT_FROM_PAGE = frozenset({"corp-not-same-origin", "net::ERR_BLOCKED_BY_ORB"})
_MOST_ASKED = 50  # of a copy's parts it is asked why they were refused
LOOKS = 2  # a browser that died or hung costs one
# What a copy is pictured beside; at the other levels it is not meant to look alike.
_PICTURES: Mapping[str, tuple[ArtifactKind, ...]] = {
    "images": (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW),
    "full": (ArtifactKind.VIEW,),
}
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_NO_COPY = frozenset({Outcome.FAILED, Outcome.SKIPPED})

_T = TypeVar("_T")
LendBrowser = Callable[[], AbstractAsyncContextManager[Browser]]


@dataclass(frozen=True, slots=True)
class Checked:
    """A check, and what people want to see of it.

    Attributes:
        page: which page was checked.
        check: what was found.
        pictures: by `core.quality.PICTURES`, those that there are; of a good page none but the first two.
        timings: seconds by step.
        is_withheld: whether nothing may be shown of the page, so that nothing was looked at.
        look: what the copy showed; None when nobody looked.
    """

    page: Candidate
    check: Check
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    timings: Mapping[str, float] = field(default_factory=dict)
    is_withheld: bool = False
    look: Look | None = field(default=None, repr=False)


@dataclass(slots=True)
class _Kept:
    """What was read of a page before its copy is looked at.

    Attributes:
        manifest: None when it could not be read.
        kind: of the picture; None when there is none.
        picture: of the whole page, else of the view.
        text: the visible text.
        lost: what the archive does not hold as it was captured, each with the reason.
    """

    manifest: PageInfo | None = None
    kind: ArtifactKind | None = None
    picture: bytes | None = None
    text: str | None = None
    lost: list[LostPart] = field(default_factory=list)


class Checker:
    """Checks pages, several at the same time.

    Args:
        playback: the collection and who plays it back.
        lend: lends a browser for one look.
        pool: where pictures are compared.
        clock: the time.
        patience: how long a look waits.
    """

    def __init__(
        self,
        playback: Playback,
        lend: LendBrowser,
        pool: Executor,
        clock: Clock,
        *,
        patience: Patience = PATIENCE,
    ) -> None:
        self._playback = playback
        self._lend = lend
        self._pool = pool
        self._clock = clock
        self._patience = patience

    async def check(self, page: Candidate) -> Checked:
        """The page, checked.

        Raises:
            BrowserUnavailableError: no browser starts.
            UnavailableError: playback does not answer.
            TransientError: index or decisions cannot be read.
        """
        began = self._clock.monotonic()
        found = await self._found(page)
        spent_s = round(self._clock.monotonic() - began, 3)
        return replace(found, check=replace(found.check, seconds=spent_s))

    async def _found(self, page: Candidate) -> Checked:
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
            judgement = Judgement(Verdict.BROKEN, 0.0, (Fault.NOT_SHOWN,), seen.reason)
            pictures = {"seen": kept.picture} if kept.picture is not None else {}
            found = self._judged(page, kept, judgement, pictures=pictures, timings=seen.timings)
            return replace(found, look=seen)
        return replace(await self._compared(page, kept, seen), look=seen)

    async def _look(self, there: KeptPage, kept: _Kept) -> Look:
        """What the copy shows; a second look when the browser did not survive the first."""
        screen = screen_at_capture(kept.manifest) if kept.manifest is not None else Screen()
        tallest = tallest_of(kept.manifest, screen) if kept.manifest is not None else TALLEST_PX
        if kept.kind is ArtifactKind.VIEW:
            tallest = 0
        address = there.address
        died = ""
        for _ in range(LOOKS):
            async with self._lend() as browser:
                try:
                    seen = await look(
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
        return Look(reason=f"No browser survived the copy: {died}")

    async def _compared(self, page: Candidate, kept: _Kept, seen: Look) -> Checked:
        began = self._clock.monotonic()
        picture, text, parts = await self._in_pool(self._compare, page, kept, seen)
        judgement = judge(picture, text, parts)
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
        self, page: Candidate, kept: _Kept, seen: Look
    ) -> tuple[PictureComparison | None, TextComparison | None, ResourceComparison | None]:
        text = None
        if kept.text is not None and seen.text is not None:
            text = compare_texts(kept.text, seen.text)
        parts = None
        if kept.manifest is not None:
            parts = compare_resources(
                self._parts_seen(kept.manifest),
                self._parts_shown(seen),
                level=self._playback.level,
            )

        def is_doubted(picture: PictureComparison) -> bool:
            return judge(picture, text, parts).verdict in (Verdict.BROKEN, Verdict.DOUBTFUL)

        picture = None
        if kept.picture is not None and seen.picture is not None:
            try:
                picture = compare_pictures(kept.picture, seen.picture, heat=is_doubted)
            except PermanentError as error:
                kept.lost.append(_damaged(kept.kind or ArtifactKind.VIEW, page.url, error))
        return picture, text, parts

    def _parts_seen(self, manifest: PageInfo) -> list[Part]:
        """What the page asked for, but for what was taken down since: that is not missed."""
        is_hidden = self._playback.is_hidden
        return [
            part_seen(each) for each in manifest.resources if not is_hidden(each.url, each.digest)
        ]

    def _parts_shown(self, seen: Look) -> list[Part]:
        """Return what the copy asked for, by the URLs of the page.

        Of a refusal, which is no part, the browser tells a page nothing but that it kept it from it.
        """
        found: list[Part] = []
        asked = 0
        for each in seen.requests:
            url = self._playback.original(each.url)
            if url is None:
                continue
            part = part_shown(url, each)
            if part.status is None and part.failed in _KEPT_FROM_PAGE and asked < _MOST_ASKED:
                asked += 1
                status, reason = self._playback.refusal(each.url, each.resource_type)
                if status is not None and status >= HTTPStatus.BAD_REQUEST:
                    part = replace(part, status=status, failed=reason)
            found.append(part)
        return found

    def _judged(
        self,
        page: Candidate,
        kept: _Kept,
        judgement: Judgement,
        *,
        pictures: Mapping[str, bytes] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> Checked:
        verdict, faults, reason = judgement.verdict, judgement.faults, judgement.reason
        if kept.lost:
            faults = (*faults, Fault.DAMAGED)
            reason = f"{reason} {told(kept.lost)}".strip()
            by_loss = weighed(kept.lost, kept.manifest, self._playback.level)
            verdict = (
                by_loss
                if by_loss is not Verdict.GOOD and verdict is not Verdict.BROKEN
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
        return Checked(page, check, pictures or {}, timings or {})

    def _withheld(self, page: Candidate, reason: str) -> Checked:
        check = replace(self._blank(page), reason=reason[:MOST_CHARACTERS])
        return Checked(page, check, is_withheld=True)

    def _blank(self, page: Candidate) -> Check:
        return Check(
            page_id=page.page_id,
            url=page.url,
            captured_at=warc_date(page.captured_at),
            level=self._playback.level,
            checked_at=warc_date(self._clock.now()),
            engine=self._playback.engine,
            verdict=Verdict.UNCHECKED,
        )

    def _read(self, there: KeptPage, url: str) -> _Kept:
        """What was kept of the page, as far as it can be read."""
        kept = _Kept()
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


def _artifact(there: KeptPage, kind: ArtifactKind, url: str, kept: _Kept) -> bytes | None:
    try:
        return there.artifact(kind)
    except PermanentError as error:
        kept.lost.append(_damaged(kind, url, error))
        return None


def _of_file(kept: _Kept) -> Judgement:
    """What to think of a page that is a file to be handed out: whether the archive holds it."""
    if kept.manifest is None:
        return Judgement(Verdict.UNCHECKED, None, (), "Nothing could be compared.")
    return Judgement(Verdict.GOOD, 0.0 if kept.lost else 1.0, (), "")


def _damaged(kind: ArtifactKind, url: str, error: PermanentError) -> LostPart:
    return LostPart(artifact_uri(kind, url), f"damaged: {error}"[:_LONGEST_REASON])
