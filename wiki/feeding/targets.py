"""Targets of links within the farm: which pages are missing (W50).

Links to the farm's own wikis are not watched. When a page is read, the wikis that they lead to are asked
whether the pages are there; those that are not become hints of the page that links to them, until it is read
again. Asked about are a page's external links and its interwiki links to wikis of the farm that the registry
knows, as plain addresses of pages (`link_wikis.pages_url`), at most `TARGETS_LIMIT` of one reading.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from core.errors import BadUrlError, WeboidError
from core.urls import fetch_key, identity_key
from links.books.wikis import Wiki
from links.interwiki import InterwikiMap
from wiki.api.facts import WikiPage
from wiki.feeding.source import PAGES_AT_ONCE, Source

TARGETS_LIMIT = 4 * PAGES_AT_ONCE

log = logging.getLogger(__name__)


class FarmPages:
    """Addresses of pages of a farm's wikis."""

    def __init__(self, wikis: Iterable[Wiki], own: Wiki, own_pages_url: str) -> None:
        """Take the farm's wikis.

        Args:
            wikis: of the farm.
            own: the wiki whose pages are read; it is asked by its own API.
            own_pages_url: of its pages, as it says itself.
        """
        found: dict[str, str] = {}
        for wiki in wikis:
            is_own = wiki.id == own.id
            prefix = _prefix(wiki.pages_url or (own_pages_url if is_own else ""))
            if prefix and (wiki.url or is_own):
                found.setdefault(prefix, "" if is_own else wiki.url)
        # The longest first: one wiki may lie below another.
        self._apis = sorted(found.items(), key=lambda item: len(item[0]), reverse=True)

    def target(self, url: str) -> tuple[str, str] | None:
        """Return the api.php (empty: the own wiki's) and the title that the URL leads to; None for others."""
        if not self._apis:
            return None
        try:
            address = _without_scheme(identity_key(fetch_key(url, allow_single_label=True)))
        except BadUrlError:
            return None
        for prefix, api in self._apis:
            rest = address.removeprefix(prefix)
            is_query = "?" in prefix
            if (
                address.startswith(prefix)
                and rest
                and not set(rest) & set("&#|" if is_query else "?#|")
            ):
                title = unquote(rest.replace("+", " ") if is_query else rest)
                title = " ".join(title.replace("_", " ").split())
                return (api, title) if title and "|" not in title else None
        return None


async def missing_targets(
    source: Source, pages: Sequence[WikiPage], interwikis: InterwikiMap, farm: FarmPages
) -> frozenset[str]:
    """Return those of the pages' links that lead to pages of the farm which are not there.

    Of a wiki that does not answer nothing is said.
    """
    urls = dict.fromkeys(
        url for page in pages for url in (*interwikis.local_urls(page.interwiki_links), *page.links)
    )
    asked: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    count = 0
    for url in urls:
        found = farm.target(url)
        if found is not None and count < TARGETS_LIMIT:
            api, title = found
            count += title not in asked[api]
            asked[api][title].append(url)
    return frozenset(
        [
            url
            for api, titles in asked.items()
            for title in await _missing(source, titles, api)
            for url in titles[title]
        ]
    )


async def _missing(source: Source, titles: Mapping[str, object], api: str) -> frozenset[str]:
    try:
        return await source.missing(list(titles), api)
    except WeboidError as error:
        if not api:
            raise
        log.warning("%s is not asked whether pages are there: %s", api, error)
        return frozenset()


def _prefix(pages_url: str) -> str:
    """Return what the addresses of a wiki's pages begin with, without a scheme; empty: nobody can say."""
    start, mark, end = pages_url.partition("$1")
    if not mark or end:
        return ""
    try:
        return _without_scheme(identity_key(fetch_key(start, allow_single_label=True)))
    except BadUrlError:
        return ""


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]
