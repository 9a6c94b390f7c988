-- The function is created again with one more parameter, whether it answers with lists. It has a default, so older callers still
-- work.
DROP FUNCTION IF EXISTS dibs.next(
    text, text, text[], text[], bigint, double precision, integer[], bigint[], boolean, dibs.settings, text[], text[], bigint[],
    text[]);

-- Only other functions call these. They are created again, so that which items are reviewed is read with their lock.
DROP FUNCTION IF EXISTS dibs.finishable(text[], bigint[], text, dibs.agents);
DROP FUNCTION IF EXISTS dibs.end_as_done(text[], text, text, text, text, text, boolean, bigint, dibs.settings, text);
