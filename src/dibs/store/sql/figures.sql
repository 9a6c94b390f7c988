-- Statements of the figures that are kept (see figures.py), in PostgreSQL's SQL for both databases (see queries.py). On
-- SQLite CROSS JOIN keeps the order of the tables: without statistics the planner may begin with the one that has a
-- million rows.

-- name: upto
SELECT count FROM dibs.figures WHERE kind = 'upto' AND agent = '' AND name = :name

-- name: set_upto
INSERT INTO dibs.figures (kind, agent, name, count, total) VALUES ('upto', '', :name, :id, 0)
ON CONFLICT (kind, agent, name) DO UPDATE SET count = excluded.count

-- name: add_figure
INSERT INTO dibs.figures (kind, agent, name, count, total) VALUES (:kind, :agent, :name, :count, :total)
ON CONFLICT (kind, agent, name) DO UPDATE SET count = figures.count + excluded.count, total = figures.total + excluded.total

-- With the latest event, because a reader of the figures counts from theirs up to it.
-- name: figures
SELECT kind, agent, name, count, total FROM dibs.figures
WHERE kind IN ('upto', 'ended') OR :agent::text IS NULL OR agent = :agent
UNION ALL SELECT 'latest', '', 'event', max(id), 0 FROM dibs.events

-- name: figures_of_items
SELECT kind, agent, name, count, total FROM dibs.figures WHERE kind IN ('upto', 'ended')
UNION ALL SELECT 'latest', '', 'event', max(id), 0 FROM dibs.events

-- name: ended_changes
SELECT before.status, e.status, count(*)
FROM dibs.events e LEFT JOIN dibs.events before ON before.item = e.item AND before.number = e.number - 1
WHERE e.id > :after AND e.id <= :upto AND before.status IS DISTINCT FROM e.status
  AND (e.status IN ('done', 'failed', 'rejected', 'cancelled') OR e.kind IN ('retried', 'reopened', 'found', 'restored', 'edited'))
GROUP BY 1, 2

-- name: ended_by_status
SELECT status, count(*) FROM dibs.items WHERE status IN ('done', 'failed', 'rejected', 'cancelled') GROUP BY status

-- name: last_run_of_events
SELECT r.seq FROM dibs.events e CROSS JOIN dibs.runs r
WHERE r.item = e.item AND r.token = e.token
  AND e.id > :after AND e.id <= :upto AND e.kind = 'claimed' ORDER BY e.id DESC LIMIT 1

-- name: begin_runs
INSERT INTO dibs.uncounted_runs (item, token)
SELECT item, token FROM dibs.runs WHERE seq > :after AND seq <= :upto AND outcome IS NULL

-- A run without a claim has ended; claims are few.
-- name: take_ended_runs
DELETE FROM dibs.uncounted_runs
WHERE NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.item = uncounted_runs.item AND c.token = uncounted_runs.token)
RETURNING (SELECT r.agent FROM dibs.runs r WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token),
          (SELECT r.outcome FROM dibs.runs r WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token),
          (SELECT coalesce(r.ended_at, r.started_at) - r.started_at FROM dibs.runs r
           WHERE r.item = uncounted_runs.item AND r.token = uncounted_runs.token)

-- What was counted of these items.
-- name: counted_items
SELECT e.status, count(*) FROM dibs.events e
WHERE e.item @in(:items) AND e.status IN ('done', 'failed', 'rejected', 'cancelled')
  AND e.number = (SELECT max(o.number) FROM dibs.events o WHERE o.item = e.item AND o.id <= :upto)
GROUP BY e.status

-- name: counted_runs
SELECT r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM dibs.runs r
WHERE r.item @in(:items) AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM dibs.uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY r.agent, r.outcome

-- name: forget_uncounted_runs
DELETE FROM dibs.uncounted_runs WHERE item @in(:items)

-- name: delete_uncounted_runs
DELETE FROM dibs.uncounted_runs

-- name: delete_figures
DELETE FROM dibs.figures
