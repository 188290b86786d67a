"""Forms of the registry pages: fields, proof-of-form stamps, tokens and sender checks.

Forms that change something are protected from cross-site requests by the browser's headers (``Sec-Fetch-Site``,
``Origin``), without either by a token. Queries for single URLs and patterns need a stamp, a token that is valid for
one. Without one the answer is the filled-in form, whose button submits it. The stamp of the empty form is valid for
any one query from a browser that indicates navigation by the user (Sec-Fetch-Mode, W3C Fetch Metadata).
"""

import asyncio
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from core.errors import BadUrlError, InputError
from core.urls import UrlFault, fetch_key, identity_key
from links.feedback.reporter_limits import ReporterDigests
from links.rules.link_pattern import LinkPattern, parse_link_pattern
from playback.web.i18n import noop, page_language
from playback.web.registry.link_messages import FAULTS
from playback.web.registry.registry_values import Group, LinkScope

MOST_FORM_BYTES = 16_384
MOST_FORM_FIELDS = 20
TOKEN_S = 2 * 3600
MOST_USED = 50_000  # tokens that are remembered as used; at `FORM_RATES` more than half an hour's
OTHER_SITE = noop("This request came from a page of another site and was ignored.")
STALE_FORM = noop("The form has expired or was sent from another site. Press the button again.")
_CHARSETS = ("", "charset=utf-8", 'charset="utf-8"')
_FORM = "application/x-www-form-urlencoded"
_OWN = frozenset({"same-origin", "none"})  # none: initiated by the reader, such as a reload


class FormTokens:
    """Maker and verifier of tokens for a purpose and address range. Thread-safe; remembers those used once here."""

    def __init__(self, reporters: ReporterDigests) -> None:
        """Store the maker of digests, with the key shared by all fronts."""
        self._reporters = reporters
        self._lock = threading.Lock()
        self._used: OrderedDict[str, None] = OrderedDict()

    def make(self, purpose: str, addresses: str, now: float) -> str:
        """Create a token for a form with that purpose and address range."""
        issued_at, nonce = int(now), secrets.token_hex(8)
        return f"{issued_at}.{nonce}.{self._digest(issued_at, nonce, addresses, purpose)}"

    def holds(self, token: str, purpose: str, addresses: str, now: float) -> bool:
        """Return True when the token is valid for purpose and addresses, and not expired."""
        issued_at, _, rest = token.partition(".")
        nonce, _, digest = rest.partition(".")
        is_plain = token.isascii() and issued_at.isdigit() and len(issued_at) < 12
        if not is_plain or not 0 <= now - int(issued_at) <= TOKEN_S:
            return False
        return hmac.compare_digest(digest, self._digest(int(issued_at), nonce, addresses, purpose))

    def take(self, token: str, purpose: str, addresses: str, now: float) -> bool:
        """Return True when the token is valid and was not taken before."""
        if not self.holds(token, purpose, addresses, now):
            return False
        with self._lock:
            if token in self._used:
                return False
            self._used[token] = None
            if len(self._used) > MOST_USED:
                self._used.popitem(last=False)
        return True

    def _digest(self, issued_at: int, nonce: str, addresses: str, purpose: str) -> str:
        return self._reporters.digest("form", f"{issued_at}\n{nonce}\n{addresses}\n{purpose}").hex()


def check_sender(request: Request, origin: str) -> None:
    """Raise HTTPException 403 unless a page of this site, by default the Host, sent the request."""
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


async def read_body(
    request: Request, types: Collection[str], most_bytes: int, *, patience_s: float | None = None
) -> bytes:
    """Read the request body; HTTPException 415 other type, 413 too long, 408 not in time."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    is_plain = request.headers.get("content-encoding", "identity").lower() == "identity"
    if kind.strip() not in types or parameters.strip() not in _CHARSETS or not is_plain:
        raise HTTPException(415, f"Send UTF-8, as {' or '.join(types)}.")
    too_long = HTTPException(413, f"The request body is limited to {most_bytes} bytes.")
    length = request.headers.get("content-length", "0")
    if len(length) > 9 or not (length.isascii() and length.isdigit()) or int(length) > most_bytes:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(patience_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, "The request body did not arrive in time.") from None
    return bytes(body)


async def read_form_post(request: Request) -> Mapping[str, str]:
    """Read the fields of a submitted form, the first value of repeated ones; 400 for no form."""
    body = await read_body(request, (_FORM,), MOST_FORM_BYTES)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FORM_FIELDS, errors="strict"
        )
    except ValueError:  # a byte not allowed in forms, too many fields, or invalid UTF-8
        raise HTTPException(400) from None
    return dict(reversed(pairs))


_BAD_PATTERN = noop(
    "This pattern cannot be searched. Enter a host name such as example.org, or *.example.org for"
    " all its subdomains, optionally with the beginning of a path."
)
_LONGEST = 2_000  # characters that a field is shown again with


@dataclass(frozen=True, slots=True)
class RegistryForm:
    """Values of the form's fields, as entered."""

    url: str = ""
    pattern: str = ""
    dbname: str = ""
    title: str = ""
    curid: str = ""
    namespace: str = ""
    status: str = ""
    scope: str = LinkScope.PROBLEMS.value
    farm: bool = False
    stamp: str = ""  # stamp for the next query
    asked: str = "page"  # part submitted: ``page``, ``url``, ``pattern`` or ``list``


ANY_QUESTION = "link form"  # purpose of the empty form's stamp, which is valid for any one query


def question_of(form: RegistryForm) -> str:
    """Return the query that a stamp is bound to: URL or pattern; that of an empty form is bound to none.

    >>> question_of(RegistryForm(url=" https://a.example/ ")), question_of(RegistryForm(dbname="dewiki"))
    ('link form url https://a.example/', 'link form')
    """
    if form.url.strip():
        return f"{ANY_QUESTION} url {form.url.strip()}"
    pattern = form.pattern.strip()
    return f"{ANY_QUESTION} pattern {pattern}" if pattern else ANY_QUESTION


def read_form(parameters: QueryParams) -> RegistryForm:
    """Read the form from query parameters; names of API parameters are accepted too."""

    def text(*names: str) -> str:
        return next((parameters[name] for name in names if parameters.get(name)), "")[:_LONGEST]

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
    """Return the identity key of the entered URL; InputError states why it is not valid."""
    try:
        return identity_key(fetch_key(text))
    except BadUrlError as error:
        fault = error.reason if error.reason in set(UrlFault) else UrlFault.UNPARSABLE
        raise InputError(FAULTS[UrlFault(fault)]) from error


def parse_pattern(text: str) -> LinkPattern:
    """Parse the entered pattern; InputError states the valid form, in English also why."""
    try:
        return parse_link_pattern(text)
    except InputError as error:
        if page_language.get().language == "en":
            raise
        raise InputError(_BAD_PATTERN) from error


def parse_namespaces(text: str) -> tuple[int, ...] | None:
    """Parse namespaces (W03); empty: all; None: those that the wiki observes.

    >>> parse_namespaces("0, 4|14"), parse_namespaces(""), parse_namespaces("content")
    ((0, 4, 14), (), None)
    """
    if text.strip().lower() == "content":
        return None
    namespaces = []
    for each in re.split(r"[|,\s]+", text.strip()) if text.strip() else ():
        if not each.removeprefix("-").isdecimal() or len(each) > 6 or not each.isascii():
            raise InputError(noop("Namespaces are numbers, such as 0 for articles, or “content” for the watched ones."))
        namespaces.append(int(each))
    return tuple(dict.fromkeys(namespaces[:50]))


def parse_filter(text: str) -> frozenset[Group]:
    """Parse the state filter (W04); empty: all."""
    if not text:
        return frozenset()
    if text not in set(Group):
        raise InputError(noop("There is no such filter."))
    return frozenset({Group(text)})
