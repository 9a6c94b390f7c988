-- A heartbeat may say up to which event its session knows of claims, so that one that comes late forgets nothing newer.

-- Made anew with one parameter more, which those who call it without that parameter do not notice.
DROP FUNCTION IF EXISTS dibs.heartbeat(text, text[], bigint[], dibs.settings);
