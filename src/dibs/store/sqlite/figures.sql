-- Statements of the figures that are kept: see `store/sql/figures.py`. CROSS JOIN keeps the order of the tables: without
-- statistics the planner may begin with the one that has a million rows.

-- A writer has the lock of the whole board.
-- name: try_lock_figures
SELECT 1

-- name: lock_figures
SELECT 1

-- name: upto
SELECT count FROM figures WHERE kind = 'upto' AND agent = '' AND name = :name

-- name: set_upto
INSERT INTO figures (kind, agent, name, count, total) VALUES ('upto', '', :name, :id, 0)
ON CONFLICT (kind, agent, name) DO UPDATE SET count = excluded.count

-- name: add_figure
INSERT INTO figures (kind, agent, name, count, total) VALUES (:kind, :agent, :name, :count, :total)
ON CONFLICT (kind, agent, name) DO UPDATE SET count = figures.count + excluded.count, total = figures.total + excluded.total

-- With the latest event, because a reader of the figures counts from theirs up to it.
-- name: figures
SELECT kind, agent, name, count, total FROM figures
WHERE kind IN ('upto', 'ended') OR :agent IS NULL OR agent = :agent
UNION ALL SELECT 'latest', '', 'event', max(id), 0 FROM events

-- name: figures_of_items
SELECT kind, agent, name, count, total FROM figures WHERE kind IN ('upto', 'ended')
UNION ALL SELECT 'latest', '', 'event', max(id), 0 FROM events

-- name: next_events
SELECT max(id), count(*) FROM (SELECT id FROM events WHERE id > :after ORDER BY id LIMIT :limit)

-- name: ended_changes
SELECT before.status, e.status, count(*)
FROM events e LEFT JOIN events before ON before.item = e.item AND before.number = e.number - 1
WHERE e.id > :after AND e.id <= :upto AND before.status IS NOT e.status
  AND (e.status IN ('done', 'failed', 'rejected', 'cancelled') OR e.kind IN ('retried', 'reopened', 'found', 'restored', 'edited'))
GROUP BY 1, 2

-- name: ended_by_status
SELECT status, count(*) FROM items WHERE status IN ('done', 'failed', 'rejected', 'cancelled') GROUP BY status

-- name: last_run_of_events
SELECT r.seq FROM events e CROSS JOIN runs r ON r.item = e.item AND r.token = e.token
WHERE e.id > :after AND e.id <= :upto AND e.kind = 'claimed' ORDER BY e.id DESC LIMIT 1

-- name: begin_runs
INSERT INTO uncounted_runs (item, token)
SELECT item, token FROM runs WHERE seq > :after AND seq <= :upto AND outcome IS NULL

-- Those that `begin_runs` found ended: one that ended since is among the uncounted.
-- name: ended_runs_between
SELECT +r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM runs r
WHERE r.seq > :after AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY 1, 2

-- A run without a claim has ended; claims are few.
-- name: take_ended_runs
DELETE FROM uncounted_runs
WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.item = uncounted_runs.item AND c.token = uncounted_runs.token)
RETURNING (SELECT r.agent FROM runs r WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token),
          (SELECT r.outcome FROM runs r WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token),
          (SELECT coalesce(r.ended_at, r.started_at) - r.started_at FROM runs r WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token)

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

-- What was counted of these items.
-- name: counted_items
SELECT e.status, count(*) FROM events e
WHERE e.item IN (SELECT value FROM json_each(:items)) AND e.status IN ('done', 'failed', 'rejected', 'cancelled')
  AND e.number = (SELECT max(o.number) FROM events o WHERE o.item = e.item AND o.id <= :upto)
GROUP BY e.status

-- name: counted_runs
SELECT r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM runs r
WHERE r.item IN (SELECT value FROM json_each(:items)) AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY r.agent, r.outcome

-- name: counted_first_claims
SELECT +r.agent, NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM runs r CROSS JOIN items i ON i.id = r.item
WHERE r.item IN (SELECT value FROM json_each(:items)) AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: forget_uncounted_runs
DELETE FROM uncounted_runs WHERE item IN (SELECT value FROM json_each(:items))

-- name: delete_uncounted_runs
DELETE FROM uncounted_runs

-- name: delete_figures
DELETE FROM figures
