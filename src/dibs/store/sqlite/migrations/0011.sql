-- The body and the payload of an item where they are long: the columns of the item are then both empty, and a change of its
-- status does not write them again. A payload is never empty otherwise.
CREATE TABLE long_texts (
    item    TEXT PRIMARY KEY,
    body    TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT;

INSERT INTO long_texts (item, body, payload)
SELECT id, body, payload FROM items WHERE length(body) + length(payload) > 2000;
UPDATE items SET body = '', payload = '' WHERE length(body) + length(payload) > 2000;
