"""Forms of the registry pages: fields, proof-of-form stamps, tokens and sender checks.

Three things tell. The browser says where a form was sent from (``Sec-Fetch-Site``, ``Origin``), and no
page can change that. A browser that says neither, such as a text browser, has at least fetched the form
itself: the token in it names its moment, its purpose and the range of addresses it was made for. And
what is sent is a short form of the plainest kind, or it is not read at all.

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
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from core.errors import BadUrlError, InputError
from core.urls import UrlFault, fetch_key, identity_key
from links.feedback.reporter_limits import ReporterDigests
from links.rules.link_pattern import LinkPattern, parse_link_pattern
from net.address_policy import rate_limit_prefix
from playback.web.client_address import Address
from playback.web.i18n import noop, page_language
from playback.web.registry.link_messages import FAULTS
from playback.web.registry.registry_values import Group, LinkScope

MOST_FORM_BYTES = 16_384
MOST_FORM_FIELDS = 20
TOKEN_S = 2 * 3600
_FORM = "application/x-www-form-urlencoded"
_OWN = frozenset({"same-origin", "none"})  # none: the reader's own doing, such as loading it again


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Makes and reads tokens of forms.

    Attributes:
        reporters: who can make them: all fronts that share the key.
    """

    reporters: ReporterDigests

    def make(self, purpose: str, addresses: str, now: float) -> str:
        """A token for a form with that purpose, sent from that range of addresses."""
        made = int(now)
        return f"{made}.{self._digest(purpose, addresses, made)}"

    def holds(self, token: str, purpose: str, addresses: str, now: float) -> bool:
        """Whether it was made for that, a while ago at most."""
        made, _, digest = token.partition(".")
        if not (made.isascii() and made.isdigit() and len(made) < 12 and digest.isascii()):
            return False
        is_right = hmac.compare_digest(digest, self._digest(purpose, addresses, int(made)))
        return is_right and 0 <= now - int(made) <= TOKEN_S

    def _digest(self, purpose: str, addresses: str, made: int) -> str:
        return self.reporters.digest("form", f"{purpose}\n{addresses}\n{made}").hex()


def check_sender(request: Request, origin: str) -> None:
    """Return when one of our own pages may have sent the request.

    Args:
        request: that changes something.
        origin: the front's own; empty: whatever it was asked as.

    Raises:
        HTTPException: 403, another site's page sent it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in _OWN:
            raise HTTPException(403)
        return
    sender = request.headers.get("origin")
    if sender is None:
        return
    own = urlsplit(origin).netloc or request.headers.get("host", "")
    scheme = urlsplit(origin).scheme or request.url.scheme
    if sender.lower() != f"{scheme}://{own}".lower():
        raise HTTPException(403)


async def read_form_post(request: Request) -> Mapping[str, str]:
    """The fields of a form that was sent; of a field that comes twice the first.

    Raises:
        HTTPException: 415, it is no form of the plain kind; 413, it is too long; 400, it is no text.
    """
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    charset = rest.strip().lower()
    if kind.strip().lower() != _FORM or charset not in ("", "charset=utf-8"):
        raise HTTPException(415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415)
    said = request.headers.get("content-length", "0")
    if not (said.isascii() and said.isdigit()) or len(said) > 9 or int(said) > MOST_FORM_BYTES:
        raise HTTPException(413)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            raise HTTPException(413)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MOST_FORM_FIELDS,
            errors="strict",
        )
    except ValueError:  # a byte that is no form's, too many fields, or no UTF-8
        raise HTTPException(400) from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


STAMP_S = 2 * 3600
MOST_USED = 50_000  # stamps that are remembered as used; at `FORM_RATES` more than half an hour's
_BAD_PATTERN = noop(
    "That cannot be searched for. Write a site, such as example.org, or *.example.org for all below"
    " it, and the beginning of a path if you like."
)
_LONGEST = 2_000  # characters that a field is shown again with


@dataclass(frozen=True, slots=True)
class RegistryForm:
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
    scope: str = LinkScope.PROBLEMS.value
    farm: bool = False
    stamp: str = ""
    asked: str = "page"


class FormStamps:
    """Makes stamps, and takes each once. From any thread.

    Fronts of one collection share the key, so a stamp of one holds at another and after a restart.
    Which stamps were used each front remembers by itself.
    """

    def __init__(self, reporters: ReporterDigests, *, most_used: int = MOST_USED) -> None:
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
        parts = (str(made), nonce, rate_limit_prefix(address), question)
        return self._reporters.digest("link form", "\n".join(parts)).hex()


def question_of(form: RegistryForm) -> str:
    """Return what a stamp of the form is bound to: its URL or its pattern; empty for an empty form.

    >>> question_of(RegistryForm(url=" https://a.example/ ")), question_of(RegistryForm(dbname="dewiki"))
    ('url https://a.example/', '')
    """
    if form.url.strip():
        return f"url {form.url.strip()}"
    return f"pattern {form.pattern.strip()}" if form.pattern.strip() else ""


def read_form(given: QueryParams) -> RegistryForm:
    """What the address fills in; names of the programs' addresses are taken, too."""

    def text(*names: str) -> str:
        found = next((given[name] for name in names if given.get(name)), "")
        return found[:_LONGEST]

    return RegistryForm(
        url=text("url"),
        pattern=text("pattern"),
        dbname=text("dbname"),
        title=text("titles", "title", "page"),
        curid=text("curid", "pageid"),
        namespace=text("namespace"),
        status=text("status"),
        scope=text("scope") or LinkScope.PROBLEMS.value,
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
        if page_language.get().language == "en":
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
