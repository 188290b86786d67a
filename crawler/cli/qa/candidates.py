"""The pages of a captures index as candidates for a check, read as a stream.

They come in the order of their replay keys: those of a host side by side, and the captures of a URL one
after the other, so that each knows how large the one before was. However many there are, no more than a
chunk of them is held.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.classes import page_class
from core.errors import BadUrlError
from core.pages import Outcome
from core.replay_keys import replay_key
from core.timestamps import milliseconds, moment
from core.urls import host_of
from crawler.quality.sampling import Candidate
from links.books.quality import already_checked
from links.store.store import Store
from playback.captures_queries import KeyRange
from playback.choosing import OFFERED
from playback.database import Database, key_values
from playback.pages_stream import ALL_KEYS, page_chunks

_CHUNK = 5_000
_COLUMNS = (
    "page_id, url, urlkey, final_url, captured_ms, timestamp, outcome, reason, status, mime,"
    " page_class, stored_bytes"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pages.

    Attributes:
        level: at which they are checked.
        engine: checks by it need not be made again.
        host: only pages of this canonical host; empty: of all.
        since: only what was captured from then on; None: whenever.
        again: also what was checked already.
    """

    level: str
    engine: str
    host: str = ""
    since: datetime | None = None
    again: bool = False


def candidates(database: Database, registry: Store, wanted: Wanted) -> Iterator[Candidate]:
    """The pages that are wanted, those of a host side by side.

    Raises:
        TransientError: index or registry cannot be read.
    """
    since_ms = -(2**53) if wanted.since is None else milliseconds(wanted.since)
    before: dict[str, int] = {}
    last_key = checked_host = ""
    keys = _keys_of(wanted.host) if wanted.host else ALL_KEYS
    for rows in page_chunks(database, OFFERED, columns=_COLUMNS, keys=keys, size=_CHUNK):
        done = _done(registry, rows, wanted)
        hosts = {_host(row["url"]) for row in rows if row["page_id"] in done} | {checked_host}
        for row in rows:
            url, host = row["url"], _host(row["url"])
            if row["urlkey"] != last_key:
                before, last_key = {}, row["urlkey"]
            earlier = before.get(url)
            before[url] = row["stored_bytes"]
            if wanted.host and host != wanted.host:
                continue
            is_known = wanted.again or host in hosts
            checked_host = host if is_known else ""
            if row["captured_ms"] >= since_ms and row["page_id"] not in done:
                yield _candidate(row, host, earlier, host_checked=is_known)


def newest(
    database: Database, urls: Sequence[str], *, host_checked: bool = True
) -> Iterator[tuple[str, Candidate | None]]:
    """Each URL with its newest capture that there is a copy of; None: there is none.

    Raises:
        TransientError: the index cannot be read.
    """
    for url in urls:
        try:
            key = key_values(replay_key(url))
        except BadUrlError:
            yield url, None
            continue
        rows = database.rows(
            f"SELECT {_COLUMNS} FROM pages WHERE {database.has_key} AND url = :url"  # noqa: S608 constants of ours
            f" AND {OFFERED} ORDER BY captured_ms DESC, page_id LIMIT 1",
            {**key, "url": url},
        )
        yield (
            url,
            _candidate(rows[0], _host(url), None, host_checked=host_checked) if rows else None,
        )


def _keys_of(host: str) -> KeyRange:
    return KeyRange.of_prefix(replay_key(f"http://{host}/").partition(")")[0])


def _done(registry: Store, rows: Sequence[Any], wanted: Wanted) -> set[str]:
    if wanted.again:
        return set()
    with registry.reading() as reader:
        page_ids = [row["page_id"] for row in rows]
        return already_checked(reader, page_ids, wanted.level, wanted.engine)


def _candidate(row: Any, host: str, before: int | None, *, host_checked: bool) -> Candidate:
    return Candidate(
        page_id=row["page_id"],
        url=row["url"],
        final_url=row["final_url"],
        captured_at=moment(row["captured_ms"]),
        timestamp=row["timestamp"],
        host=host,
        outcome=Outcome(row["outcome"]),
        reason=row["reason"],
        status=row["status"],
        mime=row["mime"],
        page_class=page_class(row["page_class"]),
        stored_bytes=row["stored_bytes"],
        before_bytes=before,
        host_checked=host_checked,
    )


def _host(url: str) -> str:
    try:
        return host_of(url)
    except BadUrlError:
        return ""
