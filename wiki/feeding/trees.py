"""The categories below those that an operator named, read from the wiki and kept for a while (W27).

A tree of categories changes without a change to any page in it: when one category is put into another.
Then the pages of the categories that are new in the tree are looked at, a part at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from wiki.api.facts import SiteFacts
from wiki.feeding.criteria import CATEGORIES, after_colon, category_name
from wiki.feeding.source import Source
from wiki.settings import FeedSettings

TREE_LIMIT = 20_000  # categories
KEPT = timedelta(hours=1)
SOONEST = timedelta(seconds=30)  # between two readings, however often a category is changed


@dataclass(frozen=True)
class Trees:
    """The categories at one moment.

    Attributes:
        inside: names of all that include a page, as the wiki has them; None: none was named.
        outside: the same of all that exclude one.
        named: what the operator named, for which these were read.
        read_at: when.
        is_whole: the tree was not too large to be read.
    """

    inside: frozenset[str] | None
    outside: frozenset[str]
    named: tuple[object, ...]
    read_at: datetime
    is_whole: bool = True


def named_in(settings: FeedSettings) -> tuple[object, ...]:
    """What of the settings decides on the trees."""
    return (settings.categories, settings.not_categories, settings.category_depth)


def is_due(trees: Trees | None, settings: FeedSettings, *, now: datetime, is_changed: bool) -> bool:
    """Whether the trees are to be read anew."""
    if trees is None or trees.named != named_in(settings):
        return True
    if not settings.categories and not settings.not_categories:
        return False
    age = now - trees.read_at
    return age >= KEPT or age < timedelta(0) or (is_changed and age >= SOONEST)


async def read_trees(
    source: Source, settings: FeedSettings, facts: SiteFacts, *, now: datetime
) -> Trees:
    """The trees as they are now.

    Raises:
        WeboidError: the wiki could not be asked; what was known stays.
    """
    inside, is_whole = frozenset[str](), True
    outside, is_other_whole = frozenset[str](), True
    if settings.categories:
        inside, is_whole = await categories_below(source, settings.categories, settings, facts)
    if settings.not_categories:
        outside, is_other_whole = await categories_below(
            source, settings.not_categories, settings, facts
        )
    return Trees(
        inside if settings.categories else None,
        outside,
        named_in(settings),
        now,
        is_whole and is_other_whole,
    )


def category_title(name: str, facts: SiteFacts) -> str:
    """The category of that name, as the wiki's API takes it."""
    space = facts.namespaces.get(CATEGORIES)
    return f"{space.name if space and space.name else 'Category'}:{name}"


async def categories_below(
    source: Source, roots: Iterable[str], settings: FeedSettings, facts: SiteFacts
) -> tuple[frozenset[str], bool]:
    """All categories down to the depth, each once whatever circles there are; and whether that is all."""
    level = {category_name(each, facts) for each in roots}
    found = set(level)
    for _ in range(max(settings.category_depth, 0)):
        below: set[str] = set()
        for name in sorted(level):
            resume = ""
            while True:
                part = await source.members(
                    category_title(name, facts), resume, are_categories=True
                )
                below.update(after_colon(each.title) for each in part.pages)
                if len(found) + len(below) > TREE_LIMIT:
                    return frozenset(sorted(found | below)[:TREE_LIMIT]), False
                resume = part.resume
                if not resume:
                    break
        level = below - found
        found |= level
        if not level:
            break
    return frozenset(found), True
