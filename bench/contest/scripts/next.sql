-- What dibs sends to claim, without its client.

SELECT (SELECT string_agg(g -> 'item' ->> 'id', ',') FROM json_array_elements(r.answer -> 'grants') AS g) AS items,
       translate(coalesce(r.answer ->> 'lanes', '[]'), '[]', '{}') AS lanes,
       translate(coalesce(r.answer ->> 'lows', '[]'), '[]', '{}') AS lows
FROM (
    SELECT dibs.next(
        p_session => 'bench-' || :client_id::text, p_agent => NULL, p_types => '{}', p_projects => '{}', p_n => :batch,
        p_ttl => NULL, p_lanes => :lanes::integer[], p_lows => :lows::bigint[], p_thorough => false,
        s => :settings::dibs.settings) AS answer
    OFFSET 0) r \gset
