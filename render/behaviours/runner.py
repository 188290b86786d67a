"""Runner of behaviours: survey of the page, then each in turn within one time limit.

No behaviour delays the visit beyond that limit, even on a page that hangs. A failure is recorded in
`BehaviourResult.error` and does not affect the others.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from core.errors import BadUrlError
from core.hosts import canonical_host
from render.behaviours.catalog import (
    BehaviourScript,
    BehaviourSet,
    survey_script,
)
from render.behaviours.interaction import (
    BehaviourAnswer,
    hover,
    parse_answer,
    refuse_consent,
    scroll,
)
from render.cdp import CommandError
from render.page import BrowserPage
from render.page_frames import PageFrame, child_frames, main_frame, run_in
from render.visit_steps import VisitSteps


@dataclass(frozen=True, slots=True)
class BehaviourSurvey:
    """Result of a survey: the behaviours that have nothing to act on.

    Attributes:
        idle: names of behaviours without a target in the page's main document.
        frames: the page's frames, each with its own idle names; frames that did not answer are left
            out.
    """

    idle: frozenset[str]
    frames: tuple[tuple[PageFrame, frozenset[str]], ...] = ()

    def is_idle(self, name: str) -> bool:
        """Return whether the behaviour has no target in the page or any frame."""
        return name in self.idle and not self.frames_for(name)

    def frames_for(self, name: str) -> tuple[PageFrame, ...]:
        """Return the frames that have, or may have, a target of the behaviour."""
        return tuple(frame for frame, idle in self.frames if name not in idle)


async def survey_page(
    page: BrowserPage, chosen: Sequence[BehaviourScript], limit_s: float
) -> BehaviourSurvey | None:
    """Survey the page and its frames; return None when the page itself does not answer in time.

    Raises:
        PageClosedError, BrowserUnavailableError: as `BrowserPage.send`.
    """
    asking = [each for each in chosen if each.needs]
    needs = [[each.needs, each.named] for each in asking]
    seen: list[tuple[PageFrame, frozenset[str]]] = []

    async def ask(frame: PageFrame) -> tuple[frozenset[str], bool]:
        answer = await run_in(page, frame, survey_script(), needs)
        message = answer if isinstance(answer, dict) else {}
        places = [
            at for at in message.get("idle") or () if isinstance(at, int) and at < len(asking)
        ]
        return frozenset(asking[at].name for at in places), bool(message.get("frames"))

    async def ask_frame(frame: PageFrame) -> None:
        with contextlib.suppress(CommandError):
            idle, _ = await ask(frame)
            seen.append((frame, idle))

    try:
        async with asyncio.timeout(limit_s):
            idle, framed = await ask(main_frame(page))
    except (TimeoutError, CommandError):
        return None
    if framed:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s / 2):
                await asyncio.gather(*(ask_frame(frame) for frame in await child_frames(page)))
    return BehaviourSurvey(idle, tuple(seen))


SCRIPT_TIMEOUT_S = 0.5  # a behaviour that does not end by itself is given so long beyond its limit
FRAMES_LIMIT_S = 2.0  # all frames together, concurrently
SURVEY_S = 1.0
TIME_SHARE = 0.6  # no behaviour may use up more of the time that is left to all


@dataclass(frozen=True, slots=True)
class BehaviourResult:
    """Result of one behaviour.

    Attributes:
        found: number of elements found.
        done: number of elements acted on.
        again: True when the page may load something because of it.
        error: reason for which it did not complete; empty when it did.
        notes: remarks, e.g. ``OneTrust: refused``.
    """

    name: str
    found: int = 0
    done: int = 0
    again: bool = False
    seconds: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()


async def run_behaviours(
    page: BrowserPage, behaviours: BehaviourSet, steps: VisitSteps
) -> tuple[BehaviourResult, ...]:
    """Run the behaviours; set `BrowserPage.picture_css` to rules that hide elements in pictures.

    Raises:
        PageClosedError, BrowserUnavailableError: as `BrowserPage.send`.
    """
    done: list[BehaviourResult] = []
    limit_s = steps.share_s(behaviours.limit_s)
    end = steps.spent_s + limit_s
    view: BehaviourSurvey | None = None
    for behaviour in behaviours.chosen:
        if not _meant(behaviour, page.url):
            continue
        left_s = end - steps.spent_s
        if left_s <= 0:
            break
        if behaviour.needs and view is None:
            with steps.step("survey"):
                view = await survey_page(page, behaviours.chosen, min(left_s, SURVEY_S))
        if view is not None and view.is_idle(behaviour.name):
            done.append(BehaviourResult(behaviour.name))
            continue
        done.append(await _perform(page, behaviour, behaviours, view, left_s=left_s, steps=steps))
        if done[-1].again and behaviour.adds:
            # There may be more on the page now.
            view = None
    return tuple(done)


async def _perform(
    page: BrowserPage,
    behaviour: BehaviourScript,
    behaviours: BehaviourSet,
    view: BehaviourSurvey | None,
    *,
    left_s: float,
    steps: VisitSteps,
) -> BehaviourResult:
    """Run one behaviour in the page and in its frames."""
    last = behaviour is behaviours.chosen[-1]
    share_s = max(left_s * TIME_SHARE, left_s - SCRIPT_TIMEOUT_S if last else 0.0)
    options = _options(behaviours, share_s)
    before, already_held = steps.spent_s, page.held
    answer, error = BehaviourAnswer(), ""
    with steps.step(behaviour.name):
        try:
            if behaviour.presses:
                page.hold()
            async with asyncio.timeout(min(share_s + SCRIPT_TIMEOUT_S, left_s)):
                answer = await _run(page, behaviour, view, options)
        except TimeoutError:
            error = "did not end"
            # It may be a loop of the page's own, which would hold up all that follows.
            page.post("Runtime.terminateExecution")
        except CommandError as failed:
            error = failed.detail or "failed"
    # A click may navigate at any later time, so navigation stays blocked from now on.
    if not (already_held or answer.done or error):
        page.release()
    page.picture_css += "".join(answer.css)
    return BehaviourResult(
        behaviour.name,
        found=answer.found,
        done=answer.done,
        again=answer.again or bool(error),
        seconds=round(steps.spent_s - before, 3),
        error=error,
        notes=answer.notes,
    )


async def _run(
    page: BrowserPage,
    behaviour: BehaviourScript,
    view: BehaviourSurvey | None,
    options: dict[str, Any],
) -> BehaviourAnswer:
    if behaviour.name == "consent":
        return await refuse_consent(page, behaviour.source, options)
    if behaviour.name == "scroll":
        answer = await scroll(page, behaviour.source, options)
    elif behaviour.name == "hover":
        return await hover(page, behaviour.source, options)
    else:
        source, gesture = behaviour.source, behaviour.gesture
        answer = parse_answer(
            await run_in(page, main_frame(page), source, options, gesture=gesture)
        )
    if behaviour.framed and answer.frames:
        frames = await child_frames(page) if view is None else view.frames_for(behaviour.name)
        answer = answer.with_frames(await _run_in_frames(page, behaviour, frames, options))
    return answer


async def _run_in_frames(
    page: BrowserPage,
    behaviour: BehaviourScript,
    frames: tuple[PageFrame, ...],
    options: dict[str, Any],
) -> list[BehaviourAnswer]:
    """Run a behaviour in each frame; frames that fail or time out are left out of the result."""
    limit_ms = min(options["limitMs"] / 2, FRAMES_LIMIT_S * 1000)
    inner = {**options, "limitMs": limit_ms, "framed": True, "alone": True}
    answers: list[BehaviourAnswer] = []

    async def one(frame: PageFrame) -> None:
        with contextlib.suppress(CommandError):
            gesture = behaviour.gesture
            answers.append(
                parse_answer(await run_in(page, frame, behaviour.source, inner, gesture=gesture))
            )

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_ms / 1000 + SCRIPT_TIMEOUT_S / 2):
            await asyncio.gather(*(one(frame) for frame in frames))
    return answers


def _options(behaviours: BehaviourSet, limit_s: float) -> dict[str, Any]:
    limits = behaviours.limits
    return {
        "limitMs": limit_s * 1000,
        "scrollPx": limits.scroll_px,
        "rounds": limits.scroll_rounds,
        "clicks": limits.clicks,
        "fetches": limits.fetches,
        "hovers": limits.hovers,
        "routes": limits.routes,
        "accept": limits.accept_cookies,
    }


def _meant(behaviour: BehaviourScript, url: str) -> bool:
    """Return whether the behaviour runs on the URL's host."""
    if behaviour.hosts is None:
        return True
    try:
        return behaviour.hosts.of(canonical_host(urlsplit(url).hostname or "")) is not None
    except (ValueError, BadUrlError):
        return False
