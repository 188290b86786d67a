"""Running behaviours one after another: what a reader would do, within one limit of time.

None may cost the visit more than that limit, whatever the page does meanwhile; what fails is told in
`Done.error` and leaves the others be.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from core.errors import BadUrlError
from core.hosts import canonical_host
from render.behaviours.consenting import dismiss
from render.behaviours.kinds import (
    NO_BEHAVIOURS,
    Behaviour,
    Behaviours,
    load_behaviours,
)
from render.behaviours.moving import hover, scroll
from render.behaviours.surveying import View, look_over
from render.behaviours.told import Told, read_told
from render.cdp import CommandError
from render.frames import Frame, child_frames, main_frame, run_in
from render.page import Page
from render.steps import Steps

__all__ = ["NO_BEHAVIOURS", "Behaviours", "Done", "behave", "load_behaviours"]

PATIENCE_S = 0.5  # a behaviour that does not end by itself is given so long beyond its limit
FRAMES_LIMIT_S = 2.0  # all frames together, beside each other
SURVEY_S = 1.0
SHARE = 0.6  # no behaviour may use up more of the time that is left to all


@dataclass(frozen=True, slots=True)
class Done:
    """What one behaviour did.

    Attributes:
        name: its name.
        found: how many things it met.
        done: how many it acted on.
        again: True when the page may load something because of it.
        seconds: how long it took.
        error: why it did not come to its end; empty when it did.
        notes: what else there is to say, e.g. ``OneTrust: refused``.
    """

    name: str
    found: int = 0
    done: int = 0
    again: bool = False
    seconds: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()


async def behave(page: Page, behaviours: Behaviours, steps: Steps) -> tuple[Done, ...]:
    """Run them; afterwards `Page.picture_css` says what its pictures leave out.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    done: list[Done] = []
    limit_s = steps.share_s(behaviours.limit_s)
    end = steps.spent_s + limit_s
    view: View | None = None
    for behaviour in behaviours.chosen:
        if not _meant(behaviour, page.url):
            continue
        left_s = end - steps.spent_s
        if left_s <= 0:
            break
        if behaviour.needs and view is None:
            with steps.step("survey"):
                view = await look_over(page, behaviours.chosen, min(left_s, SURVEY_S))
        if view is not None and view.is_idle(behaviour.name):
            done.append(Done(behaviour.name))
            continue
        done.append(await _perform(page, behaviour, behaviours, view, left_s=left_s, steps=steps))
        if done[-1].again:
            # There may be more on the page now.
            view = None
    return tuple(done)


async def _perform(
    page: Page,
    behaviour: Behaviour,
    behaviours: Behaviours,
    view: View | None,
    *,
    left_s: float,
    steps: Steps,
) -> Done:
    """Run one, in the page and in its frames."""
    last = behaviour is behaviours.chosen[-1]
    share_s = max(left_s * SHARE, left_s - PATIENCE_S if last else 0.0)
    options = _options(behaviours, share_s)
    before, already_held = steps.spent_s, page.held
    told, error = Told(), ""
    with steps.step(behaviour.name):
        try:
            if behaviour.presses:
                page.hold()
            async with asyncio.timeout(min(share_s + PATIENCE_S, left_s)):
                told = await _run(page, behaviour, view, options)
        except TimeoutError:
            error = "did not end"
            # It may be a loop of the page's own, which would hold up all that follows.
            page.post("Runtime.terminateExecution")
        except CommandError as failed:
            error = failed.detail or "failed"
    # What was pressed may lead away at any later moment; then the page is held for good.
    if not (already_held or told.done or error):
        page.release()
    page.picture_css += "".join(told.css)
    return Done(
        behaviour.name,
        found=told.found,
        done=told.done,
        again=told.again or bool(error),
        seconds=round(steps.spent_s - before, 3),
        error=error,
        notes=told.notes,
    )


async def _run(
    page: Page, behaviour: Behaviour, view: View | None, options: dict[str, Any]
) -> Told:
    if behaviour.name == "consent":
        return await dismiss(page, behaviour.source, options)
    if behaviour.name == "scroll":
        told = await scroll(page, behaviour.source, options)
    elif behaviour.name == "hover":
        return await hover(page, behaviour.source, options)
    else:
        source, gesture = behaviour.source, behaviour.gesture
        told = read_told(await run_in(page, main_frame(page), source, options, gesture=gesture))
    if behaviour.framed and told.frames:
        frames = await child_frames(page) if view is None else view.frames_for(behaviour.name)
        told = told.with_frames(await _run_in_frames(page, behaviour, frames, options))
    return told


async def _run_in_frames(
    page: Page, behaviour: Behaviour, frames: tuple[Frame, ...], options: dict[str, Any]
) -> list[Told]:
    """What it did in each frame; one that fails or does not end counts for nothing."""
    limit_ms = min(options["limitMs"] / 2, FRAMES_LIMIT_S * 1000)
    inner = {**options, "limitMs": limit_ms, "framed": True, "alone": True}
    told: list[Told] = []

    async def one(frame: Frame) -> None:
        with contextlib.suppress(CommandError):
            gesture = behaviour.gesture
            told.append(
                read_told(await run_in(page, frame, behaviour.source, inner, gesture=gesture))
            )

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_ms / 1000 + PATIENCE_S / 2):
            await asyncio.gather(*(one(frame) for frame in frames))
    return told


def _options(behaviours: Behaviours, limit_s: float) -> dict[str, Any]:
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


def _meant(behaviour: Behaviour, url: str) -> bool:
    """Whether it is to run on that page."""
    if behaviour.hosts is None:
        return True
    try:
        return behaviour.hosts.of(canonical_host(urlsplit(url).hostname or "")) is not None
    except (ValueError, BadUrlError):
        return False
