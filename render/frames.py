"""The frames of a page, in its own process or another's, and running our scripts in them."""

from dataclasses import dataclass
from typing import Any

from render.cdp import CommandError
from render.page import CONSOLE_CHARS, WORLD, Page

FRAME_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: its identifier, and the session that it answers in; empty for the page's own."""

    id: str
    session: str = ""


def main_frame(page: Page) -> Frame:
    """The page itself."""
    return Frame(page.target_id)


async def child_frames(page: Page) -> tuple[Frame, ...]:
    """All but the page itself, the first `FRAME_LIMIT`.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    found: list[Frame] = []
    for session in ("", *page.children.frames.values()):
        if len(found) >= FRAME_LIMIT:
            break
        try:
            tree = (await page.send("Page.getFrameTree", session=session))["frameTree"]
        except CommandError:
            continue  # it ended meanwhile
        todo = [tree]
        while todo:
            node = todo.pop(0)
            todo += node.get("childFrames", ())
            if node["frame"]["id"] != page.target_id:
                found.append(Frame(node["frame"]["id"], session))
    return tuple(found[:FRAME_LIMIT])


async def run_in(
    page: Page, frame: Frame, source: str, *arguments: object, gesture: bool = False
) -> Any:
    """What a function expression of ours returns in that frame, once; our world is made if need be.

    Args:
        page: it belongs to.
        frame: where.
        source: the function.
        arguments: JSON values.
        gesture: as if a reader had just clicked: sound and video may start.

    Raises:
        CommandError: the script failed, or the frame is gone; `detail` is the browser's word.
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    if frame.id == page.target_id:
        context = await page.world()
    else:
        made = await page.send(
            "Page.createIsolatedWorld", {"frameId": frame.id, "worldName": WORLD}, frame.session
        )
        context = made["executionContextId"]
    answer = await page.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": source,
            "executionContextId": context,
            "arguments": [{"value": argument} for argument in arguments],
            "returnByValue": True,
            "awaitPromise": True,
            "silent": True,
            "userGesture": gesture,
        },
        frame.session,
    )
    failure = answer.get("exceptionDetails")
    if failure is not None:
        said = failure.get("exception", {}).get("description", failure.get("text", ""))
        raise CommandError("behaviour", " ".join(said.split())[:CONSOLE_CHARS])
    return answer["result"].get("value")
