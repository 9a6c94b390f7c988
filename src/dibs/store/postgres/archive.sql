-- Statements about a whole board: export, import, restore.

-- name: board
SELECT name, value FROM dibs.meta WHERE name NOT IN ('last_backup_at', 'write_tried_at')
UNION ALL SELECT 'conflicts', sum(count)::bigint FROM dibs.conflicts ORDER BY 1

-- name: requests
SELECT actor, id, fingerprint, answer, at, shape FROM dibs.requests ORDER BY actor, id

-- name: set_meta
WITH counted AS (UPDATE dibs.conflicts SET count = :value WHERE slot = 0 AND :name = 'conflicts')
INSERT INTO dibs.meta (name, value) SELECT :name, :value WHERE :name <> 'conflicts'
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: highest
SELECT greatest((SELECT max(token) FROM dibs.items), (SELECT value FROM dibs.meta WHERE name = 'token_floor')),
       greatest((SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM dibs.events_id_seq),
                (SELECT value FROM dibs.meta WHERE name = 'event_floor'))

-- name: number_events_past
SELECT setval('dibs.events_id_seq', greatest(:number, last_value)) FROM dibs.events_id_seq

-- Advance the sequences past the numbers of an imported board. They are never lowered, because setval() is not rolled back with
-- the transaction.
-- name: advance_sequences
SELECT setval('dibs.events_id_seq', greatest((SELECT max(id) FROM dibs.events), s.last_value, 1)),
       setval('dibs.tickets_id_seq', greatest((SELECT max(id) FROM dibs.tickets), t.last_value, 1)),
       setval('dibs.activity_id_seq', greatest((SELECT max(id) FROM dibs.activity), a.last_value, 1))
FROM dibs.events_id_seq s, dibs.tickets_id_seq t, dibs.activity_id_seq a

-- DELETE, not TRUNCATE, so that a reader of an older snapshot still finds all rows.
-- name: delete_all
WITH items AS (DELETE FROM dibs.items), claims AS (DELETE FROM dibs.claims), runs AS (DELETE FROM dibs.runs),
     events AS (DELETE FROM dibs.events), tickets AS (DELETE FROM dibs.tickets),
     soft_claims AS (DELETE FROM dibs.soft_claims), dependencies AS (DELETE FROM dibs.dependencies),
     agents AS (DELETE FROM dibs.agents), sessions AS (DELETE FROM dibs.sessions),
     activity AS (DELETE FROM dibs.activity), requests AS (DELETE FROM dibs.requests),
     floors AS (UPDATE dibs.meta SET value = 0 WHERE name <> 'last_backup_at')
UPDATE dibs.conflicts SET count = 0

-- name: lock_tables
LOCK TABLE dibs.items, dibs.claims, dibs.runs, dibs.events, dibs.tickets, dibs.soft_claims, dibs.dependencies, dibs.agents,
           dibs.sessions, dibs.activity, dibs.requests IN EXCLUSIVE MODE

-- name: without_claim
SELECT i.id FROM dibs.items i
WHERE i.status = 'in_progress' AND NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.item = i.id) LIMIT 100

-- name: with_stray_claim
SELECT i.id, i.status FROM dibs.claims c JOIN dibs.items i ON i.id = c.item WHERE i.status <> 'in_progress' LIMIT 100

-- name: overlooked_claim
SELECT item FROM dibs.claims WHERE look_at > expires_at LIMIT 100

-- name: setting
SELECT current_setting(:name)
