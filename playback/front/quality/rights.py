"""Who may judge copies and have them captured again: reviewers, whom a setting names.

Reading is for everyone, as elsewhere on the front. A verdict moves the copy that readers are offered, so
it takes a right: to come from a network that a setting names, or to say a token that only reviewers have,
as ``Authorization: Bearer …`` or, in a browser, as the password of any name. Both are off by default.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from core.clock import Clock
from links.reporters import Reporters
from playback.front.readers import Network, Readers, neighbourhood, within
from playback.front.registry.access import Door
from playback.front.registry.people import BusyError
from playback.front.saying.letters import Tokens

MOST_NAME = 255  # characters
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Weboid quality", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class Reviewers:
    """The rules.

    Attributes:
        readers: how a reader's address is found.
        networks: whose people may judge.
        token: what others say who may; empty: nobody can.
    """

    readers: Readers = field(default_factory=Readers)
    networks: tuple[Network, ...] = ()
    token: str = field(default="", repr=False)

    @property
    def is_anybody(self) -> bool:
        """Whether there is anyone who may judge."""
        return bool(self.networks or self.token)

    def name_of(self, request: Request) -> str | None:
        """What the reviewer says to be called, maybe nothing; None: who asks is no reviewer."""
        kind, _, said = request.headers.get("authorization", "").partition(" ")
        name, word = "", said.strip()
        if kind.lower() == "basic":
            name, word = _basic(said.strip())
        elif kind.lower() != "bearer":
            word = ""
        same = hmac.compare_digest(word.encode("utf-8", "replace"), self.token.encode())
        if self.token and same:
            return name[:MOST_NAME]
        if not self.networks or self.readers.is_relayed(request):
            return None
        return "" if within(self.readers.address_of(request), self.networks) else None


class Gate:
    """Holds the rules against requests, and makes and reads the tokens of forms. From any thread.

    Args:
        reviewers: who may judge.
        reporters: makes what only this front can make.
        door: how often others may ask.
        clock: tells the time.
    """

    def __init__(
        self, reviewers: Reviewers, reporters: Callable[[], Reporters], door: Door, clock: Clock
    ) -> None:
        self.reviewers = reviewers
        self._reporters = reporters
        self._door = door
        self._clock = clock

    def name_of(self, request: Request) -> str | None:
        """What the reviewer says to be called, maybe nothing; None: who asks is no reviewer."""
        return self.reviewers.name_of(request)

    def count(self, request: Request) -> None:
        """Count a question of somebody who is no reviewer.

        Raises:
            BusyError: those were too many.
        """
        if self.name_of(request) is None:
            wait = self._door.wait_s(request, self._clock.monotonic())
            if wait:
                raise BusyError(wait)

    def token(self, request: Request, purpose: str) -> str:
        """What a form carries that this reviewer may send.

        Raises:
            UnavailableError: the key of tokens can neither be read nor made.
        """
        return Tokens(self._reporters()).make(purpose, self._range(request), self._now())

    def holds(self, request: Request, token: str, purpose: str) -> bool:
        """Whether a form carries what was made for it, a while ago at most.

        Raises:
            UnavailableError: the key of tokens can neither be read nor made.
        """
        return Tokens(self._reporters()).holds(token, purpose, self._range(request), self._now())

    def _range(self, request: Request) -> str:
        return neighbourhood(self._door.address_of(request))

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _basic(said: str) -> tuple[str, str]:
    """Name and password of RFC 7617; empty ones when they cannot be read."""
    try:
        text = base64.b64decode(said, validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password
