-- The tables of a board. An item is a row of `items`, its live claim a row of `claims`, each claim that it ever had a row of
-- `runs`, and each transition a row of `events`. Instants are integer milliseconds by `dibs.clock()`.

CREATE SCHEMA IF NOT EXISTS dibs;

-- One row: the number of the last migration.
CREATE TABLE dibs.schema_version (
    number integer NOT NULL
);

INSERT INTO dibs.schema_version (number) VALUES (0);

-- Items

-- A lane is the ready items that are equal in all these columns: an agent may take all of them or none. Lanes are never deleted,
-- so the hints of a client stay valid.
CREATE TABLE dibs.lanes (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project  text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    action   text COLLATE "C" NOT NULL,
    approved boolean NOT NULL,
    touches  boolean NOT NULL,
    priority bigint NOT NULL,
    UNIQUE (project, type, action, approved, touches, priority)
);

CREATE TABLE dibs.items (
    id               text COLLATE "C" PRIMARY KEY,
    project          text COLLATE "C" NOT NULL,
    type             text COLLATE "C" NOT NULL,
    action           text COLLATE "C" NOT NULL,
    phase            text,
    title            text NOT NULL,
    body             text NOT NULL,
    payload          json NOT NULL,
    labels           text[] NOT NULL,
    priority         bigint NOT NULL,
    depends_on       text[] NOT NULL,
    resources        text[] NOT NULL,
    not_before       bigint,
    timeout_seconds  double precision NOT NULL,
    retries          bigint NOT NULL,
    needs_approval   boolean NOT NULL,
    approved         boolean NOT NULL,
    review           boolean NOT NULL,  -- whether the result is reviewed: `done` is then recorded as submitted
    subject          text COLLATE "C",  -- the key of what the item is about elsewhere, such as the URL of an issue
    status           text NOT NULL,
    created_by       text NOT NULL,
    created_at       bigint NOT NULL,
    updated_at       bigint NOT NULL,
    attempts         bigint NOT NULL,
    strikes          bigint NOT NULL,
    failures         bigint NOT NULL,
    token            bigint NOT NULL,
    revision         bigint NOT NULL,
    offered_to       text,
    offer_expires_at bigint,
    seq              bigint GENERATED ALWAYS AS IDENTITY,  -- age: items are served in the order they were added
    lane             integer NOT NULL
) WITH (fillfactor = 80);

-- An item that is offered to a session is in no lane. Statuses that people query and that have few items have an index. Items in
-- progress are found through `claims`, so that a claim and its end as done insert into no index but the primary key's.
CREATE INDEX items_ready ON dibs.items (lane, seq) WHERE status = 'ready' AND offered_to IS NULL;
CREATE INDEX items_due ON dibs.items (not_before) WHERE status = 'scheduled';
CREATE INDEX items_offered ON dibs.items (offer_expires_at) WHERE offer_expires_at IS NOT NULL;
CREATE INDEX items_waiting ON dibs.items (status) WHERE status IN ('pending_approval', 'blocked', 'parked');
CREATE INDEX items_holding ON dibs.items (project) WHERE status = 'in_progress' AND resources <> '{}';
CREATE INDEX items_failed ON dibs.items (priority DESC, seq) WHERE status = 'failed';
-- Not unique: a board that is copied from a vault may have two items of a subject. A board adds none, since it looks and adds
-- under a lock of the subject.
CREATE INDEX items_subject ON dibs.items (subject, created_at, id) WHERE subject IS NOT NULL;

-- The dependencies of each item; the column `depends_on` of its row is the same list, in the order given by the caller.
CREATE TABLE dibs.dependencies (
    item  text COLLATE "C" NOT NULL,
    needs text COLLATE "C" NOT NULL,
    PRIMARY KEY (item, needs)
);

CREATE INDEX dependencies_needs ON dibs.dependencies (needs);

-- The highest number of the generated ids that begin with the same words: `fix-login-12`. It is only a hint where to search for
-- an unused id, and is not exported.
CREATE TABLE dibs.id_numbers (
    words  text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
);

-- Claims, and the queue of each item

-- Narrow, and without an index on columns that a heartbeat changes, so that a renewal is a HOT update. `look_at` is the time at
-- which a sweep has to check whether the claim has expired: never after its expiry, and postponed by the sweep. So expired claims
-- are found by an index, without reading the whole table, whose dead row versions may not be vacuumed yet.
CREATE TABLE dibs.claims (
    item            text COLLATE "C" PRIMARY KEY,
    token           bigint NOT NULL,
    session         text COLLATE "C" NOT NULL,
    agent           text COLLATE "C" NOT NULL,
    claimed_at      bigint NOT NULL,
    renewed_at      bigint NOT NULL,
    expires_at      bigint NOT NULL,
    deadline_at     bigint NOT NULL,
    ttl_seconds     double precision NOT NULL,
    heartbeat_count bigint NOT NULL,
    look_at         bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE INDEX claims_look ON dibs.claims (look_at);
-- Not on (session, item): while the statistics count the table as empty, a query by item would use that index and read all of it.
CREATE INDEX claims_session ON dibs.claims (session);

CREATE TABLE dibs.soft_claims (
    item        text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    claimed_at  bigint NOT NULL,
    expires_at  bigint NOT NULL,
    ttl_seconds double precision NOT NULL,
    PRIMARY KEY (item, session)
) WITH (fillfactor = 50);

CREATE INDEX soft_claims_session ON dibs.soft_claims (session);

CREATE TABLE dibs.tickets (
    id          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,  -- the order of the queue
    item        text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    since_at    bigint NOT NULL,
    expires_at  bigint NOT NULL,
    ttl_seconds double precision NOT NULL,
    closed_at   bigint,
    reason      text
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX tickets_open ON dibs.tickets (session, item) WHERE closed_at IS NULL;
CREATE INDEX tickets_queue ON dibs.tickets (item, id) WHERE closed_at IS NULL;
CREATE INDEX tickets_latest ON dibs.tickets (item, session, id);
CREATE INDEX tickets_closed ON dibs.tickets (closed_at) WHERE closed_at IS NOT NULL;

-- History

-- `call_id` is the call that opened or ended a run. By it, a call without a request id that is repeated after its answer was lost
-- recognizes the work of its first attempt.
CREATE TABLE dibs.runs (
    item       text COLLATE "C" NOT NULL,
    token      bigint NOT NULL,
    session    text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint,
    outcome    text,
    reason     text,
    draft      text,
    links      json NOT NULL,
    cost       json NOT NULL,
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    call_id    text COLLATE "C",
    checks     json NOT NULL DEFAULT '{}',  -- by name, each with its state; callers add them after the run has ended
    PRIMARY KEY (item, token)
) WITH (fillfactor = 80);

CREATE INDEX runs_seq ON dibs.runs (seq);
CREATE INDEX runs_session ON dibs.runs (session, seq);

-- Ids are drawn while the item is locked, so the events of an item are in order. `dibs.feed_enter` and `dibs.feed_end` keep a
-- reader from skipping an event that commits late.
CREATE TABLE dibs.events (
    id      bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    item    text COLLATE "C" NOT NULL,
    number  bigint NOT NULL,
    kind    text NOT NULL,
    at      bigint NOT NULL,
    status  text NOT NULL,
    token   bigint NOT NULL,
    actor   text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    agent   text COLLATE "C",
    data    json NOT NULL,
    UNIQUE (item, number)
);

-- Refused claims.
CREATE TABLE dibs.activity (
    id      bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    item    text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    agent   text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    code    text NOT NULL,
    details json NOT NULL
);

-- The answers that are kept for requests that may be repeated. `shape` names the function that gave the answer, which is kept in
-- the function's own format; NULL means wire format.
CREATE TABLE dibs.requests (
    actor       text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    answer      text NOT NULL,
    at          bigint NOT NULL,
    shape       text,
    PRIMARY KEY (actor, id)
);

CREATE INDEX requests_at ON dibs.requests (at);

-- Agents, their sessions, and the callers of a server

CREATE TABLE dibs.agents (
    name              text COLLATE "C" PRIMARY KEY,
    types             text[] NOT NULL,
    role              text,
    max_claims        bigint,
    max_claims_total  bigint,
    claims_per_minute double precision,
    claims_burst      bigint NOT NULL,
    allowed_actions   text[] NOT NULL,
    sensitive_actions text[] NOT NULL,
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL,
    bucket            double precision NOT NULL DEFAULT 0,  -- how many claims the rate allowed at bucket_at
    bucket_at         bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE dibs.sessions (
    id            text COLLATE "C" PRIMARY KEY,
    agent         text COLLATE "C" NOT NULL,
    parent        text COLLATE "C",  -- the session of which this one is a subagent: it ends with its parent
    key           text COLLATE "C",  -- the key of a server's caller, by which the session was registered
    kind          text NOT NULL,
    host          text NOT NULL,
    boot_id       text,
    pid_namespace bigint,
    pid           bigint,
    start_time    bigint,
    meta          json NOT NULL,
    started_at    bigint NOT NULL,
    seen_at       bigint NOT NULL,
    ended_at      bigint,
    end_reason    text
) WITH (fillfactor = 50);

-- The claims of an agent are counted through its sessions, and only if the agent has a limit, so `claims` needs no index on
-- agent.
CREATE INDEX sessions_agent ON dibs.sessions (agent, ended_at);
CREATE INDEX sessions_parent ON dibs.sessions (parent) WHERE parent IS NOT NULL;
-- `started_at > 0` is always true: it keeps the planner from this index where a claim looks for its session by id.
CREATE INDEX sessions_live ON dibs.sessions (started_at) WHERE ended_at IS NULL AND started_at > 0;

-- The keys of a server's callers.
CREATE TABLE dibs.keys (
    id           text COLLATE "C" PRIMARY KEY,
    name         text,  -- what the key is for
    role         text NOT NULL,
    agent        text COLLATE "C",
    digest       text NOT NULL,
    line         text COLLATE "C",  -- the first of the keys that this one replaces, one after the other: see `rotate_key`
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);

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

-- A role that may only read the board sees no secrets and no URLs, however its rights were granted.
ALTER TABLE dibs.webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY writers ON dibs.webhooks USING (has_table_privilege('dibs.webhooks', 'INSERT'));

CREATE TABLE dibs.dead_letters (
    webhook text COLLATE "C" NOT NULL,
    event   bigint NOT NULL,
    letter  text NOT NULL,
    PRIMARY KEY (webhook, event)
);

-- Figures of the whole board

CREATE TABLE dibs.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- The tokens of new items start at the token floor, above every token of a pruned item. A reader of the feed whose cursor is
-- below the event floor has missed pruned events. The last two are instants and are not exported: when the board was last backed
-- up, and when a server last tried whether it can write.
INSERT INTO dibs.meta (name, value)
VALUES ('token_floor', 0), ('event_floor', 0), ('last_backup_at', 0), ('write_tried_at', 0);

-- Refused claims are counted in several rows, because updates of a single row would wait for each other.
CREATE TABLE dibs.conflicts (
    slot  integer PRIMARY KEY,
    count bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO dibs.conflicts (slot, count) SELECT slot, 0 FROM generate_series(0, 15) AS slot;

-- What dashboards read without reading every ended item: see `store/sql/figures.py`. `kind` is 'ended' (items by status), 'run'
-- (ended runs by agent and outcome; `total` is their duration) or 'first' (items by the agent that claimed them, and by the
-- agent '' for all; `total` is the time until the first claim). Times are milliseconds. Only a sweep and a prune write here,
-- never a claim.
CREATE TABLE dibs.figures (
    kind  text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    total bigint NOT NULL,
    PRIMARY KEY (kind, agent, name)
);

-- The figures are complete up to this event and up to this run.
INSERT INTO dibs.figures (kind, agent, name, count, total) VALUES ('upto', '', 'event', 0, 0), ('upto', '', 'run', 0, 0);

-- Runs that had not ended when they were counted.
CREATE TABLE dibs.uncounted_runs (
    item  text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    PRIMARY KEY (item, token)
);

-- The settings that the functions need: see `Settings` in the client.
CREATE TYPE dibs.settings AS (
    ttl_seconds               double precision,
    ttl_seconds_min           double precision,
    ttl_seconds_max           double precision,
    person_ttl_seconds        double precision,
    person_ttl_seconds_max    double precision,
    max_strikes               bigint,
    accept_seconds            double precision,
    retry_backoff_seconds     double precision,
    retry_backoff_seconds_max double precision,
    request_kept_seconds      double precision,
    activity_kept             bigint
);
