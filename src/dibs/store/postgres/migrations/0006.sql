-- A session may be a child of another one: a subagent of an agent. It ends with its parent.

ALTER TABLE dibs.sessions ADD COLUMN parent text COLLATE "C";

CREATE INDEX sessions_parent ON dibs.sessions (parent) WHERE parent IS NOT NULL;

-- Made anew with one parameter more: why a strike was given, and who else died.
DROP FUNCTION IF EXISTS dibs.strike(dibs.items, dibs.claims, text, bigint, dibs.settings);
DROP FUNCTION IF EXISTS dibs.bury(text, json, bigint, dibs.settings);

-- Made anew with one parameter more, which those who call it without that parameter do not notice: changes of the session's meta.
DROP FUNCTION IF EXISTS dibs.heartbeat(text, text[], bigint[], dibs.settings, bigint, double precision);
