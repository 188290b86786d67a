"""Criteria of observed pages, category trees, and pages that templates affect.

A page is observed when it is in a namespace that is named, in or below a category that is named (if any
is), uses a template that is named (if any is), its Wikidata item says what is named (if anything is), it
holds wikitext (W25), and nothing excludes it. Names are compared with spaces for underscores and the
first letter large, those of categories without the namespace. The wiki is asked by names as it has them
itself: some, as Wiktionary does, tell a small first letter from a large one.

A tree of categories changes without a change to any page in it: when one category is put into another.
Then the pages of the categories that are new in the tree are looked at, a part at a time.

A template's new links come to the pages that use it when the wiki's job queue has run, which nobody
tells us. So these pages are read at once and again after a while, `REPEAT_DELAYS` tells when. What stands in
more than `USERS_LIMIT` pages is left to the sweep. The lists are kept in the registry, as feeds.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from wiki.api.models import SiteFacts, WikiPage
from wiki.settings import FeedSettings, parse_statement
from wiki.sync.wiki_source import WikiSource

TEMPLATES = (10, 828)  # namespaces: Template and, of Scribunto, Module
CATEGORIES = 14


class ExclusionReason(StrEnum):
    """Why a page is not observed."""

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
    """An operator's criteria for one wiki, ready to be applied.

    Attributes:
        namespaces: numbers.
        inside: plain names of categories: a page must be in one of them; None: in none.
        outside: plain names of categories that a page must not be in.
        using: titles of templates: a page must use one of them; None: none.
        not_using: titles of templates that a page must not use.
        saying: entries of `wiki.settings`: a page's item must say one of them; None: none.
        not_saying: entries of which a page's item must say none.
        titles: of pages that are not observed.
        item_api: where items are asked for; empty: where the wiki says.
        listed: the names of the categories that a page must be in, as the wiki has them; without any,
            the titles of the templates.
    """

    namespaces: frozenset[int]
    inside: frozenset[str] | None = None
    outside: frozenset[str] = frozenset()
    using: frozenset[str] | None = None
    not_using: frozenset[str] = frozenset()
    saying: frozenset[str] | None = None
    not_saying: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    item_api: str = ""
    listed: frozenset[str] = frozenset()

    @property
    def is_classed(self) -> bool:
        """Whether categories and templates of a page must be known."""
        is_including = self.inside is not None or self.using is not None
        return is_including or bool(self.outside) or bool(self.not_using)

    @property
    def items_at(self) -> str | None:
        """Where items are to be asked for, empty: where the wiki says; None: nothing need be known."""
        return self.item_api if self.saying is not None or self.not_saying else None

    def refusal(self, page: WikiPage, *, is_known: bool = False) -> ExclusionReason | None:
        """Why the page is not observed; None: it is.

        What decides and is not known refuses: nothing is archived that nobody wanted. A page that is
        known already and has left the categories stays while another inclusion criterion holds (W27).
        """
        if page.namespace not in self.namespaces:
            return ExclusionReason.NAMESPACE
        if page.model != "wikitext":
            return ExclusionReason.MODEL
        if plain_name(page.title) in self.titles:
            return ExclusionReason.NAMED
        if page.is_redirect and not page.links:
            return ExclusionReason.REDIRECT
        return self._not_included(page, is_known=is_known) or self._excluded(page)

    def _not_included(self, page: WikiPage, *, is_known: bool) -> ExclusionReason | None:
        kinds = (
            (ExclusionReason.UNCATEGORISED, self.inside, _bare_names(page.categories)),
            (ExclusionReason.UNUSED, self.using, _plain_titles(page.templates)),
            (ExclusionReason.UNSAID, self.saying, page.statements),
        )
        holds = {
            refusal: has is not None and bool(has & wanted)
            for refusal, wanted, has in kinds
            if wanted is not None
        }
        if is_known and any(holds.values()) and page.categories is not None:
            holds.pop(ExclusionReason.UNCATEGORISED, None)
        return next((refusal for refusal, is_met in holds.items() if not is_met), None)

    def _excluded(self, page: WikiPage) -> ExclusionReason | None:
        kinds = (
            (ExclusionReason.CATEGORY, self.outside, _bare_names(page.categories)),
            (ExclusionReason.TEMPLATE, self.not_using, _plain_titles(page.templates)),
            (ExclusionReason.PROPERTY, self.not_saying, page.statements),
        )
        for refusal, unwanted, has in kinds:
            if unwanted and (has is None or has & unwanted):
                return refusal
        return None


def compile_criteria(
    settings: FeedSettings,
    facts: SiteFacts,
    *,
    inside: frozenset[str] | None = None,
    outside: frozenset[str] = frozenset(),
) -> PageCriteria:
    """The criteria that the settings say.

    Args:
        settings: the operator's.
        facts: the wiki's names of namespaces.
        inside: all categories that are named or below these; None: none is named.
        outside: the same of those that exclude.
    """
    using = _template_titles(settings.templates, facts)
    return PageCriteria(
        namespaces=frozenset(settings.namespaces),
        inside=_plain_names(inside or ()) if settings.categories else None,
        outside=_plain_names(outside),
        using=frozenset(map(_plain_title, using)) if using else None,
        not_using=frozenset(map(_plain_title, _template_titles(settings.not_templates, facts))),
        saying=_entries(settings.properties) if settings.properties else None,
        not_saying=_entries(settings.not_properties),
        titles=frozenset(plain_name(each) for each in settings.not_pages),
        item_api=settings.item_api,
        listed=(inside or frozenset()) if settings.categories else using,
    )


def plain_name(title: str) -> str:
    """The title as it is compared, its namespace kept.

    >>> plain_name(" main_page "), plain_name("talk:x")
    ('Main page', 'Talk:x')
    """
    text = _spaced(title)
    return text[:1].upper() + text[1:]


def category_name(title: str, facts: SiteFacts) -> str:
    """The category's name without the namespace, if that stands before it, under whatever name.

    >>> from wiki.api.models import WikiNamespace
    >>> spaces = {14: WikiNamespace(14, "Kategorie", "Category")}
    >>> facts = SiteFacts("w", "W", (1, 39), "de", "https://w.example", "https://w.example/$1", spaces)
    >>> category_name("Category:foo bar", facts), category_name("kategorie:Foo", facts)
    ('foo bar', 'Foo')
    """
    return _spaced(facts.parted(title, CATEGORIES)[1])


def after_colon(title: str) -> str:
    """A page's name without its namespace, when the title is known to have one.

    >>> after_colon("Kategorie:foo: bar")
    'foo: bar'
    """
    return _spaced(title.partition(":")[2])


def _bare_names(titles: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if titles is None else _plain_names(map(after_colon, titles))


def _plain_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(plain_name, names))


def _spaced(title: str) -> str:
    return " ".join(title.replace("_", " ").split())


def _plain_titles(titles: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if titles is None else frozenset(map(_plain_title, titles))


def _plain_title(title: str) -> str:
    head, colon, tail = title.partition(":")
    return f"{head}:{plain_name(tail)}" if colon else plain_name(title)


def _template_titles(names: Iterable[str], facts: SiteFacts) -> frozenset[str]:
    return frozenset(_spaced(facts.title_in(each, *TEMPLATES)) for each in names)


def _entries(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(map(parse_statement, texts))


TREE_LIMIT = 20_000  # categories
TREES_KEPT = timedelta(hours=1)
TREES_MIN_AGE = timedelta(seconds=30)  # between two readings, however often a category is changed


@dataclass(frozen=True)
class CategoryTrees:
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


def named_categories(settings: FeedSettings) -> tuple[object, ...]:
    """What of the settings decides on the trees."""
    return (settings.categories, settings.not_categories, settings.category_depth)


def are_trees_due(
    trees: CategoryTrees | None, settings: FeedSettings, *, now: datetime, is_changed: bool
) -> bool:
    """Whether the trees are to be read anew."""
    if trees is None or trees.named != named_categories(settings):
        return True
    if not settings.categories and not settings.not_categories:
        return False
    age = now - trees.read_at
    return age >= TREES_KEPT or age < timedelta(0) or (is_changed and age >= TREES_MIN_AGE)


async def read_trees(
    source: WikiSource, settings: FeedSettings, facts: SiteFacts, *, now: datetime
) -> CategoryTrees:
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
    return CategoryTrees(
        inside if settings.categories else None,
        outside,
        named_categories(settings),
        now,
        is_whole and is_other_whole,
    )


def category_title(name: str, facts: SiteFacts) -> str:
    """The category of that name, as the wiki's API takes it."""
    space = facts.namespaces.get(CATEGORIES)
    return f"{space.name if space and space.name else 'Category'}:{name}"


async def categories_below(
    source: WikiSource, roots: Iterable[str], settings: FeedSettings, facts: SiteFacts
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


REPEAT_DELAYS = (
    *(timedelta(seconds=20), timedelta(minutes=5)),
    *(timedelta(hours=1), timedelta(hours=6)),
)  # after the change
USERS_LIMIT = 5_000
TASKS_LIMIT = 1_000
_TITLE_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class ListTask:
    """A list of pages that are to be read.

    Attributes:
        kind: ``template``, ``category`` or ``namespace``.
        title: whose users or members; a namespace's number.
        began: seconds since 1970, when it changed.
        due: when to go on.
        resume: where in the list.
        step: how often the list was gone through.
        found: pages of this round.
    """

    kind: str
    title: str
    began: int
    due: int
    resume: str = ""
    step: int = 0
    found: int = 0


def read_tasks(text: str) -> tuple[ListTask, ...]:
    """The tasks in a cursor; those that cannot be read are left to the sweep."""
    try:
        return tuple(ListTask(**each) for each in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()


def tasks_text(tasks: Iterable[ListTask]) -> str:
    """The tasks as a cursor."""
    return json.dumps([asdict(task) for task in tasks])


def begin_tasks(
    tasks: Iterable[ListTask], templates: Iterable[str], categories: Iterable[str], *, now: datetime
) -> tuple[ListTask, ...]:
    """The tasks and those that changes bring; one that changes again begins anew."""
    moment = int(now.timestamp())
    found = {(task.kind, task.title): task for task in tasks}
    for title in templates:
        first = int((now + REPEAT_DELAYS[0]).timestamp())
        found.pop(("template", title), None)
        found["template", title] = ListTask("template", title[:_TITLE_LIMIT], moment, first)
    for title in categories:
        found.setdefault(
            ("category", title), ListTask("category", title[:_TITLE_LIMIT], moment, moment)
        )
    return tuple(found.values())[-TASKS_LIMIT:]


def add_ordered_tasks(
    tasks: Iterable[ListTask], lists: Iterable[tuple[str, str]], *, now: datetime
) -> tuple[ListTask, ...]:
    """Return the tasks and one for each of the lists that somebody wants read now, by kind and title."""
    moment = int(now.timestamp())
    found = {(task.kind, task.title): task for task in tasks}
    for kind, title in lists:
        found.setdefault((kind, title), ListTask(kind, title[:_TITLE_LIMIT], moment, moment))
    return tuple(found.values())[-TASKS_LIMIT:]


def next_task(tasks: Iterable[ListTask], *, now: datetime) -> ListTask | None:
    """The task that has been due longest."""
    due = [task for task in tasks if task.due <= now.timestamp()]
    return min(due, key=lambda task: (task.due, task.kind, task.title), default=None)


def advance_task(
    tasks: Iterable[ListTask], task: ListTask, resume: str, more: int
) -> tuple[ListTask, ...]:
    """The tasks after a part of one's list was gone through.

    Args:
        tasks: all.
        task: that one.
        resume: where its list goes on; empty: it is at its end.
        more: how many pages that part had.
    """
    others = [each for each in tasks if (each.kind, each.title) != (task.kind, task.title)]
    found = task.found + more
    if resume and (task.kind != "template" or found < USERS_LIMIT):
        return (*others, replace(task, resume=resume, found=found))
    step = task.step + 1
    if task.kind != "template" or step >= len(REPEAT_DELAYS):
        return tuple(others)
    due = task.began + int(REPEAT_DELAYS[step].total_seconds())
    return (*others, replace(task, resume="", found=0, step=step, due=due))
