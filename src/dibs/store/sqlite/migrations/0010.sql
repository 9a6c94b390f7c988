-- The highest number of the generated ids that begin with the same words: `fix-login-12`. It is only a hint where to
-- search for an unused id, and is not exported.
CREATE TABLE id_numbers (
    words  TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
