-- Statements about webhooks.

-- name: all_of_webhooks
SELECT id, created_at, cursor, active, record, secrets, deliverer, leased_until, revision FROM webhooks

-- name: all_dead_letters
SELECT webhook, event, letter FROM dead_letters

-- name: forget_webhooks
DELETE FROM webhooks

-- name: forget_dead_letters
DELETE FROM dead_letters
