"""Lists of malicious URLs (Safe Browsing hashes): look-up, hash-prefix files, URL hashing.

URLs are canonicalised and hashed as in Safe Browsing v4 ("URLs and Hashing"): an expression is a host suffix with a
path prefix; a list holds prefixes of the expressions' SHA-256. No network request is made.

A file, memory-mapped and immutable, holds for each length from 4 to 32 bytes the sorted prefixes, concatenated.

    WEBOID PREFIXES 1                           a line
    {"sections": [[4, 1000000], [32, 7]]}       a line: length and count, in the order of the data
    data
"""

import hashlib
import ipaddress
import json
import mmap
import os
import re
import socket
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from core.errors import InputError, TransientError
from core.timestamps import unix_milliseconds
from core.url_keys import escape, unescape
from playback.access.decision_store import DecisionStore, Values, insert_row, record_of, row_values
from warc.local_storage import replacing_file

_SCHEME = re.compile(rb"\A[A-Za-z][A-Za-z0-9+.-]*://")
_PORT = re.compile(rb":\d*\Z")
_NUMBERS = re.compile(rb"[0-9a-fx.]+")
_BARE_HEX = re.compile(rb"\b0x(?=\.|\Z)")  # zero
_MOST_HOST_PARTS = 5
_MOST_PATHS = 4
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class _UrlParts(NamedTuple):
    """Canonical URL in parts, unescaped."""

    host: bytes
    path: bytes
    query: bytes  # with its question mark, or empty
    is_address: bool


def url_expressions(url: str | bytes) -> list[bytes]:
    """Return at most thirty expressions: five host suffixes, each with six path prefixes; the whole URL first."""
    parts = _parts(url)
    # The host, and up to four of its suffixes with at least two labels.
    hosts, labels = [parts.host], parts.host.split(b".")
    if not parts.is_address:
        first = max(len(labels) - _MOST_HOST_PARTS, 1)
        hosts += [b".".join(labels[start:]) for start in range(first, len(labels) - 1)]
    # The path with query, without it, and up to four prefixes that end with a slash.
    paths = [parts.path + parts.query, parts.path]
    folders = parts.path.split(b"/")[1:-1]
    paths += [
        b"/" + b"".join(folder + b"/" for folder in folders[:count])
        for count in range(min(len(folders) + 1, _MOST_PATHS))
    ]
    return list(dict.fromkeys(escape(host + path) for host in hosts[:_MOST_HOST_PARTS] for path in paths))


def url_hashes(url: str | bytes) -> list[bytes]:
    """Return the SHA-256 of each expression, 32 bytes; list entries are prefixes of these."""
    return [hashlib.sha256(each).digest() for each in url_expressions(url)]


def _parts(url: str | bytes) -> _UrlParts:
    data = url.encode(errors="surrogatepass") if isinstance(url, str) else url
    data = data.strip(b" ").translate(None, b"\t\r\n")
    rest = _SCHEME.sub(b"", unescape(data.partition(b"#")[0]))
    cut = re.search(rb"[/?]", rest)
    authority, tail = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, b"")
    host, is_address = _host(_PORT.sub(b"", authority.rpartition(b"@")[2]))
    path, mark, query = tail.partition(b"?")
    # The path without dot segments and repeated slashes, beginning with a slash.
    resolved: list[bytes] = []
    segments = path.split(b"/")[1:]
    for segment in segments:
        if segment == b"..":
            del resolved[-1:]
        elif segment not in (b"", b"."):
            resolved.append(segment)
    ends = bool(resolved) and segments[-1] in (b"", b".", b"..")
    path = b"/" + b"/".join(resolved) + (b"/" if ends else b"")
    return _UrlParts(host, path, mark + query, is_address)


def _host(host: bytes) -> tuple[bytes, bool]:
    """Return the canonical host, and whether it is an IP address."""
    if host.startswith(b"[") and host.endswith(b"]"):
        try:
            address = ipaddress.IPv6Address(host[1:-1].decode("ascii"))
            mapped = address.ipv4_mapped
            if mapped is None and address in _NAT64:
                mapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            return (str(mapped).encode() if mapped is not None else f"[{address.compressed}]".encode()), True
        except ValueError:
            return host.lower(), True
    if not host.isascii():
        with suppress(UnicodeError):  # it is not a DNS name, so its bytes are escaped
            host = host.decode().encode("idna")
    host = re.sub(rb"\.{2,}", b".", host).strip(b".").lower()
    if _NUMBERS.fullmatch(host):
        with suppress(OSError):  # it is not an address in any notation of inet_aton(3)
            return str(ipaddress.IPv4Address(socket.inet_aton(_BARE_HEX.sub(b"0x0", host).decode()))).encode(), True
    return host, False


SHORTEST_PREFIX, LONGEST_PREFIX = 4, 32  # bytes
_MAGIC = b"WEBOID PREFIXES 1\n"
_LINE = re.compile(rb"[0-9A-Fa-f]+")


def parse_hex_prefixes(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Parse one hexadecimal prefix per line; skip empty lines and ``#``; InputError names a bad line."""
    for number, line in enumerate(lines, 1):
        text = line.partition(b"#")[0].strip()
        if not text:
            continue
        is_sized = len(text) in range(2 * SHORTEST_PREFIX, 2 * LONGEST_PREFIX + 1, 2)
        if not is_sized or not _LINE.fullmatch(text):
            raise InputError(f"Line {number} is not a hash prefix: write 8 to 64 hexadecimal digits, an even number.")
        yield bytes.fromhex(text.decode())


def parse_binary_prefixes(data: bytes, width: int) -> Iterator[bytes]:
    """Split concatenated hash prefixes of `width` bytes each; InputError when that is not possible."""
    if not SHORTEST_PREFIX <= width <= LONGEST_PREFIX:
        raise InputError(f"A prefix has {SHORTEST_PREFIX} to {LONGEST_PREFIX} bytes, not {width}.")
    if len(data) % width:
        raise InputError(f"{len(data)} bytes cannot be divided into prefixes of {width} bytes.")
    return (data[start : start + width] for start in range(0, len(data), width))


def write_prefixes(path: Path, prefixes: Iterable[bytes]) -> int:
    """Write a prefix file atomically and return its number of distinct prefixes; InputError for none."""
    by_width: dict[int, set[bytes]] = {}
    for prefix in prefixes:
        by_width.setdefault(len(prefix), set()).add(prefix)
    if not by_width:
        raise InputError("The list is empty.")
    sections = [[width, len(same_width)] for width, same_width in sorted(by_width.items())]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as fresh, fresh.open("wb") as file:
            file.write(_MAGIC + json.dumps({"sections": sections}).encode() + b"\n")
            for width, _ in sections:
                file.writelines(sorted(by_width.pop(width)))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise TransientError(f"The list cannot be written: {error}.") from error
    return sum(count for _, count in sections)


class PrefixFile:
    """Memory-mapped prefix file. Thread-safe; unmapped with the last reference."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if self._data[: len(_MAGIC)] != _MAGIC:
                raise ValueError("it is none")  # noqa: TRY301 one way out
            end = self._data.find(b"\n", len(_MAGIC)) + 1
            sections = json.loads(self._data[len(_MAGIC) : end])["sections"]
            self._sections: list[tuple[int, int, int]] = []  # width, count, where it begins
            for width, count in sections:
                self._sections.append((int(width), int(count), end))
                end += int(width) * int(count)
            if end != len(self._data):
                raise ValueError("it is not whole")  # noqa: TRY301 as above
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TransientError(f"The list {path.name} cannot be read: {error}.") from error

    def find(self, full_hash: bytes) -> int:
        """Return the length in bytes of the longest matching prefix of the hash; 0 without one."""
        for width, count, start in reversed(self._sections):  # longest first
            prefix = full_hash[:width]

            def entry(number: int, width: int = width, start: int = start) -> bytes:
                return self._data[start + number * width : start + (number + 1) * width]

            place = bisect_left(range(count), prefix, key=entry)
            if place < count and entry(place) == prefix:
                return width
        return 0


_SURE = 8  # bytes of a prefix: fewer are shared by unrelated addresses


class ListEffect(StrEnum):
    """Effect of a list on readers of a listed URL."""

    HOLD = "hold"  # a notice before the copy
    WARN = "warn"  # a notice with the copy


@dataclass(frozen=True, slots=True)
class ThreatList:
    """Threat list as described by its row."""

    name: str  # shown to readers, too
    file: str  # name of its file in the directory of lists
    effect: ListEffect
    reason: str  # content of the list, for readers
    entries: int
    added_at: datetime  # when it was added or last updated


@dataclass(frozen=True, slots=True)
class ListHit:
    """URL found on a list."""

    on: ThreatList
    is_sure: bool  # False when the prefix is so short that it may match another URL


class ThreatLists:
    """All threat lists, for look-up by URL. Thread-safe."""

    def __init__(self, lists: Iterable[tuple[ThreatList, PrefixFile]] = ()) -> None:
        self._lists = tuple(lists)

    def __bool__(self) -> bool:
        return bool(self._lists)

    def on(self, *urls: str) -> ListHit | None:
        """Return the entry of one of the URLs, blocking lists before warning ones; None without one."""
        hits = [hit for url in urls for hit in self.all_on(url)]
        return min(hits, key=lambda hit: hit.on.effect is not ListEffect.HOLD, default=None)

    def all_on(self, url: str) -> list[ListHit]:
        """Return the entries of the URL on all lists."""
        hashes = url_hashes(url) if self._lists else []
        sizes = ((threat_list, max(map(file.find, hashes), default=0)) for threat_list, file in self._lists)
        return [ListHit(threat_list, size >= _SURE) for threat_list, size in sizes if size]


def lists_folder(decisions_db: Path) -> Path:
    """Return the directory of list files, next to the decisions of the collection."""
    return decisions_db.with_name("lists")


def load_lists(store: DecisionStore, folder: Path) -> ThreatLists:
    """Load all lists in the store; TransientError when one cannot be read: no URL counts as unlisted then."""
    return ThreatLists((each, PrefixFile(folder / each.file)) for each in list_rows(store))


def list_rows(store: DecisionStore) -> list[ThreatList]:
    """Return the rows of the lists, by name."""
    return [record_of(ThreatList, row) for row in store.rows("SELECT * FROM url_lists ORDER BY name", {})]


def add_list(store: DecisionStore, folder: Path, threat_list: ThreatList, prefixes: Iterable[bytes]) -> ThreatList:
    """Add or replace a list and return its row; InputError for an invalid name or no prefixes."""
    if not threat_list.name.strip() or len(threat_list.name) > 100 or not threat_list.name.isprintable():
        raise InputError("A list's name has 1 to 100 visible characters.")
    old = next((each for each in list_rows(store) if each.name == threat_list.name), None)
    stamp = f"{threat_list.name} {unix_milliseconds(threat_list.added_at)}"
    file = f"{hashlib.sha256(stamp.encode()).hexdigest()[:24]}.prefixes"
    threat_list = replace(threat_list, file=file, entries=write_prefixes(folder / file, prefixes))
    store.change([_without(threat_list.name), insert_row("url_lists", row_values(threat_list))])
    if old is not None and old.file != file:
        with suppress(OSError):  # it does no harm; existing mappings remain readable
            (folder / old.file).unlink()
    return record_of(ThreatList, row_values(threat_list))


def remove_list(store: DecisionStore, folder: Path, name: str) -> ThreatList:
    """Remove the list and return its former row; InputError when there is no list of that name."""
    if (old := next((each for each in list_rows(store) if each.name == name), None)) is None:
        raise InputError(f"There is no list {name[:100]!r}; `weboid scan lists ls` shows all lists.")
    store.change([_without(name)])
    with suppress(OSError):
        (folder / old.file).unlink()
    return old


def _without(name: str) -> tuple[str, Values]:
    return "DELETE FROM url_lists WHERE name = :name", {"name": name}
