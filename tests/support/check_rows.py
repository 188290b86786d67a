"""URLs in a registry, put there as rows, and what became of them."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import insert, select

from links.registry.database import RegistryStore
from links.registry.schema import hosts, observations, urls
from links.registry.urls import UrlRow
from links.states import LinkState
from links.url_parts import SCHEMES, bucket_of, domain_index, url_parts_of


def watch(store: RegistryStore, addresses: Iterable[str], *, day: int = 0, **columns: Any) -> dict[str, int]:
    """Add the URLs to the registry, due on that day; return their rows' ids by URL."""
    id_by_address: dict[str, int] = {}
    with store.writing() as rows:
        known = {name: id_ for id_, name in rows.execute(select(hosts.c.id, hosts.c.name))}
        for address in addresses:
            where = url_parts_of(address)
            if where.host not in known:
                made = rows.execute(insert(hosts).values(**_host(where.host)))
                assert made.inserted_primary_key is not None
                known[where.host] = made.inserted_primary_key[0]
            values: dict[str, Any] = {
                "key": where.key,
                "host_id": known[where.host],
                "scheme": SCHEMES.index(where.scheme),
                "port": where.port,
                "path": where.path,
                "bucket": bucket_of(where.host),
                "added_day": day,
                "touched_day": day,
                "due_day": day,
            }
            row = rows.execute(insert(urls).values(**values | columns))
            assert row.inserted_primary_key is not None
            id_by_address[address] = row.inserted_primary_key[0]
    return id_by_address


def url_row(url: str, **columns: Any) -> UrlRow:
    """Return the row of a URL that is due and was never checked, but for these columns."""
    days = {"added_day": 0, "touched_day": 0, "checked_day": None, "due_day": 0}
    health = {"state": LinkState.UNKNOWN, "fails": 0, "first_fail_day": None, "last_fail_day": None, "proofs": 0}
    facts = {"id": 1, "host_id": 1, "code": 0, "history": None, "mime": None, "kib": None, **days, **health}
    return UrlRow(url=url, host=url_parts_of(url).host, **facts | columns)


def _host(name: str) -> dict[str, Any]:
    domain = ".".join(name.split(".")[-2:])
    return {"name": name, "domain_index": domain_index(name), "domain": domain, "bucket": bucket_of(name)}


def row_of(store: RegistryStore, url_id: int) -> Any:
    """Return the URL's current row."""
    with store.reading() as rows:
        return rows.execute(select(urls).where(urls.c.id == url_id)).one()


def seen_of(store: RegistryStore, url_id: int) -> list[Any]:
    """Return the URL's observations, oldest first."""
    query = select(observations).where(observations.c.url_id == url_id)
    with store.reading() as rows:
        return list(rows.execute(query.order_by(observations.c.moment)))
