-- Statements about webhooks, in PostgreSQL's SQL for both databases: see queries.py.

-- name: webhooks
SELECT record FROM dibs.webhooks ORDER BY created_at, id

-- name: webhook_by_id
SELECT record, secrets, deliverer, leased_until, revision FROM dibs.webhooks WHERE id = :id FOR UPDATE

-- name: insert_webhook
INSERT INTO dibs.webhooks (id, created_at, cursor, active, record, secrets, deliverer, leased_until, revision)
VALUES (:id, :created_at, :cursor, :active, :record, :secrets, :deliverer, :leased_until, :revision)

-- name: update_webhook
UPDATE dibs.webhooks SET cursor = :cursor, active = :active, record = :record, secrets = :secrets, deliverer = :deliverer,
    leased_until = :leased_until, revision = :revision
WHERE id = :id AND revision = :revision - 1

-- name: delete_webhook
DELETE FROM dibs.webhooks WHERE id = :id

-- name: lowest_cursor
SELECT min(cursor) FROM dibs.webhooks WHERE active = 1

-- name: last_event
SELECT greatest(coalesce((SELECT max(id) FROM dibs.events), 0), (SELECT value FROM dibs.meta WHERE name = 'event_floor'))

-- name: dead_letters
SELECT letter FROM dibs.dead_letters WHERE webhook = :webhook ORDER BY event

-- name: put_dead_letter
INSERT INTO dibs.dead_letters (webhook, event, letter) VALUES (:webhook, :event, :letter)

-- name: delete_dead_letter
DELETE FROM dibs.dead_letters WHERE webhook = :webhook AND event = :event RETURNING event

-- name: delete_dead_letters
DELETE FROM dibs.dead_letters WHERE webhook = :webhook
