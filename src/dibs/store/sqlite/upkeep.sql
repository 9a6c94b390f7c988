-- Statements about agents, sessions, keys, soft claims, dependencies, the sweep and pruning.

-- name: trim_requests
DELETE FROM requests WHERE (actor, id) IN (
    SELECT actor, id FROM requests
    WHERE at < (SELECT at FROM requests WHERE at <= :before ORDER BY at DESC LIMIT 1 OFFSET :kept - 1)
    ORDER BY at LIMIT :limit)

-- name: trim_activity
DELETE FROM activity WHERE id <= (SELECT max(id) FROM activity) - :kept

-- Live sessions that hold nothing, wait for nothing, have no live child, and were not seen since; with `among`, of these.
-- name: silent_sessions
SELECT id FROM sessions s
WHERE ended_at IS NULL AND seen_at < :since AND (:among IS NULL OR id @in(:among))
  AND NOT EXISTS (SELECT 1 FROM claims WHERE session = s.id)
  AND NOT EXISTS (SELECT 1 FROM tickets WHERE session = s.id AND closed_at IS NULL)
  AND id NOT IN (SELECT session FROM soft_claims)
  AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent = s.id AND child.ended_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM json_each(:kept) WHERE substr(s.id, 1, length(value)) = value)
LIMIT :limit

-- name: close_dead_tickets
UPDATE tickets SET closed_at = :now, reason = 'it was not renewed'
WHERE id IN (
    SELECT tickets.id FROM tickets JOIN items ON items.id = tickets.item
    WHERE tickets.closed_at IS NULL AND tickets.expires_at <= :now AND items.offered_to IS NOT tickets.session
    LIMIT :limit)

-- name: tickets_of_session
SELECT item FROM tickets WHERE session = :session AND closed_at IS NULL

-- name: trim_tickets
DELETE FROM tickets WHERE closed_at <= :before

-- name: renew_soft_claims
UPDATE soft_claims SET expires_at = :now + CAST(round(ttl_seconds * 1000) AS INTEGER)
WHERE session = :session AND expires_at > :now
  AND expires_at - CAST(round(ttl_seconds * 1000) AS INTEGER)
      NOT BETWEEN :now - min(:every, CAST(round(ttl_seconds * 1000 / 3) AS INTEGER)) + 1 AND :now

-- name: trim_soft_claims
DELETE FROM soft_claims WHERE expires_at <= :now

-- All dependencies that can be reached from these items.
-- name: dependencies_below
WITH RECURSIVE reach (id) AS (
    SELECT value FROM json_each(:items)
    UNION SELECT dependencies.needs FROM reach JOIN dependencies ON dependencies.item = reach.id
)
SELECT dependencies.item, dependencies.needs FROM reach JOIN dependencies ON dependencies.item = reach.id

-- name: prune_items
DELETE FROM long_texts WHERE item @in(:items);
DELETE FROM items WHERE id @in(:items)

-- name: forget_keys
DELETE FROM keys

-- The items that are overdue, in the order of `next`, each with its lane. The claims and the schedules are read in that order,
-- because most of them are overdue when these statements are used: see store/sqlite/choose_next.py.
-- name: expired_ranks
SELECT -items.priority, items.seq, items.project, items.type, items.action, items.approved, items.id
FROM items INDEXED BY items_status CROSS JOIN claims ON claims.item = items.id
WHERE items.status = 'in_progress' AND claims.expires_at <= :now ORDER BY items.priority DESC, items.seq

-- name: due_ranks
SELECT -priority, seq, project, type, action, approved, id FROM items INDEXED BY items_status
WHERE status = 'scheduled' AND not_before <= :now ORDER BY priority DESC, seq

-- name: lapsed_ranks
SELECT -priority, seq, project, type, action, approved, id FROM items INDEXED BY items_offered
WHERE offer_expires_at <= :now ORDER BY priority DESC, seq
