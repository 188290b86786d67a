"""Gate of full copies: sandbox and content policy for archived scripts, and requests with a body.

It sets every header of every response. All archived content gets the same policy: a sandbox, and requests to the
capture's own origin only (P-01, P-03 to P-08, P-12, P-17). Safety does not depend on rewriting.

A copy's script (`full.js`) writes method, media type and body into the query of a GET, as pywb and wabac do. A body is
compared with captured ones by its parameters, but for values that are new at each visit where there is one such only.
"""

import base64
import binascii
import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote
from wsgiref.types import StartResponse, WSGIEnvironment

from playback.replay.capture_lookup import FRESH_VALUE
from playback.replay.header_gate import COMMON_HEADERS, NO_BODY, Headers, entity_headers
from playback.url_paths import FullOrigins

_LOG = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD", "OPTIONS")
# Fetch Metadata: what lives longer than its page is refused (P-06). A worker of an opaque origin never
# comes from an address.
_REFUSED = {"serviceworker", "sharedworker", "worker", "report", "manifest", "webidentity"}
_LONGEST_TARGET = 16_384  # characters

_TYPE = re.compile(
    r"(?:text/(?:html|css|javascript|plain|xml|vtt)|image/(?:png|jpeg|gif|webp|avif|svg\+xml|x-icon|bmp)"
    r"|font/(?:woff2?|ttf|otf)|audio/[a-z0-9.+-]{1,40}|video/[a-z0-9.+-]{1,40}"
    r"|application/(?:json|xml|xhtml\+xml|wasm|pdf|octet-stream|dash\+xml|vnd\.apple\.mpegurl"
    r"|x-mpegURL|ld\+json|manifest\+json))(?:; charset=[A-Za-z0-9._:-]{1,40})?"
)
_ALLOWED: dict[str, re.Pattern[str]] = {
    "etag": re.compile(r'"[A-Za-z0-9:._+/=-]{1,240}"'),
    "memento-datetime": re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"),
    # To the same origin, so that no redirect leaves the capture (P-14).
    "location": re.compile(r"/c/\d{14}[a-z]{2,4}_/https?://[!#-;=?-Z_a-z\[\]~]{1,30000}"),
    "content-range": re.compile(r"bytes (?:\d{1,12}-\d{1,12}|\*)/\d{1,12}"),
    "accept-ranges": re.compile(r"bytes"),
    "content-disposition": re.compile(r'attachment; filename="capture-[a-z0-9]{1,64}\.[a-z]{3}"'),
}
_FRONT_PATH = re.compile(r"/full/\d{14}/https?://[!$-;=?-Z_a-z\[\]~]{1,30000}")
_STATUS = frozenset(each.value for each in HTTPStatus if each.value >= 200)


@dataclass(frozen=True, slots=True)
class FullRequest:
    """Facts of a request that the application sees."""

    host: str
    target: str
    destination: str  # Fetch Metadata's; empty when the browser does not say
    known_etags: str
    range: str


@dataclass(frozen=True, slots=True)
class FullAnswer:
    """Response before the gate."""

    status: int
    content_type: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    ours: bool = False  # written by Weboid; contains neither scripts nor archived content
    nested: bool = False  # it is for a frame within the page's frame


@dataclass(frozen=True, slots=True)
class FullPolicy:
    """Configuration of the gate."""

    origins: FullOrigins
    front_origin: str


class FullGate:
    """WSGI application that applies the policy to the answers of `answer`."""

    def __init__(self, answer: Callable[[FullRequest], FullAnswer], policy: FullPolicy) -> None:
        self._answer = answer
        self._policy = policy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        request = FullRequest(
            host=environ.get("HTTP_HOST", "").lower(),
            target=environ.get("REQUEST_URI", ""),
            destination=environ.get("HTTP_SEC_FETCH_DEST", "").lower(),
            known_etags=environ.get("HTTP_IF_NONE_MATCH", ""),
            range=environ.get("HTTP_RANGE", ""),
        )
        method = environ.get("REQUEST_METHOD")
        if method not in _METHODS:
            answer = plain_answer(405, "Captures are read-only.\n")
        elif "HTTP_SERVICE_WORKER" in environ or request.destination in _REFUSED:
            answer = plain_answer(403, "Captures may not register service workers.\n")
        elif len(request.target) > _LONGEST_TARGET:
            answer = plain_answer(414, "This address is too long.\n")
        elif method == "OPTIONS":  # an opaque origin sends a preflight before custom headers (Fetch, 4.8)
            answer = FullAnswer(204, ours=True)
        else:
            answer = None
        if answer is None:
            try:
                answer = self._fit(self._answer(request))
            except Exception:  # noqa: BLE001 nothing may pass the gate, a server's own error page neither
                _LOG.exception("replay.full_request_failed")
                answer = plain_answer(500, "This capture cannot be shown.\n")
        status = HTTPStatus(answer.status)
        kind = answer.content_type or "text/plain; charset=utf-8"
        headers = entity_headers(answer.status, kind, [*answer.headers], len(answer.body))
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(_METHODS)))
        headers += fixed_full_headers(self._policy, request.host, answer)
        start_response(f"{status.value} {status.phrase}", headers)
        if environ.get("REQUEST_METHOD") == "HEAD" or answer.status in NO_BODY:
            return [b""]
        return [answer.body]

    def _fit(self, answer: FullAnswer) -> FullAnswer:
        """Return the answer with allowed headers only; an error for unexpected answers."""
        front, headers = self._policy.front_origin, []
        for name, value in answer.headers:
            if name.lower() == "location" and answer.ours:
                path = value.removeprefix(front)
                is_allowed = path != value and _FRONT_PATH.fullmatch(path) is not None
            else:
                pattern = _ALLOWED.get(name.lower())
                is_allowed = pattern is not None and pattern.fullmatch(value) is not None
            if is_allowed:
                headers.append((name, value))
        names = {name.lower() for name, _ in headers}
        is_redirect = 300 <= answer.status < 400 and answer.status != 304
        unfit = (
            answer.status not in _STATUS
            or ((answer.content_type or answer.body) and _TYPE.fullmatch(answer.content_type) is None)
            or (is_redirect and "location" not in names)
            or len(names) != len(headers)
        )
        if unfit:
            return plain_answer(500, "This capture cannot be shown.\n")
        return replace(answer, headers=tuple(headers))


def plain_answer(status: int, text: str) -> FullAnswer:
    """Return an answer with one line of plain text."""
    return FullAnswer(status, "text/plain; charset=utf-8", text.encode(), ours=True)


def fixed_full_headers(policy: FullPolicy, host: str, answer: FullAnswer) -> Headers:
    """Return the headers that every response carries; notices of our own need fewer permissions."""
    connected = policy.front_origin if answer.ours else f"{policy.origins.scheme}{host}"
    return [
        ("Content-Security-Policy", content_policy(policy, host, answer)),
        # Where browsers know it, it also holds what no content policy does: WebRTC, connection hints.
        ("Connection-Allowlist", f'(response-origin "{connected}/*")'),
        *COMMON_HEADERS,
        # An opaque origin is foreign to every origin, its own address included; this host's name is
        # unguessable.
        ("Cross-Origin-Resource-Policy", "cross-origin"),
        ("Access-Control-Allow-Origin", "null"),
        ("Access-Control-Allow-Methods", "GET, HEAD"),
        ("Access-Control-Allow-Headers", "*, Authorization"),
        ("Access-Control-Expose-Headers", "*"),
    ]


def content_policy(policy: FullPolicy, host: str, answer: FullAnswer) -> str:
    """Return the Content-Security-Policy of a response; an unknown host gets no origin at all.

    The capture's origin is named, because browsers differed on the meaning of ``'self'`` in an opaque origin.
    """
    own = ""
    if not answer.ours and policy.origins.page_of(host) is not None:
        own = policy.origins.scheme + host
    if not own:
        # A click on a notice's link may lead to the front, for no script is there to click.
        return (
            "sandbox allow-top-navigation-by-user-activation; default-src 'none';"
            " style-src 'unsafe-inline'; form-action 'none'; base-uri 'none';"
            f" frame-ancestors {policy.front_origin}"
        )
    # What is framed by the page has the page's opaque origin above it, which no source list matches:
    # with a list, no frame would ever show (measured; Chromium 156).
    framed = () if answer.nested else (f"frame-ancestors {policy.front_origin}",)
    return "; ".join(
        (
            "sandbox allow-scripts",
            f"default-src {own} data: blob: 'unsafe-inline' 'unsafe-eval'",
            f"connect-src {own} data: blob:",
            # Documents of data: and blob: inherit this policy (CSP 3, 7.8).
            f"frame-src {own} data: blob:",
            "worker-src blob:",
            f"object-src {own}",
            "manifest-src 'none'",
            "fenced-frame-src 'none'",
            "form-action 'none'",
            f"base-uri {own}",
            *framed,
            "webrtc 'block'",
        )
    )


_QUERY = re.compile(
    r"[?&]__wb_method=(?P<method>[A-Z]{1,20})&__wb_post_type=(?P<type>[^&]*)"
    r"(?:&__wb_post_data=(?P<data>[^&]*))?$"
)
_FIELD = re.compile(r'name="([^"\r\n]{0,1000})"[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n(.*?)\r\n--', re.DOTALL)
_DEEPEST = 20
_FRESH = re.compile(FRESH_VALUE, re.IGNORECASE)
_T = TypeVar("_T")
Parameters = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BodyRequest:
    """Request of a method that may have a body; `parameters` None: the body is unknown."""

    method: str
    parameters: Parameters | None


def parse_body_query(url: str) -> tuple[str, BodyRequest] | None:
    """Return the URL without what `full.js` added, and the request that it means; None for a GET.

    >>> parse_body_query("https://a.example/s?__wb_method=POST&__wb_post_type=text%2Fplain&__wb_post_data=eA%3D%3D")
    ('https://a.example/s', BodyRequest(method='POST', parameters=(('', 'x'),)))
    """
    if (match := _QUERY.search(url)) is None:
        return None
    parameters = None
    if match["data"] is not None:
        try:
            body = base64.b64decode(unquote(match["data"]), validate=True)
        except binascii.Error:
            body = b""
        parameters = body_parameters(unquote(match["type"]), body)
    return url[: match.start()], BodyRequest(match["method"], parameters)


def body_parameters(content_type: str, body: bytes) -> Parameters:
    """Return the sorted parameters of a body: of a form, of a JSON text, else the text itself."""
    text = body.decode("utf-8", "replace")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        return tuple(sorted(parse_qsl(text, keep_blank_values=True)))
    if media_type == "multipart/form-data":
        return tuple(sorted(_FIELD.findall(text)))
    try:
        return tuple(sorted(_leaves(json.loads(text), "", 0)))
    except (ValueError, RecursionError):
        return (("", text),) if text else ()


def match_body(wanted: BodyRequest, captured: Iterable[tuple[_T, BodyRequest]]) -> _T | None:
    """Return the capture whose request was the same, else the only one that differs in fresh values alone."""
    similar: list[_T] = []
    for capture, request in captured:
        if request.method != wanted.method:
            continue
        if request.parameters == wanted.parameters and wanted.parameters is not None:
            return capture
        if wanted.parameters is None or _lasting(request) == _lasting(wanted):
            similar.append(capture)
    return similar[0] if len(similar) == 1 else None


def _lasting(request: BodyRequest) -> Parameters:
    return tuple((name, "" if _FRESH.fullmatch(value) else value) for name, value in request.parameters or ())


def _leaves(value: Any, name: str, depth: int) -> Iterable[tuple[str, str]]:
    if depth < _DEEPEST and isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{at}", depth + 1)
    else:
        yield name, json.dumps(value).strip('"')
