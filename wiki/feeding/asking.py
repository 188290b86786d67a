"""A wiki asked through its action API: `wiki.feeding.source.Source` by `wiki.api`."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wiki.api.changes import ChangeBatch, changes_since
from wiki.api.client import Api, Value
from wiki.api.facts import SiteFacts, WikiPage
from wiki.api.pages import all_pages, missing_titles, read_pages
from wiki.api.revisions import read_text
from wiki.api.site import site_facts
from wiki.api.values import a_count, a_text, query_of, rows_of
from wiki.feeding.items import Items
from wiki.feeding.source import Listed, Listing

_ITEM: Final = re.compile(r"Q[1-9][0-9]{0,9}")


class ApiSource:
    """A wiki by its API, which its opener closes, as that of its items."""

    def __init__(self, api: Api, items: Items) -> None:
        """Take the API, and who asks what Wikidata items say, and opens other wikis."""
        self._api = api
        self._items = items

    async def facts(self) -> SiteFacts:
        """The wiki as it describes itself now."""
        return await site_facts(self._api)

    async def changes(self, cursor: str) -> ChangeBatch:
        """What changed since that cursor was told."""
        return await changes_since(self._api, cursor, most=500)

    async def pages(
        self,
        ids: Collection[int] = (),
        titles: Collection[str] = (),
        *,
        is_classed: bool = False,
        items_at: str | None = None,
    ) -> Sequence[WikiPage]:
        """Pages as they are now, by their numbers or by their titles."""
        pages = await read_pages(
            self._api,
            page_ids=sorted(ids),
            titles=sorted(titles),
            with_text=True,
            with_categories=is_classed,
            with_templates=is_classed,
            with_item=items_at is not None,
        )
        return pages if items_at is None else await self._with_statements(pages, items_at)

    async def _with_statements(self, pages: Sequence[WikiPage], said: str) -> list[WikiPage]:
        """The pages with what their items say; what is no item's number is not asked for."""
        asked = {page.item for page in pages if page.item and _ITEM.fullmatch(page.item)}
        told = await self._items.statements(sorted(asked), said) if asked else {}
        return [
            replace(page, statements=told.get(page.item) if page.item else frozenset())
            for page in pages
        ]

    async def texts(self, titles: Sequence[str], address: str = "") -> Mapping[str, str | None]:
        """The texts of pages of the wiki, or of the one whose api.php is at that address."""
        if not address or address == self._api.address:
            return {title: await read_text(self._api, title) for title in titles}
        async with self._items.opened(address) as other:
            return {title: await read_text(other, title) for title in titles}

    async def missing(self, titles: Sequence[str], address: str = "") -> frozenset[str]:
        """Those of the titles that have no page: of the wiki, or of the one at that address."""
        if not address or address == self._api.address:
            return await missing_titles(self._api, titles)
        async with self._items.opened(address) as other:
            return await missing_titles(other, titles)

    async def size(self, namespaces: Collection[int]) -> int:
        """How many pages these namespaces have, about: articles, or all pages of the wiki."""
        told = await self._api.get(action="query", meta="siteinfo", siprop="statistics")
        found = query_of(told).get("statistics")
        counts = found if isinstance(found, dict) else {}
        return a_count(counts, "articles" if set(namespaces) <= {0} else "pages")

    async def listed(self, namespace: int, start: str = "") -> Listing:
        """Pages of a namespace that are no redirects, by their titles."""
        async for part in all_pages(self._api, namespace, start, with_redirects=False):
            pages = tuple(Listed(each.page_id, each.title, each.namespace) for each in part.pages)
            return Listing(pages, part.go_on)
        return Listing(())

    async def using(self, title: str, resume: str = "") -> Listing:
        """Pages that use a template."""
        params: dict[str, Value] = {"eititle": title, "eilimit": "max"}
        return await self._list("embeddedin", "eicontinue", params, resume)

    async def members(self, category: str, resume: str = "", *, are_categories: bool) -> Listing:
        """What is in a category itself: pages, or categories."""
        params: dict[str, Value] = {
            "cmtitle": category,
            "cmtype": "subcat" if are_categories else "page",
            "cmlimit": "max",
            "cmprop": "ids|title",
        }
        return await self._list("categorymembers", "cmcontinue", params, resume)

    async def _list(self, name: str, key: str, params: dict[str, Value], resume: str) -> Listing:
        further: dict[str, Value] = {key: resume, "continue": "-||"} if resume else {}
        told = await self._api.get(action="query", list=name, **{**params, **further})
        pages = tuple(
            Listed(a_count(row, "pageid"), a_text(row, "title"), a_count(row, "ns"))
            for row in rows_of(query_of(told), name)
        )
        found = told.get("continue")
        go_on = a_text(found, key) if isinstance(found, dict) else ""
        return Listing(pages, go_on if go_on != resume else "")
