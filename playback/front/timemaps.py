"""TimeMaps: all mementos of a page, as lists for machines (RFC 7089, 5).

``/timemap/<form>/<url>`` comes in three forms: ``link`` is RFC 7089's own, ``json`` and ``cdxj`` are
those of the Memento aggregators. A long list comes in pages, ``/timemap/<form>/<number>/<url>``; the
address without a number is then an index of them (RFC 7089, 5.1.2). No answer holds more than a page.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from core.timestamps import parse_timestamp14
from playback.front.targets import archived_url, raw_rest
from playback.link_format import (
    LINK_FORMAT,
    Places,
    link,
    link_header,
    memento_date,
    memento_link,
    page_links,
)
from playback.mementos import Mementos, PageMemento

PAGE_SIZE = 1_000  # mementos
_NUMBERED = re.compile(r"([1-9]\d{0,5})/(.+)", re.ASCII | re.DOTALL)
_FRESH = {"Cache-Control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Part:
    """A page of a list.

    Attributes:
        number: its number, from 1.
        first: its oldest memento.
        last: its newest.
    """

    number: int
    first: PageMemento
    last: PageMemento


@dataclass(frozen=True, slots=True)
class TimeMap:
    """One list: of mementos, or of the parts of a longer one.

    Attributes:
        url: the original (URI-R).
        number: which part it is; None: it is everything there is, or the index.
        mementos: what it lists, oldest first.
        parts: what the index lists instead.
        is_first, is_last: whether it begins with the first memento of all, and ends with the last.
    """

    url: str
    number: int | None
    mementos: tuple[PageMemento, ...]
    parts: tuple[Part, ...] = ()
    is_first: bool = True
    is_last: bool = True

    @property
    def span(self) -> tuple[PageMemento, PageMemento]:
        """Its oldest and its newest memento."""
        if self.parts:
            return self.parts[0].first, self.parts[-1].last
        return self.mementos[0], self.mementos[-1]

    def listed(self) -> Iterator[tuple[PageMemento, list[str]]]:
        """Each memento with its roles."""
        newest = len(self.mementos) - 1
        for place, each in enumerate(self.mementos):
            roles = ["first"] if self.is_first and place == 0 else []
            yield each, [*roles, "last"] if self.is_last and place == newest else roles


def time_map(mementos: Mementos, url: str, number: int | None) -> TimeMap | None:
    """The list of a page's mementos, or a part of it; None when there is nothing to list."""
    found = mementos.listed(url)
    if number is not None:
        before = PAGE_SIZE * (number - 1)
        rows = tuple(islice(found, before, before + PAGE_SIZE + 1))
        is_last = len(rows) <= PAGE_SIZE
        part = rows[:PAGE_SIZE]
        return TimeMap(url, number, part, (), number == 1, is_last) if part else None
    rows = tuple(islice(found, PAGE_SIZE))
    parts: list[Part] = []
    chunk = rows
    while chunk:
        parts.append(Part(len(parts) + 1, chunk[0], chunk[-1]))
        chunk = tuple(islice(found, PAGE_SIZE))
    if not parts:
        return None
    return TimeMap(url, None, rows) if len(parts) == 1 else TimeMap(url, None, (), tuple(parts))


class TimeMaps:
    """``/timemap/<form>/[<number>/]<url>``."""

    def __init__(self, mementos: Mementos, places: Places) -> None:
        self._mementos = mementos
        self._places = places

    def answer(self, request: Request) -> Response:
        """The list in its form; 404 when there is no such list or nothing in it."""
        form, _, rest = raw_rest(request, 1).partition("/")
        numbered = _NUMBERED.fullmatch(rest)
        number = int(numbered[1]) if numbered else None
        url = archived_url(numbered[2] if numbered else rest)
        if form not in _FORMS or url is None:
            text = f"A TimeMap looks like /timemap/{{{','.join(_FORMS)}}}/https://example.org/."
            return PlainTextResponse(f"{text}\n", 404, _FRESH)
        links = page_links(self._places, url)
        found = time_map(self._mementos, url, number)
        if found is None:
            text = "This archive has no such list of copies of that page.\n"
            return PlainTextResponse(text, 404, {**_FRESH, "Link": link_header(links)})
        content_type, write = _FORMS[form]
        # No charset: link-format is UTF-8 by itself (RFC 6690, 7.3), and all of it is ASCII here.
        headers = {**_FRESH, "Content-Type": content_type, "Link": link_header(links)}
        return Response(write(found, self._places), headers=headers)


def _as_links(found: TimeMap, places: Places) -> bytes:
    oldest, newest = found.span
    me = places.timemap(found.url, page=found.number)
    lines = [
        link(found.url, "original"),
        link(places.timegate(found.url), "timegate"),
        link(me, "self", type=LINK_FORMAT, **_span(oldest, newest)),
    ]
    if not (found.is_first and found.is_last):
        lines.append(link(places.timemap(found.url), "timemap", type=LINK_FORMAT))
    lines += [
        link(
            places.timemap(found.url, page=each.number),
            "timemap",
            type=LINK_FORMAT,
            **_span(each.first, each.last),
        )
        for each in found.parts
    ]
    lines += [memento_link(places, each, *roles) for each, roles in found.listed()]
    return (",\n".join(lines) + "\n").encode()


def _span(oldest: PageMemento, newest: PageMemento) -> dict[str, str]:
    return {"from": memento_date(oldest), "until": memento_date(newest)}


def _about(found: TimeMap, places: Places) -> dict[str, object]:
    """What every list says of itself, under the aggregators' names."""
    return {
        "original_uri": found.url,
        "timegate_uri": places.timegate(found.url),
        "timemap_uri": {f"{name}_format": places.timemap(found.url, form=name) for name in _FORMS},
    }


def _parts(found: TimeMap, places: Places, form: str) -> list[dict[str, str]]:
    return [
        {
            "from": _iso(each.first),
            "until": _iso(each.last),
            "uri": places.timemap(found.url, form=form, page=each.number),
        }
        for each in found.parts
    ]


def _as_json(found: TimeMap, places: Places) -> bytes:
    about = {"self": places.timemap(found.url, form="json", page=found.number)}
    answer: dict[str, object] = {**_about(found, places), **about}
    if found.parts:
        answer["timemap_index"] = _parts(found, places, "json")
        return json.dumps(answer, indent=1).encode()
    listed = [{"datetime": _iso(each), "uri": places.memento(each)} for each in found.mementos]
    ends = {"first": listed[0]} if found.is_first else {}
    if found.is_last:
        ends = {**ends, "last": listed[-1]}
    answer["mementos"] = {"list": listed, **ends}
    if found.number is not None:
        answer["pages"] = _beside(found, places)
    return json.dumps(answer, indent=1).encode()


def _beside(found: TimeMap, places: Places) -> Mapping[str, object]:
    assert found.number is not None
    numbers = {
        **({} if found.is_first else {"prev": found.number - 1}),
        **({} if found.is_last else {"next": found.number + 1}),
    }
    return {
        name: {"uri": places.timemap(found.url, form="json", page=number)}
        for name, number in numbers.items()
    }


def _as_cdxj(found: TimeMap, places: Places) -> bytes:
    me = places.timemap(found.url, form="cdxj", page=found.number)
    lines = [
        '!context ["https://www.rfc-editor.org/rfc/rfc7089"]',
        f"!id {json.dumps({'uri': me})}",
        '!keys ["memento_datetime_YYYYMMDDhhmmss"]',
        *(f"!meta {json.dumps({name: value})}" for name, value in _about(found, places).items()),
    ]
    if found.parts:
        lines.append(f"!meta {json.dumps({'timemap_index': _parts(found, places, 'cdxj')})}")
    for each, roles in found.listed():
        about = {
            "uri": places.memento(each),
            "rel": " ".join((*roles, "memento")),
            "datetime": memento_date(each),
        }
        lines.append(f"{each.timestamp} {json.dumps(about)}")
    return ("\n".join(lines) + "\n").encode()


def _iso(memento: PageMemento) -> str:
    return f"{parse_timestamp14(memento.timestamp).isoformat(timespec='seconds')[:19]}Z"


_FORMS: dict[str, tuple[str, Callable[[TimeMap, Places], bytes]]] = {
    "link": (LINK_FORMAT, _as_links),
    "json": ("application/json", _as_json),
    "cdxj": ("application/cdxj+ors", _as_cdxj),
}
