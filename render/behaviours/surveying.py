"""Which behaviours a page, and each of its frames, has something for: one question spares the rest."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from render.behaviours.kinds import Behaviour, survey
from render.cdp import CommandError
from render.frames import Frame, child_frames, main_frame, run_in
from render.page import Page


@dataclass(frozen=True, slots=True)
class View:
    """What was seen.

    Attributes:
        idle: names of the behaviours for which the page itself has nothing.
        frames: its frames, each with the same; one that did not answer is not among them.
    """

    idle: frozenset[str]
    frames: tuple[tuple[Frame, frozenset[str]], ...] = ()

    def is_idle(self, name: str) -> bool:
        """Whether there is nothing for that behaviour, in any frame either."""
        return name in self.idle and not self.frames_for(name)

    def frames_for(self, name: str) -> tuple[Frame, ...]:
        """The frames that have something for it, or may have."""
        return tuple(frame for frame, idle in self.frames if name not in idle)


async def look_over(page: Page, chosen: Sequence[Behaviour], limit_s: float) -> View | None:
    """Ask the page and its frames; None when the page itself does not answer in time.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    asking = [each for each in chosen if each.needs]
    needs = [[each.needs, each.named] for each in asking]
    seen: list[tuple[Frame, frozenset[str]]] = []

    async def ask(frame: Frame) -> tuple[frozenset[str], bool]:
        answer = await run_in(page, frame, survey(), needs)
        said = answer if isinstance(answer, dict) else {}
        places = [at for at in said.get("idle") or () if isinstance(at, int) and at < len(asking)]
        return frozenset(asking[at].name for at in places), bool(said.get("frames"))

    async def ask_frame(frame: Frame) -> None:
        with contextlib.suppress(CommandError):
            idle, _ = await ask(frame)
            seen.append((frame, idle))

    try:
        async with asyncio.timeout(limit_s):
            idle, framed = await ask(main_frame(page))
    except (TimeoutError, CommandError):
        return None
    if framed:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s / 2):
                await asyncio.gather(*(ask_frame(frame) for frame in await child_frames(page)))
    return View(idle, tuple(seen))
