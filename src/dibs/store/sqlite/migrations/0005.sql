-- A session may be a child of another one: a subagent of an agent. It ends with its parent.

ALTER TABLE sessions ADD COLUMN parent TEXT;

CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;
