"""Orders and notes as rows of the SQLite frontier; see `crawler.frontier.base`."""

import sqlite3

# What one note tidies up at most: more than it adds, so that no more than a few lie about.
_TIDY_LIMIT = 8


def give_order(db: sqlite3.Connection, kind: str, key: str, value: str) -> int:
    """Keep the order; the new version."""
    db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (kind, key, value))
    return _raise_version(db)


def take_back(db: sqlite3.Connection, kind: str, key: str) -> bool:
    """Forget the order; False when there was none."""
    gone = db.execute("DELETE FROM orders WHERE kind = ? AND key = ?", (kind, key)).rowcount == 1
    if gone:
        _raise_version(db)
    return gone


def orders(db: sqlite3.Connection, kind: str) -> dict[str, str]:
    """The orders of that kind by key."""
    return dict(db.execute("SELECT key, value FROM orders WHERE kind = ? ORDER BY key", (kind,)))


def put_note(
    db: sqlite3.Connection, kind: str, key: str, value: str, now_ms: int, until_ms: int | None
) -> None:
    """Keep the note; some that are over make room."""
    db.execute(
        "DELETE FROM notes WHERE rowid IN "
        "(SELECT rowid FROM notes WHERE until_ms IS NOT NULL AND until_ms <= ? LIMIT ?)",
        (now_ms, _TIDY_LIMIT),
    )
    db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", (kind, key, value, until_ms))


def note(db: sqlite3.Connection, kind: str, key: str, now_ms: int) -> str | None:
    """The note, when it holds."""
    row = db.execute(
        "SELECT value, until_ms FROM notes WHERE kind = ? AND key = ?", (kind, key)
    ).fetchone()
    if row is None or (row[1] is not None and row[1] <= now_ms):
        return None
    return str(row[0])


def notes(db: sqlite3.Connection, kind: str, now_ms: int) -> dict[str, str]:
    """The notes of that kind that hold, by key."""
    rows = db.execute("SELECT key, value, until_ms FROM notes WHERE kind = ? ORDER BY key", (kind,))
    return {key: value for key, value, until in rows if until is None or until > now_ms}


def erase_note(db: sqlite3.Connection, kind: str, key: str) -> None:
    """Forget the note."""
    db.execute("DELETE FROM notes WHERE kind = ? AND key = ?", (kind, key))


def _raise_version(db: sqlite3.Connection) -> int:
    row = db.execute("UPDATE totals SET version = version + 1 RETURNING version").fetchone()
    return int(row[0])
