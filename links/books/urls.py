"""URLs: made known, found again, touched while pages have them (W37, W63).

A URL is found by the digest of its identity key, whatever its length, and comes back byte for byte
(A17). Its host is kept once, beside all URLs of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, select, update

from core.errors import InvariantError
from links.domains import registrable
from links.locator import SCHEMES, Locator, bucket_of, domain_index, key_of, split
from links.states import Proof, Standing, State
from links.store.schema import hosts, urls
from links.store.statements import Reader, Statement, batches, many, one
from links.store.upserts import insert_missing

FIRST_LOOKS_DAYS = (
    7  # new URLs are looked at within a week, spread evenly: no burst after an import
)


class UrlRow(NamedTuple):
    """What the registry keeps of a URL.

    Attributes:
        url: its identity key.
        code: the status byte of the last look (`links.status`).
        history: `links.history`; None before the first look.
        added_day: when it became known; all days are `links.days` numbers.
        touched_day: when a page that has it was last read.
        checked_day: when it was last looked at; None when never.
        due_day: when it is looked at next; None: never.
        mime: an unusual type's short name (W66), with `kib`, its length.
    """

    id: int
    url: str
    host: str
    host_id: int
    state: State
    code: int
    history: bytes | None
    added_day: int
    touched_day: int
    checked_day: int | None
    due_day: int | None
    fails: int
    first_fail_day: int | None
    last_fail_day: int | None
    proofs: int
    mime: str | None
    kib: int | None

    @property
    def standing(self) -> Standing:
        """Where it stands, as the rules see it."""
        return Standing(
            self.state, self.fails, self.first_fail_day, self.last_fail_day, Proof(self.proofs)
        )


COLUMNS = (
    *(urls.c.id, urls.c.scheme, hosts.c.name, urls.c.port, urls.c.path, urls.c.host_id),
    *(urls.c.state, urls.c.code, urls.c.history, urls.c.added_day, urls.c.touched_day),
    *(urls.c.checked_day, urls.c.due_day, urls.c.fails, urls.c.first_fail_day),
    *(urls.c.last_fail_day, urls.c.proofs, urls.c.mime, urls.c.kib),
)  # what `row_of` takes
_STATES = {int(state): state for state in State}
_BEGINNINGS = tuple(f"{scheme}://" for scheme in SCHEMES)


def row_of(found: Sequence[Any]) -> UrlRow:
    """The row whose first columns are `COLUMNS`."""
    id_, scheme, host, port, path, host_id, state, *rest = found[: len(COLUMNS)]
    url = (
        f"{_BEGINNINGS[scheme]}{host}:{port}{path}"
        if port
        else f"{_BEGINNINGS[scheme]}{host}{path}"
    )
    return UrlRow(id_, url, host, host_id, _STATES[state], *rest)


def full() -> Select[Any]:
    """A query for `COLUMNS`."""
    return select(*COLUMNS).select_from(urls.join(hosts, hosts.c.id == urls.c.host_id))


FIND = Statement(full().where(urls.c.key.in_(many("keys"))), "keys")
FIND_IDS = Statement(full().where(urls.c.id.in_(many("ids"))), "ids")
FIND_KEYS = Statement(
    select(
        *(urls.c.key, urls.c.id, urls.c.touched_day),
        *(urls.c.scheme, hosts.c.name, urls.c.port, urls.c.path),
    )
    .select_from(urls.join(hosts, hosts.c.id == urls.c.host_id))
    .where(urls.c.key.in_(many("keys"))),
    "keys",
)
# Held until the URL is written: a host without URLs may be forgotten (`links.books.retention`).
FIND_HOSTS = Statement(
    select(hosts.c.name, hosts.c.id)
    .where(hosts.c.name.in_(many("names")))
    .order_by(hosts.c.id)
    .with_for_update(read=True, key_share=True),
    "names",
)
# Whoever changes several rows takes them in one order, lest two wait for each other.
TOUCH = Statement(
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
    """The ids of the URLs; those that are new are written, and all are touched.

    Args:
        connection: of a transaction that writes.
        identities: identity keys (`core.urls.identity_key`).
        day: today.

    Raises:
        InvariantError: two URLs have one key. In 128 bits that is no accident.
    """
    wanted: dict[bytes, str] = {}
    for identity in identities:
        if wanted.setdefault(key_of(identity), identity) != identity:
            raise _one_key(identity, wanted[key_of(identity)])
    ids, old = _known(connection, wanted, day)
    # One that is too old may be forgotten between our two questions; touching tells.
    while old and touch_urls(connection, old, day=day) < len(old):
        ids, old = _known(connection, wanted, day)
    missing = {key: identity for key, identity in wanted.items() if identity not in ids}
    if missing:
        # In order, so that of two who write the same at once none waits for the other for ever.
        _write(connection, {key: split(missing[key]) for key in sorted(missing)}, day)
        ids |= _known(connection, missing, day)[0]
    return ids


def find_urls(reader: Reader, identities: Iterable[str]) -> dict[str, UrlRow]:
    """Those of the URLs that the registry knows, by their identity keys."""
    rows: dict[str, UrlRow] = {}
    for batch in batches(dict.fromkeys(identities)):
        keys = [key_of(identity) for identity in batch]
        for row in map(row_of, FIND.rows(reader, {"keys": keys})):
            rows[row.url] = row
    return rows


def urls_by_id(reader: Reader, ids: Iterable[int]) -> dict[int, UrlRow]:
    """Those of the URLs that are there."""
    rows: dict[int, UrlRow] = {}
    for batch in batches(dict.fromkeys(ids)):
        rows |= {found[0]: row_of(found) for found in FIND_IDS.rows(reader, {"ids": batch})}
    return rows


def touch_urls(connection: Connection, ids: Iterable[int], *, day: int) -> int:
    """Note that a page that was read today has the URLs (W37); of how many this was news."""
    return sum(TOUCH.run(connection, {"ids": batch, "day": day}) for batch in batches(sorted(ids)))


def first_look(key: bytes, day: int) -> int:
    """The day of the first look at a URL that becomes known today."""
    return day + int.from_bytes(key[8:], "big") % FIRST_LOOKS_DAYS


def _known(
    reader: Reader, wanted: Mapping[bytes, str], day: int
) -> tuple[dict[str, int], list[int]]:
    """The ids of those that are there, and which of these were last touched before today."""
    ids: dict[str, int] = {}
    old: list[int] = []
    for batch in batches(wanted):
        for found in FIND_KEYS.rows(reader, {"keys": batch}):
            key, id_, touched, scheme, host, port, path = found
            identity = wanted[bytes(key)]
            there = Locator(SCHEMES[scheme], host, port, path).url
            if there != identity:
                raise _one_key(identity, there)
            ids[identity] = id_
            if touched < day:
                old.append(id_)
    return ids, old


def _one_key(one: str, other: str) -> InvariantError:
    return InvariantError(
        f"{one[:500]!r} and {other[:500]!r} have the same key in the link registry: keep both URLs "
        "and report this."
    )


def _write(connection: Connection, missing: Mapping[bytes, Locator], day: int) -> None:
    places = _ensure_hosts(connection, sorted({each.host for each in missing.values()}))
    rows = [
        {
            "key": key,
            "host_id": places[each.host],
            "scheme": SCHEMES.index(each.scheme),
            "port": each.port,
            "path": each.path,
            "bucket": bucket_of(each.host),
            "added_day": day,
            "touched_day": day,
            "due_day": first_look(key, day),
        }
        for key, each in missing.items()
    ]
    insert_missing(connection, urls, rows)


def _ensure_hosts(connection: Connection, names: list[str]) -> dict[str, int]:
    found = _find_hosts(connection, names)
    missing = [name for name in names if name not in found]
    if missing:
        rows = [
            {
                "name": name,
                "domain_index": domain_index(name),
                "domain": registrable(name),
                "bucket": bucket_of(name),
            }
            for name in missing
        ]
        insert_missing(connection, hosts, rows)
        found |= _find_hosts(connection, missing)
    return found


def _find_hosts(reader: Reader, names: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in batches(names):
        found.update(FIND_HOSTS.rows(reader, {"names": batch}))
    return found
