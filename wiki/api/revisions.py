"""A page as it is, its newest revision and its history, as a wiki's API tells: what an edit needs to know."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from core.http_dates import parse_web_date
from wiki.api.client import Api
from wiki.api.errors import WikiRefusedError
from wiki.api.facts import Revision

AT_ONCE: Final = 50  # pages in one question, for accounts without higher limits
HISTORY_LIMIT: Final = 500  # revisions after an edit that are looked at
COMMENT_LIMIT: Final = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageNow:
    """A page as it is read right before it is edited.

    Attributes:
        rev_id: the newest revision; 0 when there is no such page.
        made: when that was made, as the wiki writes it.
        asked: when the wiki answered, as it writes it.
    """

    page_id: int
    title: str
    namespace: int
    rev_id: int
    made: str
    asked: str
    text: str
    model: str = "wikitext"
    is_redirect: bool = False
    talk_title: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether there is no such page."""
        return not self.rev_id


@dataclass(frozen=True, slots=True)
class Head:
    """The newest revision of a page, and how the page is called; `rev_id` 0: it is missing."""

    page_id: int
    rev_id: int
    title: str = ""
    namespace: int = 0
    is_redirect: bool = False


async def read_now(api: Api, page_id: int) -> PageNow:
    """The page with its text, as it is now.

    Raises:
        WikiAwayError: there is no answer, or none that says anything.
    """
    told = await api.get(
        action="query",
        pageids=str(page_id),
        prop="info|revisions",
        inprop="associatedpage",
        rvprop="ids|timestamp|content|contentmodel",
        rvslots="main",
        curtimestamp="1",
    )
    page = _page_in(told)
    revision = _revision_in(page)
    slot = dict_of(dict_of(revision.get("slots")).get("main")) or revision
    text = slot.get("content")
    is_there = not page.get("missing") and not page.get("invalid") and isinstance(text, str)
    return PageNow(
        page_id,
        str(page.get("title") or ""),
        int_of(page.get("ns")),
        int_of(revision.get("revid")) if is_there else 0,
        str(revision.get("timestamp") or ""),
        str(told.get("curtimestamp") or ""),
        text if isinstance(text, str) else "",
        str(slot.get("contentmodel") or "wikitext"),
        bool(page.get("redirect")),
        str(page.get("associatedpage") or ""),
    )


async def read_text(api: Api, title: str) -> str | None:
    """The text of a page by its title; None when there is none."""
    told = await api.get(
        action="query", titles=title, prop="revisions", rvprop="content", rvslots="main"
    )
    page = _page_in(told)
    revision = _revision_in(page)
    slot = dict_of(dict_of(revision.get("slots")).get("main")) or revision
    text = slot.get("content")
    return text if isinstance(text, str) else None


async def existing(api: Api, titles: Iterable[str]) -> frozenset[str]:
    """Those of the titles, as they are given, of which there is a page.

    A page that is a redirect counts: a template that leads to another one works.
    """
    found: set[str] = set()
    for batch in _batches(titles):
        told = await api.get(action="query", titles=batch, prop="info")
        names = {
            str(each.get("from")): str(each.get("to"))
            for each in list_of(dict_of(told.get("query")).get("normalized"))
            if isinstance(each, dict)
        }
        there = {str(page.get("title")) for page in _pages(told) if int_of(page.get("pageid"))}
        found.update(title for title in batch if names.get(title, title) in there)
    return frozenset(found)


async def heads(api: Api, page_ids: Iterable[int]) -> dict[int, Head]:
    """The newest revision of each page; those that are gone, too."""
    found: dict[int, Head] = {}
    for batch in _batches(page_ids):
        told = await api.get(action="query", pageids="|".join(map(str, batch)), prop="info")
        for page in _pages(told):
            number = int_of(page.get("pageid"))
            is_there = bool(number) and not page.get("missing")
            found[number] = Head(
                number,
                int_of(page.get("lastrevid")) if is_there else 0,
                str(page.get("title") or ""),
                int_of(page.get("ns")),
                bool(page.get("redirect")),
            )
    return found


async def history_after(
    api: Api, page_id: int, rev_id: int, *, limit: int = HISTORY_LIMIT
) -> tuple[Revision, ...]:
    """The revision and those after it, the oldest first, without their texts; () when it is gone.

    A page whose revision was deleted, or imported over, has no answer: nothing can be said of it.
    """
    found: list[Revision] = []
    goes_on: dict[str, Any] = {}
    while len(found) < limit:
        try:
            told = await api.get(
                action="query",
                pageids=str(page_id),
                prop="revisions",
                rvprop="ids|timestamp|user|comment|sha1|tags",
                rvstartid=str(rev_id),
                rvdir="newer",
                rvlimit=str(min(limit, HISTORY_LIMIT)),
                **goes_on,
            )
        except WikiRefusedError:
            return tuple(found)
        page = _page_in(told)
        found += map(_revision, list_of(page.get("revisions")))
        more = {key: str(value) for key, value in dict_of(told.get("continue")).items()}
        if not more or more == goes_on:
            break
        goes_on = more
    return tuple(found[:limit])


async def earlier_digests(
    api: Api, page_id: int, rev_id: int, *, limit: int = AT_ONCE
) -> frozenset[str]:
    """SHA-1 of the revision's text and of those before it; without those that are hidden."""
    try:
        told = await api.get(
            action="query",
            pageids=str(page_id),
            prop="revisions",
            rvprop="ids|sha1",
            rvstartid=str(rev_id),
            rvdir="older",
            rvlimit=str(limit),
        )
    except WikiRefusedError:
        return frozenset()
    page = _page_in(told)
    found = (str(each.get("sha1") or "") for each in list_of(page.get("revisions")))
    return frozenset(filter(None, found))


async def text_of(api: Api, rev_id: int) -> str | None:
    """The text of a revision; None when it is hidden or gone."""
    told = await api.get(
        action="query",
        revids=str(rev_id),
        prop="revisions",
        rvprop="ids|content",
        rvslots="main",
    )
    page = _page_in(told)
    revision = _revision_in(page)
    text = dict_of(dict_of(revision.get("slots")).get("main")).get("content")
    return text if isinstance(text, str) else None


def _revision(found: Mapping[str, Any]) -> Revision:
    moment = parse_web_date(str(found.get("timestamp"))) or datetime.fromtimestamp(0, UTC)
    return Revision(
        int_of(found.get("revid")),
        int_of(found.get("parentid")),
        moment,
        str(found.get("user") or ""),
        str(found.get("comment") or "")[:COMMENT_LIMIT],
        str(found.get("sha1") or ""),
        tuple(map(str, list_of(found.get("tags")))),
    )


def _page_in(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first page of an answer."""
    return next(iter(_pages(told)), {})


def _revision_in(page: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first revision of a page in an answer."""
    return next((each for each in list_of(page.get("revisions")) if isinstance(each, dict)), {})


def _pages(told: Mapping[str, Any]) -> list[Any]:
    return [
        each for each in list_of(dict_of(told.get("query")).get("pages")) if isinstance(each, dict)
    ]


def dict_of(value: Any) -> Mapping[str, Any]:
    """The value, when it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """The value, when it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def int_of(value: Any) -> int:
    """The value, when it is a number; else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _batches(wanted: Iterable[T]) -> Iterator[Sequence[T]]:
    each = list(dict.fromkeys(wanted))
    for start in range(0, len(each), AT_ONCE):
        yield each[start : start + AT_ONCE]
