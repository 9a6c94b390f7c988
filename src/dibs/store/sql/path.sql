-- The claim path: the statements of claims, heartbeats and ends of runs. The rules have checked ownership in the same
-- transaction; each WHERE has the token nevertheless, and the row count is checked. In PostgreSQL's SQL for both
-- databases: see queries.py.

-- name: item_by_id
SELECT @item FROM dibs.items WHERE id = :id

-- name: seq_of_item
SELECT seq FROM dibs.items WHERE id = :id

-- The oldest, wherever it was added: a vault may get a second item of a subject from another clone.
-- name: item_of_subject
SELECT id FROM dibs.items WHERE subject = :subject ORDER BY created_at, id LIMIT 1

-- name: event_of_item
SELECT @event FROM dibs.events WHERE item = :item AND number = :number

-- name: claim_of_item
SELECT @claim FROM dibs.claims WHERE item = :item

-- name: run_by_token
SELECT @run FROM dibs.runs WHERE item = :item AND token = :token

-- name: latest_run
SELECT @run FROM dibs.runs WHERE item = :item ORDER BY token DESC LIMIT 1

-- name: last_run_of_session
SELECT @run FROM dibs.runs WHERE item = :item AND session = :session ORDER BY token DESC LIMIT 1

-- name: notes_of_run
SELECT at, data::text FROM dibs.events
WHERE item = :item AND token = :token AND kind = 'progress' ORDER BY number DESC LIMIT :limit

-- name: comment_on_run
SELECT data ->> 'comment' FROM dibs.events
WHERE item = :item AND token = :token AND kind IN ('approved', 'sent_back') ORDER BY number DESC LIMIT 1

-- name: latest_draft
SELECT @run FROM dibs.runs WHERE item = :item AND outcome = 'submitted' ORDER BY token DESC LIMIT 1

-- name: latest_approval
SELECT actor, at, data ->> 'comment', (data ->> 'draft_token')::bigint FROM dibs.events
WHERE item = :item AND kind = 'approved' ORDER BY number DESC LIMIT 1

-- name: session_by_id
SELECT @session FROM dibs.sessions WHERE id = :id

-- name: agent_by_name
SELECT @agent FROM dibs.agents WHERE name = :name

-- name: live_claim_count
SELECT count(*) FROM dibs.claims WHERE session = :session AND expires_at > :now

-- name: bucket_of_agent
SELECT bucket, bucket_at FROM dibs.agents WHERE name = :name

-- name: set_bucket
UPDATE dibs.agents SET bucket = :bucket, bucket_at = :bucket_at WHERE name = :name

-- name: dependents
SELECT items.id FROM dibs.dependencies JOIN dibs.items ON items.id = dependencies.item
WHERE dependencies.needs = :needs ORDER BY dependencies.item

-- name: insert_ticket
INSERT INTO dibs.tickets (item, session, agent, since_at, expires_at, ttl_seconds)
VALUES (:item, :session, :agent, :since_at, :expires_at, :ttl_seconds)

-- name: renew_ticket
UPDATE dibs.tickets SET expires_at = :expires_at, ttl_seconds = :ttl_seconds WHERE id = :id AND closed_at IS NULL

-- name: close_ticket
UPDATE dibs.tickets SET closed_at = :closed_at, reason = :reason WHERE id = :id AND closed_at IS NULL

-- name: id_number
SELECT number FROM dibs.id_numbers WHERE words = :words

-- name: put_id_number
INSERT INTO dibs.id_numbers (words, number) VALUES (:words, :number)
ON CONFLICT (words) DO UPDATE SET number = excluded.number

-- name: insert_item
INSERT INTO dibs.items (@columns_of_item) VALUES (:@item)

-- name: rewrite_item
UPDATE dibs.items SET (@columns_of_rewritten) = (:@rewritten)
WHERE id = :id AND revision = :revision - 1

-- name: move_item
UPDATE dibs.items
SET status = :status, updated_at = :updated_at, attempts = :attempts, strikes = :strikes, failures = :failures,
    token = :token, revision = :revision, not_before = :not_before, needs_approval = :needs_approval,
    approved = :approved, offered_to = :offered_to, offer_expires_at = :offer_expires_at
WHERE id = :id AND revision = :revision - 1

-- name: insert_claim
INSERT INTO dibs.claims (@columns_of_claim) VALUES (:@claim)

-- name: latest_event
SELECT max(id) FROM dibs.events

-- name: delete_claim
DELETE FROM dibs.claims WHERE item = :item AND token = :token

-- name: insert_run
INSERT INTO dibs.runs (@columns_of_run) VALUES (:@run)

-- name: end_run
UPDATE dibs.runs SET ended_at = :ended_at, outcome = :outcome, reason = :reason, draft = :draft, links = :links::json,
                     cost = :cost::json
WHERE item = :item AND token = :token AND outcome IS NULL

-- name: insert_event
INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
VALUES (:item, :number, :kind, :at, :status, :token, :actor, :session, :agent, :data::json)

-- name: touch_session
UPDATE dibs.sessions SET seen_at = :now WHERE id = :id AND seen_at NOT BETWEEN :now - 4999 AND :now

-- name: insert_activity
INSERT INTO dibs.activity (at, item, session, agent, action, code, details)
VALUES (:at, :item, :session, :agent, :action, :code, :details::json)

-- Locked on PostgreSQL, so that the reader has something to commit: with a synchronous standby, its COMMIT then waits
-- until the kept answer is there.
-- name: request
SELECT fingerprint, answer FROM dibs.requests WHERE actor = :actor AND id = :id FOR UPDATE

-- name: meta
SELECT value FROM dibs.meta WHERE name = :name

-- On PostgreSQL shared by concurrent adds, exclusive for a prune: the tokens that a prune deletes must be below the floor
-- at which a new item of the same id starts.
-- name: token_floor
SELECT value FROM dibs.meta WHERE name = 'token_floor' FOR SHARE
