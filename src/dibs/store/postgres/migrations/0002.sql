-- The keys of a server's callers, and the key that registered each session.

ALTER TABLE dibs.sessions ADD COLUMN key text COLLATE "C";

CREATE TABLE dibs.keys (
    id         text COLLATE "C" PRIMARY KEY,
    role       text NOT NULL,
    agent      text COLLATE "C",
    digest     text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
