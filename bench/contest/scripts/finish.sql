-- What dibs sends to end one item, without its client.

SELECT dibs.finish(
    p_verb => 'done', p_item => :items, p_session => 'bench-' || :client_id::text, p_token => 1, p_reason => NULL,
    p_park => false, p_draft => NULL, p_links => NULL, p_cost => NULL, p_uniform => 0.5, s => :settings::dibs.settings);
