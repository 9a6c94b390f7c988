-- The claim path: every statement that a claim, a heartbeat or the end of a run executes. Ownership was decided by the
-- rules in the same transaction; the token stands in each WHERE all the same, and the row count is looked at.

-- name: item_by_id
SELECT @item
FROM items WHERE id = :id

-- name: item_by_seq
SELECT @item
FROM items WHERE seq = :seq

-- name: claim_of_item
SELECT @claim
FROM claims WHERE item = :item

-- name: run_by_token
SELECT @run
FROM runs WHERE item = :item AND token = :token

-- name: last_run_of_session
SELECT @run
FROM runs WHERE item = :item AND session = :session ORDER BY token DESC LIMIT 1

-- name: notes_of_run
SELECT at, data FROM events
WHERE item = :item AND token = :token AND kind = 'progress' ORDER BY number DESC LIMIT :limit

-- name: session_by_id
SELECT @session
FROM sessions WHERE id = :id

-- name: agent_by_name
SELECT @agent FROM agents WHERE name = :name

-- name: live_claims_of_session
SELECT @claim
FROM claims WHERE session = :session AND expires_at > :now

-- name: lapsed_claims_of_session
SELECT @claim
FROM claims WHERE session = :session AND expires_at <= :now

-- name: live_claim_count
SELECT count(*) FROM claims WHERE session = :session AND expires_at > :now

-- name: lapsed_items
SELECT item FROM claims WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- Lanes are found by skipping from one to the next; DISTINCT would read everything that is ready. The planner is told
-- which index, because without statistics it prefers another and sorts.
-- name: next_lane
SELECT project, type FROM items INDEXED BY items_ready
WHERE status = 'ready' AND (project, type) > (:project, :type)
ORDER BY project, type LIMIT 1

-- name: lane_heads
SELECT priority, seq FROM items INDEXED BY items_ready
WHERE status = 'ready' AND project = :project AND type = :type
ORDER BY priority DESC, seq LIMIT :limit

-- name: insert_item
INSERT INTO items (@item) VALUES (:@item)

-- name: move_item
UPDATE items SET status = :status, updated_at = :updated_at, attempts = :attempts, strikes = :strikes, token = :token,
                 revision = :revision
WHERE id = :id AND revision = :revision - 1

-- name: rewrite_item
UPDATE items SET project = :project, type = :type, action = :action, phase = :phase, title = :title, body = :body,
                 payload = :payload, labels = :labels, priority = :priority, timeout_seconds = :timeout_seconds,
                 updated_at = :updated_at, revision = :revision
WHERE id = :id AND revision = :revision - 1

-- name: insert_claim
INSERT INTO claims (@claim) VALUES (:@claim)

-- name: renew_claim
UPDATE claims SET renewed_at = :renewed_at, expires_at = :expires_at, ttl_seconds = :ttl_seconds,
                  heartbeat_count = :heartbeat_count
WHERE item = :item AND token = :token

-- name: renew_session
UPDATE claims SET renewed_at = :now, expires_at = min(:now + CAST(round(ttl_seconds * 1000) AS INTEGER), deadline_at),
                  heartbeat_count = heartbeat_count + 1
WHERE session = :session AND expires_at > :now
RETURNING @claim

-- name: delete_claim
DELETE FROM claims WHERE item = :item AND token = :token

-- name: insert_run
INSERT INTO runs (@run) VALUES (:@run)

-- name: end_run
UPDATE runs SET ended_at = :ended_at, outcome = :outcome, reason = :reason, links = :links, cost = :cost
WHERE item = :item AND token = :token AND outcome IS NULL

-- name: insert_event
INSERT INTO events (item, number, kind, at, status, token, actor, session, agent, data)
VALUES (:item, :number, :kind, :at, :status, :token, :actor, :session, :agent, :data)

-- name: see_session
UPDATE sessions SET seen_at = :now WHERE id = :id

-- name: insert_activity
INSERT INTO activity (at, item, session, agent, action, code, details)
VALUES (:at, :item, :session, :agent, :action, :code, :details)

-- name: count_conflict
UPDATE meta SET value = value + 1 WHERE name = 'conflicts'

-- name: request
SELECT fingerprint, answer FROM requests WHERE actor = :actor AND id = :id AND at > :since

-- name: keep_request
INSERT OR REPLACE INTO requests (actor, id, fingerprint, answer, at) VALUES (:actor, :id, :fingerprint, :answer, :at)

-- name: due
SELECT min(expires_at) FROM claims

-- name: meta
SELECT value FROM meta WHERE name = :name
