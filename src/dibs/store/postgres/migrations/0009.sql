-- The key of what an item is about elsewhere, such as the URL of an issue. Not unique: a board that is copied from a vault may have
-- two items of a subject. A board adds none, since it looks and adds under a lock of the subject.

ALTER TABLE dibs.items ADD COLUMN subject text COLLATE "C";

CREATE INDEX items_subject ON dibs.items (subject, created_at, id) WHERE subject IS NOT NULL;
