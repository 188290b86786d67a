"""Behaviours that need more than a script: scrolling as long as the page grows, moving the pointer."""

import asyncio
from dataclasses import replace
from typing import Any

from render.behaviours.told import Told, read_told
from render.frames import main_frame, run_in
from render.page import Page

# A page that loads more at its end starts to do so within this, and then has so long for it.
BOTTOM_S = 0.12
GROWTH_S = 1.5
LOOK_S = 0.05
HOVER_S = 0.06


async def scroll(page: Page, source: str, options: dict[str, Any]) -> Told:
    """Scroll to the end, further as long as the page grows, and back to the top.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `run_in`.
    """
    frame = main_frame(page)
    loop = asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000
    told = read_told(await run_in(page, frame, source, options))
    if not told.number("steps"):
        return told
    rounds = 0
    while rounds < options["rounds"] and told.number("height") < options["scrollPx"]:
        left_s = end - loop.time()
        if left_s <= BOTTOM_S or not await _grows(page, told, left_s):
            break
        rounds += 1
        inner = {**options, "from": told.number("at"), "limitMs": (end - loop.time()) * 1000}
        further = read_told(await run_in(page, frame, source, inner))
        told = _sum(told, further, at=further.number("at"), height=further.number("height"))
    left_ms = max(0.0, end - loop.time()) * 1000
    back = read_told(
        await run_in(page, frame, source, {**options, "back": True, "limitMs": left_ms})
    )
    notes = (f"grew {rounds} times",) if rounds else ()
    return replace(_sum(told, back), notes=notes)


async def _grows(page: Page, told: Told, left_s: float) -> bool:
    """Whether the page becomes longer now that its end is in sight."""
    loop = asyncio.get_running_loop()
    began = page.now()
    patience = loop.time() + min(BOTTOM_S, left_s)
    limit = loop.time() + min(GROWTH_S, left_s)
    while True:
        if await page.run("height", _HEIGHT) > told.number("height"):
            return True
        now = loop.time()
        if now >= limit or (now >= patience and not page.loading_since(began - 0.5)):
            return False
        await asyncio.sleep(LOOK_S)


_HEIGHT = """() => {
  const get = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight").get;
  const of = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  return Math.max(0, ...["documentElement", "body"].map((n) => of(n)).map((e) => (e ? get.call(e) : 0)));
}"""


async def hover(page: Page, source: str, options: dict[str, Any]) -> Told:
    """Lead the pointer over what a pointer would change, then to the page's corner.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `run_in`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000
    told = read_told(await run_in(page, main_frame(page), source, options))
    points = (told.more or {}).get("points")
    done = 0
    for point in points if isinstance(points, list) else ():
        if loop.time() >= end or not _is_point(point):
            break
        await _move(page, point[0], point[1])
        await asyncio.sleep(HOVER_S)
        done += 1
    if done:
        await _move(page, 0, 0)
    return replace(told, done=done, again=done > 0)


async def _move(page: Page, x: float, y: float) -> None:
    await page.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})


def _is_point(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(each, int | float) for each in value)
    )


def _sum(one: Told, other: Told, **more: float) -> Told:
    return replace(
        one,
        found=one.found + other.found,
        done=one.done + other.done,
        again=one.again or other.again,
        more={**(one.more or {}), **more},
    )
