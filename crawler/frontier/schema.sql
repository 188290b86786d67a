-- Tables of the SQLite frontier, the separate parts of a frontier (U12). Times are Unix milliseconds.

-- The unique-URL filter: 128 bits of the identity key's hash.
CREATE TABLE IF NOT EXISTS seen (
    identity BLOB PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;

-- One row per URL, in order of arrival; written when added and when ended. Current ended rows
-- (`sqlite_database.ENDED`) are indexed; written as `ended % 4 > 0`, the planner does not use it as a range.
CREATE TABLE IF NOT EXISTS items (
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
CREATE INDEX IF NOT EXISTS items_ended ON items (ended, ended_ms) WHERE ended % 4 > 0;
CREATE INDEX IF NOT EXISTS items_ended_by_host ON items (host_id, ended, ended_ms) WHERE ended % 4 > 0;

-- Claimable items; `lane, epoch` first, so that additions are adjacent on disk regardless of the number of
-- hosts. `place` is 0, or random (W40).
CREATE TABLE IF NOT EXISTS queue (
    lane INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (lane, epoch, host_id, place, seq)
) WITHOUT ROWID;

-- Items with a not-before time.
CREATE TABLE IF NOT EXISTS later (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS later_by_host ON later (host_id, due_ms);

-- Done items with the time of their recrawl.
CREATE TABLE IF NOT EXISTS due (
    due_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (due_ms, seq)
) WITHOUT ROWID;

-- Holder, token and lease end of each claim.
CREATE TABLE IF NOT EXISTS claims (
    token INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE,
    host_id INTEGER NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS claims_by_lease ON claims (lease_ms);
CREATE INDEX IF NOT EXISTS claims_by_host ON claims (host_id);

-- Host slots; `lane, ready_ms` is the index of hosts by the time of their next visit.
CREATE TABLE IF NOT EXISTS hosts (
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
CREATE INDEX IF NOT EXISTS hosts_ready ON hosts (lane, ready_ms) WHERE lane IS NOT NULL;
CREATE INDEX IF NOT EXISTS hosts_blocked ON hosts (blocked_ms) WHERE blocked_ms > 0;
CREATE INDEX IF NOT EXISTS hosts_by_size ON hosts (size) WHERE size > 0;
CREATE INDEX IF NOT EXISTS hosts_by_mean ON hosts (mean_ms) WHERE mean_ms IS NOT NULL;

-- Ends of hosts' back-offs after refusals, without operators' blocks.
CREATE TABLE IF NOT EXISTS back_offs (
    until_ms INTEGER NOT NULL,
    host_id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (until_ms, host_id)
) WITHOUT ROWID;

-- Log of claims that did not complete their item.
CREATE TABLE IF NOT EXISTS attempts (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    id BLOB NOT NULL,
    ending TEXT NOT NULL,
    reason TEXT NOT NULL,
    worker TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS attempts_by_item ON attempts (seq);

-- One row of counts, so that status needs no scan, with the last token.
CREATE TABLE IF NOT EXISTS totals (
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
INSERT OR IGNORE INTO totals (one) VALUES (1);

-- Counts by job; items refer to it by number.
CREATE TABLE IF NOT EXISTS jobs (
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

-- Items that ended in the last hour, by minute.
CREATE TABLE IF NOT EXISTS minutes (
    minute INTEGER PRIMARY KEY,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);

-- Orders of operators for all workers.
CREATE TABLE IF NOT EXISTS orders (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- Notes shared between workers.
CREATE TABLE IF NOT EXISTS notes (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (kind, key)
);
CREATE INDEX IF NOT EXISTS notes_by_end ON notes (until_ms) WHERE until_ms IS NOT NULL;
