"""Which pages are observed (W26, W35): inclusion first, then exclusion; nothing here asks the wiki.

A page is observed when it is in a namespace that is named, in or below a category that is named (if any
is), holds wikitext (W25), and nothing excludes it. Names are compared as MediaWiki compares them: without
the namespace, spaces for underscores, the first letter large.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from wiki.api.facts import Namespace, SiteFacts, WikiPage
from wiki.settings import FeedSettings

TEMPLATES = (10, 828)  # namespaces: Template and, of Scribunto, Module
CATEGORIES = 14


class Refusal(StrEnum):
    """Why a page is not observed."""

    NAMESPACE = "namespace"
    MODEL = "content-model"
    NAMED = "not-page"
    UNCATEGORISED = "category"
    CATEGORY = "not-category"
    TEMPLATE = "not-template"
    REDIRECT = "redirect"


@dataclass(frozen=True)
class Criteria:
    """An operator's criteria for one wiki, ready to be applied.

    Attributes:
        namespaces: numbers.
        inside: plain names of categories: a page must be in one of them; None: in none.
        outside: plain names of categories that a page must not be in.
        templates: plain names of templates that a page must not use.
        titles: of pages that are not observed.
    """

    namespaces: frozenset[int]
    inside: frozenset[str] | None = None
    outside: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()

    @property
    def is_classed(self) -> bool:
        """Whether categories and templates of a page must be known."""
        return self.inside is not None or bool(self.outside) or bool(self.templates)

    def refusal(self, page: WikiPage) -> Refusal | None:
        """Why the page is not observed; None: it is.

        What decides and is not known refuses: nothing is archived that nobody wanted.
        """
        if page.namespace not in self.namespaces:
            return Refusal.NAMESPACE
        if page.model != "wikitext":
            return Refusal.MODEL
        if plain_name(page.title) in self.titles:
            return Refusal.NAMED
        if page.is_redirect and not page.links:
            return Refusal.REDIRECT
        return self._by_class(page) if self.is_classed else None

    def _by_class(self, page: WikiPage) -> Refusal | None:
        categories = _bare_names(page.categories)
        if self.inside is not None and (categories is None or not categories & self.inside):
            return Refusal.UNCATEGORISED
        if self.outside and (categories is None or categories & self.outside):
            return Refusal.CATEGORY
        templates = _bare_names(page.templates)
        if self.templates and (templates is None or templates & self.templates):
            return Refusal.TEMPLATE
        return None


def criteria_of(
    settings: FeedSettings,
    facts: SiteFacts,
    *,
    inside: frozenset[str] | None = None,
    outside: frozenset[str] = frozenset(),
) -> Criteria:
    """The criteria that the settings say.

    Args:
        settings: the operator's.
        facts: the wiki's names of namespaces.
        inside: all categories that are named or below these; None: none is named.
        outside: the same of those that exclude.
    """
    return Criteria(
        namespaces=frozenset(settings.namespaces),
        inside=inside if settings.categories else None,
        outside=outside,
        templates=frozenset(
            bare_name(each, facts.namespaces, TEMPLATES) for each in settings.not_templates
        ),
        titles=frozenset(plain_name(each) for each in settings.not_pages),
    )


def plain_name(title: str) -> str:
    """The title as it is compared, its namespace kept.

    >>> plain_name(" main_page "), plain_name("talk:x")
    ('Main page', 'Talk:x')
    """
    text = " ".join(title.replace("_", " ").split())
    return text[:1].upper() + text[1:]


def bare_name(title: str, namespaces: Mapping[int, Namespace], kinds: Iterable[int]) -> str:
    """The name without its namespace, if that is one of these kinds, under whatever name.

    >>> spaces = {14: Namespace(14, "Kategorie", "Category")}
    >>> bare_name("Category:foo bar", spaces, (14,)), bare_name("kategorie:Foo", spaces, (14,))
    ('Foo bar', 'Foo')
    """
    head, colon, tail = title.replace("_", " ").partition(":")
    if colon:
        known = {"category"} if CATEGORIES in kinds else {"template", "module"}
        for kind in kinds:
            if kind in namespaces:
                known |= {namespaces[kind].name.casefold(), namespaces[kind].canonical.casefold()}
        if " ".join(head.split()).casefold() in known:
            return plain_name(tail)
    return plain_name(title)


def after_colon(title: str) -> str:
    """A page's name without its namespace, when the title is known to have one.

    >>> after_colon("Kategorie:foo: bar")
    'Foo: bar'
    """
    return plain_name(title.partition(":")[2])


def _bare_names(titles: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if titles is None else frozenset(map(after_colon, titles))
