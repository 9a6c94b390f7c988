-- Statements of the figures that are kept: see `store/sql/figures.py`.

-- Of the advisory locks of dibs: the one of the figures.
-- name: try_lock_figures
SELECT pg_try_advisory_xact_lock(25699, 0)

-- name: lock_figures
SELECT pg_advisory_xact_lock(25699, 0)

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

-- name: next_events
SELECT max(id), count(*) FROM (
    SELECT id FROM dibs.events WHERE id > :after AND id <= (SELECT dibs.feed_end()) ORDER BY id LIMIT :limit) AS batch

-- name: ended_changes
SELECT before.status, e.status, count(*)
FROM dibs.events e LEFT JOIN dibs.events before ON before.item = e.item AND before.number = e.number - 1
WHERE e.id > :after AND e.id <= :upto AND before.status IS DISTINCT FROM e.status
  AND (e.status IN ('done', 'failed', 'rejected', 'cancelled') OR e.kind IN ('retried', 'reopened', 'found', 'restored', 'edited'))
GROUP BY 1, 2

-- name: ended_by_status
SELECT status, count(*) FROM dibs.items WHERE status IN ('done', 'failed', 'rejected', 'cancelled') GROUP BY status

-- name: last_run_of_events
SELECT r.seq FROM dibs.events e JOIN dibs.runs r ON r.item = e.item AND r.token = e.token
WHERE e.id > :after AND e.id <= :upto AND e.kind = 'claimed' ORDER BY e.id DESC LIMIT 1

-- name: begin_runs
INSERT INTO dibs.uncounted_runs (item, token)
SELECT item, token FROM dibs.runs WHERE seq > :after AND seq <= :upto AND outcome IS NULL

-- Those that `begin_runs` found ended: one that ended since is among the uncounted.
-- name: ended_runs_between
SELECT r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM dibs.runs r
WHERE r.seq > :after AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM dibs.uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY 1, 2

-- A run without a claim has ended; claims are few.
-- name: take_ended_runs
DELETE FROM dibs.uncounted_runs u
WHERE NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.item = u.item AND c.token = u.token)
RETURNING (SELECT r.agent FROM dibs.runs r WHERE r.item = u.item AND r.token = u.token),
          (SELECT r.outcome FROM dibs.runs r WHERE r.item = u.item AND r.token = u.token),
          (SELECT coalesce(r.ended_at, r.started_at) - r.started_at FROM dibs.runs r WHERE r.item = u.item AND r.token = u.token)

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

-- What was counted of these items.
-- name: counted_items
SELECT e.status, count(*) FROM dibs.events e
WHERE e.item = ANY (ARRAY(SELECT json_array_elements_text(:items::json))) AND e.status IN ('done', 'failed', 'rejected', 'cancelled')
  AND e.number = (SELECT max(o.number) FROM dibs.events o WHERE o.item = e.item AND o.id <= :upto)
GROUP BY e.status

-- name: counted_runs
SELECT r.agent, r.outcome, count(*), sum(coalesce(r.ended_at, r.started_at) - r.started_at) FROM dibs.runs r
WHERE r.item = ANY (ARRAY(SELECT json_array_elements_text(:items::json))) AND r.seq <= :upto AND r.outcome IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM dibs.uncounted_runs u WHERE u.item = r.item AND u.token = r.token)
GROUP BY r.agent, r.outcome

-- name: counted_first_claims
SELECT r.agent, NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token) AS is_first,
       count(*), sum(r.started_at - i.created_at)
FROM dibs.runs r JOIN dibs.items i ON i.id = r.item
WHERE r.item = ANY (ARRAY(SELECT json_array_elements_text(:items::json))) AND r.seq <= :upto
  AND NOT EXISTS (SELECT 1 FROM dibs.runs o WHERE o.item = r.item AND o.token < r.token AND o.agent = r.agent)
GROUP BY 1, 2

-- name: forget_uncounted_runs
DELETE FROM dibs.uncounted_runs WHERE item = ANY (ARRAY(SELECT json_array_elements_text(:items::json)))

-- name: delete_uncounted_runs
DELETE FROM dibs.uncounted_runs

-- name: delete_figures
DELETE FROM dibs.figures
