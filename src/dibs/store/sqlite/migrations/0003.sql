-- Live claims under the names of the session-task design's table, for programs that read the file themselves. dibs runs no view
-- of a file. The clock is written so that SQLite before 3.42 knows it.

CREATE VIEW task_claims AS
SELECT c.item AS task_id, c.session AS session_id, c.claimed_at, c.expires_at, c.renewed_at AS last_heartbeat,
       s.kind AS agent_type,
       json_object('agent', c.agent, 'token', c.token, 'heartbeatCount', c.heartbeat_count) AS metadata
FROM claims c JOIN sessions s ON s.id = c.session
WHERE c.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);
