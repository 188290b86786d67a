-- Webhook signatures that were used.

CREATE TABLE link_webhook_signatures (
    signature BYTEA NOT NULL,
    moment BIGINT NOT NULL,
    PRIMARY KEY (signature)
);

CREATE INDEX link_webhook_signatures_moment ON link_webhook_signatures (moment);
