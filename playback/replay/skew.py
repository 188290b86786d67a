"""How far the parts of a copy are from its moment (P-10).

A page's own records share its `page_id` and are of its moment, however long the visit took. Any other
part is shown from another visit, and its distance is the copy's skew. What counts is what the copy shows:
the addresses in the document as it is handed out, and in its style sheets.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from http import HTTPStatus

from playback.addresses import Memento, Modifier, parse_memento_path
from playback.replay.answers import HTML, TEXT, Answer, Request, absent
from playback.replay.context import Context, first_playable
from playback.replay.mementos import Route

_PART = re.compile(r"(?:/w/[^/\s\"'<>]{1,64})?/c/\d{14}(?:im|mk|cs|cp|fo)_/[^\s\"'<>]{1,30000}")
_SHEETS = {Modifier.STYLE, Modifier.PLAIN_STYLE}
_MOST_PARTS = 500
_MOST_SHEETS = 30


class Skews:
    """``/c/<timestamp>sk_/<url>``: four numbers about a copy, a line each, for the front."""

    def __init__(self, context: Context, page: Route, style: Route) -> None:
        """Take the routes that make documents and style sheets."""
        self._context = context
        self._page = page
        self._style = style

    def answer(self, request: Request) -> Answer:
        """How many parts are shown, how many of them come from another visit, and how far away.

        That is, how many seconds before and after the page these were captured at most.
        """
        parts = [*self._parts(request)]
        if not parts:
            return absent()
        page = self._context.index.page(request.memento.url, request.at)
        own = page.page_id if page is not None else None
        shown, others = 0, list[timedelta]()
        for url in dict.fromkeys(each.url for each in parts[1:]):
            captures = self._context.index.captures(
                url, request.at, window=self._context.limits.window
            )
            capture = first_playable(captures)
            if capture is None:
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
        return Answer(HTTPStatus.OK, TEXT, text.encode())

    def _parts(self, request: Request) -> Iterator[Memento]:
        """The page's address and those of its parts; nothing when there is no document."""
        address = replace(request.memento, modifier=Modifier.PAGE)
        made = self._page(replace(request, memento=address, known_etags=""))
        if made.status is not HTTPStatus.OK or made.content_type != HTML:
            return
        yield address
        waiting = [made.text]
        seen, sheets = set[Memento](), 0
        while waiting:
            for part in _addresses(waiting.pop()):
                if part in seen or len(seen) == _MOST_PARTS:
                    continue
                seen.add(part)
                yield part
                if part.modifier in _SHEETS and sheets < _MOST_SHEETS:
                    sheets += 1
                    sheet = self._style(replace(request, memento=part, known_etags=""))
                    waiting.append(sheet.text)


def _addresses(text: str) -> Iterator[Memento]:
    """The addresses of parts that a document or a style sheet names."""
    for found in _PART.findall(unescape(text)):
        part = parse_memento_path(found.rstrip(",)"))
        if part is not None:
            yield part
