"""Which pages are observed (W26, W35): inclusion first, then exclusion; nothing here asks the wiki.

A page is observed when it is in a namespace that is named, in or below a category that is named (if any
is), uses a template that is named (if any is), its Wikidata item says what is named (if anything is), it
holds wikitext (W25), and nothing excludes it. Names are compared with spaces for underscores and the
first letter large, those of categories without the namespace. The wiki is asked by names as it has them
itself: some, as Wiktionary does, tell a small first letter from a large one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from wiki.api.facts import SiteFacts, WikiPage
from wiki.settings import FeedSettings
from wiki.statements import parse_entry

TEMPLATES = (10, 828)  # namespaces: Template and, of Scribunto, Module
CATEGORIES = 14


class Refusal(StrEnum):
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
class Criteria:
    """An operator's criteria for one wiki, ready to be applied.

    Attributes:
        namespaces: numbers.
        inside: plain names of categories: a page must be in one of them; None: in none.
        outside: plain names of categories that a page must not be in.
        using: titles of templates: a page must use one of them; None: none.
        not_using: titles of templates that a page must not use.
        saying: entries of `wiki.statements`: a page's item must say one of them; None: none.
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

    def refusal(self, page: WikiPage, *, is_known: bool = False) -> Refusal | None:
        """Why the page is not observed; None: it is.

        What decides and is not known refuses: nothing is archived that nobody wanted. A page that is
        known already and has left the categories stays while another inclusion criterion holds (W27).
        """
        if page.namespace not in self.namespaces:
            return Refusal.NAMESPACE
        if page.model != "wikitext":
            return Refusal.MODEL
        if plain_name(page.title) in self.titles:
            return Refusal.NAMED
        if page.is_redirect and not page.links:
            return Refusal.REDIRECT
        return self._not_included(page, is_known=is_known) or self._excluded(page)

    def _not_included(self, page: WikiPage, *, is_known: bool) -> Refusal | None:
        kinds = (
            (Refusal.UNCATEGORISED, self.inside, _bare_names(page.categories)),
            (Refusal.UNUSED, self.using, _plain_titles(page.templates)),
            (Refusal.UNSAID, self.saying, page.statements),
        )
        holds = {
            refusal: has is not None and bool(has & wanted)
            for refusal, wanted, has in kinds
            if wanted is not None
        }
        if is_known and any(holds.values()) and page.categories is not None:
            holds.pop(Refusal.UNCATEGORISED, None)
        return next((refusal for refusal, is_met in holds.items() if not is_met), None)

    def _excluded(self, page: WikiPage) -> Refusal | None:
        kinds = (
            (Refusal.CATEGORY, self.outside, _bare_names(page.categories)),
            (Refusal.TEMPLATE, self.not_using, _plain_titles(page.templates)),
            (Refusal.PROPERTY, self.not_saying, page.statements),
        )
        for refusal, unwanted, has in kinds:
            if unwanted and (has is None or has & unwanted):
                return refusal
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
    using = _template_titles(settings.templates, facts)
    return Criteria(
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

    >>> from wiki.api.facts import Namespace
    >>> spaces = {14: Namespace(14, "Kategorie", "Category")}
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
    return frozenset(map(parse_entry, texts))
