"""Header gate: outermost layer of replay, sets every response header (P-12, P-17, P-19).

Responses of the application are matched against allow-lists: `TYPE_POLICIES` and `ALLOWED_HEADERS`. Of a request, the
application sees only the method, the target, If-None-Match and, by strict patterns, Range, If-Range and Sec-Fetch-Dest.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from core.media_types import FONT_TYPE
from playback.url_paths import LONGEST_URL

Headers = list[tuple[str, str]]
LONGEST_TARGET = LONGEST_URL + 512

_LOG = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD")
# Fetch Metadata: a worker, a script or a plug-in has no business here (P-06).
_DESTINATIONS = {"document", "iframe", "frame", "image", "style", "empty"}
_FONT = "font"  # welcome only where copies load their fonts
_PLAYERS = {"audio", "video"}  # for sound and films of pages only
_PLAYED_TARGET = re.compile(r"(?:/w/[^/]+)?/c/\d{14}me_/", re.ASCII)
NO_BODY = {204, 304}
_TARGET = re.compile(r"[!-~]+")

_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """Policy of a media type."""

    sandbox: str = "sandbox"  # the sandbox directive
    directives: tuple[str, ...] = ()  # further directives of the content policy
    # shown within pages. In a sandboxed document our own images count as cross-origin,
    # so these must allow embedding
    is_part: bool = False
    # always an attachment: needs a Content-Disposition, and allows ranges
    is_attached: bool = False
    is_played: bool = False  # by a player within a page, which requests ranges
    is_font: bool = False  # sent only where fonts are switched on
    is_shared: bool = False  # fetched with CORS; every origin is foreign to a sandboxed document


_PART = TypePolicy(is_part=True)
_DOWNLOAD = TypePolicy(is_attached=True)
_PLAYED = TypePolicy(is_part=True, is_played=True)
_IMAGES = ("png", "jpeg", "gif", "webp", "avif")
_PLAYABLE = ("audio/mpeg", "audio/flac", "audio/wav", "video/mp4", "video/webm", "application/ogg")
TYPE_POLICIES: dict[str, TypePolicy] = {
    # A page may navigate the top window when its reader clicks: its links all lead to the front
    # (`playback.replay.sanitizer.html_document`), and no script is there to click for the reader.
    _HTML: TypePolicy(
        "sandbox allow-top-navigation-by-user-activation",
        ("img-src 'self' data:", "media-src 'self'", "style-src 'self' 'unsafe-inline'"),
    ),
    _TEXT: TypePolicy(),
    **dict.fromkeys(("text/css; charset=utf-8", *(f"image/{each}" for each in _IMAGES)), _PART),
    "image/png; role=mask": TypePolicy(is_part=True, is_shared=True),
    FONT_TYPE: TypePolicy(is_part=True, is_font=True, is_shared=True),
    **dict.fromkeys(("application/pdf", *_PLAYABLE), _DOWNLOAD),
    **{f"{each}; role=part": _PLAYED for each in _PLAYABLE},
}
_LINK = (
    r"<[!#-;=?-\[\]_a-z~]{1,30000}>; rel=\"(?:original|timegate|timemap|(?:(?:first|last|prev|next) )*memento)\""
    r"(?:; (?:type|datetime)=\"[A-Za-z0-9 ,:/-]{1,40}\")?"
)
_LINKED = re.compile(r'<([^>]*)>; rel="([^"]*)"')
ALLOWED_HEADERS: dict[str, re.Pattern[str]] = {
    "etag": re.compile(r'"[A-Za-z0-9:._+/=-]{1,200}"'),
    "memento-datetime": re.compile(
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII
    ),
    # Only to an address of our own, so no redirect leaves the archive (P-14).
    "location": re.compile(
        r"(?:/w/[A-Za-z0-9][A-Za-z0-9._-]{0,63})?/c/\d{14}(?:[a-z]{2}_)?/[!$-;=?-Z_a-z\[\]~]{1,30000}", re.ASCII
    ),
    # Who keeps a copy from being shown (RFC 7725), or relations of Memento (RFC 7089); for none of
    # them is anything fetched (P-17).
    "link": re.compile(rf'<https?://[A-Za-z0-9.:\[\]-]{{1,300}}/>; rel="blocked-by"|{_LINK}(?:, {_LINK}){{0,9}}'),
    "content-disposition": re.compile(r'attachment; filename="capture-[a-z0-9]{1,64}\.[a-z0-9]{3,4}"'),
    "accept-ranges": re.compile(r"bytes"),
    "content-range": re.compile(r"bytes (?:\d{1,15}-\d{1,15}|\*)/\d{1,15}", re.ASCII),
    "retry-after": re.compile(r"\d{1,5}", re.ASCII),
}
_OF_RANGES = {"accept-ranges", "content-range"}
_STATUS = re.compile(r"(200|206|30[123478]|40[034]|410|416|429|451|500|503) [A-Za-z ]{2,40}", re.ASCII)
# Permitted values of request headers; all others are dropped.
_REQUEST_VALUES: dict[str, re.Pattern[str]] = {
    "HTTP_IF_NONE_MATCH": re.compile(r"[!-~ \t]{1,2000}"),
    "HTTP_RANGE": re.compile(r"bytes=(?:\d{1,15}-\d{0,15}|-\d{1,15})", re.ASCII),
    "HTTP_IF_RANGE": ALLOWED_HEADERS["etag"],
    "HTTP_SEC_FETCH_DEST": re.compile("|".join(sorted({*_DESTINATIONS, *_PLAYERS, _FONT}))),
}
_PERMISSIONS = """
    accelerometer ambient-light-sensor autoplay battery bluetooth browsing-topics camera
    clipboard-read clipboard-write display-capture encrypted-media fullscreen gamepad
    geolocation gyroscope hid identity-credentials-get idle-detection local-fonts magnetometer
    microphone midi otp-credentials payment picture-in-picture publickey-credentials-create
    publickey-credentials-get screen-wake-lock serial storage-access usb web-share
    window-management xr-spatial-tracking
""".split()  # noqa: SIM905 a table in rows can be read and compared
COMMON_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Permissions-Policy", ", ".join(f"{feature}=()" for feature in _PERMISSIONS)),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Origin-Agent-Cluster", "?1"),
    ("X-DNS-Prefetch-Control", "off"),
    ("X-Robots-Tag", "noindex, noarchive"),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Configuration of the gate."""

    front_origin: str  # the only origin that may frame replay
    # accepted values of Host; others are refused, which prevents DNS rebinding
    hosts: frozenset[str]
    has_fonts: bool = True  # copies load fonts, from replay and from ``data:`` URLs

    def kind(self, content_type: str) -> TypePolicy | None:
        """Return the policy of a content type; None when it is not allowed."""
        kind = TYPE_POLICIES.get(content_type)
        return None if kind is not None and kind.is_font and not self.has_fonts else kind


@lru_cache(maxsize=256)
def fixed_headers(policy: Policy, content_type: str) -> tuple[tuple[str, str], ...]:
    """Return the headers that every response of that type carries, in order."""
    kind = policy.kind(content_type) or TypePolicy()
    fonts = ("font-src 'self' data:",) if policy.has_fonts and content_type == _HTML else ()
    directives = (
        kind.sandbox,
        "default-src 'none'",
        *kind.directives,
        *fonts,
        "form-action 'none'",
        "base-uri 'none'",
        f"frame-ancestors {policy.front_origin}",
    )
    return (
        ("Content-Security-Policy", "; ".join(directives)),
        *COMMON_HEADERS,
        ("Cross-Origin-Resource-Policy", "cross-origin" if kind.is_part else "same-origin"),
        *((("Access-Control-Allow-Origin", "*"),) if kind.is_shared else ()),
    )


class HeaderGate:
    """WSGI middleware; a body is complete, in a list, or an iterable whose attribute `size` is its number of bytes."""

    def __init__(self, application: WSGIApplication, policy: Policy) -> None:
        self._application = application
        self._policy = policy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        body: Any
        if (refusal := _refusal(environ, self._policy)) is not None:
            status, text = refusal
            allowed = [("Allow", ", ".join(_METHODS))] if status.startswith("405") else []
            content_type, body = "", [text.encode()]
        else:
            status, headers, body = self._answer(environ)
            if (verdict := _allowed(status, headers, self._policy, has_body=_size(body) > 0)) is None:
                close_body(body)
                status, verdict = "500 Internal Server Error", ("", [])
                body = [b"This capture cannot be shown.\n"]
            content_type, allowed = verdict
        start_response(status, response_headers(self._policy, status, content_type, allowed, _size(body)))
        if environ.get("REQUEST_METHOD") == "HEAD" or int(status[:3]) in NO_BODY:
            close_body(body)
            return [b""]
        return body  # type: ignore[no-any-return]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, Headers, Any]:
        """Return status, headers and body of the application; empty ones when it fails."""
        started: list[Any] = ["", []]

        def refuse_write(data: bytes) -> None:
            raise NotImplementedError("The body is what the application returns.")

        def start(status: str, headers: Headers, _: Any = None, /) -> Callable[..., Any]:
            started[:] = [status, headers]  # nothing is sent before the application returns
            return refuse_write

        try:
            inner = {key: value for key, value in environ.items() if key.startswith("wsgi.")}
            inner["REQUEST_METHOD"] = "GET"  # the body of a HEAD is dropped at the end
            inner["REQUEST_URI"] = environ.get("REQUEST_URI", "")
            for key, pattern in _REQUEST_VALUES.items():
                if key in environ and pattern.fullmatch(environ[key]):
                    inner[key] = environ[key]
            if "HTTP_IF_RANGE" in environ and "HTTP_IF_RANGE" not in inner:
                inner.pop("HTTP_RANGE", None)  # a condition that is not understood is not met
            body: Any = self._application(inner, start)
            if not hasattr(body, "size") and not (isinstance(body, list) and len(body) == 1):
                try:
                    body = [b"".join(body)]
                finally:
                    close_body(body)
        except Exception:  # noqa: BLE001 nothing may pass the gate, a server's own error page neither
            _LOG.exception("replay.request_failed")
            return "", [], [b""]
        status, headers = started
        return status, headers, body


def response_headers(policy: Policy, status: str, content_type: str, allowed: Headers, length: int) -> Headers:
    """Return all headers of a response; an empty content type is plain text."""
    content_type = content_type or _TEXT
    headers = entity_headers(int(status[:3]), content_type, allowed, length)
    headers += fixed_headers(policy, content_type)
    return headers


def entity_headers(status: int, content_type: str, allowed: Headers, length: int) -> Headers:
    """Return the headers about caching and the body, with those that the application has set."""
    # Take-downs must apply within a second, so caches revalidate everything; ETags make that cheap. Errors are not
    # cached at all: the capture may arrive in the next second.
    has_etag = any(name.lower() == "etag" for name, _ in allowed)
    headers = [("Cache-Control", "private, no-cache" if has_etag else "no-store"), *allowed]
    if status not in NO_BODY:
        headers += [("Content-Type", content_type), ("Content-Length", str(length))]
    return headers


def _size(body: Any) -> int:
    return len(body[0]) if isinstance(body, list) else int(body.size)


def close_body(body: Any) -> None:
    """Close the body of an answer where it has something to close (PEP 3333)."""
    if hasattr(body, "close"):
        body.close()


def _refusal(environ: WSGIEnvironment, policy: Policy) -> tuple[str, str] | None:
    if environ.get("REQUEST_METHOD") not in _METHODS:
        return "405 Method Not Allowed", "Captures are read-only.\n"
    if environ.get("HTTP_HOST", "").lower() not in policy.hosts:
        return "421 Misdirected Request", "This host does not answer here.\n"
    target = environ.get("REQUEST_URI", "")
    if len(target) > LONGEST_TARGET:
        return "414 URI Too Long", "This address is too long.\n"
    if not _TARGET.fullmatch(target):
        return "400 Bad Request", "This is not an address.\n"
    destination = environ.get("HTTP_SEC_FETCH_DEST", "document").lower()
    is_welcome = (
        destination in _DESTINATIONS
        or (policy.has_fonts and destination == _FONT)
        or (destination in _PLAYERS and _PLAYED_TARGET.match(target) is not None)
    )
    if "HTTP_SERVICE_WORKER" in environ or not is_welcome:
        return "403 Forbidden", "Captures are neither scripts nor workers.\n"
    return None


def _leads_home(value: str, policy: Policy) -> bool:
    """Return True when all targets of a Link header but the archived page are ours."""
    own_prefixes = (
        f"{policy.front_origin}/",
        *(f"{scheme}://{host}/" for host in policy.hosts for scheme in ("https", "http")),
    )
    return all(
        target.startswith(("http://", "https://") if relation == "original" else own_prefixes)
        for target, relation in _LINKED.findall(value)
    )


def _allowed(status: str, headers: Headers, policy: Policy, *, has_body: bool) -> tuple[str, Headers] | None:
    """Return content type and headers that may be sent; None when the response must not be."""
    content_type = next((text for name, text in headers if name.lower() == "content-type"), "")
    kind = policy.kind(content_type)
    is_attached = kind is not None and kind.is_attached
    has_ranges = kind is not None and (kind.is_attached or kind.is_played)
    is_partial = status.startswith(("206", "416"))
    passed, names = [], set[str]()
    for name, value in headers:
        key = name.lower()
        pattern = ALLOWED_HEADERS.get(key)
        if pattern is None or not pattern.fullmatch(value) or (key in _OF_RANGES and not has_ranges):
            continue
        if key == "link" and not _leads_home(value, policy):
            continue
        if key != "content-range" or is_partial:
            passed.append((name, value))
            names.add(key)
    is_redirect = status.startswith("3") and not status.startswith("304")
    unfit = (
        _STATUS.fullmatch(status) is None
        or (kind is None and has_body)
        or (is_attached and has_body and "content-disposition" not in names)
        or (is_redirect and "location" not in names)
        or len(names) != len(passed)
        or is_partial != ("content-range" in names)
        or (is_partial and not has_ranges and has_body)
    )
    return None if unfit else (content_type, passed)
