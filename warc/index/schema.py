"""Captures index schema for SQLite (``schema.sql``) and PostgreSQL (docs/decisions/016-index-on-postgresql.md)."""

import re
from pathlib import Path

SCHEMA_VERSION = 5

_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
CAPTURES_DDL = _COMMENT.sub("", Path(__file__).with_name("schema.sql").read_text())

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
