"""How a wiki is asked: how gently, under which name, and how parameters are written."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.clock import Clock, SystemClock
from core.errors import ConfigError
from wiki.api.http import LIMIT_BYTES, LIMIT_S

CONTACT_CHARS: Final = 200

Value = str | int | bool | Sequence[str] | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Manners:
    """How gently a wiki is asked.

    Attributes:
        gap_s: between the end of an answer and the next request.
        maxlag_s: a wiki whose databases lag by more is left alone; 0: it is not asked about that.
        attempts: of one request.
        patience_s: what they may wait between them, together; a wiki that asks for more gets it from
            the caller, who is told how long (`WikiAwayError.retry_s`).
        limit_s: one answer may take.
        limit_bytes: one answer may be.
        agent: the User-Agent; empty: `user_agent()`.
    """

    gap_s: float = 0.1
    maxlag_s: int = 5
    attempts: int = 4
    patience_s: float = 60.0
    limit_s: float = LIMIT_S
    limit_bytes: int = LIMIT_BYTES
    agent: str = ""


@dataclass(frozen=True)
class Timing:
    """What tells the time, lets it pass, and spreads repetitions."""

    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: random.Random = field(default_factory=random.Random)


def user_agent(contact: str = "", purpose_page: str = "") -> str:
    """Return who asks, why, and where its people are to be found.

    Raises:
        ConfigError: an address holds what no header may.
    """
    for name, text in (("contact", contact), ("purpose page", purpose_page)):
        if len(text) > CONTACT_CHARS or not text.isascii() or not text.isprintable():
            raise ConfigError(f"The {name} must be an address of a page or for mail, in ASCII.")
    pages = "".join(f"; +{each}" for each in (purpose_page, contact) if each)
    return f"Weboid/0.1 (wiki archiver{pages})"


def encoded(params: Mapping[str, Value]) -> dict[str, str]:
    r"""The parameters as the API reads them.

    >>> encoded({"a": True, "b": False, "c": None, "d": ["x", "y"], "e": 5})
    {'a': '1', 'd': 'x|y', 'e': '5'}
    >>> encoded({"titles": ["x|y", "z"]})
    {'titles': '\x1fx|y\x1fz'}
    """
    found = {}
    for name, value in params.items():
        if value is None or value is False:
            continue
        if value is True:
            found[name] = "1"
        elif isinstance(value, str | int):
            found[name] = str(value)
        else:
            texts = [str(each) for each in value]
            has_bar = any("|" in text for text in texts)
            found[name] = "".join(f"\x1f{text}" for text in texts) if has_bar else "|".join(texts)
    return found
