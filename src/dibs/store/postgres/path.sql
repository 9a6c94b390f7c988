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

-- name: live_claim_count_of_agent
SELECT count(*) FROM dibs.sessions s JOIN dibs.claims c ON c.session = s.id
WHERE s.agent = :agent AND s.ended_at IS NULL AND c.expires_at > :now

-- name: next_expiry_of_agent
SELECT min(c.expires_at) FROM dibs.sessions s JOIN dibs.claims c ON c.session = s.id
WHERE s.agent = :agent AND s.ended_at IS NULL AND c.expires_at > :now

-- name: blockers
SELECT d.needs, n.status FROM dibs.dependencies d JOIN dibs.items n ON n.id = d.needs
WHERE d.item = :item AND n.status <> 'done' ORDER BY d.needs

-- name: blocked_by
SELECT x.id FROM dibs.dependencies d JOIN dibs.items x ON x.id = d.item
WHERE d.needs = :needs AND x.status NOT IN ('done', 'rejected', 'cancelled') ORDER BY x.id

-- name: open_tickets
SELECT @ticket FROM dibs.tickets WHERE item = :item AND closed_at IS NULL ORDER BY id

-- name: holds
SELECT to_json(x.resources)::text, x.id, c.session, c.agent
FROM dibs.items x JOIN dibs.claims c ON c.item = x.id
WHERE x.project = :project AND x.status = 'in_progress' AND x.resources <> '{}' AND c.expires_at > :now

-- name: renew_claim
UPDATE dibs.claims SET renewed_at = :renewed_at, expires_at = :expires_at, ttl_seconds = :ttl_seconds,
                       heartbeat_count = :heartbeat_count, look_at = least(look_at, :expires_at)
WHERE item = :item AND token = :token

-- name: count_conflict
UPDATE dibs.conflicts SET count = count + 1 WHERE slot = pg_backend_pid() & 15

-- name: conflicts
SELECT sum(count)::bigint FROM dibs.conflicts

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

-- name: feed_end
SELECT dibs.feed_end()

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM dibs.items x LEFT JOIN dibs.agents a ON a.name = :agent
    WHERE x.status = 'ready' AND x.offered_to IS NULL
      AND (x.priority > :priority
           OR (x.priority = :priority AND x.seq < (SELECT y.seq FROM dibs.items y WHERE y.id = :item)))
      AND (a.name IS NULL OR (a.types = '{}' OR x.type = ANY (a.types)) AND dibs.may_take(a, x.action, x.approved))
      AND (x.resources = '{}' OR NOT dibs.in_use(x.id, x.project, x.resources, :session, :now))
    LIMIT :most) AS before
