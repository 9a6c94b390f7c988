-- The sweep: expired claims, claims of dead owners, schedules that have come, lapsed offers, outdated rows.

-- End the claims of a session whose owner was found dead, unless the session has ended or has another owner by now. The session
-- ends once it has no claims. Locked items are left for the next sweep.
CREATE OR REPLACE FUNCTION dibs.bury(p_session text, p_owner json, p_limit bigint, s dibs.settings, OUT lost text[], OUT failed text[])
LANGUAGE plpgsql AS $$
DECLARE
    me dibs.sessions;
    each text;
    i dibs.items;
    c dibs.claims;
    at bigint;
    skipped boolean := false;
    seen bigint := 0;
BEGIN
    lost := '{}';
    failed := '{}';
    SELECT * INTO me FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR me.ended_at IS NOT NULL OR (me.boot_id, me.pid_namespace, me.pid, me.start_time) IS DISTINCT FROM
       (p_owner ->> 'boot_id', (p_owner ->> 'pid_namespace')::bigint, (p_owner ->> 'pid')::bigint,
        (p_owner ->> 'start_time')::bigint) THEN
        RETURN;
    END IF;
    FOR each IN
        SELECT x.item FROM (SELECT item FROM dibs.claims WHERE session = p_session OFFSET 0) x ORDER BY x.item LIMIT p_limit
    LOOP
        seen := seen + 1;
        SELECT * INTO i FROM dibs.items WHERE id = each FOR NO KEY UPDATE SKIP LOCKED;
        skipped := skipped OR NOT FOUND;
        CONTINUE WHEN NOT FOUND;
        SELECT * INTO c FROM dibs.claims WHERE item = each FOR UPDATE SKIP LOCKED;
        skipped := skipped OR NOT FOUND;
        CONTINUE WHEN NOT FOUND OR c.session <> p_session;
        at := dibs.clock();
        i := dibs.strike(i, c, CASE WHEN c.expires_at > at THEN 'owner_died' ELSE 'expired' END, at, s);
        PERFORM dibs.save(i);
        IF c.expires_at > at THEN
            lost := lost || each;
            IF i.status = 'failed' THEN
                failed := failed || each;
            END IF;
        END IF;
    END LOOP;
    IF skipped OR seen >= p_limit THEN
        RETURN;
    END IF;
    FOR each IN
        SELECT t.item FROM (SELECT item FROM dibs.tickets WHERE session = p_session AND closed_at IS NULL OFFSET 0) t
        ORDER BY t.item
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = each FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        at := dibs.clock();
        UPDATE dibs.tickets SET closed_at = at, reason = 'its session ended'
        WHERE item = each AND session = p_session AND closed_at IS NULL;
        IF i.offered_to = p_session THEN
            i := dibs.available(i, at, s);
            PERFORM dibs.save(i);
        END IF;
    END LOOP;
    DELETE FROM dibs.soft_claims WHERE session = p_session;
    UPDATE dibs.sessions SET ended_at = dibs.clock(), end_reason = 'its owner process died' WHERE id = p_session;
END $$;

CREATE OR REPLACE FUNCTION dibs.sweep(p_dead json, p_limit bigint, s dibs.settings) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at bigint := dibs.clock();
    since bigint := at - dibs.milliseconds(s.request_kept_seconds);
    moved record;
    dead json;
    reaped record;
    owner_died text[] := '{}';
    failed text[];
BEGIN
    PERFORM dibs.feed_enter();
    moved := dibs.freshen_overdue(at, p_limit, s);
    failed := moved.failed;
    FOR dead IN SELECT json_array_elements(p_dead) LOOP
        EXIT WHEN cardinality(owner_died) >= p_limit;
        reaped := dibs.bury(dead ->> 0, dead -> 1, p_limit - cardinality(owner_died), s);
        owner_died := owner_died || reaped.lost;
        failed := failed || reaped.failed;
    END LOOP;
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
        'expired', to_json(moved.expired), 'owner_died', to_json(owner_died), 'failed', to_json(failed),
        'due', to_json(moved.due), 'offers', to_json(moved.offers),
        'more', greatest(cardinality(moved.expired), cardinality(moved.due), cardinality(moved.offers),
                         cardinality(owner_died)) >= p_limit);
END $$;
