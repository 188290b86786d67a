"""Answering a banner that asks for consent, in the page or in a frame of it."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

from render.behaviours.told import Told, read_told
from render.cdp import CommandError
from render.frames import Frame, child_frames, main_frame, run_in
from render.page import Page

# A frame that does not answer a look so soon has no banner that anybody could press.
LOOK_S = 0.5
GONE_S = 0.6


async def dismiss(page: Page, source: str, options: dict[str, Any]) -> Told:
    """Refuse; what stays goes into the answer's `css`, which hides it in pictures.

    When there is a banner the page is held, because some reload it when they are answered.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `run_in`.
    """
    main = main_frame(page)
    look = {**options, "click": False}
    found = read_told(await run_in(page, main, source, look))
    asking = await _asking(page, source, look) if found.frames else []
    if not found.found and not asking:
        return found
    page.hold()
    notes: list[str] = []
    done = 0
    for frame, name in asking[:2]:
        try:
            told = read_told(
                await run_in(page, frame, source, {**options, "click": True, "framed": True})
            )
        except CommandError:
            # The page took the frame away because of the answer, before we were told.
            notes.append(f"{name}: answered")
            done += 1
        else:
            notes += told.notes
            done += told.done
    if done:
        await _until_gone(page, source, look)
    told = read_told(await run_in(page, main, source, {**options, "click": True}))
    hidden = "".join(_rule(selector) for selector in told.stays)
    return replace(
        told,
        found=max(1, found.found),
        done=done + told.done,
        again=done + told.done > 0,
        notes=(*notes, *told.notes),
        css=(hidden,) if hidden else (),
    )


async def _asking(page: Page, source: str, look: dict[str, Any]) -> list[tuple[Frame, str]]:
    """The frames that have a banner we know, with its name."""
    asking: list[tuple[Frame, str]] = []

    async def one(frame: Frame) -> None:
        with contextlib.suppress(CommandError):
            told = read_told(await run_in(page, frame, source, {**look, "framed": True}))
            if told.found:
                asking.append((frame, " ".join(told.notes)))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            await asyncio.gather(*(one(frame) for frame in await child_frames(page)))
    return asking


async def _until_gone(page: Page, source: str, look: dict[str, Any]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_S):
            while True:
                if not read_told(await run_in(page, main_frame(page), source, look)).found:
                    return
                await asyncio.sleep(LOOK_S / 10)


def _rule(selector: str) -> str:
    """A rule that hides what one selector finds, on its own: one that is wrong harms no other."""
    return f"{selector} {{ display: none !important }}\n" if "{" not in selector else ""
