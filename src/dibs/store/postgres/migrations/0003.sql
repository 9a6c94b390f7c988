-- `call_id` is the call that opened or ended a run. By it, a call without a request id that is repeated after its answer was
-- lost recognizes the work of its first attempt.

ALTER TABLE dibs.runs ADD COLUMN call_id text COLLATE "C";

-- The functions are created again with one more parameter. It has a default, so older callers still work.
DROP FUNCTION IF EXISTS dibs.end_run(dibs.items, dibs.claims, text, text, bigint, text, text, text, text, text, text);
DROP FUNCTION IF EXISTS dibs.end_as_done(text[], text, text, text, text, text, boolean, bigint, dibs.settings);
