"""Runs of a behaviour's script in a page: its answer, its steps, and the page's reaction to them; scrolling.

A page that cannot react to scrolling is not scrolled, which takes a fifth of a visit elsewhere.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from render.cdp import CommandError, stretched
from render.page import BrowserPage
from render.page_frames import PageFrame, main_frame, run_in

NOTES = 10
NOTE_CHARS = 200
COUNT_LIMIT = 1_000_000
GROWTH_S = 5.0  # limit of waiting for what a step makes the page request
STEP_MS = 50  # quiet time required after a step
FRAMES_MS = 1_000  # limit of waiting for two frames: a hidden page draws none
_HEIGHT = """async (ms, framesMs) => {
  const pause = (time) => new Promise((go) => setTimeout(go, time));
  await Promise.race([
    new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go))), pause(framesMs),
  ]);
  await pause(ms);
  const get = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight").get;
  const of = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  return Math.max(0, ...["documentElement", "body"].map((n) => of(n)).map((e) => (e ? get.call(e) : 0)));
}"""


@dataclass(frozen=True, slots=True)
class BehaviourAnswer:
    """Validated return value of a behaviour script."""

    found: int = 0
    done: int = 0
    again: bool = False
    notes: tuple[str, ...] = ()
    css: str = ""  # CSS rules to apply in pictures
    stays: tuple[str, ...] = ()  # selectors of elements that could not be dismissed
    frames: int = 0  # number of frames of the page
    more: dict[str, Any] | None = None  # the unparsed answer

    def with_others(self, others: Iterable["BehaviourAnswer"]) -> "BehaviourAnswer":
        """Add the counts of others."""
        every = (self, *others)
        return replace(
            self,
            found=sum(each.found for each in every),
            done=sum(each.done for each in every),
            again=any(each.again for each in every),
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
    BehaviourAnswer(found=0, done=0, again=False, notes=(), css='', stays=(), frames=0, more={})
    """
    fields = answer if isinstance(answer, dict) else {}

    def count(name: str) -> int:
        value = fields.get(name)
        return max(0, min(int(value), COUNT_LIMIT)) if isinstance(value, int | float) else 0

    def texts(name: str) -> tuple[str, ...]:
        value = fields.get(name)
        listed = value[:NOTES] if isinstance(value, list) else ()
        return tuple(each[:NOTE_CHARS] for each in listed if isinstance(each, str))

    css = fields.get("css")
    return BehaviourAnswer(
        found=count("found"),
        done=count("done"),
        again=bool(fields.get("again")),
        notes=texts("notes"),
        css=css[:1000] if isinstance(css, str) else "",
        stays=texts("stays"),
        frames=count("frames"),
        more=fields,
    )


async def run_script(
    page: BrowserPage, frame: PageFrame, source: str, options: dict[str, Any], *, gesture: bool = False
) -> BehaviourAnswer:
    """Run a script in the frame and return its answer; errors as `run_in`."""
    return parse_answer(await run_in(page, frame, source, options, gesture=gesture))


async def page_height(page: BrowserPage, pause_ms: float) -> float:
    """Return the height after two frames and a pause, both by the page's clock."""
    height = await page.run("height", _HEIGHT, pause_ms, stretched(FRAMES_MS))
    return float(height) if isinstance(height, int | float) else 0.0


async def step_through(page: BrowserPage, source: str, options: dict[str, Any], name: str = "step") -> BehaviourAnswer:
    """Run a script that does one step each time, counted by the option `name`, until it says that no step is left.

    What a step made the page request, and what short timers will do, has come before the next step.
    """
    frame, loop = main_frame(page), asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000
    answers: list[BehaviourAnswer] = []
    notes: tuple[str, ...] = ()
    while (left_s := end - loop.time()) > 0:
        began = page.now()
        answers.append(await run_script(page, frame, source, {**options, name: len(answers), "limitMs": left_s * 1000}))
        notes = answers[-1].notes or notes
        if not (answers[-1].more or {}).get("next"):
            break
        await wait_reaction(page, began, min(stretched(GROWTH_S), end - loop.time()), still_ms=STEP_MS)
    return replace(answers[0].with_others(answers[1:]), notes=notes) if answers else BehaviourAnswer()


async def wait_reaction(page: BrowserPage, began: float, limit_s: float, *, still_ms: int) -> None:
    """Wait until the page has drawn, and for `still_ms` by its clock nothing is pending that it began since `began`."""
    loop = asyncio.get_running_loop()
    end, known = loop.time() + limit_s, await page_height(page, 0)
    while loop.time() < end:
        height, is_active = await _observed_height(page, still_ms, began - 0.5)
        if height == known and not is_active:
            return
        known = height


async def _observed_height(page: BrowserPage, pause_ms: float, began: float) -> tuple[float, bool]:
    """Return the height after a pause, and whether anything since `began` was pending before or after it.

    What ends during the pause may change the page only later: timers of a stopped browser fire late.
    """

    def is_pending() -> bool:
        return page.log.loading_since(began) or page.timers.until() > page.now()

    requests, was_pending = page.log.news, is_pending()
    height = await page_height(page, pause_ms)
    return height, was_pending or page.log.news != requests or is_pending()


# After its end was reached, a page that loads more begins within two frames and this, by its own clock.
BOTTOM_S = 0.12
SMALL = 0.1  # size at which pages are drawn meanwhile
CHECK_S = 1.0  # limit of finding out whether a page can react; one that takes longer is scrolled
_EVENTS = frozenset({"scroll", "scrollend"})
# Whether something of the document waits to come into sight or is observed, or the document forbids scrolling.
_WAITS = """() => {
  const get = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  const is = (selector) => Document.prototype.querySelector.call(document, selector) !== null;
  const locked = ["documentElement", "body"].map(get).some((node) => {
    const style = node && getComputedStyle(node);
    return style && (/hidden|clip/.test(style.overflowY) || style.position === "fixed");
  });
  let ticks = 0;
  const onTick = (event) => { ticks = event.detail; };
  addEventListener("weboid-tick", onTick);
  dispatchEvent(new Event("weboid-ticks"));
  removeEventListener("weboid-tick", onTick);
  return locked || ticks !== 0 || is("iframe, frame, object, embed, [data-src], [data-lazy-src], [data-original], [data-lazy], [data-bg]");
}"""
# In the page's own world; a page that has replaced the class counts as one that uses it.
_REPLACED = "!/native code/.test(Function.prototype.toString.call(IntersectionObserver))"
_GROUP = "scroll"


async def can_react(page: BrowserPage) -> bool:
    """Return whether scrolling may make the page do something; True when that is not known in time."""
    if page.main_id != page.target_id or page.timers.until(late=True) > page.now():
        return True
    try:
        async with asyncio.timeout(stretched(CHECK_S)):
            return await page.run("waits", _WAITS) is not False or await _listens(page)
    except (TimeoutError, CommandError, KeyError):
        return True


async def _listens(page: BrowserPage) -> bool:
    """Return whether a script listens to scrolling anywhere, or has an observer of its own making."""
    own: set[str] = set()  # our scripts, which time the effects of scrolling
    try:
        for name, depth in (("window", 0), ("document", -1)):
            facts = {"expression": name, "objectGroup": _GROUP, "silent": True}
            remote_object = (await page.send("Runtime.evaluate", facts))["result"]
            where = {"objectId": remote_object["objectId"], "depth": depth, "pierce": True}
            listeners = (await page.send("DOMDebugger.getEventListeners", where))["listeners"]
            own |= {each["scriptId"] for each in listeners if each["type"] == "weboid-timers"}
            if any(each["type"] in _EVENTS and each["scriptId"] not in own for each in listeners):
                return True
        replaced = (await page.send("Runtime.evaluate", {"expression": _REPLACED, "silent": True}))["result"]
        return replaced.get("value") is not False
    finally:
        page.post("Runtime.releaseObjectGroup", {"objectGroup": _GROUP})


async def scroll(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    """Scroll to the end, further as long as the page grows; boxes within it; and back to the top."""
    if not await can_react(page):
        return BehaviourAnswer(notes=("nothing on the page reacts to scrolling",))
    frame, loop = main_frame(page), asyncio.get_running_loop()
    end, requests = loop.time() + options["limitMs"] / 1000, page.log.news
    page.draw_small(SMALL)
    try:
        answer = last = await run_script(page, frame, source, options)
        rounds = 0
        while last.number("steps") and last.number("height") < options["scrollPx"]:
            left_s = end - loop.time()
            is_over = rounds >= options["rounds"] or left_s <= BOTTOM_S
            if is_over or not await _grows(page, last.number("height"), left_s):
                break
            rounds += 1
            inner = {**options, "from": last.number("at"), "limitMs": (end - loop.time()) * 1000}
            last = await run_script(page, frame, source, inner)
            answer = answer.with_others([last])
        left_ms = max(0.0, end - loop.time()) * 1000
        answer = answer.with_others([await step_through(page, source, {**options, "limitMs": left_ms}, name="inner")])
        if answer.done:
            left_ms = max(0.0, end - loop.time()) * 1000
            last = await run_script(page, frame, source, {**options, "back": True, "limitMs": left_ms})
            # A page on which it had no effect is still idle.
            answer = replace(answer, again=last.again or page.log.news != requests)
    finally:
        page.draw_small(1)
    return replace(answer, notes=(f"grew {rounds} times",) if rounds else ())


async def _grows(page: BrowserPage, height: float, left_s: float) -> bool:
    """Return whether the page becomes higher, now or by what is pending; its own clock measures the wait."""
    loop = asyncio.get_running_loop()
    began, limit = page.now() - 0.5, loop.time() + min(stretched(GROWTH_S), left_s)
    while True:
        now_height, is_active = await _observed_height(page, BOTTOM_S * 1000, began)
        if now_height > height or not is_active or loop.time() >= limit:
            return now_height > height
