-- Statements of the verbs that read, in PostgreSQL's SQL for both databases: see queries.py. None takes a lock. On SQLite
-- CROSS JOIN keeps the order of the tables: without statistics the planner may begin with the one that has more rows.

-- name: items_by_id
SELECT @item FROM dibs.items WHERE id @in(:items)

-- name: claims_of_items
SELECT @claim FROM dibs.claims WHERE item @in(:items)

-- name: items_in_order
SELECT id FROM dibs.items WHERE id @in(:items) ORDER BY priority DESC, seq LIMIT :limit

-- name: ids
SELECT id FROM dibs.items WHERE id >= :prefix AND id < :beyond ORDER BY id LIMIT :limit

-- name: seq_of_run
SELECT seq FROM dibs.runs WHERE item = :item AND token = :token

-- name: runs_of_item
SELECT @run FROM dibs.runs WHERE item = :item ORDER BY token DESC LIMIT :limit

-- name: list_runs
SELECT @run FROM dibs.runs
WHERE (:item::text IS NULL OR item = :item) AND (:session::text IS NULL OR session = :session)
  AND (:agent::text IS NULL OR agent = :agent) AND (:before::bigint IS NULL OR seq < :before)
ORDER BY seq DESC LIMIT :limit

-- name: runs_of_session
SELECT @run FROM dibs.runs WHERE session = :session ORDER BY seq DESC LIMIT :limit

-- name: feed_of_item
SELECT @event FROM dibs.events WHERE item = :item AND id > :after ORDER BY number LIMIT :limit

-- name: feed_of_item_newest
SELECT @event FROM dibs.events WHERE item = :item AND id > :after ORDER BY number DESC LIMIT :limit

-- name: list_activity
SELECT @activity FROM dibs.activity
WHERE (:item::text IS NULL OR item = :item) AND (:agent::text IS NULL OR agent = :agent)
ORDER BY id DESC LIMIT :limit

-- name: live_soft_claims
SELECT @soft_claim FROM dibs.soft_claims WHERE expires_at > :now ORDER BY agent, claimed_at, item, session

-- name: latest_ticket
SELECT @ticket FROM dibs.tickets WHERE item = :item AND session = :session ORDER BY id DESC LIMIT 1

-- name: list_agents
SELECT @agent FROM dibs.agents ORDER BY name

-- name: list_sessions
SELECT @session FROM dibs.sessions WHERE :ended OR ended_at IS NULL ORDER BY seen_at DESC, id LIMIT :limit

-- name: live_children
SELECT id FROM dibs.sessions
WHERE parent @in(:sessions) AND ended_at IS NULL ORDER BY id

-- name: live_claims
SELECT @claim FROM dibs.claims WHERE expires_at > :now LIMIT :limit

-- Sessions of people with live claims.
-- name: holding_people
SELECT DISTINCT s.id FROM dibs.claims c JOIN dibs.sessions s ON s.id = c.session
WHERE c.expires_at > :now AND s.kind = 'person'

-- How many items wait for a person and since when, and the last backup.
-- name: upkeep_figures
SELECT (SELECT count(*) FROM dibs.items WHERE status = 'pending_approval'),
       (SELECT min(updated_at) FROM dibs.items WHERE status = 'pending_approval'),
       (SELECT value FROM dibs.meta WHERE name = 'last_backup_at')

-- Live claims, sessions and tickets. `started_at > 0`, here and below, is always true: PostgreSQL's index of live
-- sessions has this condition.
-- name: live_counts
SELECT (SELECT count(*) FROM dibs.claims WHERE expires_at > :now AND (:agent::text IS NULL OR agent = :agent)),
       (SELECT count(*) FROM dibs.sessions
        WHERE ended_at IS NULL AND started_at > 0 AND (:agent::text IS NULL OR agent = :agent)),
       (SELECT count(*) FROM dibs.tickets
        WHERE closed_at IS NULL AND expires_at > :now AND (:agent::text IS NULL OR agent = :agent))

-- name: conflicts_of_agent
SELECT count(*) FROM dibs.activity WHERE agent = :agent AND code = 'TASK_ALREADY_CLAIMED'

-- Blocked by a dependency that has ended and is not done.
-- name: briefs_in_dead_ends
SELECT @brief FROM dibs.items
WHERE status = 'blocked' AND EXISTS (
    SELECT 1 FROM dibs.dependencies JOIN dibs.items AS needed ON needed.id = dependencies.needs
    WHERE dependencies.item = items.id AND needed.status IN ('failed', 'rejected', 'cancelled'))
ORDER BY priority DESC, seq LIMIT :limit

-- name: briefs_by_id
SELECT @brief FROM dibs.items WHERE id @in(:items)

-- name: seats
SELECT @session FROM dibs.sessions WHERE ended_at IS NULL AND started_at > 0
ORDER BY EXISTS (SELECT 1 FROM dibs.claims WHERE claims.session = sessions.id) DESC, seen_at DESC, id LIMIT :limit

-- name: claims_of_sessions
SELECT @claim FROM dibs.claims WHERE session @in(:sessions)
ORDER BY session, claimed_at, item

-- name: beats
SELECT item, expires_at, heartbeat_count FROM dibs.claims WHERE expires_at > :now ORDER BY expires_at LIMIT :limit

-- name: seen_sessions
SELECT id, seen_at FROM dibs.sessions WHERE ended_at IS NULL AND started_at > 0 ORDER BY seen_at DESC, id LIMIT :limit

-- name: new_seats
SELECT @session FROM dibs.sessions WHERE ended_at IS NULL AND started_at > 0 AND started_at >= :since
ORDER BY started_at DESC, id LIMIT :limit

-- name: event_range
SELECT (SELECT min(id) FROM dibs.events), (SELECT max(id) FROM dibs.events)

-- name: event_from
SELECT id, at FROM dibs.events WHERE id >= :id ORDER BY id LIMIT 1

-- name: run_range
SELECT (SELECT min(seq) FROM dibs.runs), (SELECT max(seq) FROM dibs.runs)

-- name: run_from
SELECT seq, started_at FROM dibs.runs WHERE seq >= :id ORDER BY seq LIMIT 1

-- name: runs_in_window
SELECT r.item, r.token, r.session, r.agent, r.started_at, r.ended_at, r.outcome
FROM dibs.runs r
WHERE r.seq >= :first AND r.seq <= :last AND r.started_at < :to AND (r.ended_at IS NULL OR r.ended_at > :from)
  AND (:agent::text IS NULL OR r.agent = :agent) AND (:session::text IS NULL OR r.session = :session)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = r.item AND i.project = :project))
ORDER BY r.seq DESC LIMIT :limit

-- name: live_runs_before
SELECT r.item, r.token, r.session, r.agent, r.started_at, r.ended_at, r.outcome
FROM dibs.claims c CROSS JOIN dibs.runs r
WHERE r.item = c.item AND r.token = c.token AND r.seq < :first AND r.started_at < :to AND :from IS NOT NULL
  AND (:agent::text IS NULL OR r.agent = :agent) AND (:session::text IS NULL OR r.session = :session)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = r.item AND i.project = :project))
ORDER BY r.seq DESC LIMIT :limit

-- name: refused_in_window
SELECT a.at, a.item, a.session, a.code
FROM dibs.activity a
WHERE a.at >= :from AND a.at < :to
  AND (:agent::text IS NULL OR a.agent = :agent) AND (:session::text IS NULL OR a.session = :session)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = a.item AND i.project = :project))
ORDER BY a.id DESC LIMIT :limit

-- name: events_in_series
SELECT (e.at - :from) / :step, e.kind, count(*)
FROM dibs.events e
WHERE e.id >= :first AND e.at >= :from AND e.at < :to AND e.kind IN ('claimed', 'done', 'failed', 'expired', 'owner_died')
  AND (:agent::text IS NULL OR e.agent = :agent)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = e.item AND i.project = :project))
GROUP BY 1, 2

-- name: changes_in_series
SELECT (e.at - :from) / :step, before.status, e.status, count(*)
FROM dibs.events e LEFT JOIN dibs.events before ON before.item = e.item AND before.number = e.number - 1
WHERE e.id >= :first AND e.at >= :from AND before.status IS DISTINCT FROM e.status
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = e.item AND i.project = :project))
GROUP BY 1, 2, 3

-- How long each claimed item had been as it was: the event before is the one that made it claimable, or an edit.
-- name: waits_in_series
SELECT (e.at - :from) / :step, e.at - before.at
FROM dibs.events e CROSS JOIN dibs.events before
WHERE before.item = e.item AND before.number = e.number - 1
  AND e.id >= :first AND e.at >= :from AND e.at < :to AND e.kind = 'claimed'
  AND (:agent::text IS NULL OR e.agent = :agent)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = e.item AND i.project = :project))
ORDER BY e.id DESC LIMIT :limit

-- Events that never end a run are named, so that no run is looked up for them.
-- name: durations_in_series
SELECT (e.at - :from) / :step, r.ended_at - r.started_at
FROM dibs.events e CROSS JOIN dibs.runs r
WHERE r.item = e.item AND r.token = e.token
  AND e.id >= :first AND e.at >= :from AND e.at < :to AND e.kind = r.outcome AND r.ended_at = e.at
  AND e.kind NOT IN ('added', 'claimable', 'claimed', 'progress')
  AND (:agent::text IS NULL OR r.agent = :agent)
  AND (:project::text IS NULL OR EXISTS (SELECT 1 FROM dibs.items i WHERE i.id = e.item AND i.project = :project))
ORDER BY e.id DESC LIMIT :limit
