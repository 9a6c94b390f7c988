-- The sweep: expired claims, claims of dead owners, schedules that have come, lapsed offers, outdated rows.

-- Why a session ends that has one of these dead owners, or an ancestor with one.
CREATE OR REPLACE FUNCTION dibs.end_reason(x dibs.sessions, p_dead json) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (
        SELECT 1 FROM json_array_elements(p_dead) d
        WHERE (x.boot_id, x.pid_namespace, x.pid, x.start_time) = (d -> 1 ->> 'boot_id',
              (d -> 1 ->> 'pid_namespace')::bigint, (d -> 1 ->> 'pid')::bigint, (d -> 1 ->> 'start_time')::bigint)
    ) THEN 'its owner process died' ELSE 'its parent session ended' END
$$;

-- The session and its live descendants, all locked, parents first; NULL if another transaction has locked one of them. A session
-- has four ancestors at most. (`+ 0` keeps the planner from the index of agents, which finds all live sessions.)
CREATE OR REPLACE FUNCTION dibs.lock_family(p_session text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    family text[] := ARRAY[p_session];
    level text[] := family;
    locked text[];
BEGIN
    FOR generation IN 1..4 LOOP
        SELECT coalesce(array_agg(y.id), '{}') INTO locked FROM (
            SELECT x.id FROM dibs.sessions x WHERE x.parent = ANY (level) AND x.ended_at + 0 IS NULL
            FOR NO KEY UPDATE SKIP LOCKED) y;
        IF EXISTS (
            SELECT 1 FROM dibs.sessions x WHERE x.parent = ANY (level) AND x.ended_at + 0 IS NULL AND x.id <> ALL (locked)
        ) THEN
            RETURN NULL;
        END IF;
        EXIT WHEN locked = '{}';
        family := family || locked;
        level := locked;
    END LOOP;
    RETURN family;
END $$;

-- End the claims of a session whose owner was found dead, and those of its descendants, unless it has ended or has another owner
-- by now. Without claims left, all these sessions end. What is locked is left for the next sweep.
CREATE OR REPLACE FUNCTION dibs.bury(
    p_session text, p_owner json, p_dead json, p_limit bigint, s dibs.settings, OUT lost text[], OUT failed text[]
) LANGUAGE plpgsql AS $$
DECLARE
    me dibs.sessions;
    family text[];
    orphans text[];
    each text;
    i dibs.items;
    c dibs.claims;
    at bigint;
BEGIN
    lost := '{}';
    failed := '{}';
    SELECT * INTO me FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR me.ended_at IS NOT NULL OR (me.boot_id, me.pid_namespace, me.pid, me.start_time) IS DISTINCT FROM
       (p_owner ->> 'boot_id', (p_owner ->> 'pid_namespace')::bigint, (p_owner ->> 'pid')::bigint,
        (p_owner ->> 'start_time')::bigint) THEN
        RETURN;
    END IF;
    family := dibs.lock_family(p_session);
    IF family IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(family) > 1 THEN
        orphans := ARRAY(SELECT x.id FROM dibs.sessions x
                         WHERE x.id = ANY (family) AND dibs.end_reason(x, p_dead) = 'its parent session ended');
    END IF;
    FOR each IN
        SELECT x.item FROM (SELECT item FROM dibs.claims WHERE session = ANY (family) OFFSET 0) x ORDER BY x.item LIMIT p_limit
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = each FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        SELECT * INTO c FROM dibs.claims WHERE item = each FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR c.session <> ALL (family);
        at := dibs.clock();
        IF c.expires_at > at THEN
            i := dibs.strike(i, c, 'owner_died', at, s, CASE WHEN c.session = ANY (orphans) THEN 'its parent session ended' END);
        ELSE
            i := dibs.strike(i, c, 'expired', at, s);
        END IF;
        PERFORM dibs.save(i);
        IF c.expires_at > at THEN
            lost := lost || each;
            IF i.status = 'failed' THEN
                failed := failed || each;
            END IF;
        END IF;
    END LOOP;
    IF EXISTS (SELECT 1 FROM dibs.claims WHERE session = ANY (family)) THEN
        RETURN;
    END IF;
    FOR each IN
        SELECT DISTINCT t.item FROM (
            SELECT item FROM dibs.tickets WHERE session = ANY (family) AND closed_at IS NULL OFFSET 0) t
        ORDER BY t.item
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = each FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        at := dibs.clock();
        UPDATE dibs.tickets SET closed_at = at, reason = 'its session ended'
        WHERE item = each AND session = ANY (family) AND closed_at IS NULL;
        IF i.offered_to = ANY (family) THEN
            i := dibs.available(i, at, s);
            PERFORM dibs.save(i);
        END IF;
    END LOOP;
    DELETE FROM dibs.soft_claims WHERE session = ANY (family);
    UPDATE dibs.sessions
    SET ended_at = dibs.clock(),
        end_reason = CASE WHEN id = ANY (orphans) THEN 'its parent session ended' ELSE 'its owner process died' END
    WHERE id = ANY (family);
END $$;

-- `bury` for each of the sessions with dead owners, until `p_limit` claims have ended.
CREATE OR REPLACE FUNCTION dibs.reap(p_dead json, p_limit bigint, s dibs.settings, OUT lost text[], OUT failed text[])
LANGUAGE plpgsql AS $$
DECLARE
    dead json;
    buried record;
BEGIN
    lost := '{}';
    failed := '{}';
    FOR dead IN SELECT json_array_elements(p_dead) LOOP
        EXIT WHEN cardinality(lost) >= p_limit;
        buried := dibs.bury(dead ->> 0, dead -> 1, p_dead, p_limit - cardinality(lost), s);
        lost := lost || buried.lost;
        failed := failed || buried.failed;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION dibs.sweep(p_dead json, p_limit bigint, s dibs.settings) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at bigint := dibs.clock();
    since bigint := at - dibs.milliseconds(s.request_kept_seconds);
    moved record;
    reaped record;
BEGIN
    PERFORM dibs.feed_enter();
    moved := dibs.freshen_overdue(at, p_limit, s);
    reaped := dibs.reap(p_dead, p_limit, s);
    UPDATE dibs.claims SET look_at = expires_at WHERE ctid = ANY (ARRAY(
        SELECT x.ctid FROM dibs.claims x WHERE x.look_at <= at AND x.expires_at > at
        ORDER BY x.look_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    DELETE FROM dibs.requests WHERE ctid = ANY (ARRAY(
        SELECT x.ctid FROM dibs.requests x
        WHERE x.at < (SELECT y.at FROM dibs.requests y WHERE y.at <= since ORDER BY y.at DESC LIMIT 1 OFFSET 999)
        ORDER BY x.at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM dibs.activity WHERE id <= (SELECT max(x.id) FROM dibs.activity x) - s.activity_kept;
    UPDATE dibs.tickets SET closed_at = at, reason = 'it was not renewed' WHERE id IN (
        SELECT t.id FROM dibs.tickets t JOIN dibs.items i ON i.id = t.item
        WHERE t.closed_at IS NULL AND t.expires_at <= at AND i.offered_to IS DISTINCT FROM t.session
        LIMIT p_limit FOR NO KEY UPDATE OF i SKIP LOCKED FOR UPDATE OF t SKIP LOCKED);
    DELETE FROM dibs.tickets WHERE closed_at <= since;
    DELETE FROM dibs.soft_claims WHERE ctid = ANY (ARRAY(
        SELECT x.ctid FROM dibs.soft_claims x WHERE x.expires_at <= at FOR UPDATE SKIP LOCKED));
    RETURN json_build_object(
        'expired', to_json(moved.expired), 'owner_died', to_json(reaped.lost), 'failed', to_json(moved.failed || reaped.failed),
        'due', to_json(moved.due), 'offers', to_json(moved.offers),
        'more', greatest(cardinality(moved.expired), cardinality(moved.due), cardinality(moved.offers),
                         cardinality(reaped.lost)) >= p_limit);
END $$;
