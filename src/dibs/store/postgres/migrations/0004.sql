-- A heartbeat may name the last event that its session knows, so that a late heartbeat does not release a newer claim. The
-- function is created again with one more parameter. It has a default, so older callers still work.

DROP FUNCTION IF EXISTS dibs.heartbeat(text, text[], bigint[], dibs.settings);
