-- For clients in any language: a claim is a function that answers true or false. Thin over the functions of the verbs, under the
-- settings every board starts with; a session is made for each instance that is named. They run with the rights of the board's
-- owner, so that a client needs none of its own on any table.

CREATE OR REPLACE FUNCTION dibs.default_settings() RETURNS dibs.settings LANGUAGE sql IMMUTABLE AS
$$ SELECT ROW(1800, 60, 7200, 28800, 604800, 5, 15, 30, 3600, 86400, 10000)::dibs.settings $$;

-- The session of this instance, begun if it is not going on. It stays its agent's; one that a key registered is not for
-- clients in SQL.
CREATE OR REPLACE FUNCTION dibs.session_of_instance(p_agent text, p_session text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    at bigint := dibs.clock();
BEGIN
    INSERT INTO dibs.agents (name, types, claims_burst, allowed_actions, sensitive_actions, created_at, updated_at)
    VALUES (p_agent, '{}', 1, '{}', '{}', at, at) ON CONFLICT (name) DO NOTHING;
    INSERT INTO dibs.sessions AS s (id, agent, kind, host, meta, started_at, seen_at)
    VALUES (p_session, p_agent, 'sql', '', '{}', at, at)
    ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, started_at = excluded.started_at,
        seen_at = excluded.seen_at, ended_at = NULL, end_reason = NULL, host = excluded.host, meta = excluded.meta,
        boot_id = NULL, pid_namespace = NULL, pid = NULL, start_time = NULL
    WHERE s.ended_at IS NOT NULL AND s.agent = excluded.agent AND s.key IS NULL;
END $$;

CREATE OR REPLACE FUNCTION dibs.claim_work_item(p_work_item_id text, p_agent_type text, p_agent_instance_id text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    IF NOT (p_agent_type ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$'
            AND p_agent_instance_id ~ '^[A-Za-z0-9][A-Za-z0-9._:/@#+-]{0,127}$') IS TRUE THEN
        RAISE EXCEPTION 'an agent type and an agent instance are names: letters, digits, ".", "_" and "-", 128 at most'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM dibs.session_of_instance(p_agent_type, p_agent_instance_id);
    answer := dibs.claim(p_work_item_id, p_agent_instance_id, p_agent_type, NULL, false, NULL, dibs.default_settings());
    IF answer ->> 'no' IN ('WRONG_AGENT', 'SESSION_NOT_FOUND') THEN
        RAISE EXCEPTION 'the instance % is another agent''s', p_agent_instance_id USING ERRCODE = 'invalid_parameter_value';
    ELSIF answer ->> 'no' = 'TASK_NOT_FOUND' THEN
        INSERT INTO dibs.activity (at, item, session, agent, action, code, details)
        VALUES (dibs.clock(), coalesce(p_work_item_id, ''), p_agent_instance_id, p_agent_type, 'claim_failed',
                'TASK_NOT_FOUND', '{"status": null, "holder": null}');
    ELSIF answer ->> 'no' IS NULL THEN
        PERFORM pg_notify('dibs', '');
    END IF;
    RETURN answer ->> 'no' IS NULL;
END $$;

CREATE OR REPLACE FUNCTION dibs.release_work_item(
    p_work_item_id text, p_agent_instance_id text, p_reason text DEFAULT 'released'
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    answer := dibs.finish('release', p_work_item_id, p_agent_instance_id, NULL, p_reason, false, NULL, NULL, NULL, 0,
                          dibs.default_settings());
    IF answer ->> 'no' IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('dibs', '');
    RETURN true;
END $$;

-- How many claims past their time were given back.
CREATE OR REPLACE FUNCTION dibs.release_stale_claims() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    swept json;
BEGIN
    swept := dibs.sweep('[]', 10000, dibs.default_settings());
    IF json_array_length(swept -> 'expired') > 0 THEN
        PERFORM pg_notify('dibs', '');
    END IF;
    RETURN json_array_length(swept -> 'expired');
END $$;

CREATE OR REPLACE FUNCTION dibs.force_release_work_item(
    p_work_item_id text, p_admin text DEFAULT session_user, p_reason text DEFAULT 'force released'
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    p_admin := coalesce(p_admin, session_user);
    IF p_admin !~ '^[A-Za-z0-9][A-Za-z0-9._:/@#+-]{0,127}$' THEN
        RAISE EXCEPTION 'who force-releases is a name: letters, digits, ".", "_" and "-", 128 at most'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    answer := dibs.force_release(p_work_item_id, p_admin, coalesce(p_reason, 'force released'), NULL, dibs.default_settings());
    IF answer ->> 'no' IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('dibs', '');
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION dibs.instant(p_at bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.to_timestamp((p_at OPERATOR(pg_catalog./) 1000.0)::double precision) $$;

-- Live claims only: one whose time is over is found over by whoever claims, swept or not. So `is_expired` is never true; it
-- stays for clients that ask for it.
CREATE OR REPLACE VIEW dibs.agent_claimed_items AS
SELECT i.id AS work_item_id, i.title, i.type, i.project, i.priority, i.status,
       c.agent AS assigned_agent, c.session AS claimed_by_instance, c.token,
       dibs.instant(c.claimed_at) AS claimed_at, dibs.instant(c.renewed_at) AS last_heartbeat_at,
       dibs.instant(c.expires_at) AS expires_at, c.heartbeat_count,
       false AS is_expired, dibs.clock() - c.renewed_at > 300000 AS is_stale
FROM dibs.claims c JOIN dibs.items i ON i.id = c.item
WHERE c.expires_at > dibs.clock();

-- What agents did, and what they were refused. An event names the holder as it was before the claim was cleared.
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
       jsonb_build_object('claimed', false, 'code', a.code) || a.details::jsonb, dibs.instant(a.at)
FROM dibs.activity a;

-- Nobody may do anything here who was not told so.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dibs FROM PUBLIC;
-- Telling the time is harmless, and whoever reads a view calls its functions as themselves.
GRANT EXECUTE ON FUNCTION dibs.clock(), dibs.instant(bigint) TO PUBLIC;

-- Where the database's owner has not chosen a search path, these names are found without the schema's.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase
                   WHERE d.datname = current_database() AND r.setrole = 0 AND r.setconfig::text LIKE '%search_path%') THEN
        EXECUTE format('ALTER DATABASE %I SET search_path = "$user", public, dibs', current_database());
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END $$;
