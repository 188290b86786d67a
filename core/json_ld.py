"""What schema.org data in a page says of it (JSON-LD 1.1, schema.org). Pure.

The text is a stranger's: sizes, depth and counts are bounded, and nothing is raised for what it
holds. Contexts are not fetched; terms are taken by their names.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

SCRIPT_LIMIT_CHARS = 500_000
NODE_LIMIT = 2_000
DEPTH_LIMIT = 8
# What a page is about, the likeliest first; a type that is not here is none a citation needs.
_WORKS = (
    "ScholarlyArticle", "NewsArticle", "ReportageNewsArticle", "AnalysisNewsArticle",
    "OpinionNewsArticle", "ReviewNewsArticle", "BackgroundNewsArticle", "LiveBlogPosting",
    "BlogPosting", "TechArticle", "MedicalScholarlyArticle", "Article", "Report", "SocialMediaPosting",
    "DiscussionForumPosting", "Review", "Recipe", "Book", "Thesis", "Dataset", "VideoObject",
    "PodcastEpisode", "Movie", "TVEpisode", "MusicRecording", "Event", "Product", "CreativeWork",
    "QAPage", "FAQPage", "ProfilePage", "AboutPage", "ItemPage", "WebPage", "WebSite",
)  # fmt: skip
_RANK = {name: rank for rank, name in enumerate(_WORKS)}
# Where the node of the page itself may stand; comments and related articles do not.
_INWARD = ("@graph", "mainEntity", "mainEntityOfPage", "@included")


def main_work(scripts: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """The node that describes what the page is, and all nodes by ``@id``; empty when there is none."""
    nodes: list[Mapping[str, Any]] = []
    for script in scripts:
        nodes += list(_nodes(_load(script), DEPTH_LIMIT))[: NODE_LIMIT - len(nodes)]
    known: dict[str, Mapping[str, Any]] = {}
    for node in nodes:
        name = node.get("@id")
        # A mere reference has nothing else to say.
        if isinstance(name, str) and len(node) > 1:
            known.setdefault(name, node)
    ranked = [(rank, at) for at, node in enumerate(nodes) if (rank := _rank(node)) is not None]
    return (nodes[min(ranked)[1]] if ranked else {}), known


def types(node: Mapping[str, Any]) -> list[str]:
    """Its types by their bare names."""
    said = node.get("@type")
    words = said if isinstance(said, list) else [said]
    return [word.rsplit("/", 1)[-1][:100] for word in words[:20] if isinstance(word, str)]


def text(value: Any, known: Mapping[str, Mapping[str, Any]], depth: int = 4) -> list[str]:
    """The words of a value: a string, the name of a thing, or several of them."""
    if depth == 0:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [word for each in value[:100] for word in text(each, known, depth - 1)]
    if isinstance(value, dict):
        if "@value" in value:
            return text(value["@value"], known, depth - 1)
        name = value.get("@id")
        if isinstance(name, str) and "name" not in value and name in known:
            value = known[name]
        return text(value.get("name"), known, depth - 1)
    return []


def _rank(node: Mapping[str, Any]) -> int | None:
    ranks = [_RANK[name] for name in types(node) if name in _RANK]
    return min(ranks, default=None)


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
