-- The same rows as people write them: one statement after the other, between BEGIN and COMMIT.

BEGIN;
SELECT id FROM dibs.sessions WHERE id = 'bench-' || :client_id::text FOR NO KEY UPDATE;
SELECT string_agg(id, ',') AS items, coalesce(max(seq) + 1, :low) AS low FROM (
    SELECT id, seq FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL AND lane = :lane AND seq >= :low
    ORDER BY seq LIMIT :batch FOR NO KEY UPDATE SKIP LOCKED) x \gset
UPDATE dibs.items
SET status = 'in_progress', updated_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, token = token + 1,
    attempts = attempts + 1, revision = revision + 1
WHERE id = ANY (string_to_array(:items, ','));
INSERT INTO dibs.claims (item, token, session, agent, claimed_at, renewed_at, expires_at, deadline_at, ttl_seconds,
                         heartbeat_count, look_at)
SELECT id, token, 'bench-' || :client_id::text, 'bench', updated_at, updated_at, updated_at + 1800000,
       updated_at + 28800000, 1800, 0, updated_at + 1800000
FROM dibs.items WHERE id = ANY (string_to_array(:items, ','));
INSERT INTO dibs.runs (item, token, session, agent, started_at, links, cost)
SELECT id, token, 'bench-' || :client_id::text, 'bench', updated_at, '{}', '{}'
FROM dibs.items WHERE id = ANY (string_to_array(:items, ','));
INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
SELECT id, revision, 'claimed', updated_at, status, token, 'bench', 'bench-' || :client_id::text, 'bench',
       ('{"ttl_seconds": 1800.0, "deadline_at": ' || updated_at + 28800000 || '}')::json
FROM dibs.items WHERE id = ANY (string_to_array(:items, ','));
UPDATE dibs.sessions SET seen_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE id = 'bench-' || :client_id::text
  AND seen_at < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 4999;
COMMIT;

BEGIN;
SELECT id FROM dibs.sessions WHERE id = 'bench-' || :client_id::text FOR NO KEY UPDATE;
DELETE FROM dibs.claims WHERE item = ANY (string_to_array(:items, ','));
UPDATE dibs.runs
SET ended_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, outcome = 'done', links = '{}', cost = '{}'
WHERE item = ANY (string_to_array(:items, ',')) AND outcome IS NULL;
UPDATE dibs.items
SET status = 'done', updated_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, revision = revision + 1
WHERE id = ANY (string_to_array(:items, ','));
INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
SELECT id, revision, 'done', updated_at, status, token, 'bench', 'bench-' || :client_id::text, 'bench', '{"reason": null}'
FROM dibs.items WHERE id = ANY (string_to_array(:items, ','));
UPDATE dibs.sessions SET seen_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE id = 'bench-' || :client_id::text
  AND seen_at < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 4999;
COMMIT;
