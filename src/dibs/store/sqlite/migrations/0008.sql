-- Webhooks, and the events that they gave up on: see `rules/webhooks.py`. `record` and `letter` are JSON. A webhook that is
-- not `active` keeps no event from being pruned. `deliverer` may deliver until `leased_until`.
CREATE TABLE webhooks (
    id           TEXT PRIMARY KEY,
    created_at   INTEGER NOT NULL,
    cursor       INTEGER NOT NULL,
    active       INTEGER NOT NULL,
    record       TEXT NOT NULL,
    secrets      TEXT NOT NULL,
    deliverer    TEXT,
    leased_until INTEGER NOT NULL,
    revision     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    webhook TEXT NOT NULL,
    event   INTEGER NOT NULL,
    letter  TEXT NOT NULL,
    PRIMARY KEY (webhook, event)
) STRICT, WITHOUT ROWID;
