-- What dibs sends to end a batch, without its client.

SELECT dibs.finish_many(
    p_items => string_to_array(:items, ','), p_tokens => array_fill(1, ARRAY[:batch]), p_session => 'bench-' || :client_id::text,
    s => :settings::dibs.settings);
