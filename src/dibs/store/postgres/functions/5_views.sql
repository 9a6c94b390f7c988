-- Views of the board for clients in any language. Views run with the rights of the board's owner, the functions in them with
-- those of the reader.

CREATE OR REPLACE FUNCTION dibs.default_settings() RETURNS dibs.settings LANGUAGE sql IMMUTABLE AS
$$ SELECT ROW(1800, 60, 7200, 28800, 604800, 5, 15, 30, 3600, 86400, 10000)::dibs.settings $$;

CREATE OR REPLACE FUNCTION dibs.instant(p_at bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.to_timestamp((p_at OPERATOR(pg_catalog./) 1000.0)::double precision) $$;

-- Live claims only, since an expired claim has ended even before a sweep. So `is_expired` is never true; it stays for clients
-- that read it.
CREATE OR REPLACE VIEW dibs.agent_claimed_items AS
SELECT i.id AS work_item_id, i.title, i.type, i.project, i.priority, i.status,
       c.agent AS assigned_agent, c.session AS claimed_by_instance, c.token,
       dibs.instant(c.claimed_at) AS claimed_at, dibs.instant(c.renewed_at) AS last_heartbeat_at,
       dibs.instant(c.expires_at) AS expires_at, c.heartbeat_count,
       false AS is_expired, dibs.clock() - c.renewed_at > 300000 AS is_stale
FROM dibs.claims c JOIN dibs.items i ON i.id = c.item
WHERE c.expires_at > dibs.clock();

-- Live claims with the columns and units of the session-task design's table.
CREATE OR REPLACE VIEW dibs.task_claims AS
SELECT c.item AS task_id, c.session AS session_id, c.claimed_at, c.expires_at, c.renewed_at AS last_heartbeat,
       s.kind AS agent_type,
       json_build_object('agent', c.agent, 'token', c.token, 'heartbeatCount', c.heartbeat_count)::text AS metadata
FROM dibs.claims c JOIN dibs.sessions s ON s.id = c.session
WHERE c.expires_at > dibs.clock();

-- Items with the columns that clients of a table of this name expect. The status is the one that a claim would find at this
-- instant, recorded or not. Each part of the union has one constant status, or statuses with an index, so that a query for one
-- status reads little else.
CREATE OR REPLACE VIEW dibs.work_items AS
SELECT i.id, i.type, n.status, i.priority, i.title, dibs.instant(i.created_at) AS created_at,
       dibs.instant(i.updated_at) AS updated_at, r.agent AS assigned_agent, dibs.instant(r.started_at) AS started_at,
       CASE json_typeof(i.payload) WHEN 'object' THEN i.payload::jsonb ELSE '{}' END
           || CASE WHEN r.session IS NULL THEN '{}'::jsonb ELSE jsonb_build_object(
                  'claimed_by_instance', r.session, 'claimed_at', dibs.instant(r.started_at)) END AS metadata,
       i.project, i.body, i.labels
FROM (
    SELECT id, 'ready' AS status FROM dibs.items WHERE status = 'ready' AND offered_to IS NULL
    UNION ALL
    SELECT id, 'ready' FROM dibs.items WHERE status = 'ready' AND offered_to IS NOT NULL AND offer_expires_at IS NOT NULL
    UNION ALL
    SELECT item, 'in_progress' FROM dibs.claims WHERE expires_at > dibs.clock()
    UNION ALL
    SELECT x.id, CASE WHEN x.status = 'in_progress' AND x.strikes + 1 >= (dibs.default_settings()).max_strikes THEN 'failed'
                      WHEN x.status = 'in_progress' AND dibs.over(x.payload) IS NOT NULL THEN 'cancelled'
                      WHEN x.needs_approval THEN 'pending_approval'
                      WHEN EXISTS (SELECT 1 FROM dibs.dependencies d JOIN dibs.items y ON y.id = d.needs
                                   WHERE d.item = x.id AND y.status <> 'done') THEN 'blocked'
                      WHEN x.not_before > dibs.clock() THEN 'scheduled'
                      ELSE 'ready' END
    FROM (SELECT id FROM dibs.items WHERE status = 'scheduled'
          UNION ALL SELECT item FROM dibs.claims WHERE expires_at <= dibs.clock()) waits
    JOIN dibs.items x ON x.id = waits.id
    UNION ALL
    SELECT id, status FROM dibs.items WHERE status IN ('pending_approval', 'blocked', 'parked')
    UNION ALL
    SELECT id, 'done' FROM dibs.items WHERE status = 'done'
    UNION ALL
    SELECT id, 'failed' FROM dibs.items WHERE status = 'failed'
    UNION ALL
    SELECT id, 'rejected' FROM dibs.items WHERE status = 'rejected'
    UNION ALL
    SELECT id, 'cancelled' FROM dibs.items WHERE status = 'cancelled'
) n
JOIN dibs.items i ON i.id = n.id
LEFT JOIN LATERAL (
    SELECT agent, session, started_at FROM dibs.runs
    WHERE item = i.id AND n.status IN ('in_progress', 'done', 'failed', 'rejected', 'cancelled')
    ORDER BY token DESC LIMIT 1
) r ON true;

-- Events and refused claims of agents. The event that ends a claim names its former holder.
CREATE OR REPLACE VIEW dibs.agent_activity AS
SELECT 'event-' || e.id AS id, e.item AS work_item_id, e.agent AS agent_type, e.session AS agent_instance_id,
       CASE e.kind WHEN 'claimed' THEN 'claimed' WHEN 'done' THEN 'completed'
                   WHEN 'failed' THEN 'failed' WHEN 'submitted' THEN 'submitted' WHEN 'rejected' THEN 'rejected'
                   WHEN 'cancelled' THEN 'cancelled' WHEN 'progress' THEN 'progress' ELSE 'released' END AS action,
       CASE e.kind WHEN 'claimed' THEN jsonb_build_object('claimed', true, 'token', e.token)
                   WHEN 'progress' THEN jsonb_build_object('note', e.data -> 'note')
                   ELSE jsonb_build_object('reason', coalesce(e.data ->> 'reason', e.kind), 'how', e.kind, 'by', e.actor,
                                           'token', e.token) END AS details,
       dibs.instant(e.at) AS created_at
FROM dibs.events e
WHERE e.session IS NOT NULL AND e.kind NOT IN ('offered', 'offer_lapsed')
UNION ALL
SELECT 'activity-' || a.id, a.item, a.agent, a.session, a.action,
       CASE a.action WHEN 'claim_failed' THEN '{"claimed": false}'::jsonb ELSE '{}' END
           || jsonb_build_object('code', a.code) || a.details::jsonb, dibs.instant(a.at)
FROM dibs.activity a;
