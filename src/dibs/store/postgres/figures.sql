-- Statements of the figures that are kept: see `store/sql/figures.py`.

-- Of the advisory locks of dibs: the one of the figures.
-- name: try_lock_figures
SELECT pg_try_advisory_xact_lock(25699, 0)

-- name: lock_figures
SELECT pg_advisory_xact_lock(25699, 0)

-- name: next_events
SELECT max(id), count(*) FROM (
    SELECT id FROM dibs.events WHERE id > :after AND id <= (SELECT dibs.feed_end()) ORDER BY id LIMIT :limit) AS batch

-- Those that `begin_runs` found ended: one that ended since is among the uncounted.
-- name: ended_runs_between
SELECT r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM dibs.runs r
WHERE r.seq > :after AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM dibs.uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY 1, 2

-- A live run is found by its claim, which is in a small table.
-- name: runs_since
SELECT agent, outcome, count(*), sum(duration) FROM (
    SELECT r.agent AS agent, r.outcome AS outcome, r.ended_at - r.started_at AS duration
    FROM dibs.runs r WHERE r.seq > :after AND r.outcome IS NOT NULL AND (:agent::text IS NULL OR r.agent = :agent)
    UNION ALL SELECT r.agent, r.outcome, r.ended_at - r.started_at
    FROM (SELECT u.item, u.token FROM dibs.uncounted_runs u
          WHERE NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.item = u.item AND c.token = u.token)) AS gone,
         LATERAL (SELECT * FROM dibs.runs x WHERE x.item = gone.item AND x.token = gone.token OFFSET 0) AS r
    WHERE r.outcome IS NOT NULL AND (:agent::text IS NULL OR r.agent = :agent)
    UNION ALL SELECT c.agent, 'running', NULL FROM dibs.claims c WHERE (:agent::text IS NULL OR c.agent = :agent)
) AS since
GROUP BY agent, outcome

-- name: first_claims_since
SELECT r.agent, NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM dibs.runs r JOIN dibs.items i ON i.id = r.item
WHERE r.seq > :after
  AND NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: first_claims_between
SELECT r.agent, NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM dibs.runs r JOIN dibs.items i ON i.id = r.item
WHERE r.seq > :after AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: counted_first_claims
SELECT r.agent, NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM dibs.runs r JOIN dibs.items i ON i.id = r.item
WHERE r.item @in(:items) AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2
