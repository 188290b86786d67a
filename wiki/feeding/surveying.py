"""What a sweep would find: which pages are observed, why others are not, what their links are.

Nothing is written, so no lease is needed, and it may run beside a watch.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from core.clock import Clock
from links.books.importing import sorted_links
from links.books.wikis import Wiki
from links.rulebook import RuleBook
from links.sorting import Sort, WikiRules
from links.store.store import Store
from wiki.api.facts import SiteFacts
from wiki.feeding.criteria import Criteria, Refusal, criteria_of
from wiki.feeding.desk import parse_settings
from wiki.feeding.putting import links_of
from wiki.feeding.reading import nothing_cited, parts, read_pages
from wiki.feeding.source import Source
from wiki.feeding.sweeper import list_part
from wiki.feeding.sweeping import lists_of
from wiki.feeding.trees import read_trees


@dataclass(frozen=True)
class Rules:
    """What decides on pages and links."""

    criteria: Criteria
    facts: SiteFacts
    links: WikiRules


@dataclass
class Survey:
    """What was found so far.

    Attributes:
        expected: how many pages there are, about.
        pages: that would be observed.
        links: on them, by what they are to the registry.
        refused: pages that would not be, by the reason.
    """

    expected: int = 0
    pages: int = 0
    links: Counter[Sort] = field(default_factory=Counter)
    refused: Counter[Refusal] = field(default_factory=Counter)

    @property
    def looked_at(self) -> int:
        """How many pages were read."""
        return self.pages + sum(self.refused.values())


async def survey(wiki: Wiki, source: Source, store: Store, clock: Clock) -> AsyncIterator[Survey]:
    """Read all pages that a sweep would; what was found, again and again while it grows.

    Raises:
        ConfigError: the wiki's settings cannot be used.
        WeboidError: the wiki or the registry cannot be asked.
    """
    settings = parse_settings(wiki.settings).feed
    facts = await source.facts()
    trees = await read_trees(source, settings, facts, now=clock.now())
    criteria = criteria_of(settings, facts, inside=trees.inside, outside=trees.outside)
    rules = await asyncio.to_thread(_rules, store, wiki)
    found = Survey(expected=await source.size(criteria.namespaces))
    yield found
    for at in lists_of(criteria, facts):
        resume = ""
        while True:
            listing = await list_part(source, at, resume)
            ids = [each.page_id for each in listing.pages if each.namespace in criteria.namespaces]
            for some in parts(ids):
                await _look(source, some, Rules(criteria, facts, rules), found)
                yield found
            resume = listing.resume
            if not resume:
                break


async def _look(source: Source, ids: list[int], by: Rules, found: Survey) -> None:
    read = await read_pages(
        source,
        nothing_cited,
        ids=ids,
        is_classed=by.criteria.is_classed,
        items_at=by.criteria.items_at,
    )
    for page in read.pages:
        reason = by.criteria.refusal(page)
        if reason is not None:
            found.refused[reason] += 1
            continue
        found.pages += 1
        urls = links_of(page, by.facts.interwikis)
        found.links.update(link.sort for link in sorted_links(urls, by.links))


def _rules(store: Store, wiki: Wiki) -> WikiRules:
    with store.reading() as connection:
        return RuleBook().rules_of(connection, wiki.id)
