"""Who may judge copies and have them captured again: reviewers, whom a setting names.

Reading is for everyone, as elsewhere on the front. A verdict moves the copy that readers are offered, so
it takes a right: to come from a network that a setting names, or to say a token that only reviewers have,
as ``Authorization: Bearer …`` or, in a browser, as the password of any name. Both are off by default.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass, field

from starlette.requests import Request

from playback.front.readers import Network, Readers, within

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
        return "" if within(self.readers.address_of(request), self.networks) else None


def _basic(said: str) -> tuple[str, str]:
    """Name and password of RFC 7617; empty ones when they cannot be read."""
    try:
        text = base64.b64decode(said, validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password
