-- The highest number of the generated ids that begin with the same words: `fix-login-12`. It is only a hint where to search for
-- an unused id, and is not exported.
CREATE TABLE dibs.id_numbers (
    words  text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
);

-- The functions are created again with one more parameter, the labels of the wanted items. That of `next` has a default, so
-- older callers still work.
DROP FUNCTION IF EXISTS dibs.next(
    text, text, text[], text[], bigint, double precision, integer[], bigint[], boolean, dibs.settings, text[], text[], bigint[]);
DROP FUNCTION IF EXISTS dibs.choose(dibs.agents, text, text[], text[], bigint, integer[], bigint[], bigint);
