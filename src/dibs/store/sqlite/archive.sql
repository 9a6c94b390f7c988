-- Statements about a whole board: export, import, restore.

-- name: board
SELECT name, value FROM meta ORDER BY name

-- name: agents
SELECT @agent FROM agents ORDER BY name

-- name: buckets
SELECT name, bucket, bucket_at FROM agents ORDER BY name

-- name: sessions
SELECT @session FROM sessions ORDER BY started_at, id

-- name: items
SELECT @item FROM items ORDER BY seq

-- name: claims
SELECT @claim FROM claims ORDER BY item

-- name: soft_claims
SELECT @soft FROM soft_claims ORDER BY item, session

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

-- One reference to a row that does not exist, in words.
-- name: dangling
SELECT 'the session ' || s.id || ' is of an agent that is not there, ' || s.agent AS what FROM sessions s
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
SELECT 'a claim of ' || c.item || ' fits no item in progress under token ' || c.token FROM claims c
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = c.item AND i.status = 'in_progress' AND i.token = c.token)
UNION ALL
SELECT 'the item ' || i.id || ' is in progress and nobody has claimed it' FROM items i
WHERE i.status = 'in_progress' AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.item = i.id)
UNION ALL
SELECT 'a claim of ' || c.item || ' is of a session that is not there, ' || c.session FROM claims c
WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = c.session)
UNION ALL
SELECT 'a ticket is of a session or for an item that is not there: ' || t.session || ', ' || t.item FROM tickets t
WHERE t.closed_at IS NULL AND NOT (EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session)
                                   AND EXISTS (SELECT 1 FROM items i WHERE i.id = t.item))
UNION ALL
SELECT 'a run is of an item that is not there, ' || r.item FROM runs r
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = r.item)
UNION ALL
SELECT 'the item ' || d.item || ' depends on itself, or is not there' FROM dependencies d
WHERE d.item = d.needs OR NOT EXISTS (SELECT 1 FROM items i WHERE i.id = d.item)
LIMIT 1

-- name: anything
SELECT EXISTS (SELECT 1 FROM items) OR EXISTS (SELECT 1 FROM sessions)
    OR EXISTS (SELECT 1 FROM meta WHERE name IN ('token_floor', 'event_floor') AND value > 0)

-- name: highest
SELECT max(coalesce((SELECT max(token) FROM items), 0), (SELECT value FROM meta WHERE name = 'token_floor')),
       max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
           (SELECT value FROM meta WHERE name = 'event_floor'))

-- name: claimable_again
SELECT id FROM items WHERE status NOT IN ('done', 'rejected', 'cancelled') ORDER BY seq

-- name: close_all_tickets
UPDATE tickets SET closed_at = :now, reason = 'the board was restored from a backup' WHERE closed_at IS NULL

-- name: forget_requests
DELETE FROM requests

-- name: forget_soft_claims
DELETE FROM soft_claims

-- name: number_events_from
INSERT INTO events (id, item, number, kind, at, status, token, actor, data)
VALUES (:id, '', 0, '', 0, '', 0, '', '{}')

-- name: forget_that_event
DELETE FROM events WHERE id = :id
