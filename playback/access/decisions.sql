-- Tables of the decision store (`playback.access.decision_store`), on SQLite and PostgreSQL.
-- Times (`…_ms`) are Unix milliseconds.

-- One row: a number that every change increments.
CREATE TABLE IF NOT EXISTS decision_version (id INTEGER PRIMARY KEY CHECK (id = 1), n BIGINT NOT NULL);
INSERT INTO decision_version (id, n) VALUES (1, 1) ON CONFLICT DO NOTHING;

-- `playback.access.takedowns`; rows are never deleted. `changed` is the version before the row's last
-- change, so that readers fetch only what is new.
CREATE TABLE IF NOT EXISTS takedowns (
    number BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,
    what TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    effect TEXT NOT NULL,
    reason TEXT NOT NULL,
    ticket TEXT NOT NULL,
    actor TEXT NOT NULL,
    decided_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    lifted_ms BIGINT,
    lifted_by TEXT NOT NULL,
    lifted_reason TEXT NOT NULL,
    changed BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS takedowns_by_change ON takedowns (changed);

-- One row for each record whose payload was erased for a take-down.
CREATE TABLE IF NOT EXISTS erasures (
    record_id TEXT NOT NULL,
    takedown BIGINT NOT NULL,
    filename TEXT NOT NULL,
    url TEXT NOT NULL,
    captured_ms BIGINT NOT NULL,
    erased_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    PRIMARY KEY (record_id, takedown)
);

-- `playback.access.holds`. `skipped` is the reason why the payload was not scanned; `threat` is then
-- an earlier scan's.
CREATE TABLE IF NOT EXISTS verdicts (
    digest TEXT NOT NULL PRIMARY KEY,
    threat TEXT NOT NULL,
    scanner TEXT NOT NULL,
    scanned_ms BIGINT NOT NULL,
    skipped TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS verdicts_of_threats ON verdicts (digest) WHERE threat <> '';

-- `playback.access.threat_lists`
CREATE TABLE IF NOT EXISTS url_lists (
    name TEXT NOT NULL PRIMARY KEY,
    file TEXT NOT NULL,
    effect TEXT NOT NULL,
    reason TEXT NOT NULL,
    entries BIGINT NOT NULL,
    added_ms BIGINT NOT NULL
);

-- `playback.access.levels`; append-only.
CREATE TABLE IF NOT EXISTS levels (
    number BIGINT PRIMARY KEY,
    scope TEXT NOT NULL,
    wiki TEXT NOT NULL,
    what TEXT NOT NULL,
    level TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_wiki TEXT NOT NULL,
    decided_ms BIGINT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS stored_levels (
    number BIGINT PRIMARY KEY,
    scope TEXT NOT NULL,
    wiki TEXT NOT NULL,
    what TEXT NOT NULL,
    level TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_wiki TEXT NOT NULL,
    decided_ms BIGINT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS level_rights (
    number BIGINT PRIMARY KEY,
    wiki TEXT NOT NULL,
    editor TEXT NOT NULL,
    scope TEXT NOT NULL,
    most TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_wiki TEXT NOT NULL,
    decided_ms BIGINT NOT NULL,
    reason TEXT NOT NULL
);
