-- What dashboards read without reading every ended item: see `store/sql/figures.py`.

-- `kind` is 'ended' (items by status), 'run' (ended runs by agent and outcome; `total` is their duration) or 'first' (items by
-- the agent that claimed them, and by the agent '' for all; `total` is the time until the first claim). Times are milliseconds.
-- Only a sweep and a prune write here, never a claim.
CREATE TABLE dibs.figures (
    kind  text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    total bigint NOT NULL,
    PRIMARY KEY (kind, agent, name)
);

-- Runs that had not ended when they were counted.
CREATE TABLE dibs.uncounted_runs (
    item  text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    PRIMARY KEY (item, token)
);

-- The figures are complete up to this event and up to this run.
INSERT INTO dibs.figures (kind, agent, name, count, total) VALUES ('upto', '', 'event', 0, 0), ('upto', '', 'run', 0, 0);

-- `started_at > 0` is always true: it keeps the planner from this index where a claim looks for its session by id.
CREATE INDEX sessions_live ON dibs.sessions (started_at) WHERE ended_at IS NULL AND started_at > 0;
CREATE INDEX items_failed ON dibs.items (priority DESC, seq) WHERE status = 'failed';
