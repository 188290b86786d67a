"""WSGI application of replay: a route per modifier, Memento headers, temporal drift.

Only pages that are usable copies carry Memento headers: not their parts, nor captures of errors or bot challenges. The
gate (`playback.replay.header_gate`) must wrap this application.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from html import unescape
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIEnvironment

from core import errors
from core.media_types import TOO_LARGE
from core.timestamps import parse_timestamp14
from playback import mementos
from playback.access.control import TakenDownError
from playback.access.holds import PayloadHold
from playback.replay import replay_context
from playback.replay.page_routes import PageRoutes
from playback.replay.resource_routes import PartRoutes
from playback.url_paths import LEVEL_MODIFIERS, Memento, MementoModifier, parse_memento_path

Route = Callable[[replay_context.Request], replay_context.ReplayResponse]

_SHOWN = {HTTPStatus.OK, HTTPStatus.NOT_MODIFIED}


def with_memento_headers(context: replay_context.ReplayContext, route: Route) -> Route:
    """Return the route with Memento headers on its pages."""
    places = mementos.MementoEndpoints(context.front, context.origin)
    index = mementos.MementoIndex(context.index, context.permits)

    def answer(request: replay_context.Request) -> replay_context.ReplayResponse:
        response = route(request)
        if response.status not in _SHOWN and response.status is not HTTPStatus.FOUND:
            return response
        url, timestamp = request.memento.url, request.memento.timestamp
        links = mementos.page_links(places, url)
        if response.status is HTTPStatus.FOUND:
            return replace(response, headers=(*response.headers, ("Link", mementos.link_header(links))))
        shown = mementos.PageMemento(url, timestamp)
        if not index.is_listed(shown):
            return replace(response, headers=(*_without_date(response), ("Link", mementos.link_header(links))))
        around = index.around(url, timestamp)
        headers = (
            # The page's time, as in its address, not that of the record that it is made from.
            ("Memento-Datetime", mementos.memento_date(shown)),
            ("Link", mementos.link_header(links, mementos.memento_links(places, shown, around))),
        )
        return replace(response, headers=(*_without_date(response), *headers))

    return answer


def _without_date(response: replay_context.ReplayResponse) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in response.headers if pair[0] != "Memento-Datetime")


_PART = re.compile(r"(?:/w/[^/\s\"'<>]{1,64})?/c/\d{14}(?:im|mk|cs|cp|fo)_/[^\s\"'<>]{1,30000}")
_SHEETS = {MementoModifier.STYLE, MementoModifier.PLAIN_STYLE}
_MOST_PARTS = 500
_MOST_SHEETS = 30


def drift_route(context: replay_context.ReplayContext, page_route: Route, style_route: Route) -> Route:
    """Return the route ``/c/<timestamp>sk_/<url>``: four numbers about a copy, one per line, for the front.

    The number of parts, of those from other visits than the page's, and their largest distance in seconds before and
    after it, by the addresses in the document as it is sent and in its style sheets.
    """

    def answer(request: replay_context.Request) -> replay_context.ReplayResponse:
        parts = [*addresses(request)]
        if not parts:
            return replay_context.absent()
        page = context.index.page(request.memento.url, request.at)
        own = page.page_id if page is not None else None
        shown, others = 0, list[timedelta]()
        for url in dict.fromkeys(each.url for each in parts[1:]):
            captures = context.index.captures(url, request.at, window=context.limits.window)
            if (capture := replay_context.first_playable(captures)) is None:
                continue
            shown += 1
            away = capture.captured_at.replace(microsecond=0) - request.at
            if away and (own is None or capture.page_id != own):
                others.append(away)
        seconds = [int(each.total_seconds()) for each in others]
        facts = {
            "shown": shown,
            "other": len(others),
            "earlier": max((-each for each in seconds if each < 0), default=0),
            "later": max((each for each in seconds if each > 0), default=0),
        }
        text = "".join(f"{name} {number}\n" for name, number in facts.items())
        return replay_context.ReplayResponse(HTTPStatus.OK, replay_context.TEXT, text.encode())

    def addresses(request: replay_context.Request) -> Iterator[Memento]:
        """Yield the address of the page and those of its parts; nothing when there is no document."""
        address = replace(request.memento, modifier=MementoModifier.PAGE)
        response = page_route(replace(request, memento=address, known_etags=""))
        if response.status is not HTTPStatus.OK or response.content_type != replay_context.HTML:
            return
        yield address
        waiting = [response.text]
        seen, sheets = set[Memento](), 0
        while waiting:
            for path in _PART.findall(unescape(waiting.pop())):
                part = parse_memento_path(path.rstrip(",)"))
                if part is None or part in seen or len(seen) == _MOST_PARTS:
                    continue
                seen.add(part)
                yield part
                if part.modifier in _SHEETS and sheets < _MOST_SHEETS:
                    sheets += 1
                    waiting.append(style_route(replace(request, memento=part, known_etags="")).text)

    return answer


_LOG = logging.getLogger(__name__)

# Not a page by itself: its reader sees the alternative text.
_PARTS = (
    MementoModifier.IMAGE,
    MementoModifier.MASK,
    MementoModifier.STYLE,
    MementoModifier.PLAIN_STYLE,
    MementoModifier.FONT,
    MementoModifier.MEDIA,
    MementoModifier.TEXT,
)

# No copy is ever for search engines (P-23).
ROBOTS = replay_context.ReplayResponse(HTTPStatus.OK, replay_context.TEXT, b"User-agent: *\nDisallow: /\n")


def _answering(route: Route) -> Route:
    """Return the route with the other answers that it may have instead."""

    def answer(request: replay_context.Request) -> replay_context.ReplayResponse:
        try:
            return route(request)
        except replay_context.OtherAnswerError as other:
            return other.answer

    return answer


def routes(context: replay_context.ReplayContext) -> Mapping[MementoModifier, Route]:
    """Return the route of each modifier."""
    pages, parts = PageRoutes(context), PartRoutes(context)
    page, style = _answering(pages.page), _answering(parts.style)
    return {
        MementoModifier.PAGE: with_memento_headers(context, page),
        MementoModifier.VERY: lambda request: replace(reply := pages.very_page(request), headers=_without_date(reply)),
        MementoModifier.IMAGE: parts.image,
        MementoModifier.MASK: parts.mask,
        MementoModifier.STYLE: style,
        MementoModifier.PLAIN_STYLE: style,
        MementoModifier.FONT: parts.font,
        MementoModifier.MEDIA: parts.media,
        MementoModifier.TEXT: parts.text,
        MementoModifier.FILE: pages.file,
        MementoModifier.SKEW: drift_route(context, page, style),
        **dict.fromkeys(LEVEL_MODIFIERS.values(), page),
    }


class Replay:
    """Application that dispatches to the routes and reports errors."""

    def __init__(self, context: replay_context.ReplayContext) -> None:
        self._context = context
        self._routes = routes(context)
        # Copies that a reader's browser keeps lead to the front, name fonts or not, and are as safe as what made them.
        digest = hashlib.sha256(f"{replay_context.maker_version()} {context.front} {context.has_fonts}".encode())
        self._made = digest.hexdigest()[:8]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        is_robots = environ.get("REQUEST_URI", "") == "/robots.txt"
        answer = ROBOTS if is_robots else self._answer(environ)
        status = f"{answer.status.value} {answer.status.phrase}"
        start_response(status, [("Content-Type", answer.content_type), *answer.headers])
        return [answer.body] if isinstance(answer.body, bytes) else answer.body

    def _answer(self, environ: WSGIEnvironment) -> replay_context.ReplayResponse:
        if (memento := parse_memento_path(environ.get("REQUEST_URI", ""))) is None:
            return replay_context.missing("There is nothing at this address.")
        try:
            request = replay_context.Request(
                memento,
                _moment(memento.timestamp),
                environ.get("HTTP_IF_NONE_MATCH", ""),
                range=environ.get("HTTP_RANGE", ""),
                if_range=environ.get("HTTP_IF_RANGE", ""),
                rules=f"{self._made}{self._context.permits.state_of_digests()}",
                destination=environ.get("HTTP_SEC_FETCH_DEST", ""),
            )
            return self._permitted(request)
        except errors.InputError:
            return replay_context.missing("This address has no timestamp.")
        except errors.BodyTooLargeError:
            return replay_context.missing(TOO_LARGE)
        except errors.MakingFailedError:
            return replay_context.missing("This capture is too complex to be shown.")
        except errors.PermanentError as error:
            _LOG.warning("replay.record_unusable: %s", error)
            return replay_context.missing("This capture cannot be read.")
        except errors.TransientError as error:
            _LOG.warning("replay.unavailable: %s", error)
            busy = replay_context.notice(HTTPStatus.SERVICE_UNAVAILABLE, "Not now", "Try again in a moment.")
            if isinstance(error, errors.OverloadedError):
                return replace(busy, headers=(("Retry-After", str(error.retry_after_s)),))
            return busy

    def _permitted(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Return the route's answer, or a notice when a take-down forbids it."""
        modifier = request.memento.modifier
        try:
            return self._routes[modifier](request)
        except replay_context.OtherAnswerError as other:
            return other.answer
        except TakenDownError as error:
            reason = error.takedown.reason
            if isinstance(error.takedown, PayloadHold):  # C-16
                if modifier in _PARTS:
                    return replay_context.absent()
                text = f"This copy cannot be downloaded. {reason}"
                return replay_context.notice(HTTPStatus.FORBIDDEN, "Held back", text)
            if error.is_disclosed:  # RFC 7725; the front is the blocking authority
                text = f"This copy is not shown, because its removal was requested. {reason}".rstrip()
                answer = replay_context.notice(HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS, "Taken down", text)
                return replace(answer, headers=(("Link", f'<{self._context.front}/>; rel="blocked-by"'),))
            if modifier in (MementoModifier.PAGE, MementoModifier.VERY, *LEVEL_MODIFIERS.values()):
                return replay_context.missing(replay_context.NEVER)
            return replay_context.absent()


# A page's parts all name its moment, and reading one takes longer than finding a capture.
_moment = lru_cache(maxsize=256)(parse_timestamp14)
