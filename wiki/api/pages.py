"""Pages of a wiki as they are now, lists of pages, and a page's history.

    pages = await read_pages(api, page_ids=[7, 9], with_text=True)   # in that order, one each
    async for part in all_pages(api, 0, start): …                    # part.go_on: the next start

What is asked for together comes in several answers that continue each other; it is whole here, or an
error. Nothing is followed: a redirect is a page of its own, with the few links that it has.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.errors import BodyTooLargeError
from wiki.api.client import Api, Value
from wiki.api.facts import SiteFacts, WikiPage
from wiki.api.values import a_bool, a_count, a_moment, a_text, listed, query_of, rows_of
from wiki.settings import FeedSettings

AT_ONCE: Final = 50  # titles or page ids in one question; 500 for accounts with high limits
AT_ONCE_HIGH: Final = 500
LINKS_MOST: Final = 200_000  # of one page
PARTS_MOST: Final = 2_000  # answers to one question


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page, without what is on it."""

    page_id: int
    namespace: int
    title: str


@dataclass(frozen=True)
class PageList:
    """A part of a list of pages.

    Attributes:
        pages: in the wiki's order.
        go_on: what to give as `start` to have the parts after this one; empty: this is the last.
    """

    pages: tuple[PageRef, ...]
    go_on: str = ""


@dataclass
class _Draft:
    """A page that is put together from several answers."""

    facts: dict[str, Any] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)
    interwikis: dict[tuple[str, str], None] = field(default_factory=dict)
    categories: dict[str, None] = field(default_factory=dict)
    templates: dict[str, None] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Take what one answer has of it."""
        for name, value in row.items():
            if name not in {"extlinks", "iwlinks", "categories", "templates"}:
                self.facts.setdefault(name, value)
        self.links.update((a_text(each, "url", "*"), None) for each in rows_of(row, "extlinks"))
        self.interwikis.update(
            ((a_text(each, "prefix"), a_text(each, "title", "*")), None)
            for each in rows_of(row, "iwlinks")
        )
        self.categories.update((a_text(each, "title"), None) for each in rows_of(row, "categories"))
        self.templates.update((a_text(each, "title"), None) for each in rows_of(row, "templates"))
        if len(self.links) > LINKS_MOST:
            raise BodyTooLargeError(f"A page has more than {LINKS_MOST:,} links.")


async def read_pages(  # noqa: PLR0913 what is read of them
    api: Api,
    *,
    page_ids: Sequence[int] = (),
    titles: Sequence[str] = (),
    with_text: bool = False,
    with_categories: bool = False,
    with_templates: bool = False,
    with_item: bool = False,
) -> list[WikiPage]:
    """The pages as they are now: by their numbers, or by their titles.

    Args:
        api: the wiki's.
        page_ids: whose pages; a page that is gone is told as missing, with its number.
        titles: or these; at most one of the two.
        with_text: their wikitext, too.
        with_categories: their categories, too.
        with_templates: the templates that they use, too.
        with_item: their Wikidata items, too.

    Returns:
        One for each that was asked for, in that order.

    Raises:
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`.
        BodyTooLargeError: one page is more than an answer may be.
    """
    assert not (page_ids and titles), "either numbers or titles"
    props = ["info", "revisions", "extlinks", "iwlinks"]
    params: dict[str, Value] = {
        "action": "query",
        "ellimit": "max",
        "iwlimit": "max",
        "rvprop": "ids|timestamp|user|content" if with_text else "ids|timestamp|user",
        "rvslots": "main" if with_text else None,
    }
    if with_categories:
        props.append("categories")
        params["cllimit"] = "max"
    if with_templates:
        props.append("templates")
        params["tllimit"] = "max"
    if with_item:
        props.append("pageprops")
        params["ppprop"] = "wikibase_item"
    params["prop"] = props
    by = "pageids" if page_ids else "titles"
    asked: list[str] = [str(each) for each in page_ids or titles]
    at_once = AT_ONCE if with_text else await titles_at_once(api)
    found: dict[str, WikiPage] = {}
    for some in listed(list(dict.fromkeys(asked)), at_once):
        found.update(await _read_some(api, by, some, params))
    return [_shaped(found.get(each) or _missing(by, each), props) for each in asked]


async def missing_titles(api: Api, titles: Sequence[str]) -> frozenset[str]:
    """Return those of the titles that have no page, as they were given.

    A file that the wiki shows from a shared repository is there; so is what another wiki has to say of.

    Raises:
        as `read_pages`.
    """
    found: set[str] = set()
    for some in listed(list(dict.fromkeys(titles)), AT_ONCE):
        query = query_of(await api.get(action="query", titles=some))
        names = {a_text(each, "from"): a_text(each, "to") for each in rows_of(query, "normalized")}
        missing = {
            a_text(row, "title")
            for row in rows_of(query, "pages")
            if a_bool(row, "missing") and not a_bool(row, "known")
        }
        found.update(each for each in some if names.get(each, each) in missing)
    return frozenset(found)


async def titles_at_once(api: Api) -> int:
    """How many titles one question may have: accounts with high limits may ask for more."""
    if api.account.is_anybody and await api.has_right("apihighlimits"):
        return AT_ONCE_HIGH
    return AT_ONCE


async def _read_some(
    api: Api, by: str, asked: list[str], params: Mapping[str, Value]
) -> dict[str, WikiPage]:
    """The pages under what was asked for; halves of the question when the answer is too large."""
    try:
        return await _read_batch(api, by, asked, params)
    except BodyTooLargeError:
        if len(asked) == 1:
            raise
    middle = len(asked) // 2
    found = await _read_some(api, by, asked[:middle], params)
    found.update(await _read_some(api, by, asked[middle:], params))
    return found


async def _read_batch(
    api: Api, by: str, asked: list[str], params: Mapping[str, Value]
) -> dict[str, WikiPage]:
    drafts: dict[str, _Draft] = {}
    names: dict[str, str] = {}  # as asked for -> as the wiki writes it
    async for told in api.query(PARTS_MOST, **{**params, by: asked}):
        query = query_of(told)
        for each in rows_of(query, "normalized"):
            names[a_text(each, "from")] = a_text(each, "to")
        for each in rows_of(query, "interwiki"):
            names.setdefault(a_text(each, "title"), "")
        for row in rows_of(query, "pages"):
            key = str(a_count(row, "pageid")) if by == "pageids" else a_text(row, "title")
            drafts.setdefault(key, _Draft()).add(row)
    told_of = ((each, drafts.get(names.get(each, each))) for each in asked)
    return {each: page_of(draft) for each, draft in told_of if draft is not None}


def page_of(draft: _Draft) -> WikiPage:
    """The page that was put together."""
    row = draft.facts
    revisions = rows_of(row, "revisions")
    newest: Mapping[str, Any] = revisions[0] if revisions else {}
    made = newest.get("timestamp")
    is_missing = any(a_bool(row, name) for name in ("missing", "invalid", "special"))
    return WikiPage(
        page_id=a_count(row, "pageid"),
        title=a_text(row, "title"),
        namespace=a_count(row, "ns"),
        is_missing=is_missing,
        is_redirect=a_bool(row, "redirect"),
        rev_id=a_count(newest, "revid") or a_count(row, "lastrevid"),
        touched=a_moment(made) if made is not None else None,
        model=a_text(row, "contentmodel") or "wikitext",
        links=tuple(each for each in draft.links if each),
        interwiki_links=tuple(each for each in draft.interwikis if each[0]),
        categories=tuple(draft.categories),
        templates=tuple(draft.templates),
        text=text_of(newest),
        item=_item_of(row),
        parent_id=a_count(newest, "parentid") if "parentid" in newest else None,
        account=a_text(newest, "user"),
    )


def _item_of(row: Mapping[str, Any]) -> str:
    """The page's Wikidata item, as Wikibase notes it; empty without one."""
    found = row.get("pageprops")
    return a_text(found, "wikibase_item") if isinstance(found, dict) else ""


def text_of(revision: Mapping[str, Any]) -> str | None:
    """A revision's text, in whichever form; None when it was not asked for, or is hidden."""
    slots = revision.get("slots")
    main = slots.get("main") if isinstance(slots, dict) else None
    for place in (main, revision):
        if isinstance(place, dict):
            for name in ("content", "*"):
                value = place.get(name)
                if isinstance(value, str):
                    return value
    return None


def _shaped(page: WikiPage, props: Collection[str]) -> WikiPage:
    """The page, with None for what was not asked for."""
    return replace(
        page,
        categories=page.categories if "categories" in props else None,
        templates=page.templates if "templates" in props else None,
        item=page.item if "pageprops" in props else None,
    )


def _missing(by: str, asked: str) -> WikiPage:
    """What stands for something that the wiki did not speak of, such as a title of another wiki."""
    if by == "pageids":
        return WikiPage(int(asked), "", 0, is_missing=True)
    return WikiPage(0, asked, 0, is_missing=True)


async def all_pages(
    api: Api, namespace: int, start: str = "", *, with_redirects: bool = True
) -> AsyncIterator[PageList]:
    """All pages of a namespace in the order of their titles, a part for each answer (B01).

    Args:
        api: the wiki's.
        namespace: its number.
        start: a `PageList.go_on` of before: from there on; empty: all.
        with_redirects: those that are redirects, too.
    """
    params: dict[str, Value] = {
        "list": "allpages",
        "apnamespace": namespace,
        "aplimit": "max",
        "apfilterredir": "all" if with_redirects else "nonredirects",
        "apfrom": start or None,
    }
    async for part in _parts(api, "allpages", "apcontinue", params):
        yield part


async def _parts(
    api: Api, name: str, key: str, params: Mapping[str, Value]
) -> AsyncIterator[PageList]:
    async for told in api.query(**params):
        pages = tuple(_ref(row) for row in rows_of(query_of(told), name))
        further = told.get("continue")
        go_on = a_text(further, key) if isinstance(further, dict) else ""
        yield PageList(pages, go_on)


def _ref(row: Mapping[str, Any]) -> PageRef:
    return PageRef(a_count(row, "pageid"), a_count(row, "ns"), a_text(row, "title"))


async def unknown_names(api: Api, facts: SiteFacts, feed: FeedSettings) -> list[str]:
    """The categories and templates in the settings that the wiki does not have: they may be misspelt.

    A category may have members and no page; it is known then.
    """
    wanted = {
        **{facts.title_in(each, 14): None for each in (*feed.categories, *feed.not_categories)},
        **{facts.title_in(each, 10, 828): None for each in (*feed.templates, *feed.not_templates)},
    }
    unknown: list[str] = []
    for titles in listed(list(wanted), AT_ONCE):
        told = await api.get(action="query", prop="categoryinfo", titles=titles)
        unknown.extend(
            a_text(row, "title")
            for row in rows_of(query_of(told), "pages")
            if a_bool(row, "missing") and not _has_members(row)
        )
    return unknown


def _has_members(row: Mapping[str, Any]) -> bool:
    found = row.get("categoryinfo")
    return isinstance(found, dict) and a_count(found, "size") > 0
