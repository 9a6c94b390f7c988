-- Statements about a whole board: export, import, restore.

-- name: board
SELECT name, value FROM meta WHERE name NOT IN ('last_backup_at', 'write_tried_at') ORDER BY name

-- name: agents
SELECT @agent FROM agents ORDER BY name

-- name: buckets
SELECT name, bucket, bucket_at FROM agents ORDER BY name

-- name: sessions
SELECT @session FROM sessions ORDER BY started_at, id

-- name: items
SELECT @whole_item FROM items ORDER BY seq

-- name: claims
SELECT @claim FROM claims ORDER BY item

-- name: soft_claims
SELECT @soft_claim FROM soft_claims ORDER BY item, session

-- name: tickets
SELECT @ticket FROM tickets ORDER BY id

-- name: runs
SELECT @run FROM runs ORDER BY seq

-- name: events
SELECT @event FROM events ORDER BY id

-- name: activity
SELECT @activity FROM activity ORDER BY id

-- name: requests
SELECT actor, id, fingerprint, answer, at FROM requests ORDER BY actor, id

-- name: dependencies
SELECT item, needs FROM dependencies ORDER BY item, needs

-- name: live_sessions
SELECT @session FROM sessions WHERE ended_at IS NULL ORDER BY id

-- name: repeated_subjects
SELECT subject, id FROM items WHERE subject IN
    (SELECT subject FROM items WHERE subject IS NOT NULL GROUP BY subject HAVING count(*) > 1)
ORDER BY subject, created_at, id

-- name: items_with_history
SELECT @whole_item FROM items ORDER BY id

-- name: open_tickets_by_item
SELECT @ticket FROM tickets WHERE closed_at IS NULL ORDER BY item, id

-- name: runs_by_item
SELECT @run FROM runs ORDER BY item, token

-- name: events_by_item
SELECT @event FROM events ORDER BY item, number

-- name: dependencies_with_facts
SELECT d.item, d.needs, i.status, i.created_at
FROM dependencies d LEFT JOIN items i ON i.id = d.needs
ORDER BY d.item, d.needs

-- name: unrecorded_need
SELECT i.status, i.created_at FROM items i
WHERE i.id = :needs AND NOT EXISTS (SELECT 1 FROM dependencies d WHERE d.item = :item AND d.needs = :needs)

-- name: set_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (:name, :value)

-- name: replace_agent
INSERT OR REPLACE INTO agents (@agent) VALUES (:@agent)

-- name: put_event
INSERT INTO events (@event) VALUES (:@event)

-- name: put_activity
INSERT INTO activity (@activity) VALUES (:@activity)

-- name: put_ticket
INSERT INTO tickets (@ticket) VALUES (:@ticket)

-- A description of one reference to a row that does not exist.
-- name: dangling
SELECT 'the session ' || s.id || ' is of agent ' || s.agent || ', which does not exist' AS what FROM sessions s
WHERE NOT EXISTS (SELECT 1 FROM agents a WHERE a.name = s.agent)
UNION ALL
SELECT 'the session ' || s.id || ' has more than four ancestors, or is its own' FROM sessions s
JOIN sessions a1 ON a1.id = s.parent AND a1.ended_at IS NULL
JOIN sessions a2 ON a2.id = a1.parent AND a2.ended_at IS NULL
JOIN sessions a3 ON a3.id = a2.parent AND a3.ended_at IS NULL
JOIN sessions a4 ON a4.id = a3.parent AND a4.ended_at IS NULL
JOIN sessions a5 ON a5.id = a4.parent AND a5.ended_at IS NULL
WHERE s.ended_at IS NULL
UNION ALL
SELECT 'a claim of ' || c.item || ' has token ' || c.token || ', but no item in progress has that token' FROM claims c
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = c.item AND i.status = 'in_progress' AND i.token = c.token)
UNION ALL
SELECT 'the item ' || i.id || ' is in progress without a claim' FROM items i
WHERE i.status = 'in_progress' AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.item = i.id)
UNION ALL
SELECT 'a claim of ' || c.item || ' is of session ' || c.session || ', which does not exist' FROM claims c
WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = c.session)
UNION ALL
SELECT 'a ticket of session ' || t.session || ' for item ' || t.item || ' refers to one that does not exist' FROM tickets t
WHERE t.closed_at IS NULL AND NOT (EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session)
                                   AND EXISTS (SELECT 1 FROM items i WHERE i.id = t.item))
UNION ALL
SELECT 'a run is of item ' || r.item || ', which does not exist' FROM runs r
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = r.item)
UNION ALL
SELECT 'the item ' || d.item || ' depends on itself or does not exist' FROM dependencies d
WHERE d.item = d.needs OR NOT EXISTS (SELECT 1 FROM items i WHERE i.id = d.item)
LIMIT 1

-- name: has_content
SELECT EXISTS (SELECT 1 FROM items) OR EXISTS (SELECT 1 FROM sessions)
    OR EXISTS (SELECT 1 FROM meta WHERE name IN ('token_floor', 'event_floor') AND value > 0)

-- name: highest
SELECT max(coalesce((SELECT max(token) FROM items), 0), (SELECT value FROM meta WHERE name = 'token_floor')),
       max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
           (SELECT value FROM meta WHERE name = 'event_floor'))

-- name: items_to_restore
SELECT id FROM items WHERE status NOT IN ('done', 'rejected', 'cancelled') ORDER BY seq

-- name: close_all_tickets
UPDATE tickets SET closed_at = :now, reason = 'the board was restored from a backup' WHERE closed_at IS NULL

-- name: forget_requests
DELETE FROM requests

-- name: forget_soft_claims
DELETE FROM soft_claims

-- name: insert_placeholder_event
INSERT INTO events (id, item, number, kind, at, status, token, actor, data)
VALUES (:id, '', 0, '', 0, '', 0, '', '{}')

-- name: delete_placeholder_event
DELETE FROM events WHERE id = :id
