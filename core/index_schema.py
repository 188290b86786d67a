"""The captures index as SQL text: one schema, read by the proxy, the front and the replay.

The WARCs are the truth; this index is made from them and can be made again. Moments are whole
milliseconds since 1970 UTC (``captured_ms``); `timestamp` is the same moment in 14 digits.

captures  one row a record that can be played back. `page_id` joins it to its page. For a revisit
          ``orig_*`` locate the payload, so that playback needs one look-up.
pages     one row a page: what its ``urn:pageinfo:`` record says, for lists and statistics.
payloads  one row a payload and dedup bucket: the first `response`. Its row is committed only after
          its record is on disk, so that a digest never refers to nothing. `digest` is of the payload
          without its transfer coding; `spelled` is the record's WARC-Payload-Digest
          (docs/decisions/005-payload-digest.md). With a dedup index of several machines this table
          holds what lies here: it is what that index is made again from.
files     one row a WARC: how many of its bytes the index covers (``indexed_to``); once it is closed
          also its size, its SHA-256 in hexadecimal and the moment it was last written to.
"""

SCHEMA_VERSION = 2

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
    UNIQUE (filename, offset)
);
CREATE INDEX IF NOT EXISTS captures_by_key ON captures (urlkey, captured_ms);
CREATE INDEX IF NOT EXISTS captures_by_page ON captures (page_id) WHERE page_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS captures_by_digest ON captures (digest);
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
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pages_by_key ON pages (urlkey, captured_ms);
CREATE INDEX IF NOT EXISTS pages_by_time ON pages (captured_ms);
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
CREATE TABLE IF NOT EXISTS files (
    filename TEXT PRIMARY KEY,
    indexed_to INTEGER NOT NULL,
    size INTEGER,
    sha256 TEXT,
    closed_ms INTEGER
) WITHOUT ROWID;
"""
