-- Checks of a run's work by name, each with its state, which callers add after the run has ended.

ALTER TABLE dibs.runs ADD COLUMN checks json NOT NULL DEFAULT '{}';

-- The functions are created again with one more parameter, the least time between two renewals. It has a default, so older
-- callers still work.
DROP FUNCTION IF EXISTS dibs.heartbeat(text, text[], bigint[], dibs.settings, bigint);
DROP FUNCTION IF EXISTS dibs.renew(text, text, bigint, double precision, dibs.settings);
