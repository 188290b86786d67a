"""The header gate: the outermost layer of replay, the owner of every response header.

What the application says is matched against a short list; what is not on it does not leave. What
must be said is said on every response, whatever its status (research 1.6, P-12, P-17, P-19). Of a
request only the method, the target and If-None-Match get in.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Headers = list[tuple[str, str]]

_LOG = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD")
# Fetch Metadata: a worker, a script or a plug-in has no business here (P-06).
_DESTINATIONS = {"document", "iframe", "frame", "image", "style", "empty"}
_NO_BODY = {204, 304}

_HTML = "text/html; charset=utf-8"
_PDF = "application/pdf"
_CONTENT_TYPES = {
    _HTML,
    "text/plain; charset=utf-8",
    "text/css; charset=utf-8",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    _PDF,
}
_LINK = (
    r"<[!#-;=?-\[\]_a-z~]{1,30000}>; rel=\"(?:original|timegate|timemap|(?:(?:first|last|prev|next) )*memento)\""
    r"(?:; (?:type|datetime)=\"[A-Za-z0-9 ,:/-]{1,40}\")?"
)
_ALLOWED: dict[str, re.Pattern[str]] = {
    "etag": re.compile(r'"[A-Za-z0-9:._+/=-]{1,200}"'),
    "memento-datetime": re.compile(
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
    ),
    # Who keeps a copy from being shown (RFC 7725), or relations of Memento (RFC 7089); for none of
    # them is anything fetched (P-17).
    "link": re.compile(
        rf'<https?://[A-Za-z0-9.:\[\]-]{{1,300}}/>; rel="blocked-by"|{_LINK}(?:, {_LINK}){{0,9}}'
    ),
    # Only to an address of our own, so no redirect leaves the archive (P-14).
    "location": re.compile(r"/c/\d{14}(?:im_|cs_)?/[!$-;=?-Z_a-z\[\]~]{1,30000}"),
    "content-disposition": re.compile(r'attachment; filename="capture-[a-z0-9]{1,64}\.[a-z]{3}"'),
}
_PERMISSIONS = (
    "accelerometer",
    "ambient-light-sensor",
    "autoplay",
    "battery",
    "bluetooth",
    "browsing-topics",
    "camera",
    "clipboard-read",
    "clipboard-write",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "gamepad",
    "geolocation",
    "gyroscope",
    "hid",
    "identity-credentials-get",
    "idle-detection",
    "local-fonts",
    "magnetometer",
    "microphone",
    "midi",
    "otp-credentials",
    "payment",
    "picture-in-picture",
    "publickey-credentials-create",
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "storage-access",
    "usb",
    "web-share",
    "window-management",
    "xr-spatial-tracking",
)
_PERMISSIONS_POLICY = ", ".join(f"{feature}=()" for feature in _PERMISSIONS)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the gate needs to know of the world.

    Attributes:
        front_origin: the one origin that may frame us.
        hosts: values of Host that are ours; any other is refused, so that a name rebound to this
            address reads nothing.
    """

    front_origin: str
    hosts: frozenset[str]


def fixed_headers(policy: Policy, content_type: str) -> Headers:
    """The headers that every response of that type carries, in order.

    A page may navigate the top window when its reader clicks: its links all lead to the front
    (`playback.replay.html`), and no script is there to click for the reader.
    """
    html = content_type == _HTML
    directives = (
        "sandbox allow-top-navigation-by-user-activation" if html else "sandbox",
        "default-src 'none'",
        *(("img-src 'self' data:", "style-src 'self' 'unsafe-inline'") if html else ()),
        "form-action 'none'",
        "base-uri 'none'",
        f"frame-ancestors {policy.front_origin}",
    )
    # In a sandboxed document our own images count as cross-origin (research 1.6, the trap).
    embeddable = content_type == "text/css; charset=utf-8" or content_type.startswith("image/")
    return [
        ("Content-Security-Policy", "; ".join(directives)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Permissions-Policy", _PERMISSIONS_POLICY),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "cross-origin" if embeddable else "same-origin"),
        ("Origin-Agent-Cluster", "?1"),
        ("X-DNS-Prefetch-Control", "off"),
        ("X-Robots-Tag", "noindex, noarchive"),
    ]


class Gate:
    """WSGI middleware: the policy around `application`, which sees a request of three facts.

    `application` must answer with a complete body; the gate sets Content-Length.
    """

    def __init__(self, application: WSGIApplication, policy: Policy) -> None:
        self._application = application
        self._policy = policy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        refusal = _refusal(environ, self._policy)
        if refusal is not None:
            status, text = refusal
            headers = [("Allow", ", ".join(_METHODS))] if status.startswith("405") else []
            return self._send(environ, start_response, status, "", headers, text.encode())
        answer = _Answer()
        try:
            body = _collect(self._application(_inner_environ(environ), answer.start))
        except Exception:  # noqa: BLE001 nothing may pass the gate, a server's own error page neither
            _LOG.exception("replay.request_failed")
            answer, body = _Answer(), b""
        status, content_type, headers, body = _allowed(answer, body)
        return self._send(environ, start_response, status, content_type, headers, body)

    def _send(
        self,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        status: str,
        content_type: str,
        allowed: Headers,
        body: bytes,
    ) -> Iterable[bytes]:
        headers = response_headers(self._policy, status, content_type, allowed, len(body))
        start_response(status, headers)
        if environ.get("REQUEST_METHOD") == "HEAD" or int(status[:3]) in _NO_BODY:
            return [b""]
        return [body]


def response_headers(
    policy: Policy, status: str, content_type: str, allowed: Headers, length: int
) -> Headers:
    """Every header of a response; an empty content type is plain text."""
    content_type = content_type or "text/plain; charset=utf-8"
    # Take-down must hold in a second, so nothing is used again without asking; an ETag makes
    # asking cheap. Errors are not kept at all: the capture may arrive in the next second.
    kept = any(name.lower() == "etag" for name, _ in allowed)
    headers = [("Cache-Control", "private, no-cache" if kept else "no-store"), *allowed]
    if int(status[:3]) not in _NO_BODY:
        headers += [("Content-Type", content_type), ("Content-Length", str(length))]
    return headers + fixed_headers(policy, content_type)


class _Answer:
    """What the application said through start_response."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: Headers = []

    def start(self, status: str, headers: Headers, exc_info: Any = None, /) -> Callable[..., Any]:
        del exc_info  # bodies are complete before anything is sent, so nothing is ever taken back
        self.status, self.headers = status, headers
        return _refuse_write


def _refuse_write(data: bytes) -> None:
    raise NotImplementedError("The body is what the application returns.")


def _collect(body: Iterable[bytes]) -> bytes:
    try:
        return b"".join(body)
    finally:
        close = getattr(body, "close", None)
        if close is not None:
            close()


def _refusal(environ: WSGIEnvironment, policy: Policy) -> tuple[str, str] | None:
    if environ.get("REQUEST_METHOD") not in _METHODS:
        return "405 Method Not Allowed", "Captures can only be read.\n"
    if environ.get("HTTP_HOST", "").lower() not in policy.hosts:
        return "421 Misdirected Request", "This host does not answer here.\n"
    destination = environ.get("HTTP_SEC_FETCH_DEST", "document").lower()
    if "HTTP_SERVICE_WORKER" in environ or destination not in _DESTINATIONS:
        return "403 Forbidden", "Captures are neither scripts nor workers.\n"
    return None


def _inner_environ(environ: WSGIEnvironment) -> WSGIEnvironment:
    inner = {key: value for key, value in environ.items() if key.startswith("wsgi.")}
    inner["REQUEST_METHOD"] = "GET"  # the body of a HEAD is dropped at the end
    inner["REQUEST_URI"] = environ.get("REQUEST_URI", "")
    if "HTTP_IF_NONE_MATCH" in environ:
        inner["HTTP_IF_NONE_MATCH"] = environ["HTTP_IF_NONE_MATCH"]
    return inner


def _allowed(answer: _Answer, body: bytes) -> tuple[str, str, Headers, bytes]:
    """Status, content type, headers and body that may leave."""
    content_type, kept = "", []
    for name, value in answer.headers:
        pattern = _ALLOWED.get(name.lower())
        if name.lower() == "content-type":
            content_type = value
        elif pattern is not None and pattern.fullmatch(value):
            kept.append((name, value))
    names = {name.lower() for name, _ in kept}
    is_redirect = answer.status.startswith("3") and not answer.status.startswith("304")
    unfit = (
        re.fullmatch(r"[2-5]\d\d [A-Za-z ]{2,40}", answer.status) is None
        or (content_type not in _CONTENT_TYPES and body != b"")
        or (content_type == _PDF and "content-disposition" not in names)
        or (is_redirect and "location" not in names)
        or len(names) != len(kept)
    )
    if unfit:
        return "500 Internal Server Error", "", [], b"This capture cannot be shown.\n"
    return answer.status, content_type, kept, body
