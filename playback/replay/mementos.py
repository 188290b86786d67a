"""What a copy says of itself to machines: that it is a memento, and where its neighbours are (RFC 7089).

Only pages say so, and only those that are usable copies: what a page is made of is no memento by itself,
and a capture of an error or of a check for robots is none at all.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from playback.link_format import Places, link_header, memento_date, memento_links, page_links
from playback.mementos import Mementos, PageMemento
from playback.replay.answers import Answer, Request
from playback.replay.context import Context

Route = Callable[[Request], Answer]

_SHOWN = {HTTPStatus.OK, HTTPStatus.NOT_MODIFIED}


def as_memento(context: Context, route: Route) -> Route:
    """The route, whose pages say which mementos they are."""
    places = Places(context.front, context.origin)
    mementos = Mementos(context.index, context.permits)

    def answer(request: Request) -> Answer:
        made = route(request)
        if made.status not in _SHOWN and made.status is not HTTPStatus.FOUND:
            return made
        url, timestamp = request.memento.url, request.memento.timestamp
        links = page_links(places, url)
        if made.status is HTTPStatus.FOUND:
            return replace(made, headers=(*made.headers, ("Link", link_header(links))))
        shown = PageMemento(url, timestamp)
        if not mementos.is_listed(shown):
            return replace(made, headers=(*_without_date(made), ("Link", link_header(links))))
        around = mementos.around(url, timestamp)
        said = (
            # The page's moment, which its address names, not that of the record it is made from.
            ("Memento-Datetime", memento_date(shown)),
            ("Link", link_header(links, memento_links(places, shown, around))),
        )
        return replace(made, headers=(*_without_date(made), *said))

    return answer


def as_none(route: Route) -> Route:
    """The route, whose answers are no mementos."""

    def answer(request: Request) -> Answer:
        made = route(request)
        return replace(made, headers=_without_date(made))

    return answer


def _without_date(made: Answer) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in made.headers if pair[0] != "Memento-Datetime")
