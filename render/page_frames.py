"""Scripts run in all frames of a page, cross-origin frames included, which are documents in other processes.

A script that meets one numbers its element in its own isolated world; `FrameDocument.inner` finds the frame of a
number.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from render.cdp import CommandError, stretched
from render.page import BrowserPage, load_script

_T = TypeVar("_T")

DOCUMENT_LIMIT = 100
DEPTH_LIMIT = 10
# A frame that does not answer by then is left out: one slow advertisement is not the page.
DOCUMENT_TIMEOUT_S = 3.0
_ELEMENT = "(number) => globalThis.weboidFrames[number]"
HOST_LIMIT = 300  # number of elements tested for a closed shadow root at a time
_ROUNDS = 5  # so deep may such roots be nested
_HOSTS = "() => globalThis.weboidHosts"
_NOTE = """(...pairs) => {
  for (let at = 0; at < pairs.length; at += 2) {
    const known = pairs[at].localName === "use" ? "weboidCopies" : "weboidClosed";
    globalThis[known].set(pairs[at], pairs[at + 1]);
  }
}"""


class FrameDocument:
    """Document of a page: the main document, or that of a cross-origin frame."""

    def __init__(self, page: BrowserPage, session: str, frame_id: str, depth: int = 0) -> None:
        self._page = page
        self._session = session
        self._id = frame_id
        self._world: int | None = None
        self._inner: dict[int, FrameDocument | None] = {}
        self._stands_open = False
        self.depth = depth

    async def call(self, name: str, *arguments: object) -> Any:
        """Return the result of the script `name` in this document; as `BrowserPage.call`."""
        if not self._stands_open:
            self._stands_open = True
            # Make closed declarative shadow roots accessible to scripts; failures are ignored.
            with suppress(CommandError):
                for _ in range(_ROUNDS):
                    if not await self._run("hosts", HOST_LIMIT) or not await self._open_some():
                        break
        return await self._run(name, *arguments)

    async def inner(self, number: int) -> "FrameDocument | None":
        """Return the frame of the element with that number; None when there is none."""
        if number not in self._inner and self.depth < DEPTH_LIMIT:
            element = await self._evaluate(_ELEMENT, [{"value": number}], by_value=False)
            node = {}
            if "objectId" in element:
                node = (await self._send("DOM.describeNode", {"objectId": element["objectId"]}))["node"]
            frame_id = node.get("frameId")
            session = self._page.children.frames.get(frame_id or "", self._session)
            known = None if frame_id is None else FrameDocument(self._page, session, frame_id, self.depth + 1)
            self._inner[number] = known
        return self._inner.get(number)

    async def _run(self, name: str, *arguments: object) -> Any:
        if self.depth == 0:
            return await self._page.call(name, *arguments)
        return (await self._evaluate(load_script(name), [{"value": argument} for argument in arguments])).get("value")

    async def _open_some(self) -> bool:
        """Return whether any of the elements found by `hosts.js` holds a closed root."""
        listed = await self._evaluate(_HOSTS, by_value=False)
        answer = await self._send("Runtime.getProperties", {"objectId": listed["objectId"], "ownProperties": True})
        hosts = [each["value"] for each in answer["result"] if each["name"].isdecimal()]
        pairs: list[dict[str, str]] = []
        roots = await asyncio.gather(*(self._closed_root(each["objectId"]) for each in hosts))
        for host, root in zip(hosts, roots, strict=True):
            if root:
                pairs += [{"objectId": host["objectId"]}, {"objectId": root}]
        if pairs:
            await self._evaluate(_NOTE, pairs)
        return bool(pairs)

    async def _closed_root(self, host: str) -> str:
        """Return a reference to the closed shadow root of the referenced element; empty: none."""
        answer = await self._send("DOM.describeNode", {"objectId": host})
        wanted = "user-agent" if answer["node"].get("localName") == "use" else "closed"
        for root in answer["node"].get("shadowRoots", ()):
            if root.get("shadowRootType") == wanted:
                place = {"backendNodeId": root["backendNodeId"], "executionContextId": await self._context()}
                return str((await self._send("DOM.resolveNode", place))["object"]["objectId"])
        return ""

    async def _context(self) -> int:
        """Return the isolated world's execution context in this document, created if missing."""
        if self.depth == 0:
            return await self._page.world()
        if self._world is None:
            self._world = await self._page.isolated_world(self._id, self._session)
        return self._world

    async def _evaluate(
        self, source: str, arguments: Sequence[Mapping[str, object]] = (), *, by_value: bool = True
    ) -> dict[str, Any]:
        context = await self._context()
        return await self._page.evaluate(
            "frame", source, arguments, context=context, session=self._session, by_value=by_value
        )

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self._page.send(method, params, self._session)


class PageDocuments:
    """All frames of one page, while it is read."""

    def __init__(self, page: BrowserPage) -> None:
        self.root = FrameDocument(page, page.main_session, page.main_id)
        self._left = DOCUMENT_LIMIT
        self._silent: set[tuple[int, int]] = set()

    @property
    def silent(self) -> int:
        """Return the number of frames that did not answer or exceeded the limit."""
        return len(self._silent)

    async def read(self, name: str, *arguments: object) -> Any:
        """Begin another reading: return the result of the script `name` in the main document."""
        self._left = DOCUMENT_LIMIT
        return await self.root.call(name, *arguments)

    async def each(
        self, frame: FrameDocument, numbers: list[int], name: str, *arguments: object
    ) -> dict[int, tuple[FrameDocument, Any]]:
        """Return the results of the script `name` in these frames, by number, as far as they answer in time."""
        wanted = list(dict.fromkeys(numbers))
        requested, rest = wanted[: self._left], wanted[self._left :]
        self._left -= len(requested)
        self._silent |= {(id(frame), number) for number in rest}
        answers: dict[int, tuple[FrameDocument, Any]] = {}

        async def ask(number: int) -> None:
            try:
                async with asyncio.timeout(stretched(DOCUMENT_TIMEOUT_S)):
                    if (inner := await frame.inner(number)) is not None:
                        answers[number] = inner, await inner.call(name, *arguments)
            except (TimeoutError, CommandError):
                self._silent.add((id(frame), number))

        await asyncio.gather(*(ask(number) for number in requested if (id(frame), number) not in self._silent))
        return {
            number: answers[number] for number in requested if number in answers
        }  # in their order, not the answers'


FRAME_LIMIT = 16


class PageFrame(NamedTuple):
    """Frame: its id, and the id of its session; empty for the page's own."""

    id: str
    session: str = ""


def main_frame(page: BrowserPage) -> PageFrame:
    """Return the page's main frame, or the one that was entered."""
    return PageFrame(page.main_id, page.main_session)


async def child_frames(page: BrowserPage) -> tuple[PageFrame, ...]:
    """Return the frames except the main one, the first `FRAME_LIMIT`."""
    frames: list[PageFrame] = []
    for session in ("", *page.children.frames.values()):
        if len(frames) >= FRAME_LIMIT:
            break
        try:
            tree = (await page.send("Page.getFrameTree", session=session))["frameTree"]
        except CommandError:
            continue  # it ended meanwhile
        todo = [tree]
        while todo:
            node = todo.pop(0)
            todo += node.get("childFrames", ())
            if node["frame"]["id"] not in (page.target_id, page.main_id):
                frames.append(PageFrame(node["frame"]["id"], session))
    return tuple(frames[:FRAME_LIMIT])


async def ask_frames(
    page: BrowserPage,
    ask: Callable[[PageFrame], Awaitable[_T]],
    limit_s: float,
    frames: Iterable[PageFrame] | None = None,  # None: the page's child frames
) -> list[tuple[PageFrame, _T]]:
    """Return the results of `ask` with their frames, asked concurrently; those that fail or time out are left out."""
    answers: list[tuple[PageFrame, _T]] = []

    async def one(frame: PageFrame) -> None:
        with suppress(CommandError):
            answers.append((frame, await ask(frame)))

    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*map(one, await child_frames(page) if frames is None else frames))
    return answers


async def run_in(page: BrowserPage, frame: PageFrame, source: str, *arguments: object, gesture: bool = False) -> Any:
    """Run a function expression once in the frame's isolated world, with `gesture` as if a user acted."""
    is_main = frame.id == page.main_id
    context = await (page.world() if is_main else page.isolated_world(*frame))
    values = [{"value": argument} for argument in arguments]
    answer = await page.evaluate("behaviour", source, values, context=context, session=frame.session, gesture=gesture)
    return answer.get("value")
