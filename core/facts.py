"""What a page says of itself that a citation needs, and where it says so. Pure.

From schema.org data, Highwire's ``citation_*``, Dublin Core, Open Graph, microdata, plain HTML and
HTTP headers. Each fact is taken from the source that is most to the point; others are not told.

    title, author (one fact each), published, modified, language, site, publisher, journal,
    description, type, canonical, doi

Everything here was written by the page: values are bounded, and believed by nobody.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from core.json_ld import main_work, text, types
from core.said_dates import iso_date

VALUE_LIMIT_CHARS = 500
DESCRIPTION_LIMIT_CHARS = 2_000
AUTHOR_LIMIT = 50
URL_LIMIT_CHARS = 8_000

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,6}", re.ASCII)  # RFC 5646, 2.1, roughly
_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]{1,300}", re.ASCII)
_CANONICAL = re.compile(r"<([^<>]{1,8000})>[^,]{0,200};\s*rel=\"?canonical\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")

# Where each fact is looked for, the best first: "ld:" schema.org, "meta:" a <meta> by its name,
# "item:" microdata, and names of their own for what else there is.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "title": (
        "meta:citation_title", "ld:headline", "item:headline", "meta:og:title", "meta:dc.title",
        "meta:dcterms.title", "ld:name", "meta:twitter:title", "html:title",
    ),
    "author": (
        "meta:citation_author", "ld:author", "ld:creator", "item:author", "meta:dc.creator",
        "meta:dcterms.creator", "meta:article:author", "meta:book:author", "meta:author",
        "meta:parsely-author", "meta:sailthru.author", "html:rel-author", "html:byline",
    ),
    "published": (
        "meta:citation_publication_date", "meta:citation_date", "ld:datePublished", "ld:uploadDate",
        "item:datePublished", "meta:article:published_time", "meta:og:published_time",
        "meta:citation_online_date", "meta:dcterms.issued", "meta:dc.date.issued",
        "meta:dcterms.date", "meta:dc.date", "meta:book:release_date", "meta:parsely-pub-date",
        "meta:sailthru.date", "meta:pubdate", "meta:publish-date", "meta:date", "ld:dateCreated",
        "html:time-pubdate", "html:time",
    ),
    "modified": (
        "ld:dateModified", "item:dateModified", "meta:article:modified_time",
        "meta:og:updated_time", "meta:dcterms.modified", "meta:dc.date.modified",
        "meta:last-modified", "meta:lastmod",
    ),
    "language": (
        "html:lang", "http:content-language", "html:content-language", "ld:inLanguage",
        "meta:citation_language", "meta:dc.language", "meta:dcterms.language", "meta:og:locale",
    ),
    "site": ("meta:og:site_name", "ld:isPartOf", "meta:application-name", "meta:twitter:site"),
    "publisher": (
        "meta:citation_publisher", "ld:publisher", "item:publisher", "meta:dc.publisher",
        "meta:dcterms.publisher", "meta:article:publisher",
    ),
    "journal": ("meta:citation_journal_title", "meta:prism.publicationname"),
    "description": (
        "meta:description", "meta:og:description", "ld:description", "item:description",
        "meta:dc.description", "meta:twitter:description",
    ),
    "type": ("ld:@type", "meta:og:type", "item:@type", "meta:dc.type"),
    "canonical": ("html:canonical", "http:link", "meta:og:url", "ld:url", "meta:citation_abstract_html_url"),
    "doi": ("meta:citation_doi", "meta:prism.doi", "meta:dc.identifier", "ld:sameAs", "ld:@id"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the page says of itself.

    Attributes:
        name: which fact.
        value: dates in ISO 8601 where that is sure, languages as BCP 47, URLs absolute.
        source: where it says so, e.g. ``ld:datePublished`` or ``meta:og:title``.
    """

    name: str
    value: str
    source: str


def read_facts(raw: Mapping[str, Any], *, url: str, headers: Mapping[str, str]) -> tuple[Fact, ...]:
    """The facts of a page; whatever it holds, nothing is raised.

    Args:
        raw: what ``facts.js`` collected.
        url: of its document.
        headers: of its response, names in lower case.
    """
    said = _Said(raw, headers)
    base = _words(raw.get("base")) or url
    facts: list[Fact] = []
    for name, sources in _SOURCES.items():
        facts += _choose(name, sources, said, base)
    return tuple(facts)


def fact(facts: Iterable[Fact], name: str) -> str:
    """The value of the first fact of that name; empty when there is none.

    >>> fact([Fact("title", "A", "html:title")], "title")
    'A'
    """
    return next((each.value for each in facts if each.name == name), "")


def _choose(name: str, sources: Sequence[str], said: "_Said", base: str) -> list[Fact]:
    for source in sources:
        values = [_normal(name, value, base) for value in said.values(source)]
        found = list(dict.fromkeys(value for value in values if value))
        if found:
            many = AUTHOR_LIMIT if name == "author" else 1
            return [Fact(name, value, source) for value in found[:many]]
    return []


def _normal(name: str, value: str, base: str) -> str:
    """The value in its normal form; empty when it cannot be one."""
    limit = DESCRIPTION_LIMIT_CHARS if name == "description" else VALUE_LIMIT_CHARS
    if name == "canonical":
        return _absolute(value, base)
    words = _SPACE.sub(" ", value[: 4 * limit]).strip()[:limit]
    if name in ("published", "modified"):
        # Without a digit it is a word such as "today".
        return iso_date(words) if any(c.isdigit() for c in words) else ""
    if name == "language":
        tag = words.split(",")[0].strip().replace("_", "-")
        return tag if _TAG.fullmatch(tag) else ""
    if name == "doi":
        match = _DOI.search(words)
        return match[0].rstrip(".,;)") if match else ""
    if name == "author":
        # A profile's address is no name.
        return "" if words.startswith(("http://", "https://", "@")) else words.removeprefix("By ")
    return words


def _absolute(value: str, base: str) -> str:
    if len(value) > URL_LIMIT_CHARS:
        return ""
    try:
        url = urljoin(base, value.strip())
    except ValueError:
        return ""
    return url if url.lower().startswith(("http://", "https://")) else ""


class _Said:
    """What the page says, by source."""

    def __init__(self, raw: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._found: dict[str, list[str]] = {}
        for name, content in _pairs(raw.get("metas")):
            self._add(f"meta:{_meta_name(name)}", content)
        for name, content in _pairs(raw.get("items")):
            self._add(f"item:{name}", content)
        for name, content in _pairs(raw.get("html")):
            self._add(f"html:{name}", content)
        self._add("http:content-language", headers.get("content-language", ""))
        if match := _CANONICAL.search(headers.get("link", "")[:20_000]):
            self._add("http:link", match[1])
        scripts = raw.get("scripts")
        work, known = main_work([each for each in _list(scripts) if isinstance(each, str)])
        for name in ("@type", *_LD_NAMES):
            for value in types(work)[:1] if name == "@type" else text(work.get(name), known):
                self._add(f"ld:{name}", value)

    def values(self, source: str) -> list[str]:
        """What is said there, in order."""
        return self._found.get(source, [])

    def _add(self, source: str, value: str) -> None:
        if value.strip():
            self._found.setdefault(source, []).append(value)


_LD_NAMES = sorted(
    {
        source.removeprefix("ld:")
        for sources in _SOURCES.values()
        for source in sources
        if source.startswith("ld:") and source != "ld:@type"
    }
)


def _meta_name(name: str) -> str:
    """One spelling for all of Dublin Core's: ``DC:creator``, ``dc.creator``, ``DC.Creator.Name``."""
    lowered = name.strip().lower()
    for prefix in ("dc:", "dcterms:"):
        if lowered.startswith(prefix):
            return lowered.replace(":", ".", 1)
    return lowered


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    for entry in _list(value):
        if isinstance(entry, list) and len(entry) == 2:
            name, content = entry
            if isinstance(name, str) and isinstance(content, str):
                yield name, content


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""
