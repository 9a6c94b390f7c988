-- Whether the result of an item is reviewed: `done` is then recorded as submitted.

ALTER TABLE dibs.items ADD COLUMN review boolean NOT NULL DEFAULT false;
