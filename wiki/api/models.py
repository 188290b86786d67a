"""Typed values of the MediaWiki API: site, pages, revisions, changes, JSON fields; its errors.

In format version 1, which is also read, texts are under ``*``, and a flag that is set is an empty string.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Final, TypeVar

from core.errors import InputError, TransientError
from core.web_dates import parse_web_date
from links.registry.wikis import InterwikiMap


class WikiAwayError(TransientError):
    """No usable answer from the wiki: retry later."""

    def __init__(self, text: str, *, retry_s: float = 0.0, is_unsent: bool = False) -> None:
        super().__init__(text)
        self.retry_s = retry_s  # requested pause (Retry-After); 0: none given
        self.is_unsent = is_unsent  # nothing can have been executed


class ReadOnlyError(WikiAwayError):
    """Wiki in read-only mode at the moment."""


class ThrottledError(WikiAwayError):
    """Rate limit reached, or database lag above maxlag."""


class LoggedOutError(InputError):
    """Missing or failed login where the wiki requires one."""


class PermissionDeniedError(InputError):
    """Action denied to the account: block, protection, missing right, abuse filter, captcha."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class WikiRefusedError(InputError):
    """Request refused by the API for another reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"The wiki says {code}: {text}")
        self.code = code


class WikiMovedError(InputError):
    """Redirect of the wiki to another address; secrets are not sent there without confirmation."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The wiki has moved to {address}; run `weboid wiki add {address}` if that is meant.")
        self.address = address


@dataclass(frozen=True, slots=True)
class WikiNamespace:
    """A namespace: number, local and canonical name."""

    id: int
    name: str
    canonical: str


@dataclass(frozen=True)
class SiteFacts:
    """Site information of a wiki."""

    dbname: str  # database name (``wikiid``)
    name: str  # the site's display name
    version: tuple[int, ...]  # of MediaWiki, ``(1, 39, 17)``
    language: str  # content language, ``de``
    server: str  # ``https://de.wikipedia.org``, with a scheme
    pages_url: str  # page URL pattern, with ``$1`` for the title
    namespaces: Mapping[int, WikiNamespace]  # by number
    interwikis: InterwikiMap = field(default_factory=InterwikiMap)  # its interwiki map (W49)
    is_read_only: bool = False  # the wiki is in read-only mode
    read_only_reason: str = ""  # the reason, in read-only mode

    def title_in(self, name: str, *numbers: int) -> str:
        """Return the full title of a name; without a prefix of one of these namespaces it is in the first of them."""
        space, rest = self.parted(name, *numbers)
        if space is not None:
            return f"{space.name}:{rest}"
        first = self.namespaces.get(numbers[0])
        return f"{first.name}:{name}" if first else name

    def parted(self, name: str, *numbers: int) -> tuple[WikiNamespace | None, str]:
        """Split a name into (namespace, rest) for these namespaces; (None, name) without a prefix."""
        head, colon, tail = name.replace("_", " ").partition(":")
        text = " ".join(head.split()).casefold() if colon else ""
        for space in (self.namespaces[each] for each in numbers if each in self.namespaces):
            if text and text in {space.name.casefold(), space.canonical.casefold()}:
                return space, tail.strip()
        return None, name


class ChangeKind(StrEnum):
    """Kind of a page change."""

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
    """One entry of recent changes."""

    rc_id: int  # number of the entry; 0 for sources without one (some streams)
    kind: ChangeKind
    moment: datetime  # time of the change, in whole seconds
    page_id: int  # 0 for a deleted page or a source without page ids (UDP)
    namespace: int
    title: str  # with the namespace's name
    target_title: str = ""
    target_namespace: int = 0


@dataclass(frozen=True)
class WikiPage:
    """Current state of a page."""

    page_id: int  # 0 for an unknown title; for an unknown page id (`is_missing`), that id
    title: str  # with the namespace's name, spaces for underscores
    namespace: int
    is_missing: bool = False
    is_redirect: bool = False
    rev_id: int = 0  # newest revision
    touched: datetime | None = None  # time of that revision
    model: str = "wikitext"  # the content model; only ``wikitext`` has citations (W25)
    links: tuple[str, ...] = ()  # from the link table; normalised since MediaWiki 1.41
    interwiki_links: tuple[tuple[str, str], ...] = ()  # (prefix, title)
    categories: tuple[str, ...] | None = None  # hidden ones too; None: not requested
    templates: tuple[str, ...] | None = None  # with the namespace's name; None: not requested
    text: str | None = None  # wikitext; None when not requested
    item: str | None = None  # Wikidata item, ``Q42``; empty: none; None: not requested
    statements: frozenset[str] | None = None  # as `parse_statement` writes them; None: unknown
    parent_id: int | None = None  # the revision before; 0: none; None: not known
    account: str = ""  # author of the newest revision; empty: not known, or hidden


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a page, as an entry of its history."""

    rev_id: int
    moment: datetime
    user: str
    comment: str
    sha1: str = ""
    tags: tuple[str, ...] = ()  # "mw-reverted", "mw-undo", "mw-rollback"


PAGES_AT_ONCE: Final = 50  # titles or page ids in a request; 500 for accounts with high limits
JSON_TEXT_LIMIT_CHARS: Final = 16 * 1024 * 1024
_MOST: Final = 2**62
_T = TypeVar("_T")


def query_result(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``query`` object, empty when missing. Raises WikiAwayError: it is not an object."""
    value = answer.get("query", {})
    if value != [] and not isinstance(value, dict):
        raise WikiAwayError("The wiki's answer does not match its API.")
    return value or {}  # it may be PHP's empty array


def json_rows(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list or of an object with numeric keys (version 1); raises WikiAwayError."""
    rows = record.get(name, [])
    if isinstance(rows, dict):
        rows = list(rows.values())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WikiAwayError(f"The wiki's answer does not match its API ({name}).")
    return rows


def normalized_titles(query: Mapping[str, Any]) -> dict[str, str]:
    """Return the titles that the wiki writes otherwise than requested."""
    return {text_field(each, "from"): text_field(each, "to") for each in json_rows(query, "normalized")}


def object_field(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that is an object; empty when missing or of another type."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def text_field(row: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is a string; empty without one."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and len(value) <= JSON_TEXT_LIMIT_CHARS:
            return value
    return ""


def count_field(row: Mapping[str, Any], name: str) -> int:
    """Return an integer field; 0 when missing, hidden or of another type."""
    value = row.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if -_MOST < value < _MOST else 0


def bool_field(row: Mapping[str, Any], name: str) -> bool:
    """Return a flag: true, or present in format version 1."""
    return row.get(name, False) not in (False, None, 0)


def parse_moment(value: Any) -> datetime:
    """Parse a timestamp of the API; raises WikiAwayError for any other text.

    >>> parse_moment("2026-11-21T20:15:00Z").isoformat()
    '2026-11-21T20:15:00+00:00'
    """
    moment = parse_web_date(value) if isinstance(value, str) else None
    if moment is None:
        raise WikiAwayError("The wiki's answer has an invalid time.")
    return moment


def continuation(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that continue the query; empty at the end."""
    return {str(k): str(v) for k, v in object_field(answer, "continue").items() if isinstance(v, str | int)}


def token_field(answer: Mapping[str, Any], kind: str) -> str:
    """Return the token of that kind. Raises WikiAwayError: it is missing."""
    text = text_field(object_field(object_field(answer, "query"), "tokens"), f"{kind}token")
    if not text:
        raise WikiAwayError(f"The wiki gives no {kind} token.")
    return text


def split_batches(values: Iterable[_T], size: int = PAGES_AT_ONCE) -> Iterator[list[_T]]:
    """Split values into lists of at most `size`."""
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part
