-- Story 011's SQL, as its clients write it: each function with the types that the document declares, and the conditions
-- of its statements. Changed: the parameters are psql's variables; `cron.schedule` stands in a file of its own.
SELECT id FROM work_items WHERE id = :'item' AND status = 'ready' AND assigned_agent IS NULL;
SELECT claim_work_item(:'item'::UUID, 'coder'::VARCHAR, :'mine'::VARCHAR);
SELECT claim_work_item(:'item'::UUID, 'coder'::VARCHAR, :'theirs'::VARCHAR);
SELECT assigned_agent, status, started_at = (metadata->>'claimed_at')::timestamptz FROM work_items
WHERE id = :'item' AND metadata->>'claimed_by_instance' = :'mine';
SELECT count(*) FROM work_items WHERE assigned_agent IS NOT NULL
      AND status = 'in_progress'
      AND (metadata->>'claimed_at')::timestamptz < NOW() - INTERVAL '30 minutes'
      AND updated_at < NOW() - INTERVAL '30 minutes';
SELECT claimed_by_instance FROM agent_claimed_items WHERE work_item_id = :'item';
SELECT release_work_item(:'item'::UUID, :'theirs'::VARCHAR, 'mine now'::VARCHAR);
SELECT release_work_item(:'item'::UUID, :'mine'::VARCHAR);
SELECT assigned_agent IS NULL, status, started_at IS NULL, metadata FROM work_items WHERE id = :'item';
SELECT action, agent_type, agent_instance_id, details->>'claimed', details->>'reason' FROM agent_activity
WHERE work_item_id = :'item' ORDER BY action COLLATE "C";
