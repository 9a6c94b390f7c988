-- Statements of the verbs that the rules decide in the client. The verbs of the claim path are functions: see
-- functions/.

-- name: lock_request
SELECT pg_advisory_xact_lock(25699, hashtext(:actor || chr(31) || :id))

-- name: lock_session
SELECT 1 FROM dibs.sessions WHERE id = :id FOR NO KEY UPDATE

-- Of two edits that together close a cycle, the second has to see the first.
-- name: lock_dependencies
SELECT pg_advisory_xact_lock(25701, 0)

-- name: lock_resources
SELECT dibs.lock_resources(:project)

-- Of two callers that add an item of one subject, the second has to see the item of the first.
-- name: lock_subject
SELECT pg_advisory_xact_lock(25705, hashtext(:subject))

-- Of two callers that add an item of one title, the second has to see the id of the first.
-- name: lock_id_words
SELECT pg_advisory_xact_lock(25706, hashtext(:words))

-- name: lock_agent
SELECT dibs.agent_of(:name)

-- name: lock_new_session
SELECT pg_advisory_xact_lock(25702, hashtext(:id))

-- name: lock_items
SELECT id FROM dibs.items WHERE id = ANY (:ids) ORDER BY id FOR NO KEY UPDATE

-- name: lock_item
SELECT dibs.lock_item(:id)

-- name: notify_session
SELECT pg_notify('dibs_' || md5(:session), '')

-- name: item_by_id
SELECT @item FROM dibs.items WHERE id = :id

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

-- name: live_claim_count_of_agent
SELECT count(*) FROM dibs.sessions s JOIN dibs.claims c ON c.session = s.id
WHERE s.agent = :agent AND s.ended_at IS NULL AND c.expires_at > :now

-- name: next_expiry_of_agent
SELECT min(c.expires_at) FROM dibs.sessions s JOIN dibs.claims c ON c.session = s.id
WHERE s.agent = :agent AND s.ended_at IS NULL AND c.expires_at > :now

-- name: bucket_of_agent
SELECT bucket, bucket_at FROM dibs.agents WHERE name = :name

-- name: set_bucket
UPDATE dibs.agents SET bucket = :bucket, bucket_at = :bucket_at WHERE name = :name

-- name: blockers
SELECT d.needs, n.status FROM dibs.dependencies d JOIN dibs.items n ON n.id = d.needs
WHERE d.item = :item AND n.status <> 'done' ORDER BY d.needs

-- name: blocked_by
SELECT x.id FROM dibs.dependencies d JOIN dibs.items x ON x.id = d.item
WHERE d.needs = :needs AND x.status NOT IN ('done', 'rejected', 'cancelled') ORDER BY x.id

-- name: dependents
SELECT i.id FROM dibs.dependencies d JOIN dibs.items i ON i.id = d.item WHERE d.needs = :needs ORDER BY i.id

-- name: open_tickets
SELECT @ticket FROM dibs.tickets WHERE item = :item AND closed_at IS NULL ORDER BY id

-- name: insert_ticket
INSERT INTO dibs.tickets (item, session, agent, since_at, expires_at, ttl_seconds)
VALUES (:item, :session, :agent, :since_at, :expires_at, :ttl_seconds)

-- name: renew_ticket
UPDATE dibs.tickets SET expires_at = :expires_at, ttl_seconds = :ttl_seconds WHERE id = :id AND closed_at IS NULL

-- name: close_ticket
UPDATE dibs.tickets SET closed_at = :closed_at, reason = :reason WHERE id = :id AND closed_at IS NULL

-- name: holds
SELECT to_json(x.resources)::text, x.id, c.session, c.agent
FROM dibs.items x JOIN dibs.claims c ON c.item = x.id
WHERE x.project = :project AND x.status = 'in_progress' AND x.resources <> '{}' AND c.expires_at > :now

-- name: id_number
SELECT number FROM dibs.id_numbers WHERE words = :words

-- name: put_id_number
INSERT INTO dibs.id_numbers (words, number) VALUES (:words, :number)
ON CONFLICT (words) DO UPDATE SET number = excluded.number

-- name: insert_item
INSERT INTO dibs.items (@columns_of_item) VALUES (:@item)

-- name: move_item
UPDATE dibs.items
SET status = :status, updated_at = :updated_at, attempts = :attempts, strikes = :strikes, failures = :failures,
    token = :token, revision = :revision, not_before = :not_before, needs_approval = :needs_approval,
    approved = :approved, offered_to = :offered_to, offer_expires_at = :offer_expires_at
WHERE id = :id AND revision = :revision - 1

-- name: rewrite_item
UPDATE dibs.items SET (@columns_of_rewritten) = (:@rewritten)
WHERE id = :id AND revision = :revision - 1

-- name: insert_claim
INSERT INTO dibs.claims (@columns_of_claim) VALUES (:@claim)

-- name: renew_claim
UPDATE dibs.claims SET renewed_at = :renewed_at, expires_at = :expires_at, ttl_seconds = :ttl_seconds,
                       heartbeat_count = :heartbeat_count, look_at = least(look_at, :expires_at)
WHERE item = :item AND token = :token

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
UPDATE dibs.sessions SET seen_at = :now WHERE id = :id AND NOT seen_at BETWEEN :now - 4999 AND :now

-- name: insert_activity
INSERT INTO dibs.activity (at, item, session, agent, action, code, details)
VALUES (:at, :item, :session, :agent, :action, :code, :details::json)

-- name: count_conflict
UPDATE dibs.conflicts SET count = count + 1 WHERE slot = pg_backend_pid() & 15

-- name: conflicts
SELECT sum(count)::bigint FROM dibs.conflicts

-- Locked, so that the reader has something to commit: with a synchronous standby, its COMMIT then waits until the kept
-- answer is there.
-- name: request
SELECT fingerprint, answer FROM dibs.requests WHERE actor = :actor AND id = :id FOR UPDATE

-- name: keep_request
INSERT INTO dibs.requests (actor, id, fingerprint, answer, at) VALUES (:actor, :id, :fingerprint, :answer, :at)
ON CONFLICT (actor, id) DO UPDATE
SET fingerprint = excluded.fingerprint, answer = excluded.answer, at = excluded.at, shape = NULL

-- name: due
SELECT least((SELECT min(expires_at) FROM dibs.claims),
             (SELECT min(not_before) FROM dibs.items WHERE status = 'scheduled'),
             (SELECT min(offer_expires_at) FROM dibs.items WHERE offer_expires_at IS NOT NULL))

-- name: due_of_item
SELECT least((SELECT expires_at FROM dibs.claims WHERE item = :item),
             (SELECT CASE status WHEN 'scheduled' THEN not_before END FROM dibs.items WHERE id = :item),
             (SELECT offer_expires_at FROM dibs.items WHERE id = :item))

-- name: meta
SELECT value FROM dibs.meta WHERE name = :name

-- Shared by concurrent adds, exclusive for a prune: the tokens that a prune deletes must be below the floor at which a
-- new item of the same id starts.
-- name: token_floor
SELECT value FROM dibs.meta WHERE name = 'token_floor' FOR SHARE

-- name: feed_end
SELECT dibs.feed_end()

-- name: seq_of_item
SELECT seq FROM dibs.items WHERE id = :id

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM dibs.items x LEFT JOIN dibs.agents a ON a.name = :agent
    WHERE x.status = 'ready' AND x.offered_to IS NULL
      AND (x.priority > :priority
           OR (x.priority = :priority AND x.seq < (SELECT y.seq FROM dibs.items y WHERE y.id = :item)))
      AND (a.name IS NULL OR (a.types = '{}' OR x.type = ANY (a.types)) AND dibs.may_take(a, x.action, x.approved))
      AND (x.resources = '{}' OR NOT dibs.in_use(x.id, x.project, x.resources, :session, :now))
    LIMIT :most) AS before
