"""The rows of quirks: read for a window of hosts, written with a batch of results (W42, W47, W56)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, select, tuple_

from links.quirks import (
    HOST_QUIRK_DAYS,
    HostQuirk,
    UrlQuirk,
    is_over,
    is_to_refresh,
    is_url_quirk_over,
)
from links.store.schema import host_quirks, hosts, url_quirks, urls
from links.store.statements import Reader, Statement, batches, many
from links.store.upserts import upsert

_AT_ONCE = 500
_Key = tuple[int, int]  # a host's or a URL's row, and the quirk's kind


def parents(host: str) -> list[str]:
    """The host and the names it lies below, nearest first; those of one label are nobody's.

    >>> parents("a.b.example.org"), parents("192.0.2.1")
    (['a.b.example.org', 'b.example.org', 'example.org'], ['192.0.2.1'])
    """
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[start:]) for start in range(max(len(labels) - 1, 1))]


QUIRKS = Statement(
    select(hosts.c.name, host_quirks.c.kind, host_quirks.c.first_day, host_quirks.c.last_day)
    .join_from(hosts, host_quirks, host_quirks.c.host_id == hosts.c.id)
    .where(hosts.c.name.in_(many("names"))),
    "names",
)


def believed_quirks(
    reader: Reader, names: Iterable[str], *, day: int
) -> dict[str, dict[HostQuirk, tuple[int, int]]]:
    """Return what is believed of each host on that day: the first and the last day by kind (W47).

    What a host above has holds for all below it; a host's own days go before those of hosts above.
    """
    wanted = list(dict.fromkeys(names))
    above = dict.fromkeys(name for host in wanted for name in parents(host))
    held: dict[str, dict[HostQuirk, tuple[int, int]]] = {}
    for batch in batches(above):
        for name, number, first_day, last_day in QUIRKS.rows(reader, {"names": batch}):
            if number in HostQuirk.__members__.values():  # one of a later version is passed over
                kind = HostQuirk(number)
                if not is_over(kind, first_day, last_day, day):
                    held.setdefault(name, {})[kind] = (first_day, last_day)
    found: dict[str, dict[HostQuirk, tuple[int, int]]] = {}
    for host in wanted if held else ():
        for name in reversed(parents(host)):
            if name in held:
                found.setdefault(host, {}).update(held[name])
    return found


def quirks_of(
    connection: Connection, names: Iterable[str], *, day: int
) -> dict[str, frozenset[HostQuirk]]:
    """What is believed of each of these hosts: its own quirks, and those of hosts above it."""
    believed = believed_quirks(connection, names, day=day)
    return {host: frozenset(kinds) for host, kinds in believed.items()}


def hosts_that_limit(connection: Connection, *, day: int, limit: int) -> list[str]:
    """Return hosts that told us lately to come later, by any of their URLs (seed of W56: rate limits)."""
    rows = connection.execute(
        select(hosts.c.name)
        .distinct()
        .join_from(url_quirks, urls, urls.c.id == url_quirks.c.url_id)
        .join(hosts, hosts.c.id == urls.c.host_id)
        .where(
            url_quirks.c.kind == int(UrlQuirk.RATE_LIMIT),
            url_quirks.c.last_day > day - HOST_QUIRK_DAYS,
        )
        .limit(limit)
    )
    return [row.name for row in rows]


class Held(NamedTuple):
    """A quirk's row: its days and its text."""

    first_day: int
    last_day: int
    value: str = ""


class Settled(NamedTuple):
    """Which rows go, and which are written."""

    gone: list[_Key]
    written: dict[_Key, Held]


def settle(
    held: Mapping[_Key, Held],
    seen: Mapping[_Key, str | None],
    *,
    day: int,
    over: Callable[[_Key, Held], bool],
) -> Settled:
    """What becomes of quirks' rows.

    Args:
        held: the rows that are there, by host or URL and kind.
        seen: what was seen: its text, or None when the property is gone.
        day: today.
        over: whether nobody believes a row any more.
    """
    gone: list[_Key] = []
    written: dict[_Key, Held] = {}
    for key, value in seen.items():
        row = held.get(key)
        if row is not None and (value is None or over(key, row)):
            gone.append(key)
            row = None
        if value is None:
            continue
        if row is None or row.value != value:
            written[key] = Held(day, day, value)
        elif is_to_refresh(row.last_day, day):
            written[key] = Held(row.first_day, day, value)
    return Settled(gone, written)


def write_host_quirks(
    connection: Connection, seen: Mapping[tuple[int, HostQuirk], bool], *, day: int
) -> None:
    """Keep what was seen of hosts, by host's row and kind."""
    there = {
        (row.host_id, row.kind): Held(row.first_day, row.last_day)
        for row in _rows(connection, host_quirks, host_quirks.c.host_id, seen)
    }
    settled = settle(
        there,
        {
            (host_id, int(kind)): "" if is_there else None
            for (host_id, kind), is_there in seen.items()
        },
        day=day,
        over=lambda key, row: is_over(HostQuirk(key[1]), row.first_day, row.last_day, day),
    )
    _remove(connection, host_quirks, settled.gone)
    rows = [
        {"host_id": host_id, "kind": kind, "first_day": row.first_day, "last_day": row.last_day}
        for (host_id, kind), row in settled.written.items()
    ]
    upsert(connection, host_quirks, ("host_id", "kind"), rows)


def write_url_quirks(
    connection: Connection, seen: Mapping[tuple[int, UrlQuirk], str], *, day: int
) -> None:
    """Keep what was seen of URLs, by URL's row and kind; an empty text takes the quirk away."""
    there = {
        (row.url_id, row.kind): Held(row.first_day, row.last_day, row.value)
        for row in _rows(connection, url_quirks, url_quirks.c.url_id, seen)
    }
    settled = settle(
        there,
        {(url_id, int(kind)): value or None for (url_id, kind), value in seen.items()},
        day=day,
        over=lambda _key, row: is_url_quirk_over(row.last_day, day),
    )
    _remove(connection, url_quirks, settled.gone)
    rows = [
        {"url_id": url_id, "kind": kind, **row._asdict()}
        for (url_id, kind), row in settled.written.items()
    ]
    upsert(connection, url_quirks, ("url_id", "kind"), rows)


def _rows(
    connection: Connection, table: Table, column: ColumnElement[int], seen: Iterable[_Key]
) -> Iterator[Row[Any]]:
    ids = sorted({number for number, _ in seen})
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        yield from connection.execute(select(table).where(column.in_(some)))


def _remove(connection: Connection, table: Table, keys: Sequence[_Key]) -> None:
    first, second = table.primary_key.columns
    for start in range(0, len(keys), _AT_ONCE):
        some = [tuple(key) for key in keys[start : start + _AT_ONCE]]
        connection.execute(delete(table).where(tuple_(first, second).in_(some)))
