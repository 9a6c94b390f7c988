-- Statements of the verbs that read. None takes a lock.

-- Items with overdue steps that are not recorded yet: their rows differ from what a claim would find.
-- name: overdue_items
SELECT item FROM dibs.claims WHERE look_at <= :now AND expires_at <= :now
UNION SELECT id FROM dibs.items WHERE status = 'scheduled' AND not_before <= :now
UNION SELECT id FROM dibs.items WHERE offer_expires_at <= :now

-- name: items_around_sessions
SELECT item FROM dibs.claims WHERE session @in(:sessions)
UNION SELECT item FROM dibs.tickets
WHERE closed_at IS NULL AND session @in(:sessions)

-- name: latest_runs
SELECT @run FROM dibs.runs
WHERE seq = ANY (ARRAY(SELECT (SELECT x.seq FROM dibs.runs x WHERE x.item = wanted ORDER BY x.token DESC LIMIT 1)
                       FROM json_array_elements_text(:items::json) AS wanted))

-- name: end_reasons
SELECT item, left(reason, :length) FROM dibs.runs
WHERE seq = ANY (ARRAY(SELECT (SELECT x.seq FROM dibs.runs x WHERE x.item = wanted ORDER BY x.token DESC LIMIT 1)
                       FROM json_array_elements_text(:items::json) AS wanted))

-- name: open_tickets_of_items
SELECT @ticket FROM dibs.tickets
WHERE item @in(:items) AND closed_at IS NULL ORDER BY item, id

-- name: blockers_of_items
SELECT d.item, d.needs, n.status FROM dibs.dependencies d JOIN dibs.items n ON n.id = d.needs
WHERE d.item @in(:items) AND n.status <> 'done'
ORDER BY d.item, d.needs

-- A board may have a million ended items, which are read only if they are wanted, and many ready ones: of each lane, only
-- the first are read.
-- name: list_items
SELECT @item FROM (
    SELECT * FROM dibs.items WHERE status IN ('pending_approval', 'blocked', 'parked')
    UNION ALL SELECT * FROM dibs.items WHERE status = 'scheduled'
    UNION ALL SELECT ready.* FROM dibs.lanes l CROSS JOIN LATERAL (
        SELECT * FROM dibs.items i
        WHERE i.status = 'ready' AND i.offered_to IS NULL AND i.lane = l.id
          AND i.labels @> ARRAY(SELECT json_array_elements_text(:labels::json))
          AND (:subject::text IS NULL OR i.subject = :subject)
          AND (-i.priority, i.seq) > (-(:priority::double precision), :seq::double precision)
        ORDER BY i.seq LIMIT :limit) AS ready
    WHERE (:projects::text = '[]' OR l.project @in(:projects))
      AND (:types::text = '[]' OR l.type @in(:types))
    UNION ALL SELECT * FROM dibs.items
              WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
    UNION ALL SELECT i.* FROM dibs.claims c JOIN dibs.items i ON i.id = c.item WHERE i.status = 'in_progress'
    UNION ALL SELECT * FROM dibs.items
              WHERE status IN ('done', 'failed', 'rejected', 'cancelled')
                AND (SELECT bool_or(wanted IN ('done', 'failed', 'rejected', 'cancelled'))
                     FROM json_array_elements_text(:statuses::json) AS wanted)
) AS i
WHERE status @in(:statuses)
  AND (:projects::text = '[]' OR project @in(:projects))
  AND (:types::text = '[]' OR type @in(:types))
  AND labels @> ARRAY(SELECT json_array_elements_text(:labels::json))
  AND (:subject::text IS NULL OR subject = :subject)
  AND (-priority, seq) > (-(:priority::double precision), :seq::double precision)
ORDER BY priority DESC, seq LIMIT :limit

-- name: feed
SELECT @event FROM dibs.events WHERE id > :after AND id <= :until ORDER BY id LIMIT :limit

-- name: feed_newest
SELECT @event FROM dibs.events WHERE id > :after AND id <= :until ORDER BY id DESC LIMIT :limit

-- An item in progress has a claim. LATERAL, here and in `holdings`: with statistics from when there were few sessions, a
-- join would compare each claim with each session.
-- name: items_with_holders
SELECT @item, held.*
FROM dibs.items JOIN (
    SELECT c.item AS held, c.token AS held_token, c.session, c.agent, c.claimed_at, c.renewed_at, c.expires_at,
           c.deadline_at, c.ttl_seconds, c.heartbeat_count, s.kind, s.parent
    FROM dibs.claims c
    LEFT JOIN LATERAL (SELECT x.kind, x.parent FROM dibs.sessions x WHERE x.id = c.session OFFSET 0) s ON true
) AS held ON held = id

-- Sessions with a claim, and the ancestors of children with one; with `among`, only of these sessions.
-- name: owned_sessions
WITH RECURSIVE ancestors (id) AS (
    SELECT s.parent FROM dibs.sessions s
    WHERE s.parent IS NOT NULL AND s.ended_at IS NULL AND EXISTS (SELECT 1 FROM dibs.claims c WHERE c.session = s.id)
      AND (:among::text IS NULL OR s.id @in(:among))
    UNION SELECT s.parent FROM ancestors a JOIN dibs.sessions s ON s.id = a.id WHERE s.parent IS NOT NULL
)
SELECT id, boot_id, pid_namespace, pid, start_time
FROM dibs.sessions s
WHERE ended_at IS NULL AND boot_id = :boot_id AND pid_namespace = :pid_namespace
  AND EXISTS (SELECT 1 FROM dibs.claims c WHERE c.session = s.id)
  AND (:among::text IS NULL OR id @in(:among))
UNION SELECT s.id, s.boot_id, s.pid_namespace, s.pid, s.start_time
FROM ancestors a JOIN dibs.sessions s ON s.id = a.id
WHERE s.ended_at IS NULL AND s.boot_id = :boot_id AND s.pid_namespace = :pid_namespace

-- By lane, which the index of ready items has, so that neither their rows nor their texts are compared. The index leaves
-- out offered items.
-- name: ready_depth
SELECT project, type, priority, sum(count)::bigint
FROM (
    SELECT l.project, l.type, l.priority, of_lane.count
    FROM (SELECT lane, count(*) AS count FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL GROUP BY lane) of_lane
    JOIN dibs.lanes l ON l.id = of_lane.lane
    UNION ALL
    SELECT project, type, priority, 1 FROM dibs.items
    WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
) AS ready
GROUP BY project, type, priority

-- name: ready_by_type
SELECT type, level, count(*), sum(count(*)) OVER ()::bigint
FROM (
    SELECT type, greatest(0, least(10, priority)) AS level FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL
    UNION ALL
    SELECT type, greatest(0, least(10, priority)) FROM dibs.items
    WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
) AS ready
GROUP BY type, level ORDER BY 3 DESC, 1, 2 LIMIT :limit

-- The items that have not ended, in parts of which each has an index; items in progress are found through their claims.
-- name: live_items
SELECT * FROM dibs.items WHERE status IN ('pending_approval', 'blocked', 'parked')
UNION ALL SELECT * FROM dibs.items WHERE status = 'scheduled'
UNION ALL SELECT * FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL
UNION ALL SELECT * FROM dibs.items
          WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
UNION ALL SELECT i.* FROM dibs.claims c JOIN dibs.items i ON i.id = c.item WHERE i.status = 'in_progress'

-- name: briefs_of_status
SELECT @brief FROM (SELECT * FROM (@@live_items) AS live_items UNION ALL SELECT * FROM dibs.items WHERE status = 'failed') AS i
WHERE status = :status ORDER BY priority DESC, seq LIMIT :limit

-- Found through the end of the feed: an index of ended items by time would cost every end of a run.
-- name: briefs_ended
SELECT @brief FROM dibs.items
WHERE id = ANY (ARRAY(
    SELECT DISTINCT e.item FROM (SELECT item, status FROM dibs.events ORDER BY id DESC LIMIT :searched) e
    WHERE e.status IN ('done', 'failed', 'rejected', 'cancelled')))
  AND status IN ('done', 'failed', 'rejected', 'cancelled')
ORDER BY updated_at DESC, seq DESC LIMIT :limit

-- What a page looks at: every item that has not ended; of the others the failed ones, and those at the end of the feed.
-- name: page_items
SELECT * FROM (@@live_items) AS live_items
UNION ALL
SELECT * FROM dibs.items
WHERE id = ANY (ARRAY(
    (SELECT id FROM dibs.items WHERE status = 'failed' ORDER BY priority DESC, seq LIMIT :failed)
    UNION SELECT e.item FROM (SELECT item, status FROM dibs.events ORDER BY id DESC LIMIT :searched) e
          WHERE e.status IN ('done', 'failed', 'rejected', 'cancelled')))
  AND status IN ('done', 'failed', 'rejected', 'cancelled')

-- Those with characters beyond ASCII; an id has none.
-- name: page_texts
SELECT id, title, to_json(labels)::text FROM (@@page_items) AS i
WHERE length(title) < octet_length(title) OR length(labels::text) < octet_length(labels::text)

-- First the number of items by status and type, and how many of them match; then the chosen ones, without a type. Only
-- ASCII is compared in any case here, as in SQLite, whatever the locale.
-- name: page
WITH outdated AS MATERIALIZED (SELECT key AS item, value AS status FROM json_each_text(:outdated::json)),
found AS MATERIALIZED (
    SELECT i.id, i.type, i.revision, coalesce(outdated.status, i.status) AS status,
           CASE :sort WHEN 'next' THEN -i.priority::bigint WHEN 'updated' THEN -i.updated_at ELSE -i.seq END AS major,
           CASE :sort WHEN 'next' THEN i.seq WHEN 'updated' THEN -i.seq ELSE 0 END AS minor,
           (:projects = '[]' OR i.project IN (SELECT json_array_elements_text(:projects::json)))
           AND (:among::text IS NULL OR i.id IN (SELECT json_array_elements_text(:among::json)))
           AND (:labels = '[]' OR i.labels @> ARRAY(SELECT json_array_elements_text(:labels::json)))
           AND (:agent::text IS NULL
                -- No EXISTS: for that the planner may hash all runs.
                OR :agent = (SELECT r.agent FROM dibs.runs r WHERE r.item = i.id AND r.token = i.token))
           AND (:words = '[]' OR NOT EXISTS (
               SELECT 1 FROM json_array_elements_text(:words::json) AS word
               WHERE strpos(lower(i.id COLLATE "C"), word) = 0 AND strpos(lower(i.title COLLATE "C"), word) = 0
                 AND NOT EXISTS (
                     SELECT 1 FROM unnest(i.labels) AS label WHERE strpos(lower(label COLLATE "C"), word) > 0))
           ) AS matches
    FROM (@@page_items) AS i LEFT JOIN outdated ON outdated.item = i.id
)
SELECT status, type, count(*), count(*) FILTER (WHERE matches), NULL FROM found GROUP BY status, type
UNION ALL
(SELECT id, NULL, major, minor, revision FROM found
 WHERE matches
   AND (:statuses = '[]' OR status IN (SELECT json_array_elements_text(:statuses::json)))
   AND (:types = '[]' OR type IN (SELECT json_array_elements_text(:types::json)))
   AND (:major::bigint IS NULL OR (major, minor) > (:major, :minor))
 ORDER BY major, minor LIMIT :limit)

-- name: live_queues
SELECT t.id, t.item, t.session, t.agent, t.since_at, t.expires_at, i.offered_to
FROM dibs.tickets t JOIN dibs.items i ON i.id = t.item
WHERE t.closed_at IS NULL AND t.expires_at > :now ORDER BY t.item, t.id LIMIT :limit

-- name: holdings
SELECT c.item, c.token, c.session, c.agent, c.claimed_at, c.renewed_at, c.expires_at, c.deadline_at, c.ttl_seconds,
       c.heartbeat_count, s.kind, noted.at, noted.note
FROM (SELECT * FROM dibs.claims WHERE expires_at > :now ORDER BY expires_at LIMIT :limit) c
LEFT JOIN LATERAL (SELECT x.kind FROM dibs.sessions x WHERE x.id = c.session OFFSET 0) s ON true
LEFT JOIN LATERAL (
    SELECT e.at, left(e.data ->> 'note', :note_length) AS note
    FROM (SELECT * FROM dibs.events x WHERE x.item = c.item ORDER BY x.number DESC LIMIT :events) e
    WHERE e.kind = 'progress' AND e.token = c.token ORDER BY e.number DESC LIMIT 1
) noted ON true
ORDER BY c.expires_at, c.item

-- A range of (session, seq) and not an equal session: for that the planner may search all runs by their age.
-- name: runs_of_sessions
SELECT r.session, r.item, r.token, r.started_at, r.ended_at, r.outcome
FROM json_array_elements_text(:sessions::json) AS wanted,
     LATERAL (SELECT * FROM dibs.runs x
              WHERE (x.session, x.seq) > (wanted, 0) AND (x.session, x.seq) <= (wanted, 9223372036854775807)
              ORDER BY x.session DESC, x.seq DESC LIMIT :limit) r
ORDER BY r.seq DESC

-- Items in progress are counted by their claims, in a small table, unless they are those of a project.
-- name: unended_but_ready
SELECT status, count(*) FROM (
    SELECT status FROM dibs.items
    WHERE status IN ('pending_approval', 'blocked', 'parked') AND (:project::text IS NULL OR project = :project)
    UNION ALL SELECT status FROM dibs.items
              WHERE status = 'scheduled' AND (:project::text IS NULL OR project = :project)
    UNION ALL SELECT 'in_progress' FROM dibs.claims WHERE :project::text IS NULL
    UNION ALL SELECT i.status FROM dibs.claims c JOIN dibs.items i ON i.id = c.item
              WHERE i.status = 'in_progress' AND i.project = :project
) AS unended
GROUP BY status

-- name: unended_by_status
SELECT status, count FROM (@@unended_but_ready) AS others
UNION ALL SELECT 'ready', count(*) FROM (
    SELECT FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL AND (:project::text IS NULL OR project = :project)
    UNION ALL SELECT FROM dibs.items
              WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
                AND (:project::text IS NULL OR project = :project)
) AS ready

-- name: costs_of_latest_runs
WITH numbers AS (
    SELECT entry.key COLLATE "C" AS name,
           CASE WHEN length(entry.value::text) <= 40
                 AND (strpos(lower(entry.value::text), 'e') = 0 OR entry.value::text !~ '[eE][+-]?[0-9]{3}')
                THEN entry.value::text::double precision END AS amount
    FROM (SELECT cost, agent FROM dibs.runs ORDER BY seq DESC LIMIT :most) AS r, LATERAL json_each(r.cost) AS entry
    WHERE (:agent::text IS NULL OR r.agent = :agent) AND r.cost::text <> '{}' AND json_typeof(entry.value) = 'number' AND length(entry.key) <= :name_length
)
SELECT name, sum(amount) FROM numbers WHERE abs(amount) <= :amount_max
GROUP BY name ORDER BY count(*) DESC, name LIMIT :names

-- Of the names that a cost has, those that the most runs have. A client in another language may have written a number
-- that no type of PostgreSQL holds, so the length of a number is looked at before it is cast.
-- name: costs_in_series
WITH numbers AS (
    SELECT (e.at - :from) / :step AS point, entry.key COLLATE "C" AS name,
           CASE WHEN length(entry.value::text) <= 40
                 AND (strpos(lower(entry.value::text), 'e') = 0 OR entry.value::text !~ '[eE][+-]?[0-9]{3}')
                THEN entry.value::text::double precision END AS amount
    FROM dibs.events e JOIN dibs.runs r ON r.item = e.item AND r.token = e.token, LATERAL json_each(r.cost) AS entry
    WHERE e.id >= :first AND e.at >= :from AND e.at < :to AND e.kind = r.outcome AND r.ended_at = e.at
      AND e.kind NOT IN ('added', 'claimable', 'claimed', 'progress')
      AND r.cost::text <> '{}' AND json_typeof(entry.value) = 'number' AND length(entry.key) <= :name_length
      AND (:agent::text IS NULL OR r.agent = :agent)
      AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = e.item AND i.project = :project))
), entries AS MATERIALIZED (SELECT * FROM numbers WHERE abs(amount) <= :amount_max)
SELECT point, name, sum(amount) FROM entries
WHERE name = ANY (ARRAY(SELECT name FROM entries GROUP BY name ORDER BY count(*) DESC, name LIMIT :names))
GROUP BY point, name
