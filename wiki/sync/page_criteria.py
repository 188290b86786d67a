"""Criteria of observed pages, category trees, and pages that templates affect.

Names are compared with spaces for underscores and an upper-case first letter, those of categories without the
namespace; requests use them as the wiki has them: some wikis, such as Wiktionary, distinguish the first letter's case.

A template's new links appear on its pages after the wiki's job queue has run, without notification: they are read
at once and again after `REPEAT_DELAYS`, unless they are more than `USERS_LIMIT`.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from wiki.api.models import SiteFacts, WikiPage
from wiki.settings import FeedSettings, parse_statement
from wiki.sync.wiki_source import SUBCATEGORIES, WikiSource

TEMPLATES = (10, 828)  # namespaces: Template and, of Scribunto, Module
CATEGORIES = 14


class ExclusionReason(StrEnum):
    """Reason for not observing a page."""

    NAMESPACE = "namespace"
    MODEL = "content-model"
    NAMED = "not-page"
    UNCATEGORISED = "category"
    UNUSED = "template"
    UNSAID = "property"
    CATEGORY = "not-category"
    TEMPLATE = "not-template"
    PROPERTY = "not-property"
    REDIRECT = "redirect"


@dataclass(frozen=True)
class PageCriteria:
    """An operator's compiled criteria for one wiki."""

    namespaces: frozenset[int]  # numbers
    inside: frozenset[str] | None = None  # categories, one is required; None: no condition
    outside: frozenset[str] = frozenset()  # plain names of categories that exclude a page
    using: frozenset[str] | None = None  # templates, one is required; None: no condition
    not_using: frozenset[str] = frozenset()  # titles of templates that exclude a page
    saying: frozenset[str] | None = None  # statements, one is required; None: no condition
    not_saying: frozenset[str] = frozenset()  # entries that exclude a page when its item matches
    titles: frozenset[str] = frozenset()  # of excluded pages
    item_api: str = ""  # the repository's API; empty: the one that the wiki names
    listed: frozenset[str] = frozenset()  # required categories as the wiki has them, else templates

    @property
    def is_classed(self) -> bool:
        """Return True if categories and templates of a page are needed."""
        return self.inside is not None or self.using is not None or bool(self.outside or self.not_using)

    @property
    def items_at(self) -> str | None:
        """Return the repository's API, empty: the one that the wiki names; None: items are not needed."""
        return self.item_api if self.saying is not None or self.not_saying else None

    def refusal(self, page: WikiPage, *, is_known: bool = False) -> ExclusionReason | None:
        """Return the reason for not observing the page, also for an unknown property; None: it is observed.

        A known page that has left the categories stays while another inclusion criterion holds (W27).
        """
        if page.namespace not in self.namespaces:
            return ExclusionReason.NAMESPACE
        if page.model != "wikitext":
            return ExclusionReason.MODEL
        if plain_name(page.title) in self.titles:
            return ExclusionReason.NAMED
        if page.is_redirect and not page.links:
            return ExclusionReason.REDIRECT
        categories = templates = None
        if page.categories is not None:
            categories = _plain_names(map(after_colon, page.categories))
        if page.templates is not None:
            templates = frozenset(map(_plain_title, page.templates))
        required = (
            (ExclusionReason.UNCATEGORISED, self.inside, categories),
            (ExclusionReason.UNUSED, self.using, templates),
            (ExclusionReason.UNSAID, self.saying, page.statements),
        )
        holds = {
            refusal: has is not None and bool(has & wanted) for refusal, wanted, has in required if wanted is not None
        }
        if is_known and any(holds.values()) and categories is not None:
            holds.pop(ExclusionReason.UNCATEGORISED, None)
        excluding = (
            (ExclusionReason.CATEGORY, self.outside, categories),
            (ExclusionReason.TEMPLATE, self.not_using, templates),
            (ExclusionReason.PROPERTY, self.not_saying, page.statements),
        )
        reasons = [refusal for refusal, is_met in holds.items() if not is_met]
        reasons += [refusal for refusal, unwanted, has in excluding if unwanted and (has is None or has & unwanted)]
        return reasons[0] if reasons else None


def compile_criteria(settings: FeedSettings, facts: SiteFacts, trees: "CategoryTrees | None" = None) -> PageCriteria:
    """Compile the criteria in the settings, with the categories below the configured ones."""
    inside, outside = (trees.inside or frozenset(), trees.outside) if trees else (frozenset[str](), frozenset[str]())
    using = _template_titles(settings.templates, facts)
    return PageCriteria(
        namespaces=frozenset(settings.namespaces),
        inside=_plain_names(inside) if settings.categories else None,
        outside=_plain_names(outside),
        using=frozenset(map(_plain_title, using)) or None,
        not_using=frozenset(map(_plain_title, _template_titles(settings.not_templates, facts))),
        saying=frozenset(map(parse_statement, settings.properties)) or None,
        not_saying=frozenset(map(parse_statement, settings.not_properties)),
        titles=frozenset(plain_name(each) for each in settings.not_pages),
        item_api=settings.item_api,
        listed=inside if settings.categories else using,
    )


def plain_name(title: str) -> str:
    """Return the title's comparison form, with its namespace.

    >>> plain_name(" main_page "), plain_name("talk:x")
    ('Main page', 'Talk:x')
    """
    text = _spaced(title)
    return text[:1].upper() + text[1:]


def category_name(title: str, facts: SiteFacts) -> str:
    """Return the category's name without its namespace prefix, in any of the namespace's names.

    >>> from wiki.api.models import WikiNamespace
    >>> spaces = {14: WikiNamespace(14, "Kategorie", "Category")}
    >>> facts = SiteFacts("w", "W", (1, 39), "de", "https://w.example", "https://w.example/$1", spaces)
    >>> category_name("Category:foo bar", facts), category_name("kategorie:Foo", facts)
    ('foo bar', 'Foo')
    """
    return _spaced(facts.parted(title, CATEGORIES)[1])


def after_colon(title: str) -> str:
    """Return a page's name without its namespace, for a title known to have one.

    >>> after_colon("Kategorie:foo: bar")
    'foo: bar'
    """
    return _spaced(title.partition(":")[2])


def _plain_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(plain_name, names))


def _spaced(title: str) -> str:
    return " ".join(title.replace("_", " ").split())


def _plain_title(title: str) -> str:
    head, colon, tail = title.partition(":")
    return f"{head}:{plain_name(tail)}" if colon else plain_name(title)


def _template_titles(names: Iterable[str], facts: SiteFacts) -> frozenset[str]:
    return frozenset(_spaced(facts.title_in(each, *TEMPLATES)) for each in names)


TREE_LIMIT = 20_000  # categories
TREES_KEPT = timedelta(hours=1)
TREES_MIN_AGE = timedelta(seconds=30)  # minimum time between two readings, however often a category changes


@dataclass(frozen=True)
class CategoryTrees:
    """Category trees at one time."""

    inside: frozenset[str] | None  # all including categories; None: none configured
    outside: frozenset[str]  # the same for excluding ones
    named: tuple[object, ...]  # the configured categories for which these were read
    read_at: datetime  # time of reading
    is_whole: bool = True  # the tree was within the size limit


def named_categories(settings: FeedSettings) -> tuple[object, ...]:
    """Return the settings that determine the trees."""
    return (settings.categories, settings.not_categories, settings.category_depth)


def are_trees_due(trees: CategoryTrees | None, settings: FeedSettings, *, now: datetime, is_changed: bool) -> bool:
    """Return True if the trees must be read again."""
    if trees is None or trees.named != named_categories(settings):
        return True
    if not settings.categories and not settings.not_categories:
        return False
    age = now - trees.read_at
    return age >= TREES_KEPT or age < timedelta(0) or (is_changed and age >= TREES_MIN_AGE)


async def read_trees(source: WikiSource, settings: FeedSettings, facts: SiteFacts, *, now: datetime) -> CategoryTrees:
    """Read the current trees. Raises WeboidError: the wiki is unavailable; the known trees stay."""
    inside, is_whole = await categories_below(source, settings.categories, settings, facts)
    outside, is_other_whole = await categories_below(source, settings.not_categories, settings, facts)
    return CategoryTrees(
        inside if settings.categories else None, outside, named_categories(settings), now, is_whole and is_other_whole
    )


def category_title(name: str, facts: SiteFacts) -> str:
    """Return the full title of a category for the wiki's API."""
    space = facts.namespaces.get(CATEGORIES)
    return f"{space.name if space and space.name else 'Category'}:{name}"


async def categories_below(
    source: WikiSource, roots: Iterable[str], settings: FeedSettings, facts: SiteFacts
) -> tuple[frozenset[str], bool]:
    """Return all categories down to the depth limit, and whether the tree is complete; cycles are safe."""
    level = {category_name(each, facts) for each in roots}
    categories = set(level)
    for _ in range(max(settings.category_depth, 0)):
        below: set[str] = set()
        for name in sorted(level):
            title = category_title(name, facts)
            async for part in source.whole_listing(SUBCATEGORIES, title):
                below.update(after_colon(each.title) for each in part.pages)
                if len(categories) + len(below) > TREE_LIMIT:
                    return frozenset(sorted(categories | below)[:TREE_LIMIT]), False
        level = below - categories
        categories |= level
        if not level:
            break
    return frozenset(categories), True


REPEAT_DELAYS = (
    *(timedelta(seconds=20), timedelta(minutes=5)),
    *(timedelta(hours=1), timedelta(hours=6)),
)  # after the change
USERS_LIMIT = 5_000
TASKS_LIMIT = 1_000
_TITLE_LIMIT = 1_024


_T = TypeVar("_T")


def parse_cursor(text: str, read: Callable[[Any], _T], default: _T) -> _T:
    """Read the JSON of a stored cursor; the default when it is empty or invalid."""
    try:
        return read(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return default


@dataclass(frozen=True, slots=True)
class ListTask:
    """List of pages to be read."""

    kind: str  # ``template``, ``category`` or ``namespace``
    title: str  # of the template or category; a namespace's number
    began: int  # time of the change, in seconds since 1970
    due: int  # time of the next part
    resume: str = ""  # position in the list
    step: int = 0  # number of completed passes
    pages: int = 0  # pages of this pass


def read_tasks(text: str) -> tuple[ListTask, ...]:
    """Parse the tasks in a cursor; invalid ones are left to the sweep."""
    return parse_cursor(text, lambda listed: tuple(ListTask(**each) for each in listed), ())


def tasks_text(tasks: Iterable[ListTask]) -> str:
    """Format the tasks as a cursor."""
    return json.dumps([asdict(task) for task in tasks])


def add_tasks(tasks: Iterable[ListTask], lists: Iterable[tuple[str, str]], *, now: datetime) -> tuple[ListTask, ...]:
    """Add a task for each list (kind, title); a repeated change of a template restarts its task."""
    moment = int(now.timestamp())
    tasks_by_list = {(task.kind, task.title): task for task in tasks}
    for kind, title in lists:
        due = moment
        if kind == "template":
            tasks_by_list.pop((kind, title), None)
            due = int((now + REPEAT_DELAYS[0]).timestamp())
        tasks_by_list.setdefault((kind, title), ListTask(kind, title[:_TITLE_LIMIT], moment, due))
    return tuple(tasks_by_list.values())[-TASKS_LIMIT:]


def next_task(tasks: Iterable[ListTask], *, now: datetime) -> ListTask | None:
    """Return the task that has been due longest."""
    due = [task for task in tasks if task.due <= now.timestamp()]
    return min(due, key=lambda task: (task.due, task.kind, task.title), default=None)


def advance_task(tasks: Iterable[ListTask], task: ListTask, resume: str, more: int) -> tuple[ListTask, ...]:
    """Return the tasks after a part of one list was read; `resume` is empty at its end."""
    others = [each for each in tasks if (each.kind, each.title) != (task.kind, task.title)]
    pages = task.pages + more
    if resume and (task.kind != "template" or pages < USERS_LIMIT):
        return (*others, replace(task, resume=resume, pages=pages))
    step = task.step + 1
    if task.kind != "template" or step >= len(REPEAT_DELAYS):
        return tuple(others)
    due = task.began + int(REPEAT_DELAYS[step].total_seconds())
    return (*others, replace(task, resume="", pages=0, step=step, due=due))
