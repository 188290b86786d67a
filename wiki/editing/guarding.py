"""Whether the bot may edit at this moment, and how fast: asked before each edit.

People stop it without anybody's help: by the run page, by a message on its talk page, by a block. What the
wiki says is believed for half a minute.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from core.clock import Clock
from wiki.api.client import Api
from wiki.api.edits import Me, StoppedError, who_am_i
from wiki.api.revisions import read_text
from wiki.settings import BotSettings

BELIEVED_S: Final = 30.0
_SAYS_YES: Final = frozenset({"yes", "run", "yes.", "run."})
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<noinclude>.*?(?:</noinclude>|\Z)", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True)
class Timing:
    """What tells the time, and lets it pass."""

    clock: Clock
    sleep: Callable[[float], Awaitable[None]]


class Guard:
    """Lets edits through one by one.

    Attributes:
        me: the account, as last asked.
    """

    def __init__(
        self, api: Api, settings: BotSettings, timing: Timing, *, since_last_s: float
    ) -> None:
        """Take how long ago the last edit was, of whichever run."""
        self._api = api
        self._settings = settings
        self._timing = timing
        self._asked = float("-inf")
        self._last = timing.clock.monotonic() - max(since_last_s, 0.0)
        self.me = Me("")

    @property
    def moment(self) -> int:
        """Now, in seconds since 1970."""
        return int(self._timing.clock.now().timestamp())

    async def allow(self) -> None:
        """Wait until the next edit may be made.

        Raises:
            StoppedError: nothing may be edited until a person did something; the text says what.
            WikiAwayError: the wiki does not answer, so nobody knows.
        """
        await self.wait()
        await self.ask()

    async def wait(self) -> bool:
        """Wait until the next edit is not too soon; whether that took any time."""
        gap = 60.0 / self._settings.edits_per_minute
        left = self._last + gap - self._timing.clock.monotonic()
        if left > 0:
            await self._timing.sleep(left)
        return left > 0

    def made(self) -> None:
        """Note that an edit was sent."""
        self._last = self._timing.clock.monotonic()

    async def ask(self) -> None:
        """See whether editing is allowed; raises as `allow`."""
        now = self._timing.clock.monotonic()
        if now - self._asked < BELIEVED_S:
            return
        self.me = await who_am_i(self._api)
        check_account(self.me, self._settings)
        if self._settings.run_page:
            check_run_page(
                self._settings.run_page, await read_text(self._api, self._settings.run_page)
            )
        self._asked = now


def check_account(me: Me, settings: BotSettings) -> None:
    """See whether the account may edit.

    Raises:
        StoppedError: it is blocked, was not granted the right, or somebody wrote to it.
    """
    if me.blocked:
        raise StoppedError(f"The account {me.name} is {me.blocked}. Nothing is edited.")
    if me.rights and "edit" not in me.rights:
        raise StoppedError(
            f"The account {me.name} may not edit: grant its bot password “Edit existing pages”."
        )
    if me.has_messages and settings.stop_on_messages:
        raise StoppedError(
            f"Somebody wrote on the talk page of {me.name}. Read it, answer, then go on with"
            " `weboid wiki bot on NAME --messages-read`."
        )


def check_run_page(title: str, text: str | None) -> None:
    """See what the run page says.

    Raises:
        StoppedError: there is none, or its first line is neither ``yes`` nor ``run``.
    """
    if text is None:
        raise StoppedError(f"The run page {title} is missing, so nothing is edited.")
    if not says_yes(text):
        raise StoppedError(
            f"The run page {title} does not say yes or run in its first line, so nothing is edited."
        )


def says_yes(text: str) -> bool:
    r"""Whether a run page's first line, comments aside, says that the bot may run.

    >>> says_yes("<!-- yes: it runs -->\nRun"), says_yes("no <!-- yes -->"), says_yes("")
    (True, False, False)
    """
    lines = (line.strip() for line in _UNSEEN.sub("", text[:20_000]).splitlines())
    return next(filter(None, lines), "").casefold() in _SAYS_YES
