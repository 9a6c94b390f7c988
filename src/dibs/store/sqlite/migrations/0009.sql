-- Whether the result of an item is reviewed: `done` is then recorded as submitted.

ALTER TABLE items ADD COLUMN review INTEGER NOT NULL DEFAULT 0;
