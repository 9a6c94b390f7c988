-- The tables about files: the path and stamp of each item's file when it was last read or written, and the files that
-- are named like tasks and are not, with the reason.

-- name: create_files
CREATE TABLE IF NOT EXISTS vault_files (
    path     TEXT PRIMARY KEY,
    item     TEXT UNIQUE,     -- NULL: not a task, because of `problem`
    inode    INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    problem  TEXT,            -- why an item's file cannot be read now
    remark   TEXT,            -- fields that were ignored, and why
    gone_at  INTEGER,         -- since when the file has been missing
    mark     INTEGER NOT NULL -- its part of the checksum of all files
) STRICT, WITHOUT ROWID

-- name: create_vacated
CREATE TABLE IF NOT EXISTS vault_left (
    path     TEXT PRIMARY KEY, -- where an item's file was before
    item     TEXT NOT NULL,
    left_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID

-- name: create_foreign_claims
CREATE TABLE IF NOT EXISTS vault_told (
    item     TEXT PRIMARY KEY,
    mark     TEXT NOT NULL    -- identifies the last claim that another program wrote into the file, once it was read
) STRICT, WITHOUT ROWID

-- Every write asks for missing files and for paths that were left long ago: neither may read the whole table.
-- name: create_gone
CREATE INDEX IF NOT EXISTS vault_files_gone ON vault_files (gone_at) WHERE gone_at IS NOT NULL

-- name: create_left_at
CREATE INDEX IF NOT EXISTS vault_left_at ON vault_left (left_at)

-- name: created
SELECT count(*) FROM sqlite_schema WHERE name GLOB 'vault_*'

-- The changes of files whose folders were not synced: see `redo_log`.
-- name: create_redo
CREATE TABLE IF NOT EXISTS vault_redo (
    item       TEXT UNIQUE NOT NULL,
    path       TEXT NOT NULL,    -- where dibs left the item's file
    text       BLOB NOT NULL,
    inode      INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL, -- its ctime then
    boot       TEXT NOT NULL,    -- the boot of the machine
    earlier    TEXT NOT NULL     -- as JSON, [path, size, checksum] of each state that the file had before
) STRICT

-- The inode of the folder that this index was made in. A copy in another folder is not trusted.
-- name: create_place
CREATE TABLE IF NOT EXISTS vault_place (inode INTEGER NOT NULL) STRICT

-- name: put_place
-- Only into a new, empty index: every other index has its row already.
INSERT INTO vault_place (inode) SELECT :inode WHERE NOT EXISTS (SELECT 1 FROM vault_place)
    AND NOT EXISTS (SELECT 1 FROM items) AND NOT EXISTS (SELECT 1 FROM sessions) AND NOT EXISTS (SELECT 1 FROM agents)
    AND NOT EXISTS (SELECT 1 FROM keys) AND NOT EXISTS (SELECT 1 FROM requests) AND NOT EXISTS (SELECT 1 FROM events)
    AND NOT EXISTS (SELECT 1 FROM meta WHERE value > 0)

-- name: mark_place
INSERT INTO vault_place (inode) VALUES (:inode)

-- name: place
SELECT inode FROM vault_place

-- name: files
SELECT path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at FROM vault_files

-- name: stamps
SELECT path, inode, size, mtime_ns, ctime_ns FROM vault_files

-- name: stamp
SELECT inode, size, mtime_ns, ctime_ns FROM vault_files WHERE path = :path

-- name: checksum
SELECT coalesce(sum(mark), 0) FROM vault_files

-- name: any_file
SELECT EXISTS (SELECT 1 FROM vault_files)

-- name: any_missing
SELECT EXISTS (SELECT 1 FROM vault_files WHERE gone_at IS NOT NULL)

-- name: file_of_item
SELECT path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at FROM vault_files WHERE item = :item

-- name: noted_files
SELECT path, problem, remark FROM vault_files WHERE problem IS NOT NULL OR remark IS NOT NULL

-- name: readable_item_at
SELECT 1 FROM vault_files WHERE path = :path AND item IS NOT NULL AND problem IS NULL

-- name: file_at
SELECT 1 FROM vault_files WHERE path = :path

-- name: forget_file
DELETE FROM vault_files WHERE path = :path

-- name: put_file
-- It replaces the row of the same path, and that of the same item.
INSERT OR REPLACE INTO vault_files (path, item, inode, size, mtime_ns, ctime_ns, problem, remark, gone_at, mark)
VALUES (:path, :item, :inode, :size, :mtime_ns, :ctime_ns, :problem, :remark, :gone_at, :mark)

-- name: pruned_items
SELECT item FROM vault_files WHERE item IS NOT NULL AND NOT EXISTS (SELECT 1 FROM items WHERE items.id = item)

-- name: files_that_are_no_tasks
SELECT path FROM vault_files WHERE item IS NULL

-- name: item_ids
SELECT id FROM items

-- name: known_foreign_claim
SELECT mark FROM vault_told WHERE item = :item

-- name: put_foreign_claim
INSERT OR REPLACE INTO vault_told (item, mark) VALUES (:item, :mark)

-- name: forget_foreign_claim
DELETE FROM vault_told WHERE item = (SELECT item FROM vault_files WHERE path = :path)

-- name: vacate
INSERT OR REPLACE INTO vault_left (path, item, left_at)
SELECT path, item, :now FROM vault_files WHERE item = :item AND path <> :path

-- name: vacate_visited
INSERT OR REPLACE INTO vault_left (path, item, left_at)
SELECT :to, item, :now FROM vault_files WHERE path = :path AND item IS NOT NULL

-- name: forget_vacated
DELETE FROM vault_left WHERE path = :path

-- name: forget_vacated_before
DELETE FROM vault_left WHERE left_at < :before

-- name: vacated
-- A file in a holder's folder is a late save even if the item has ended since.
SELECT path, item FROM vault_left JOIN items ON items.id = item
WHERE items.status NOT IN ('done', 'failed', 'rejected', 'cancelled') OR path LIKE 'In_Progress/%'

-- name: redo
SELECT item, path, text, inode, changed_ns, boot, earlier FROM vault_redo

-- name: redo_count
SELECT count(*) FROM vault_redo

-- name: redo_paths
SELECT path, earlier FROM vault_redo

-- name: redo_states
SELECT earlier FROM vault_redo WHERE item = :item

-- name: put_redo
INSERT OR REPLACE INTO vault_redo (item, path, text, inode, changed_ns, boot, earlier)
VALUES (:item, :path, :text, :inode, :changed_ns, :boot, :earlier)

-- name: mark_redo
UPDATE vault_redo SET changed_ns = :changed_ns WHERE item = :item

-- name: forget_redo
DELETE FROM vault_redo

-- name: forget_dependency
DELETE FROM dependencies WHERE item = :item AND needs = :needs

-- name: runs_from
SELECT @run
FROM runs WHERE item = :item AND token >= :token ORDER BY token

-- name: forget_runs_from
DELETE FROM runs WHERE item = :item AND token >= :token

-- name: annotations
-- Without those of runs that are void: the token may belong to another session's run since.
SELECT events.at, events.actor, events.data
FROM events JOIN runs ON runs.item = events.item AND runs.token = json_extract(events.data, '$.run')
                     AND runs.session = events.session
WHERE events.item = :item AND events.kind = 'annotated' ORDER BY events.number

-- name: claims_by_move
SELECT claims.item, vault_files.path FROM claims JOIN vault_files ON vault_files.item = claims.item
WHERE claims.session GLOB 'files-*'

-- name: lost_claims
-- Claims by a move that lost to another clone's claim.
SELECT soft_claims.item, soft_claims.agent, claims.agent, claims.token
FROM soft_claims LEFT JOIN claims ON claims.item = soft_claims.item
WHERE soft_claims.session GLOB 'files-*' AND soft_claims.expires_at > :now

-- name: sessions_here
-- The sessions that were started on this machine, with their numbers of live claims.
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
-- The claims of a session that was taken for one of another clone: from now on they expire like any other.
UPDATE claims SET deadline_at = :now + timeout_ms,
                  expires_at = :now + min(CAST(round(ttl_seconds * 1000) AS INTEGER), timeout_ms)
FROM (SELECT id, CAST(round(timeout_seconds * 1000) AS INTEGER) AS timeout_ms FROM items) AS timed
WHERE session = :session AND deadline_at = :never AND timed.id = claims.item
