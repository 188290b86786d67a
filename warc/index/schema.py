"""Captures index schema as SQL, for SQLite and PostgreSQL.

The WARCs are authoritative; this index is built from them and can be rebuilt. Times are whole
milliseconds since 1970 UTC (``captured_ms``); `timestamp` is the same time in 14 digits.

captures   one row for each replayable record. For a revisit ``orig_*`` locate the payload.
pages      one row for each page: its ``urn:pageinfo:`` record, for lists and statistics.
           `class_evidence` has one sentence per line; `device` and `language` (the first of
           Accept-Language) are empty where they were not recorded.
payloads   the first `response` of each payload and dedup bucket, committed only after its record is
           on disk. `digest` is of the payload without its transfer coding; `spelled` is the record's
           WARC-Payload-Digest (docs/decisions/005-payload-digest.md). With a dedup index of several
           machines these are the local payloads, from which that index can be rebuilt.
qualities  one row for each check of a page's copy (`core.playback_check`), whose row of `captures`
           has no key. `quality` is added to the page's rank (`core.page_classes.rank_sql`).
files      one row for each WARC: the bytes that the index covers; once it is closed also its size,
           its SHA-256 in hexadecimal and its last modification time.

`login` names the login that a visit used. The same tables are written for SQLite, the index of one
collection, and PostgreSQL, that of several machines (docs/decisions/016-index-on-postgresql.md).
"""

SCHEMA_VERSION = 5

CAPTURES_DDL = """
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
CREATE TABLE IF NOT EXISTS files (
    filename TEXT PRIMARY KEY,
    indexed_to INTEGER NOT NULL,
    size INTEGER,
    sha256 TEXT,
    closed_ms INTEGER
) WITHOUT ROWID;
"""

# An entry of a B-tree is at most 2,704 bytes, and a URL may be longer: its first characters are
# looked up, then all of it is compared. A character has at most four bytes.
KEY_CHARACTERS = 500

# What PostgreSQL spells differently. Its integers and texts are as wide and as ordered as SQLite's.
_POSTGRES = (
    (" IF NOT EXISTS", ""),
    (" WITHOUT ROWID", ""),
    ("id INTEGER PRIMARY KEY", "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("REAL", "DOUBLE PRECISION"),
    (" TEXT", ' TEXT COLLATE "C"'),
    (" offset ", ' "offset" '),
    ("(filename, offset)", '(filename, "offset")'),
    ("(urlkey, captured_ms)", f"(left(urlkey, {KEY_CHARACTERS}), captured_ms)"),
)


def _postgres_ddl() -> str:
    text = CAPTURES_DDL
    for sqlite, postgres in _POSTGRES:
        text = text.replace(sqlite, postgres)
    return (
        f"{text}CREATE INDEX captures_orphaned ON captures (digest)\n"
        "    WHERE record_type = 'revisit' AND orig_filename IS NULL;\n"
        "CREATE INDEX payloads_by_file ON payloads (filename);\n"
        "CREATE TABLE version (number BIGINT NOT NULL);\n"
        f"INSERT INTO version (number) VALUES ({SCHEMA_VERSION});\n"
    )


POSTGRES_DDL = _postgres_ddl()

# Artifacts of earlier releases do not name their visit's login; its page or one of its exchanges does.
MARK_LOGINS = """
UPDATE captures SET login = coalesce(
    (SELECT min(login) FROM pages WHERE pages.page_id = captures.page_id AND login <> ''),
    (SELECT min(same.login) FROM captures AS same
        WHERE same.page_id = captures.page_id AND same.login IS NOT NULL))
WHERE login IS NULL AND page_id IN (SELECT page_id FROM pages WHERE login <> ''
    UNION SELECT page_id FROM captures WHERE login IS NOT NULL)
"""
