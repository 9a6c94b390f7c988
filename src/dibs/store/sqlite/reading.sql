-- Statements of the verbs that read. None takes a lock.

-- Items with overdue steps that are not recorded yet: their rows differ from what a claim would find.
-- name: overdue_items
SELECT item FROM claims WHERE expires_at <= :now
UNION SELECT id FROM items INDEXED BY items_due WHERE status = 'scheduled' AND not_before <= :now
UNION SELECT id FROM items INDEXED BY items_offered WHERE offer_expires_at <= :now

-- name: items_around_sessions
SELECT item FROM claims WHERE session @in(:sessions)
UNION SELECT item FROM tickets INDEXED BY tickets_session
WHERE closed_at IS NULL AND session @in(:sessions)

-- name: latest_runs
SELECT @run FROM runs
WHERE seq IN (SELECT (SELECT seq FROM runs WHERE item = wanted.value ORDER BY token DESC LIMIT 1)
              FROM json_each(:items) AS wanted)

-- name: end_reasons
SELECT item, substr(reason, 1, :length) FROM runs
WHERE seq IN (SELECT (SELECT seq FROM runs WHERE item = wanted.value ORDER BY token DESC LIMIT 1)
              FROM json_each(:items) AS wanted)

-- name: open_tickets_of_items
SELECT @ticket FROM tickets INDEXED BY tickets_queue
WHERE item @in(:items) AND closed_at IS NULL ORDER BY item, id

-- name: blockers_of_items
SELECT dependencies.item, dependencies.needs, coalesce(items.status, 'missing')
FROM dependencies LEFT JOIN items ON items.id = dependencies.needs
WHERE dependencies.item @in(:items) AND items.status IS NOT 'done'
ORDER BY dependencies.item, dependencies.needs

-- The statement `lane` of the claim path, for `next` with labels.
-- name: lane_with_labels
SELECT -priority, seq FROM items INDEXED BY items_ready
WHERE status = 'ready' AND offered_to IS NULL AND project = :project AND type = :type AND action = :action
  AND approved = :approved
  AND NOT EXISTS (SELECT value FROM json_each(:labels) EXCEPT SELECT value FROM json_each(items.labels))
ORDER BY priority DESC, seq

-- name: list_items
SELECT @item
FROM items
WHERE status @in(:statuses)
  AND (:projects = '[]' OR project @in(:projects))
  AND (:types = '[]' OR type @in(:types))
  AND NOT EXISTS (SELECT value FROM json_each(:labels)
                  EXCEPT SELECT value FROM json_each(items.labels))
  AND (:subject IS NULL OR subject = :subject)
  AND (-priority, seq) > (-:priority, :seq)
ORDER BY priority DESC, seq
LIMIT :limit

-- name: feed
SELECT @event
FROM events WHERE id > :after ORDER BY id LIMIT :limit

-- name: feed_newest
SELECT @event FROM events WHERE id > :after ORDER BY id DESC LIMIT :limit

-- name: items_with_holders
SELECT @item, claims.@claim, sessions.kind, sessions.parent
FROM items LEFT JOIN claims ON claims.item = items.id LEFT JOIN sessions ON sessions.id = claims.session
WHERE items.status = 'in_progress'

-- Sessions with a claim, and the ancestors of children with one; with `among`, only of these sessions.
-- name: owned_sessions
WITH RECURSIVE ancestors (id) AS (
    SELECT parent FROM sessions
    WHERE parent IS NOT NULL AND ended_at IS NULL AND id IN (SELECT session FROM claims)
      AND (:among IS NULL OR id @in(:among))
    UNION SELECT s.parent FROM ancestors JOIN sessions s ON s.id = ancestors.id WHERE s.parent IS NOT NULL
)
SELECT id, boot_id, pid_namespace, pid, start_time
FROM sessions
WHERE id IN (SELECT session FROM claims)
  AND ended_at IS NULL AND boot_id = :boot_id AND pid_namespace = :pid_namespace
  AND (:among IS NULL OR id @in(:among))
UNION SELECT s.id, s.boot_id, s.pid_namespace, s.pid, s.start_time
FROM ancestors JOIN sessions s ON s.id = ancestors.id
WHERE s.ended_at IS NULL AND s.boot_id = :boot_id AND s.pid_namespace = :pid_namespace

-- name: ready_depth
SELECT project, type, priority, count(*) FROM items WHERE status = 'ready'
GROUP BY project, type, priority

-- name: ready_by_type
SELECT type, max(0, min(10, priority)) AS level, count(*), sum(count(*)) OVER ()
FROM items WHERE status = 'ready' GROUP BY type, level ORDER BY 3 DESC, 1, 2 LIMIT :limit

-- name: briefs_of_status
SELECT @brief FROM items WHERE status = :status ORDER BY priority DESC, seq LIMIT :limit

-- Found through the end of the feed: an index of ended items by time would cost every end of a run.
-- name: briefs_ended
SELECT @brief FROM items
WHERE id IN (SELECT item FROM (SELECT item, status FROM events ORDER BY id DESC LIMIT :searched)
             WHERE status IN ('done', 'failed', 'rejected', 'cancelled'))
  AND +status IN ('done', 'failed', 'rejected', 'cancelled')
ORDER BY updated_at DESC, seq DESC LIMIT :limit

-- What a page looks at: every item that has not ended; of the others the failed ones, and those at the end of the feed.
-- name: page_items
SELECT * FROM items INDEXED BY items_status
WHERE status IN ('pending_approval', 'blocked', 'scheduled', 'ready', 'in_progress', 'parked')
UNION ALL
SELECT * FROM items
WHERE id IN (SELECT id FROM (SELECT id FROM items WHERE status = 'failed' ORDER BY priority DESC, seq LIMIT :failed)
             UNION ALL SELECT item FROM (SELECT item, status FROM events ORDER BY id DESC LIMIT :searched)
                       WHERE status IN ('done', 'failed', 'rejected', 'cancelled'))
  AND +status IN ('done', 'failed', 'rejected', 'cancelled')

-- Those with characters beyond ASCII; an id has none.
-- name: page_texts
SELECT id, title, labels FROM (@@page_items)
WHERE length(title) < octet_length(title) OR length(labels) < octet_length(labels)

-- First the number of items by status and type, and how many of them match; then the chosen ones, without a type.
-- name: page
WITH outdated AS MATERIALIZED (SELECT key AS item, value AS status FROM json_each(:outdated)),
found AS MATERIALIZED (
    SELECT i.id, i.type, i.revision, coalesce(outdated.status, i.status) AS status,
           CASE :sort WHEN 'next' THEN -i.priority WHEN 'updated' THEN -i.updated_at ELSE -i.seq END AS major,
           CASE :sort WHEN 'next' THEN i.seq WHEN 'updated' THEN -i.seq ELSE 0 END AS minor,
           (:projects = '[]' OR i.project @in(:projects))
           AND (:among IS NULL OR i.id @in(:among))
           AND (:labels = '[]' OR NOT EXISTS (
               SELECT 1 FROM json_each(:labels) AS label
               WHERE label.value NOT IN (SELECT value FROM json_each(i.labels))))
           AND (:agent IS NULL OR :agent IS (SELECT agent FROM runs WHERE runs.item = i.id AND runs.token = i.token))
           AND (:words = '[]' OR NOT EXISTS (
               SELECT 1 FROM json_each(:words) AS word
               WHERE instr(lower(i.id), word.value) = 0 AND instr(lower(i.title), word.value) = 0
                 AND NOT EXISTS (SELECT 1 FROM json_each(i.labels) AS label WHERE instr(lower(label.value), word.value)))
           ) AS matches
    FROM (@@page_items) AS i LEFT JOIN outdated ON outdated.item = i.id
)
SELECT status, type, count(*), sum(matches), NULL FROM found GROUP BY status, type
UNION ALL
SELECT * FROM (
    SELECT id, NULL, major, minor, revision FROM found
    WHERE matches
      AND (:statuses = '[]' OR status @in(:statuses))
      AND (:types = '[]' OR type @in(:types))
      AND (:major IS NULL OR (major, minor) > (:major, :minor))
    ORDER BY major, minor LIMIT :limit)

-- name: live_queues
SELECT tickets.id, tickets.item, tickets.session, tickets.agent, tickets.since_at, tickets.expires_at, items.offered_to
FROM tickets INDEXED BY tickets_queue JOIN items ON items.id = tickets.item
WHERE tickets.closed_at IS NULL AND tickets.expires_at > :now ORDER BY tickets.item, tickets.id LIMIT :limit

-- name: holdings
SELECT c.item, c.token, c.session, c.agent, c.claimed_at, c.renewed_at, c.expires_at, c.deadline_at, c.ttl_seconds,
       c.heartbeat_count, sessions.kind, noted.at, substr(noted.data ->> 'note', 1, :note_length)
FROM (SELECT * FROM claims WHERE expires_at > :now ORDER BY expires_at LIMIT :limit) AS c
LEFT JOIN sessions ON sessions.id = c.session
LEFT JOIN events AS noted ON noted.id = (
    SELECT id FROM (SELECT id, token, kind FROM events WHERE item = c.item ORDER BY number DESC LIMIT :events)
    WHERE kind = 'progress' AND token = c.token ORDER BY id DESC LIMIT 1)
ORDER BY c.expires_at, c.item

-- name: runs_of_sessions
SELECT runs.session, runs.item, runs.token, runs.started_at, runs.ended_at, runs.outcome
FROM json_each(:sessions) AS wanted
JOIN runs ON runs.seq IN (SELECT seq FROM runs WHERE session = wanted.value ORDER BY seq DESC LIMIT :limit)
ORDER BY runs.seq DESC

-- name: unended_but_ready
SELECT status, count(*) FROM items
WHERE status IN ('pending_approval', 'blocked', 'scheduled', 'in_progress', 'parked')
  AND (:project IS NULL OR project = :project) GROUP BY status

-- name: unended_by_status
SELECT status, count(*) FROM items
WHERE status IN ('pending_approval', 'blocked', 'scheduled', 'ready', 'in_progress', 'parked')
  AND (:project IS NULL OR project = :project) GROUP BY status

-- name: costs_of_latest_runs
SELECT entry.key, total(entry.value)
FROM (SELECT cost, agent FROM runs ORDER BY seq DESC LIMIT :most) AS r
     CROSS JOIN json_each(r.cost) AS entry
WHERE (:agent IS NULL OR r.agent = :agent) AND r.cost <> '{}' AND entry.type IN ('integer', 'real')
  AND abs(CAST(entry.value AS REAL)) <= :amount_max AND length(entry.key) <= :name_length
GROUP BY entry.key ORDER BY count(*) DESC, entry.key LIMIT :names

-- Of the names that a cost has, those that the most runs have.
-- name: costs_in_series
WITH entries AS MATERIALIZED (
    SELECT (e.at - :from) / :step AS point, entry.key AS name, entry.value AS amount
    FROM events e CROSS JOIN runs r ON r.item = e.item AND r.token = e.token CROSS JOIN json_each(r.cost) AS entry
    WHERE e.id >= :first AND e.at >= :from AND e.at < :to AND e.kind = r.outcome AND r.ended_at = e.at
      AND e.kind NOT IN ('added', 'claimable', 'claimed', 'progress')
      AND r.cost <> '{}' AND entry.type IN ('integer', 'real') AND abs(CAST(entry.value AS REAL)) <= :amount_max
      AND length(entry.key) <= :name_length
      AND (:agent IS NULL OR r.agent = :agent)
      AND (:project IS NULL OR EXISTS (SELECT 1 FROM items i WHERE i.id = e.item AND i.project = :project))
)
SELECT point, name, total(amount) FROM entries
WHERE name IN (SELECT name FROM entries GROUP BY name ORDER BY count(*) DESC, name LIMIT :names)
GROUP BY point, name
