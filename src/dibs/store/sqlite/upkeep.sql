-- Agents, sessions, and what a sweep tidies up.

-- name: put_agent
INSERT INTO agents (name, types, role, max_claims, created_at, updated_at)
VALUES (:name, :types, :role, :max_claims, :now, :now)
ON CONFLICT (name) DO UPDATE SET types = excluded.types, role = excluded.role, max_claims = excluded.max_claims,
                                 updated_at = excluded.updated_at

-- name: create_agent
INSERT INTO agents (name, types, role, max_claims, created_at, updated_at)
VALUES (:name, '[]', NULL, NULL, :now, :now)
ON CONFLICT (name) DO NOTHING

-- name: put_session
INSERT OR REPLACE INTO sessions (@session) VALUES (:@session)

-- name: items_of_session
SELECT item FROM claims WHERE session = :session ORDER BY claimed_at, item LIMIT :limit

-- name: trim_requests
DELETE FROM requests WHERE (actor, id) IN (SELECT actor, id FROM requests WHERE at <= :before ORDER BY at LIMIT :limit)

-- name: trim_activity
DELETE FROM activity WHERE id <= (SELECT max(id) FROM activity) - :kept
