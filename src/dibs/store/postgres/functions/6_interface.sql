-- Functions for clients in any language, which answer true or false. They call the functions of the verbs with the default
-- settings, and start a session for each named instance. They run with the rights of the board's owner, so that a client needs no
-- rights on tables.

-- The checks of `check.py` for what a client in SQL gives. No backup with another value could be restored.

CREATE OR REPLACE FUNCTION dibs.check_item(p_item text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (p_item ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$') IS TRUE THEN
        RAISE EXCEPTION 'p_work_item_id is not an id: letters, digits, ".", "_" and "-", 128 at most'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dibs.check_name(p_parameter text, p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (p_name ~ '^[A-Za-z0-9][A-Za-z0-9._:/@#+-]{0,127}$') IS TRUE THEN
        RAISE EXCEPTION '% is not a name: letters, digits and ". _ - : / @ # +", 128 at most', p_parameter
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- The names that a server reserves, too: the history names dibs and its keys by them, and dibs keeps what GitHub said in such
-- sessions.
CREATE OR REPLACE FUNCTION dibs.check_session(p_session text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dibs.check_name('p_agent_instance_id', p_session);
    IF p_session LIKE 'github:%' OR p_session LIKE 'github-ends:%' THEN
        RAISE EXCEPTION '% is a reserved name; choose another agent instance', p_session
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dibs.check_instance(p_agent text, p_session text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (p_agent ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$') IS TRUE THEN
        RAISE EXCEPTION 'p_agent_type is not a name: letters, digits, ".", "_" and "-", 128 at most'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF p_agent = 'dibs' OR p_agent LIKE 'key-%' THEN
        RAISE EXCEPTION '% is a reserved name; choose another agent type', p_agent USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM dibs.check_session(p_session);
END $$;

CREATE OR REPLACE FUNCTION dibs.check_reason(p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(p_reason) > 64000 THEN
        RAISE EXCEPTION 'p_reason has % bytes; 64000 is the most', octet_length(p_reason)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- A session that is bound to an API key is not available to SQL clients, which show no key. The session's row is locked first, so
-- that no key takes the session over before the verb ends.
CREATE OR REPLACE FUNCTION dibs.refuse_bound(p_session text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    bound text;
BEGIN
    SELECT key INTO bound FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE;
    IF bound IS NOT NULL THEN
        RAISE EXCEPTION 'the instance % is bound to a key: use it over HTTP, or choose another name', p_session
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dibs.check_end(p_item text, p_session text, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dibs.check_item(p_item);
    PERFORM dibs.check_session(p_session);
    PERFORM dibs.check_reason(p_reason);
    PERFORM dibs.refuse_bound(p_session);
END $$;

-- The session of this instance, started unless it is live. It belongs to its agent.
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
        boot_id = NULL, pid_namespace = NULL, pid = NULL, start_time = NULL, parent = NULL
    WHERE s.ended_at IS NOT NULL AND s.agent = excluded.agent AND s.key IS NULL;
    IF NOT EXISTS (SELECT FROM dibs.sessions WHERE id = p_session AND agent = p_agent) THEN
        RAISE EXCEPTION 'the instance % belongs to another agent', p_session USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM dibs.refuse_bound(p_session);
END $$;

-- Invalid input is an error, not a refusal.
CREATE OR REPLACE FUNCTION dibs.check_answer(answer json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF answer ->> 'no' = 'TTL' THEN
        RAISE EXCEPTION 'p_ttl_seconds is out of bounds; choose between % and %', (dibs.default_settings()).ttl_seconds_min,
            (dibs.default_settings()).ttl_seconds_max USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Record a refusal that the verb itself does not record, with the code of the protocol. Item and session need not exist; the agent
-- of a session that does not exist is ''.
CREATE OR REPLACE FUNCTION dibs.record_refusal(p_action text, p_item text, p_session text, answer json) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO dibs.activity (at, item, session, agent, action, code, details)
    VALUES (dibs.clock(), p_item, p_session,
            coalesce((SELECT agent FROM dibs.sessions WHERE id = p_session), ''), p_action,
            CASE
                WHEN answer ->> 'no' = 'MUST_SUBMIT' THEN 'FORBIDDEN'
                WHEN answer ->> 'no' <> 'FENCED' THEN answer ->> 'no'
                WHEN answer #>> '{asked,session}' = p_session
                     AND coalesce(answer #>> '{asked,outcome}', 'expired') IN ('expired', 'owner_died') THEN 'CLAIM_EXPIRED'
                WHEN (answer #>> '{claim,expires_at}')::bigint > (answer ->> 'now')::bigint THEN 'NOT_CLAIM_OWNER'
                WHEN answer ->> 'session' IS NULL THEN 'SESSION_NOT_FOUND'
                ELSE 'TASK_NOT_CLAIMED'
            END,
            json_build_object(
                'status', (SELECT status FROM dibs.items WHERE id = p_item),
                'holder', (SELECT json_build_object('session', session, 'agent', agent, 'token', token)
                           FROM dibs.claims WHERE item = p_item)))
$$;

CREATE OR REPLACE FUNCTION dibs.claim_work_item(
    p_work_item_id text, p_agent_type text, p_agent_instance_id text, p_ttl_seconds double precision DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    PERFORM dibs.check_item(p_work_item_id);
    PERFORM dibs.check_instance(p_agent_type, p_agent_instance_id);
    PERFORM dibs.session_of_instance(p_agent_type, p_agent_instance_id);
    answer := dibs.claim(p_work_item_id, p_agent_instance_id, p_agent_type, p_ttl_seconds, false, NULL, dibs.default_settings());
    PERFORM dibs.check_answer(answer);
    IF answer ->> 'no' IS NULL THEN
        PERFORM pg_notify('dibs', '');
    ELSIF answer ->> 'no' = 'TASK_NOT_FOUND' THEN
        PERFORM dibs.record_refusal('claim_failed', p_work_item_id, p_agent_instance_id, answer);
    END IF;
    RETURN answer ->> 'no' IS NULL;
END $$;

-- Claim the best ready item for this agent; no row if there is none within the agent's limits.
CREATE OR REPLACE FUNCTION dibs.claim_next_work_item(
    p_agent_type text, p_agent_instance_id text, p_types text[] DEFAULT NULL, p_ttl_seconds double precision DEFAULT NULL
) RETURNS SETOF dibs.work_items LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    PERFORM dibs.check_instance(p_agent_type, p_agent_instance_id);
    PERFORM dibs.session_of_instance(p_agent_type, p_agent_instance_id);
    answer := dibs.next(p_agent_instance_id, p_agent_type, coalesce(p_types, '{}'), '{}', 1, p_ttl_seconds, '{}', '{}', true,
                        dibs.default_settings());
    PERFORM dibs.check_answer(answer);
    PERFORM pg_notify('dibs', '');
    RETURN QUERY SELECT * FROM dibs.work_items WHERE id = answer #>> '{grants,0,item,id}';
END $$;

CREATE OR REPLACE FUNCTION dibs.release_work_item(
    p_work_item_id text, p_agent_instance_id text, p_reason text DEFAULT 'released'
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    PERFORM dibs.check_end(p_work_item_id, p_agent_instance_id, p_reason);
    answer := dibs.finish('release', p_work_item_id, p_agent_instance_id, NULL, p_reason, false, NULL, NULL, NULL, 0,
                          dibs.default_settings());
    IF answer ->> 'no' IS NOT NULL THEN
        PERFORM dibs.record_refusal('release_failed', p_work_item_id, p_agent_instance_id, answer);
        RETURN false;
    END IF;
    PERFORM pg_notify('dibs', '');
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION dibs.complete_work_item(
    p_work_item_id text, p_agent_instance_id text, p_outcome text DEFAULT 'success', p_reason text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer json;
BEGIN
    PERFORM dibs.check_end(p_work_item_id, p_agent_instance_id, p_reason);
    IF p_outcome = 'success' THEN
        answer := dibs.done(ARRAY[p_work_item_id], ARRAY[NULL]::bigint[], p_agent_instance_id, p_reason, NULL, NULL, false,
                            dibs.default_settings());
        answer := answer #> '{each,0,answer}';
        IF answer #>> '{asked,session}' = p_agent_instance_id AND answer #>> '{asked,outcome}' = 'done' THEN
            RETURN true;
        END IF;
    ELSIF p_outcome = 'failure' THEN
        answer := dibs.finish('fail', p_work_item_id, p_agent_instance_id, NULL, p_reason, false, NULL, NULL, NULL, random(),
                              dibs.default_settings());
    ELSE
        RAISE EXCEPTION 'unknown outcome %; choose success or failure', quote_nullable(p_outcome)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF answer ->> 'no' IS NOT NULL THEN
        PERFORM dibs.record_refusal('complete_failed', p_work_item_id, p_agent_instance_id, answer);
        RETURN false;
    END IF;
    PERFORM pg_notify('dibs', '');
    RETURN true;
END $$;

-- End expired claims; return how many.
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
    PERFORM dibs.check_item(p_work_item_id);
    PERFORM dibs.check_name('p_admin', p_admin);
    PERFORM dibs.check_reason(p_reason);
    answer := dibs.force_release(p_work_item_id, p_admin, coalesce(nullif(btrim(p_reason), ''), 'force released'), NULL, dibs.default_settings());
    IF answer ->> 'no' IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('dibs', '');
    RETURN true;
END $$;

-- No role has any right here that was not granted explicitly.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dibs FROM PUBLIC;
-- The time and the default settings are not secret, and a reader of a view calls its functions with its own rights.
GRANT EXECUTE ON FUNCTION dibs.clock(), dibs.instant(bigint), dibs.over(json), dibs.default_settings() TO PUBLIC;

-- Unless the database's owner has set a search path, these names resolve without a schema.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase
                   WHERE d.datname = current_database() AND r.setrole = 0 AND r.setconfig::text LIKE '%search_path%') THEN
        EXECUTE format('ALTER DATABASE %I SET search_path = "$user", public, dibs', current_database());
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END $$;
