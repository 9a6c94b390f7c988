-- The same interface for clients whose ids have type uuid, in a schema of its own: functions of one name that differ only in a
-- type are ambiguous to a caller that names arguments and not types, as PostgREST does. They call the functions of schema `dibs`
-- with the client's own rights.

DO $$
BEGIN
    IF to_regnamespace('dibs_uuid') IS NULL THEN
        CREATE SCHEMA dibs_uuid;
    END IF;
END $$;

CREATE OR REPLACE VIEW dibs_uuid.work_items AS SELECT * FROM dibs.work_items;
CREATE OR REPLACE VIEW dibs_uuid.agent_claimed_items AS SELECT * FROM dibs.agent_claimed_items;
CREATE OR REPLACE VIEW dibs_uuid.agent_activity AS SELECT * FROM dibs.agent_activity;

CREATE OR REPLACE FUNCTION dibs_uuid.claim_work_item(
    p_work_item_id uuid, p_agent_type text, p_agent_instance_id text, p_ttl_seconds double precision DEFAULT NULL
) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT dibs.claim_work_item(p_work_item_id::text, p_agent_type, p_agent_instance_id, p_ttl_seconds) $$;

CREATE OR REPLACE FUNCTION dibs_uuid.claim_next_work_item(
    p_agent_type text, p_agent_instance_id text, p_types text[] DEFAULT NULL, p_ttl_seconds double precision DEFAULT NULL
) RETURNS SETOF dibs_uuid.work_items LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT * FROM dibs.claim_next_work_item(p_agent_type, p_agent_instance_id, p_types, p_ttl_seconds) $$;

CREATE OR REPLACE FUNCTION dibs_uuid.release_work_item(
    p_work_item_id uuid, p_agent_instance_id text, p_reason text DEFAULT 'released'
) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT dibs.release_work_item(p_work_item_id::text, p_agent_instance_id, p_reason) $$;

CREATE OR REPLACE FUNCTION dibs_uuid.complete_work_item(
    p_work_item_id uuid, p_agent_instance_id text, p_outcome text DEFAULT 'success', p_reason text DEFAULT NULL
) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT dibs.complete_work_item(p_work_item_id::text, p_agent_instance_id, p_outcome, p_reason) $$;

CREATE OR REPLACE FUNCTION dibs_uuid.force_release_work_item(
    p_work_item_id uuid, p_admin text DEFAULT session_user, p_reason text DEFAULT 'force released'
) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT dibs.force_release_work_item(p_work_item_id::text, p_admin, p_reason) $$;

CREATE OR REPLACE FUNCTION dibs_uuid.release_stale_claims() RETURNS integer LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT dibs.release_stale_claims() $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dibs_uuid FROM PUBLIC;
