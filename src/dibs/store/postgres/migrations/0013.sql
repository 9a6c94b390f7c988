-- The function is created again with one more parameter, whether it answers with lists. It has a default, so older callers still
-- work.
DROP FUNCTION IF EXISTS dibs.next(
    text, text, text[], text[], bigint, double precision, integer[], bigint[], boolean, dibs.settings, text[], text[], bigint[],
    text[]);
