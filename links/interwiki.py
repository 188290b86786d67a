"""Interwiki links as URLs (W49): ``[[doi:10.1000/182]]`` leads to a page like any other link.

The map is what a wiki's API tells (`meta=siteinfo&siprop=interwikimap`). A link's URL is made as
MediaWiki makes it: spaces become underscores, ``$1`` gives way to the escaped title, and where the map
leaves the scheme open it is https. Links to wikis of the same farm are its own business: they have
no URL here, but can be told apart, so that missing targets can be told (`wiki.feeding.targets`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from core.errors import InputError

MAP_LIMIT = 20_000
URL_LIMIT_CHARS = 8_192
# What MediaWiki leaves as it is in the path of a page (wfUrlencode); with letters, digits and "_.-".
_KEPT = ";@$!*(),/~:"


@dataclass(frozen=True, slots=True)
class Interwiki:
    """A prefix of the map.

    Attributes:
        prefix: lower case.
        url: with ``$1`` for the title; its scheme is said.
        is_local: it leads to a wiki of the same farm.
        wiki: that wiki's database, when the map tells it.
    """

    prefix: str
    url: str
    is_local: bool = False
    wiki: str = ""


@dataclass(frozen=True, slots=True)
class InterwikiLink:
    """An interwiki link of a page, resolved.

    Attributes:
        prefix: as the page has it, lower case.
        title: what stands behind the prefix.
        url: where it leads; empty when the map has no such prefix.
        is_local: it leads to a wiki of the same farm, so its URL is not kept.
        wiki: that wiki's database, when the map tells it.
    """

    prefix: str
    title: str
    url: str
    is_local: bool = False
    wiki: str = ""


class InterwikiMap:
    """A wiki's interwiki prefixes."""

    def __init__(self, prefixes: Iterable[Interwiki] = ()) -> None:
        """Take the prefixes; of two that are alike the first counts."""
        self._prefixes: dict[str, Interwiki] = {}
        for each in prefixes:
            self._prefixes.setdefault(each.prefix, each)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._prefixes)

    def link(self, prefix: str, title: str) -> InterwikiLink:
        """Where ``prefix:title`` leads."""
        prefix = prefix.strip().lower()
        found = self._prefixes.get(prefix)
        if found is None:
            return InterwikiLink(prefix, title, "")
        url = found.url.replace("$1", encoded_title(title))
        return InterwikiLink(prefix, title, url, found.is_local, found.wiki)

    def local_urls(self, links: Iterable[tuple[str, str]]) -> list[str]:
        """Return the URLs of links to the farm's own wikis, of (prefix, title): they are not watched (W50)."""
        found = (self.link(prefix, title) for prefix, title in links)
        return list(dict.fromkeys(each.url for each in found if each.url and each.is_local))

    def urls(self, links: Iterable[tuple[str, str]]) -> list[str]:
        """The URLs that links lead to, of (prefix, title); without those to the farm's own wikis."""
        found = (self.link(prefix, title) for prefix, title in links)
        return list(dict.fromkeys(each.url for each in found if each.url and not each.is_local))


def read_interwikis(text: str | bytes) -> InterwikiMap:
    """The map in an answer of the API, in either of its formats, or in its list alone.

    Raises:
        InputError: it is no such answer.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The interwiki map is no JSON: {error}.") from error
    found = document
    if isinstance(document, dict):
        query = document.get("query")
        found = (query if isinstance(query, dict) else document).get("interwikimap")
    if not isinstance(found, list):
        raise InputError(
            "There is no interwiki map in that: ask the wiki's API for "
            "action=query&meta=siteinfo&siprop=interwikimap&format=json."
        )
    return InterwikiMap(
        each for entry in found[:MAP_LIMIT] if isinstance(entry, dict) and (each := _one(entry))
    )


def encoded_title(title: str) -> str:
    """The title as MediaWiki writes it into an address.

    >>> encoded_title("10.1000/a b?c+d")
    '10.1000/a_b%3Fc%2Bd'
    """
    text = "_".join(title.split(" ")).encode("utf-8", "replace")
    return quote(text, safe=_KEPT)


def _one(entry: Mapping[str, Any]) -> Interwiki | None:
    prefix, url = entry.get("prefix"), entry.get("url")
    if not isinstance(prefix, str) or not isinstance(url, str) or not prefix.strip():
        return None
    if url.startswith("//"):
        url = f"https:{url}"
    if len(url) > URL_LIMIT_CHARS or not url.lower().startswith(("http://", "https://")):
        return None
    # In the API's first format a flag is there, though empty, or not; in the second it is a boolean.
    is_local = entry.get("local", False) not in (False, None, 0)
    wiki = entry.get("wikiid")
    return Interwiki(prefix.strip().lower(), url, is_local, wiki if isinstance(wiki, str) else "")
