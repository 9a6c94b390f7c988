-- Statements about agents, sessions, keys, soft claims, dependencies and pruning.

-- Live sessions that hold nothing, wait for nothing, have no live child, and were not seen since; with `among`, of these.
-- name: silent_sessions
SELECT s.id FROM dibs.sessions s
WHERE s.ended_at IS NULL AND s.seen_at < :since
  AND (:among::text IS NULL OR s.id @in(:among))
  AND NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.session = s.id)
  AND NOT EXISTS (SELECT 1 FROM dibs.tickets t WHERE t.session = s.id AND t.closed_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM dibs.soft_claims c WHERE c.session = s.id)
  AND NOT EXISTS (SELECT 1 FROM dibs.sessions child WHERE child.parent = s.id AND child.ended_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(:kept::json) AS kept (prefix) WHERE starts_with(s.id, prefix))
ORDER BY s.id LIMIT :limit

-- name: tickets_of_session
SELECT item FROM dibs.tickets WHERE session = :session AND closed_at IS NULL ORDER BY item

-- All dependencies that can be reached from these items.
-- name: dependencies_below
WITH RECURSIVE reach (id) AS (
    SELECT id FROM dibs.items WHERE id @in(:items)
    UNION SELECT d.needs FROM reach JOIN dibs.dependencies d ON d.item = reach.id
)
SELECT d.item, d.needs FROM reach JOIN dibs.dependencies d ON d.item = reach.id

-- name: prune_items
DELETE FROM dibs.items WHERE id @in(:items)

-- name: reap
SELECT lost FROM dibs.reap(:dead::json, :limit, :settings::dibs.settings)
