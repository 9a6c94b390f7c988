-- Checks that were made of a run's work, each with its state, as they are learned of once the run has ended.

ALTER TABLE dibs.runs ADD COLUMN checks json NOT NULL DEFAULT '{}';

-- Made anew with one parameter more, which those who call them without it do not notice: at most how often to renew.
DROP FUNCTION IF EXISTS dibs.heartbeat(text, text[], bigint[], dibs.settings, bigint);
DROP FUNCTION IF EXISTS dibs.renew(text, text, bigint, double precision, dibs.settings);
