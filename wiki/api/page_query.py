"""Queries for current pages: links, categories, templates, text, and missing names.

    pages = await read_pages(api, page_ids=[7, 9], with_text=True)   # in that order, one each

Continued answers are merged: a result is complete, or an error is raised. Redirects are not followed:
a redirect is a page of its own, with its few links.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.errors import BodyTooLargeError
from wiki.api.client import ParamValue, WikiApi
from wiki.api.models import (
    PAGES_AT_ONCE,
    SiteFacts,
    WikiPage,
    bool_field,
    count_field,
    json_rows,
    normalized_titles,
    object_field,
    parse_moment,
    query_result,
    split_batches,
    text_field,
)
from wiki.settings import FeedSettings

PAGES_AT_ONCE_HIGH: Final = 500
PAGE_LINKS_LIMIT: Final = 200_000  # of one page
PAGE_PARTS_LIMIT: Final = 2_000  # answers to one question


@dataclass
class _PageBuilder:
    """Accumulator for a page that comes in several answers."""

    facts: dict[str, Any] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)
    interwikis: dict[tuple[str, str], None] = field(default_factory=dict)
    categories: dict[str, None] = field(default_factory=dict)
    templates: dict[str, None] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the page's part of one answer."""
        for name, value in row.items():
            if name not in {"extlinks", "iwlinks", "categories", "templates"}:
                self.facts.setdefault(name, value)
        for each in json_rows(row, "extlinks"):
            self.links[text_field(each, "url", "*")] = None
        for each in json_rows(row, "iwlinks"):
            self.interwikis[text_field(each, "prefix"), text_field(each, "title", "*")] = None
        for name, titles in (("categories", self.categories), ("templates", self.templates)):
            titles.update((text_field(each, "title"), None) for each in json_rows(row, name))
        if len(self.links) > PAGE_LINKS_LIMIT:
            raise BodyTooLargeError(f"A page has more than {PAGE_LINKS_LIMIT:,} links.")

    def page(self, props: Collection[str]) -> WikiPage:
        """Build the page, with None for properties that were not requested."""
        row = self.facts
        newest = next(iter(json_rows(row, "revisions")), {})
        made = newest.get("timestamp")
        is_missing = any(bool_field(row, name) for name in ("missing", "invalid", "special"))
        return WikiPage(
            page_id=count_field(row, "pageid"),
            title=text_field(row, "title"),
            namespace=count_field(row, "ns"),
            is_missing=is_missing,
            is_redirect=bool_field(row, "redirect"),
            rev_id=count_field(newest, "revid") or count_field(row, "lastrevid"),
            touched=parse_moment(made) if made is not None else None,
            model=text_field(row, "contentmodel") or "wikitext",
            links=tuple(each for each in self.links if each),
            interwiki_links=tuple(each for each in self.interwikis if each[0]),
            categories=tuple(self.categories) if "categories" in props else None,
            templates=tuple(self.templates) if "templates" in props else None,
            text=revision_content(newest),
            item=text_field(object_field(row, "pageprops"), "wikibase_item")
            if "pageprops" in props
            else None,
            parent_id=count_field(newest, "parentid") if "parentid" in newest else None,
            account=text_field(newest, "user"),
        )


async def read_pages(  # noqa: PLR0913 what is read of them
    api: WikiApi,
    *,
    page_ids: Sequence[int] = (),
    titles: Sequence[str] = (),
    with_text: bool = False,
    with_categories: bool = False,
    with_templates: bool = False,
    with_item: bool = False,
) -> list[WikiPage]:
    """Return the current state of pages, by page id or by title, in that order.

    A deleted page is returned as missing, with its id.
    Raises the errors of `WikiApi.get`; BodyTooLargeError: one page exceeds the answer's size limit.
    """
    assert not (page_ids and titles), "either numbers or titles"
    props = ["info", "revisions", "extlinks", "iwlinks"]
    params: dict[str, ParamValue] = {
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
    results: list[str] = [str(each) for each in page_ids or titles]
    is_high = not with_text and api.account.is_anybody and await api.has_right("apihighlimits")
    at_once = PAGES_AT_ONCE_HIGH if is_high else PAGES_AT_ONCE
    values_by_key: dict[str, _PageBuilder] = {}
    for some in split_batches(list(dict.fromkeys(results)), at_once):
        values_by_key.update(await _read_some(api, by, some, params))
    key = "pageid" if page_ids else "title"  # one without an entry, such as an interwiki title
    return [
        (values_by_key.get(each) or _PageBuilder({key: each, "missing": True})).page(props)
        for each in results
    ]


async def missing_titles(api: WikiApi, titles: Sequence[str]) -> frozenset[str]:
    """Return titles that have no page, as given; files of a shared repository and interwikis have one."""
    results: set[str] = set()
    for some in split_batches(dict.fromkeys(titles)):
        query = query_result(await api.get(action="query", titles=some))
        names = normalized_titles(query)
        missing = {
            text_field(row, "title")
            for row in json_rows(query, "pages")
            if bool_field(row, "missing") and not bool_field(row, "known")
        }
        results.update(each for each in some if names.get(each, each) in missing)
    return frozenset(results)


async def _read_some(
    api: WikiApi, by: str, wanted: list[str], params: Mapping[str, ParamValue]
) -> dict[str, _PageBuilder]:
    """Read pages by the requested keys; halve the batch when the answer is too large."""
    try:
        drafts: dict[str, _PageBuilder] = {}
        names: dict[str, str] = {}  # as asked for -> as the wiki writes it
        async for answer in api.query(PAGE_PARTS_LIMIT, **{**params, by: wanted}):
            query = query_result(answer)
            names |= normalized_titles(query)
            for each in json_rows(query, "interwiki"):
                names.setdefault(text_field(each, "title"), "")
            for row in json_rows(query, "pages"):
                key = (
                    str(count_field(row, "pageid")) if by == "pageids" else text_field(row, "title")
                )
                drafts.setdefault(key, _PageBuilder()).add(row)
        drafts_of = ((each, drafts.get(names.get(each, each))) for each in wanted)
        return {each: draft for each, draft in drafts_of if draft is not None}
    except BodyTooLargeError:
        if len(wanted) == 1:
            raise
    middle = len(wanted) // 2
    pages = await _read_some(api, by, wanted[:middle], params)
    pages.update(await _read_some(api, by, wanted[middle:], params))
    return pages


def revision_content(revision: Mapping[str, Any]) -> str | None:
    """Return a revision's text in either format version; None when not requested or hidden."""
    for place in (object_field(object_field(revision, "slots"), "main"), revision):
        for name in ("content", "*"):
            if isinstance(value := place.get(name), str):
                return value
    return None


async def unknown_names(api: WikiApi, facts: SiteFacts, feed: FeedSettings) -> list[str]:
    """Return categories and templates in the settings that the wiki does not have: likely misspelt.

    A category that has members but no page counts as known.
    """
    wanted = {
        **{facts.title_in(each, 14): None for each in (*feed.categories, *feed.not_categories)},
        **{facts.title_in(each, 10, 828): None for each in (*feed.templates, *feed.not_templates)},
    }
    unknown: list[str] = []
    for titles in split_batches(wanted):
        answer = await api.get(action="query", prop="categoryinfo", titles=titles)
        unknown.extend(
            text_field(row, "title")
            for row in json_rows(query_result(answer), "pages")
            if bool_field(row, "missing")
            and not count_field(object_field(row, "categoryinfo"), "size")
        )
    return unknown
