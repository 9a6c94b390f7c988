-- Which attempt of a call opened or ended a run. A call without a request id that is made again after its answer was lost
-- recognises by it what its first attempt did.

ALTER TABLE dibs.runs ADD COLUMN attempt text COLLATE "C";

-- Made anew with one parameter more, which those who call them without it do not notice.
DROP FUNCTION IF EXISTS dibs.end_run(dibs.items, dibs.claims, text, text, bigint, text, text, text, text, text, text);
DROP FUNCTION IF EXISTS dibs.end_as_done(text[], text, text, text, text, text, boolean, bigint, dibs.settings);
