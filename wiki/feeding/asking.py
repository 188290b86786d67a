"""A wiki asked through its action API: `wiki.feeding.source.Source` by `wiki.api`."""

from collections.abc import Collection, Sequence

from wiki.api.changes import ChangeBatch, changes_since
from wiki.api.client import Api, Value
from wiki.api.facts import SiteFacts, WikiPage
from wiki.api.pages import all_pages, read_pages
from wiki.api.site import site_facts
from wiki.api.values import a_count, a_text, query_of, rows_of
from wiki.feeding.source import Listed, Listing


class ApiSource:
    """A wiki by its API, which its opener closes."""

    def __init__(self, api: Api) -> None:
        """Take the API."""
        self._api = api

    async def facts(self) -> SiteFacts:
        """The wiki as it describes itself now."""
        return await site_facts(self._api)

    async def changes(self, cursor: str) -> ChangeBatch:
        """What changed since that cursor was told."""
        return await changes_since(self._api, cursor, most=500)

    async def pages(
        self, ids: Collection[int] = (), titles: Collection[str] = (), *, is_classed: bool = False
    ) -> Sequence[WikiPage]:
        """Pages as they are now, by their numbers or by their titles."""
        return await read_pages(
            self._api,
            page_ids=sorted(ids),
            titles=sorted(titles),
            with_text=True,
            with_categories=is_classed,
            with_templates=is_classed,
        )

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
