-- The tables of a board. An item is a row of `items`, its live claim a row of `claims`, each claim that it ever had a row of
-- `runs`, and each transition a row of `events`. Instants are integer milliseconds by the machine's clock; JSON is text.

-- Items

CREATE TABLE items (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,  -- age: items are served in the order they were added
    id               TEXT NOT NULL UNIQUE,
    project          TEXT NOT NULL,
    type             TEXT NOT NULL,
    action           TEXT NOT NULL,
    phase            TEXT,
    title            TEXT NOT NULL,
    body             TEXT NOT NULL,
    payload          TEXT NOT NULL,
    labels           TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    depends_on       TEXT NOT NULL,
    resources        TEXT NOT NULL,
    not_before       INTEGER,
    timeout_seconds  REAL NOT NULL,
    retries          INTEGER NOT NULL,
    needs_approval   INTEGER NOT NULL,
    approved         INTEGER NOT NULL,
    review           INTEGER NOT NULL,  -- whether the result is reviewed: `done` is then recorded as submitted
    subject          TEXT,              -- the key of what the item is about elsewhere, such as the URL of an issue
    status           TEXT NOT NULL,
    created_by       TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    strikes          INTEGER NOT NULL,
    failures         INTEGER NOT NULL,
    token            INTEGER NOT NULL,
    revision         INTEGER NOT NULL,
    offered_to       TEXT,
    offer_expires_at INTEGER
) STRICT;

-- A lane is the ready items of one (project, type, action, approved): an agent may take all of them or none. `next` compares
-- the first items of the lanes that it may take. An item that is offered to a session is in no lane.
CREATE INDEX items_ready ON items (project, type, action, approved, priority DESC, seq)
    WHERE status = 'ready' AND offered_to IS NULL;
CREATE INDEX items_due ON items (not_before) WHERE status = 'scheduled';
CREATE INDEX items_offered ON items (offer_expires_at) WHERE offer_expires_at IS NOT NULL;
CREATE INDEX items_holding ON items (project) WHERE status = 'in_progress' AND resources <> '[]';
CREATE INDEX items_status ON items (status, priority DESC, seq);
-- Not unique: the index of a vault may get a second item of a subject from another clone. A board adds none, since it looks and
-- adds in one transaction.
CREATE INDEX items_subject ON items (subject, created_at, id) WHERE subject IS NOT NULL;

-- The body and the payload of an item where they are long: the columns of the item are then both empty, and a change of its
-- status does not write them again. A payload is never empty otherwise.
CREATE TABLE long_texts (
    item    TEXT PRIMARY KEY,
    body    TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT;

-- The dependencies of each item; the column `depends_on` of its row is the same list, in the order given by the caller.
CREATE TABLE dependencies (
    item  TEXT NOT NULL,
    needs TEXT NOT NULL,
    PRIMARY KEY (item, needs)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_needs ON dependencies (needs);

-- The highest number of the generated ids that begin with the same words: `fix-login-12`. It is only a hint where to
-- search for an unused id, and is not exported.
CREATE TABLE id_numbers (
    words  TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Claims, and the queue of each item

CREATE TABLE claims (
    item            TEXT PRIMARY KEY,
    token           INTEGER NOT NULL,
    session         TEXT NOT NULL,
    agent           TEXT NOT NULL,
    claimed_at      INTEGER NOT NULL,
    renewed_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    deadline_at     INTEGER NOT NULL,
    ttl_seconds     REAL NOT NULL,
    heartbeat_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX claims_session ON claims (session);
CREATE INDEX claims_agent ON claims (agent);
CREATE INDEX claims_expiry ON claims (expires_at);

CREATE TABLE soft_claims (
    item        TEXT NOT NULL,
    session     TEXT NOT NULL,
    agent       TEXT NOT NULL,
    claimed_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    ttl_seconds REAL NOT NULL,
    PRIMARY KEY (item, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX soft_claims_expiry ON soft_claims (expires_at);

CREATE TABLE tickets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the queue
    item        TEXT NOT NULL,
    session     TEXT NOT NULL,
    agent       TEXT NOT NULL,
    since_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    ttl_seconds REAL NOT NULL,
    closed_at   INTEGER,
    reason      TEXT
) STRICT;

CREATE UNIQUE INDEX tickets_open ON tickets (item, session) WHERE closed_at IS NULL;
CREATE INDEX tickets_queue ON tickets (item, id) WHERE closed_at IS NULL;
CREATE INDEX tickets_session ON tickets (session) WHERE closed_at IS NULL;
CREATE INDEX tickets_expiry ON tickets (expires_at) WHERE closed_at IS NULL;
CREATE INDEX tickets_closed ON tickets (closed_at) WHERE closed_at IS NOT NULL;

-- History

CREATE TABLE runs (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    item       TEXT NOT NULL,
    token      INTEGER NOT NULL,
    session    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    outcome    TEXT,
    reason     TEXT,
    draft      TEXT,
    links      TEXT NOT NULL,
    cost       TEXT NOT NULL,
    checks     TEXT NOT NULL,  -- by name, each with its state; callers add them after the run has ended
    UNIQUE (item, token)
) STRICT;

CREATE INDEX runs_session ON runs (session);
CREATE INDEX runs_agent ON runs (agent);

CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,  -- the feed's order: one writer at a time, so commit order
    item    TEXT NOT NULL,
    number  INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    status  TEXT NOT NULL,
    token   INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    session TEXT,
    agent   TEXT,
    data    TEXT NOT NULL,
    UNIQUE (item, number)
) STRICT;

-- Refused claims.
CREATE TABLE activity (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    item    TEXT NOT NULL,
    session TEXT NOT NULL,
    agent   TEXT NOT NULL,
    action  TEXT NOT NULL,
    code    TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;

-- The answers that are kept for requests that may be repeated.
CREATE TABLE requests (
    actor       TEXT NOT NULL,
    id          TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (actor, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_at ON requests (at);

-- Agents, their sessions, and the callers of a server

CREATE TABLE agents (
    name              TEXT PRIMARY KEY,
    types             TEXT NOT NULL,
    role              TEXT,
    max_claims        INTEGER,
    max_claims_total  INTEGER,
    claims_per_minute REAL,
    claims_burst      INTEGER NOT NULL,
    allowed_actions   TEXT NOT NULL,
    sensitive_actions TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    bucket            REAL NOT NULL DEFAULT 0,  -- how many claims the rate allowed at bucket_at
    bucket_at         INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id            TEXT PRIMARY KEY,
    agent         TEXT NOT NULL,
    parent        TEXT,  -- the session of which this one is a subagent: it ends with its parent
    key           TEXT,  -- the key of a server's caller, by which the session was registered
    kind          TEXT NOT NULL,
    host          TEXT NOT NULL,
    boot_id       TEXT,
    pid_namespace INTEGER,
    pid           INTEGER,
    start_time    INTEGER,
    meta          TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    ended_at      INTEGER,
    end_reason    TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_live ON sessions (id) WHERE ended_at IS NULL;

-- The keys of a server's callers.
CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    name         TEXT,  -- what the key is for
    role         TEXT NOT NULL,
    agent        TEXT,
    digest       TEXT NOT NULL,
    line         TEXT,  -- the first of the keys that this one replaces, one after the other: see `rotate_key`
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

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

-- Figures of the whole board

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The tokens of new items start at the token floor, above every token of a pruned item. A reader of the feed whose cursor is
-- below the event floor has missed pruned events. The last two are instants and are not exported: when the board was last backed
-- up, and when a server last tried whether it can write.
INSERT INTO meta (name, value)
VALUES ('token_floor', 0), ('event_floor', 0), ('conflicts', 0), ('last_backup_at', 0), ('write_tried_at', 0);

-- What dashboards read without reading every ended item: see `store/sql/figures.py`. `kind` is 'ended' (items by status), 'run'
-- (ended runs by agent and outcome; `total` is their duration) or 'first' (items by the agent that claimed them, and by the
-- agent '' for all; `total` is the time until the first claim). Times are milliseconds.
CREATE TABLE figures (
    kind  TEXT NOT NULL,
    agent TEXT NOT NULL,
    name  TEXT NOT NULL,
    count INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (kind, agent, name)
) STRICT, WITHOUT ROWID;

-- The figures are complete up to this event and up to this run.
INSERT INTO figures (kind, agent, name, count, total) VALUES ('upto', '', 'event', 0, 0), ('upto', '', 'run', 0, 0);

-- Runs that had not ended when they were counted.
CREATE TABLE uncounted_runs (
    item  TEXT NOT NULL,
    token INTEGER NOT NULL,
    PRIMARY KEY (item, token)
) STRICT, WITHOUT ROWID;

-- Live claims under the column names of the session-task design, for programs that read the file themselves; dibs itself runs
-- no view. The clock is julianday(), because unixepoch('subsec') needs SQLite 3.42.
CREATE VIEW task_claims AS
SELECT c.item AS task_id, c.session AS session_id, c.claimed_at, c.expires_at, c.renewed_at AS last_heartbeat,
       s.kind AS agent_type,
       json_object('agent', c.agent, 'token', c.token, 'heartbeatCount', c.heartbeat_count) AS metadata
FROM claims c JOIN sessions s ON s.id = c.session
WHERE c.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);
