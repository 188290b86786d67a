"""What archives answer, read: TimeMaps, CDX, the Wayback Machine's availability, Time Travel's JSON.

Everything here is pure, takes text from the web, and gives what could be understood of it; `FormatError`
when it is not of the form at all: an error page with status 200, a challenge, half an answer.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.http_dates import parse_web_date
from core.timestamps import timestamp14

MOST: Final = 50_000  # entries of one answer
_LINK = re.compile(r"<([^<>]{1,16384})>([^<]*)")
_PARAMETER = re.compile(r";\s*([a-zA-Z-]{1,20})\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]*))")
_STAMP = re.compile(r"\d{14}", re.ASCII)
_CDXJ = re.compile(r"\S+ (\d{14}) (\{.*\})\s*", re.ASCII)


class FormatError(ValueError):
    """An answer is not of the form that it should have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One copy, as an answer lists it; not yet held to what was asked for.

    Attributes:
        address: where it is; empty when the answer only says that and when there is one.
        timestamp: when it was taken, 14 digits.
        original: of what, when that is said.
        status: what the original answered then; None when that is not said.
        mime: its type, when that is said.
    """

    address: str
    timestamp: str
    original: str = ""
    status: int | None = None
    mime: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A further part of a long TimeMap.

    Attributes:
        address: where it is.
        begins: the first moment in it, 14 digits; empty when that is not said.
        ends: the last one.
    """

    address: str
    begins: str = ""
    ends: str = ""


@dataclass(frozen=True, slots=True)
class TimeMap:
    """A list of copies (RFC 7089, 5).

    Attributes:
        original: of what; empty when it does not say.
        entries: the copies.
        parts: where the list goes on.
    """

    original: str = ""
    entries: tuple[Entry, ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Linked:
    """One link of a Link header or a TimeMap: its target, its relations, its other parameters."""

    target: str
    rels: frozenset[str]
    parameters: Mapping[str, str]


def links_of(text: str) -> Iterator[Linked]:
    """The links of a header or of an application/link-format document (RFC 8288, RFC 6690)."""
    for count, match in enumerate(_LINK.finditer(text)):
        if count >= MOST:
            return
        parameters = {
            name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(match[2])
        }
        rels = frozenset(parameters.get("rel", "").lower().split())
        yield Linked(match[1].strip(), rels, parameters)


def read_link_timemap(text: str) -> TimeMap:
    """A TimeMap in application/link-format.

    Raises:
        FormatError: it is none.
    """
    original, entries, parts = "", [], []
    for link in links_of(text):
        if "original" in link.rels:
            original = link.target
        elif "memento" in link.rels:
            stamp = stamp_of(link.parameters.get("datetime", ""))
            if stamp:
                entries.append(Entry(link.target, stamp))
        elif "timemap" in link.rels and "self" not in link.rels:
            begins = stamp_of(link.parameters.get("from", ""))
            parts.append(Part(link.target, begins, stamp_of(link.parameters.get("until", ""))))
    if not original and not entries:
        raise FormatError("it is no TimeMap")
    return TimeMap(original, tuple(entries), tuple(parts))


def read_json_timemap(text: str) -> TimeMap:
    """A TimeMap in the aggregators' JSON, and Time Travel's answer about one moment.

    Raises:
        FormatError: it is neither.
    """
    told = _object(text)
    mementos = told.get("mementos")
    index = told.get("timemap_index")
    if not isinstance(mementos, dict) and not isinstance(index, list):
        raise FormatError("it is no TimeMap")
    listed: list[Any] = []
    if isinstance(mementos, dict):
        several = mementos.get("list")
        listed = several if isinstance(several, list) else []
        names = ("closest", "first", "prev", "next", "last")
        listed = [*listed[:MOST], *(mementos[name] for name in names if name in mementos)]
    entries = dict.fromkeys(entry for each in listed for entry in _json_entries(each))
    parts = [
        Part(each["uri"], stamp_of(_text(each, "from")), stamp_of(_text(each, "until")))
        for each in (index if isinstance(index, list) else [])[:MOST]
        if isinstance(each, dict) and isinstance(each.get("uri"), str)
    ]
    return TimeMap(_text(told, "original_uri"), tuple(entries), tuple(parts))


def _json_entries(each: Any) -> Iterator[Entry]:
    if not isinstance(each, dict):
        return
    stamp = stamp_of(_text(each, "datetime"))
    uris = each.get("uri")
    for uri in uris if isinstance(uris, list) else [uris]:
        if stamp and isinstance(uri, str) and uri:
            yield Entry(uri, stamp)


def read_availability(text: str) -> dict[str, Entry | None]:
    """The Wayback Machine's availability, asked for several at once: by tag; None: it has none.

    Raises:
        FormatError: it is no such answer.
    """
    results = _object(text).get("results")
    if not isinstance(results, list):
        raise FormatError("it is no answer about availability")
    found: dict[str, Entry | None] = {}
    for each in results[:MOST]:
        if isinstance(each, dict) and isinstance(each.get("tag"), str):
            found[each["tag"]] = _closest(each)
    return found


def _closest(told: Mapping[str, Any]) -> Entry | None:
    snapshots = told.get("archived_snapshots")
    closest = snapshots.get("closest") if isinstance(snapshots, dict) else None
    if not isinstance(closest, dict) or closest.get("available") is not True:
        return None
    stamp = _text(closest, "timestamp")
    if not _STAMP.fullmatch(stamp):
        return None
    return Entry(
        _text(closest, "url"), stamp, _text(told, "url"), _status(_text(closest, "status"))
    )


def read_cdx(text: str) -> list[Entry]:
    """Captures by a CDX server: a list of lists (Internet Archive), JSON lines (pywb), CDXJ or plain text.

    Raises:
        FormatError: it is none of these.
    """
    text = text.strip()
    if not text:
        return []
    if text.startswith("["):
        return _listed_cdx(text)
    rows = [_cdx_row(line) for line in text.split("\n")[:MOST]]
    found = [row for row in rows if row is not None]
    if not found:
        raise FormatError("it is no list of captures")
    return found


def _listed_cdx(text: str) -> list[Entry]:
    rows = _json(text)
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise FormatError("it is no list of captures")
    if not rows:
        return []
    names = [str(name) for name in rows[0]]
    if "timestamp" not in names:
        raise FormatError("it is no list of captures")
    return _rows(
        {name: str(value) for name, value in zip(names, row, strict=False)}
        for row in rows[1 : MOST + 1]
    )


def _cdx_row(line: str) -> Entry | None:
    """One capture; None when the line is none."""
    line = line.strip()
    cdxj = _CDXJ.fullmatch(line)
    if line.startswith("{") or cdxj is not None:
        try:
            told = _object(line if cdxj is None else cdxj[2])
        except FormatError:
            return None
        values = {key: str(value) for key, value in told.items()}
        if cdxj is not None:
            values["timestamp"] = cdxj[1]
        return next(iter(_rows([values])), None)
    fields = line.split(" ")
    if len(fields) < 5:
        return None
    names = ("urlkey", "timestamp", "original", "mime", "status")
    return next(iter(_rows([dict(zip(names, fields, strict=False))])), None)


def _rows(rows: Iterable[Mapping[str, str]]) -> list[Entry]:
    return [
        Entry(
            "",
            row["timestamp"],
            row.get("original") or row.get("url", ""),
            _status(row.get("statuscode") or row.get("status", "")),
            row.get("mimetype") or row.get("mime", ""),
        )
        for row in rows
        if _STAMP.fullmatch(row.get("timestamp", ""))
    ]


def stamp_of(text: str) -> str:
    """14 digits of a date as HTTP, ISO 8601 or a CDX writes it; empty when it is none.

    >>> stamp_of("Tue, 18 Sep 2012 09:26:00 GMT"), stamp_of("2013-01-15T10:20:33Z")
    ('20120918092600', '20130115102033')
    """
    text = text.strip()
    if _STAMP.fullmatch(text):
        return text
    moment = parse_web_date(text)
    return "" if moment is None else timestamp14(moment)


def read_object(text: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        FormatError: it is none.
    """
    return _object(text)


def _object(text: str) -> dict[str, Any]:
    told = _json(text)
    if not isinstance(told, dict):
        raise FormatError("it is no JSON object")
    return told


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError("it is no JSON") from error


def _text(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _status(text: str) -> int | None:
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else None
