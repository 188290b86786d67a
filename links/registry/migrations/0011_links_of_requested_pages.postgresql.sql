-- Links of requested pages, and an index of refused links by their text. No query uses the SURT of a host.

ALTER TABLE link_asked_pages ADD COLUMN links BYTEA;

CREATE INDEX link_invalid_key ON link_invalid (key);

ALTER TABLE link_hosts DROP COLUMN surt;
