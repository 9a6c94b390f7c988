-- The function is created again with one more parameter, whether a session keeps an offer that it cannot accept. It has a
-- default, so older callers still work.
DROP FUNCTION IF EXISTS dibs.claim(text, text, text, double precision, boolean, bigint, dibs.settings, text[]);
