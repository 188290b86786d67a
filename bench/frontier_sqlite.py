"""The SQLite frontier as `bench.frontier` measures it: filled by SQL."""

from hashlib import blake2b
from pathlib import Path

from bench.frontier_load import HOSTS, JOB, KNOWN, VIA, url_of
from core.urls import identity_key
from crawler.frontier.host_slots import EPOCH_BITS
from crawler.frontier.sqlite_database import DONE
from crawler.frontier.sqlite_frontier import SqliteFrontier

_FILL = f"""
INSERT INTO jobs (id, job, began_ms) VALUES (1, '{JOB}', 0);
INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, via, memo, added_ms)
WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < :size)
SELECT seq, randomblob(16), 'https://www.host' || (seq * 7919 % {HOSTS}) || '.example.org'
       || '/some/path/of/usual/length/page-' || seq || '.html?section=1',
       1 + seq * 7919 % {HOSTS}, 1, 2, 0, 1, 0, '{VIA}', '', 0
FROM n;
INSERT INTO seen SELECT randomblob(16) AS identity, seq FROM items WHERE seq > :known ORDER BY 1;
INSERT INTO hosts (id, host, next_ms) SELECT DISTINCT host_id, 'www.host' || (host_id - 1)
       || '.example.org', 0 FROM items;
UPDATE totals SET hosts = (SELECT count(*) FROM hosts);
"""
_QUEUED = f"""
INSERT INTO queue SELECT lane, seq >> {EPOCH_BITS}, host_id, place, seq FROM items
ORDER BY 1, 2, 3, 4, 5;
CREATE TEMP TABLE waits AS SELECT host_id, count(*) AS items, min(seq) >> {EPOCH_BITS} AS head
FROM items GROUP BY host_id ORDER BY host_id;
UPDATE hosts SET lane = 2, waiting_standard = items, head_standard = head,
       size = 1 + cast(log2(items) AS INTEGER) FROM waits WHERE host_id = id;
DROP TABLE waits;
UPDATE totals SET queued = :size;
UPDATE jobs SET queued = :size;
"""
_DONE = f"""
UPDATE items SET ended = {DONE}, ended_ms = seq, outcome = 'complete', attempts = 1;
UPDATE totals SET done = :size;
UPDATE jobs SET done = :size;
"""


class SqliteKept:
    """A frontier in a file of that folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.sqlite"
        self.frontier = SqliteFrontier(self._path)

    def fill(self, size: int, *, done: bool = False) -> None:
        """See `FrontierUnderLoad.fill`."""
        known = min(size, KNOWN)
        identities = sorted(
            (blake2b(identity_key(url_of(seq)).encode(), digest_size=16).digest(), seq) for seq in range(1, known + 1)
        )
        values = {"size": size, "known": known}
        store = self.frontier._store  # noqa: SLF001 what a verb would take minutes for
        with store.transaction() as db:
            for statement in (_FILL + (_DONE if done else _QUEUED)).split(";"):
                named = {name: values[name] for name in values if f":{name}" in statement}
                db.execute(statement, named)
            db.executemany("INSERT INTO seen VALUES (?, ?)", identities)
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # noqa: SLF001 as above

    def bytes(self) -> int:
        """Return the file's size in bytes; `fill` has merged the WAL into it."""
        return self._path.stat().st_size

    def close(self) -> None:
        """Close the file; it stays in the folder."""
        self.frontier.close()
