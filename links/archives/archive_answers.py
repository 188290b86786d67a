"""Parsing of archive answers (TimeMap, CDX, JSON) and matching with the requested URL.

Parsers are pure and take untrusted text. `FormatError`: the text as a whole has another form (an error page with
status 200, a challenge, a truncated answer). An adapter without an answer raises `ArchiveUnavailableError`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

from core.timestamps import timestamp14
from core.web_dates import parse_web_date
from links.archives.archive_client import REFUSALS, ArchiveFailure, ArchiveResponse, ArchiveUnavailableError

T = TypeVar("T")

ENTRIES_LIMIT: Final = 50_000  # entries of one answer
_LINK = re.compile(r"<([^<>]{1,16384})>([^<]*)")
_PARAMETER = re.compile(r";\s*([a-zA-Z-]{1,20})\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]*))")
_STAMP = re.compile(r"\d{14}", re.ASCII)
_CDXJ = re.compile(r"\S+ (\d{14}) (\{.*\})\s*", re.ASCII)


class FormatError(ValueError):
    """Answer that does not have the expected format."""


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """Copy as listed in an answer, not yet matched with the requested URL."""

    address: str  # its address; empty when the answer only states that and when a copy exists
    timestamp: str  # capture time, 14 digits
    original: str = ""  # the original URL, when given
    status: int | None = None  # the original's HTTP status; None when not given
    mime: str = ""  # its media type, when given


@dataclass(frozen=True, slots=True)
class TimeMapSegment:
    """Further part of a long TimeMap."""

    address: str
    begins: str = ""  # the first time in it, 14 digits; empty when not given
    ends: str = ""  # the last one


@dataclass(frozen=True, slots=True)
class ParsedTimeMap:
    """List of copies (RFC 7089, 5)."""

    original: str = ""  # the original URL; empty when not given
    entries: tuple[ListedCopy, ...] = ()  # the copies
    parts: tuple[TimeMapSegment, ...] = ()  # further parts of the list


@dataclass(frozen=True, slots=True)
class LinkValue:
    """Link of a Link header or a TimeMap: its target, relations and other parameters."""

    target: str
    rels: frozenset[str]
    parameters: Mapping[str, str]


def parse_links(text: str) -> Iterator[LinkValue]:
    """Parse the links of a header or of an application/link-format document (RFC 8288, RFC 6690)."""
    for count, match in enumerate(_LINK.finditer(text)):
        if count >= ENTRIES_LIMIT:
            return
        parameters = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(match[2])}
        rels = frozenset(parameters.get("rel", "").lower().split())
        yield LinkValue(match[1].strip(), rels, parameters)


def read_link_timemap(text: str) -> ParsedTimeMap:
    """Parse a TimeMap in application/link-format; FormatError when it has another format."""
    original, entries, parts = "", [], []
    for link in parse_links(text):
        if "original" in link.rels:
            original = link.target
        elif "memento" in link.rels:
            stamp = timestamp_of(link.parameters.get("datetime", ""))
            if stamp:
                entries.append(ListedCopy(link.target, stamp))
        elif "timemap" in link.rels and "self" not in link.rels:
            begins = timestamp_of(link.parameters.get("from", ""))
            parts.append(TimeMapSegment(link.target, begins, timestamp_of(link.parameters.get("until", ""))))
    if not original and not entries:
        raise FormatError("it is not a TimeMap")
    return ParsedTimeMap(original, tuple(entries), tuple(parts))


def read_json_timemap(text: str) -> ParsedTimeMap:
    """Parse a JSON TimeMap, or Time Travel's answer for one time; FormatError when it is neither."""
    document = read_object(text)
    mementos = document.get("mementos")
    index = document.get("timemap_index")
    if not isinstance(mementos, dict) and not isinstance(index, list):
        raise FormatError("it is not a TimeMap")
    listed: list[Any] = []
    if isinstance(mementos, dict):
        several = mementos.get("list")
        listed = several if isinstance(several, list) else []
        names = ("closest", "first", "prev", "next", "last")
        listed = [*listed[:ENTRIES_LIMIT], *(mementos[name] for name in names if name in mementos)]
    entries: dict[ListedCopy, None] = {}
    for each in listed:
        if not isinstance(each, dict):
            continue
        stamp = timestamp_of(text_value(each, "datetime"))
        uris = each.get("uri")
        for uri in uris if isinstance(uris, list) else [uris]:
            if stamp and isinstance(uri, str) and uri:
                entries[ListedCopy(uri, stamp)] = None
    parts = [
        TimeMapSegment(each["uri"], timestamp_of(text_value(each, "from")), timestamp_of(text_value(each, "until")))
        for each in (index if isinstance(index, list) else [])[:ENTRIES_LIMIT]
        if isinstance(each, dict) and isinstance(each.get("uri"), str)
    ]
    return ParsedTimeMap(text_value(document, "original_uri"), tuple(entries), tuple(parts))


def read_availability(text: str) -> dict[str, ListedCopy | None]:
    """Parse a Wayback availability answer, by tag; None means no copy; FormatError when invalid."""
    results = read_object(text).get("results")
    if not isinstance(results, list):
        raise FormatError("it is not an availability answer")
    copies: dict[str, ListedCopy | None] = {}
    for each in results[:ENTRIES_LIMIT]:
        if isinstance(each, dict) and isinstance(each.get("tag"), str):
            snapshots = each.get("archived_snapshots")
            closest = snapshots.get("closest") if isinstance(snapshots, dict) else None
            copy = closest if isinstance(closest, dict) else {}
            stamp, status = text_value(copy, "timestamp"), _status(text_value(copy, "status"))
            is_there = copy.get("available") is True and _STAMP.fullmatch(stamp)
            listed = ListedCopy(text_value(copy, "url"), stamp, text_value(each, "url"), status)
            copies[each["tag"]] = listed if is_there else None
    return copies


def read_cdx(text: str) -> list[ListedCopy]:
    """Parse CDX captures: JSON lists (Internet Archive), JSON lines (pywb), CDXJ, plain text; else FormatError."""
    text = text.strip()
    if not text:
        return []
    if text.startswith("["):
        rows = _json(text)
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise FormatError("it is not a list of captures")
        if not rows:
            return []
        names = [str(name) for name in rows[0]]
        if "timestamp" not in names:
            raise FormatError("it is not a list of captures")
        listed = (dict(zip(names, map(str, row), strict=False)) for row in rows[1 : ENTRIES_LIMIT + 1])
        return [capture for row in listed if (capture := _capture(row)) is not None]
    captures = [row for row in map(_cdx_row, text.split("\n")[:ENTRIES_LIMIT]) if row is not None]
    if not captures:
        raise FormatError("it is not a list of captures")
    return captures


def _cdx_row(line: str) -> ListedCopy | None:
    line = line.strip()
    cdxj = _CDXJ.fullmatch(line)
    if line.startswith("{") or cdxj is not None:
        try:
            document = read_object(line if cdxj is None else cdxj[2])
        except FormatError:
            return None
        values = {key: str(value) for key, value in document.items()}
        return _capture(values if cdxj is None else {**values, "timestamp": cdxj[1]})
    fields = line.split(" ")
    names = ("urlkey", "timestamp", "original", "mime", "status")
    return _capture(dict(zip(names, fields, strict=False))) if len(fields) >= len(names) else None


def _capture(row: Mapping[str, str]) -> ListedCopy | None:
    """Return the capture of a row; None when it has no timestamp."""
    if not _STAMP.fullmatch(row.get("timestamp", "")):
        return None
    original = row.get("original") or row.get("url", "")
    status = _status(row.get("statuscode") or row.get("status", ""))
    return ListedCopy("", row["timestamp"], original, status, row.get("mimetype") or row.get("mime", ""))


def timestamp_of(text: str) -> str:
    """Convert a date in HTTP, ISO 8601 or CDX form to 14 digits; empty when it is not valid.

    >>> timestamp_of("Tue, 18 Sep 2012 09:26:00 GMT"), timestamp_of("2013-01-15T10:20:33Z")
    ('20120918092600', '20130115102033')
    """
    text = text.strip()
    if _STAMP.fullmatch(text):
        return text
    moment = parse_web_date(text)
    return "" if moment is None else timestamp14(moment)


def read_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; FormatError when it is not one."""
    value = _json(text)
    if not isinstance(value, dict):
        raise FormatError("it is not a JSON object")
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError("it is not JSON") from error


def text_value(document: Mapping[str, Any], key: str) -> str:
    """Return the text of that key; empty when there is none."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _status(text: str) -> int | None:
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class ArchiveMemento:
    """Copy in an archive."""

    service: str  # the archive's name
    address: str  # the copy's address, in the form that the archive prefers
    timestamp: str  # capture time, 14 digits; empty when unknown
    status: int | None = None  # the original's HTTP status; None when unknown
    mime: str = ""  # its media type, when known


class ArchiveAdapter(Protocol):
    """Interface for looking up copies in one archive or aggregator."""

    name: str  # in `[links] archives`; also the service queried

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return copies including the archive's choice for `at`; ArchiveUnavailableError without an answer."""
        ...


def expect_status(service: str, response: ArchiveResponse, statuses: tuple[int, ...]) -> None:
    """Raise ArchiveUnavailableError unless the answer has one of these statuses."""
    if response.status not in statuses:
        trouble = ArchiveFailure.REFUSED if response.status in REFUSALS else ArchiveFailure.NONSENSE
        raise ArchiveUnavailableError(service, trouble, f"it answered {response.status}")


def parse_answer(service: str, response: ArchiveResponse, read: Callable[[str], T]) -> T:
    """Parse the body; ArchiveUnavailableError when it has another format."""
    try:
        return read(response.text)
    except FormatError as error:
        raise malformed_answer_error(service, str(error)) from error


def malformed_answer_error(service: str, reason: str) -> ArchiveUnavailableError:
    """Build the error for an answer without the requested information."""
    return ArchiveUnavailableError(service, ArchiveFailure.NONSENSE, reason.rstrip("."))


def escape_for_path(url: str) -> str:
    """Escape a URL for use in an archive's path, so that no fragment is removed."""
    return quote(url, safe="!$&'()*+,/:;=?@[]~%-._")
