"""CDX queries in the dialects of pywb and the Internet Archive, parsed and bounded; pure.

The Internet Archive's is used at ``/cdx/search/cdx`` or with ``showResumeKey``. Unknown parameters are ignored.
"""

import base64
import json
import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import re2

from core.errors import BadUrlError, InputError
from core.regexes import re2_error_text, re2_options
from core.timestamps import parse_timestamp14, unix_milliseconds
from playback.url_paths import LONGEST_URL
from warc.index.queries import IndexPosition, KeyRange, ListedCapture, TimeRange, matching_keys

FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "length")
IA_FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_NAMES = dict(zip(IA_FIELDS, FIELDS, strict=True))  # the Internet Archive's names for them
OUTPUTS = ("text", "json", "cdxj", "link")
PAGE_ROWS = 3_000  # what the Archive's clients reckon with
MOST_PAGE_ROWS = 10_000
MOST_ROWS = 100_000  # read for one response
MOST_PAGED = 1_000_000  # rows that pages reach; beyond them resumption keys do
_MOST_FILTERS = 10
_LONGEST_FILTER = 500  # characters
_REGEX_BYTES = 1 << 20  # of a compiled expression
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDE = {"host", "domain"}

Matches = Callable[[ListedCapture], bool]


class TooWideError(InputError):
    """Query for a whole host or domain, which this archive does not allow."""


@dataclass(frozen=True, slots=True)
class CollapseRule:
    """Rule that lists only the first of adjacent rows with equal first `length` characters of a field."""

    field: str
    length: int | None = None
    with_status: bool = False

    def key(self, row: ListedCapture) -> tuple[str, ...]:
        """Return the value compared between adjacent rows."""
        value = value_of(row, self.field)[: self.length]
        return (value, value_of(row, "status")) if self.with_status else (value,)


@dataclass(frozen=True, slots=True)
class CdxQuery:
    """Parsed CDX query."""

    url: str
    keys: KeyRange
    between: TimeRange
    output: str = "text"  # one of OUTPUTS
    fields: tuple[str, ...] = FIELDS  # output fields, by these names
    archive_dialect: bool = False  # use the Internet Archive's dialect
    limit: int | None = None  # maximum number of rows; None: the server's limit only
    skip: int = 0  # number of matching rows to leave out first
    closest: int | None = None  # sort by distance from that time; for a single key only
    descending: bool = False
    newest: bool = False  # return the last `limit` rows, in order
    filters: tuple[Matches, ...] = ()
    collapses: tuple[CollapseRule, ...] = ()
    after: IndexPosition | None = None  # position after which to start
    page: int | None = None  # page of rows to read, from 0; None: no paging
    page_rows: int = PAGE_ROWS
    wants_pages: bool = False  # return only the number of pages
    wants_key: bool = False  # append a resumption key


def parse_query(
    parameters: Iterable[tuple[str, str]], *, archive_dialect: bool = False, wide: bool = False
) -> CdxQuery:
    """Parse the parameters; InputError names an invalid one, TooWideError refuses hosts and domains."""
    pairs = list(parameters)
    one = dict(reversed(pairs))  # of several, the first
    archive = archive_dialect or "showResumeKey" in one or "resumeKey" in one
    keys = _keys(one.get("url", ""), one.get("matchType", ""), wide=wide)
    limit = _number(one, "limit", lowest=-MOST_ROWS)
    after = _position(one["resumeKey"], keys) if one.get("resumeKey") else None
    closest = _moment_ms(one["closest"], "closest") if one.get("closest") else None
    output = one.get("output", "") or "text"
    if output not in OUTPUTS:
        raise InputError(f"output is one of {', '.join(OUTPUTS)}; not {output[:40]!r}.")
    filters = [value for name, value in pairs if name == "filter" and value]
    if len(filters) > _MOST_FILTERS:
        raise InputError(f"At most {_MOST_FILTERS} filters are allowed.")
    between = TimeRange()
    if first := one.get("from") or one.get("from_ts"):
        between = replace(between, first_ms=_moment_ms(first, "from"))
    if last := one.get("to"):
        rest = "1231235959"
        if len(last) == 6 and last.isascii() and last.isdigit() and "01" <= last[4:6] <= "12":
            rest = f"12{monthrange(max(int(last[:4]), 1), int(last[4:6]))[1]}235959"
        between = replace(between, last_ms=_moment_ms(last, "to", rest) + 999)
    fields: tuple[str, ...] = IA_FIELDS if archive else FIELDS
    if named := one.get("fl") or one.get("fields"):
        fields = tuple(dict.fromkeys(each for each in named[:400].split(",") if each))
    return CdxQuery(
        url=one["url"],
        keys=keys,
        between=between,
        output=output,
        fields=fields,
        archive_dialect=archive,
        limit=abs(limit) if limit else None,
        skip=min(_number(one, "offset") or 0, MOST_ROWS),
        closest=closest if keys.is_one else None,
        descending=one.get("sort") == "reverse" or _is_yes(one.get("reverse")),
        newest=limit is not None and limit < 0,
        filters=tuple(_filter(each, archive=archive) for each in filters),
        collapses=tuple(_collapses(pairs)),
        after=after,
        page=_number(one, "page"),
        page_rows=min(max(_number(one, "pageSize") or PAGE_ROWS, 1), MOST_PAGE_ROWS),
        wants_pages=_is_yes(one.get("showNumPages")),
        wants_key=_is_yes(one.get("showResumeKey")),
    )


def value_of(row: ListedCapture, name: str) -> str:
    """Return a field in CDX form: without spaces, ``-`` for an empty value."""
    field = _NAMES.get(name, name)
    if field == "timestamp":
        return row.timestamp
    value = getattr(row, field) if field in FIELDS else None
    text = "" if value is None else str(value)
    return re.sub(r"\s", "%20", text) or "-"


def is_field(name: str) -> bool:
    """Return True when the field exists; record locations are not exposed."""
    return _NAMES.get(name, name) in FIELDS


def resume_key(position: IndexPosition) -> str:
    """Encode the position as a resumption key."""
    facts = [position.urlkey, position.captured_ms, position.number]
    return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")


def _keys(url: str, match: str, *, wide: bool) -> KeyRange:
    """Return the key range for a URL and a match type; wildcards in the URL set the type."""
    if not url.strip() or len(url) > LONGEST_URL or _CONTROL.search(url):
        raise InputError(f"url= is required, with at most {LONGEST_URL} plain characters.")
    if not match and url.startswith("*."):
        match, url = "domain", url[2:]
    elif not match and url.endswith("*"):
        match, url = "prefix", url[:-1]
    if match in _WIDE and not wide:
        raise TooWideError(
            f"matchType={match} is not allowed here: query a URL or, with matchType=prefix, the URLs that begin with "
            "one."
        )
    try:
        keys = matching_keys(url, match or "exact")
    except BadUrlError as error:
        raise InputError(f"url= is not a URL: {error}") from error
    if keys is None:
        raise InputError("url= is not the address of a page, or matchType is none of exact, prefix, host and domain.")
    return keys


def _moment_ms(text: str, name: str, rest: str = "0101000000") -> int:
    digits = text + rest[len(text) - 4 :] if 4 <= len(text) < 14 else text
    if len(text) % 2 == 0:
        with suppress(InputError):
            return unix_milliseconds(parse_timestamp14(digits))
    raise InputError(f"{name}= is a timestamp of 4 to 14 digits, YYYYMMDDhhmmss; not {text[:40]!r}.")


def _number(one: dict[str, str], name: str, *, lowest: int = 0) -> int | None:
    text = one.get(name, "")
    if not text:
        return None
    if re.fullmatch(r"-?\d{1,12}", text, re.ASCII) is None or (lowest >= 0 and int(text) < lowest):
        raise InputError(f"{name}= is a whole number; not {text[:40]!r}.")
    return max(int(text), lowest)


def _is_yes(text: str | None) -> bool:
    return text is not None and text.lower() in {"true", "1", "yes", "on"}


def _collapses(pairs: list[tuple[str, str]]) -> Iterable[CollapseRule]:
    """Return the rules of ``collapse=field:N`` (Archive) and ``collapseTime=N`` (pywb)."""
    for name, value in pairs:
        if name == "collapseTime" and value:
            yield CollapseRule("timestamp", _length(value), with_status=True)
        elif name == "collapse" and value:
            field, _, length = value.partition(":")
            if not is_field(field):
                raise InputError(f"collapse= names a field, one of {', '.join(FIELDS)}.")
            yield CollapseRule(field, _length(length) if length else None)


def _length(text: str) -> int:
    if re.fullmatch(r"\d{1,4}", text, re.ASCII) is None:
        raise InputError(f"{text[:40]!r} is not a number of characters.")
    return int(text)


def _filter(text: str, *, archive: bool) -> Matches:
    """Parse a filter: ``[!][=|~]field:text`` (pywb) or ``[!]field:regex`` (Archive)."""
    if len(text) > _LONGEST_FILTER:
        raise InputError(f"A filter has at most {_LONGEST_FILTER} characters.")
    negated = text.startswith("!")
    rest = text[negated:]
    kind = rest[:1] if rest[:1] in ("=", "~") else ""
    rest = rest[len(kind) :]
    name, colon, wanted = rest.partition(":")
    if not colon:
        name, wanted = "", rest
    elif not is_field(name):
        raise InputError(f"A filter names a field, one of {', '.join(FIELDS)}; not {name[:40]!r}.")
    compare = _comparison(kind, wanted, archive=archive)

    def matches(row: ListedCapture) -> bool:
        value = value_of(row, name) if name else " ".join(value_of(row, each) for each in FIELDS)
        return compare(value) is not negated

    return matches


def _comparison(kind: str, wanted: str, *, archive: bool) -> Callable[[str], bool]:
    if kind == "=":
        return lambda value: value == wanted
    if kind == "~" or archive:
        # RE2 runs in time linear in the text: a filter must not block the front.
        try:
            compiled: Any = re2.compile(wanted, re2_options(_REGEX_BYTES))
        except re2.error as error:
            raise InputError(f"The filter cannot be read: {re2_error_text(error)[:200]}.") from error
        whole = archive and not kind
        return lambda value: bool(compiled.fullmatch(value) if whole else compiled.match(value))
    return lambda value: wanted in value


def _position(text: str, keys: KeyRange) -> IndexPosition:
    try:
        padded = text[: 6 * LONGEST_URL] + "=" * (-len(text) % 4)
        urlkey, captured_ms, number = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, TypeError, RecursionError):
        urlkey = captured_ms = number = None
    is_ours = type(urlkey) is str and type(captured_ms) is int and type(number) is int
    if not is_ours or max(abs(captured_ms), abs(number)) > 2**62:
        raise InputError("resumeKey= is not from an earlier answer.")
    if not keys.low <= urlkey < keys.high:
        raise InputError("resumeKey= belongs to another query.")
    return IndexPosition(urlkey, captured_ms, number)
