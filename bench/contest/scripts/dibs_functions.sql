-- What dibs sends, without its client: what this loses to `pgbench` is the functions' work, what dibs loses to this is the
-- client's.

SELECT (SELECT string_agg(g -> 'item' ->> 'id', ',') FROM json_array_elements(r.answer -> 'grants') AS g) AS items,
       translate(coalesce(r.answer ->> 'lanes', '[]'), '[]', '{}') AS lanes,
       translate(coalesce(r.answer ->> 'lows', '[]'), '[]', '{}') AS lows
FROM (
    SELECT dibs.next(
        p_session => 'bench-' || :client_id::text, p_agent => NULL, p_types => '{}', p_projects => '{}', p_n => :batch,
        p_ttl => NULL, p_lanes => :lanes::integer[], p_lows => :lows::bigint[], p_thorough => false,
        s => :settings::dibs.settings) AS answer
    OFFSET 0) r \gset

SELECT dibs.done(
    p_items => string_to_array(:items, ','), p_tokens => array_fill(1::bigint, ARRAY[:batch]),
    p_session => 'bench-' || :client_id::text, p_reason => NULL, p_links => NULL, p_cost => NULL, p_many => :batch > 1,
    s => :settings::dibs.settings);
