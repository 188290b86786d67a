"""Typed values of the MediaWiki API: site, pages, revisions, changes, JSON fields.

Both formats are read: in the first one a text stands under ``*``, and a flag is there, though empty.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from core.web_dates import parse_web_date
from links.registry.wikis import InterwikiMap
from wiki.api.errors import WikiAwayError


@dataclass(frozen=True, slots=True)
class WikiNamespace:
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
    namespaces: Mapping[int, WikiNamespace]
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

    def parted(self, name: str, *numbers: int) -> tuple[WikiNamespace | None, str]:
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
class PageChange:
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
        statements: what the item says, in the form of `wiki.settings.parse_statement`; nothing without an
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


JSON_TEXT_LIMIT_CHARS: Final = 16 * 1024 * 1024
_MOST: Final = 2**62
_T = TypeVar("_T")


def query_result(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands under ``query``; nothing when it is missing, as in an answer without results.

    Raises:
        WikiAwayError: it is something else.
    """
    found = told.get("query", {})
    if isinstance(found, dict):
        return found
    if found == []:  # PHP's empty array
        return {}
    raise WikiAwayError("The wiki's answer is not of the form that its API has.")


def json_rows(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects in a list, or in an object whose keys are numbers (the first format).

    Raises:
        WikiAwayError: there is something else.
    """
    rows = found.get(name, [])
    if isinstance(rows, dict):
        rows = list(rows.values())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WikiAwayError(f"The wiki's answer is not of the form that its API has ({name}).")
    return rows


def text_field(row: Mapping[str, Any], *names: str) -> str:
    """The first of these that is a text; empty without one."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and len(value) <= JSON_TEXT_LIMIT_CHARS:
            return value
    return ""


def count_field(row: Mapping[str, Any], name: str) -> int:
    """A whole number; 0 when it is missing, hidden or something else."""
    value = row.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if -_MOST < value < _MOST else 0


def bool_field(row: Mapping[str, Any], name: str) -> bool:
    """A flag: true, or there at all in the first format."""
    return row.get(name, False) not in (False, None, 0)


def parse_moment(value: Any) -> datetime:
    """A moment of the API's.

    Raises:
        WikiAwayError: it is none.

    >>> parse_moment("2026-11-21T20:15:00Z").isoformat()
    '2026-11-21T20:15:00+00:00'
    """
    found = parse_web_date(value) if isinstance(value, str) else None
    if found is None:
        raise WikiAwayError("The wiki's answer has something else where a time belongs.")
    return found


def continuation(told: Mapping[str, Any]) -> dict[str, str]:
    """What is to be sent along for the next part; empty at the end."""
    found = told.get("continue")
    if not isinstance(found, dict):
        return {}
    return {str(k): str(v) for k, v in found.items() if isinstance(v, str | int)}


def token_field(told: Mapping[str, Any], kind: str) -> str:
    """The token of that kind.

    Raises:
        WikiAwayError: there is none.
    """
    query = told.get("query")
    tokens = query.get("tokens") if isinstance(query, dict) else None
    found = tokens.get(f"{kind}token") if isinstance(tokens, dict) else None
    if not isinstance(found, str) or not found:
        raise WikiAwayError(f"The wiki gives no {kind} token.")
    return found


def split_batches(values: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """The values in lists that are not longer than that."""
    for start in range(0, len(values), size):
        yield list(values[start : start + size])
