"""Source of a wiki's pages for the sync, through its API; missing pages of its farm.

Links to the farm's own wikis are not watched: when a page is read, at most `TARGETS_LIMIT` of its links to wikis of the
farm are queried for missing pages, which become hints of the linking page until it is read again.
"""

import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from core.errors import BadUrlError, WeboidError
from core.urls import fetch_key, identity_key
from links.registry.pages import PageName
from links.registry.wikis import InterwikiMap, Wiki
from wiki.api import models
from wiki.api.client import ParamValue, WikiApi
from wiki.api.page_query import missing_titles, read_pages, read_text
from wiki.api.recent_changes import ChangeBatch, changes_since
from wiki.api.site_info import read_site_facts
from wiki.api.wikidata import WikibaseRepository


@dataclass(frozen=True)
class ListingPart:
    """Part of a list of pages; `resume` is the next position, empty at the end."""

    pages: tuple[PageName, ...]
    resume: str = ""


NAMESPACE: Final = "namespace"
CATEGORY: Final = "category"
SUBCATEGORIES: Final = "subcategories"
TEMPLATE: Final = "template"
# By kind: the list of the API, the prefix of its parameters, that of the name, and further ones.
LISTS: Final[Mapping[str, tuple[str, str, str, Mapping[str, str]]]] = {
    NAMESPACE: ("allpages", "ap", "namespace", {"apfilterredir": "nonredirects"}),
    TEMPLATE: ("embeddedin", "ei", "title", {}),
    CATEGORY: ("categorymembers", "cm", "title", {"cmtype": "page", "cmprop": "ids|title"}),
    SUBCATEGORIES: ("categorymembers", "cm", "title", {"cmtype": "subcat", "cmprop": "ids|title"}),
}
_ITEM: Final = re.compile(r"Q[1-9][0-9]{0,9}")


class WikiSource:
    """Pages of a wiki through its API; all methods may raise the errors of `wiki.api.models`."""

    def __init__(self, api: WikiApi, items: WikibaseRepository) -> None:
        self._api = api
        self._items = items

    async def facts(self) -> models.SiteFacts:
        """Fetch the wiki's current site information."""
        return await read_site_facts(self._api)

    async def changes(self, cursor: str) -> ChangeBatch:
        """Return the changes since that cursor; without one, a cursor for now."""
        return await changes_since(self._api, cursor, most=500)

    async def pages(
        self,
        ids: Collection[int] = (),
        titles: Collection[str] = (),
        *,
        is_classed: bool = False,
        items_at: str | None = None,
    ) -> Sequence[models.WikiPage]:
        """Return pages with links and text; `items_at`: with statements from that api.php (empty: the wiki's own)."""
        pages = await read_pages(
            self._api,
            page_ids=sorted(ids),
            titles=sorted(titles),
            with_categories=is_classed,
            with_templates=is_classed,
            with_item=items_at is not None,
        )
        if items_at is None:
            return pages
        items = {page.item for page in pages if page.item and _ITEM.fullmatch(page.item)}
        statements = await self._items.statements(sorted(items), items_at) if items else {}
        return [replace(page, statements=statements.get(page.item) if page.item else frozenset()) for page in pages]

    async def texts(self, titles: Sequence[str], address: str = "") -> Mapping[str, str | None]:
        """Return page texts of the wiki, or of the one whose api.php is at that address; None: no page."""
        async with self._api_at(address) as api:
            return {title: await read_text(api, title) for title in titles}

    async def missing(self, titles: Sequence[str], address: str = "") -> frozenset[str]:
        """Return titles without a page, as given, in this wiki or the one with that api.php."""
        async with self._api_at(address) as api:
            return await missing_titles(api, titles)

    @asynccontextmanager
    async def _api_at(self, address: str) -> AsyncIterator[WikiApi]:
        if not address or address == self._api.address:
            yield self._api
        else:
            async with self._items.open_api(address) as other:
                yield other

    async def size(self, namespaces: Collection[int]) -> int:
        """Estimate the number of pages in these namespaces: articles, or all pages of the wiki."""
        answer = await self._api.get(action="query", meta="siteinfo", siprop="statistics")
        counts = models.object_field(models.query_result(answer), "statistics")
        return models.count_field(counts, "articles" if set(namespaces) <= {0} else "pages")

    async def listing(self, kind: str, name: str, resume: str = "") -> ListingPart:
        """List pages from a position on; `kind`: a key of `LISTS`, `name`: a namespace's number or a full title."""
        module, prefix, title, params = LISTS[kind]
        key = f"{prefix}continue"
        position = {key: resume, "continue": "-||"} if resume else {}
        named: dict[str, ParamValue] = {f"{prefix}{title}": name, f"{prefix}limit": "max"}
        answer = await self._api.get(action="query", list=module, **{**named, **params, **position})
        pages = tuple(
            PageName(models.count_field(row, "pageid"), models.text_field(row, "title"), models.count_field(row, "ns"))
            for row in models.json_rows(models.query_result(answer), module)
        )
        go_on = models.continuation(answer).get(key, "")
        return ListingPart(pages, go_on if go_on != resume else "")

    async def whole_listing(self, kind: str, name: str) -> AsyncIterator[ListingPart]:
        """Yield the parts of a list."""
        part = await self.listing(kind, name)
        yield part
        while part.resume:
            part = await self.listing(kind, name, part.resume)
            yield part


TARGETS_LIMIT = 4 * models.PAGES_AT_ONCE

log = logging.getLogger(__name__)


class FarmPages:
    """Mapping of page addresses to a farm's wikis."""

    def __init__(self, wikis: Iterable[Wiki], own: Wiki, own_pages_url: str) -> None:
        api_by_prefix: dict[str, str] = {}
        for wiki in wikis:
            is_own = wiki.id == own.id
            start, mark, end = (wiki.pages_url or (own_pages_url if is_own else "")).partition("$1")
            prefix = _address(start) if mark and not end else ""  # empty: unknown
            if prefix and (wiki.url or is_own):
                api_by_prefix.setdefault(prefix, "" if is_own else wiki.url)
        # Longest first: one wiki's address may be below another's.
        self._apis = sorted(api_by_prefix.items(), key=lambda item: len(item[0]), reverse=True)

    def target(self, url: str) -> tuple[str, str] | None:
        """Return (api.php, title) of the URL's target, with "" for the own wiki; None for other URLs."""
        if not self._apis:
            return None
        address = _address(url)
        for prefix, api in self._apis:
            rest = address.removeprefix(prefix)
            is_query = "?" in prefix
            if address.startswith(prefix) and rest and not set(rest) & set("&#|" if is_query else "?#|"):
                title = unquote(rest.replace("+", " ") if is_query else rest)
                title = " ".join(title.replace("_", " ").split())
                return (api, title) if title and "|" not in title else None
        return None


async def missing_targets(
    source: WikiSource, pages: Sequence[models.WikiPage], interwikis: InterwikiMap, farm: FarmPages
) -> frozenset[str]:
    """Return the pages' links to missing pages of the farm, as far as its wikis answer."""
    urls = dict.fromkeys(
        url for page in pages for url in (*interwikis.urls(page.interwiki_links, is_local=True), *page.links)
    )
    by_wiki: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    count = 0
    for url in urls:
        target = farm.target(url)
        if target is not None and count < TARGETS_LIMIT:
            api, title = target
            count += title not in by_wiki[api]
            by_wiki[api][title].append(url)
    lost: set[str] = set()
    for api, titles in by_wiki.items():
        try:
            missing = await source.missing(list(titles), api)
        except WeboidError as error:
            if not api:
                raise
            log.warning("%s is not queried for existing pages: %s", api, error)
            continue
        lost.update(url for title in missing for url in titles[title])
    return frozenset(lost)


def _address(url: str) -> str:
    try:
        return identity_key(fetch_key(url, allow_single_label=True)).partition("://")[2]
    except BadUrlError:
        return ""
