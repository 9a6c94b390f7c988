-- Statements about webhooks.

-- name: webhooks
SELECT record FROM webhooks ORDER BY created_at, id

-- name: webhook_by_id
SELECT record, secrets, deliverer, leased_until, revision FROM webhooks WHERE id = :id

-- The transaction is exclusive already.
-- name: lock_webhooks
SELECT 1

-- name: insert_webhook
INSERT INTO webhooks (id, created_at, cursor, active, record, secrets, deliverer, leased_until, revision)
VALUES (:id, :created_at, :cursor, :active, :record, :secrets, :deliverer, :leased_until, :revision)

-- name: update_webhook
UPDATE webhooks SET cursor = :cursor, active = :active, record = :record, secrets = :secrets, deliverer = :deliverer,
    leased_until = :leased_until, revision = :revision
WHERE id = :id AND revision = :revision - 1

-- name: delete_webhook
DELETE FROM webhooks WHERE id = :id

-- name: lowest_cursor
SELECT min(cursor) FROM webhooks WHERE active = 1

-- name: last_event
SELECT max(coalesce((SELECT max(id) FROM events), 0), (SELECT value FROM meta WHERE name = 'event_floor'))

-- name: all_of_webhooks
SELECT id, created_at, cursor, active, record, secrets, deliverer, leased_until, revision FROM webhooks

-- name: all_dead_letters
SELECT webhook, event, letter FROM dead_letters

-- name: forget_webhooks
DELETE FROM webhooks

-- name: forget_dead_letters
DELETE FROM dead_letters

-- name: dead_letters
SELECT letter FROM dead_letters WHERE webhook = :webhook ORDER BY event

-- name: put_dead_letter
INSERT INTO dead_letters (webhook, event, letter) VALUES (:webhook, :event, :letter)

-- name: delete_dead_letter
DELETE FROM dead_letters WHERE webhook = :webhook AND event = :event RETURNING event

-- name: delete_dead_letters
DELETE FROM dead_letters WHERE webhook = :webhook
