-- Live claims under the column names of the session-task design, for programs that read the file themselves; dibs itself runs
-- no view. The clock is julianday(), because unixepoch('subsec') needs SQLite 3.42.

CREATE VIEW task_claims AS
SELECT c.item AS task_id, c.session AS session_id, c.claimed_at, c.expires_at, c.renewed_at AS last_heartbeat,
       s.kind AS agent_type,
       json_object('agent', c.agent, 'token', c.token, 'heartbeatCount', c.heartbeat_count) AS metadata
FROM claims c JOIN sessions s ON s.id = c.session
WHERE c.expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);
