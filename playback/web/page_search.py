"""Search for pages by site, URL prefix, and words of title or URL; newest first, paged by key.

Sites and addresses are ranges of the index by replay key: a range with few pages is read and sorted; one with many is
found among the newest pages. Words are searched in the newest `MOST_READ` pages, in fewer where the disk is slow, and
in as many again for the next page of results; `PageSearchResult.read_to` is the limit reached (`docs/reference/front.md`).
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import product
from typing import Any

from core.errors import BadUrlError
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from core.url_keys import replay_key
from playback.web.page_store import COLUMNS, CapturedPage, PageStore
from warc.index.database import KEY_CHARACTERS, IndexDatabase, escape_like
from warc.index.queries import other_scheme

PAGE_SIZE = 50
MOST_READ = 100_000  # pages that one query examines
_PARTS, _LONGEST_S = 10, 0.1  # of these pages, read one after the other, and the time after which no other one is
_FEW = 10_000  # pages that are sorted for one answer
_MOST_ROUNDS = 10  # for one part, when much of it is hidden
_LONGEST = 500  # characters
_MOST_WORDS = 8
_PREFIXED = re.compile(r"(host|site|url|title|text)\s*:(?!//)\s*(.*)", re.IGNORECASE | re.DOTALL)
_CURSOR = re.compile(r"(-?\d{1,16})\.([0-9A-Za-z_-]{1,64})", re.ASCII)
_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:\*\.)?([^/?#\s@]+?)(?::\d*)?(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
# Characters after a host's labels in a replay key: its end, a subdomain's label, a port.
_AFTER_HOST = ((")", "*"), (",", "-"), (":", ";"))


class SearchField(StrEnum):
    """Fields to search."""

    ANY = "any"
    TEXT = "text"  # full text, titles and addresses (`playback.web.text_search`); as ANY without such an index
    TITLE = "title"
    URL = "url"  # how the address begins
    HOST = "host"  # the site and its subdomains


@dataclass(frozen=True, slots=True)
class PageSearchQuery:
    """Search query; without words, all pages match."""

    where: SearchField
    words: str


@dataclass(frozen=True, slots=True)
class PageListCursor:
    """Position in a list: the key of a page."""

    captured_ms: int
    page_id: str

    def __str__(self) -> str:
        return f"{self.captured_ms}.{self.page_id}"


@dataclass(frozen=True, slots=True)
class PageSearchResult:
    """Page of results, newest first."""

    question: PageSearchQuery  # the query used; a URL entered as words is searched as URL
    pages: tuple[CapturedPage, ...]
    older: PageListCursor | None  # start of the next page of results; None at the end
    newer: PageListCursor | None  # end of the previous page of results; None at the beginning
    read_to: datetime | None  # where the bounded search stopped; None when it was complete


def parse_question(text: str, where: str = "") -> PageSearchQuery:
    """Parse the reader's input; ``host:``, ``url:``, ``title:`` or ``text:`` override `where`.

    >>> parse_question("title: to be")
    PageSearchQuery(where=<SearchField.TITLE: 'title'>, words='to be')
    >>> parse_question("https://a.example/", "any")
    PageSearchQuery(where=<SearchField.ANY: 'any'>, words='https://a.example/')
    """
    text = text.replace("\0", "").strip()[:_LONGEST]
    match = _PREFIXED.fullmatch(text)
    if match is not None:
        name = match[1].lower()
        return PageSearchQuery(SearchField.HOST if name == "site" else SearchField(name), match[2].strip())
    return PageSearchQuery(SearchField(where) if where in set(SearchField) else SearchField.ANY, text)


def parse_cursor(text: str) -> PageListCursor | None:
    """Parse a cursor from an address; None for any other text."""
    match = _CURSOR.fullmatch(text)
    return PageListCursor(int(match[1]), match[2]) if match else None


@dataclass(frozen=True)
class PageSearch:
    """Search in a captures index. Thread-safe; TransientError when the index cannot be read."""

    database: IndexDatabase
    store: PageStore
    most_read: int = MOST_READ
    monotonic: Callable[[], float] = time.monotonic

    def find(
        self, question: PageSearchQuery, *, before: PageListCursor | None = None, after: PageListCursor | None = None
    ) -> PageSearchResult:
        """Return the newest pages; with `before` older ones, with `after` the next newer ones."""
        is_address = question.words.lower().startswith(("http://", "https://"))
        if question.where is SearchField.ANY and is_address and before is None and after is None:
            url_matches = self.find(PageSearchQuery(SearchField.URL, question.words))
            if url_matches.pages:
                return url_matches
        condition = self._condition(question)
        if condition is None:
            return PageSearchResult(question, (), None, None, None)
        at, newer_wanted = (after, True) if after is not None else (before, False)
        pages, read_to = self._shown(question, condition, at, newer_wanted=newer_wanted)
        has_more = len(pages) > PAGE_SIZE
        pages = pages[:PAGE_SIZE]
        ahead = cursor_of(pages[-1]) if has_more else read_to
        behind = at and (cursor_of(pages[0]) if pages else at)
        if newer_wanted:
            pages.reverse()
        return PageSearchResult(
            question,
            tuple(pages),
            older=behind if newer_wanted else ahead,
            newer=ahead if newer_wanted else behind,
            read_to=from_unix_milliseconds(read_to.captured_ms) if read_to and not has_more else None,
        )

    def _shown(
        self, question: PageSearchQuery, condition: "_SqlCondition", at: PageListCursor | None, *, newer_wanted: bool
    ) -> tuple[list[CapturedPage], PageListCursor | None]:
        """Return the visible pages of a result plus one, and where a bounded search stopped."""
        pages: list[CapturedPage] = []
        words = question.words.lower().split()
        is_of_url = question.where in (SearchField.URL, SearchField.HOST)
        is_of_any = question.where in (SearchField.ANY, SearchField.TEXT)
        for _ in range(_MOST_ROUNDS):
            rows, read_to = self._rows(condition, _ListStep(at, newer_wanted, PAGE_SIZE + 1))
            rows.sort(key=lambda row: (row["captured_ms"], row["page_id"]), reverse=not newer_wanted)
            # Blocked pages are not found by title.
            pages += [
                page
                for page in self.store.pages_of(rows)
                if page.taken_down is None
                or is_of_url
                or (is_of_any and all(word in page.url.lower() for word in words))
            ]
            if len(pages) > PAGE_SIZE or len(rows) <= PAGE_SIZE:
                return pages, read_to
            at = _cursor(rows[-1])
        return pages, at

    def _rows(self, condition: "_SqlCondition", step: "_ListStep") -> tuple[list[Any], PageListCursor | None]:
        """Return one row more than a page of results has, and where a bounded search stopped."""
        # A union reads the index alone, which OR does not.
        listed = " UNION ALL ".join(map(_LISTED.format, condition.ranges))
        is_few = False
        if listed:
            (counted,) = self.database.rows(
                f"SELECT count(*) AS n FROM (SELECT 1 FROM ({listed}) AS listed LIMIT :few) AS found",  # noqa: S608 constants
                {**condition.values, "few": _FEW + 1},
            ) or ({"n": 0},)
            is_few = int(counted["n"]) <= _FEW
        if is_few:
            # The plus keeps both databases from walking the index by time.
            ordered = f"{step.ordered('+captured_ms')} LIMIT :limit"
            inner, outer = (ordered, "") if condition.filter == _ALL else ("", f"AND {condition.filter} {ordered}")
            query = (
                f"SELECT {COLUMNS} FROM pages WHERE page_id IN"  # noqa: S608 constants of ours
                f" (SELECT page_id FROM ({listed}) AS listed WHERE 1 = 1 {inner}) {outer}"
            )
            return list(self.database.rows(query, {**condition.values, **step.values})), None
        where = f"({' OR '.join(condition.ranges)}) AND {condition.filter}" if listed else condition.filter
        rows: list[Any] = []
        began, part = self.monotonic(), self.most_read if where == _ALL else -(-self.most_read // _PARTS)
        for read in range(part, self.most_read + part, part):
            newest = f"FROM pages WHERE 1 = 1 {step.ordered('captured_ms')}"
            matches = self.database.rows(
                f"SELECT {COLUMNS} FROM (SELECT * {newest} LIMIT :most) AS pages"  # noqa: S608 constants of ours
                f" WHERE {where} LIMIT :limit",
                {**condition.values, **step.values, "most": part},
            )
            rows += matches
            if where == _ALL or len(matches) >= step.limit:
                break
            last = self.database.rows(
                f"SELECT captured_ms, page_id {newest} LIMIT 1 OFFSET :most", {**step.values, "most": part - 1}
            )
            if not last:
                break
            step = _ListStep(_cursor(last[0]), step.newer, step.limit - len(matches))
            if read >= self.most_read or self.monotonic() - began > _LONGEST_S:
                return rows, step.at
        return rows, None

    def _condition(self, question: PageSearchQuery) -> "_SqlCondition | None":
        if not question.words:
            return _SqlCondition((), _ALL, {})
        match question.where:
            case SearchField.HOST:
                match = _HOST.fullmatch(question.words)
                key = _key(f"http://{match[1]}/") if match else None
                front, bracket, _ = (key or "").partition(")")
                if not bracket or not front:
                    return None
                return self._in_ranges([(front + low, front + high) for low, high in _AFTER_HOST])
            case SearchField.URL:
                words = question.words
                if words.lower().startswith(("http://", "https://")):
                    spellings = [words, other_scheme(words)]
                else:
                    spellings = [f"{scheme}://{www}{words}" for scheme, www in product(("https", "http"), ("", "www."))]
                # Query arguments are sorted in the key, so only the part before the query is a prefix.
                key = _key(re.split(r"[?#]", spellings[0], maxsplit=1)[0])
                if key is None:
                    return None
                low = key.removesuffix("/") if key.endswith(")/") else key
                condition = self._in_ranges([(low, low + "\U0010ffff")])
                values = {f"begins_{n}": escape_like(each) + "%" for n, each in enumerate(spellings)}
                like = f"url {self.database.contains} :{{}} ESCAPE '\\'"
                filters = " OR ".join(like.format(name) for name in values)
                return _SqlCondition(condition.ranges, f"({filters})", {**condition.values, **values})
            case SearchField.TITLE:
                return self._of_words(question.words, ("title",))
            case SearchField.ANY | SearchField.TEXT:
                return self._of_words(question.words, ("url", "title"))

    def _in_ranges(self, ranges: Sequence[tuple[str, str]]) -> "_SqlCondition":
        values: dict[str, str] = {}
        parts = []
        for number, (low, high) in enumerate(ranges):
            values |= {f"low_{number}": low[:KEY_CHARACTERS], f"high_{number}": high[:KEY_CHARACTERS]}
            key = self.database.key
            # Equal where both were truncated.
            comparison = "<=" if len(high) > KEY_CHARACTERS else "<"
            parts.append(f"({key} >= :low_{number} AND {key} {comparison} :high_{number})")
        return _SqlCondition(tuple(parts), _ALL, values)

    def _of_words(self, words: str, columns: Sequence[str]) -> "_SqlCondition":
        values: dict[str, str] = {}
        every = []
        split = words.split(maxsplit=_MOST_WORDS - 1)[:_MOST_WORDS]
        split.sort(key=len, reverse=True)  # long ones are rare: the rest is not compared
        for place, word in enumerate(split):
            names = []
            # Databases fold the case of ASCII letters only.
            cases = (word, word.lower(), word.upper(), word.capitalize())
            for number, spelling in enumerate([word] if word.isascii() else dict.fromkeys(cases)):
                names.append(f"word_{place}_{number}")
                values[names[-1]] = f"%{escape_like(spelling)}%"
            like = f"{self.database.contains} :{{}} ESCAPE '\\'"
            any_of = (f"{column} {like.format(name)}" for column, name in product(columns, names))
            every.append(f"({' OR '.join(any_of)})")
        return _SqlCondition((), " AND ".join(every), values)


_ALL = "1 = 1"
_LISTED = "SELECT captured_ms, page_id FROM pages WHERE {}"


@dataclass(frozen=True, slots=True)
class _SqlCondition:
    """SQL condition: key ranges of the index, if any, other conditions, and parameters."""

    ranges: tuple[str, ...]
    filter: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _ListStep:
    """Start, direction and length of a read."""

    at: PageListCursor | None
    newer: bool
    limit: int

    @property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {"limit": self.limit}
        if self.at is not None:
            values |= {"at_ms": self.at.captured_ms, "at_id": self.at.page_id}
        return values

    def ordered(self, column: str) -> str:
        order = "ASC" if self.newer else "DESC"
        within = f"AND ({column}, page_id) {'>' if self.newer else '<'} (:at_ms, :at_id) "
        return f"{within if self.at else ''}ORDER BY {column} {order}, page_id {order}"


def cursor_of(page: CapturedPage) -> PageListCursor:
    """Return the cursor of the page."""
    return PageListCursor(unix_milliseconds(page.captured_at), page.page_id)


def _cursor(row: Any) -> PageListCursor:
    return PageListCursor(row["captured_ms"], row["page_id"])


def _key(url: str) -> str | None:
    try:
        return replay_key(url)
    except BadUrlError:
        return None
