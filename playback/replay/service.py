"""What replay answers: one WSGI application, a route for each modifier, everything else 404.

Records are read by `playback.replay.records`; pywb's rewriters serve the level full alone
(docs/decisions/018). The gate (`playback.replay.gate`) must stand around this application.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIEnvironment

from core.errors import (
    BodyTooLargeError,
    InputError,
    MakingFailedError,
    OverloadedError,
    PermanentError,
    TransientError,
    WeboidError,
)
from core.timestamps import parse_timestamp14
from playback.addresses import LEVEL_MODIFIERS, Modifier, parse_memento_path
from playback.holds import Held
from playback.kinds import TOO_LARGE
from playback.permits import TakenDownError
from playback.replay.answers import (
    NEVER,
    TEXT,
    Answer,
    Request,
    absent,
    blocked,
    held_back,
    missing,
    notice,
)
from playback.replay.context import Context, maker_version
from playback.replay.mementos import as_memento, as_none
from playback.replay.pages import Pages
from playback.replay.parts import Parts
from playback.replay.skew import Skews

_LOG = logging.getLogger(__name__)

Route = Callable[[Request], Answer]
# What is no page by itself: its reader sees the alternative text.
_PARTS = (
    Modifier.IMAGE,
    Modifier.MASK,
    Modifier.STYLE,
    Modifier.PLAIN_STYLE,
    Modifier.FONT,
    Modifier.TEXT,
)

# No copy is ever for search engines (P-23).
ROBOTS = Answer(HTTPStatus.OK, TEXT, b"User-agent: *\nDisallow: /\n")


def routes(context: Context) -> Mapping[Modifier, Route]:
    """What answers for each modifier."""
    pages, parts = Pages(context), Parts(context)
    skews = Skews(context, pages.page, parts.style)
    return {
        Modifier.PAGE: as_memento(context, pages.page),
        Modifier.VERY: as_none(pages.very_page),
        Modifier.IMAGE: parts.image,
        Modifier.MASK: parts.mask,
        Modifier.STYLE: parts.style,
        Modifier.PLAIN_STYLE: parts.style,
        Modifier.FONT: parts.font,
        Modifier.TEXT: parts.text,
        Modifier.FILE: pages.file,
        Modifier.SKEW: skews.answer,
        **dict.fromkeys(LEVEL_MODIFIERS.values(), pages.page),
    }


class Replay:
    """The application: finds the route, and says in our words what went wrong."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._routes = routes(context)
        # Copies that a reader's browser keeps lead to the front, name fonts or not, and are as safe as
        # what made them.
        made = hashlib.sha256(f"{maker_version()} {context.front} {context.has_fonts}".encode())
        self._made = made.hexdigest()[:8]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        is_robots = environ.get("REQUEST_URI", "") == "/robots.txt"
        answer = ROBOTS if is_robots else self._answer(environ)
        status = f"{answer.status.value} {answer.status.phrase}"
        start_response(status, [("Content-Type", answer.content_type), *answer.headers])
        return [answer.body] if isinstance(answer.body, bytes) else answer.body

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        memento = parse_memento_path(environ.get("REQUEST_URI", ""))
        if memento is None:
            return missing("There is nothing at this address.")
        try:
            request = Request(
                memento,
                _moment(memento.timestamp),
                environ.get("HTTP_IF_NONE_MATCH", ""),
                range=environ.get("HTTP_RANGE", ""),
                if_range=environ.get("HTTP_IF_RANGE", ""),
                rules=f"{self._made}{self._context.permits.state_of_digests()}",
                destination=environ.get("HTTP_SEC_FETCH_DEST", ""),
            )
            return self._permitted(request)
        except InputError:
            return missing("This address names no moment.")
        except (PermanentError, TransientError) as error:
            return _failure(error)

    def _permitted(self, request: Request) -> Answer:
        """The route's answer, or what takes its place when a take-down forbids it."""
        modifier = request.memento.modifier
        try:
            return self._routes[modifier](request)
        except TakenDownError as error:
            if isinstance(error.takedown, Held):
                return absent() if modifier in _PARTS else held_back(error.takedown.reason)
            if error.is_told:
                return blocked(error.takedown.reason, self._context.front)
            if modifier in (Modifier.PAGE, Modifier.VERY, *LEVEL_MODIFIERS.values()):
                return missing(NEVER)
            return absent()


# A page's parts all name its moment, and reading one takes longer than finding a capture.
_moment = lru_cache(maxsize=256)(parse_timestamp14)


def _failure(error: WeboidError) -> Answer:
    """Return what a reader is told when a copy cannot be shown."""
    if isinstance(error, TransientError):
        _LOG.warning("replay.unavailable: %s", error)
        busy = notice(HTTPStatus.SERVICE_UNAVAILABLE, "Not now", "Try again in a moment.")
        if isinstance(error, OverloadedError):
            return replace(busy, headers=(("Retry-After", str(error.retry_after_s)),))
        return busy
    if isinstance(error, BodyTooLargeError):
        return missing(TOO_LARGE)
    if isinstance(error, MakingFailedError):
        return missing("This capture is too complex to be shown.")
    _LOG.warning("replay.record_unusable: %s", error)
    return missing("This capture cannot be read.")
