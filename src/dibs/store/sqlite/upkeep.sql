-- Statements about agents, sessions, keys, soft claims, dependencies, the sweep and pruning.

-- name: put_agent
INSERT INTO agents (@agent) VALUES (:@agent)
ON CONFLICT (name) DO UPDATE SET types = excluded.types, role = excluded.role, max_claims = excluded.max_claims,
    max_claims_total = excluded.max_claims_total, claims_per_minute = excluded.claims_per_minute,
    claims_burst = excluded.claims_burst, allowed_actions = excluded.allowed_actions,
    sensitive_actions = excluded.sensitive_actions, updated_at = excluded.updated_at

-- name: create_agent
INSERT INTO agents (@agent) VALUES (:@agent) ON CONFLICT (name) DO NOTHING

-- name: put_session
INSERT OR REPLACE INTO sessions (@session) VALUES (:@session)

-- name: annotate_run
UPDATE runs SET links = :links, checks = :checks, cost = :cost
WHERE item = :item AND token = :token AND outcome IS :outcome

-- name: items_of_session
SELECT item FROM claims WHERE session = :session ORDER BY claimed_at, item LIMIT :limit

-- What ends with a session: items that it holds or waits for, and its live children.
-- name: around_session
SELECT item, NULL FROM claims WHERE session = :session
UNION ALL SELECT item, NULL FROM tickets WHERE session = :session AND closed_at IS NULL
UNION ALL SELECT NULL, id FROM sessions WHERE parent = :session AND ended_at IS NULL

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
WHERE ended_at IS NULL AND seen_at < :since AND (:among IS NULL OR id IN (SELECT value FROM json_each(:among)))
  AND NOT EXISTS (SELECT 1 FROM claims WHERE session = s.id)
  AND NOT EXISTS (SELECT 1 FROM tickets WHERE session = s.id AND closed_at IS NULL)
  AND id NOT IN (SELECT session FROM soft_claims)
  AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent = s.id AND child.ended_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM json_each(:kept) WHERE substr(s.id, 1, length(value)) = value)
LIMIT :limit

-- name: sessions_of_key
SELECT count(*), coalesce(sum(length(CAST(meta AS blob))), 0) FROM sessions WHERE ended_at IS NULL AND key = :key

-- name: tickets_of_session
SELECT item FROM tickets WHERE session = :session AND closed_at IS NULL

-- name: close_dead_tickets
UPDATE tickets SET closed_at = :now, reason = 'it was not renewed'
WHERE id IN (
    SELECT tickets.id FROM tickets JOIN items ON items.id = tickets.item
    WHERE tickets.closed_at IS NULL AND tickets.expires_at <= :now AND items.offered_to IS NOT tickets.session
    LIMIT :limit)

-- name: trim_tickets
DELETE FROM tickets WHERE closed_at <= :before

-- name: put_soft_claim
INSERT OR REPLACE INTO soft_claims (@soft_claim) VALUES (:@soft_claim)

-- name: soft_claim
SELECT @soft_claim FROM soft_claims WHERE item = :item AND session = :session AND expires_at > :now

-- name: drop_soft_claim
DELETE FROM soft_claims WHERE item = :item AND session = :session

-- name: drop_soft_claims_of_session
DELETE FROM soft_claims WHERE session = :session

-- name: renew_soft_claims
UPDATE soft_claims SET expires_at = :now + CAST(round(ttl_seconds * 1000) AS INTEGER)
WHERE session = :session AND expires_at > :now
  AND expires_at - CAST(round(ttl_seconds * 1000) AS INTEGER)
      NOT BETWEEN :now - min(:every, CAST(round(ttl_seconds * 1000 / 3) AS INTEGER)) + 1 AND :now

-- name: trim_soft_claims
DELETE FROM soft_claims WHERE expires_at <= :now

-- name: put_dependency
INSERT OR IGNORE INTO dependencies (item, needs) VALUES (:item, :needs)

-- name: put_dependencies
INSERT OR IGNORE INTO dependencies (item, needs) SELECT :item, value FROM json_each(:needs)

-- A pruned dependency was done, and a new item with its id must not block the dependent.
-- name: put_dependencies_if_there
INSERT OR IGNORE INTO dependencies (item, needs)
SELECT :item, id FROM items WHERE id IN (SELECT value FROM json_each(:needs))

-- name: drop_dependencies
DELETE FROM dependencies WHERE item = :item

-- name: in_a_cycle
WITH RECURSIVE reach (id) AS (
    SELECT needs FROM dependencies WHERE item = :item
    UNION SELECT dependencies.needs FROM reach JOIN dependencies ON dependencies.item = reach.id
)
SELECT 1 FROM reach WHERE id = :item LIMIT 1

-- name: statuses_by_id
SELECT id, status FROM items WHERE id IN (SELECT value FROM json_each(:items))

-- name: needed_items
SELECT needs FROM dependencies WHERE needs IN (SELECT value FROM json_each(:items)) LIMIT 1

-- All dependencies that can be reached from these items.
-- name: dependencies_below
WITH RECURSIVE reach (id) AS (
    SELECT value FROM json_each(:items)
    UNION SELECT dependencies.needs FROM reach JOIN dependencies ON dependencies.item = reach.id
)
SELECT dependencies.item, dependencies.needs FROM reach JOIN dependencies ON dependencies.item = reach.id

-- Prunable: ended long ago, and done, or without a dependent that has not ended.
-- A dependency without a row counts as done, and any dependent can be retried or reopened: so an item that is not done
-- goes after those that depend on it.
-- name: prunable
SELECT id FROM items
WHERE status IN ('done', 'failed', 'rejected', 'cancelled') AND updated_at < :before
  AND (status = 'done' OR NOT EXISTS (
      SELECT 1 FROM dependencies JOIN items AS waiting ON waiting.id = dependencies.item
      WHERE dependencies.needs = items.id
  ))
  AND NOT EXISTS (SELECT 1 FROM events WHERE item = items.id AND events.id > :delivered)
LIMIT :limit

-- name: ended_before
SELECT id, status FROM items
WHERE status IN ('done', 'failed', 'rejected', 'cancelled') AND updated_at < :before
  AND NOT EXISTS (SELECT 1 FROM events WHERE item = items.id AND events.id > :delivered)

-- Items that are not done, and who depends on them; NULL is a dependent that is not prunable.
-- name: prunable_dependents
WITH old AS MATERIALIZED (@@ended_before)
SELECT old.id, (SELECT id FROM old AS dependent WHERE dependent.id = waiting.id)
FROM old JOIN dependencies ON dependencies.needs = old.id JOIN items AS waiting ON waiting.id = dependencies.item
WHERE old.status <> 'done'

-- name: count_prunable
SELECT count(*), coalesce(sum((SELECT count(*) FROM events WHERE events.item = old.id)), 0) FROM (@@ended_before) AS old
WHERE old.id NOT IN (SELECT value FROM json_each(:kept))

-- name: highest_pruned
SELECT max(items.token), max(events.id), count(events.id)
FROM items JOIN events ON events.item = items.id
WHERE items.id IN (SELECT value FROM json_each(:items))

-- name: raise_floor
UPDATE meta SET value = max(value, :value) WHERE name = :name

-- name: prune_items
DELETE FROM long_texts WHERE item IN (SELECT value FROM json_each(:items));
DELETE FROM items WHERE id IN (SELECT value FROM json_each(:items))

-- name: prune_events
DELETE FROM events WHERE item IN (SELECT value FROM json_each(:items))

-- name: prune_runs
DELETE FROM runs WHERE item IN (SELECT value FROM json_each(:items))

-- name: prune_dependencies
DELETE FROM dependencies
WHERE item IN (SELECT value FROM json_each(:items)) OR needs IN (SELECT value FROM json_each(:items))

-- name: prune_tickets
DELETE FROM tickets WHERE item IN (SELECT value FROM json_each(:items))

-- name: prune_soft_claims
DELETE FROM soft_claims WHERE item IN (SELECT value FROM json_each(:items))

-- name: prune_sessions
DELETE FROM sessions WHERE id IN (
    SELECT id FROM sessions WHERE ended_at < :before
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.id) LIMIT :limit)

-- name: put_key
INSERT INTO keys (@key) VALUES (:@key)

-- name: key_by_id
SELECT @key FROM keys WHERE id = :id

-- name: keys
SELECT @key FROM keys ORDER BY created_at, id

-- The WHERE repeats the check, so that of two concurrent revocations (each use of a login revokes its key) one fails.
-- name: revoke_key
UPDATE keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING @key

-- name: end_key
UPDATE keys SET expires_at = min(coalesce(expires_at, :until), :until) WHERE id = :id

-- At most once in a while, however many servers note it.
-- name: note_key_use
UPDATE keys SET last_used_at = :now WHERE id = :id AND coalesce(last_used_at, 0) <= :noted_before

-- name: valid_key_of_line
SELECT id FROM keys
WHERE (id = :line OR line = :line) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1

-- name: renew_key
UPDATE keys SET expires_at = max(expires_at, min(:until, created_at + :longest))
WHERE id = :id AND revoked_at IS NULL AND expires_at > :now RETURNING @key

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
