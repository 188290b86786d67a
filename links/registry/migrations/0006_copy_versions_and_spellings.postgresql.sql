-- Several versions of a copy, and the spelling of a link on its page.

CREATE TABLE link_copy_versions (
    url_id BIGINT NOT NULL,
    service TEXT NOT NULL,
    address TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    found_day INTEGER NOT NULL,
    PRIMARY KEY (url_id, service, address)
);

CREATE INDEX link_urls_dying ON link_urls (id) WHERE state = 2;

ALTER TABLE link_refs ADD COLUMN spelling TEXT;

-- An own capture of an error had ended the search (B12): these are to be searched again.
DELETE FROM link_copy_searches WHERE outcome = 1 AND NOT EXISTS (
    SELECT 1 FROM link_copies
    WHERE link_copies.url_id = link_copy_searches.url_id AND link_copies.address <> ''
);
