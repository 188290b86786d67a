"""The form of the registry: what it was filled in with, and that a person filled it in (W03, W20).

Questions for single URLs and patterns are answered to the form alone. What the form sends carries a
stamp: when it was made and for which range of addresses, with a digest that only this front can make.
A question without one, or with an old one, gets the form, filled in; its button asks.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256

from starlette.datastructures import QueryParams

from core.errors import BadUrlError, InputError
from core.urls import UrlFault, fetch_key, identity_key
from links.link_patterns import LinkPattern, parse_link_pattern
from playback.front.languages import noop
from playback.front.readers import Address, neighbourhood
from playback.front.registry.answers import Group, Scope
from playback.front.registry.words import FAULTS

STAMP_S = 2 * 3600
_LONGEST = 2_000  # characters that a field is shown again with


@dataclass(frozen=True, slots=True)
class Form:
    """What the fields hold, as they were typed.

    Attributes:
        stamp: what the next question carries.
        asked: which part of the form asks: ``page``, ``url``, ``pattern`` or ``list``.
    """

    url: str = ""
    pattern: str = ""
    dbname: str = ""
    title: str = ""
    curid: str = ""
    namespace: str = ""
    status: str = ""
    scope: str = Scope.PROBLEMS.value
    farm: bool = False
    stamp: str = ""
    asked: str = "page"


@dataclass(frozen=True, slots=True)
class Stamps:
    """Makes and reads stamps.

    Attributes:
        secret: who knows it makes stamps that are believed; several fronts for one origin share it.
    """

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def make(self, address: Address, now: float) -> str:
        """A stamp for the address's range; `now` is seconds since 1970."""
        return f"{int(now)}.{self._digest(int(now), address)}"

    def holds(self, stamp: str, address: Address, now: float) -> bool:
        """Whether it was made for that range, a while ago at most."""
        made, _, digest = stamp.partition(".")
        if not (made.isascii() and made.isdigit() and len(made) < 12 and digest.isascii()):
            return False
        is_fresh = 0 <= now - int(made) <= STAMP_S
        return hmac.compare_digest(digest, self._digest(int(made), address)) and is_fresh

    def _digest(self, made: int, address: Address) -> str:
        text = f"link form {made} {neighbourhood(address)}"
        return hmac.new(self.secret, text.encode(), sha256).hexdigest()[:32]


def read_form(given: QueryParams, stamp: str) -> Form:
    """What the address fills in; names of the programs' addresses are taken, too."""

    def text(*names: str) -> str:
        found = next((given[name] for name in names if given.get(name)), "")
        return found[:_LONGEST]

    return Form(
        url=text("url"),
        pattern=text("pattern"),
        dbname=text("dbname"),
        title=text("titles", "title", "page"),
        curid=text("curid", "pageid"),
        namespace=text("namespace"),
        status=text("status"),
        scope=text("scope") or Scope.PROBLEMS.value,
        farm=text("farm") not in ("", "0"),
        stamp=stamp,
    )


def parse_url(text: str) -> str:
    """The identity key of what was typed.

    Raises:
        InputError: it is no URL; the text says why, for `translate`.
    """
    try:
        return identity_key(fetch_key(text))
    except BadUrlError as error:
        fault = error.reason if error.reason in set(UrlFault) else UrlFault.UNPARSABLE
        raise InputError(FAULTS[UrlFault(fault)]) from error


def parse_pattern(text: str) -> LinkPattern:
    """What was typed as a pattern.

    Raises:
        InputError: it means nothing; the text says why, in English.
    """
    return parse_link_pattern(text)


def parse_namespace(text: str) -> tuple[int, ...]:
    """The namespaces that are asked for; none: all.

    Raises:
        InputError: it is no number.
    """
    text = text.strip()
    if not text:
        return ()
    if not text.removeprefix("-").isdecimal() or len(text) > 6 or not text.isascii():
        raise InputError(noop("A namespace is a number, like 0 for articles."))
    return (int(text),)


def parse_filter(text: str) -> frozenset[Group]:
    """The states that are asked for (W04); none: all.

    Raises:
        InputError: there is no such filter.
    """
    if not text:
        return frozenset()
    if text not in set(Group):
        raise InputError(noop("There is no such filter."))
    return frozenset({Group(text)})
