-- The key of what an item is about elsewhere, such as the URL of an issue. Not unique: the index of a vault may get a second item
-- of a subject from another clone. A board adds none, since it looks and adds in one transaction.

ALTER TABLE items ADD COLUMN subject TEXT;

CREATE INDEX items_subject ON items (subject, created_at, id) WHERE subject IS NOT NULL;
