"""Running our scripts in every frame of a page, also in those that the page itself cannot look into.

A frame of another origin is a document of its own, most often in another process. A script that
meets one numbers its element in the world that it runs in and goes on; `Document.inner` finds the frame
behind a number.
"""

import asyncio
from typing import Any

from render.cdp import CommandError
from render.page import WORLD, Page, script

DOCUMENT_LIMIT = 100
DEPTH_LIMIT = 10
# A frame that does not answer by then is left out: one slow advertisement is not the page.
PATIENCE_S = 3.0
_ELEMENT = "(number) => globalThis.weboidFrames[number]"


class Document:
    """One document of a page: the page's own, or that of a frame which it cannot look into."""

    def __init__(self, page: Page, session: str, frame_id: str, depth: int = 0) -> None:
        self._page = page
        self._session = session
        self._id = frame_id
        self._world: int | None = None
        self._inner: dict[int, Document | None] = {}
        self.depth = depth

    def __repr__(self) -> str:
        return f"<Document {self._id} depth {self.depth}>"

    async def call(self, name: str, *arguments: object) -> Any:
        """What our script `name` returns here; as `Page.call`.

        Raises:
            PageGoneError, BrowserUnavailableError, CommandError: as `Page.call`.
        """
        if self.depth == 0:
            return await self._page.call(name, *arguments)
        answer = await self._run(script(name), arguments, by_value=True)
        return answer.get("value")

    async def inner(self, number: int) -> "Document | None":
        """The frame behind the element that a script numbered here; None when there is none.

        Raises:
            PageGoneError, BrowserUnavailableError, CommandError: as `Page.send`.
        """
        if number not in self._inner:
            self._inner[number] = await self._find(number)
        return self._inner[number]

    async def _find(self, number: int) -> "Document | None":
        if self.depth >= DEPTH_LIMIT:
            return None
        if self.depth == 0:
            element = await self._page.refer("frame", _ELEMENT, number)
        else:
            element = await self._run(_ELEMENT, (number,), by_value=False)
        if "objectId" not in element:
            return None
        told = await self._page.send(
            "DOM.describeNode", {"objectId": element["objectId"]}, self._session
        )
        frame_id = told["node"].get("frameId")
        if frame_id is None:
            return None
        session = self._page.children.frames.get(frame_id, self._session)
        return Document(self._page, session, frame_id, self.depth + 1)

    async def _run(
        self, source: str, arguments: tuple[object, ...], *, by_value: bool
    ) -> dict[str, Any]:
        if self._world is None:
            made = await self._page.send(
                "Page.createIsolatedWorld",
                {"frameId": self._id, "worldName": WORLD},
                self._session,
            )
            self._world = made["executionContextId"]
        answer = await self._page.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": source,
                "executionContextId": self._world,
                "arguments": [{"value": argument} for argument in arguments],
                "returnByValue": by_value,
                "awaitPromise": True,
                "silent": True,
            },
            self._session,
        )
        if "exceptionDetails" in answer:
            raise CommandError("frame", answer["exceptionDetails"].get("text", ""))
        result: dict[str, Any] = answer["result"]
        return result


class Documents:
    """All frames of one page, while it is read.

    Attributes:
        root: the page's own document.
        silent: how many frames did not answer.
    """

    def __init__(self, page: Page) -> None:
        self.root = Document(page, "", page.target_id)
        self._left = DOCUMENT_LIMIT
        self._silent: set[tuple[int, int]] = set()

    @property
    def silent(self) -> int:
        """How many frames did not answer, or were too many."""
        return len(self._silent)

    def again(self) -> None:
        """Another reading begins."""
        self._left = DOCUMENT_LIMIT

    async def each(
        self, frame: Document, numbers: list[int], name: str, *arguments: object
    ) -> dict[int, tuple[Document, Any]]:
        """What our script `name` returns in the frames behind the numbers, by number.

        Documents that have nothing, do not answer in time or are too many are left out.

        Raises:
            PageGoneError, BrowserUnavailableError: as `Page.send`.
        """
        wanted = list(dict.fromkeys(numbers))
        asked, rest = wanted[: self._left], wanted[self._left :]
        self._left -= len(asked)
        self._silent |= {(id(frame), number) for number in rest}
        told = await asyncio.gather(
            *(self._ask(frame, number, name, arguments) for number in asked)
        )
        return {
            number: answer for number, answer in zip(asked, told, strict=True) if answer is not None
        }

    async def _ask(
        self, frame: Document, number: int, name: str, arguments: tuple[object, ...]
    ) -> tuple[Document, Any] | None:
        if (id(frame), number) in self._silent:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                inner = await frame.inner(number)
                return None if inner is None else (inner, await inner.call(name, *arguments))
        except (TimeoutError, CommandError):
            self._silent.add((id(frame), number))
            return None
