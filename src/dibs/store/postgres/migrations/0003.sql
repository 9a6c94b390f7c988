-- The call that opened a run, or ended it. A call without a request id that is repeated after its answer was lost recognises by
-- this what its first attempt did.

ALTER TABLE dibs.runs ADD COLUMN call_id text COLLATE "C";

-- Made anew with one parameter more, which those who call them without it do not notice.
DROP FUNCTION IF EXISTS dibs.end_run(dibs.items, dibs.claims, text, text, bigint, text, text, text, text, text, text);
DROP FUNCTION IF EXISTS dibs.end_as_done(text[], text, text, text, text, text, boolean, bigint, dibs.settings);
