"""Host slots as rows of the SQLite frontier."""
# ruff: noqa: S608 - only constants of this file are pieced together; values are parameters

import sqlite3
from typing import Any

from core.errors import InvariantError
from core.timestamps import moment as to_moment
from crawler.frontier.base import HostBlock, Lane
from crawler.frontier.slots import HostSlot

_COLUMNS = (
    "id, next_ms, blocked_ms, active, waiting_now, waiting_high, waiting_standard, "
    "head_now, head_high, head_standard, lane, ready_ms"
)
_SET = (
    "next_ms = ?, active = ?, waiting_now = ?, waiting_high = ?, waiting_standard = ?, "
    "head_now = ?, head_high = ?, head_standard = ?"
)

# New items at the end of a lane where others wait change nothing but the number that waits.
_GROW = {
    lane: f"UPDATE hosts SET waiting_{name} = waiting_{name} + ? "
    f"WHERE host = ? AND waiting_{name} > 0 RETURNING id"
    for lane, name in ((Lane.NOW, "now"), (Lane.HIGH, "high"), (Lane.STANDARD, "standard"))
}


def grow(db: sqlite3.Connection, host: str, lane: Lane, count: int) -> int | None:
    """Let `count` new items join the end of a lane that is not empty; the host's number.

    None, and nothing changed, when the lane is empty or the host has no slot: a short cut for the
    commonest change, the same as `HostSlot.pushed` makes it.
    """
    row = db.execute(_GROW[lane], (count, host)).fetchone()
    return None if row is None else int(row[0])


def by_id(db: sqlite3.Connection, host_id: int) -> HostSlot:
    """The slot of that number."""
    row = db.execute(f"SELECT {_COLUMNS} FROM hosts WHERE id = ?", (host_id,)).fetchone()
    if row is None:
        raise InvariantError(f"An item names host {host_id}, which has no slot.")
    return _slot(row)


def by_name(db: sqlite3.Connection, host: str) -> HostSlot | None:
    """The host's slot; None when it has none yet."""
    row = db.execute(f"SELECT {_COLUMNS} FROM hosts WHERE host = ?", (host,)).fetchone()
    return None if row is None else _slot(row)


def create(db: sqlite3.Connection, host: str) -> HostSlot:
    """A new slot for a host that has none."""
    number = db.execute("INSERT INTO hosts (host) VALUES (?)", (host,)).lastrowid
    return HostSlot(id=number or 0)


def save(db: sqlite3.Connection, slot: HostSlot, old: HostSlot) -> None:
    """Write what changed since `old` was read."""
    values = (slot.next_ms, slot.active, *slot.waiting, *slot.heads)
    if (slot.lane, slot.ready_ms) == (old.lane, old.ready_ms):
        # Most changes leave the index of ready hosts alone; naming its columns would rewrite it.
        db.execute(f"UPDATE hosts SET {_SET} WHERE id = ?", (*values, slot.id))
    else:
        db.execute(
            f"UPDATE hosts SET {_SET}, lane = ?, ready_ms = ? WHERE id = ?",
            (*values, slot.lane, slot.ready_ms, slot.id),
        )


def save_block(db: sqlite3.Connection, slot: HostSlot, reason: str) -> None:
    """Write the slot's block and why."""
    db.execute(
        "UPDATE hosts SET blocked_ms = ?, blocked_reason = ? WHERE id = ?",
        (slot.blocked_ms, reason, slot.id),
    )


def ready(db: sqlite3.Connection, now_ms: int, limit: int) -> list[tuple[str, HostSlot]]:
    """Hosts that may be asked now, by lane, the longest-waiting first; their names and slots."""
    found: list[tuple[str, HostSlot]] = []
    for lane in Lane:
        rows = db.execute(
            f"SELECT host, {_COLUMNS} FROM hosts WHERE lane = ? AND ready_ms <= ? "
            "ORDER BY ready_ms LIMIT ?",
            (lane, now_ms, limit - len(found)),
        ).fetchall()
        found += [(row[0], _slot(row[1:])) for row in rows]
    return found


def earliest(db: sqlite3.Connection, lane: Lane) -> int | None:
    """When the first host that stands for the lane may be asked."""
    row = db.execute("SELECT min(ready_ms) FROM hosts WHERE lane = ?", (lane,)).fetchone()
    return None if row[0] is None else int(row[0])


def blocks(db: sqlite3.Connection, now_ms: int, limit: int) -> list[HostBlock]:
    """Hosts blocked at that moment, the longest block first."""
    rows = db.execute(
        "SELECT host, blocked_ms, blocked_reason FROM hosts "
        "WHERE blocked_ms > 0 AND blocked_ms > ? ORDER BY blocked_ms DESC LIMIT ?",
        (now_ms, limit),
    ).fetchall()
    return [HostBlock(host, to_moment(until), reason) for host, until, reason in rows]


def _slot(row: tuple[Any, ...]) -> HostSlot:
    host_id, next_ms, blocked_ms, active = row[:4]
    return HostSlot(host_id, next_ms, blocked_ms, active, row[4:7], row[7:10], row[10], row[11])
