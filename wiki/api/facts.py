"""What a wiki's API tells, as values; whatever version of MediaWiki it is (1.35 to 1.45)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from links.interwiki import InterwikiMap


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace: its number, its name here and in English, and whether it holds articles."""

    id: int
    name: str
    canonical: str
    is_content: bool = False


@dataclass(frozen=True)
class SiteFacts:
    """A wiki as it describes itself.

    Attributes:
        dbname: its database's name (``wikiid``).
        name: the site's name for people.
        version: of MediaWiki, ``(1, 39, 17)``.
        language: of its content, ``de``.
        server: ``https://de.wikipedia.org``, with a scheme.
        pages_url: of a page, with ``$1`` for its title.
        namespaces: by their numbers.
        interwikis: its map (W49).
        extensions: names of those that are installed.
        is_read_only: nothing can be written at the moment.
        read_only_reason: why, when it is.
        recent_days: for how long it keeps recent changes, when it tells; 90 is MediaWiki's own.
    """

    dbname: str
    name: str
    version: tuple[int, ...]
    language: str
    server: str
    pages_url: str
    namespaces: Mapping[int, Namespace]
    interwikis: InterwikiMap = field(default_factory=InterwikiMap)
    extensions: frozenset[str] = frozenset()
    is_read_only: bool = False
    read_only_reason: str = ""
    recent_days: int = 90

    def title_in(self, name: str, *numbers: int) -> str:
        """The title that a name means, when a page of these namespaces is meant.

        Args:
            name: with one of these namespaces before it, in English or the wiki's language; without any,
                a page of the first is meant.
            numbers: of the namespaces.
        """
        space, rest = self.parted(name, *numbers)
        if space is not None:
            return f"{space.name}:{rest}"
        first = self.namespaces.get(numbers[0])
        return f"{first.name}:{name}" if first else name

    def parted(self, name: str, *numbers: int) -> tuple[Namespace | None, str]:
        """Which of these namespaces stands before a name, and the rest; without one None, and the name."""
        head, colon, tail = name.replace("_", " ").partition(":")
        said = " ".join(head.split()).casefold() if colon else ""
        for space in (self.namespaces[each] for each in numbers if each in self.namespaces):
            if said and said in {space.name.casefold(), space.canonical.casefold()}:
                return space, tail.strip()
        return None, name


class ChangeKind(StrEnum):
    """What happened to a page."""

    EDIT = "edit"
    NEW = "new"
    MOVE = "move"  # `target_title` is its name now; `page_id` stays
    DELETE = "delete"
    RESTORE = "restore"
    IMPORT = "import"
    MERGE = "merge"  # histories of two pages
    OTHER = "other"  # a log entry that changes no page's links


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of recent changes.

    Attributes:
        rc_id: the wiki's number for it; 0 when it comes from elsewhere (a stream without one).
        moment: when, to the second as the wiki keeps it.
        page_id: 0 when the page is gone or the source does not tell it (UDP).
        title: with the namespace's name.
        rev_id: the revision that was made; 0 without one.
    """

    rc_id: int
    kind: ChangeKind
    moment: datetime
    page_id: int
    namespace: int
    title: str
    rev_id: int = 0
    old_rev_id: int = 0
    user: str = ""
    is_bot: bool = False
    target_title: str = ""
    target_namespace: int = 0


@dataclass(frozen=True)
class WikiPage:
    """A page as it is now.

    Attributes:
        page_id: 0 when there is no page of that title; when there is none of that number
            (`is_missing`), the number.
        title: with the namespace's name, spaces for underscores.
        rev_id: its newest revision.
        touched: when that was made.
        parent_id: the revision before; 0: there is none; None: not known.
        account: who made the newest; empty: not known, or hidden.
        model: the content model; only ``wikitext`` has citations (W25).
        links: external links, as its table of links has them: as they were written, from MediaWiki
            1.41 on in a normal form, with a scheme.
        interwiki_links: (prefix, title).
        categories: with the namespace's name, hidden ones too; None when not asked for.
        templates: that it uses, with the namespace's name; None when not asked for.
        text: wikitext; None when not asked for.
        item: its Wikidata item, ``Q42``; empty: it has none; None when not asked for.
        statements: what the item says, in the form of `wiki.statements.parse_entry`; nothing without an
            item; None: not known.
    """

    page_id: int
    title: str
    namespace: int
    is_missing: bool = False
    is_redirect: bool = False
    rev_id: int = 0
    touched: datetime | None = None
    model: str = "wikitext"
    links: tuple[str, ...] = ()
    interwiki_links: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] | None = None
    templates: tuple[str, ...] | None = None
    text: str | None = None
    item: str | None = None
    statements: frozenset[str] | None = None
    parent_id: int | None = None
    account: str = ""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a page, for its history."""

    rev_id: int
    parent_id: int
    moment: datetime
    user: str
    comment: str
    sha1: str = ""
    tags: tuple[str, ...] = ()  # "mw-reverted", "mw-undo", "mw-rollback"
    text: str | None = None
