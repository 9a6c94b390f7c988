-- The very same rows as a claim and its end, to the same tables with the same indexes: what the database allows at best. One
-- statement is one transaction and one round trip, so that no client can do better.

WITH now AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at),
me AS MATERIALIZED (SELECT id, agent FROM dibs.sessions WHERE id = 'bench-' || :client_id::text FOR NO KEY UPDATE),
chosen AS MATERIALIZED (
    SELECT id FROM dibs.items
    WHERE status = 'ready' AND offered_to IS NULL AND lane = :lane AND seq >= :low AND (SELECT id FROM me) IS NOT NULL
    ORDER BY seq LIMIT :batch FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE dibs.items x
    SET status = 'in_progress', updated_at = (SELECT at FROM now), token = x.token + 1, attempts = x.attempts + 1,
        revision = x.revision + 1
    WHERE x.id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING x.id, x.token, x.revision, x.seq
), claimed AS (
    INSERT INTO dibs.claims (item, token, session, agent, claimed_at, renewed_at, expires_at, deadline_at, ttl_seconds,
                             heartbeat_count, look_at)
    SELECT t.id, t.token, me.id, me.agent, now.at, now.at, now.at + 1800000, now.at + 28800000, 1800, 0, now.at + 1800000
    FROM taken t, me, now
), begun AS (
    INSERT INTO dibs.runs (item, token, session, agent, started_at, links, cost)
    SELECT t.id, t.token, me.id, me.agent, now.at, '{}', '{}' FROM taken t, me, now
), told AS (
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    SELECT t.id, t.revision, 'claimed', now.at, 'in_progress', t.token, me.agent, me.id, me.agent,
           ('{"ttl_seconds": 1800.0, "deadline_at": ' || now.at + 28800000 || '}')::json
    FROM taken t, me, now
), seen AS (
    UPDATE dibs.sessions SET seen_at = (SELECT at FROM now)
    WHERE id = (SELECT id FROM me) AND NOT seen_at BETWEEN (SELECT at FROM now) - 4999 AND (SELECT at FROM now)
)
SELECT string_agg(id, ',') AS items, coalesce(max(seq) + 1, :low) AS low FROM taken \gset

WITH now AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at),
me AS MATERIALIZED (SELECT id FROM dibs.sessions WHERE id = 'bench-' || :client_id::text FOR NO KEY UPDATE),
ended AS (
    DELETE FROM dibs.claims
    WHERE item = ANY (string_to_array(:items, ',')) AND session = (SELECT id FROM me)
      AND expires_at > (SELECT at FROM now)
    RETURNING item, token, session, agent
), closed AS (
    UPDATE dibs.runs SET ended_at = (SELECT at FROM now), outcome = 'done', links = '{}', cost = '{}'
    WHERE (item, token) IN (SELECT item, token FROM ended) AND outcome IS NULL
), done AS (
    UPDATE dibs.items SET status = 'done', updated_at = (SELECT at FROM now), revision = revision + 1
    WHERE id = ANY (ARRAY(SELECT item FROM ended)) RETURNING id, revision
), told AS (
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    SELECT d.id, d.revision, 'done', now.at, 'done', e.token, e.agent, e.session, e.agent, '{"reason": null}'
    FROM done d JOIN ended e ON e.item = d.id, now
), seen AS (
    UPDATE dibs.sessions SET seen_at = (SELECT at FROM now)
    WHERE id = (SELECT id FROM me) AND NOT seen_at BETWEEN (SELECT at FROM now) - 4999 AND (SELECT at FROM now)
)
SELECT count(*) FROM done;
