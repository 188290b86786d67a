"""Reader requests to check pages that are not observed.

A request does not start the observation: the wiki's synchronisation reads the page once a day at most. The links of a
page that fails the criteria are not watched, and stored until the next such day, to show known facts about them. A
page is identified by its number, or by its title where only that is known. The queue is bounded.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, LargeBinary, delete, false, func, select, true, update

from links.registry.pages import MAX_PAGE_ID, plain_title
from links.registry.schema import asked_pages
from links.registry.statements import Reader, SqlStatement, batches, insert_missing, many, one
from links.url_parts import KEY_BYTES

MOST_OF_WIKI = 1_000
MOST_LINKS = 5_000  # of one page
_TABLE = asked_pages.c
_OF_PAGE = (_TABLE.wiki_id == one("wiki")) & (_TABLE.page_id == one("of")) & (_TABLE.title == one("called"))
OF_WIKI = SqlStatement(
    select(_TABLE.page_id, _TABLE.title, _TABLE.day, _TABLE.is_done).where(_TABLE.wiki_id == one("wiki"))
)
WAITING = SqlStatement(
    select(_TABLE.page_id, _TABLE.title)
    .where(_TABLE.wiki_id == one("wiki"), _TABLE.is_done == false())
    .order_by(_TABLE.day, _TABLE.page_id, _TABLE.title)
    .limit(one("most"))
)
ASK_AGAIN = SqlStatement(update(asked_pages).where(_OF_PAGE).values(day=one("today"), is_done=false()))
SET_DONE = SqlStatement(
    update(asked_pages).where(_OF_PAGE).values(is_done=true(), day=one("today"), links=one("keys", LargeBinary()))
)
FIND_ASKED = SqlStatement(
    select(_TABLE.page_id, _TABLE.title, _TABLE.day, _TABLE.is_done, _TABLE.links).where(
        _TABLE.wiki_id == one("wiki"), _TABLE.page_id.in_(many("ids")), _TABLE.title.in_(many("titles"))
    ),
    *("ids", "titles"),
)
COUNT_OF_WIKI = SqlStatement(select(func.count()).select_from(asked_pages).where(_TABLE.wiki_id == one("wiki")))
FORGET_READ = SqlStatement(
    delete(asked_pages).where(_TABLE.wiki_id == one("wiki"), _TABLE.is_done == true(), _TABLE.day < one("today"))
)


class RequestedPage(NamedTuple):
    """Requested page, by its number, else (0) by its title."""

    page_id: int
    title: str


class RequestState(StrEnum):
    """State of the request to read a page that is not observed."""

    QUEUED = "queued"  # it waits for the feeder
    DONE = "done"  # the feeder read it, and the wiki's criteria leave it out
    REFUSED = "refused"  # too many wait


class PageRequestFacts(NamedTuple):
    """Stored facts about a requested page."""

    state: RequestState  # of the request to read it
    read_day: int | None = None  # day of the last reading; None: not yet
    keys: tuple[bytes, ...] = ()  # of the URLs that it had then (`links.url_parts.key_of`)


def find_page_requests(
    reader: Reader, wiki_id: int, page_ids: Iterable[int] = (), titles: Iterable[str] = ()
) -> dict[RequestedPage, PageRequestFacts]:
    """Return the stored facts about these pages, none of which is observed.

    A page without a request is reported as queued while there is room: the caller then requests it.
    """
    wanted = _named(page_ids, titles)
    found: dict[RequestedPage, PageRequestFacts] = {}
    for batch in batches(wanted):
        parameters = {"ids": [each.page_id for each in batch], "titles": [each.title for each in batch]}
        for page_id, title, day, is_done, links in FIND_ASKED.rows(reader, {"wiki": wiki_id, **parameters}):
            state = RequestState.DONE if is_done else RequestState.QUEUED
            packed = bytes(links or b"")
            starts = range(0, len(packed), KEY_BYTES)
            keys = tuple(packed[at : at + KEY_BYTES] for at in starts)
            found[RequestedPage(page_id, title)] = PageRequestFacts(state, day if is_done else None, keys)
    left = [each for each in wanted if each not in found]
    if left:
        room = MOST_OF_WIKI - COUNT_OF_WIKI.rows(reader, {"wiki": wiki_id})[0][0]
        for place, each in enumerate(left):
            state = RequestState.QUEUED if place < room else RequestState.REFUSED
            found[each] = PageRequestFacts(state)
    return {each: found[each] for each in wanted}


def put_page_requests(
    connection: Connection, wiki_id: int, page_ids: Iterable[int] = (), titles: Iterable[str] = (), *, day: int
) -> int:
    """Record requests up to `MOST_OF_WIKI` for the wiki's synchronisation; return how many are new today."""
    wanted = _named(page_ids, titles)
    there = _states(connection, wiki_id)
    again = [each for each in wanted if each in there and _is_over(*there[each], day)]
    new = [each for each in wanted if each not in there][: max(MOST_OF_WIKI - len(there), 0)]
    ASK_AGAIN.run(connection, [_values(wiki_id, each) | {"today": day} for each in again])
    facts = [{"wiki_id": wiki_id, **each._asdict(), "day": day} for each in new]
    insert_missing(connection, asked_pages, facts)
    return len(again) + len(new)


def are_requested(
    connection: Connection, wiki_id: int, page_ids: Iterable[int], titles: Iterable[str], *, day: int
) -> bool:
    """Return True when all of these pages are recorded today."""
    wanted = _named(page_ids, titles)
    there = _states(connection, wiki_id)
    noted = {page for page, state in there.items() if not _is_over(*state, day)}
    return noted.issuperset(wanted) or len(there) >= MOST_OF_WIKI


def waiting_pages(connection: Connection, wiki_id: int, *, limit: int) -> list[RequestedPage]:
    """Return pages that have not been read yet, longest waiting first."""
    return [RequestedPage(*row) for row in WAITING.rows(connection, {"wiki": wiki_id, "most": limit})]


def finish_page_requests(
    connection: Connection,
    wiki_id: int,
    read: Iterable[RequestedPage],
    *,
    day: int,
    keys: Mapping[RequestedPage, Iterable[bytes]] = MappingProxyType({}),
) -> None:
    """Record the pages read today, with `keys` of the URLs of those that are not to be observed."""
    rows = [
        {
            **_values(wiki_id, each),
            "today": day,
            "keys": b"".join(list(dict.fromkeys(keys.get(each, ())))[:MOST_LINKS]) or None,
        }
        for each in read
    ]
    SET_DONE.run(connection, rows)
    FORGET_READ.run(connection, {"wiki": wiki_id, "today": day})


def _named(page_ids: Iterable[int], titles: Iterable[str]) -> list[RequestedPage]:
    numbered = [RequestedPage(each, "") for each in page_ids if 0 < each <= MAX_PAGE_ID]
    titled = [RequestedPage(0, title) for each in titles if (title := plain_title(each))]
    return list(dict.fromkeys([*numbered, *titled]))


def _states(connection: Connection, wiki_id: int) -> dict[RequestedPage, tuple[int, bool]]:
    """Return (day, read) of each requested page of the wiki."""
    rows = OF_WIKI.rows(connection, {"wiki": wiki_id})
    return {RequestedPage(page_id, title): (day, bool(done)) for page_id, title, day, done in rows}


def _is_over(asked_day: int, is_done: bool, day: int) -> bool:  # noqa: FBT001 a row's columns
    return is_done and asked_day < day


def _values(wiki_id: int, page: RequestedPage) -> dict[str, Any]:
    return {"wiki": wiki_id, "of": page.page_id, "called": page.title}
