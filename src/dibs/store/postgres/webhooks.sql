-- Statements about webhooks.

-- The lock is for the limit: two callers that add a webhook at once would not see each other's.
-- name: lock_webhooks
SELECT pg_advisory_xact_lock(25704, 0)
