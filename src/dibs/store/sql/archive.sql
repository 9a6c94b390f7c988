-- Statements about a whole board: export, import, restore. In PostgreSQL's SQL for both databases: see queries.py.

-- name: agents
SELECT @agent FROM dibs.agents ORDER BY name

-- name: buckets
SELECT name, bucket, bucket_at FROM dibs.agents ORDER BY name

-- name: sessions
SELECT @session FROM dibs.sessions ORDER BY started_at, id

-- name: items
SELECT @item FROM dibs.items ORDER BY seq

-- name: claims
SELECT @claim FROM dibs.claims ORDER BY item

-- name: soft_claims
SELECT @soft_claim FROM dibs.soft_claims ORDER BY item, session

-- name: tickets
SELECT @ticket FROM dibs.tickets ORDER BY id

-- name: runs
SELECT @run FROM dibs.runs ORDER BY seq

-- name: events
SELECT @event FROM dibs.events ORDER BY id

-- name: activity
SELECT @activity FROM dibs.activity ORDER BY id

-- name: dependencies
SELECT item, needs FROM dibs.dependencies ORDER BY item, needs

-- name: live_sessions
SELECT @session FROM dibs.sessions WHERE ended_at IS NULL ORDER BY id

-- name: repeated_subjects
SELECT subject, id FROM dibs.items WHERE subject IN
    (SELECT subject FROM dibs.items WHERE subject IS NOT NULL GROUP BY subject HAVING count(*) > 1)
ORDER BY subject, created_at, id

-- name: items_with_history
SELECT @item FROM dibs.items ORDER BY id

-- name: open_tickets_by_item
SELECT @ticket FROM dibs.tickets WHERE closed_at IS NULL ORDER BY item, id

-- name: runs_by_item
SELECT @run FROM dibs.runs ORDER BY item, token

-- name: events_by_item
SELECT @event FROM dibs.events ORDER BY item, number

-- name: dependencies_with_facts
SELECT d.item, d.needs, i.status, i.created_at
FROM dibs.dependencies d LEFT JOIN dibs.items i ON i.id = d.needs
ORDER BY d.item, d.needs

-- name: unrecorded_need
SELECT i.status, i.created_at FROM dibs.items i
WHERE i.id = :needs AND NOT EXISTS (SELECT 1 FROM dibs.dependencies d WHERE d.item = :item AND d.needs = :needs)

-- name: replace_agent
INSERT INTO dibs.agents (@columns_of_agent) VALUES (:@agent)
ON CONFLICT (name) DO UPDATE SET types = excluded.types, role = excluded.role, max_claims = excluded.max_claims,
    max_claims_total = excluded.max_claims_total, claims_per_minute = excluded.claims_per_minute,
    claims_burst = excluded.claims_burst, allowed_actions = excluded.allowed_actions,
    sensitive_actions = excluded.sensitive_actions, created_at = excluded.created_at, updated_at = excluded.updated_at

-- name: put_event
INSERT INTO dibs.events (@columns_of_event) VALUES (:@event)

-- name: put_activity
INSERT INTO dibs.activity (@columns_of_activity) VALUES (:@activity)

-- name: put_ticket
INSERT INTO dibs.tickets (@columns_of_ticket) VALUES (:@ticket)

-- A description of one reference to a row that does not exist.
-- name: dangling
SELECT 'the session ' || s.id || ' is of agent ' || s.agent || ', which does not exist' AS what FROM dibs.sessions s
WHERE NOT EXISTS (SELECT 1 FROM dibs.agents a WHERE a.name = s.agent)
UNION ALL
SELECT 'the session ' || s.id || ' has more than four ancestors, or is its own' FROM dibs.sessions s
JOIN dibs.sessions a1 ON a1.id = s.parent AND a1.ended_at IS NULL
JOIN dibs.sessions a2 ON a2.id = a1.parent AND a2.ended_at IS NULL
JOIN dibs.sessions a3 ON a3.id = a2.parent AND a3.ended_at IS NULL
JOIN dibs.sessions a4 ON a4.id = a3.parent AND a4.ended_at IS NULL
JOIN dibs.sessions a5 ON a5.id = a4.parent AND a5.ended_at IS NULL
WHERE s.ended_at IS NULL
UNION ALL
SELECT 'a claim of ' || c.item || ' has token ' || c.token || ', but no item in progress has that token' FROM dibs.claims c
WHERE NOT EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = c.item AND i.status = 'in_progress' AND i.token = c.token)
UNION ALL
SELECT 'the item ' || i.id || ' is in progress without a claim' FROM dibs.items i
WHERE i.status = 'in_progress' AND NOT EXISTS (SELECT 1 FROM dibs.claims c WHERE c.item = i.id)
UNION ALL
SELECT 'a claim of ' || c.item || ' is of session ' || c.session || ', which does not exist' FROM dibs.claims c
WHERE NOT EXISTS (SELECT 1 FROM dibs.sessions s WHERE s.id = c.session)
UNION ALL
SELECT 'a ticket of session ' || t.session || ' for item ' || t.item || ' refers to one that does not exist' FROM dibs.tickets t
WHERE t.closed_at IS NULL AND NOT (EXISTS (SELECT 1 FROM dibs.sessions s WHERE s.id = t.session)
                                   AND EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = t.item))
UNION ALL
SELECT 'a run is of item ' || r.item || ', which does not exist' FROM dibs.runs r
WHERE NOT EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = r.item)
UNION ALL
SELECT 'the item ' || d.item || ' depends on itself or does not exist' FROM dibs.dependencies d
WHERE d.item = d.needs OR NOT EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = d.item)
LIMIT 1

-- name: has_content
SELECT EXISTS (SELECT 1 FROM dibs.items) OR EXISTS (SELECT 1 FROM dibs.sessions)
    OR EXISTS (SELECT 1 FROM dibs.meta WHERE name IN ('token_floor', 'event_floor') AND value > 0)

-- name: items_to_restore
SELECT id FROM dibs.items WHERE status NOT IN ('done', 'rejected', 'cancelled') ORDER BY seq

-- name: close_all_tickets
UPDATE dibs.tickets SET closed_at = :now, reason = 'the board was restored from a backup' WHERE closed_at IS NULL

-- name: forget_requests
DELETE FROM dibs.requests

-- name: forget_soft_claims
DELETE FROM dibs.soft_claims
