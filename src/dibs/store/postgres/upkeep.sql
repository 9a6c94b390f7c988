-- Statements about agents, sessions, keys, soft claims, dependencies and pruning.

-- name: put_agent
INSERT INTO dibs.agents (@columns_of_agent) VALUES (:@agent)
ON CONFLICT (name) DO UPDATE SET types = excluded.types, role = excluded.role, max_claims = excluded.max_claims,
    max_claims_total = excluded.max_claims_total, claims_per_minute = excluded.claims_per_minute,
    claims_burst = excluded.claims_burst, allowed_actions = excluded.allowed_actions,
    sensitive_actions = excluded.sensitive_actions, updated_at = excluded.updated_at

-- name: create_agent
INSERT INTO dibs.agents (@columns_of_agent) VALUES (:@agent) ON CONFLICT (name) DO NOTHING

-- name: put_session
INSERT INTO dibs.sessions (@columns_of_session) VALUES (:@session)
ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, kind = excluded.kind, host = excluded.host,
    boot_id = excluded.boot_id, pid_namespace = excluded.pid_namespace, pid = excluded.pid,
    start_time = excluded.start_time, meta = excluded.meta, started_at = excluded.started_at,
    seen_at = excluded.seen_at, ended_at = excluded.ended_at, end_reason = excluded.end_reason,
    key = excluded.key, parent = excluded.parent

-- name: annotate_run
UPDATE dibs.runs SET links = :links::json, checks = :checks::json, cost = :cost::json
WHERE item = :item AND token = :token AND outcome IS NOT DISTINCT FROM :outcome::text

-- name: items_of_session
SELECT item FROM dibs.claims WHERE session = :session ORDER BY claimed_at, item
LIMIT CASE WHEN :limit < 0 THEN NULL ELSE :limit END

-- What ends with a session, in one round trip: items that it holds or waits for, and its live children.
-- name: around_session
SELECT item, NULL FROM dibs.claims WHERE session = :session
UNION ALL SELECT item, NULL FROM dibs.tickets WHERE session = :session AND closed_at IS NULL
UNION ALL SELECT NULL, id FROM dibs.sessions WHERE parent = :session AND ended_at IS NULL

-- Live sessions that hold nothing, wait for nothing, have no live child, and were not seen since; with `among`, of these.
-- name: silent_sessions
SELECT s.id FROM dibs.sessions s
WHERE s.ended_at IS NULL AND s.seen_at < :since
  AND (:among::text IS NULL OR s.id = ANY (ARRAY(SELECT json_array_elements_text(:among::json))))
  AND NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.session = s.id)
  AND NOT EXISTS (SELECT 1 FROM dibs.tickets t WHERE t.session = s.id AND t.closed_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM dibs.soft_claims c WHERE c.session = s.id)
  AND NOT EXISTS (SELECT 1 FROM dibs.sessions child WHERE child.parent = s.id AND child.ended_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(:kept::json) AS kept (prefix) WHERE starts_with(s.id, prefix))
ORDER BY s.id LIMIT :limit

-- name: sessions_of_key
SELECT count(*), coalesce(sum(octet_length(meta::text)), 0) FROM dibs.sessions WHERE ended_at IS NULL AND key = :key

-- name: tickets_of_session
SELECT item FROM dibs.tickets WHERE session = :session AND closed_at IS NULL ORDER BY item

-- name: put_soft_claim
INSERT INTO dibs.soft_claims (@columns_of_soft_claim) VALUES (:@soft_claim)
ON CONFLICT (item, session) DO UPDATE SET agent = excluded.agent, claimed_at = excluded.claimed_at,
    expires_at = excluded.expires_at, ttl_seconds = excluded.ttl_seconds

-- name: soft_claim
SELECT @soft_claim FROM dibs.soft_claims WHERE item = :item AND session = :session AND expires_at > :now

-- name: drop_soft_claim
DELETE FROM dibs.soft_claims WHERE item = :item AND session = :session

-- name: drop_soft_claims_of_session
DELETE FROM dibs.soft_claims WHERE session = :session

-- name: put_dependency
INSERT INTO dibs.dependencies (item, needs) VALUES (:item, :needs) ON CONFLICT DO NOTHING

-- name: put_dependencies
INSERT INTO dibs.dependencies (item, needs) SELECT :item, json_array_elements_text(:needs::json) ON CONFLICT DO NOTHING

-- A pruned dependency was done, and a new item with its id must not block the dependent.
-- name: put_dependencies_if_there
INSERT INTO dibs.dependencies (item, needs)
SELECT :item, id FROM dibs.items WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:needs::json)))
ON CONFLICT DO NOTHING

-- name: drop_dependencies
DELETE FROM dibs.dependencies WHERE item = :item

-- name: in_a_cycle
WITH RECURSIVE reach (id) AS (
    SELECT needs FROM dibs.dependencies WHERE item = :item
    UNION SELECT d.needs FROM reach JOIN dibs.dependencies d ON d.item = reach.id
)
SELECT 1 FROM reach WHERE id = :item LIMIT 1

-- name: statuses_by_id
SELECT id, status FROM dibs.items WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: needed_items
SELECT needs FROM dibs.dependencies WHERE needs = ANY (ARRAY(SELECT json_array_elements_text(:items::json))) LIMIT 1

-- All dependencies that can be reached from these items.
-- name: dependencies_below
WITH RECURSIVE reach (id) AS (
    SELECT id FROM dibs.items WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))
    UNION SELECT d.needs FROM reach JOIN dibs.dependencies d ON d.item = reach.id
)
SELECT d.item, d.needs FROM reach JOIN dibs.dependencies d ON d.item = reach.id

-- Prunable: ended long ago, and done, or without a dependent that has not ended.
-- A dependency without a row counts as done, and any dependent can be retried or reopened: so an item that is not done
-- goes after those that depend on it.
-- name: prunable
SELECT i.id FROM dibs.items i
WHERE i.status IN ('done', 'failed', 'rejected', 'cancelled') AND i.updated_at < :before
  AND (i.status = 'done' OR NOT EXISTS (
      SELECT 1 FROM dibs.dependencies d JOIN dibs.items waiting ON waiting.id = d.item WHERE d.needs = i.id
  ))
  AND NOT EXISTS (SELECT 1 FROM dibs.events WHERE item = i.id AND events.id > :delivered)
LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: ended_before
SELECT i.id, i.status FROM dibs.items i
WHERE i.status IN ('done', 'failed', 'rejected', 'cancelled') AND i.updated_at < :before
  AND NOT EXISTS (SELECT 1 FROM dibs.events WHERE item = i.id AND events.id > :delivered)

-- Items that are not done, and who depends on them; NULL is a dependent that is not prunable.
-- name: prunable_dependents
WITH old AS MATERIALIZED (@@ended_before)
SELECT old.id, (SELECT dependent.id FROM old AS dependent WHERE dependent.id = waiting.id)
FROM old JOIN dibs.dependencies d ON d.needs = old.id JOIN dibs.items waiting ON waiting.id = d.item
WHERE old.status <> 'done'

-- name: count_prunable
SELECT count(*), coalesce(sum((SELECT count(*) FROM dibs.events WHERE events.item = old.id)), 0)::bigint
FROM (@@ended_before) AS old
WHERE old.id <> ALL (ARRAY(SELECT json_array_elements_text(:kept::json)))

-- name: highest_pruned
SELECT max(i.token), max(e.id), count(e.id)
FROM dibs.items i JOIN dibs.events e ON e.item = i.id
WHERE i.id = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: raise_floor
UPDATE dibs.meta SET value = greatest(value, :value) WHERE name = :name

-- name: prune_items
DELETE FROM dibs.items WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_events
DELETE FROM dibs.events WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_runs
DELETE FROM dibs.runs WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_dependencies
DELETE FROM dibs.dependencies
WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))
   OR needs = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_tickets
DELETE FROM dibs.tickets WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_soft_claims
DELETE FROM dibs.soft_claims WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: prune_sessions
DELETE FROM dibs.sessions WHERE id IN (
    SELECT s.id FROM dibs.sessions s WHERE s.ended_at < :before
    AND NOT EXISTS (SELECT 1 FROM dibs.runs r WHERE r.session = s.id) LIMIT :limit FOR UPDATE SKIP LOCKED)

-- name: put_key
INSERT INTO dibs.keys (@columns_of_key) VALUES (:@key)

-- name: key_by_id
SELECT @key FROM dibs.keys WHERE id = :id

-- name: keys
SELECT @key FROM dibs.keys ORDER BY created_at, id

-- The WHERE repeats the check, so that of two concurrent revocations (each use of a login revokes its key) one fails.
-- name: revoke_key
UPDATE dibs.keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING @key

-- name: end_key
UPDATE dibs.keys SET expires_at = least(coalesce(expires_at, :until), :until) WHERE id = :id

-- At most once in a while, however many servers note it.
-- name: note_key_use
UPDATE dibs.keys SET last_used_at = :now WHERE id = :id AND coalesce(last_used_at, 0) <= :noted_before

-- name: valid_key_of_line
SELECT id FROM dibs.keys
WHERE (id = :line OR line = :line) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1

-- name: renew_key
UPDATE dibs.keys SET expires_at = greatest(expires_at, least(:until, created_at + :longest))
WHERE id = :id AND revoked_at IS NULL AND expires_at > :now RETURNING @key

-- name: reap
SELECT lost FROM dibs.reap(:dead::json, :limit, :settings::dibs.settings)
