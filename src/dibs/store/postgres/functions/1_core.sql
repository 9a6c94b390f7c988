-- Functions that the functions of the verbs share. They restate `dibs.rules` for the verbs that have to be one round trip; tests
-- run the same inputs through both. The row of an item is changed in a variable `i` and saved once; events are written at once.

-- Names without a schema resolve in pg_catalog alone. Otherwise a role that may create functions or operators in a schema of the
-- search path could make other roles run them, because PostgreSQL prefers an exact match of types to pg_catalog. So the functions
-- that clients, triggers and views call set their own search path, and those that they call inherit it. A few functions are
-- called too often for that: these qualify every name with its schema, or use only exact matches.

-- The board's clock. A lease is never compared with the start time of a transaction or with a client's clock.
CREATE OR REPLACE FUNCTION dibs.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::bigint $$;

CREATE OR REPLACE FUNCTION dibs.milliseconds(p_seconds double precision) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT round(p_seconds * 1000)::bigint $$;

-- The feed. An event gets its id before its transaction commits, so a reader could skip it. A transaction that is about to write
-- events therefore holds a shared lock that names the highest id given by then; up to the lowest of these ids, no event can
-- still appear. (An order by transaction ids needs no locks, but any long transaction in the cluster would delay the whole
-- feed.)
CREATE OR REPLACE FUNCTION dibs.feed_enter() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'dibs needs the isolation level read committed, so that a statement after a lock sees all earlier commits'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM pg_advisory_xact_lock_shared((25698::bigint << 48) | (CASE WHEN is_called THEN last_value ELSE 0 END))
    FROM dibs.events_id_seq;
END $$;

CREATE OR REPLACE FUNCTION dibs.feed_end() RETURNS bigint LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest bigint;
    open_from bigint;
BEGIN
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO newest FROM dibs.events_id_seq;
    SELECT min(((l.classid::bigint & 65535) << 32) | l.objid::bigint) INTO open_from
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid::bigint >> 16 = 25698
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    RETURN least(newest, open_from);
END $$;

-- Lock an item, and its claim, which a heartbeat changes without a lock of the item; then read the clock.
CREATE OR REPLACE FUNCTION dibs.lock_item(p_item text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dibs.items WHERE id = p_item FOR NO KEY UPDATE;
    PERFORM 1 FROM dibs.claims WHERE item = p_item FOR UPDATE;
    RETURN dibs.clock();
END $$;

-- Each waiting session listens on its own channel, so that a change of its ticket wakes no other session.
CREATE OR REPLACE FUNCTION dibs.tell_session(p_session text) RETURNS void LANGUAGE sql AS
$$ SELECT pg_notify('dibs_' || md5(p_session), '') $$;

-- Lanes

CREATE OR REPLACE FUNCTION dibs.put_in_lane() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touching boolean := NEW.resources OPERATOR(pg_catalog.<>) '{}';
BEGIN
    SELECT l.id INTO NEW.lane FROM dibs.lanes l
    WHERE l.project = NEW.project AND l.type = NEW.type AND l.action = NEW.action AND l.approved = NEW.approved
      AND l.touches = touching AND l.priority = NEW.priority;
    IF NOT FOUND THEN
        INSERT INTO dibs.lanes (project, type, action, approved, touches, priority)
        VALUES (NEW.project, NEW.type, NEW.action, NEW.approved, touching, NEW.priority)
        ON CONFLICT DO NOTHING RETURNING id INTO NEW.lane;
        IF NOT FOUND THEN
            SELECT l.id INTO STRICT NEW.lane FROM dibs.lanes l
            WHERE l.project = NEW.project AND l.type = NEW.type AND l.action = NEW.action AND l.approved = NEW.approved
              AND l.touches = touching AND l.priority = NEW.priority;
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- Created once: to replace a trigger locks the table.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'dibs.items'::regclass AND tgname = 'lane_of_changed') THEN
        CREATE TRIGGER lane_of_new BEFORE INSERT ON dibs.items FOR EACH ROW EXECUTE FUNCTION dibs.put_in_lane();
        CREATE TRIGGER lane_of_changed
            BEFORE UPDATE OF project, type, action, approved, resources, priority ON dibs.items FOR EACH ROW
            WHEN ((OLD.project, OLD.type, OLD.action, OLD.approved, OLD.resources, OLD.priority)
                  IS DISTINCT FROM (NEW.project, NEW.type, NEW.action, NEW.approved, NEW.resources, NEW.priority))
            EXECUTE FUNCTION dibs.put_in_lane();
    END IF;
END $$;

-- Requests: {actor, id, fingerprint}. The lock makes a concurrent duplicate wait for the answer of the first. A call without a
-- request id may pass {call_id}, which is random and the same for all attempts of the call: no answer is kept under it, but the
-- run that the call opens or ends is marked with it, so that a second attempt recognises the work of the first.

CREATE OR REPLACE FUNCTION dibs.request_known(p_request text[], s dibs.settings) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    r dibs.requests;
BEGIN
    PERFORM pg_advisory_xact_lock(25699, hashtext(p_request[1] || chr(31) || p_request[2]));
    -- Locked, so that the reader has something to commit: with a synchronous standby, its COMMIT then waits until the kept answer
    -- is there.
    SELECT * INTO r FROM dibs.requests WHERE actor = p_request[1] AND id = p_request[2] FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF r.fingerprint <> p_request[3] THEN
        RETURN json_build_object('no', 'REQUEST_REUSED');
    ELSIF r.shape IS NULL THEN
        RETURN json_build_object('wire', r.answer::json);
    END IF;
    RETURN r.answer::json;
END $$;

CREATE OR REPLACE FUNCTION dibs.request_kept(p_request text[], p_shape text, p_answer json, p_now bigint) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO dibs.requests (actor, id, fingerprint, answer, at, shape)
    VALUES (p_request[1], p_request[2], p_request[3], p_answer::text, p_now, p_shape)
    ON CONFLICT (actor, id) DO UPDATE
    SET fingerprint = excluded.fingerprint, answer = excluded.answer, at = excluded.at, shape = excluded.shape
$$;

-- The status of an item while no session holds it. The caller has locked the item in an earlier statement, so that of two
-- transactions that each end a dependency at once, the second sees both ends.
CREATE OR REPLACE FUNCTION dibs.rest(i dibs.items, p_now bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF i.needs_approval THEN
        RETURN 'pending_approval';
    ELSIF i.depends_on <> '{}' AND EXISTS (
        SELECT 1 FROM dibs.dependencies d
        WHERE d.item = i.id AND (SELECT n.status FROM dibs.items n WHERE n.id = d.needs) <> 'done'
    ) THEN
        RETURN 'blocked';
    ELSIF i.not_before > p_now THEN
        RETURN 'scheduled';
    END IF;
    RETURN 'ready';
END $$;

-- Why a claim of an item with this payload that ends without a result cancels the item.
CREATE OR REPLACE FUNCTION dibs.over(p_payload json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE pg_catalog.json_typeof(pg_catalog.json_extract_path(p_payload, 'external', 'over'))
           WHEN 'string' THEN nullif(pg_catalog.json_extract_path_text(p_payload, 'external', 'over'), '') END
$$;

-- Offer a ready item to its first live ticket, or make it claimable by every session.
CREATE OR REPLACE FUNCTION dibs.available(INOUT i dibs.items, p_now bigint, s dibs.settings) LANGUAGE plpgsql AS $$
DECLARE
    first record;
BEGIN
    UPDATE dibs.tickets SET closed_at = p_now, reason = 'it was not renewed'
    WHERE item = i.id AND closed_at IS NULL AND expires_at <= p_now;
    SELECT session, agent INTO first FROM dibs.tickets WHERE item = i.id AND closed_at IS NULL ORDER BY id LIMIT 1;
    i.updated_at := p_now;
    i.revision := i.revision + 1;
    i.offered_to := first.session;
    i.offer_expires_at := CASE WHEN first.session IS NOT NULL THEN p_now + dibs.milliseconds(s.accept_seconds) END;
    IF first.session IS NOT NULL THEN
        PERFORM dibs.tell_session(first.session);
    END IF;
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    VALUES (i.id, i.revision, CASE WHEN first.session IS NULL THEN 'claimable' ELSE 'offered' END, p_now, 'ready', i.token,
            'dibs', first.session, first.agent,
            json_build_object('offered_to', i.offered_to, 'offer_expires_at', i.offer_expires_at));
END $$;

-- After a step: an ended item closes its tickets, an item that became ready is offered.
CREATE OR REPLACE FUNCTION dibs.follow(INOUT i dibs.items, p_now bigint, s dibs.settings) LANGUAGE plpgsql AS $$
DECLARE
    notified bigint;
BEGIN
    IF i.status IN ('done', 'failed', 'rejected', 'cancelled') THEN
        WITH closed AS (
            UPDATE dibs.tickets SET closed_at = p_now, reason = 'the item is ' || i.status
            WHERE item = i.id AND closed_at IS NULL RETURNING session
        )
        SELECT count(dibs.tell_session(session)) INTO notified FROM closed;
    ELSIF i.status = 'ready' THEN
        i := dibs.available(i, p_now, s);
    END IF;
END $$;

-- Write a changed item. In plpgsql, because an SQL function would be planned for each call. The columns of the lane are left out,
-- because their update would run a trigger.
CREATE OR REPLACE FUNCTION dibs.save(i dibs.items) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dibs.items
    SET status = i.status, updated_at = i.updated_at, attempts = i.attempts, strikes = i.strikes, failures = i.failures,
        token = i.token, revision = i.revision, not_before = i.not_before, offered_to = i.offered_to,
        offer_expires_at = i.offer_expires_at
    WHERE id = i.id;
END $$;

-- A JSON object with the entries of another one: each is added, or replaces the one of its name in its place.
CREATE OR REPLACE FUNCTION dibs.merged_object(p_object json, p_more json) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT ('{' || coalesce(string_agg(to_json(n.key)::text || ': ' || n.value, ', ' ORDER BY n.place, n.added), '') || '}')::json
    FROM (
        SELECT coalesce(x.key, y.key) AS key, CASE WHEN y.key IS NULL THEN x.value ELSE y.value END::text AS value,
               x.place, y.place AS added
        FROM json_each(p_object) WITH ORDINALITY AS x (key, value, place)
        FULL JOIN json_each(p_more) WITH ORDINALITY AS y (key, value, place) ON y.key = x.key
    ) n
$$;

-- The end of a run: delete the claim, close the run, and write the event, which names the former holder. `p_told` is the other
-- changed fields of the item, as text between the braces of a JSON object; `p_call_id` marks the run.
CREATE OR REPLACE FUNCTION dibs.end_run(
    INOUT i dibs.items, c dibs.claims, p_outcome text, p_status text, p_now bigint, p_actor text, p_reason text,
    p_draft text DEFAULT NULL, p_links text DEFAULT NULL, p_cost text DEFAULT NULL, p_told text DEFAULT NULL,
    p_call_id text DEFAULT NULL
) LANGUAGE plpgsql AS $$
DECLARE
    over text;
BEGIN
    IF p_outcome IN ('released', 'forgotten', 'expired', 'owner_died', 'force_released', 'failed') AND p_status <> 'failed' THEN
        over := dibs.over(i.payload);
        p_status := CASE WHEN over IS NULL THEN p_status ELSE 'cancelled' END;
    END IF;
    DELETE FROM dibs.claims WHERE item = c.item AND token = c.token;
    UPDATE dibs.runs
    SET ended_at = p_now, outcome = p_outcome, reason = p_reason, draft = p_draft, call_id = p_call_id,
        links = CASE WHEN p_links IS NULL THEN links WHEN links::text = '{}' THEN p_links::json
                     ELSE dibs.merged_object(links, p_links::json) END,
        cost = CASE WHEN p_cost IS NULL THEN cost WHEN cost::text = '{}' THEN p_cost::json
                    ELSE dibs.merged_object(cost, p_cost::json) END
    WHERE item = c.item AND token = c.token AND outcome IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run % of % is not open', c.token, c.item USING ERRCODE = 'data_corrupted';
    END IF;
    i.status := p_status;
    i.updated_at := p_now;
    i.revision := i.revision + 1;
    INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
    VALUES (i.id, i.revision, p_outcome, p_now, p_status, i.token, coalesce(p_actor, c.agent), c.session, c.agent,
            ('{"reason": ' || coalesce(to_json(p_reason)::text, 'null')
             || coalesce(', "draft": ' || to_json(p_draft)::text, '')
             || coalesce(', "links": ' || p_links, '') || coalesce(', "cost": ' || p_cost, '')
             || coalesce(', "over": ' || to_json(over)::text, '') || coalesce(', ' || p_told, '') || '}')::json);
END $$;

-- End a claim that expired or whose owner died: a strike; the last strike fails the item. `p_why` is an additional reason.
CREATE OR REPLACE FUNCTION dibs.strike(
    INOUT i dibs.items, c dibs.claims, p_outcome text, p_now bigint, s dibs.settings, p_why text DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
    i.strikes := i.strikes + 1;
    IF i.strikes >= s.max_strikes THEN
        i := dibs.end_run(i, c, p_outcome, 'failed', p_now, 'dibs',
                          concat_ws('; ', i.strikes || ' of ' || s.max_strikes || ' strikes', p_why),
                          p_told => '"strikes": ' || i.strikes);
    ELSE
        i := dibs.end_run(i, c, p_outcome, dibs.rest(i, p_now), p_now, 'dibs', p_why, p_told => '"strikes": ' || i.strikes);
    END IF;
    i := dibs.follow(i, p_now, s);
END $$;

-- Record the overdue steps of a locked item: an expired claim, a lapsed offer, a schedule that has come.
CREATE OR REPLACE FUNCTION dibs.freshen(INOUT i dibs.items, p_now bigint, s dibs.settings) LANGUAGE plpgsql AS $$
DECLARE
    c dibs.claims;
    rests text;
    waited_in text;
BEGIN
    FOR again IN 1..10000 LOOP
        SELECT * INTO c FROM dibs.claims WHERE item = i.id FOR UPDATE;
        IF FOUND THEN
            EXIT WHEN c.expires_at > p_now;
            i := dibs.strike(i, c, 'expired', p_now, s);
        ELSIF i.offer_expires_at <= p_now THEN
            UPDATE dibs.tickets SET closed_at = p_now, reason = 'its offer was not accepted in time'
            WHERE item = i.id AND session = i.offered_to AND closed_at IS NULL RETURNING agent INTO waited_in;
            i.updated_at := p_now;
            i.revision := i.revision + 1;
            INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
            VALUES (i.id, i.revision, 'offer_lapsed', p_now, 'ready', i.token, 'dibs', i.offered_to, waited_in,
                    '{"offered_to": null, "offer_expires_at": null}');
            i := dibs.available(i, p_now, s);
        ELSIF i.status IN ('blocked', 'scheduled') THEN
            rests := dibs.rest(i, p_now);
            EXIT WHEN rests = i.status;
            i.revision := i.revision + 1;
            i.updated_at := p_now;
            INSERT INTO dibs.events (item, number, kind, at, status, token, actor, data)
            VALUES (i.id, i.revision, CASE i.status WHEN 'blocked' THEN 'unblocked' ELSE 'due' END, p_now, rests, i.token,
                    'dibs', '{}');
            i.status := rests;
            i := dibs.follow(i, p_now, s);
        ELSE
            EXIT;
        END IF;
    END LOOP;
END $$;

-- Unblock the dependents of this item. They are locked before they are read: otherwise this transaction and one that is just
-- returning a dependent to the board would each see the old state of the other's item, and the dependent would stay blocked.
CREATE OR REPLACE FUNCTION dibs.free_dependents(p_item text, p_now bigint, s dibs.settings) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    dependent text;
    i dibs.items;
    before bigint;
    moved bigint := 0;
BEGIN
    FOR dependent IN
        SELECT d.item FROM dibs.dependencies d
        WHERE d.needs = p_item
          AND (SELECT x.status FROM dibs.items x WHERE x.id = d.item) NOT IN ('done', 'rejected', 'cancelled')
        ORDER BY d.item
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = dependent FOR NO KEY UPDATE;
        before := i.revision;
        IF i.status = 'blocked' THEN
            i := dibs.freshen(i, p_now, s);
            IF i.revision > before THEN
                PERFORM dibs.save(i);
                moved := moved + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN moved;
END $$;

-- Lock these items and return those that the session may end as done, those of them whose result is reviewed, those that it holds
-- and has to submit, and the time. The session is locked, so no other transaction changes its claims of locked items: the claims
-- need no locks.
CREATE OR REPLACE FUNCTION dibs.finishable(
    p_items text[], p_tokens bigint[], p_session text, a dibs.agents,
    OUT finished text[], OUT must_submit text[], OUT reviewed text[], OUT at bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(i.id) FILTER (WHERE i.review), '{}') INTO reviewed
    FROM (SELECT id, review FROM dibs.items WHERE id = ANY (p_items) ORDER BY id FOR NO KEY UPDATE) i;
    at := dibs.clock();
    SELECT coalesce(array_agg(c.item) FILTER (WHERE c.finish), '{}'), coalesce(array_agg(c.item) FILTER (WHERE NOT c.finish), '{}')
    INTO finished, must_submit
    FROM (
        SELECT x.item, (a.allowed_actions = '{}' AND a.sensitive_actions = '{}')
            OR (SELECT i.action = ANY (a.allowed_actions) AND (i.approved OR i.action <> ALL (a.sensitive_actions))
                FROM dibs.items i WHERE i.id = x.item) AS finish
        FROM dibs.claims x
        WHERE x.item = ANY (p_items) AND x.session || '' = p_session AND x.expires_at > at
          AND coalesce(x.token = p_tokens[array_position(p_items, x.item)], true) OFFSET 0) c;
    IF reviewed <> '{}' THEN
        reviewed := ARRAY(SELECT x FROM unnest(reviewed) x WHERE x = ANY (finished));
    END IF;
END $$;

-- Submit the results of those of these items whose result is reviewed.
CREATE OR REPLACE FUNCTION dibs.submit_results(
    p_items text[], p_session text, p_reason text, p_links text, p_cost text, p_now bigint, p_call_id text, OUT told json[]
) LANGUAGE plpgsql AS $$
DECLARE
    i dibs.items;
    c dibs.claims;
    r dibs.runs;
BEGIN
    told := '{}';
    FOR i IN SELECT * FROM dibs.items WHERE id = ANY (p_items) ORDER BY id LOOP
        SELECT * INTO c FROM dibs.claims WHERE item = i.id;
        i.needs_approval := true;
        UPDATE dibs.items SET needs_approval = true WHERE id = i.id;
        i := dibs.end_run(i, c, 'submitted', 'pending_approval', p_now, NULL, p_reason, NULL, p_links, p_cost,
                          '"needs_approval": true', p_call_id);
        PERFORM dibs.save(i);
        SELECT * INTO r FROM dibs.runs WHERE item = c.item AND token = c.token;
        told := told || json_build_object('item', i.id, 'token', i.token,
                                          'answer', json_build_object('item', row_to_json(i), 'run', row_to_json(r)));
    END LOOP;
    UPDATE dibs.sessions SET seen_at = p_now WHERE id = p_session AND NOT seen_at BETWEEN p_now - 4999 AND p_now;
END $$;

-- End the finishable items as done, in one statement for all of them, and unblock their dependents; or submit the results of
-- those in `reviewed`. `told` is the answer of `done` for each item, if `p_told`.
CREATE OR REPLACE FUNCTION dibs.end_as_done(
    p_items text[], reviewed text[], p_session text, p_agent text, p_reason text, p_links text, p_cost text, p_told boolean, p_now bigint,
    s dibs.settings, p_call_id text DEFAULT NULL, OUT moved bigint, OUT told json[]
) LANGUAGE plpgsql AS $$
DECLARE
    event_data json := '{"reason": ' || coalesce(to_json(p_reason)::text, 'null') || coalesce(', "links": ' || p_links, '')
                    || coalesce(', "cost": ' || p_cost, '') || '}';
    ends bigint;
    one record;
    submitted json[] := '{}';
BEGIN
    IF reviewed <> '{}' THEN
        submitted := dibs.submit_results(reviewed, p_session, p_reason, p_links, p_cost, p_now, p_call_id);
        p_items := ARRAY(SELECT x FROM unnest(p_items) x WHERE x <> ALL (reviewed));
    END IF;
    WITH deleted AS (
        DELETE FROM dibs.claims WHERE item = ANY (p_items)
    ), runs AS (
        -- An item has at most one open run, that of its claim; a join with the claims would compare each with each.
        UPDATE dibs.runs r
        SET ended_at = p_now, outcome = 'done', reason = p_reason, call_id = p_call_id,
            links = CASE WHEN p_links IS NULL THEN r.links WHEN r.links::text = '{}' THEN p_links::json
                         ELSE dibs.merged_object(r.links, p_links::json) END,
            cost = CASE WHEN p_cost IS NULL THEN r.cost WHEN r.cost::text = '{}' THEN p_cost::json
                        ELSE dibs.merged_object(r.cost, p_cost::json) END
        WHERE r.item = ANY (p_items) AND r.outcome IS NULL RETURNING r.item, r.token
    ), items AS (
        UPDATE dibs.items i SET status = 'done', updated_at = p_now, revision = i.revision + 1
        WHERE i.id = ANY (p_items) RETURNING i.id, i.revision, i.token
    ), events AS (
        INSERT INTO dibs.events (item, number, kind, at, status, token, actor, session, agent, data)
        SELECT i.id, i.revision, 'done', p_now, 'done', i.token, p_agent, p_session, p_agent, event_data
        FROM items i ORDER BY i.id
    ), closed AS (
        UPDATE dibs.tickets t SET closed_at = p_now, reason = 'the item is done'
        WHERE t.item = ANY (p_items) AND t.closed_at IS NULL RETURNING dibs.tell_session(t.session)
    ), seen AS (
        UPDATE dibs.sessions SET seen_at = p_now WHERE id = p_session AND NOT seen_at BETWEEN p_now - 4999 AND p_now
    )
    SELECT count(*) INTO ends FROM items i JOIN runs r ON r.item = i.id AND r.token = i.token;
    IF ends <> cardinality(p_items) THEN
        RAISE EXCEPTION 'a run of % is not open', p_items USING ERRCODE = 'data_corrupted';
    END IF;
    IF p_told THEN
        SELECT coalesce(array_agg(json_build_object(
            'item', i.id, 'token', i.token,
            'answer', json_build_object('item', row_to_json(i), 'run', row_to_json(r))) ORDER BY i.id), '{}') INTO told
        FROM dibs.items i
        CROSS JOIN LATERAL (SELECT * FROM dibs.runs x WHERE x.item = i.id AND x.token = i.token OFFSET 0) r
        WHERE i.id = ANY (p_items);
        IF reviewed <> '{}' THEN
            told := ARRAY(SELECT x FROM unnest(told || submitted) x ORDER BY x ->> 'item' COLLATE "C");
        END IF;
    END IF;
    moved := 0;
    FOR one IN SELECT DISTINCT d.needs FROM dibs.dependencies d WHERE d.needs = ANY (p_items) ORDER BY d.needs LOOP
        moved := moved + dibs.free_dependents(one.needs, p_now, s);
    END LOOP;
END $$;

-- Record overdue steps, oldest first and at most `p_limit` of each kind. Items that are locked are skipped.
CREATE OR REPLACE FUNCTION dibs.freshen_overdue(
    p_now bigint, p_limit bigint, s dibs.settings,
    OUT expired text[], OUT due text[], OUT offers text[], OUT failed text[]
) LANGUAGE plpgsql AS $$
DECLARE
    overdue text;
    i dibs.items;
BEGIN
    expired := '{}';
    due := '{}';
    offers := '{}';
    failed := '{}';
    FOR overdue IN
        SELECT item FROM dibs.claims WHERE look_at <= p_now AND expires_at <= p_now ORDER BY look_at LIMIT p_limit
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = overdue FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        PERFORM 1 FROM dibs.claims WHERE item = overdue AND expires_at <= p_now FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        i := dibs.freshen(i, p_now, s);
        PERFORM dibs.save(i);
        expired := expired || overdue;
        IF i.status = 'failed' THEN
            failed := failed || overdue;
        END IF;
    END LOOP;
    FOR overdue IN
        SELECT id FROM dibs.items WHERE status = 'scheduled' AND not_before <= p_now ORDER BY not_before LIMIT p_limit
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = overdue FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR i.status <> 'scheduled' OR i.not_before > p_now;
        i := dibs.freshen(i, p_now, s);
        PERFORM dibs.save(i);
        due := due || overdue;
    END LOOP;
    FOR overdue IN
        SELECT id FROM dibs.items WHERE offer_expires_at <= p_now ORDER BY offer_expires_at LIMIT p_limit
    LOOP
        SELECT * INTO i FROM dibs.items WHERE id = overdue FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR i.offer_expires_at IS NULL OR i.offer_expires_at > p_now;
        i := dibs.freshen(i, p_now, s);
        PERFORM dibs.save(i);
        offers := offers || overdue;
    END LOOP;
END $$;

-- Limits and policy

CREATE OR REPLACE FUNCTION dibs.may_take(a dibs.agents, p_action text, p_approved boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (a.allowed_actions = '{}' AND a.sensitive_actions = '{}')
        OR (p_action = ANY (a.allowed_actions) AND (p_approved OR p_action <> ALL (a.sensitive_actions)))
        OR (p_action = ANY (a.sensitive_actions) AND p_action <> ALL (a.allowed_actions) AND NOT p_approved)
$$;

CREATE OR REPLACE FUNCTION dibs.limited(a dibs.agents) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT a.max_claims_total IS NOT NULL OR a.claims_per_minute IS NOT NULL $$;

-- The agent; its row is locked if a limit counts all its sessions.
CREATE OR REPLACE FUNCTION dibs.agent_of(p_name text) RETURNS dibs.agents LANGUAGE plpgsql AS $$
DECLARE
    a dibs.agents;
BEGIN
    SELECT * INTO STRICT a FROM dibs.agents WHERE name = p_name;
    IF a.max_claims_total IS NOT NULL OR a.claims_per_minute IS NOT NULL THEN
        SELECT * INTO STRICT a FROM dibs.agents WHERE name = p_name FOR NO KEY UPDATE;
    END IF;
    RETURN a;
END $$;

CREATE OR REPLACE FUNCTION dibs.filled(a dibs.agents, p_now bigint) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN a.claims_per_minute IS NULL THEN a.claims_burst::double precision
                ELSE least(a.claims_burst::double precision,
                           a.bucket + greatest(0, p_now - a.bucket_at)::double precision / 60000 * a.claims_per_minute) END
$$;

-- How many more items the limits allow; if none, `code` is the refusal. Without a limit nothing is counted.
CREATE OR REPLACE FUNCTION dibs.room(
    INOUT a dibs.agents, p_session text, p_now bigint, p_n bigint,
    OUT n bigint, OUT code text, OUT held bigint, OUT held_total bigint, OUT next_expiry_at bigint
) LANGUAGE plpgsql AS $$
BEGIN
    n := p_n;
    held := 0;
    held_total := 0;
    IF a.bucket_at > p_now AND a.claims_per_minute IS NOT NULL THEN
        -- The clock was set back: the bucket keeps its level and fills from now on.
        a.bucket_at := p_now;
        UPDATE dibs.agents SET bucket_at = p_now WHERE name = a.name;
    END IF;
    IF a.max_claims IS NOT NULL OR a.max_claims_total IS NOT NULL THEN
        SELECT count(*) INTO held FROM dibs.claims WHERE session = p_session AND expires_at > p_now;
        n := least(n, a.max_claims - held);
    END IF;
    IF a.max_claims_total IS NOT NULL OR n <= 0 THEN
        SELECT count(*), min(c.expires_at) INTO held_total, next_expiry_at
        FROM dibs.sessions x CROSS JOIN LATERAL (SELECT y.expires_at FROM dibs.claims y WHERE y.session = x.id OFFSET 0) c
        WHERE x.agent = a.name AND x.ended_at IS NULL AND c.expires_at > p_now;
        n := least(n, a.max_claims_total - held_total);
        IF n <= 0 THEN
            code := 'AGENT_AT_CAPACITY';
        END IF;
    END IF;
    IF a.claims_per_minute IS NOT NULL THEN
        n := least(n, floor(dibs.filled(a, p_now))::bigint);
        IF n <= 0 AND code IS NULL THEN
            code := 'RATE_LIMITED';
        END IF;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dibs.spend(a dibs.agents, p_now bigint, p_claims bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF a.claims_per_minute IS NOT NULL THEN
        UPDATE dibs.agents SET bucket = dibs.filled(a, p_now) - p_claims, bucket_at = p_now WHERE name = a.name;
    END IF;
END $$;

-- The TTL for a session of this kind; NULL if the one asked for is out of bounds.
CREATE OR REPLACE FUNCTION dibs.ttl(p_kind text, p_asked double precision, s dibs.settings) RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_asked IS NULL THEN CASE p_kind WHEN 'person' THEN s.person_ttl_seconds
                                                      WHEN 'agent' THEN least(1.5 * s.ttl_seconds, s.ttl_seconds_max)
                                                      ELSE s.ttl_seconds END
                WHEN p_asked BETWEEN s.ttl_seconds_min
                     AND CASE p_kind WHEN 'person' THEN s.person_ttl_seconds_max ELSE s.ttl_seconds_max END THEN p_asked END
$$;

-- Resources

CREATE OR REPLACE FUNCTION dibs.overlap(p_one text, p_other text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_one = p_other OR (
        strpos(split_part(p_one, '/', 1), ':') = 0 AND strpos(split_part(p_other, '/', 1), ':') = 0
        AND (p_one = '.' OR p_other = '.' OR starts_with(p_one, p_other || '/') OR starts_with(p_other, p_one || '/')))
$$;

-- Claims of items with resources in one project are serialized, so that of two claims the second sees the first.
CREATE OR REPLACE FUNCTION dibs.lock_resources(p_project text) RETURNS void LANGUAGE sql AS
$$ SELECT pg_advisory_xact_lock(25700, hashtext(p_project)) $$;

CREATE OR REPLACE FUNCTION dibs.in_use(p_item text, p_project text, p_resources text[], p_session text, p_now bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM dibs.items h, unnest(h.resources) AS held, unnest(p_resources) AS wanted
        WHERE h.project = p_project AND h.status = 'in_progress' AND h.resources <> '{}' AND h.id <> p_item
          AND dibs.overlap(held, wanted)
          AND (SELECT c.session <> p_session AND c.expires_at > p_now FROM dibs.claims c WHERE c.item = h.id))
$$;

-- The previous run, its latest notes, and the comment on its draft.
CREATE OR REPLACE FUNCTION dibs.previous(p_item text, p_before bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    r dibs.runs;
    notes json;
    comment text;
BEGIN
    SELECT * INTO r FROM dibs.runs WHERE item = p_item AND token < p_before ORDER BY token DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT json_agg(json_build_object('at', n.at, 'note', n.data -> 'note', 'meta', n.data -> 'meta') ORDER BY n.number) INTO notes
    FROM (SELECT number, at, data FROM dibs.events
          WHERE item = p_item AND token = r.token AND kind = 'progress' ORDER BY number DESC LIMIT 20) n;
    IF r.outcome = 'submitted' THEN
        SELECT data ->> 'comment' INTO comment FROM dibs.events
        WHERE item = p_item AND token = r.token AND kind IN ('approved', 'sent_back') ORDER BY number DESC LIMIT 1;
    END IF;
    RETURN json_build_object('run', row_to_json(r), 'notes', coalesce(notes, '[]'), 'comment', comment);
END $$;

-- The approval in force, with the run whose draft was approved.
CREATE OR REPLACE FUNCTION dibs.approval(p_item text) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_build_object('actor', e.actor, 'at', e.at, 'comment', e.data -> 'comment', 'run', (
               SELECT row_to_json(r) FROM dibs.runs r WHERE r.item = p_item AND r.token = (e.data ->> 'draft_token')::bigint))
    FROM dibs.events e WHERE e.item = p_item AND e.kind = 'approved' ORDER BY e.number DESC LIMIT 1
$$;
