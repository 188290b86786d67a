"""Behaviours driven from outside the page: scrolling, pointer moves, consent banners."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import Any, Self

from render.cdp import CommandError
from render.page import BrowserPage
from render.page_frames import PageFrame, child_frames, main_frame, run_in

NOTES = 10
NOTE_CHARS = 200
COUNT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class BehaviourAnswer:
    """Validated return value of a behaviour script.

    Attributes:
        found, done, again, notes: as in `render.behaviours.runner.BehaviourResult`.
        css: CSS rules to apply in pictures.
        stays: selectors of elements that could not be dismissed.
        frames: number of frames of the page.
        more: the unparsed answer.
    """

    found: int = 0
    done: int = 0
    again: bool = False
    notes: tuple[str, ...] = ()
    css: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    frames: int = 0
    more: dict[str, Any] | None = None

    def with_frames(self, others: list[Self]) -> Self:
        """Merge with the answers of frames."""
        return replace(
            self,
            found=self.found + sum(other.found for other in others),
            done=self.done + sum(other.done for other in others),
            again=self.again or any(other.again for other in others),
        )

    def number(self, name: str) -> float:
        """Return a number from `more`; zero when it is missing or no number."""
        value = (self.more or {}).get(name)
        return float(value) if isinstance(value, int | float) else 0.0


def parse_answer(answer: object) -> BehaviourAnswer:
    """Parse a script's return value of any type; missing and mistyped fields become zero or empty.

    >>> parse_answer({"found": 3, "done": "many", "again": 1}).found
    3
    >>> parse_answer(None)
    BehaviourAnswer(found=0, done=0, again=False, notes=(), css=(), stays=(), frames=0, more={})
    """
    fields = answer if isinstance(answer, dict) else {}
    css = fields.get("css")
    return BehaviourAnswer(
        found=_count(fields.get("found")),
        done=_count(fields.get("done")),
        again=bool(fields.get("again")),
        notes=_texts(fields.get("notes")),
        css=(css[:1000],) if isinstance(css, str) and css else (),
        stays=_texts(fields.get("stays")),
        frames=_count(fields.get("frames")),
        more=fields,
    )


def _count(value: object) -> int:
    return max(0, min(int(value), COUNT_LIMIT)) if isinstance(value, int | float) else 0


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(each[:NOTE_CHARS] for each in value[:NOTES] if isinstance(each, str))


# A page that loads more at its end starts to do so within this, and then has so long for it.
BOTTOM_S = 0.12
GROWTH_S = 1.5
HEIGHT_POLL_S = 0.05
HOVER_S = 0.06


async def scroll(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    """Scroll to the end, further as long as the page grows, and back to the top.

    Raises:
        CommandError, PageClosedError, BrowserUnavailableError: as `run_in`.
    """
    frame = main_frame(page)
    loop = asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000
    answer = parse_answer(await run_in(page, frame, source, options))
    if not answer.number("steps"):
        return answer
    rounds = 0
    while rounds < options["rounds"] and answer.number("height") < options["scrollPx"]:
        left_s = end - loop.time()
        if left_s <= BOTTOM_S or not await _grows(page, answer, left_s):
            break
        rounds += 1
        inner = {**options, "from": answer.number("at"), "limitMs": (end - loop.time()) * 1000}
        further = parse_answer(await run_in(page, frame, source, inner))
        answer = _sum(answer, further, at=further.number("at"), height=further.number("height"))
    left_ms = max(0.0, end - loop.time()) * 1000
    back = parse_answer(
        await run_in(page, frame, source, {**options, "back": True, "limitMs": left_ms})
    )
    notes = (f"grew {rounds} times",) if rounds else ()
    return replace(_sum(answer, back), notes=notes)


async def _grows(page: BrowserPage, told: BehaviourAnswer, left_s: float) -> bool:
    """Return whether the page becomes longer while its end is in view."""
    loop = asyncio.get_running_loop()
    began = page.now()
    patience = loop.time() + min(BOTTOM_S, left_s)
    limit = loop.time() + min(GROWTH_S, left_s)
    while True:
        if await page.run("height", _HEIGHT) > told.number("height"):
            return True
        now = loop.time()
        if now >= limit or (now >= patience and not page.log.loading_since(began - 0.5)):
            return False
        await asyncio.sleep(HEIGHT_POLL_S)


_HEIGHT = """() => {
  const get = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight").get;
  const of = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  return Math.max(0, ...["documentElement", "body"].map((n) => of(n)).map((e) => (e ? get.call(e) : 0)));
}"""


async def hover(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    """Move the pointer over elements that react to it, then to the page's corner.

    Raises:
        CommandError, PageClosedError, BrowserUnavailableError: as `run_in`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000
    answer = parse_answer(await run_in(page, main_frame(page), source, options))
    points = (answer.more or {}).get("points")
    done = 0
    for point in points if isinstance(points, list) else ():
        if loop.time() >= end or not (
            isinstance(point, list)
            and len(point) == 2
            and all(isinstance(each, int | float) for each in point)
        ):
            break
        await _move(page, point[0], point[1])
        await asyncio.sleep(HOVER_S)
        done += 1
    if done:
        await _move(page, 0, 0)
    return replace(answer, done=done, again=done > 0)


async def _move(page: BrowserPage, x: float, y: float) -> None:
    await page.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})


def _sum(one: BehaviourAnswer, other: BehaviourAnswer, **more: float) -> BehaviourAnswer:
    return replace(
        one,
        found=one.found + other.found,
        done=one.done + other.done,
        again=one.again or other.again,
        more={**(one.more or {}), **more},
    )


# A frame that does not answer in this time is treated as having no banner.
BANNER_POLL_S = 0.5
GONE_S = 0.6


async def refuse_consent(
    page: BrowserPage, source: str, options: dict[str, Any]
) -> BehaviourAnswer:
    """Refuse consent banners; selectors of remaining ones go into `css`, which hides them.

    `css` applies to pictures only. Navigation is blocked while a banner is handled, because some
    reload the page when answered.

    Raises:
        CommandError, PageClosedError, BrowserUnavailableError: as `run_in`.
    """
    main = main_frame(page)
    look = {**options, "click": False}
    found = parse_answer(await run_in(page, main, source, look))
    asking = await _asking(page, source, look) if found.frames else []
    if not found.found and not asking:
        return found
    page.hold()
    notes: list[str] = []
    done = 0
    for frame, name in asking[:2]:
        try:
            answer = parse_answer(
                await run_in(page, frame, source, {**options, "click": True, "framed": True})
            )
        except CommandError:
            # The page removed the frame after the click, before the result arrived.
            notes.append(f"{name}: answered")
            done += 1
        else:
            notes += answer.notes
            done += answer.done
    if done:
        await _until_gone(page, source, look)
    answer = parse_answer(await run_in(page, main, source, {**options, "click": True}))
    hidden = "".join(_rule(selector) for selector in answer.stays)
    return replace(
        answer,
        found=max(1, found.found),
        done=done + answer.done,
        again=done + answer.done > 0,
        notes=(*notes, *answer.notes),
        css=(hidden,) if hidden else (),
    )


async def _asking(
    page: BrowserPage, source: str, look: dict[str, Any]
) -> list[tuple[PageFrame, str]]:
    """Return the frames that have a known banner, with the banner's name."""
    asking: list[tuple[PageFrame, str]] = []

    async def one(frame: PageFrame) -> None:
        with contextlib.suppress(CommandError):
            answer = parse_answer(await run_in(page, frame, source, {**look, "framed": True}))
            if answer.found:
                asking.append((frame, " ".join(answer.notes)))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BANNER_POLL_S):
            await asyncio.gather(*(one(frame) for frame in await child_frames(page)))
    return asking


async def _until_gone(page: BrowserPage, source: str, look: dict[str, Any]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_S):
            while True:
                if not parse_answer(await run_in(page, main_frame(page), source, look)).found:
                    return
                await asyncio.sleep(BANNER_POLL_S / 10)


def _rule(selector: str) -> str:
    """Return a CSS rule that hides one selector; an invalid one does not affect other rules."""
    return f"{selector} {{ display: none !important }}\n" if "{" not in selector else ""
