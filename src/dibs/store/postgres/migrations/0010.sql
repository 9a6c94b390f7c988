-- Webhooks, and the events that they gave up on: see `rules/webhooks.py`. `record` and `letter` are JSON. A webhook that is
-- not `active` keeps no event from being pruned. `deliverer` may deliver until `leased_until`.
CREATE TABLE dibs.webhooks (
    id           text COLLATE "C" PRIMARY KEY,
    created_at   bigint NOT NULL,
    cursor       bigint NOT NULL,
    active       integer NOT NULL,
    record       text NOT NULL,
    secrets      text NOT NULL,
    deliverer    text,
    leased_until bigint NOT NULL,
    revision     bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE dibs.dead_letters (
    webhook text COLLATE "C" NOT NULL,
    event   bigint NOT NULL,
    letter  text NOT NULL,
    PRIMARY KEY (webhook, event)
);

-- A role that may only read the board sees no secrets and no URLs, however its rights were granted.
ALTER TABLE dibs.webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY writers ON dibs.webhooks USING (has_table_privilege('dibs.webhooks', 'INSERT'));
