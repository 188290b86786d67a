-- Captures index. The WARCs are authoritative: this index is built from them and can be rebuilt. Times
-- are whole milliseconds since 1970 UTC (captured_ms), `timestamp` is the same time in 14 digits, and
-- `login` names the login that a visit used.

-- One row for each replayable record. For a revisit ``orig_*`` locate the payload.
CREATE TABLE IF NOT EXISTS captures (
    id INTEGER PRIMARY KEY,
    urlkey TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    captured_ms INTEGER NOT NULL,
    url TEXT NOT NULL,
    record_type TEXT NOT NULL,
    mime TEXT NOT NULL,
    status INTEGER,
    digest TEXT NOT NULL,
    filename TEXT NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    orig_filename TEXT,
    orig_offset INTEGER,
    orig_length INTEGER,
    page_id TEXT,
    truncated TEXT,
    login TEXT,
    UNIQUE (filename, offset)
);
CREATE INDEX IF NOT EXISTS captures_by_key ON captures (urlkey, captured_ms);
CREATE INDEX IF NOT EXISTS captures_by_page ON captures (page_id) WHERE page_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS captures_by_digest ON captures (digest);
CREATE INDEX IF NOT EXISTS captures_by_login ON captures (page_id, login) WHERE login IS NOT NULL;

-- One row for each page: its ``urn:pageinfo:`` record, for lists and statistics.
-- `class_evidence` has one sentence per line; `device` and `language` (the first of
-- Accept-Language) are empty where they were not recorded.
CREATE TABLE IF NOT EXISTS pages (
    page_id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    urlkey TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    captured_ms INTEGER NOT NULL,
    final_url TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    status INTEGER,
    mime TEXT NOT NULL,
    title TEXT NOT NULL,
    records INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    seconds REAL NOT NULL,
    page_class TEXT NOT NULL,
    class_score REAL NOT NULL,
    class_evidence TEXT NOT NULL,
    device TEXT NOT NULL DEFAULT '',
    language TEXT NOT NULL DEFAULT '',
    login TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pages_by_key ON pages (urlkey, captured_ms);
CREATE INDEX IF NOT EXISTS pages_by_time ON pages (captured_ms);
CREATE INDEX IF NOT EXISTS pages_by_login ON pages (page_id, login) WHERE login <> '';

-- The first `response` of each payload and dedup bucket, committed only after its record is
-- on disk. `digest` is of the payload without its transfer coding; `spelled` is the record's
-- WARC-Payload-Digest (docs/decisions/005-payload-digest.md). With a dedup index of several
-- machines these are the local payloads, from which that index can be rebuilt.
CREATE TABLE IF NOT EXISTS payloads (
    digest TEXT NOT NULL,
    bucket TEXT NOT NULL,
    spelled TEXT NOT NULL,
    filename TEXT NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    url TEXT NOT NULL,
    captured_ms INTEGER NOT NULL,
    PRIMARY KEY (digest, bucket)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS payloads_by_spelling ON payloads (spelled);

-- One row for each check of a page's copy (`core.playback_check`), whose row of `captures`
-- has no key. `quality` is added to the page's rank (`warc.index.queries.RANK`).
CREATE TABLE IF NOT EXISTS qualities (
    filename TEXT NOT NULL,
    offset INTEGER NOT NULL,
    page_id TEXT NOT NULL,
    level TEXT NOT NULL,
    checked_ms INTEGER NOT NULL,
    quality INTEGER NOT NULL,
    PRIMARY KEY (filename, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS qualities_by_page ON qualities (page_id, level, checked_ms, quality);

-- One row for each WARC: the bytes that the index covers; once it is closed also its size,
-- its SHA-256 in hexadecimal and its last modification time.
CREATE TABLE IF NOT EXISTS files (
    filename TEXT PRIMARY KEY,
    indexed_to INTEGER NOT NULL,
    size INTEGER,
    sha256 TEXT,
    closed_ms INTEGER
) WITHOUT ROWID;
