"""Server of full copies (level `full`): captures at hosts of their own, with scripts.

The host name identifies the capture of a page (`playback.url_paths`). It is served only while the level rules and
take-downs allow it. Its parts are the captures nearest to the page's moment, within the window of all copies (P-10). A
document that is neither the page nor was captured with it is replaced by a notice with a link to its own copy.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from importlib import resources
from urllib.parse import quote, urldefrag, urljoin, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from core.captures import Capture
from core.errors import BodyTooLargeError, PermanentError, TransientError
from core.media_types import charset_of
from core.timestamps import parse_timestamp14
from playback.access.control import PageFacts, TakenDownError
from playback.access.holds import PayloadHold
from playback.access.levels import Level
from playback.replay.archive import Payload
from playback.replay.full import full_gate, text_rewriter
from playback.replay.replay_context import ReplayContext, maker_version
from playback.replay.resource_routes import UnsatisfiableRangeError, parse_range
from playback.replay.sanitizer.html_document import notice_document
from playback.replay.sanitizer_pool import Make
from playback.url_paths import FULL_SECRET, LONGEST_URL, FullOrigins, escape_url, is_web_url, page_path

# Types that a browser renders as documents that may contain scripts.
ACTIVE_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xml", "text/xml", "image/svg+xml"})
_BINARY = "application/octet-stream"
_KNOWN = ACTIVE_TYPES.union(
    """
    text/css text/plain text/vtt text/javascript image/png image/jpeg image/gif image/webp
    image/avif image/x-icon image/bmp font/woff font/woff2 font/ttf font/otf
    application/json application/ld+json application/manifest+json application/wasm
    application/pdf application/dash+xml application/vnd.apple.mpegurl application/x-mpegURL
    """.split()  # noqa: SIM905 a table in rows can be read and compared
)
_ALIASES = {
    "image/vnd.microsoft.icon": "image/x-icon",
    "image/jpg": "image/jpeg",
    "application/font-woff": "font/woff",
    "application/font-woff2": "font/woff2",
    "application/x-font-ttf": "font/ttf",
    "application/x-font-woff": "font/woff",
    "application/x-font-opentype": "font/otf",
    "application/rss+xml": "application/xml",
    "application/atom+xml": "application/xml",
    "application/x-mpegurl": "application/x-mpegURL",
    **dict.fromkeys(text_rewriter.SCRIPT_TYPES, "text/javascript"),
}
_MEDIA = re.compile(r"(?:audio|video)/[a-z0-9.+-]{1,40}")
_MARKUP = re.compile(
    rb"^(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype|html|head|body|[a-z])", re.IGNORECASE | re.DOTALL
)
_USES = {"js_": "text/javascript", "cs_": "text/css"}
_GUESSED = frozenset({"", "text/plain", _BINARY, "text/html", "binary/octet-stream"})


def media_type_of(payload: Payload, modifier: str) -> str:
    """Return the media type of a payload from its header, its use in the page, and its first bytes."""
    media_type = payload.content_type.partition(";")[0].strip().lower()
    if modifier in text_rewriter.SCRIPT_MODIFIERS - {"js_"}:
        return "text/javascript"
    is_markup = _MARKUP.match(payload.body[:1024]) is not None
    if media_type in _GUESSED and not is_markup and modifier in _USES:
        # With a missing or wrong type, the way the page uses the resource decides.
        return _USES[modifier]
    media_type = media_type or ("text/html" if is_markup else "text/plain")
    media_type = _ALIASES.get(media_type, media_type)
    if media_type in _KNOWN or _MEDIA.fullmatch(media_type):
        return media_type
    # A harmless type in place of one that was not foreseen.
    if media_type.endswith("+json"):
        return "application/json"
    return "text/plain" if media_type.startswith("text/") else _BINARY


_LOG = logging.getLogger(__name__)

_HTML = "text/html; charset=utf-8"
# Workers made from blobs ask without the moment (wombat's `wkrf_`).
_TARGET = re.compile(r"/c/(?:(\d{14})([a-z]{2,4}_)?|wkrf_)/(.+)", re.ASCII | re.DOTALL)
_MODIFIERS = frozenset(
    {text_rewriter.PAGE_MODIFIER, "if_", "fr_", "im_", "cs_", "oe_", "wkrf_", "id_", *text_rewriter.SCRIPT_MODIFIERS}
)
# Destinations of requests for frames (Fetch Metadata).
_FRAMES = frozenset({"iframe", "frame", "object", "embed"})
_PARTS = {"script": "js_", "style": "cs_", "image": "im_", "json": "oe_"}
_LONGEST_BODY = 1_000_000  # bytes of a captured request
_BY_DESTINATION = {**_PARTS, "iframe": "if_", "frame": "fr_"}
_SAFE = "!$&'()*+,/:;=?@[]~%-._"
_OUR_SCRIPTS = {
    "full.js": ("full_database.js", "full.js"),
    "module.js": ("full_module.js",),
    "worker.js": ("full_worker.js",),
}
_WOMBAT_SCRIPTS = frozenset({"wombat.js", "wombatWorkers.js"})


_NEVER = full_gate.plain_answer(404, "There is nothing at this address.\n")
_ABSENT = full_gate.plain_answer(404, "Not captured.\n")


@dataclass(frozen=True, slots=True)
class _PartRequest:
    """Request for a part, with the page it belongs to."""

    page: PageFacts
    at: datetime
    origin: str
    modifier: str
    url: str
    request: full_gate.FullRequest
    sent: full_gate.BodyRequest | None = None  # for what the page sent by another method than GET

    @property
    def is_nested(self) -> bool:
        """Return True for documents of frames within the page."""
        return self.modifier in {"if_", "fr_"} or self.request.destination in {"object", "embed"}


def with_full(others: WSGIApplication, context: ReplayContext, pattern: str, rewrite: Make) -> WSGIApplication:
    """Return the application that answers for full copies at their hosts, and `others`, with its own gate, elsewhere.

    `pattern`: the origins of full copies (ConfigError: they or the secret are invalid); `rewrite`: makers with pywb.
    """
    origins = FullOrigins(pattern, os.environ.get(FULL_SECRET, "").encode())
    policy = full_gate.FullPolicy(origins, context.front)
    full = full_gate.FullGate(FullCopyServer(context, origins, rewrite), policy)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        chosen = full if origins.is_ours(environ.get("HTTP_HOST", "")) else others
        return chosen(environ, start_response)

    return application


class _FullCopyRefusedError(Exception):
    """Request that is refused with `answer`."""

    def __init__(self, answer: full_gate.FullAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class FullCopyServer:
    """Application for all hosts of full copies; the level rules are checked for each request."""

    def __init__(self, context: ReplayContext, origins: FullOrigins, rewrite: Make) -> None:
        self._context = context
        self._origins = origins
        self._rewrite = rewrite
        self._scripts: dict[str, full_gate.FullAnswer] = {}

    def __call__(self, request: full_gate.FullRequest) -> full_gate.FullAnswer:
        """Answer one request."""
        try:
            return self._answer(request)
        except _FullCopyRefusedError as refused:
            return refused.answer
        except TakenDownError as error:
            if not error.is_disclosed:
                return _NEVER
            if isinstance(error.takedown, PayloadHold):
                return full_gate.plain_answer(403, f"Held back. {error.takedown.reason}\n")
            text = f"Taken down. {error.takedown.reason}".strip()
            return full_gate.plain_answer(451, f"{text}\n")
        except BodyTooLargeError:
            return full_gate.plain_answer(404, "This part is too large to be shown.\n")
        except PermanentError as error:
            _LOG.warning("replay.record_unusable: %s", error)
            return full_gate.plain_answer(404, "This part cannot be read.\n")
        except TransientError as error:
            _LOG.warning("replay.index_unavailable: %s", error)
            return full_gate.plain_answer(503, "Try again in a moment.\n")

    def _answer(self, request: full_gate.FullRequest) -> full_gate.FullAnswer:
        page = self._page_of(request.host)
        if request.destination == "document":
            # Outside the front's frame a page could lead its reader anywhere (P-08).
            address = f"{self._context.front}/full/{page.timestamp}/{escape_url(page.url)}"
            return full_gate.FullAnswer(303, headers=(("Location", address),), ours=True)
        if request.target.startswith(text_rewriter.STATIC_PATH):
            return self._script(request.target.removeprefix(text_rewriter.STATIC_PATH))
        part = self._parse_request(request, page)
        best = self._nearest(part)
        # The document of the page's frame, not that of a frame within it.
        is_document = part.modifier == text_rewriter.PAGE_MODIFIER and request.destination in {"", *_FRAMES}
        if is_document and (best is None or not (best.page_id == part.page.page_id or _is_page_itself(part))):
            address = self._context.front + page_path(part.page.timestamp, part.url)
            text = notice_document("This link leads to another page", part.url, link=(address, "See its own copy"))
            return full_gate.FullAnswer(200, _HTML, text.encode(), ours=True)
        if best is None or (part.is_nested and _is_page_itself(part)):
            return _ABSENT  # otherwise the page could be framed anywhere, without the banner
        return replace(self._shown(part, best), nested=part.is_nested)

    def _nearest(self, part: _PartRequest) -> Capture | None:
        """Return the page's own capture of the URL, else the nearest in time; good ones before errors."""
        window = self._context.limits.window
        best: Capture | None = None
        best_rank = 4
        answers: list[Capture] = []
        index = self._context.index
        captures = index.captures(part.url, part.at, window=window)
        while True:
            try:
                capture = next(captures, None)
            except TakenDownError:  # blocked ones count only when there is no better one
                if best is None:
                    raise
                break
            if capture is None:
                break
            if capture.status is None or capture.status == 304:
                continue
            if best is not None and best.url == part.url and capture.url != part.url:
                break
            own = capture.page_id == part.page.page_id
            if part.sent is not None:
                if own:
                    answers.append(capture)
                continue
            rank = (0 if capture.status < 400 else 2) + (0 if own else 1)
            if rank < best_rank:
                best, best_rank = capture, rank
        if part.sent is not None:
            stored = ((each, self._context.archive.request(each, limit=_LONGEST_BODY)) for each in answers)
            sent = (
                (each, full_gate.BodyRequest(request[0], full_gate.body_parameters(*request[1:])))
                for each, request in stored
                if request is not None
            )
            best = full_gate.match_body(part.sent, sent)
        elif best is None and part.request.destination not in {"", *_FRAMES}:  # no other document
            best = index.alternative(part.url, part.page.page_id)
        return best

    def _page_of(self, host: str) -> PageFacts:
        """Return the page that the host identifies, after a check that it may be shown."""
        if (named := self._origins.page_of(host)) is None:
            raise _FullCopyRefusedError(full_gate.plain_answer(421, "This host does not answer here.\n"))
        if (page := self._context.index.page_by_id(named.page_id)) is None:
            raise _FullCopyRefusedError(_NEVER)
        self._context.permits.check_copy(page.page_id)
        rules = self._context.levels.now()
        wiki = self._origins.made_for(named, page.timestamp, page.url, ("", *sorted(rules.wikis)))
        if wiki is None:
            raise _FullCopyRefusedError(_NEVER)
        if rules.of_page((page.url, page.final_url), wiki) is not Level.FULL:
            raise _FullCopyRefusedError(full_gate.plain_answer(403, "This copy may not be shown with its scripts.\n"))
        return page

    def _parse_request(self, request: full_gate.FullRequest, page: PageFacts) -> _PartRequest:
        origin = self._origins.scheme + request.host
        if (match := _TARGET.fullmatch(request.target)) is None:
            # An address that was not rewritten, e.g. ``/logo.png``, is of the page's own site.
            if not request.target.startswith("/") or request.target.startswith(("//", "/.weboid")):
                raise _FullCopyRefusedError(_ABSENT)
            site = urlsplit(page.final_url)
            url = f"{site.scheme}://{site.netloc}{request.target}"
            modifier = _BY_DESTINATION.get(request.destination, "oe_")
            raise _FullCopyRefusedError(_to(page.timestamp, modifier, url))
        # As the browser sent it: "%23" is the archived URL's own here.
        url = re.sub(r"^(https?):/+", r"\1://", match[3], count=1, flags=re.IGNORECASE)
        if url.startswith("//"):  # without a scheme it has the page's
            url = f"{urlsplit(page.final_url).scheme}:{url}"
        url, sent = full_gate.parse_body_query(url) or (url, None)
        modifier = match[2] or (text_rewriter.PAGE_MODIFIER if match[1] else "wkrf_")
        is_url = len(url) <= LONGEST_URL and is_web_url(url)
        is_of_page = match[1] in {page.timestamp, None}
        if not is_url or not is_of_page or modifier not in _MODIFIERS:
            raise _FullCopyRefusedError(_ABSENT)
        is_other_module = modifier == "esm_" and request.destination in {"style", "json"}
        if modifier == text_rewriter.PAGE_MODIFIER or is_other_module:
            # A relative address keeps the page's modifier, whatever it is for.
            modifier = _PARTS.get(request.destination, modifier)
        return _PartRequest(page, parse_timestamp14(page.timestamp), origin, modifier, url, request, sent)

    def _shown(self, part: _PartRequest, capture: Capture) -> full_gate.FullAnswer:
        rules = self._context.permits.state_of_digests()
        place = f"{capture.location.filename}:{capture.location.offset}"
        facts = (place, part.request.destination, part.modifier, rules, maker_version())
        etag = f'"{hashlib.sha256(repr(facts).encode()).hexdigest()[:40]}"'
        headers: tuple[tuple[str, str], ...] = (
            ("ETag", etag),
            ("Memento-Datetime", format_datetime(capture.captured_at, usegmt=True)),
        )
        if etag in part.request.known_etags and not part.request.range:
            return full_gate.FullAnswer(304, headers=headers)
        payload = self._context.archive.load(capture, limit=self._context.limits.full_bytes)
        status = capture.status or 200
        if 300 <= status < 400:
            # An archived redirect stays within the capture (P-14).
            target = urljoin(capture.url, payload.location)
            if not payload.location or not is_web_url(target):
                return _ABSENT
            return _to(part.page.timestamp, part.modifier, target)
        use = _PARTS.get(part.request.destination, part.modifier)
        media_type = media_type_of(payload, use if use == "js_" else part.modifier)
        if media_type in ACTIVE_TYPES and not part.request.destination:
            # Without a known destination no document is sent: it might not be in a frame.
            return full_gate.plain_answer(403, "Scripts run only in browsers that send Sec-Fetch headers.\n")
        charset = charset_of(payload.content_type)
        textual = media_type.startswith("text/") or media_type in ACTIVE_TYPES
        content_type = f"{media_type}; charset={charset}" if charset and textual else media_type
        body = self._rewritten(part, capture, content_type, payload)
        if media_type == "application/pdf":
            name = f"capture-{part.page.timestamp}.pdf"
            headers += (("Content-Disposition", f'attachment; filename="{name}"'),)
        answer = full_gate.FullAnswer(status, content_type, body, headers)
        return _ranged(answer, part.request.range) if status == 200 else answer

    def _rewritten(self, part: _PartRequest, capture: Capture, content_type: str, payload: Payload) -> bytes:
        kind = text_rewriter.kind_of(content_type.partition(";")[0], part.modifier)
        if not kind or part.modifier in {"id_", "wkrf_"}:
            return payload.body
        if part.request.destination == "empty" and kind != "application/json":
            return payload.body  # what a script reads itself, it means to read as it was
        if len(payload.body) > self._context.limits.html_bytes:
            raise BodyTooLargeError("A text that is too long to be rewritten.")
        job = text_rewriter.RewriteJob(
            payload.body.decode("latin-1"), content_type, capture.url, part.page.timestamp, part.modifier, part.origin
        )
        place = (capture.digest, capture.url, capture.location.filename, capture.location.offset)
        key = ("full", place, part.origin, part.modifier, content_type, maker_version())
        return self._context.made.get(key, lambda: self._rewrite(lambda: job))

    def _script(self, name: str) -> full_gate.FullAnswer:
        """Return one of the scripts that are added to pages: Weboid's own, or wombat's."""
        if name not in self._scripts:
            if name in _OUR_SCRIPTS:
                folder = resources.files("playback.replay.full")
                body = b"".join((folder / each).read_bytes() for each in _OUR_SCRIPTS[name])
            elif name in _WOMBAT_SCRIPTS:
                body = self._rewrite(lambda: text_rewriter.WombatJob(name))
                if name == "wombatWorkers.js":  # wombat adds it to blob workers, but none of our scripts
                    body = self._script("worker.js").body + body
            else:
                return _ABSENT
            self._scripts[name] = full_gate.FullAnswer(200, "text/javascript; charset=utf-8", body)
        return self._scripts[name]


def _is_page_itself(part: _PartRequest) -> bool:
    page = part.page
    return part.url in {urldefrag(page.url).url, urldefrag(page.final_url).url}


def _to(timestamp: str, modifier: str, url: str) -> full_gate.FullAnswer:
    address = f"/c/{timestamp}{modifier}/{quote(url, safe=_SAFE + '#', errors='replace')}"
    # 307: clients must not cache it.
    return full_gate.FullAnswer(307, headers=(("Location", address),))


def _ranged(answer: full_gate.FullAnswer, range_header: str) -> full_gate.FullAnswer:
    size = len(answer.body)
    headers = (*answer.headers, ("Accept-Ranges", "bytes"))
    try:
        span = parse_range(range_header.replace(" ", ""), "", "", size)
    except UnsatisfiableRangeError:
        refused = full_gate.plain_answer(416, "There is no such part.\n")
        return replace(refused, headers=(("Content-Range", f"bytes */{size}"),))
    if span is None:
        return replace(answer, headers=headers)
    first, end = span
    headers += (("Content-Range", f"bytes {first}-{end - 1}/{size}"),)
    return full_gate.FullAnswer(206, answer.content_type, answer.body[first:end], headers)
