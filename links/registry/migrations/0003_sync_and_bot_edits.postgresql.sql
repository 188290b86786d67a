-- Citations, bot edits, positions of feeds, and the backlog of links to be archived.

CREATE TABLE link_citations (
    page BIGINT NOT NULL,
    url_id BIGINT NOT NULL,
    way TEXT NOT NULL,
    access_day INTEGER,
    archive_url TEXT DEFAULT '' NOT NULL,
    archive_timestamp TEXT DEFAULT '' NOT NULL,
    facts SMALLINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (page, url_id)
);

CREATE INDEX link_citations_url ON link_citations (url_id);

CREATE TABLE link_edit_changes (
    edit_id BIGINT NOT NULL,
    number SMALLINT NOT NULL,
    page BIGINT NOT NULL,
    url_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    is_undone BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (edit_id, number)
);

CREATE INDEX link_edit_changes_link ON link_edit_changes (page, url_id);

CREATE TABLE link_edit_turns (
    wiki_id INTEGER NOT NULL,
    holder TEXT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (wiki_id)
);

CREATE TABLE link_edits (
    id BIGSERIAL NOT NULL,
    wiki_id INTEGER NOT NULL,
    page_id BIGINT NOT NULL,
    kind TEXT DEFAULT 'page' NOT NULL,
    job TEXT NOT NULL,
    moment BIGINT NOT NULL,
    base_rev BIGINT NOT NULL,
    rev BIGINT,
    digest TEXT DEFAULT '' NOT NULL,
    basis BYTEA,
    state SMALLINT NOT NULL,
    undone_rev BIGINT,
    undone_by TEXT DEFAULT '' NOT NULL,
    note TEXT DEFAULT '' NOT NULL,
    checked BIGINT,
    is_reported BOOLEAN DEFAULT false NOT NULL,
    reviewed BIGINT,
    reviewed_by TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX link_edits_page ON link_edits (wiki_id, page_id);

CREATE INDEX link_edits_state ON link_edits (wiki_id, state, moment);

CREATE TABLE link_feeds (
    wiki_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    cursor TEXT DEFAULT '' NOT NULL,
    moment BIGINT NOT NULL,
    trouble TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (wiki_id, kind)
);

CREATE TABLE link_wanted (
    page BIGINT NOT NULL,
    url_id BIGINT NOT NULL,
    since BIGINT NOT NULL,
    due BIGINT NOT NULL,
    attempts SMALLINT DEFAULT '0' NOT NULL,
    wiki_id INTEGER NOT NULL,
    priority SMALLINT NOT NULL,
    PRIMARY KEY (page, url_id)
);

CREATE INDEX link_wanted_due ON link_wanted (wiki_id, priority, due);

CREATE INDEX link_wanted_url ON link_wanted (url_id);
