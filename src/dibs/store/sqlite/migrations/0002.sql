-- The keys of a server's callers, and the key that registered each session.

ALTER TABLE sessions ADD COLUMN key TEXT;

CREATE TABLE keys (
    id         TEXT PRIMARY KEY,
    role       TEXT NOT NULL,
    agent      TEXT,
    digest     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
