-- First tables of the registry.

CREATE TABLE link_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT link_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE link_actors (
    reporter BYTEA NOT NULL,
    act SMALLINT NOT NULL,
    moment BIGINT NOT NULL,
    PRIMARY KEY (reporter, act)
);

CREATE INDEX link_actors_moment ON link_actors (moment);

CREATE TABLE link_acts (
    act SMALLINT NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (act, day)
);

CREATE TABLE link_copies (
    url_id BIGINT NOT NULL,
    service TEXT NOT NULL,
    address TEXT DEFAULT '' NOT NULL,
    timestamp TEXT DEFAULT '' NOT NULL,
    found_day INTEGER NOT NULL,
    checked_day INTEGER NOT NULL,
    chosen_by TEXT DEFAULT '' NOT NULL,
    is_locked BOOLEAN DEFAULT false NOT NULL,
    due_day INTEGER,
    missed_day INTEGER,
    PRIMARY KEY (url_id, service)
);

CREATE INDEX link_copies_due ON link_copies (due_day);

CREATE TABLE link_copy_searches (
    url_id BIGINT NOT NULL,
    day INTEGER NOT NULL,
    outcome SMALLINT NOT NULL,
    note TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (url_id)
);

CREATE INDEX link_copy_searches_day ON link_copy_searches (day);

CREATE TABLE link_excluded (
    wiki_id INTEGER NOT NULL,
    entry TEXT NOT NULL,
    links BIGINT NOT NULL,
    pages BIGINT NOT NULL,
    last_day INTEGER NOT NULL,
    PRIMARY KEY (wiki_id, entry)
);

CREATE TABLE link_farms (
    id SMALLINT NOT NULL,
    name TEXT NOT NULL,
    address TEXT DEFAULT '' NOT NULL,
    internal TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

CREATE TABLE link_host_quirks (
    host_id BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    first_day INTEGER NOT NULL,
    last_day INTEGER NOT NULL,
    PRIMARY KEY (host_id, kind)
);

CREATE INDEX link_host_quirks_last ON link_host_quirks (last_day);

CREATE TABLE link_hosts (
    id BIGSERIAL NOT NULL,
    name TEXT NOT NULL,
    domain_index TEXT COLLATE "C" NOT NULL,
    surt TEXT NOT NULL,
    domain TEXT NOT NULL,
    bucket SMALLINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

CREATE INDEX link_hosts_domain ON link_hosts (domain);

CREATE INDEX link_hosts_domain_index ON link_hosts (domain_index);

CREATE TABLE link_imports (
    digest BYTEA NOT NULL,
    page BIGINT NOT NULL,
    pages BIGINT NOT NULL,
    day INTEGER NOT NULL,
    PRIMARY KEY (digest)
);

CREATE TABLE link_invalid (
    page BIGINT NOT NULL,
    key BYTEA NOT NULL,
    text BYTEA NOT NULL,
    reason TEXT NOT NULL,
    first_day INTEGER NOT NULL,
    PRIMARY KEY (page, key)
);

CREATE TABLE link_leases (
    part TEXT NOT NULL,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (part)
);

CREATE TABLE link_marks (
    id BIGSERIAL NOT NULL,
    kind TEXT NOT NULL,
    pattern TEXT NOT NULL,
    key TEXT DEFAULT '' NOT NULL,
    value TEXT DEFAULT '' NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    actor TEXT DEFAULT '' NOT NULL,
    moment BIGINT NOT NULL,
    expires BIGINT,
    lifted BIGINT,
    lifted_by TEXT DEFAULT '' NOT NULL,
    settled SMALLINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE link_observations (
    url_id BIGINT NOT NULL,
    moment BIGINT NOT NULL,
    how SMALLINT NOT NULL,
    code SMALLINT NOT NULL,
    verdict TEXT NOT NULL,
    http SMALLINT,
    final_url TEXT DEFAULT '' NOT NULL,
    note TEXT DEFAULT '' NOT NULL,
    similarity SMALLINT,
    PRIMARY KEY (url_id, moment, how)
);

CREATE INDEX link_observations_moment ON link_observations (moment);

CREATE TABLE link_pages (
    id BIGSERIAL NOT NULL,
    wiki_id INTEGER NOT NULL,
    page_id BIGINT NOT NULL,
    namespace INTEGER DEFAULT '0' NOT NULL,
    title TEXT NOT NULL,
    touched_day INTEGER NOT NULL,
    asked_day INTEGER,
    listed_day INTEGER,
    is_stale BOOLEAN DEFAULT false NOT NULL,
    excluded TEXT,
    PRIMARY KEY (id),
    UNIQUE (wiki_id, page_id)
);

CREATE INDEX link_pages_stale ON link_pages (wiki_id, listed_day, id) WHERE is_stale;

CREATE INDEX link_pages_title ON link_pages (wiki_id, title);

CREATE INDEX link_pages_touched ON link_pages (wiki_id, touched_day);

CREATE TABLE link_passes (
    id BIGSERIAL NOT NULL,
    part TEXT NOT NULL,
    started BIGINT NOT NULL,
    ended BIGINT,
    due BIGINT NOT NULL,
    done BIGINT DEFAULT '0' NOT NULL,
    batch BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX link_passes_part ON link_passes (part, started);

CREATE TABLE link_refs (
    page BIGINT NOT NULL,
    url_id BIGINT NOT NULL,
    first_day INTEGER NOT NULL,
    gone_day INTEGER,
    PRIMARY KEY (page, url_id)
);

CREATE INDEX link_refs_gone ON link_refs (gone_day) WHERE gone_day IS NOT NULL;

CREATE INDEX link_refs_url ON link_refs (url_id, page);

CREATE TABLE link_replacements (
    url_id BIGINT NOT NULL,
    address TEXT NOT NULL,
    state SMALLINT DEFAULT '0' NOT NULL,
    moment BIGINT NOT NULL,
    reporter BYTEA NOT NULL,
    since_day INTEGER DEFAULT '0' NOT NULL,
    tested_day INTEGER,
    PRIMARY KEY (url_id)
);

CREATE INDEX link_replacements_state ON link_replacements (state, tested_day);

CREATE TABLE link_reports (
    id BIGSERIAL NOT NULL,
    url_id BIGINT NOT NULL,
    host_id BIGINT NOT NULL,
    moment BIGINT NOT NULL,
    expires_day INTEGER NOT NULL,
    reporter BYTEA NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (url_id, reporter)
);

CREATE INDEX link_reports_expires ON link_reports (expires_day);

CREATE INDEX link_reports_host ON link_reports (host_id);

CREATE TABLE link_spam_hits (
    page BIGINT NOT NULL,
    key BYTEA NOT NULL,
    wiki_id INTEGER NOT NULL,
    url TEXT NOT NULL,
    list TEXT NOT NULL,
    line INTEGER NOT NULL,
    first_day INTEGER NOT NULL,
    last_day INTEGER NOT NULL,
    PRIMARY KEY (page, key)
);

CREATE INDEX link_spam_hits_key ON link_spam_hits (key);

CREATE INDEX link_spam_hits_wiki ON link_spam_hits (wiki_id, page);

CREATE TABLE link_spam_lists (
    farm_id SMALLINT NOT NULL,
    wiki_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    digest BYTEA NOT NULL,
    loaded_day INTEGER NOT NULL,
    PRIMARY KEY (farm_id, wiki_id, name)
);

CREATE TABLE link_url_quirks (
    url_id BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    value TEXT DEFAULT '' NOT NULL,
    first_day INTEGER NOT NULL,
    last_day INTEGER NOT NULL,
    PRIMARY KEY (url_id, kind)
);

CREATE INDEX link_url_quirks_last ON link_url_quirks (last_day);

CREATE TABLE link_urls (
    id BIGSERIAL NOT NULL,
    key BYTEA NOT NULL,
    host_id BIGINT NOT NULL,
    scheme SMALLINT NOT NULL,
    port INTEGER DEFAULT '0' NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    bucket SMALLINT NOT NULL,
    added_day INTEGER NOT NULL,
    touched_day INTEGER NOT NULL,
    checked_day INTEGER,
    due_day INTEGER,
    state SMALLINT DEFAULT '0' NOT NULL,
    code SMALLINT DEFAULT '0' NOT NULL,
    fails SMALLINT DEFAULT '0' NOT NULL,
    first_fail_day INTEGER,
    last_fail_day INTEGER,
    proofs SMALLINT DEFAULT '0' NOT NULL,
    history BYTEA,
    mime TEXT,
    kib INTEGER,
    opinion_day INTEGER,
    PRIMARY KEY (id),
    UNIQUE (key)
);

CREATE INDEX link_urls_due ON link_urls (due_day, key);

CREATE INDEX link_urls_host ON link_urls (host_id, due_day);

CREATE INDEX link_urls_lost ON link_urls (id) WHERE state IN (3, 5, 8);

CREATE INDEX link_urls_new ON link_urls (due_day, key) WHERE checked_day IS NULL;

CREATE INDEX link_urls_opinion ON link_urls (opinion_day, key) WHERE opinion_day IS NOT NULL;

CREATE INDEX link_urls_paths ON link_urls (host_id, substr(path, 1, 100), id);

CREATE INDEX link_urls_touched ON link_urls (touched_day);

CREATE TABLE link_wikis (
    id SERIAL NOT NULL,
    farm_id SMALLINT NOT NULL,
    dbname TEXT NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    pages_url TEXT DEFAULT '' NOT NULL,
    settings TEXT DEFAULT '{}' NOT NULL,
    added_day INTEGER NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (farm_id, dbname)
);
