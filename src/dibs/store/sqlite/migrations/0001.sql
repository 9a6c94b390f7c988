-- The board as tables. An item is one row; its live claim, if any, another in `claims`; each claim it ever had is a row of
-- `runs`; each transition a row of `events`. Instants are integer milliseconds by the clock of the machine, JSON is text.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- New items start their tokens at the floor, above every token that was ever given and forgotten.
INSERT INTO meta (name, value) VALUES ('token_floor', 0), ('conflicts', 0);

CREATE TABLE items (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,  -- age: items are served in the order they were added
    id              TEXT NOT NULL UNIQUE,
    project         TEXT NOT NULL,
    type            TEXT NOT NULL,
    action          TEXT NOT NULL,
    phase           TEXT,
    title           TEXT NOT NULL,
    body            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    labels          TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    timeout_seconds REAL NOT NULL,
    status          TEXT NOT NULL,
    created_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    strikes         INTEGER NOT NULL,
    token           INTEGER NOT NULL,
    revision        INTEGER NOT NULL
) STRICT;

-- A lane is a (project, type); `next` compares the heads of the lanes it wants, whatever stands in the others.
CREATE INDEX items_ready ON items (project, type, priority DESC, seq) WHERE status = 'ready';
CREATE INDEX items_status ON items (status, priority DESC, seq);

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
CREATE INDEX claims_expiry ON claims (expires_at);

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
    links      TEXT NOT NULL,
    cost       TEXT NOT NULL,
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

CREATE TABLE agents (
    name       TEXT PRIMARY KEY,
    types      TEXT NOT NULL,
    role       TEXT,
    max_claims INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id            TEXT PRIMARY KEY,
    agent         TEXT NOT NULL,
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

CREATE TABLE requests (
    actor       TEXT NOT NULL,
    id          TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (actor, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_at ON requests (at);
