-- What the index knows of the files: where each item's lies and how it looked when it was last read or written; and
-- what looks like a task and is none, with the reason.

-- name: make_files
CREATE TABLE IF NOT EXISTS vault_files (
    path     TEXT PRIMARY KEY,
    item     TEXT UNIQUE,     -- none: it is no item, and `problem` says why
    inode    INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    problem  TEXT,            -- of an item's file: why it cannot be read now
    remark   TEXT,            -- what it says and is not heeded, and why
    gone_at  INTEGER,         -- since when it has not been there
    mark     INTEGER NOT NULL -- what it adds to the number by which all files are compared at once
) STRICT, WITHOUT ROWID

-- name: make_left
CREATE TABLE IF NOT EXISTS vault_left (
    path     TEXT PRIMARY KEY, -- where an item's file lay
    item     TEXT NOT NULL,
    left_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID

-- name: make_told
CREATE TABLE IF NOT EXISTS vault_told (
    item     TEXT PRIMARY KEY,
    mark     TEXT NOT NULL    -- of the last claim that another program wrote into the file, once it was seen
) STRICT, WITHOUT ROWID

-- Of which folder this is the index, by its inode: a copy of it elsewhere is none.
-- name: make_place
CREATE TABLE IF NOT EXISTS vault_place (inode INTEGER NOT NULL) STRICT

-- name: put_place
-- Only into a new index, on which nothing is yet: every other one had its place before.
INSERT INTO vault_place (inode) SELECT :inode WHERE NOT EXISTS (SELECT 1 FROM vault_place)
    AND NOT EXISTS (SELECT 1 FROM items) AND NOT EXISTS (SELECT 1 FROM sessions) AND NOT EXISTS (SELECT 1 FROM agents)
    AND NOT EXISTS (SELECT 1 FROM keys) AND NOT EXISTS (SELECT 1 FROM requests) AND NOT EXISTS (SELECT 1 FROM events)
    AND NOT EXISTS (SELECT 1 FROM meta WHERE value > 0)

-- name: place
SELECT inode FROM vault_place

-- name: files
SELECT path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at FROM vault_files

-- name: stamps
SELECT path, inode, size, mtime_ns, ctime_ns FROM vault_files

-- name: stamp
SELECT inode, size, mtime_ns, ctime_ns FROM vault_files WHERE path = :path

-- name: mark
SELECT coalesce(sum(mark), 0) FROM vault_files

-- name: any_file
SELECT EXISTS (SELECT 1 FROM vault_files)

-- name: any_gone
SELECT EXISTS (SELECT 1 FROM vault_files WHERE gone_at IS NOT NULL)

-- name: file_of_item
SELECT path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at FROM vault_files WHERE item = :item

-- name: file_at
SELECT 1 FROM vault_files WHERE path = :path

-- name: forget_file
DELETE FROM vault_files WHERE path = :path

-- name: forget_file_of_item
DELETE FROM vault_files WHERE item = :item

-- name: put_file
INSERT OR REPLACE INTO vault_files (path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at, mark)
VALUES (:path, :item, :inode, :size, :mtime_ns, :ctime_ns, :problem, :remark, :gone_at, :mark)

-- name: files_without_item
SELECT path FROM vault_files WHERE item IS NOT NULL AND NOT EXISTS (SELECT 1 FROM items WHERE items.id = item)

-- name: item_ids
SELECT id FROM items

-- name: forget_files
DELETE FROM vault_files

-- name: claim_told
SELECT mark FROM vault_told WHERE item = :item

-- name: put_claim_told
INSERT OR REPLACE INTO vault_told (item, mark) VALUES (:item, :mark)

-- name: forget_claim_told
DELETE FROM vault_told WHERE item = :item

-- name: leave
INSERT OR REPLACE INTO vault_left (path, item, left_at)
SELECT path, item, :now FROM vault_files WHERE item = :item AND path <> :path

-- name: visit
INSERT OR REPLACE INTO vault_left (path, item, left_at)
SELECT :to, item, :now FROM vault_files WHERE path = :path AND item IS NOT NULL

-- name: come_back
DELETE FROM vault_left WHERE path = :path

-- name: forget_left
DELETE FROM vault_left WHERE left_at < :before

-- name: left
-- What comes to where only a holder's file lies is a late save, also when the item is over by then.
SELECT path, item FROM vault_left JOIN items ON items.id = item
WHERE items.status NOT IN ('done', 'failed', 'rejected', 'cancelled') OR path LIKE 'In_Progress/%'

-- name: forget_dependency
DELETE FROM dependencies WHERE item = :item AND needs = :needs

-- name: runs_from
SELECT @run
FROM runs WHERE item = :item AND token >= :token ORDER BY token

-- name: forget_runs_from
DELETE FROM runs WHERE item = :item AND token >= :token

-- name: claims_by_move
SELECT claims.item, vault_files.path FROM claims JOIN vault_files ON vault_files.item = claims.item
WHERE claims.session LIKE 'files-%'

-- name: lost_claims
-- Of those who took an item by a move, and another clone was first.
SELECT soft_claims.item, soft_claims.agent, claims.agent, claims.token
FROM soft_claims LEFT JOIN claims ON claims.item = soft_claims.item
WHERE soft_claims.session LIKE 'files-%' AND soft_claims.expires_at > :now

-- name: sessions_here
-- Those that were started on this machine and have not ended, with how many claims each has.
SELECT sessions.id, sessions.agent, sessions.host, sessions.seen_at,
       (SELECT count(*) FROM claims WHERE claims.session = sessions.id AND claims.expires_at > :now)
FROM sessions WHERE coalesce(json_extract(sessions.meta, '$.elsewhere'), 0) = 0 AND sessions.seen_at > :since

-- name: claims_elsewhere
SELECT claims.item, claims.token, claims.session, claims.ttl_seconds
FROM claims JOIN sessions ON sessions.id = claims.session
WHERE json_extract(sessions.meta, '$.elsewhere') = 1

-- name: expire_elsewhere
UPDATE claims SET expires_at = :now WHERE item = :item AND token = :token AND session = :session

-- name: session_is_here
UPDATE sessions SET meta = json_remove(meta, '$.elsewhere'), seen_at = :now
WHERE id = :session AND json_extract(meta, '$.elsewhere') = 1

-- name: claims_are_here
-- Of a session that was taken to be elsewhere: they expire like any other from now on.
UPDATE claims SET deadline_at = :now + timeout_ms,
                  expires_at = :now + min(CAST(round(ttl_seconds * 1000) AS INTEGER), timeout_ms)
FROM (SELECT id, CAST(round(timeout_seconds * 1000) AS INTEGER) AS timeout_ms FROM items) AS timed
WHERE session = :session AND deadline_at = :never AND timed.id = claims.item

-- name: annotations
SELECT at, actor, data FROM events WHERE item = :item AND kind = 'annotated' ORDER BY number
