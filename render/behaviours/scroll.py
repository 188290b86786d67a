"""Scrolling of a page: to its end, further while it grows, within its boxes, and back to the top.

A page that cannot react to it is not scrolled: no script listens to scrolling or observes what comes into
sight, no timer runs, and no image, frame or style waits for it. Elsewhere that takes a fifth of a visit.
"""

import asyncio
from dataclasses import replace
from typing import Any

from render.behaviours.script_run import (
    GROWTH_S,
    BehaviourAnswer,
    page_height,
    run_script,
    step_through,
)
from render.cdp import CommandError, stretched
from render.page import BrowserPage
from render.page_frames import main_frame

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
  const hear = (event) => { ticks = event.detail; };
  addEventListener("weboid-tick", hear);
  dispatchEvent(new Event("weboid-ticks"));
  removeEventListener("weboid-tick", hear);
  return locked || ticks !== 0 || is("iframe, frame, object, embed, [data-src], [data-lazy-src], [data-original], [data-lazy], [data-bg]");
}"""
# In the page's own world; a page that has replaced the class is taken for one that uses it.
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
    own: set[str] = set()  # scripts of ours, which time what a scroll sets off
    try:
        for name, depth in (("window", 0), ("document", -1)):
            facts = {"expression": name, "objectGroup": _GROUP, "silent": True}
            found = (await page.send("Runtime.evaluate", facts))["result"]
            where = {"objectId": found["objectId"], "depth": depth, "pierce": True}
            answer = await page.send("DOMDebugger.getEventListeners", where)
            listeners = answer["listeners"]
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
    page.draw_small(SMALL)
    try:
        return await _scroll(page, source, options)
    finally:
        page.draw_small(1)


async def _scroll(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    frame, loop = main_frame(page), asyncio.get_running_loop()
    end, requests = loop.time() + options["limitMs"] / 1000, page.log.news
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
    within = await step_through(page, source, {**options, "limitMs": left_ms}, name="inner")
    answer = answer.with_others([within])
    if answer.done:
        left_ms = max(0.0, end - loop.time()) * 1000
        last = await run_script(page, frame, source, {**options, "back": True, "limitMs": left_ms})
        # A page on which nothing came of it is at rest as before.
        answer = replace(answer, again=last.again or page.log.news != requests)
    return replace(answer, notes=(f"grew {rounds} times",) if rounds else ())


async def _grows(page: BrowserPage, height: float, left_s: float) -> bool:
    """Return whether the page becomes higher, now or by pending requests and timers.

    The page's own frames and timers measure the wait, so that a busy machine does not shorten it.
    """
    loop = asyncio.get_running_loop()
    began, requests = page.now() - 0.5, page.log.news
    limit = loop.time() + min(stretched(GROWTH_S), left_s)
    while True:
        if await page_height(page, BOTTOM_S * 1000) > height:
            return True
        is_active = page.log.news != requests or page.log.loading_since(began)
        is_active = is_active or page.timers.until() > page.now()
        if loop.time() >= limit or not is_active:
            return False
        requests = page.log.news
