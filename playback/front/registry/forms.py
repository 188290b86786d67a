"""The form of the registry: what it was filled in with, and that a person filled it in (W03, W20).

Questions for single URLs and patterns are answered to the form alone. What the form sends carries a
stamp: when it was made, for which range of addresses and for which URL or pattern, with a digest that
only fronts of this collection can make. It answers one question. A question without a stamp, or with
one that is old, used or another question's, gets the form, filled in; its button asks.

The stamp of the empty form answers any one question, of a browser that says that a person navigates
(Sec-Fetch-Mode, W3C Fetch Metadata). Who says nothing of that presses the button of the filled form.
"""

import hmac
import re
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from core.errors import BadUrlError, InputError
from core.urls import UrlFault, fetch_key, identity_key
from links.link_patterns import LinkPattern, parse_link_pattern
from links.reporters import Reporters
from playback.front.languages import noop, spoken
from playback.front.readers import Address, neighbourhood
from playback.front.registry.answers import Group, Scope
from playback.front.registry.words import FAULTS

STAMP_S = 2 * 3600
MOST_USED = 50_000  # stamps that are remembered as used; at `FORM_RATES` more than half an hour's
_BAD_PATTERN = noop(
    "That cannot be searched for. Write a site, such as example.org, or *.example.org for all below"
    " it, and the beginning of a path if you like."
)
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


class Stamps:
    """Makes stamps, and takes each once. From any thread.

    Fronts of one collection share the key, so a stamp of one holds at another and after a restart.
    Which stamps were used each front remembers by itself.
    """

    def __init__(self, reporters: Reporters, *, most_used: int = MOST_USED) -> None:
        self._reporters = reporters
        self._most_used = most_used
        self._lock = threading.Lock()
        self._used: OrderedDict[str, None] = OrderedDict()

    def make(self, address: Address, now: float, question: str) -> str:
        """Return a stamp for the address's range and that question; `now` is Unix seconds.

        Args:
            address: of the reader.
            now: the moment.
            question: `question_of` the form; empty: any.
        """
        made, nonce = int(now), secrets.token_hex(8)
        return f"{made}.{nonce}.{self._digest(made, nonce, address, question)}"

    def take(self, stamp: str, address: Address, now: float, question: str) -> bool:
        """Return whether the stamp answers that question, and see that it answers no other one.

        Args:
            stamp: as it was sent.
            address: of the reader.
            now: the moment.
            question: as `make` had it; empty: only a stamp for any.
        """
        made, _, rest = stamp.partition(".")
        nonce, _, digest = rest.partition(".")
        is_plain = made.isascii() and made.isdigit() and len(made) < 12 and rest.isascii()
        if not is_plain or not 0 <= now - int(made) <= STAMP_S:
            return False
        right = self._digest(int(made), nonce, address, question)
        if not hmac.compare_digest(digest, right):
            return False
        with self._lock:
            if stamp in self._used:
                return False
            self._used[stamp] = None
            if len(self._used) > self._most_used:
                self._used.popitem(last=False)
        return True

    def _digest(self, made: int, nonce: str, address: Address, question: str) -> str:
        parts = (str(made), nonce, neighbourhood(address), question)
        return self._reporters.digest("link form", "\n".join(parts)).hex()


def question_of(form: Form) -> str:
    """Return what a stamp of the form is bound to: its URL or its pattern; empty for an empty form.

    >>> question_of(Form(url=" https://a.example/ ")), question_of(Form(dbname="dewiki"))
    ('url https://a.example/', '')
    """
    if form.url.strip():
        return f"url {form.url.strip()}"
    return f"pattern {form.pattern.strip()}" if form.pattern.strip() else ""


def read_form(given: QueryParams) -> Form:
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
    """Return what was typed as a pattern.

    Raises:
        InputError: it means nothing; the text, for `translate`, says what to write, in English also why.
    """
    try:
        return parse_link_pattern(text)
    except InputError as error:
        if spoken.get().language == "en":
            raise
        raise InputError(_BAD_PATTERN) from error


def parse_namespaces(text: str) -> tuple[int, ...] | None:
    """Return the namespaces that are asked for (W03); none: all; None: those that the wiki observes.

    Raises:
        InputError: it names none.

    >>> parse_namespaces("0, 4|14"), parse_namespaces(""), parse_namespaces("content")
    ((0, 4, 14), (), None)
    """
    if text.strip().lower() == "content":
        return None
    found = []
    for each in re.split(r"[|,\s]+", text.strip()) if text.strip() else ():
        if not each.removeprefix("-").isdecimal() or len(each) > 6 or not each.isascii():
            raise InputError(
                noop("Namespaces are numbers, like 0 for articles, or content for those observed.")
            )
        found.append(int(each))
    return tuple(dict.fromkeys(found[:50]))


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
