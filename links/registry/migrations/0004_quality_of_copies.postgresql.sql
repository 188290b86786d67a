-- Results of checks of copies (U09).

CREATE TABLE link_quality (
    page_id TEXT COLLATE "C" NOT NULL,
    level TEXT COLLATE "C" NOT NULL,
    url_key BYTEA NOT NULL,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    page_class TEXT DEFAULT '' NOT NULL,
    captured_ms BIGINT NOT NULL,
    checked_ms BIGINT NOT NULL,
    engine TEXT NOT NULL,
    verdict SMALLINT NOT NULL,
    standing SMALLINT NOT NULL,
    score DOUBLE PRECISION NOT NULL,
    picture DOUBLE PRECISION,
    text DOUBLE PRECISION,
    resources DOUBLE PRECISION,
    faults INTEGER DEFAULT '0' NOT NULL,
    lost TEXT DEFAULT '[]' NOT NULL,
    parts_seen INTEGER DEFAULT '0' NOT NULL,
    parts_shown INTEGER DEFAULT '0' NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    seconds DOUBLE PRECISION DEFAULT '0' NOT NULL,
    better TEXT DEFAULT '' NOT NULL,
    review SMALLINT,
    reviewed_by TEXT DEFAULT '' NOT NULL,
    reviewed_ms BIGINT,
    note TEXT DEFAULT '' NOT NULL,
    repair SMALLINT DEFAULT '0' NOT NULL,
    repair_page_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
    repair_ms BIGINT,
    changed_ms BIGINT NOT NULL,
    is_recorded BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (page_id, level)
);

CREATE INDEX link_quality_blank ON link_quality ((faults & 2), standing, score, page_id, level) WHERE (faults & 2) <> 0;

CREATE INDEX link_quality_class ON link_quality (page_class, standing, score, page_id, level);

CREATE INDEX link_quality_covered ON link_quality ((faults & 32), standing, score, page_id, level) WHERE (faults & 32) <> 0;

CREATE INDEX link_quality_damaged ON link_quality ((faults & 256), standing, score, page_id, level) WHERE (faults & 256) <> 0;

CREATE INDEX link_quality_host ON link_quality (host, standing, score, page_id, level);

CREATE INDEX link_quality_layout ON link_quality ((faults & 8), standing, score, page_id, level) WHERE (faults & 8) <> 0;

CREATE INDEX link_quality_level ON link_quality (level, standing, score, page_id);

CREATE INDEX link_quality_lost ON link_quality ((faults & 4), standing, score, page_id, level) WHERE (faults & 4) <> 0;

CREATE INDEX link_quality_not_shown ON link_quality ((faults & 1), standing, score, page_id, level) WHERE (faults & 1) <> 0;

CREATE INDEX link_quality_other ON link_quality ((faults & 16), standing, score, page_id, level) WHERE (faults & 16) <> 0;

CREATE INDEX link_quality_repair ON link_quality (repair, repair_ms, page_id) WHERE repair IN (1, 2);

CREATE INDEX link_quality_repaired ON link_quality (repair_page_id) WHERE repair_page_id <> '';

CREATE INDEX link_quality_resources ON link_quality ((faults & 128), standing, score, page_id, level) WHERE (faults & 128) <> 0;

CREATE INDEX link_quality_tally ON link_quality (standing, page_class, level, faults, review, score);

CREATE INDEX link_quality_text ON link_quality ((faults & 64), standing, score, page_id, level) WHERE (faults & 64) <> 0;

CREATE INDEX link_quality_unrecorded ON link_quality (page_id, level) WHERE NOT is_recorded;

CREATE INDEX link_quality_url ON link_quality (url_key);

CREATE INDEX link_quality_worst ON link_quality (standing, score, page_id, level);
