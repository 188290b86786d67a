"""Who works beside a crew: sees what it finishes while it goes on, and may give it more to do.

    crew: works ─────────> nothing is left ─> companion: settle ─> something new? ─> works on
    companion: note, note, …                                   ╰─> nothing ────────> the run's end

A companion is given what the crew works with, and never holds it up. Whatever goes wrong in it is its
own to tell and to get over: it raises nothing.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from core.clock import Clock
from core.layout import Layout
from core.settings import Settings
from crawler.events import Event
from crawler.frontier.base import Frontier
from crawler.logins import Logins
from crawler.supervisor import Supervisor
from proxy.index.protocol import CaptureIndex


@dataclass(frozen=True, slots=True)
class Beside:
    """What a companion is lent while the crew works.

    Attributes:
        layout: of the collection, which the run holds.
        settings: this machine's.
        frontier: what the crew works off.
        supervisor: lends proxies and browsers; they are gone after.
        index: of captures.
        logins: opened.
        clock: the time.
        report: told what happens.
        endless: the crew never ends by itself.
    """

    layout: Layout
    settings: Settings
    frontier: Frontier
    supervisor: Supervisor
    index: CaptureIndex
    logins: Logins
    clock: Clock
    report: Callable[[Event], None]
    endless: bool = False


class Companion(Protocol):
    """See the module."""

    def note(self, event: Event) -> None:
        """Something happened in the run; returns at once."""
        ...

    def beside(self, desk: Beside) -> AbstractAsyncContextManager[None]:
        """Work from the beginning of the block; at its end, finish what was begun."""
        ...

    async def settle(self) -> bool:
        """The crew has nothing left: do what is still to be done.

        Returns:
            whether there is something new in the frontier.
        """
        ...
