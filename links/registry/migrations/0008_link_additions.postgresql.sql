-- Accounts that added links.

CREATE TABLE link_additions (
    page BIGINT NOT NULL,
    url_id BIGINT NOT NULL,
    day INTEGER NOT NULL,
    rev_id BIGINT NOT NULL,
    account TEXT NOT NULL,
    PRIMARY KEY (page, url_id)
);

CREATE INDEX link_additions_account ON link_additions (account, day);

CREATE INDEX link_additions_day ON link_additions (day);

CREATE INDEX link_additions_url ON link_additions (url_id);

CREATE TABLE link_page_revisions (
    page BIGINT NOT NULL,
    rev_id BIGINT NOT NULL,
    PRIMARY KEY (page)
);
