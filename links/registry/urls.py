"""URLs of the registry, byte for byte (A17): keys, states, lookup by pattern, latest observations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, literal_column, select, update

from core.errors import InputError, InvariantError
from core.hosts import registrable
from core.storable_text import shorten_for_message
from core.url_patterns import PatternForm, PatternTable, UrlPattern, pattern_target
from core.urls import fetch_key
from links.check_result import CheckMethod
from links.registry.schema import PATH_HEAD, PATH_HEAD_CHARS, hosts, observations, urls
from links.registry.statements import Reader, SqlStatement, insert_missing, many, one
from links.states import FailureProof, LinkHealth, LinkState
from links.url_parts import SCHEMES, UrlParts, bucket_of, domain_index, key_of, split_identity, url_parts_of

# New URLs are checked within a week, spread evenly: no burst after an import.
FIRST_LOOKS_DAYS = 7


class UrlRow(NamedTuple):
    """Row of a URL."""

    id: int
    url: str  # its identity key
    host: str
    host_id: int
    state: LinkState
    code: int  # the status byte of the last check (`links.check_result`)
    history: bytes | None  # `links.check_history`; None before the first check
    added_day: int  # day of discovery; all days are `links.check_history` numbers
    touched_day: int  # day on which a page that has it was last read
    checked_day: int | None  # day of the last check; None when never
    due_day: int | None  # day of the next check; None: never
    fails: int
    first_fail_day: int | None
    last_fail_day: int | None
    proofs: int
    mime: str | None  # an unusual type's short name (W66), with `kib`, its length
    kib: int | None
    opinion_day: int | None = None  # day since when a browser check is awaited; None: it is not

    @property
    def key(self) -> bytes:
        """Return the key in the registry, which orders a run."""
        return key_of(self.url)

    @property
    def is_new(self) -> bool:
        """Return True when it was never checked."""
        return self.checked_day is None

    @property
    def standing(self) -> LinkHealth:
        """Return its state and failures as used by `links.states`."""
        days = (self.first_fail_day, self.last_fail_day)
        return LinkHealth(self.state, self.fails, *days, FailureProof(self.proofs))


def health_columns(health: LinkHealth) -> dict[str, Any]:
    """Return the columns of a state and its failures; the inverse of `UrlRow.standing`."""
    days = {"first_fail_day": health.first_fail, "last_fail_day": health.last_fail}
    return {"state": int(health.state), "fails": health.fails, **days, "proofs": int(health.proofs)}


COLUMNS = (
    *(urls.c.id, urls.c.scheme, hosts.c.name, urls.c.port, urls.c.path, urls.c.host_id),
    *(urls.c.state, urls.c.code, urls.c.history, urls.c.added_day, urls.c.touched_day),
    *(urls.c.checked_day, urls.c.due_day, urls.c.fails, urls.c.first_fail_day),
    *(urls.c.last_fail_day, urls.c.proofs, urls.c.mime, urls.c.kib, urls.c.opinion_day),
)  # what `row_of` takes
_STATES = {int(state): state for state in LinkState}
_BEGINNINGS = tuple(f"{scheme}://" for scheme in SCHEMES)


def row_of(row: Sequence[Any]) -> UrlRow:
    """Build the row from a result that begins with `COLUMNS`."""
    id_, scheme, host, port, path, host_id, state, *rest = row[: len(COLUMNS)]
    url = f"{_BEGINNINGS[scheme]}{host}:{port}{path}" if port else f"{_BEGINNINGS[scheme]}{host}{path}"
    return UrlRow(id_, url, host, host_id, _STATES[state], *rest)


def select_url_rows() -> Select[Any]:
    """Build a query for `COLUMNS`."""
    return select(*COLUMNS).select_from(urls.join(hosts, hosts.c.id == urls.c.host_id))


FIND = SqlStatement(select_url_rows().where(urls.c.key.in_(many("keys"))), "keys")
FIND_IDS = SqlStatement(select_url_rows().where(urls.c.id.in_(many("ids"))), "ids")
FIND_KEYS = SqlStatement(
    select(*(urls.c.key, urls.c.id, urls.c.touched_day), *(urls.c.scheme, hosts.c.name, urls.c.port, urls.c.path))
    .select_from(urls.join(hosts, hosts.c.id == urls.c.host_id))
    .where(urls.c.key.in_(many("keys"))),
    "keys",
)
# Held until the URL is written: a host without URLs may be forgotten (`links.registry.retention`).
FIND_HOSTS = SqlStatement(
    select(hosts.c.name, hosts.c.id)
    .where(hosts.c.name.in_(many("names")))
    .order_by(hosts.c.id)
    .with_for_update(read=True, key_share=True),
    "names",
)
# Several rows are locked in one order, so that two writers never deadlock.
TOUCH = SqlStatement(
    update(urls)
    .where(
        urls.c.id.in_(
            select(urls.c.id)
            .where(urls.c.id.in_(many("ids")), urls.c.touched_day < one("day"))
            .order_by(urls.c.id)
            .with_for_update()
            .scalar_subquery()
        )
    )
    .values(touched_day=bindparam("day")),
    "ids",
)


def ensure_urls(connection: Connection, identities: Iterable[str], *, day: int) -> dict[str, int]:
    """Insert missing URLs, touch all of them, return ids by identity key; InvariantError when two share one key."""
    wanted: dict[bytes, str] = {}
    for identity in identities:
        if wanted.setdefault(key_of(identity), identity) != identity:
            raise _one_key(identity, wanted[key_of(identity)])
    ids, old = _known(connection, wanted, day)
    # One that is too old may be deleted between our two queries; touching detects that.
    while old and TOUCH.run_each(connection, "ids", sorted(old), day=day) < len(old):
        ids, old = _known(connection, wanted, day)
    missing = {key: identity for key, identity in wanted.items() if identity not in ids}
    if missing:
        # In order, so that two concurrent writers of the same rows cannot deadlock.
        _write(connection, {key: split_identity(missing[key]) for key in sorted(missing)}, day)
        ids |= _known(connection, missing, day)[0]
    return ids


def find_urls(reader: Reader, identities: Iterable[str]) -> dict[str, UrlRow]:
    """Return those of the URLs that the registry knows, by their identity keys."""
    return {row.url: row for row in urls_by_key(reader, map(key_of, dict.fromkeys(identities)))}


def urls_by_key(reader: Reader, keys: Iterable[bytes]) -> list[UrlRow]:
    """Return the existing URLs with these keys."""
    return list(map(row_of, FIND.each(reader, "keys", keys)))


def urls_by_id(reader: Reader, ids: Iterable[int]) -> dict[int, UrlRow]:
    """Return the existing URLs with these ids."""
    return {row[0]: row_of(row) for row in FIND_IDS.each(reader, "ids", dict.fromkeys(ids))}


def _known(reader: Reader, wanted: Mapping[bytes, str], day: int) -> tuple[dict[str, int], list[int]]:
    """Return the ids of known URLs, and those that were last touched before today."""
    ids: dict[str, int] = {}
    old: list[int] = []
    for row in FIND_KEYS.each(reader, "keys", wanted):
        key, id_, touched, scheme, host, port, path = row
        identity = wanted[bytes(key)]
        stored_url = UrlParts(SCHEMES[scheme], host, port, path).url
        if stored_url != identity:
            raise _one_key(identity, stored_url)
        ids[identity] = id_
        if touched < day:
            old.append(id_)
    return ids, old


def _one_key(one: str, other: str) -> InvariantError:
    return InvariantError(
        f"{one[:500]!r} and {other[:500]!r} have the same key in the link registry: keep both URLs and report this."
    )


def _write(connection: Connection, missing: Mapping[bytes, UrlParts], day: int) -> None:
    names = sorted({each.host for each in missing.values()})
    places: dict[str, int] = dict(FIND_HOSTS.each(connection, "names", names))
    new = [name for name in names if name not in places]
    new_hosts = [
        {"name": name, "domain_index": domain_index(name), "domain": registrable(name), "bucket": bucket_of(name)}
        for name in new
    ]
    insert_missing(connection, hosts, new_hosts)
    places |= dict(FIND_HOSTS.each(connection, "names", new))
    rows = [  # first checks are spread over `FIRST_LOOKS_DAYS`
        {
            "key": key,
            "host_id": places[each.host],
            "scheme": SCHEMES.index(each.scheme),
            "port": each.port,
            "path": each.path,
            "bucket": bucket_of(each.host),
            "added_day": day,
            "touched_day": day,
            "due_day": day + int.from_bytes(key[8:], "big") % FIRST_LOOKS_DAYS,
        }
        for key, each in missing.items()
    ]
    insert_missing(connection, urls, rows)


_HOSTS_AT_ONCE = 1_000


class NotObservedError(InputError):
    """Lookup of a URL that the registry does not watch."""


def find_observed(reader: Reader, url: str) -> UrlRow | None:
    """Find a URL in any spelling; None when it is not watched; BadUrlError when it is not a URL."""
    rows = FIND.rows(reader, {"keys": [url_parts_of(fetch_key(url)).key]})
    return row_of(rows[0]) if rows else None


def require_observed(reader: Reader, url: str) -> UrlRow:
    """Find a URL in any spelling; NotObservedError when it is not watched."""
    row = find_observed(reader, url)
    if row is None:
        raise NotObservedError(
            f"{shorten_for_message(url)} is not watched: no page in the registry has ever linked to it. `weboid links "
            "ls` shows watched links."
        )
    return row


def hosts_of(connection: Connection, pattern: UrlPattern, *, wide: bool = True) -> Iterator[int]:
    """Yield the ids of the hosts that the pattern can match; without `wide` none that needs a full scan."""
    if pattern.form is PatternForm.REGEX:
        if wide:
            yield from _walk(connection, None)
        return
    if pattern.form is PatternForm.HOST_TREE:
        name = pattern.text
        below = hosts.c.name.endswith(f".{name}", autoescape=True) | (hosts.c.name == name)
        if wide:
            yield from _walk(connection, below)
            return
        labels = name.split(".")
        # The registrable domain of a host's subdomain is that of the host, or is below the host.
        domain = hosts.c.domain.in_([".".join(labels[start:]) for start in range(len(labels))])
        itself = select(hosts.c.id).where(hosts.c.name == name)
        yield from connection.execute(itself.union(select(hosts.c.id).where(domain, below))).scalars()
        return
    name = pattern.text if pattern.form is PatternForm.HOST else host_in(pattern.text)
    yield from connection.execute(select(hosts.c.id).where(hosts.c.name == name)).scalars()


def find_matching_urls(connection: Connection, pattern: UrlPattern, *, limit: int) -> list[UrlRow]:
    """Return up to `limit` watched URLs that match the pattern, without a scan of all hosts."""
    matches, query = matcher(pattern), select_url_rows().where(*_within_host(pattern)).limit(limit + 1)
    rows = (
        row_of(row)
        for host_id in list(hosts_of(connection, pattern, wide=False))
        for row in connection.execute(query.where(urls.c.host_id == host_id))
    )
    return list(islice((row for row in rows if matches(row.url)), limit))


def matcher(pattern: UrlPattern) -> Callable[[str], bool]:
    """Return a predicate for URLs that match the pattern."""
    table: PatternTable[UrlPattern] = PatternTable()
    table.add(pattern, pattern)
    return lambda url: bool(table.find(pattern_target(url)))


def host_in(text: str) -> str:
    """Return the host of an authority with a path, as in patterns.

    >>> host_in("example.org:8080/x"), host_in("[::1]:80/")
    ('example.org', '[::1]')
    """
    authority = text.partition("/")[0]
    return authority.partition("]")[0] + "]" if authority.startswith("[") else authority.partition(":")[0]


def _within_host(pattern: UrlPattern) -> Sequence[ColumnElement[bool]]:
    """Build the pattern's conditions beside the host that the database can check: all but letter case."""
    if pattern.form not in (PatternForm.PREFIX, PatternForm.EXACT):
        return ()
    authority, slash, rest = pattern.text.partition("/")
    path = slash + rest
    port = authority.removeprefix(host_in(pattern.text)).removeprefix(":")
    conditions: list[ColumnElement[bool]] = [urls.c.port == int(port or 0)]
    if pattern.scheme:
        conditions.append(urls.c.scheme == SCHEMES.index(pattern.scheme))
    head = path[:PATH_HEAD_CHARS]
    path_head: ColumnElement[str] = literal_column(PATH_HEAD)
    if pattern.form is PatternForm.EXACT:
        return [*conditions, path_head == head, urls.c.path == path]
    if head:
        after = head[:-1] + chr(ord(head[-1]) + 1)  # paths are ASCII, in the order of their bytes
        conditions += [path_head >= head, path_head < after, urls.c.path.startswith(path, autoescape=True)]
    return conditions


def _walk(connection: Connection, condition: ColumnElement[bool] | None) -> Iterator[int]:
    last = 0
    while True:
        question = select(hosts.c.id).where(hosts.c.id > last)
        if condition is not None:
            question = question.where(condition)
        batch = connection.execute(question.order_by(hosts.c.id).limit(_HOSTS_AT_ONCE)).scalars().all()
        yield from batch
        if len(batch) < _HOSTS_AT_ONCE:
            return
        last = batch[-1]


class UrlObservation(NamedTuple):
    """Stored check."""

    moment: int  # seconds since 1970 UTC
    how: CheckMethod
    code: int  # the status byte
    verdict: str  # text of a `links.check_result.CheckVerdict`
    http: int | None  # the HTTP status; None without an answer
    final_url: str  # the target of redirects; empty without any
    note: str  # the evidence in a few words; may be empty
    similarity: int | None  # share of the copy's text in percent; None: not compared


OF_URL = SqlStatement(
    select(*(observations.c[name] for name in UrlObservation._fields))
    .where(observations.c.url_id == one("url"))
    .order_by(observations.c.moment.desc(), observations.c.how.desc())
    .limit(one("most"))
)


def latest_observations(reader: Reader, url_id: int, *, limit: int = 8) -> list[UrlObservation]:
    """Return the URL's latest stored checks, the newest first."""
    rows = OF_URL.rows(reader, {"url": url_id, "most": limit})
    return [UrlObservation(row[0], CheckMethod(row[1]), *row[2:]) for row in rows]
