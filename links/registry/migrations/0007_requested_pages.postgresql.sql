-- Requested pages that are not observed.

CREATE TABLE link_asked_pages (
    wiki_id INTEGER NOT NULL,
    page_id BIGINT NOT NULL,
    title TEXT NOT NULL,
    day INTEGER NOT NULL,
    is_done BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (wiki_id, page_id, title)
);
