-- Fenced verbs. Each takes effect iff (item, token, session) is the live claim once the locks are held; otherwise it changes
-- nothing and returns the facts.

-- The fence: the item and the live claim that this session holds of it, both locked; or `no`.
CREATE OR REPLACE FUNCTION dibs.held(
    p_item text, p_session text, p_token bigint, OUT i dibs.items, OUT c dibs.claims, OUT at bigint, OUT no json
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE;
    SELECT * INTO i FROM dibs.items WHERE id = p_item FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        no := json_build_object('no', 'TASK_NOT_FOUND');
        RETURN;
    END IF;
    SELECT * INTO c FROM dibs.claims WHERE item = p_item FOR UPDATE;
    at := dibs.clock();
    IF c.expires_at > at AND c.session = p_session AND (p_token IS NULL OR p_token = c.token) THEN
        RETURN;
    END IF;
    no := dibs.facts('FENCED', at, p_item, p_session, p_token);
END $$;

-- Whether a heartbeat renews a claim: the last renewal is long enough ago, or in the future, after the clock was set back.
CREATE OR REPLACE FUNCTION dibs.is_due(
    p_renewed_at bigint, p_ttl double precision, p_every double precision, p_now bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_every IS NULL
        OR NOT p_renewed_at BETWEEN p_now - least(dibs.milliseconds(p_every), dibs.milliseconds(p_ttl / 3)) + 1 AND p_now
$$;

CREATE OR REPLACE FUNCTION dibs.renew(
    p_item text, p_session text, p_token bigint, p_ttl double precision, s dibs.settings,
    p_every double precision DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    h record;
    c dibs.claims;
    kind text;
    seconds double precision;
BEGIN
    h := dibs.held(p_item, p_session, p_token);
    IF h.no IS NOT NULL THEN
        RETURN h.no;
    END IF;
    SELECT x.kind INTO kind FROM dibs.sessions x WHERE x.id = p_session AND x.ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN dibs.facts('SESSION_NOT_FOUND', h.at, p_item, p_session);
    END IF;
    c := h.c;
    seconds := CASE WHEN p_ttl IS NULL THEN c.ttl_seconds ELSE dibs.ttl(kind, p_ttl, s) END;
    IF seconds IS NULL THEN
        RETURN dibs.facts('TTL', h.at, p_item, p_session);
    END IF;
    IF seconds = c.ttl_seconds AND NOT dibs.is_due(c.renewed_at, c.ttl_seconds, p_every, h.at) THEN
        RETURN json_build_object('now', h.at, 'claim', row_to_json(c), 'renewed', false);
    END IF;
    UPDATE dibs.claims
    SET renewed_at = h.at, expires_at = least(h.at + dibs.milliseconds(seconds), deadline_at), ttl_seconds = seconds,
        heartbeat_count = heartbeat_count + 1, look_at = least(look_at, h.at + dibs.milliseconds(seconds))
    WHERE item = p_item RETURNING * INTO c;
    UPDATE dibs.sessions SET seen_at = h.at WHERE id = p_session AND NOT seen_at BETWEEN h.at - 4999 AND h.at;
    RETURN json_build_object('now', h.at, 'claim', row_to_json(c));
END $$;

CREATE OR REPLACE FUNCTION dibs.progress(
    p_item text, p_session text, p_token bigint, p_note text, p_meta text, s dibs.settings, p_request text[] DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    h record;
    c dibs.claims;
    answer json;
BEGIN
    IF p_request IS NOT NULL THEN
        answer := dibs.request_known(p_request, s);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    h := dibs.held(p_item, p_session, p_token);
    IF h.no IS NOT NULL THEN
        RETURN h.no;
    END IF;
    PERFORM dibs.feed_enter();
    UPDATE dibs.claims
    SET renewed_at = h.at, expires_at = least(h.at + dibs.milliseconds(ttl_seconds), deadline_at),
        heartbeat_count = heartbeat_count + 1, look_at = least(look_at, h.at + dibs.milliseconds(ttl_seconds))
    WHERE item = p_item RETURNING * INTO c;
    UPDATE dibs.items SET updated_at = h.at, revision = revision + 1 WHERE id = p_item;
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    VALUES (p_item, (h.i).revision + 1, 'progress', h.at, (h.i).status, (h.i).token, c.agent, c.session, c.agent,
            ('{"note": ' || to_json(p_note)::text || ', "meta": ' || p_meta || '}')::json);
    UPDATE dibs.sessions SET seen_at = h.at WHERE id = p_session AND NOT seen_at BETWEEN h.at - 4999 AND h.at;
    answer := json_build_object('now', h.at, 'claim', row_to_json(c));
    IF p_request IS NOT NULL THEN
        PERFORM dibs.request_kept(p_request, 'progress', answer, h.at);
    END IF;
    RETURN answer;
END $$;

-- release, fail and submit.
CREATE OR REPLACE FUNCTION dibs.finish(
    p_verb text, p_item text, p_session text, p_token bigint, p_reason text, p_park boolean, p_draft text, p_links text,
    p_cost text, p_uniform double precision, s dibs.settings, p_request text[] DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    h record;
    i dibs.items;
    c dibs.claims;
    r dibs.runs;
    answer json;
    mine text;
BEGIN
    IF cardinality(p_request) = 1 THEN
        mine := p_request[1];
        p_request := NULL;
    END IF;
    IF p_request IS NOT NULL THEN
        answer := dibs.request_known(p_request, s);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    h := dibs.held(p_item, p_session, p_token);
    IF h.no IS NOT NULL THEN
        RETURN h.no;
    END IF;
    i := h.i;
    c := h.c;
    PERFORM dibs.feed_enter();
    CASE p_verb
    WHEN 'release' THEN
        i := dibs.end_run(i, c, 'released', CASE WHEN p_park THEN 'parked' ELSE dibs.rest(i, h.at) END, h.at, NULL, p_reason,
                          p_call_id => mine);
    WHEN 'fail' THEN
        i.failures := i.failures + 1;
        IF i.failures <= i.retries THEN
            i.not_before := h.at + dibs.milliseconds(p_uniform * least(
                s.retry_backoff_seconds_max, s.retry_backoff_seconds * power(2.0::double precision, least(i.failures - 1, 62))));
            i := dibs.end_run(i, c, 'failed', dibs.rest(i, h.at), h.at, NULL, p_reason, NULL, p_links, p_cost,
                              '"failures": ' || i.failures || ', "not_before": ' || i.not_before, mine);
        ELSE
            i := dibs.end_run(i, c, 'failed', 'failed', h.at, NULL, p_reason, NULL, p_links, p_cost,
                              '"failures": ' || i.failures, mine);
        END IF;
    WHEN 'submit' THEN
        i.needs_approval := true;
        i.approved := false;
        UPDATE dibs.items SET needs_approval = true, approved = false WHERE id = i.id;
        i := dibs.end_run(i, c, 'submitted', 'pending_approval', h.at, NULL, p_reason, p_draft, p_links, p_cost,
                          '"needs_approval": true, "approved": false', mine);
    END CASE;
    i := dibs.follow(i, h.at, s);
    PERFORM dibs.save(i);
    UPDATE dibs.sessions SET seen_at = h.at WHERE id = p_session AND NOT seen_at BETWEEN h.at - 4999 AND h.at;
    SELECT * INTO r FROM dibs.runs WHERE item = c.item AND token = c.token;
    answer := json_build_object('item', row_to_json(i), 'run', row_to_json(r));
    IF p_request IS NOT NULL THEN
        PERFORM dibs.request_kept(p_request, 'finish', answer, h.at);
    END IF;
    RETURN answer;
END $$;

-- `done` for one or many items, each fenced by itself. The held ones end in one statement; for each of the others the answer has
-- the facts of a refusal.
CREATE OR REPLACE FUNCTION dibs.done(
    p_items text[], p_tokens bigint[], p_session text, p_reason text, p_links text, p_cost text, p_many boolean,
    s dibs.settings, p_request text[] DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a dibs.agents;
    f record;
    e record;
    ended json[] := '{}';
    moved bigint := 0;
    others json[] := '{}';
    one record;
    answer json;
    mine text;
BEGIN
    IF cardinality(p_request) = 1 THEN
        mine := p_request[1];
        p_request := NULL;
    END IF;
    IF p_request IS NOT NULL THEN
        answer := dibs.request_known(p_request, s);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    SELECT x.agent INTO a.name FROM dibs.sessions x WHERE x.id = p_session FOR NO KEY UPDATE;
    SELECT * INTO a FROM dibs.agents WHERE name = a.name;
    f := dibs.finishable(p_items, p_tokens, p_session, a);
    IF f.finished <> '{}' THEN
        PERFORM dibs.feed_enter();
        e := dibs.end_as_done(f.finished, f.reviewed, p_session, a.name, p_reason, p_links, p_cost, true, f.at, s, mine);
        ended := e.told;
        moved := e.moved;
    END IF;
    IF cardinality(f.finished) < cardinality(p_items) THEN
        FOR one IN
            SELECT * FROM unnest(p_items, p_tokens) AS t (item, token)
            WHERE t.item <> ALL (f.finished) ORDER BY t.item COLLATE "C"
        LOOP
            others := others || json_build_object(
                'item', one.item, 'token', one.token,
                'answer', dibs.not_done(one.item, one.token, p_session, f.must_submit, f.at));
        END LOOP;
    END IF;
    answer := json_build_object('session', p_session, 'moved', moved, 'each', to_json(ended || others));
    -- That one item is not done is a refusal; that none of many is, is an answer.
    IF p_request IS NOT NULL AND (p_many OR f.finished <> '{}') THEN
        PERFORM dibs.request_kept(p_request, CASE WHEN p_many THEN 'done_many' ELSE 'done' END, answer, f.at);
    END IF;
    RETURN answer;
END $$;

-- The meta of a session with these changes, of which null removes a name; and its size, counted as the rules do.
CREATE OR REPLACE FUNCTION dibs.merged_meta(p_meta json, p_changes json, OUT meta text, OUT size bigint) LANGUAGE sql STABLE AS $$
    SELECT '{' || coalesce(string_agg(to_json(n.key)::text || ': ' || n.value, ', ' ORDER BY n.place, n.added), '') || '}',
           coalesce(sum(octet_length(n.key) + octet_length(n.value) + 6), 0)
    FROM (
        SELECT coalesce(x.key, y.key) AS key, coalesce(y.value, x.value)::text AS value, x.place, y.place AS added
        FROM json_each(p_meta) WITH ORDINALITY AS x (key, value, place)
        FULL JOIN json_each(p_changes) WITH ORDINALITY AS y (key, value, place) ON y.key = x.key
        WHERE y.key IS NULL OR json_typeof(y.value) <> 'null'
    ) n
$$;

-- Renew every live claim of the session. `p_items` (NULL: not given) are the items that it believes to hold: its live claims of
-- other items are released as forgotten, and items of `p_items` that it does not hold are answered as lost.
CREATE OR REPLACE FUNCTION dibs.heartbeat(
    p_session text, p_items text[], p_tokens bigint[], s dibs.settings, p_known_event bigint DEFAULT NULL,
    p_every double precision DEFAULT NULL, p_meta text DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me dibs.sessions;
    at bigint;
    each text;
    i dibs.items;
    c dibs.claims;
    forgotten text[] := '{}';
    renewed json;
    kept text[];
    due text[];
    lost json[] := '{}';
    k integer;
    merged record;
BEGIN
    SELECT * INTO me FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND OR me.ended_at IS NOT NULL THEN
        RETURN dibs.facts('SESSION_NOT_FOUND', dibs.clock(), NULL, p_session);
    END IF;
    IF p_meta IS NOT NULL THEN
        merged := dibs.merged_meta(me.meta, p_meta::json);
        IF merged.size > 16000 THEN
            RETURN json_build_object('no', 'META', 'size', merged.size);
        END IF;
    END IF;
    IF p_items IS NOT NULL AND EXISTS (
        SELECT 1 FROM dibs.claims x WHERE x.session = p_session AND x.item <> ALL (p_items)
    ) THEN
        PERFORM dibs.feed_enter();
        FOR each IN
            SELECT x.item FROM dibs.claims x WHERE x.session = p_session AND x.item <> ALL (p_items) ORDER BY x.item
        LOOP
            SELECT * INTO i FROM dibs.items WHERE id = each FOR NO KEY UPDATE;
            SELECT * INTO c FROM dibs.claims WHERE item = each FOR UPDATE;
            at := dibs.clock();
            CONTINUE WHEN c.session IS DISTINCT FROM p_session OR c.expires_at <= at
                OR (SELECT e.id FROM dibs.events e WHERE e.item = each AND e.token = c.token ORDER BY e.number LIMIT 1)
                   > p_known_event;
            i := dibs.end_run(i, c, 'forgotten', dibs.rest(i, at), at, NULL, 'the session''s heartbeat did not list it');
            i := dibs.follow(i, at, s);
            PERFORM dibs.save(i);
            forgotten := forgotten || each;
        END LOOP;
    END IF;
    PERFORM 1 FROM dibs.claims x WHERE x.session = p_session ORDER BY x.item FOR UPDATE;
    at := dibs.clock();
    WITH updated AS (
        UPDATE dibs.claims x
        SET renewed_at = at, expires_at = least(at + dibs.milliseconds(x.ttl_seconds), x.deadline_at),
            heartbeat_count = x.heartbeat_count + 1, look_at = least(x.look_at, at + dibs.milliseconds(x.ttl_seconds))
        WHERE x.session = p_session AND x.expires_at > at AND dibs.is_due(x.renewed_at, x.ttl_seconds, p_every, at)
        RETURNING x.*
    )
    SELECT json_agg(row_to_json(u) ORDER BY u.item), array_agg(u.item || ' ' || u.token), array_agg(u.item)
    INTO renewed, kept, due FROM updated u;
    UPDATE dibs.soft_claims x SET expires_at = at + dibs.milliseconds(x.ttl_seconds)
    WHERE x.session = p_session AND x.expires_at > at
      AND dibs.is_due(x.expires_at - dibs.milliseconds(x.ttl_seconds), x.ttl_seconds, p_every, at);
    IF p_every IS NOT NULL THEN
        SELECT json_agg(row_to_json(x) ORDER BY x.item), array_agg(x.item || ' ' || x.token) INTO renewed, kept
        FROM dibs.claims x WHERE x.session = p_session AND x.expires_at > at;
    END IF;
    IF due IS NOT NULL OR (renewed IS NULL AND dibs.is_due(me.seen_at, p_every * 3, p_every, at)) THEN
        IF p_meta IS NOT NULL THEN
            UPDATE dibs.sessions SET meta = merged.meta::json, seen_at = at WHERE id = p_session;
        ELSE
            UPDATE dibs.sessions SET seen_at = at WHERE id = p_session AND NOT seen_at BETWEEN at - 4999 AND at;
        END IF;
    END IF;
    IF p_items IS NULL THEN
        SELECT array_agg(x.item), array_agg(x.token) INTO p_items, p_tokens
        FROM dibs.claims x WHERE x.session = p_session AND x.expires_at <= at;
    END IF;
    FOR k IN 1..coalesce(cardinality(p_items), 0) LOOP
        CONTINUE WHEN p_items[k] || ' ' || p_tokens[k] = ANY (kept)
            OR (p_tokens[k] IS NULL AND EXISTS (
                SELECT 1 FROM dibs.claims x WHERE x.item = p_items[k] AND x.session || '' = p_session AND x.expires_at > at));
        lost := lost || json_build_object('item', p_items[k], 'token', p_tokens[k],
                                          'facts', dibs.facts('FENCED', at, p_items[k], p_session, p_tokens[k]));
    END LOOP;
    RETURN json_build_object('now', at, 'renewed', coalesce(renewed, '[]'), 'due', coalesce(due, '{}'), 'lost', to_json(lost),
                             'forgotten', to_json(forgotten),
                             'event', (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM dibs.events_id_seq));
END $$;

CREATE OR REPLACE FUNCTION dibs.force_release(
    p_item text, p_actor text, p_reason text, p_token bigint, s dibs.settings, p_request text[] DEFAULT NULL
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    i dibs.items;
    c dibs.claims;
    r dibs.runs;
    at bigint;
    before bigint;
    answer json;
BEGIN
    IF p_request IS NOT NULL THEN
        answer := dibs.request_known(p_request, s);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    SELECT * INTO i FROM dibs.items WHERE id = p_item FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN json_build_object('no', 'TASK_NOT_FOUND');
    END IF;
    SELECT * INTO c FROM dibs.claims WHERE item = p_item FOR UPDATE;
    at := dibs.clock();
    PERFORM dibs.feed_enter();
    IF c.expires_at <= at OR i.offer_expires_at <= at OR i.status IN ('blocked', 'scheduled') THEN
        -- An expired claim is lost, whether or not the expiry was recorded.
        before := i.revision;
        i := dibs.freshen(i, at, s);
        IF i.revision > before THEN
            PERFORM dibs.save(i);
        END IF;
        RETURN dibs.facts('FORCE', at, p_item, NULL);
    ELSIF c.item IS NULL OR p_token <> c.token THEN
        RETURN dibs.facts('FORCE', at, p_item, NULL);
    END IF;
    i := dibs.end_run(i, c, 'force_released', dibs.rest(i, at), at, p_actor, p_reason);
    i := dibs.follow(i, at, s);
    PERFORM dibs.save(i);
    SELECT * INTO r FROM dibs.runs WHERE item = c.item AND token = c.token;
    answer := json_build_object('item', row_to_json(i), 'run', row_to_json(r));
    IF p_request IS NOT NULL THEN
        PERFORM dibs.request_kept(p_request, 'finish', answer, at);
    END IF;
    RETURN answer;
END $$;
