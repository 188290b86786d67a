"""Watched URLs for tests of what people say about them."""

from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select

from links.check_history import day_of
from links.registry.schema import hosts, urls
from links.states import LinkState
from links.url_parts import SCHEMES, bucket_of, domain_index, url_parts_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TODAY = day_of(NOW)


def watch(connection: Connection, *texts: str, state: LinkState = LinkState.DEAD) -> list[int]:
    """Add rows for the URLs, as if pages had them; return their ids."""
    ids = []
    for text in texts:
        it = url_parts_of(text)
        bucket = bucket_of(it.host)
        host_id = connection.execute(select(hosts.c.id).where(hosts.c.name == it.host)).scalar_one_or_none()
        if host_id is None:
            named = {
                "name": it.host, "domain_index": domain_index(it.host),
                "domain": ".".join(it.host.split(".")[-2:]), "bucket": bucket,
            }  # fmt: skip
            made = insert(hosts).values(named).returning(hosts.c.id)
            host_id = connection.execute(made).scalar_one()
        row = {
            "key": it.key, "host_id": host_id, "scheme": SCHEMES.index(it.scheme),
            "port": it.port, "path": it.path, "bucket": bucket, "added_day": TODAY - 400,
            "touched_day": TODAY, "due_day": TODAY + 3, "state": int(state),
        }  # fmt: skip
        made = insert(urls).values(row).returning(urls.c.id)
        ids.append(connection.execute(made).scalar_one())
    return ids
