"""Citation metadata that a page states about itself: meta tags, JSON-LD, headers.

Each fact is from its most specific source (``page_facts.toml``). The input is untrusted: sizes, depth and counts are
bounded, and no content raises an error.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

SCRIPT_LIMIT_CHARS = 500_000
NODE_LIMIT = 2_000
DEPTH_LIMIT = 8
_TABLES = tomllib.loads(Path(__file__).with_name("page_facts.toml").read_text("utf-8"))
_RANK = {name: rank for rank, name in enumerate(_TABLES["works"])}
# Keys below which the page's own node may be; comments and related articles are not there.
_INWARD = ("@graph", "mainEntity", "mainEntityOfPage", "@included")


def main_work(scripts: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """Return (node that describes the page, all nodes by ``@id``); empty without one."""
    nodes: list[Mapping[str, Any]] = []
    for script in scripts:
        nodes += list(_nodes(_load(script), DEPTH_LIMIT))[: NODE_LIMIT - len(nodes)]
    known: dict[str, Mapping[str, Any]] = {}
    for node in nodes:
        name = node.get("@id")
        # A mere reference has no other keys.
        if isinstance(name, str) and len(node) > 1:
            known.setdefault(name, node)
    ranked = [(_RANK[kind], at) for at, node in enumerate(nodes) for kind in json_ld_types(node) if kind in _RANK]
    return (nodes[min(ranked)[1]] if ranked else {}), known


def json_ld_types(node: Mapping[str, Any]) -> list[str]:
    """Return the node's types by their bare names."""
    types = node.get("@type")
    words = types if isinstance(types, list) else [types]
    return [word.rsplit("/", 1)[-1][:100] for word in words[:20] if isinstance(word, str)]


def json_ld_text(value: Any, known: Mapping[str, Mapping[str, Any]], depth: int = 4) -> list[str]:
    """Return the texts of a value: a string, the name of a thing, or several of them."""
    if depth == 0:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [word for each in value[:100] for word in json_ld_text(each, known, depth - 1)]
    if isinstance(value, dict):
        if "@value" in value:
            return json_ld_text(value["@value"], known, depth - 1)
        name = value.get("@id")
        if isinstance(name, str) and "name" not in value and name in known:
            value = known[name]
        return json_ld_text(value.get("name"), known, depth - 1)
    return []


def _load(script: str) -> Any:
    if len(script) > SCRIPT_LIMIT_CHARS:
        return None
    # Some systems wrap it as they wrapped scripts once.
    bare = script.strip().removeprefix("<!--").removesuffix("-->").strip()
    bare = bare.removeprefix("//<![CDATA[").removesuffix("//]]>").rstrip(";")
    try:
        return json.loads(bare, strict=False)
    except (ValueError, RecursionError):
        return None


def _nodes(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    if depth == 0:
        return
    if isinstance(value, list):
        for each in value[:NODE_LIMIT]:
            yield from _nodes(each, depth - 1)
    elif isinstance(value, dict):
        yield value
        for inward in _INWARD:
            if inward in value:
                yield from _nodes(value[inward], depth - 1)


VALUE_LIMIT_CHARS = 500
DESCRIPTION_LIMIT_CHARS = 2_000
AUTHOR_LIMIT = 50
URL_LIMIT_CHARS = 8_000

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,6}", re.ASCII)  # RFC 5646, 2.1, roughly
_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]{1,300}", re.ASCII)
_CANONICAL = re.compile(r"<([^<>]{1,8000})>[^,]{0,200};\s*rel=\"?canonical\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")

_SOURCES: Mapping[str, Sequence[str]] = _TABLES["sources"]


@dataclass(frozen=True, slots=True)
class PageFact:
    """Statement of a page about itself."""

    name: str
    value: str  # dates in ISO 8601 where unambiguous, languages as BCP 47, URLs absolute
    source: str  # its source, e.g. ``ld:datePublished`` or ``meta:og:title``.


def read_facts(raw: Mapping[str, Any], *, url: str, headers: Mapping[str, str]) -> tuple[PageFact, ...]:
    """Return the facts in a result of ``facts.js``; header names are in lower case. Never raises."""
    stated = _stated_values(raw, headers)
    base = raw.get("base")
    base = base if isinstance(base, str) and base else url
    facts: list[PageFact] = []
    for name, sources in _SOURCES.items():
        for source in sources:
            values = [_normal(name, value, base) for value in stated.get(source, ())]
            values = list(dict.fromkeys(value for value in values if value))
            if values:
                many = AUTHOR_LIMIT if name == "author" else 1
                facts += [PageFact(name, value, source) for value in values[:many]]
                break
    return tuple(facts)


def _normal(name: str, value: str, base: str) -> str:
    """Normalize the value; empty when it is not valid."""
    limit = DESCRIPTION_LIMIT_CHARS if name == "description" else VALUE_LIMIT_CHARS
    if name == "canonical":
        return _absolute(value, base)
    words = _SPACE.sub(" ", value[: 4 * limit]).strip()[:limit]
    if name in ("published", "modified"):
        if not any(c.isdigit() for c in words):
            return ""  # a word such as "today"
        from core.web_dates import iso_date

        return iso_date(words)
    if name == "language":
        tag = words.split(",")[0].strip().replace("_", "-")
        return tag if _TAG.fullmatch(tag) else ""
    if name == "doi":
        match = _DOI.search(words)
        return match[0].rstrip(".,;)") if match else ""
    if name == "author":
        # A profile's address is not a name.
        return "" if words.startswith(("http://", "https://", "@")) else words.removeprefix("By ")
    return words


def _absolute(value: str, base: str) -> str:
    with suppress(ValueError):
        url = urljoin(base, value.strip()) if len(value) <= URL_LIMIT_CHARS else ""
        return url if url.lower().startswith(("http://", "https://")) else ""
    return ""


def _stated_values(raw: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values that the page states, by source, in order."""
    stated: list[tuple[str, str]] = []
    for name, content in _pairs(raw.get("metas")):
        # Spellings of Dublin Core: ``DC:creator``, ``dc.creator``, ``DC.Creator.Name``.
        key = name.strip().lower()
        if key.startswith(("dc:", "dcterms:")):
            key = key.replace(":", ".", 1)
        stated.append((f"meta:{key}", content))
    stated += [(f"item:{name}", content) for name, content in _pairs(raw.get("items"))]
    stated += [(f"html:{name}", content) for name, content in _pairs(raw.get("html"))]
    stated.append(("http:content-language", headers.get("content-language", "")))
    if match := _CANONICAL.search(headers.get("link", "")[:20_000]):
        stated.append(("http:link", match[1]))
    scripts = raw.get("scripts")
    work, known = main_work([each for each in _list(scripts) if isinstance(each, str)])
    for name in ("@type", *_LD_NAMES):
        values = json_ld_types(work)[:1] if name == "@type" else json_ld_text(work.get(name), known)
        stated += [(f"ld:{name}", value) for value in values]
    by_source: dict[str, list[str]] = {}
    for source, value in stated:
        if value.strip():
            by_source.setdefault(source, []).append(value)
    return by_source


_LD_SOURCES = {each for sources in _SOURCES.values() for each in sources if each.startswith("ld:")} - {"ld:@type"}
_LD_NAMES = sorted(each.removeprefix("ld:") for each in _LD_SOURCES)


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    for entry in _list(value):
        if isinstance(entry, list) and len(entry) == 2:
            name, content = entry
            if isinstance(name, str) and isinstance(content, str):
                yield name, content


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
