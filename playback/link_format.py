"""Links between a page and its mementos, as headers and TimeMaps write them (RFC 7089, RFC 8288).

URI-M, the address of a memento, is replay's: ``/c/<timestamp>/<url>``, the copy itself without a frame.
TimeGate and TimeMaps are the front's.

>>> places = Places("https://archive.example", "https://copies.example")
>>> places.timegate("https://example.org/a?b#!c")
'https://archive.example/timegate/https://example.org/a?b%23!c'
>>> link("https://example.org/", "original")
'<https://example.org/>; rel="original"'
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import quote

from core.timestamps import parse_timestamp14
from playback.addresses import Memento, Modifier, escape_url, memento_path
from playback.mementos import Neighbours, PageMemento

LINK_FORMAT = "application/link-format"
# RFC 3986, 2.2 and 2.3, and the percent sign of what is already encoded.
_URI = "!#$&'()*+,/:;=?@[]~%-._"
# Reverse proxies give an answer's head 4 or 8 kB; the other headers need two.
_MOST_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class Places:
    """The origins of front and replay, and what lies there."""

    front: str
    replay: str

    def timegate(self, url: str) -> str:
        """Where the memento nearest to a moment is asked for (URI-G)."""
        return f"{self.front}/timegate/{escape_url(url)}"

    def timemap(self, url: str, *, form: str = "link", page: int | None = None) -> str:
        """Where all mementos are listed (URI-T)."""
        number = "" if page is None else f"{page}/"
        return f"{self.front}/timemap/{form}/{number}{escape_url(url)}"

    def memento(self, memento: PageMemento) -> str:
        """The memento's address (URI-M)."""
        path = memento_path(Memento(memento.timestamp, Modifier.PAGE, memento.url))
        return self.replay + path


def http_date(moment: datetime) -> str:
    """The moment as HTTP writes it: ``Sun, 01 Mar 2026 12:00:00 GMT``."""
    return format_datetime(moment, usegmt=True)


def memento_date(memento: PageMemento) -> str:
    """The value of Memento-Datetime."""
    return http_date(parse_timestamp14(memento.timestamp))


def link(target: str, rel: str, **parameters: str) -> str:
    """One link; the target keeps every character that a URI may have."""
    more = "".join(f'; {name}="{value}"' for name, value in parameters.items() if value)
    return f'<{quote(target, safe=_URI, errors="replace")}>; rel="{rel}"{more}'


def page_links(places: Places, url: str) -> list[str]:
    """Those that do not depend on a moment: the original, its TimeGate and its TimeMap."""
    return [
        link(url, "original"),
        link(places.timegate(url), "timegate"),
        link(places.timemap(url), "timemap", type=LINK_FORMAT),
    ]


def memento_links(places: Places, shown: PageMemento, around: Neighbours) -> list[str]:
    """Those to the memento itself and to its neighbours; one link for each memento, the nearest first."""
    roles: dict[PageMemento, list[str]] = {shown: []}
    for role, each in (
        ("prev", around.previous),
        ("next", around.next),
        ("first", around.first),
        ("last", around.last),
    ):
        if each is not None:
            roles.setdefault(each, []).append(role)
    return [memento_link(places, each, *names) for each, names in roles.items()]


def memento_link(places: Places, memento: PageMemento, *roles: str) -> str:
    """The link to one memento; `roles` are first, prev, next and last, as they apply."""
    rel = " ".join((*roles, "memento"))
    return link(places.memento(memento), rel, datetime=memento_date(memento))


def link_header(needed: Iterable[str], more: Iterable[str] = ()) -> str:
    """The value of Link: all that is needed, and of the rest what a proxy's buffer has room for."""
    links = list(needed)
    room = _MOST_CHARACTERS - sum(map(len, links))
    for each in more:
        room -= len(each)
        if room < 0:
            break
        links.append(each)
    return ", ".join(links)
