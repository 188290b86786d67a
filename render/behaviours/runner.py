"""Runner of behaviours: survey of the page, then each in turn within one time limit, even on a page that hangs.

A failure is recorded in `PageBehaviour.error` and does not affect the others.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urljoin

from core.json_values import json_facts
from core.page_manifest import PageBehaviour
from render.artifacts import ICONS_KNOWN
from render.behaviours.catalog import BehaviourScript, BehaviourSet, survey_script
from render.behaviours.script_run import BehaviourAnswer, run_script, scroll, step_through, wait_reaction
from render.cdp import CommandError, stretched
from render.page import BrowserPage
from render.page_frames import PageFrame, ask_frames, main_frame, run_in
from render.settle import VisitSteps

SCRIPT_TIMEOUT_S = 0.5  # a behaviour that does not end by itself is given so long beyond its limit
FRAMES_LIMIT_S = 2.0  # all frames together, concurrently
SURVEY_S = 1.0
TIME_SHARE = 0.6  # no behaviour may use up more of the time that is left to all


class BehaviourSurvey(NamedTuple):
    """Result of a survey: the behaviours that have nothing to act on."""

    idle: frozenset[str]  # names of behaviours without a target in the page's main document
    # The page's frames, each with its own idle names; frames that did not answer are left out
    frames: Sequence[tuple[PageFrame, frozenset[str]]] = ()

    def frames_for(self, name: str) -> tuple[PageFrame, ...]:
        """Return the frames that have, or may have, a target of the behaviour."""
        return tuple(frame for frame, idle in self.frames if name not in idle)


async def run_behaviours(
    page: BrowserPage, behaviours: BehaviourSet, steps: VisitSteps, icons: dict[str, asyncio.Future[bool]] | None = None
) -> tuple[tuple[PageBehaviour, ...], bool]:
    """Run the behaviours; return their results, and whether the page may load something because of them.

    Sets `BrowserPage.picture_css`. `icons` that other visits loaded are not loaded again; the page's are added.
    """
    icons = {} if icons is None else icons
    done: list[PageBehaviour] = []
    is_loading = False
    limit_s = steps.share_s(behaviours.limit_s)
    end = steps.spent_s + limit_s
    view: BehaviourSurvey | None = None
    for behaviour in behaviours.chosen:
        if behaviour.hosts is not None and not behaviour.hosts.covers(page.url):
            continue
        left_s = end - steps.spent_s
        if left_s <= 0:
            break
        if behaviour.needs and view is None:
            with steps.step("survey"):
                view = await survey_page(page, behaviours.chosen, min(left_s, stretched(SURVEY_S)))
        if view is not None and behaviour.name in view.idle and not view.frames_for(behaviour.name):
            done.append(PageBehaviour(behaviour.name))
            continue
        result, again = await _perform(page, behaviour, behaviours, view, left_s=left_s, steps=steps, icons=icons)
        done.append(result)
        is_loading = is_loading or again
        if again and behaviour.adds:
            # There may be more on the page now.
            view = None
    return tuple(done), is_loading


async def survey_page(page: BrowserPage, chosen: Sequence[BehaviourScript], limit_s: float) -> BehaviourSurvey | None:
    """Survey the page and its frames; return None when the page itself does not answer in time."""
    asking = [each for each in chosen if each.needs]

    async def ask(frame: PageFrame) -> tuple[frozenset[str], bool]:
        answer = await run_in(page, frame, survey_script(), [[each.needs, each.named] for each in asking])
        message = answer if isinstance(answer, dict) else {}
        places = [at for at in message.get("idle") or () if isinstance(at, int) and at < len(asking)]
        return frozenset(asking[at].name for at in places), bool(message.get("frames"))

    try:
        async with asyncio.timeout(limit_s):
            idle, framed = await ask(main_frame(page))
    except (TimeoutError, CommandError):
        return None
    frame_answers = await ask_frames(page, ask, limit_s / 2) if framed else []
    return BehaviourSurvey(idle, [(frame, idle) for frame, (idle, _) in frame_answers])


async def _perform(  # noqa: PLR0913 state of one run
    page: BrowserPage,
    behaviour: BehaviourScript,
    behaviours: BehaviourSet,
    view: BehaviourSurvey | None,
    *,
    left_s: float,
    steps: VisitSteps,
    icons: dict[str, asyncio.Future[bool]],
) -> tuple[PageBehaviour, bool]:
    last = behaviour is behaviours.chosen[-1]
    share_s = max(left_s * TIME_SHARE, left_s - SCRIPT_TIMEOUT_S if last else 0.0)
    others = {"scrollPx": "scroll_px", "rounds": "scroll_rounds", "accept": "accept_cookies"}
    options = {"limitMs": share_s * 1000, **json_facts(behaviours.limits, "clicks fetches hovers routes", **others)}
    before, already_held = steps.spent_s, page.held
    answer, error = BehaviourAnswer(), ""
    with steps.step(behaviour.name):
        try:
            if behaviour.presses:
                page.hold()
            async with asyncio.timeout(min(share_s + SCRIPT_TIMEOUT_S, left_s)):
                answer = await _run(page, behaviour, view, options, icons)
        except TimeoutError:
            error = "did not end"
            # It may be a loop of the page's own scripts, which would delay everything else.
            page.post("Runtime.terminateExecution")
        except CommandError as failed:
            error = failed.detail or "failed"
    # A click may navigate at any later time, so navigation stays blocked from now on.
    if not (already_held or answer.done or error):
        page.release()
    page.picture_css += answer.css
    seconds = round(steps.spent_s - before, 3)
    result = PageBehaviour(behaviour.name, answer.found, answer.done, seconds, error, answer.notes)
    return result, answer.again or bool(error)


async def _run(
    page: BrowserPage,
    behaviour: BehaviourScript,
    view: BehaviourSurvey | None,
    options: dict[str, Any],
    icons: dict[str, asyncio.Future[bool]],
) -> BehaviourAnswer:
    source = behaviour.source

    async def run_one(frame: PageFrame, options: dict[str, Any]) -> BehaviourAnswer:
        if behaviour.name == "candidates":
            return await load_candidates(page, frame, source, options, icons)
        return await run_script(page, frame, source, options, gesture=behaviour.gesture)

    if behaviour.name == "consent":
        return await refuse_consent(page, source, options)
    if behaviour.name == "hover":
        return await hover(page, source, options)
    if behaviour.name == "scroll":
        answer = await scroll(page, source, options)
    elif behaviour.stepped:
        answer = await step_through(page, source, options)
    else:
        answer = await run_one(main_frame(page), options)
    if not (behaviour.framed and answer.frames):
        return answer
    frames = None if view is None else view.frames_for(behaviour.name)
    limit_ms = min(options["limitMs"] / 2, stretched(FRAMES_LIMIT_S) * 1000)
    inner = {**options, "limitMs": limit_ms, "framed": True, "alone": True}
    limit_s = limit_ms / 1000 + SCRIPT_TIMEOUT_S / 2
    answers = await ask_frames(page, lambda frame: run_one(frame, inner), limit_s, frames)
    return answer.with_others(each for _, each in answers)


SHEET_LIMIT_CHARS = 2_000_000
MANIFEST_ICONS = 50


async def load_candidates(
    page: BrowserPage, frame: PageFrame, source: str, options: dict[str, Any], known: dict[str, asyncio.Future[bool]]
) -> BehaviourAnswer:
    """Load all candidates of images, also of unreadable style sheets and the manifest, and icons not `known`."""
    answer = await run_script(page, frame, source, options)
    more = answer.more or {}
    sheets: list[list[str]] = []
    for href in more.get("sheets") or ():
        # A script may not read sheets of other origins; the browser has their text.
        with contextlib.suppress(CommandError):
            text = await page.send("Page.getResourceContent", {"frameId": frame.id, "url": href}, frame.session)
            if not text["base64Encoded"]:
                sheets.append([href, text["content"][:SHEET_LIMIT_CHARS]])
    urls: list[str] = [*(more.get("icons") or ())]
    manifest = more.get("manifest")
    if manifest and manifest not in known:
        with contextlib.suppress(CommandError):
            stated = await page.send("Page.getAppManifest")
            urls += [manifest, *manifest_icons(stated.get("data", ""), stated["url"])]
    # The manifest is remembered with them, and not loaded again.
    icons = [each for each in dict.fromkeys(urls) if each not in known and each != manifest]
    if len(known) < ICONS_KNOWN:
        loaded = asyncio.get_running_loop().create_future()
        loaded.set_result(True)
        known |= dict.fromkeys(urls, loaded)
    cut = answer.number("cut")
    if sheets or icons:
        left = max(0.0, options["fetches"] - answer.number("asked"))
        others = await run_script(page, frame, source, {**options, "fetches": left, "sheets": sheets, "icons": icons})
        cut += others.number("cut")
        answer = answer.with_others([others])
    if cut:
        answer = replace(answer, notes=(f"{answer.found} images, {cut:.0f} or more were left out: limit of fetches",))
    return answer


def manifest_icons(text: str, base: str) -> list[str]:
    """Return the addresses of the images that a web app manifest names.

    >>> manifest_icons('{"icons": [{"src": "a.png"}], "shortcuts": [{"icons": [{"src": "/b.png"}]}]}',
    ... "https://a.test/app/manifest.json")
    ['https://a.test/app/a.png', 'https://a.test/b.png']
    """
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return []
    todo = [manifest]
    urls: list[str] = []
    while todo and len(urls) < MANIFEST_ICONS:
        entry = todo.pop(0)
        if not isinstance(entry, dict):
            continue
        for name in ("icons", "screenshots", "shortcuts"):
            value = entry.get(name)
            todo += value[:MANIFEST_ICONS] if isinstance(value, list) else ()
        with contextlib.suppress(ValueError):
            if isinstance(entry.get("src"), str):
                urls.append(urljoin(base, entry["src"]))
    return urls


HOVER_MS = 20
HOVER_S = 1.0  # limit of waiting for what the pointer makes the page request


async def hover(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    """Move the pointer over elements that react to it, then to the page's corner."""
    loop = asyncio.get_running_loop()
    end = loop.time() + options["limitMs"] / 1000

    async def move(x: float, y: float) -> None:
        await page.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    answer = await run_script(page, main_frame(page), source, options)
    points = (answer.more or {}).get("points")
    done = 0
    for point in points if isinstance(points, list) else ():
        if loop.time() >= end or not (
            isinstance(point, list) and len(point) == 2 and all(isinstance(each, int | float) for each in point)
        ):
            break
        began = page.now()
        await move(point[0], point[1])
        await wait_reaction(page, began, min(stretched(HOVER_S), end - loop.time()), still_ms=HOVER_MS)
        done += 1
    if done:
        await move(0, 0)
    return replace(answer, done=done, again=done > 0)


# A frame that does not answer in this time is treated as having no banner.
BANNER_POLL_S = 0.5
GONE_S = 0.6


async def refuse_consent(page: BrowserPage, source: str, options: dict[str, Any]) -> BehaviourAnswer:
    """Refuse consent banners; `css` hides those that stay, in pictures only.

    Navigation is blocked while a banner is handled, because some reload the page when answered.
    """
    main = main_frame(page)
    look, click = {**options, "click": False}, {**options, "click": True}
    banner = await run_script(page, main, source, look)
    asking: list[tuple[PageFrame, str]] = []  # frames with a known banner, and the banner's name
    if banner.frames:
        framed = {**look, "framed": True}
        answers = await ask_frames(page, lambda frame: run_script(page, frame, source, framed), BANNER_POLL_S)
        asking = [(frame, " ".join(each.notes)) for frame, each in answers if each.found]
    if not banner.found and not asking:
        return banner
    page.hold()
    notes: list[str] = []
    done = 0
    for frame, name in asking[:2]:
        try:
            answer = await run_script(page, frame, source, {**click, "framed": True})
        except CommandError:
            # The page removed the frame after the click, before the result arrived.
            notes.append(f"{name}: answered")
            done += 1
        else:
            notes += answer.notes
            done += answer.done
    if done:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_S):
                while (await run_script(page, main, source, look)).found:  # noqa: ASYNC110 only the page knows
                    await asyncio.sleep(BANNER_POLL_S / 10)
    answer = await run_script(page, main, source, click)
    # A rule for each selector: an invalid one does not affect the others.
    hidden = "".join(f"{each} {{ display: none !important }}\n" for each in answer.stays if "{" not in each)
    return replace(
        answer,
        found=max(1, banner.found),
        done=done + answer.done,
        again=done + answer.done > 0,
        notes=(*notes, *answer.notes),
        css=hidden,
    )
