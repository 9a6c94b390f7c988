-- Statements of the figures that are kept: see `store/sql/figures.py`. CROSS JOIN keeps the order of the tables: without
-- statistics the planner may begin with the one that has a million rows.

-- A writer has the lock of the whole board.
-- name: try_lock_figures
SELECT 1

-- name: next_events
SELECT max(id), count(*) FROM (SELECT id FROM events WHERE id > :after ORDER BY id LIMIT :limit)

-- Those that `begin_runs` found ended: one that ended since is among the uncounted.
-- name: ended_runs_between
SELECT +r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM runs r
WHERE r.seq > :after AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY 1, 2

-- A live run is found by its claim, which is in a small table.
-- name: runs_since
SELECT agent, outcome, count(*), sum(duration) FROM (
    SELECT r.agent AS agent, r.outcome AS outcome, r.ended_at - r.started_at AS duration
    FROM runs r WHERE r.seq > :after AND r.outcome IS NOT NULL AND (:agent IS NULL OR r.agent = :agent)
    UNION ALL SELECT r.agent, r.outcome, r.ended_at - r.started_at
    FROM uncounted_runs u CROSS JOIN runs r ON r.item = u.item AND r.token = u.token
    WHERE r.outcome IS NOT NULL AND (:agent IS NULL OR r.agent = :agent)
      AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.item = u.item AND c.token = u.token)
    UNION ALL SELECT c.agent, 'running', NULL FROM claims c WHERE (:agent IS NULL OR c.agent = :agent)
) AS since
GROUP BY agent, outcome

-- name: first_claims_since
SELECT +r.agent, NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM runs r CROSS JOIN items i ON i.id = r.item
WHERE r.seq > :after
  AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: first_claims_between
SELECT +r.agent, NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM runs r CROSS JOIN items i ON i.id = r.item
WHERE r.seq > :after AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: counted_first_claims
SELECT +r.agent, NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM runs r CROSS JOIN items i ON i.id = r.item
WHERE r.item @in(:items) AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2
