-- Statements about a whole board: export, import, restore.

-- name: board
SELECT name, value FROM meta WHERE name NOT IN ('last_backup_at', 'write_tried_at') ORDER BY name

-- name: requests
SELECT actor, id, fingerprint, answer, at FROM requests ORDER BY actor, id

-- name: set_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (:name, :value)

-- name: highest
SELECT max(coalesce((SELECT max(token) FROM items), 0), (SELECT value FROM meta WHERE name = 'token_floor')),
       max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
           (SELECT value FROM meta WHERE name = 'event_floor'))

-- name: insert_placeholder_event
INSERT INTO events (id, item, number, kind, at, status, token, actor, data)
VALUES (:id, '', 0, '', 0, '', 0, '', '{}')

-- name: delete_placeholder_event
DELETE FROM events WHERE id = :id
