"""The SQLite frontier's tables. Moments are whole milliseconds since 1970 UTC.

The parts that a frontier must keep apart (U12) are tables apart:

seen      the unique-URL filter: 128 bits of the identity key's hash.
items     one row a URL, in the order they came; written when added and when ended. What ended and
          stands (`books.ENDED`) is indexed: `ended % 4 > 0` says so in words that the planner does
          not take for a range to search.
queue     what may be claimed as far as the item goes; `lane, epoch` first, so that additions stay
          close together on disk however many hosts there are. `place` is 0, or random (W40).
later     what waits for a not-before moment.
due       done items that are queued again by themselves, and when.
claims    who holds what, under which token, until when.
hosts     the slots; `lane, ready_ms` is the index of hosts by the moment they may next be asked.
back_offs until when hosts are blocked by their last refusal; an operator's block is not in it.
attempts  the log: claims that did not complete their item.
totals    one row of counts, so that status costs nothing; and the tokens given so far.
jobs      the same by job; items name it by number.
minutes   what ended in the last hour, by minute.
orders    what operators want of all workers.
notes     what workers tell each other.
"""

SCHEMA_VERSION = 2
APPLICATION_ID = 0x77656266  # "webf"

# A table that files of this version from before it lack; `store.Store` adds it.
BACK_OFFS = """
CREATE TABLE IF NOT EXISTS back_offs (
    until_ms INTEGER NOT NULL,
    host_id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (until_ms, host_id)
) WITHOUT ROWID
"""

SCHEMA = """
CREATE TABLE seen (
    identity BLOB PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE items (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    url TEXT NOT NULL,
    host_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hops INTEGER NOT NULL,
    hops_off INTEGER NOT NULL,
    via TEXT NOT NULL,
    memo TEXT NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    added_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL DEFAULT ''
);
CREATE INDEX items_ended ON items (ended, ended_ms) WHERE ended % 4 > 0;
CREATE INDEX items_ended_by_host ON items (host_id, ended, ended_ms) WHERE ended % 4 > 0;
CREATE TABLE queue (
    lane INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (lane, epoch, host_id, place, seq)
) WITHOUT ROWID;
CREATE TABLE later (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;
CREATE INDEX later_by_host ON later (host_id, due_ms);
CREATE TABLE due (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;
CREATE TABLE claims (
    token INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL
);
CREATE INDEX claims_by_lease ON claims (lease_ms);
CREATE INDEX claims_by_host ON claims (host_id);
CREATE TABLE hosts (
    id INTEGER PRIMARY KEY,
    host TEXT NOT NULL UNIQUE,
    next_ms INTEGER NOT NULL,
    blocked_ms INTEGER NOT NULL DEFAULT 0,
    blocked_reason TEXT NOT NULL DEFAULT '',
    down_ms INTEGER NOT NULL DEFAULT 0,
    refusals INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 0,
    waiting_now INTEGER NOT NULL DEFAULT 0,
    waiting_high INTEGER NOT NULL DEFAULT 0,
    waiting_standard INTEGER NOT NULL DEFAULT 0,
    head_now INTEGER NOT NULL DEFAULT 0,
    head_high INTEGER NOT NULL DEFAULT 0,
    head_standard INTEGER NOT NULL DEFAULT 0,
    lane INTEGER,
    ready_ms INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    busy_ms INTEGER NOT NULL DEFAULT 0,
    mean_ms REAL
);
CREATE INDEX hosts_ready ON hosts (lane, ready_ms) WHERE lane IS NOT NULL;
CREATE INDEX hosts_blocked ON hosts (blocked_ms) WHERE blocked_ms > 0;
CREATE INDEX hosts_by_size ON hosts (size) WHERE size > 0;
CREATE INDEX hosts_by_mean ON hosts (mean_ms) WHERE mean_ms IS NOT NULL;
CREATE TABLE attempts (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    id BLOB NOT NULL,
    ending TEXT NOT NULL,
    reason TEXT NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL
);
CREATE INDEX attempts_by_item ON attempts (seq);
CREATE TABLE totals (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    queued INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    later INTEGER NOT NULL DEFAULT 0,
    due INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0,
    hosts INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    paused TEXT,
    token INTEGER NOT NULL DEFAULT 0,
    rest_ms INTEGER NOT NULL DEFAULT 0
);
INSERT INTO totals (one) VALUES (1);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    queued INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    began_ms INTEGER NOT NULL
);
CREATE TABLE minutes (
    minute INTEGER PRIMARY KEY,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE TABLE orders (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE notes (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (kind, key)
);
CREATE INDEX notes_by_end ON notes (until_ms) WHERE until_ms IS NOT NULL;
"""
