-- The claim path: the statements of claims, heartbeats and ends of runs. The rules have checked ownership in the same
-- transaction; each WHERE has the token nevertheless, and the row count is checked.

-- An item with all that a decision about it needs: see `State` in rules/decision.py.
-- name: state
SELECT @item, claims.@claim, runs.@run,
       EXISTS (SELECT 1 FROM tickets INDEXED BY tickets_queue WHERE tickets.item = items.id AND closed_at IS NULL)
FROM items
LEFT JOIN claims ON claims.item = items.id
LEFT JOIN runs ON runs.seq = (SELECT seq FROM runs AS r WHERE r.item = items.id ORDER BY token DESC LIMIT 1)
WHERE items.id = :id

-- A ready item, which has no claim, with its latest run.
-- name: ready_item
SELECT @item, runs.@run
FROM items LEFT JOIN runs ON runs.seq = (SELECT seq FROM runs AS r WHERE r.item = items.id ORDER BY token DESC LIMIT 1)
WHERE items.seq = :seq

-- name: run_before
SELECT @run
FROM runs WHERE item = :item AND token < :token ORDER BY token DESC LIMIT 1

-- name: session_and_agent
SELECT sessions.@session, agents.@agent
FROM sessions JOIN agents ON agents.name = sessions.agent WHERE sessions.id = :id

-- name: live_claims_of_session
SELECT @claim
FROM claims WHERE session = :session AND expires_at > :now

-- name: lapsed_claims_of_session
SELECT @claim
FROM claims WHERE session = :session AND expires_at <= :now

-- name: live_claim_count_of_agent
SELECT count(*) FROM claims WHERE agent = :agent AND expires_at > :now

-- name: next_expiry_of_agent
SELECT min(expires_at) FROM claims WHERE agent = :agent AND expires_at > :now

-- name: expired_items
SELECT item FROM claims WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: due_items
SELECT id FROM items INDEXED BY items_due
WHERE status = 'scheduled' AND not_before <= :now ORDER BY not_before LIMIT :limit

-- name: lapsed_offers
SELECT id FROM items INDEXED BY items_offered
WHERE offer_expires_at <= :now ORDER BY offer_expires_at LIMIT :limit

-- name: blockers
SELECT dependencies.needs, coalesce(items.status, 'missing') FROM dependencies LEFT JOIN items ON items.id = dependencies.needs
WHERE dependencies.item = :item AND items.status IS NOT 'done' ORDER BY dependencies.needs

-- name: blocked_by
SELECT items.id FROM dependencies JOIN items ON items.id = dependencies.item
WHERE dependencies.needs = :needs AND items.status = 'blocked'

-- name: open_tickets
SELECT @ticket FROM tickets INDEXED BY tickets_queue WHERE item = :item AND closed_at IS NULL ORDER BY id

-- name: holds
SELECT items.resources, items.id, claims.session, claims.agent
FROM items INDEXED BY items_holding JOIN claims ON claims.item = items.id
WHERE items.project = :project AND items.status = 'in_progress' AND items.resources <> '[]' AND claims.expires_at > :now

-- The lanes that have items, each with the rank of its first one, by a skip scan: from the first item of a lane to that of
-- the next, which differs in the last possible column. DISTINCT would read every ready item, and so would a row comparison
-- of all four columns, which SQLite turns into "at least" and a filter. The index is named because without statistics the
-- planner prefers another and sorts.
-- name: lanes
WITH RECURSIVE firsts (seq) AS (
    SELECT (SELECT seq FROM items INDEXED BY items_ready WHERE status = 'ready' AND offered_to IS NULL AND project > ''
            ORDER BY project, type, action, approved, priority DESC, seq LIMIT 1)
    UNION ALL
    SELECT coalesce(
        (SELECT seq FROM items AS n INDEXED BY items_ready
         WHERE n.status = 'ready' AND n.offered_to IS NULL AND n.project = i.project AND n.type = i.type
           AND n.action = i.action AND n.approved > i.approved
         ORDER BY n.approved, n.priority DESC, n.seq LIMIT 1),
        (SELECT seq FROM items AS n INDEXED BY items_ready
         WHERE n.status = 'ready' AND n.offered_to IS NULL AND n.project = i.project AND n.type = i.type
           AND n.action > i.action
         ORDER BY n.action, n.approved, n.priority DESC, n.seq LIMIT 1),
        (SELECT seq FROM items AS n INDEXED BY items_ready
         WHERE n.status = 'ready' AND n.offered_to IS NULL AND n.project = i.project AND n.type > i.type
         ORDER BY n.type, n.action, n.approved, n.priority DESC, n.seq LIMIT 1),
        (SELECT seq FROM items AS n INDEXED BY items_ready
         WHERE n.status = 'ready' AND n.offered_to IS NULL AND n.project > i.project
         ORDER BY n.project, n.type, n.action, n.approved, n.priority DESC, n.seq LIMIT 1))
    FROM firsts CROSS JOIN items AS i ON i.seq = firsts.seq
)
SELECT -i.priority, i.seq, i.project, i.type, i.action, i.approved, NULL
FROM firsts CROSS JOIN items AS i ON i.seq = firsts.seq

-- name: lane
SELECT -priority, seq FROM items INDEXED BY items_ready
WHERE status = 'ready' AND offered_to IS NULL AND project = :project AND type = :type AND action = :action
  AND approved = :approved
ORDER BY priority DESC, seq

-- name: put_long_texts
INSERT OR REPLACE INTO long_texts (item, body, payload) VALUES (:id, :body, :payload)

-- name: drop_long_texts
DELETE FROM long_texts WHERE item = :id

-- name: renew_claim
UPDATE claims SET renewed_at = :renewed_at, expires_at = :expires_at, ttl_seconds = :ttl_seconds,
                  heartbeat_count = :heartbeat_count
WHERE item = :item AND token = :token

-- name: renew_session
UPDATE claims SET renewed_at = :now, expires_at = min(:now + CAST(round(ttl_seconds * 1000) AS INTEGER), deadline_at),
                  heartbeat_count = heartbeat_count + 1
WHERE session = :session AND expires_at > :now
  AND renewed_at NOT BETWEEN :now - min(:every, CAST(round(ttl_seconds * 1000 / 3) AS INTEGER)) + 1 AND :now
RETURNING @claim

-- name: first_event_of_claim
SELECT id FROM events WHERE item = :item AND token = :token ORDER BY number LIMIT 1

-- name: store_session_meta
UPDATE sessions SET meta = :meta, seen_at = :now WHERE id = :id

-- name: count_conflict
UPDATE meta SET value = value + 1 WHERE name = 'conflicts'

-- name: keep_request
INSERT OR REPLACE INTO requests (actor, id, fingerprint, answer, at) VALUES (:actor, :id, :fingerprint, :answer, :at)

-- name: due
SELECT min(at) FROM (
    SELECT min(expires_at) AS at FROM claims
    UNION ALL SELECT min(not_before) FROM items INDEXED BY items_due WHERE status = 'scheduled'
    UNION ALL SELECT min(offer_expires_at) FROM items INDEXED BY items_offered WHERE offer_expires_at IS NOT NULL
)

-- name: due_of_item
SELECT min(at) FROM (
    SELECT expires_at AS at FROM claims WHERE item = :item
    UNION ALL SELECT not_before FROM items WHERE id = :item AND status = 'scheduled'
    UNION ALL SELECT offer_expires_at FROM items WHERE id = :item
)

-- name: conflicts
SELECT value FROM meta WHERE name = 'conflicts'
