"""The decisions as SQL text that both databases understand; each kind of decision has its table.

version    one row: a number that every change raises, so that a reader knows in microseconds
           whether what it holds is still what was decided.
takedowns  `playback.decisions.takedowns`
levels     `playback.decisions.levels`, with level_rights; rows are only ever added
verdicts   `playback.decisions.verdicts`

Moments are whole milliseconds since 1970 UTC.
"""

VERSION_DDL = """
CREATE TABLE IF NOT EXISTS decision_version (id INTEGER PRIMARY KEY CHECK (id = 1), n BIGINT NOT NULL);
INSERT INTO decision_version (id, n) VALUES (1, 1) ON CONFLICT DO NOTHING;
"""
LEVELS_DDL = """
CREATE TABLE IF NOT EXISTS levels (
    number BIGINT PRIMARY KEY, scope TEXT NOT NULL, wiki TEXT NOT NULL, what TEXT NOT NULL,
    level TEXT NOT NULL, actor TEXT NOT NULL, actor_wiki TEXT NOT NULL, decided_ms BIGINT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS level_rights (
    number BIGINT PRIMARY KEY, wiki TEXT NOT NULL, editor TEXT NOT NULL, scope TEXT NOT NULL,
    most TEXT NOT NULL, actor TEXT NOT NULL, actor_wiki TEXT NOT NULL, decided_ms BIGINT NOT NULL,
    reason TEXT NOT NULL
);
"""
TABLES = "".join((VERSION_DDL, LEVELS_DDL))
