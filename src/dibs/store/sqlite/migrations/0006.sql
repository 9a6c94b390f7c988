-- What dashboards read without reading every ended item: see `store/sql/figures.py`.

-- `kind` is 'ended' (items by status), 'run' (ended runs by agent and outcome; `total` is their duration) or 'first' (items by
-- the agent that claimed them, and by the agent '' for all; `total` is the time until the first claim). Times are milliseconds.
CREATE TABLE figures (
    kind  TEXT NOT NULL,
    agent TEXT NOT NULL,
    name  TEXT NOT NULL,
    count INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (kind, agent, name)
) STRICT, WITHOUT ROWID;

-- Runs that had not ended when they were counted.
CREATE TABLE uncounted_runs (
    item  TEXT NOT NULL,
    token INTEGER NOT NULL,
    PRIMARY KEY (item, token)
) STRICT, WITHOUT ROWID;

-- The figures are complete up to this event and up to this run.
INSERT INTO figures (kind, agent, name, count, total) VALUES ('upto', '', 'event', 0, 0), ('upto', '', 'run', 0, 0);

CREATE INDEX sessions_live ON sessions (id) WHERE ended_at IS NULL;
