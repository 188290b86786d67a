"""URL paths of replay and reader pages, and hosts of full copies: the one module that formats and parses them.

``/c/<timestamp><modifier>/<url>`` belongs to replay, ``/page/<timestamp><modifier>/<url>`` and similar paths to the
front. Both may have the prefix ``/w/<wiki>``, the reader's wiki, whose levels (`playback.access.levels`) apply to the
copy. The archived URL is included verbatim with its query, so that it can be typed. Only ``#`` is escaped as ``%23``; a
``%23`` in the archived URL gets an additional ``%25``, so that the encoding is reversible.

>>> escape_url("https://example.org/a%2Fb?q=1#!/c")
'https://example.org/a%2Fb?q=1%23!/c'
>>> unescape_url("https://example.org/a%2Fb?q=1%23!/c")
'https://example.org/a%2Fb?q=1#!/c'

A capture that runs scripts, at the level "full", gets a host of its own, ``<mac><page id>.<suffix>``.
The page identifier selects the capture, so no table is needed. The MAC before it is made with a
secret shared by front and replay, so that only the front can create addresses (P-04). It also covers
the timestamp, the URL and the reader's wiki, so that each wiki has a separate host.

>>> origins = FullOrigins("http://*.localhost:8081", b"s" * 32)
>>> origin = origins.origin_of("0f1e", "20260301120000", "https://example.org/")
>>> origins.page_of(origin.removeprefix("http://"))
PageHost(mac='5k6o55o5gz6ihw4nc45b', page_id='0f1e')
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import quote, urldefrag, urljoin

from core.errors import BadUrlError, ConfigError, InputError
from core.url_keys import replay_key
from playback.access.levels import Level, check_wiki

# RFC 3986, 2.2 and 2.3: reserved, unreserved, and the percent sign of what is already encoded.
_SAFE = "!$&'()*+,/:;=?@[]~%-._"
_UNCHANGED = re.compile(r"[!$&()*+,/:;=?@\[\]~._A-Za-z0-9-]*", re.ASCII)  # of these, what needs no look
# The ASCII characters that `escape_url` percent-encodes, and the percent-encoded form of each.
_ENCODED = '"#<>\\^`{|}'
_CODES = "|".join(f"{ord(each):02X}" for each in _ENCODED)
_TO_ENCODE = re.compile(rf"[{re.escape(_ENCODED)}]|%((?:25)*)({_CODES})")
_IS_ENCODED = re.compile(rf"%((?:25)*)({_CODES})")
_MEMENTO = re.compile(r"(?:/w/([^/]+))?/c/(\d{14})([a-z]{2}_)?/(.+)", re.ASCII | re.DOTALL)
_PAGE = re.compile(r"(?:/w/([^/]+))?/([a-z-]{1,32})/(.+)", re.ASCII | re.DOTALL)
_TIMESTAMPED = re.compile(r"(\d{14})([a-z]{2}_)?/(.+)", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB_URL = re.compile(r"https?://[^/\\?#\x00-\x20\x7f][^\x00-\x20\x7f]*", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_MERGED_SLASHES = re.compile(r"(https?):/+", re.IGNORECASE)

# A page of a PDF as a picture: ``urn:pdfpage-<number>:<url>``, an image like any other.
_PDF_PAGE = re.compile(r"urn:pdfpage-([1-9]\d{0,3}):(.+)", re.ASCII | re.DOTALL)

LONGEST_URL = 8_192  # characters; what the proxy archives at most


class MementoModifier(StrEnum):
    """Modifiers that replay serves; none is a raw modifier of pywb."""

    PAGE = ""  # the page at the level that the rules give it
    VERY = "mp_"  # the page of exactly that date, even if it is not offered
    IMAGE = "im_"
    MASK = "mk_"  # the shape of a small image, for masks of style sheets
    STYLE = "cs_"
    PLAIN_STYLE = "cp_"  # a style sheet that names no image
    FONT = "fo_"
    MEDIA = "me_"  # sound or film of a page, by ranges
    TEXT = "id_"  # the text artifact
    FILE = "dl_"  # the file itself, of a page that is shown in another way
    AS_TEXT = "tx_"  # and the page at a level that its reader chose
    AS_LIMITED = "rd_"
    AS_HTML = "ni_"
    AS_IMAGES = "wi_"
    SKEW = "sk_"  # no copy: how far the parts of the page are from its moment


# The page at a level; what has scripts has addresses of its own.
LEVEL_MODIFIERS: Mapping[Level, MementoModifier] = MappingProxyType(
    {
        Level.TEXT: MementoModifier.AS_TEXT,
        Level.LIMITED: MementoModifier.AS_LIMITED,
        Level.HTML: MementoModifier.AS_HTML,
        Level.IMAGES: MementoModifier.AS_IMAGES,
    }
)
_LEVELS: Mapping[str, Level] = {modifier: level for level, modifier in LEVEL_MODIFIERS.items()}


@dataclass(frozen=True, slots=True)
class Memento:
    """Replay address: capture, modifier, and the reader's wiki (empty: none)."""

    timestamp: str
    modifier: MementoModifier
    url: str
    wiki: str = ""

    @property
    def level(self) -> Level | None:
        """Return the level requested by the address; None: the level given by the rules."""
        return _LEVELS.get(self.modifier)


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Address of a reader page."""

    view: str  # name of the view, e.g. ``page`` or ``screenshot``
    timestamp: str | None  # of the capture; None: the newest
    url: str  # of the archived page
    level: Level | None = None  # level chosen by the reader; None: the level given by the rules
    wiki: str = ""  # the reader's wiki; empty: none


def http_origin(host: str, port: int) -> str:
    """Return the origin of a server without a reverse proxy."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def escape_url(url: str) -> str:
    """Escape an archived URL for a path: printable ASCII without quotes or ``<>#``."""
    if _UNCHANGED.fullmatch(url):
        return url
    encoded = _TO_ENCODE.sub(lambda m: f"%25{m[1]}{m[2]}" if m[2] else f"%{ord(m[0]):02X}", url)
    return quote(encoded, safe=_SAFE, errors="replace")


def unescape_url(text: str) -> str:
    """Return the archived URL from `escape_url`; the exact inverse for ASCII URLs."""
    return _IS_ENCODED.sub(lambda m: f"%{m[1][2:]}{m[2]}" if m[1] else chr(int(m[2], 16)), text)


def memento_path(memento: Memento) -> str:
    """Return the path of a replay address."""
    place = f"/c/{memento.timestamp}{memento.modifier}/{escape_url(memento.url)}"
    return f"/w/{memento.wiki}{place}" if memento.wiki else place


def parse_memento_path(target: str) -> Memento | None:
    """Parse a raw request target with query as replay address; None for any other."""
    match = _MEMENTO.fullmatch(target)
    if match is None or match[3] not in {None, *MementoModifier} or not _is_wiki(match[1]):
        return None
    if (url := _archived_url(match[4])) is None:
        return None
    return Memento(match[2], MementoModifier(match[3] or ""), url, match[1] or "")


def pdf_page_uri(number: int, url: str) -> str:
    """Return the artifact URI of the image of a PDF page.

    >>> pdf_page_uri(3, "https://example.org/a.pdf")
    'urn:pdfpage-3:https://example.org/a.pdf'
    """
    return f"urn:pdfpage-{number}:{url}"


def parse_pdf_page(uri: str) -> tuple[int, str] | None:
    """Parse the URI from `pdf_page_uri` into page number and PDF URL; None for other text."""
    match = _PDF_PAGE.fullmatch(uri)
    return None if match is None or not is_web_url(match[2]) else (int(match[1]), match[2])


def page_path(timestamp: str, url: str, *, view: str = "page", level: Level | None = None, wiki: str = "") -> str:
    """Return the front's path of a page's copy, or another `view`; the level `full` has other addresses."""
    modifier = LEVEL_MODIFIERS.get(level, "") if level is not None else ""
    place = f"/{view}/{timestamp}{modifier}/{escape_url(url)}"
    return f"/w/{wiki}{place}" if wiki else place


def parse_page_path(target: str) -> PageAddress | None:
    """Parse a raw request target with query as reader page address; None for any other."""
    match = _PAGE.fullmatch(target)
    if match is None or match[2] == "w" or not _is_wiki(match[1]):
        return None
    place = _TIMESTAMPED.fullmatch(match[3])
    level = None
    if place is not None and place[2] and (level := _LEVELS.get(place[2])) is None:
        return None
    url = _archived_url(place[3] if place else match[3])
    if url is None or url.startswith("urn:"):
        return None
    return PageAddress(match[2], place[1] if place else None, url, level, match[1] or "")


def parse_page_rest(rest: str) -> tuple[str | None, str] | None:
    """Parse timestamp (None: newest) and URL after ``/page/``; None without a URL."""
    address = parse_page_path(f"/page/{rest}")
    return None if address is None else (address.timestamp, address.url)


def is_web_url(url: str) -> bool:
    """Return True for an http or https URL with a host and no control character; others are no links."""
    return _WEB_URL.fullmatch(url) is not None


def _is_wiki(name: str | None) -> bool:
    if name is None:
        return True
    try:
        check_wiki(name)
    except InputError:
        return False
    return True


def _archived_url(text: str) -> str | None:
    if len(text) > LONGEST_URL or _CONTROL.search(text):
        return None
    # A reverse proxy that merges slashes must not hide every page.
    text = _MERGED_SLASHES.sub(r"\1://", unescape_url(text), count=1)
    if text.startswith("urn:"):
        return text
    if not _SCHEME.match(text) or re.match(r"[^/]+:\d+(?:/|$)", text):
        text = f"https://{text}"
    return text if is_web_url(text) else None


FULL_SECRET = "WEBOID_FULL_SECRET"  # noqa: S105 the environment variable's name

LOCAL = "local"  # origins below localhost, at the port of replay

_MAC_LENGTH = 20  # characters of base32: 100 bits
_PAGE_ID = r"[a-z0-9](?:[a-z0-9-]{0,40}[a-z0-9])?"  # with the code at most 62 of a label's 63
_LABEL = re.compile(rf"([a-z2-7]{{{_MAC_LENGTH}}})({_PAGE_ID})", re.ASCII)
_ORIGIN = re.compile(r"(?P<scheme>https?)://\*\.(?P<suffix>[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{1,5})?)", re.ASCII)
_LEAST_SECRET = 16  # bytes


@dataclass(frozen=True, slots=True)
class PageHost:
    """Page identifier and MAC from a host name."""

    mac: str
    page_id: str


@dataclass(frozen=True, slots=True)
class FullOrigins:
    """Origins at which captures are shown in full; ConfigError: pattern invalid or insecure, or secret too short."""

    pattern: str  # ``https://*.copies.example``; the star stands for one label
    secret: bytes = field(repr=False)  # shared by front and replay

    def __post_init__(self) -> None:
        """Validate pattern and secret."""
        if (match := _ORIGIN.fullmatch(self.pattern)) is None:
            raise ConfigError(
                "The origins of full copies must look like https://*.copies.example, with a star as first label; "
                f"not {self.pattern!r}."
            )
        is_local = match["suffix"].partition(":")[0] == "localhost"
        if match["scheme"] == "http" and not is_local:
            # Only there browsers send Sec-Fetch-Dest, and without that a capture's page
            # could be opened outside its frame.
            raise ConfigError(f"Full copies need https, or *.localhost on this machine: {self.pattern!r} is neither.")
        if len(self.secret) < _LEAST_SECRET:
            raise ConfigError(
                f"The secret of full copies in {FULL_SECRET} needs {_LEAST_SECRET} bytes or more;"
                " make one with: openssl rand -hex 32"
            )

    @property
    def scheme(self) -> str:
        """Return the part before the host: ``https://``."""
        return self.pattern.partition("*")[0]

    @property
    def suffix(self) -> str:
        """Return the part after the star: ``.copies.example``, with the port."""
        return self.pattern.partition("*")[2]

    def origin_of(self, page_id: str, timestamp: str, url: str, wiki: str = "") -> str | None:
        """Return the origin of a page's capture; None when its identifier fits no host name."""
        label = self._mac(page_id, timestamp, url, wiki) + page_id
        return None if _LABEL.fullmatch(label) is None else self.pattern.replace("*", label)

    def is_ours(self, host: str) -> bool:
        """Return True when a Host header matches the pattern; the MAC is not verified."""
        return host.lower().endswith(self.suffix)

    def page_of(self, host: str) -> PageHost | None:
        """Parse a Host header; None when it does not match the pattern."""
        host = host.lower()
        match = _LABEL.fullmatch(host.removesuffix(self.suffix)) if self.is_ours(host) else None
        return None if match is None else PageHost(match[1], match[2])

    def made_for(self, host: PageHost, timestamp: str, url: str, wikis: Iterable[str]) -> str | None:
        """Return the wiki for which the host's MAC is valid for that capture; None without one."""
        for wiki in wikis:
            if hmac.compare_digest(host.mac, self._mac(host.page_id, timestamp, url, wiki)):
                return wiki
        return None

    def _mac(self, page_id: str, timestamp: str, url: str, wiki: str) -> str:
        # Only the last part can contain a line end, so no two captures produce the same text.
        text = f"{page_id}\n{timestamp}\n{wiki}\n{url}".encode(errors="surrogatepass")
        return base64.b32encode(hmac.digest(self.secret, text, hashlib.sha256)).decode().lower()[:_MAC_LENGTH]


def full_pattern(host: str, port: int) -> str:
    """Return the pattern for local use, with replay at `port`; ConfigError unless `host` is local."""
    if host not in {"127.0.0.1", "localhost"}:
        raise ConfigError(
            "For readers on other machines full copies need their own domain: --full-origin 'https://*.copies.example'."
        )
    return f"http://*.localhost:{port}"


# WHATWG URL, 4.4: these are removed everywhere, the others at both ends.
_DROPPED = dict.fromkeys(map(ord, "\t\n\r"))
_TRIMMED = "".join(map(chr, range(0x21)))
_DATA_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+", re.IGNORECASE)
_ABSOLUTE = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_DATA_URL = 2_000_000  # characters


@dataclass(frozen=True, slots=True)
class ReplayUrlRewriter:
    """Rewriting rules of one page or style sheet."""

    timestamp: str  # the moment of the page, 14 digits; its parts are looked up near it
    base: str  # base of relative URLs
    front: str  # the origin of the front
    page: str = ""  # the page's own URL; ``#part`` links to it stay within the page
    wiki: str = ""  # the reader's wiki; empty: none
    level: Level | None = None  # the level that the reader chose, which links keep; None: none
    has_images: bool = True  # images are shown, also those of style sheets
    has_fonts: bool = False  # the page's own fonts are loaded
    is_masking: bool = False  # images are used as masks, which come from another route
    withheld: tuple[str, ...] = ()  # URLs of framed documents that must not be shown

    @property
    def masking(self) -> "ReplayUrlRewriter":
        """Return the same rules for mask images."""
        return replace(self, is_masking=True)

    def based(self, base: str) -> "ReplayUrlRewriter":
        """Return the same rules for a page with the base element `base`."""
        url = self._absolute(base)
        return self if url is None else replace(self, base=url)

    def withholds(self, source: str, document_url: str | None) -> bool:
        """Return True when a framed document must not be shown, by the URL in the frame and its own.

        An artifact of an earlier version does not record the latter: then it may be any withheld one.
        """
        if not self.withheld:
            return False
        if document_url is None:
            return True
        urls = {_key(document_url), _key(self._absolute(source) or source)}
        return any(_key(each) in urls for each in self.withheld)

    def image(self, value: str) -> str | None:
        """Return the address of the image in the copy; None when it is not shown."""
        if not self.has_images:
            return None
        value = value.strip(_TRIMMED)
        if value[:5].lower() == "data:":
            value = value.translate(_DROPPED)
            fits = len(value) <= _LONGEST_DATA_URL and _DATA_IMAGE.fullmatch(value)
            return value if fits else None
        return self._part(value, MementoModifier.MASK if self.is_masking else MementoModifier.IMAGE)

    def sheet(self, value: str) -> str | None:
        """Return the address of the style sheet in the copy, or None."""
        return self._part(value, MementoModifier.STYLE if self.has_images else MementoModifier.PLAIN_STYLE)

    def font(self, value: str) -> str | None:
        """Return the address of the font in the copy, or None."""
        return self._part(value, MementoModifier.FONT) if self.has_fonts else None

    def media(self, value: str) -> str | None:
        """Return the address of sound or film in the copy, or None."""
        return self._part(value, MementoModifier.MEDIA) if self.has_images else None

    def link(self, value: str) -> str | None:
        """Return the target of a link: within the page, or on the front; None for no target."""
        if (fragment := self.fragment(value)) is not None:
            return fragment
        if (url := self._absolute(value)) is None:
            return None
        bare, _, part = url.partition("#")
        # "#!" is part of a page's name; any other fragment is a place in it.
        url = url if part[:1] == "!" else bare
        return self.front + page_path(self.timestamp, url, level=self.level, wiki=self.wiki)

    def fragment(self, value: str) -> str | None:
        """Return ``#part`` when the link stays within the page, else None."""
        value = value.strip(_TRIMMED)
        if "#" not in value:
            return None
        url, _, part = value.partition("#")
        if part[:1] == "!" or (url and self._absolute(url) != urldefrag(self.page)[0]):
            return None
        return f"#{part}"

    def _part(self, value: str, modifier: MementoModifier) -> str | None:
        if (url := self._absolute(value)) is None:
            return None
        return memento_path(Memento(self.timestamp, modifier, urldefrag(url)[0], self.wiki))

    def _absolute(self, value: str) -> str | None:
        value = value.strip(_TRIMMED).translate(_DROPPED).replace(" ", "%20")
        if not value or len(value) > LONGEST_URL:
            return None
        try:
            # A DOM artifact has absolute URLs, and joining is slow.
            url = value if _ABSOLUTE.match(value) else urljoin(self.base, value)
        except ValueError:  # a bracket that closes no IPv6 address
            return None
        return url if is_web_url(url) else None


def _key(url: str) -> str:
    try:
        return replay_key(url)
    except BadUrlError:
        return url
