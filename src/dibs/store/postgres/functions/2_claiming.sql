-- Claims. A refusal is an answer, not an error, because the transaction may have written steps; it has the facts, from which the
-- client's rules word the message. Locks are taken in this order: request, session, agent, resources, items, claims. Only the
-- items that `next` ends are locked before the resources that its search may lock: a claim of one of them by id can deadlock with
-- it, which the client retries.
--
-- The entry functions force plans with indexes: a plan that was made while a table was small is kept as long as its connection,
-- and would scan a table that has grown to a million rows.

-- The rows that a refusal of the claim path can depend on.
CREATE OR REPLACE FUNCTION dibs.facts(p_no text, p_now bigint, p_item text, p_session text, p_token bigint DEFAULT NULL)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    i dibs.items;
    latest dibs.runs;
    asked dibs.runs;
BEGIN
    SELECT * INTO i FROM dibs.items WHERE id = p_item;
    SELECT * INTO latest FROM dibs.runs WHERE item = p_item ORDER BY token DESC LIMIT 1;
    IF p_token IS NULL THEN
        SELECT * INTO asked FROM dibs.runs WHERE item = p_item AND session || '' = p_session ORDER BY token DESC LIMIT 1;
    ELSE
        SELECT * INTO asked FROM dibs.runs WHERE item = p_item AND token = p_token;
    END IF;
    RETURN json_build_object(
        'no', p_no, 'now', p_now,
        'item', CASE WHEN i.id IS NOT NULL THEN row_to_json(i) END,
        'claim', (SELECT row_to_json(c) FROM dibs.claims c WHERE c.item = p_item),
        'run', CASE WHEN latest.item IS NOT NULL THEN row_to_json(latest) END,
        'asked', CASE WHEN asked.item IS NOT NULL THEN row_to_json(asked) END,
        'session', (SELECT row_to_json(x) FROM dibs.sessions x WHERE x.id = p_session),
        'agent', (SELECT row_to_json(a) FROM dibs.sessions x JOIN dibs.agents a ON a.name = x.agent WHERE x.id = p_session),
        'blockers', (SELECT coalesce(json_agg(json_build_array(n.id, n.status) ORDER BY n.id), '[]')
                     FROM dibs.dependencies d
                     CROSS JOIN LATERAL (SELECT x.id, x.status FROM dibs.items x WHERE x.id = d.needs OFFSET 0) n
                     WHERE d.item = p_item AND n.status <> 'done'),
        'holds', (SELECT coalesce(json_agg(json_build_array(r, h.id, c.session, c.agent)), '[]')
                  FROM dibs.items h CROSS JOIN LATERAL (SELECT * FROM dibs.claims x WHERE x.item = h.id OFFSET 0) c,
                       unnest(h.resources) AS r
                  WHERE i.resources <> '{}' AND h.project = i.project AND h.status = 'in_progress' AND h.resources <> '{}'
                    AND c.expires_at > p_now));
END $$;

-- Why an item could not be ended as done.
CREATE OR REPLACE FUNCTION dibs.not_done(p_item text, p_token bigint, p_session text, p_must_submit text[], p_now bigint)
RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    IF p_item = ANY (p_must_submit) THEN
        RETURN dibs.facts('MUST_SUBMIT', p_now, p_item, p_session, p_token);
    ELSIF EXISTS (SELECT 1 FROM dibs.items WHERE id = p_item) THEN
        RETURN dibs.facts('FENCED', p_now, p_item, p_session, p_token);
    END IF;
    RETURN json_build_object('no', 'TASK_NOT_FOUND');
END $$;

-- With `p_recover`, claim an item again that the session lost under `p_token` (NULL: in its latest run), only if no other session
-- claimed it since. With `p_keeps_offer`, a session that another claim keeps from accepting its offer (RESOURCE_BUSY,
-- AGENT_AT_CAPACITY) does not lose it: nothing changes, and the answer says `offer_kept`. That claim may be of a dead owner, which
-- only the client can find out.
CREATE OR REPLACE FUNCTION dibs.claim(
    p_item text, p_session text, p_agent text, p_ttl double precision, p_recover boolean, p_token bigint, s dibs.settings,
    p_request text[] DEFAULT NULL, p_keeps_offer boolean DEFAULT false
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known json;
    me dibs.sessions;
    a dibs.agents;
    i dibs.items;
    c dibs.claims;
    asked dibs.runs;
    peek record;
    limits record;
    seconds double precision;
    at bigint;
    before bigint;
    no text;
    offer_fields text;
    deadline bigint;
    mine text;
    kept boolean;
BEGIN
    IF cardinality(p_request) = 1 THEN
        mine := p_request[1];
        p_request := NULL;
    END IF;
    IF p_request IS NOT NULL THEN
        known := dibs.request_known(p_request, s);
        IF known IS NOT NULL THEN
            RETURN known;
        END IF;
    END IF;
    SELECT project, resources INTO peek FROM dibs.items WHERE id = p_item;
    IF NOT FOUND THEN
        RETURN json_build_object('no', 'TASK_NOT_FOUND');
    END IF;
    SELECT * INTO me FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND OR me.ended_at IS NOT NULL THEN
        RETURN dibs.facts('SESSION_NOT_FOUND', dibs.clock(), p_item, p_session);
    ELSIF p_agent <> me.agent THEN
        RETURN dibs.facts('WRONG_AGENT', dibs.clock(), p_item, p_session);
    END IF;
    a := dibs.agent_of(me.agent);
    IF peek.resources <> '{}' THEN
        PERFORM dibs.lock_resources(peek.project);
    END IF;
    SELECT * INTO i FROM dibs.items WHERE id = p_item FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN json_build_object('no', 'TASK_NOT_FOUND');
    ELSIF (i.project, i.resources) IS DISTINCT FROM (peek.project, peek.resources) THEN
        -- The item was edited meanwhile: another project's lock is held, and the right one can no longer be taken in order.
        RAISE EXCEPTION 'the item % changed under a claim', p_item USING ERRCODE = 'serialization_failure';
    END IF;
    SELECT * INTO c FROM dibs.claims WHERE item = p_item FOR UPDATE;
    at := dibs.clock();
    seconds := dibs.ttl(me.kind, p_ttl, s);
    IF seconds IS NULL THEN
        RETURN dibs.facts('TTL', at, p_item, p_session);
    END IF;
    IF p_recover AND NOT (c.expires_at > at AND c.session = p_session AND (p_token IS NULL OR p_token = c.token)) IS TRUE THEN
        IF p_token IS NULL THEN
            SELECT * INTO asked FROM dibs.runs WHERE item = p_item AND session || '' = p_session ORDER BY token DESC LIMIT 1;
        ELSE
            SELECT * INTO asked FROM dibs.runs WHERE item = p_item AND token = p_token;
        END IF;
        IF NOT (asked.session = p_session AND asked.token = i.token
                AND coalesce(asked.outcome, 'expired') IN ('expired', 'owner_died')) IS TRUE THEN
            RETURN dibs.facts('FENCED', at, p_item, p_session, p_token);
        END IF;
    END IF;
    PERFORM dibs.feed_enter();
    before := i.revision;
    IF c.expires_at <= at OR i.offer_expires_at <= at OR i.status IN ('blocked', 'scheduled') THEN
        i := dibs.freshen(i, at, s);
        IF c.expires_at <= at THEN
            c := NULL;
        END IF;
    END IF;
    IF c.session = p_session THEN
        UPDATE dibs.claims
        SET renewed_at = at, expires_at = least(at + dibs.milliseconds(seconds), c.deadline_at), ttl_seconds = seconds,
            look_at = least(look_at, at + dibs.milliseconds(seconds))
        WHERE item = p_item RETURNING * INTO c;
        UPDATE dibs.sessions SET seen_at = at WHERE id = p_session AND NOT seen_at BETWEEN at - 4999 AND at;
        known := json_build_object('item', row_to_json(i), 'claim', row_to_json(c), 'previous', dibs.previous(i.id, c.token),
                                   'approval', CASE WHEN i.approved THEN dibs.approval(i.id) END,
                                   -- Not if an earlier attempt of the same call claimed it.
                                   'renewed', (SELECT call_id FROM dibs.runs WHERE item = p_item AND token = c.token)
                                              IS DISTINCT FROM mine OR mine IS NULL);
        IF p_request IS NOT NULL THEN
            PERFORM dibs.request_kept(p_request, 'claim', known, at);
        END IF;
        RETURN known;
    END IF;
    limits := dibs.room(a, p_session, at, 1);
    a := limits.a;
    no := CASE
        WHEN c.item IS NOT NULL THEN 'TASK_ALREADY_CLAIMED'
        WHEN i.status NOT IN ('ready', 'parked') OR dibs.rest(i, at) <> 'ready' THEN 'TASK_NOT_CLAIMABLE'
        WHEN i.offered_to <> p_session THEN 'TASK_NOT_CLAIMABLE'
        WHEN NOT dibs.may_take(a, i.action, i.approved) THEN 'FORBIDDEN'
        WHEN limits.code IS NOT NULL THEN limits.code
        WHEN i.resources <> '{}' AND dibs.in_use(i.id, i.project, i.resources, p_session, at) THEN 'RESOURCE_BUSY'
    END;
    IF no IS NOT NULL THEN
        kept := p_keeps_offer AND i.offered_to = p_session AND no IN ('RESOURCE_BUSY', 'AGENT_AT_CAPACITY');
        IF i.offered_to = p_session AND NOT kept THEN
            -- The session cannot accept its offer, so the offer goes to the next ticket.
            UPDATE dibs.tickets SET closed_at = at, reason = 'its session could not accept: ' || no
            WHERE item = p_item AND session = p_session AND closed_at IS NULL;
            i := dibs.available(i, at, s);
        END IF;
        IF i.revision > before THEN
            PERFORM dibs.save(i);
        END IF;
        IF kept IS NOT TRUE THEN
            INSERT INTO dibs.activity (at, item, session, agent, action, code, details)
            VALUES (at, p_item, p_session, me.agent, 'claim_failed', no, json_build_object(
                'status', i.status, 'holder', CASE no
                    WHEN 'TASK_ALREADY_CLAIMED' THEN json_build_object('session', c.session, 'agent', c.agent, 'token', c.token)
                    WHEN 'RESOURCE_BUSY' THEN (
                        SELECT json_build_object('session', h.session, 'agent', h.agent)
                        FROM dibs.items x CROSS JOIN LATERAL (SELECT * FROM dibs.claims y WHERE y.item = x.id OFFSET 0) h,
                             unnest(x.resources) AS r, unnest(i.resources) AS w
                        WHERE x.project = i.project AND x.status = 'in_progress' AND x.resources <> '{}' AND x.id <> p_item
                          AND h.session <> p_session AND h.expires_at > at AND dibs.overlap(r, w) LIMIT 1) END));
        END IF;
        IF no = 'TASK_ALREADY_CLAIMED' THEN
            UPDATE dibs.conflicts SET count = count + 1 WHERE slot = pg_backend_pid() & 15;
        END IF;
        RETURN json_build_object('no', no, 'held', limits.held, 'held_total', limits.held_total, 'bucket', a.bucket,
                                 'bucket_at', a.bucket_at, 'next_expiry_at', limits.next_expiry_at, 'offer_kept', kept,
                                 'facts', dibs.facts(no, at, p_item, p_session));
    END IF;
    UPDATE dibs.tickets SET closed_at = at, reason = 'it was served'
    WHERE item = p_item AND session = p_session AND closed_at IS NULL;
    deadline := at + dibs.milliseconds(i.timeout_seconds);
    offer_fields := CASE WHEN i.offered_to IS NOT NULL THEN ', "offered_to": null, "offer_expires_at": null' ELSE '' END;
    i.status := 'in_progress';
    i.updated_at := at;
    i.token := i.token + 1;
    i.attempts := i.attempts + 1;
    i.revision := i.revision + 1;
    i.offered_to := NULL;
    i.offer_expires_at := NULL;
    PERFORM dibs.save(i);
    INSERT INTO dibs.claims (item, token, session, agent, claimed_at, renewed_at, expires_at, deadline_at, ttl_seconds,
                             heartbeat_count, look_at)
    VALUES (i.id, i.token, p_session, me.agent, at, at, least(at + dibs.milliseconds(seconds), deadline), deadline, seconds, 0,
            least(at + dibs.milliseconds(seconds), deadline))
    RETURNING * INTO c;
    known := json_build_object('item', row_to_json(i), 'claim', row_to_json(c), 'previous', dibs.previous(i.id, i.token),
                               'approval', CASE WHEN i.approved THEN dibs.approval(i.id) END);
    INSERT INTO dibs.runs (item, token, session, agent, started_at, links, cost, call_id)
    VALUES (i.id, i.token, p_session, me.agent, at, '{}', '{}', mine);
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    VALUES (i.id, i.revision, 'claimed', at, 'in_progress', i.token, me.agent, p_session, me.agent,
            ('{"ttl_seconds": ' || seconds || ', "deadline_at": ' || deadline || offer_fields || '}')::json);
    UPDATE dibs.sessions SET seen_at = at WHERE id = p_session AND NOT seen_at BETWEEN at - 4999 AND at;
    PERFORM dibs.spend(a, at, 1);
    IF p_request IS NOT NULL THEN
        PERFORM dibs.request_kept(p_request, 'claim', known, at);
    END IF;
    RETURN known;
END $$;

-- The items that `next` claims: over the wanted lanes, highest priority first, then oldest. `p_lanes` and `p_lows` are the
-- caller's hints: below its low bound it lately found nothing in a lane. The items are returned locked; `lows` are new hints.
CREATE OR REPLACE FUNCTION dibs.choose(
    a dibs.agents, p_session text, p_types text[], p_projects text[], p_n bigint, p_lanes integer[], p_lows bigint[],
    p_now bigint, p_labels text[], OUT chosen text[], OUT lanes integer[], OUT lows bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    nothing_beyond CONSTANT bigint := 9223372036854775806;
    level record;
    heads bigint[];
    best integer;
    upto bigint;
    taken text[];
    last_seq bigint;
BEGIN
    chosen := '{}';
    lanes := '{}';
    lows := '{}';
    FOR level IN
        SELECT l.priority, array_agg(l.id) AS ids, array_agg(l.touches) AS touches, array_agg(l.project) AS projects,
               array_agg(coalesce(p_lows[array_position(p_lanes, l.id)], 0)) AS lows
        FROM dibs.lanes l
        WHERE (p_projects = '{}' OR l.project = ANY (p_projects))
          AND (a.types = '{}' OR l.type = ANY (a.types)) AND (p_types = '{}' OR l.type = ANY (p_types))
          AND dibs.may_take(a, l.action, l.approved)
        GROUP BY l.priority ORDER BY l.priority DESC
    LOOP
        LOOP
            best := 1;
            upto := nothing_beyond;
            IF cardinality(level.ids) > 1 THEN
                -- The lane with the oldest first item, up to the first item of another lane.
                SELECT array_agg((
                    SELECT x.seq FROM dibs.items x
                    WHERE x.status = 'ready' AND x.offered_to IS NULL AND x.lane = level.ids[k] AND x.seq >= level.lows[k]
                    ORDER BY x.seq LIMIT 1) ORDER BY k) INTO heads
                FROM generate_subscripts(level.ids, 1) AS k;
                SELECT k INTO best FROM generate_subscripts(heads, 1) AS k WHERE heads[k] IS NOT NULL ORDER BY heads[k] LIMIT 1;
                EXIT WHEN NOT FOUND;
                SELECT coalesce(min(heads[k]), nothing_beyond) INTO upto
                FROM generate_subscripts(heads, 1) AS k WHERE k <> best AND heads[k] IS NOT NULL;
            END IF;
            IF level.touches[best] THEN
                PERFORM dibs.lock_resources(level.projects[best]);
            END IF;
            SELECT array_agg(x.id), max(x.seq) INTO taken, last_seq FROM (
                SELECT y.id, y.seq FROM dibs.items y
                WHERE y.status = 'ready' AND y.offered_to IS NULL AND y.lane = level.ids[best]
                  AND y.seq >= level.lows[best] AND y.seq <= upto AND (p_labels = '{}' OR y.labels @> p_labels)
                  AND (y.resources = '{}' OR NOT dibs.in_use(y.id, y.project, y.resources, p_session, p_now))
                ORDER BY y.seq LIMIT p_n - cardinality(chosen) FOR NO KEY UPDATE SKIP LOCKED) x;
            IF last_seq IS NOT NULL AND NOT level.touches[best] AND p_labels = '{}' THEN
                lanes := lanes || level.ids[best];
                lows := lows || last_seq + 1;
            END IF;
            chosen := chosen || coalesce(taken, '{}');
            IF cardinality(chosen) >= p_n THEN
                RETURN;
            END IF;
            level.lows[best] := upto + 1;
            EXIT WHEN cardinality(level.ids) = 1;
        END LOOP;
    END LOOP;
END $$;

-- `p_done` are the items that the session has finished: all of them end first, or none. If this unblocks items, the hints are
-- dropped, because such an item may be below them. With `p_rows` the answer has `rows` in place of `grants`: lists, which take a
-- third of the bytes and are read in half the time. A kept answer has grants, so that every version can read it.
CREATE OR REPLACE FUNCTION dibs.next(
    p_session text, p_agent text, p_types text[], p_projects text[], p_n bigint, p_ttl double precision,
    p_lanes integer[], p_lows bigint[], p_thorough boolean, s dibs.settings, p_request text[] DEFAULT NULL,
    p_done text[] DEFAULT '{}', p_done_tokens bigint[] DEFAULT '{}', p_labels text[] DEFAULT '{}', p_rows boolean DEFAULT false
) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known json;
    facts json;
    me dibs.sessions;
    a dibs.agents;
    limits record;
    picked record;
    f record;
    e record;
    refused record;
    ended bigint := 0;
    moved bigint := 0;
    wanted bigint;
    seconds double precision;
    at bigint;
    began timestamptz;
    took double precision;
    grants json;
BEGIN
    IF p_request IS NOT NULL THEN
        known := dibs.request_known(p_request, s);
        IF known IS NOT NULL THEN
            RETURN known;
        END IF;
    END IF;
    SELECT * INTO me FROM dibs.sessions WHERE id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND OR me.ended_at IS NOT NULL THEN
        RETURN dibs.facts('SESSION_NOT_FOUND', dibs.clock(), NULL, p_session);
    ELSIF p_agent <> me.agent THEN
        RETURN dibs.facts('WRONG_AGENT', dibs.clock(), NULL, p_session);
    END IF;
    seconds := dibs.ttl(me.kind, p_ttl, s);
    IF seconds IS NULL THEN
        RETURN dibs.facts('TTL', dibs.clock(), NULL, p_session);
    END IF;
    a := dibs.agent_of(me.agent);
    IF p_done <> '{}' THEN
        f := dibs.finishable(p_done, p_done_tokens, p_session, a);
        ended := cardinality(f.finished);
        IF ended < cardinality(p_done) THEN
            SELECT t.item, t.token INTO refused FROM unnest(p_done, p_done_tokens) AS t (item, token)
            WHERE t.item <> ALL (f.finished) AND (
                SELECT (r.outcome = 'done' OR (r.outcome = 'submitted' AND r.draft IS NULL)) AND r.session = p_session
                FROM dibs.runs r
                WHERE r.item = t.item AND r.token = t.token) IS NOT TRUE
            ORDER BY t.item COLLATE "C" LIMIT 1;
            IF FOUND THEN
                facts := dibs.not_done(refused.item, refused.token, p_session, f.must_submit, f.at);
                RETURN json_build_object('no', facts ->> 'no', 'facts', facts, 'item', refused.item, 'token', refused.token);
            END IF;
        END IF;
    END IF;
    PERFORM dibs.feed_enter();
    IF ended > 0 THEN
        e := dibs.end_as_done(f.finished, f.reviewed, p_session, me.agent, NULL, NULL, NULL, false, f.at, s);
        moved := e.moved;
        IF moved > 0 THEN
            p_lanes := '{}';
            p_lows := '{}';
        END IF;
    END IF;
    FOR look IN 1..2 LOOP
        at := dibs.clock();
        began := clock_timestamp();
        IF p_thorough THEN
            PERFORM dibs.freshen_overdue(at, 2000, s);
        END IF;
        wanted := p_n;
        IF a.max_claims IS NOT NULL OR a.max_claims_total IS NOT NULL OR a.claims_per_minute IS NOT NULL THEN
            limits := dibs.room(a, p_session, at, p_n);
            a := limits.a;
            wanted := limits.n;
        END IF;
        IF wanted <= 0 THEN
            RETURN json_build_object('no', limits.code, 'held', limits.held, 'held_total', limits.held_total,
                                     'bucket', a.bucket, 'bucket_at', a.bucket_at, 'next_expiry_at', limits.next_expiry_at,
                                     'facts', dibs.facts(limits.code, at, NULL, p_session), 'ended', ended, 'moved', moved);
        END IF;
        picked := dibs.choose(a, p_session, p_types, p_projects, wanted, p_lanes, p_lows, at, p_labels);
        took := extract(epoch FROM clock_timestamp() - began);
        EXIT WHEN picked.chosen <> '{}' OR p_thorough;
        -- An empty answer is given only after a full search.
        p_thorough := true;
        p_lanes := '{}';
        p_lows := '{}';
    END LOOP;
    IF picked.chosen = '{}' THEN
        UPDATE dibs.sessions SET seen_at = at WHERE id = p_session AND NOT (seen_at > at - 3600000 AND seen_at <= at);
        RETURN json_build_object('grants', '[]'::json, 'thorough', true, 'look_seconds', took, 'ended', ended, 'moved', moved);
    END IF;
    at := dibs.clock();
    WITH taken AS (
        UPDATE dibs.items x
        SET status = 'in_progress', updated_at = at, token = x.token + 1, attempts = x.attempts + 1, revision = x.revision + 1
        WHERE x.id = ANY (picked.chosen) RETURNING
            x.*, at + dibs.milliseconds(x.timeout_seconds) AS deadline_at,
            at + dibs.milliseconds(least(seconds, x.timeout_seconds)) AS expires_at
    ), claimed AS (
        INSERT INTO dibs.claims (item, token, session, agent, claimed_at, renewed_at, expires_at, deadline_at, ttl_seconds,
                                 heartbeat_count, look_at)
        SELECT t.id, t.token, p_session, me.agent, at, at, t.expires_at, t.deadline_at, seconds, 0, t.expires_at FROM taken t
    ), begun AS (
        INSERT INTO dibs.runs (item, token, session, agent, started_at, links, cost)
        SELECT t.id, t.token, p_session, me.agent, at, '{}', '{}' FROM taken t ORDER BY t.priority DESC, t.seq
    ), logged AS (
        INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
        SELECT t.id, t.revision, 'claimed', at, 'in_progress', t.token, me.agent, p_session, me.agent,
               ('{"ttl_seconds": ' || seconds || ', "deadline_at": ' || t.deadline_at || '}')::json
        FROM taken t ORDER BY t.priority DESC, t.seq
    ), seen AS (
        UPDATE dibs.sessions SET seen_at = at WHERE id = p_session AND NOT seen_at BETWEEN at - 4999 AND at
    )
    SELECT json_agg(CASE WHEN p_rows THEN json_build_array(
               t.expires_at, t.deadline_at, p.previous, p.approval, @fields_of_t)
           ELSE json_build_object('item', row_to_json(t), 'previous', p.previous, 'approval', p.approval) END
           ORDER BY t.priority DESC, t.seq) INTO grants
    FROM taken t CROSS JOIN LATERAL (
        SELECT CASE WHEN t.attempts > 1 THEN dibs.previous(t.id, t.token) END AS previous,
               CASE WHEN t.approved THEN dibs.approval(t.id) END AS approval) p;
    IF a.claims_per_minute IS NOT NULL THEN
        PERFORM dibs.spend(a, at, cardinality(picked.chosen));
    END IF;
    IF p_request IS NOT NULL THEN
        PERFORM dibs.request_kept(p_request, 'next', json_build_object(
            'grants', grants, 'session', p_session, 'agent', me.agent, 'ttl_seconds', seconds), at);
    END IF;
    RETURN json_build_object(CASE WHEN p_rows THEN 'rows' ELSE 'grants' END, grants, 'session', p_session, 'agent', me.agent,
                             'ttl_seconds', seconds, 'lanes', to_json(picked.lanes), 'lows', to_json(picked.lows),
                             'thorough', p_thorough, 'look_seconds', took, 'ended', ended, 'moved', moved);
END $$;
