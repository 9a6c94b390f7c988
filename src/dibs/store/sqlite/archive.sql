-- Whole boards: every row out, every row in, and what a restored board needs.

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
