-- Links by state for each day.

CREATE TABLE link_state_counts (
    day INTEGER NOT NULL,
    state SMALLINT NOT NULL,
    links BIGINT NOT NULL,
    PRIMARY KEY (day, state)
);
