-- What a key is for, when it was last used, and the key that it or its predecessors replace (see `rotate_key`). And when the board
-- was last backed up, and a server last tried whether it can write; neither is exported.
ALTER TABLE dibs.keys ADD COLUMN name text;
ALTER TABLE dibs.keys ADD COLUMN last_used_at bigint;
ALTER TABLE dibs.keys ADD COLUMN line text COLLATE "C";

INSERT INTO dibs.meta (name, value) VALUES ('last_backup_at', 0), ('write_tried_at', 0);
