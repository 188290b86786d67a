"""Quirks of hosts and URLs: kinds, detection from check results, database rows.

A quirk is a row with the first and the last day it was seen, rewritten only some days after the last update. A host's
quirk applies to all its subdomains as well. A check confirms it, refutes it (it is deleted at once), or neither.

>>> is_over(HostQuirk.GET_NEEDED, 0, 150, 199), is_over(HostQuirk.GET_NEEDED, 0, 150, 200)
(False, True)
>>> is_over(HostQuirk.DNS_ERROR, 0, 0, 99), is_over(HostQuirk.DNS_ERROR, 0, 0, 100)
(False, True)
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from sqlalchemy import Connection, Table, delete, select, tuple_

from links.check_result import CheckMethod, CheckResult, CheckVerdict, RedirectHop, StatusCode
from links.registry.schema import host_quirks, hosts, url_quirks, urls
from links.registry.statements import Reader, SqlStatement, batches, many, upsert
from links.url_parts import UrlParts

REFRESH_DAYS = 10  # facts last seen this long ago are rewritten when they are seen again (W47)
GET_ONLY_DAYS = 200  # then HEAD is tried again, and GET has to be earned again (W42)


class HostQuirk(IntEnum):
    """Kind of a host's quirk; the values are stored in the registry."""

    HTTPS_NEEDED = 1  # http:// leads to https:// of the same host
    HTTP_NEEDED = 2  # https:// has no certificate that verifies, http:// answers
    GET_NEEDED = 3  # HEAD is answered otherwise than GET
    DNS_ERROR = 4  # its name has no address
    SERVER_ERROR = 5  # it does not answer, or answers every request with a severe error
    PRESUMED_REACHABLE = 6  # readers reach at least half of its watched links (W16)
    UNVERIFIABLE = 7  # a browser reached pages where the checker failed: its failures are not evidence there


class UrlQuirk(IntEnum):
    """Kind of a URL's quirk, which has a text; the values are stored in the registry."""

    MOVED = 1  # for good; the text is where to
    CERTIFICATE = 2  # does not verify, though the page answers; the text is why
    RATE_LIMIT = 3  # Retry-After or 429; the text is the delay in seconds


_KEPT_DAYS = {HostQuirk.PRESUMED_REACHABLE: 183, HostQuirk.UNVERIFIABLE: 183}
HOST_QUIRK_DAYS = 100  # W47
URL_QUIRK_DAYS = 180  # W56
CONSOLIDATED_DAYS = 100  # "info standing > 100 days may be given" (W47)


def is_over(kind: HostQuirk, first_day: int, last_day: int, day: int) -> bool:
    """Return True when a host's quirk has expired; GET_NEEDED counts from its first day, as GET never tests HEAD."""
    if kind is HostQuirk.GET_NEEDED:
        return day - first_day >= GET_ONLY_DAYS
    return day - last_day >= _KEPT_DAYS.get(kind, HOST_QUIRK_DAYS)


def is_consolidated(kind: HostQuirk, first_day: int, day: int) -> bool:
    """Return True when a host's quirk is old enough to be shown (W47), or from reader reports or a browser (W16).

    >>> is_consolidated(HostQuirk.DNS_ERROR, 0, 100), is_consolidated(HostQuirk.DNS_ERROR, 0, 101)
    (False, True)
    """
    return kind in _KEPT_DAYS or day - first_day > CONSOLIDATED_DAYS


def is_url_quirk_over(last_day: int, day: int) -> bool:
    """Return True when a URL's quirk has expired."""
    return day - last_day >= URL_QUIRK_DAYS


def parents(host: str) -> list[str]:
    """Return the host and its parent domains, nearest first, without top-level names.

    >>> parents("a.b.example.org"), parents("192.0.2.1")
    (['a.b.example.org', 'b.example.org', 'example.org'], ['192.0.2.1'])
    """
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[start:]) for start in range(max(len(labels) - 1, 1))]


QUIRKS = SqlStatement(
    select(hosts.c.name, host_quirks.c.kind, host_quirks.c.first_day, host_quirks.c.last_day)
    .join_from(hosts, host_quirks, host_quirks.c.host_id == hosts.c.id)
    .where(hosts.c.name.in_(many("names"))),
    "names",
)


def believed_quirks(reader: Reader, names: Iterable[str], *, day: int) -> dict[str, dict[HostQuirk, tuple[int, int]]]:
    """Return the unexpired quirks of each host (W47), also of its parents: first and last day by kind; its own win."""
    wanted = list(dict.fromkeys(names))
    above = dict.fromkeys(name for host in wanted for name in parents(host))
    held: dict[str, dict[HostQuirk, tuple[int, int]]] = {}
    for name, number, first_day, last_day in QUIRKS.each(reader, "names", above):
        if number in HostQuirk.__members__.values():  # one of a later version is passed over
            kind = HostQuirk(number)
            if not is_over(kind, first_day, last_day, day):
                held.setdefault(name, {})[kind] = (first_day, last_day)
    quirks_by_host: dict[str, dict[HostQuirk, tuple[int, int]]] = {}
    for host in wanted if held else ():
        for name in reversed(parents(host)):
            if name in held:
                quirks_by_host.setdefault(host, {}).update(held[name])
    return quirks_by_host


def quirks_of(connection: Connection, names: Iterable[str], *, day: int) -> dict[str, frozenset[HostQuirk]]:
    """Return the unexpired kinds of quirks of each host, including those of parent hosts."""
    return {host: frozenset(kinds) for host, kinds in believed_quirks(connection, names, day=day).items()}


def hosts_that_limit(connection: Connection, *, day: int, limit: int) -> list[str]:
    """Return hosts with a recent rate limit on any of their URLs (seed of W56)."""
    rows = connection.execute(
        select(hosts.c.name)
        .distinct()
        .join_from(url_quirks, urls, urls.c.id == url_quirks.c.url_id)
        .join(hosts, hosts.c.id == urls.c.host_id)
        .where(url_quirks.c.kind == int(UrlQuirk.RATE_LIMIT), url_quirks.c.last_day > day - HOST_QUIRK_DAYS)
        .limit(limit)
    )
    return [row.name for row in rows]


def write_host_quirks(connection: Connection, quirks: Mapping[tuple[int, HostQuirk], bool], *, day: int) -> None:
    """Store observed host quirks, by host id and kind."""
    _write(connection, host_quirks, {key: "" if is_there else None for key, is_there in quirks.items()}, day)


def write_url_quirks(connection: Connection, quirks: Mapping[tuple[int, UrlQuirk], str], *, day: int) -> None:
    """Store observed URL quirks, by URL id and kind; an empty text deletes the quirk."""
    _write(connection, url_quirks, {key: value or None for key, value in quirks.items()}, day)


def _write(connection: Connection, table: Table, texts: Mapping[Any, str | None], day: int) -> None:
    """Store the observed texts by (host or URL, kind), None for a refuted quirk; an expired row gets a new first day."""
    owner, kind = table.primary_key.columns
    has_text = "value" in table.c
    held = {
        (row[0], row[1]): row
        for some in batches(sorted({number for number, _ in texts}))
        for row in connection.execute(select(table).where(owner.in_(some)))
    }
    removed_keys, rows = [], []
    for (number, which), value in texts.items():
        row: Any = held.get((number, int(which)))
        if row is not None and (value is None or _is_row_over(which, row, day)):
            removed_keys.append((number, int(which)))
            row = None
        is_same = row is not None and (not has_text or row.value == value)
        if value is None or (is_same and day - row.last_day < REFRESH_DAYS):
            continue
        new = {
            owner.name: number,
            kind.name: int(which),
            "first_day": row.first_day if is_same else day,
            "last_day": day,
        }
        rows.append(new | ({"value": value} if has_text else {}))
    for keys in batches(removed_keys):
        connection.execute(delete(table).where(tuple_(owner, kind).in_(keys)))
    upsert(connection, table, (owner.name, kind.name), rows)


def _is_row_over(kind: HostQuirk | UrlQuirk, row: Any, day: int) -> bool:
    if isinstance(kind, HostQuirk):
        return is_over(kind, row.first_day, row.last_day, day)
    return is_url_quirk_over(row.last_day, day)


_PERMANENT = (301, 308)
_NAMELESS = frozenset({StatusCode.DNS_REFUSED, StatusCode.DNS_UNKNOWN, StatusCode.DNS_EMPTY, StatusCode.DNS_FAULT})
_VALUE_LIMIT = 16_384  # stored characters of a moved URL: longer ones are not fetched
_BROWSER_SAW = frozenset({CheckVerdict.OK, CheckVerdict.DEVIATED})


def detect_host_quirks(
    parts: UrlParts, finding: CheckResult, *, is_known_failing: bool = False
) -> dict[HostQuirk, bool]:
    """Return the host quirks that a check confirmed (True) or refuted (False).

    `is_known_failing`: checks without a browser have been failing for it.
    """
    if finding.how is CheckMethod.INFERRED or finding.how is CheckMethod.PERSON:
        return {}
    if finding.how is CheckMethod.BROWSER:
        return {HostQuirk.UNVERIFIABLE: True} if is_known_failing and finding.verdict in _BROWSER_SAW else {}
    quirks: dict[HostQuirk, bool] = {}
    if finding.head_fails:
        quirks[HostQuirk.GET_NEEDED] = True
    if finding.verdict is CheckVerdict.OK or finding.http is not None:
        quirks[HostQuirk.DNS_ERROR] = False
        quirks[HostQuirk.SERVER_ERROR] = False
    elif finding.whole_host and finding.verdict in (CheckVerdict.GONE, CheckVerdict.FAILING):
        quirks[HostQuirk.DNS_ERROR if finding.code in _NAMELESS else HostQuirk.SERVER_ERROR] = True
    if parts.port == 0 and finding.verdict is CheckVerdict.OK:
        first = finding.hops[0].url if finding.hops else ""
        if finding.code == StatusCode.OTHER_SCHEME:  # the requested one does not answer
            first = finding.final_url
        if parts.scheme == "https":
            quirks[HostQuirk.HTTP_NEEDED] = bool(finding.tls_fault) or first.startswith(f"http://{parts.host}/")
        else:
            quirks[HostQuirk.HTTPS_NEEDED] = first.startswith(f"https://{parts.host}/")
    return quirks


def detect_url_quirks(parts: UrlParts, finding: CheckResult) -> dict[UrlQuirk, str]:
    """Return the URL quirks that a check confirmed, with their texts; an empty text refutes one."""
    if finding.how in (CheckMethod.INFERRED, CheckMethod.PERSON):
        return {}
    if finding.verdict is CheckVerdict.UNDECIDED and finding.retry_after_s is not None:
        return {UrlQuirk.RATE_LIMIT: str(round(finding.retry_after_s))}
    if finding.verdict is not CheckVerdict.OK:
        return {}
    return {UrlQuirk.MOVED: moved_to(parts, finding.hops), UrlQuirk.CERTIFICATE: finding.tls_fault[:200]}


def moved_to(parts: UrlParts, hops: tuple[RedirectHop, ...]) -> str:
    """Return the last target before any temporary redirect; empty if not moved, or only to https, a host's quirk.

    >>> from links.url_parts import url_parts_of
    >>> hops = tuple(RedirectHop(status, f"https://a.example/{path}") for status, path in
    ...              ((301, "x"), (301, "y"), (302, "z")))
    >>> moved_to(url_parts_of("http://a.example/x"), hops), moved_to(url_parts_of("http://a.example/x"), hops[:1])
    ('https://a.example/y', '')
    """
    target = ""
    for hop in hops:
        if hop.status not in _PERMANENT:
            break
        target = hop.url
    if not target or len(target) > _VALUE_LIMIT or target.partition("#")[0] == parts.url:
        return ""
    scheme, _, rest = target.partition("#")[0].partition("://")
    is_upgrade = parts.scheme == "http" and scheme == "https"
    return "" if is_upgrade and rest == parts.url.partition("://")[2] else target
