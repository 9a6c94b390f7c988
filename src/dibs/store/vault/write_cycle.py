"""One write to a vault: look, reconcile, decide, plan, push, apply, commit.

The cycle is a set of hooks of the index's engine. Before the transaction, it looks for changes that were made to the
files and reconciles the index with them, in a separate transaction. The verbs then decide on the index as on any
SQLite board. Before the COMMIT, the decision is rendered into a plan of file changes. With a git remote, the plan is
pushed, and only an accepted push is applied. A crash between the files and the COMMIT leaves changes to the files,
which the next look reconciles. After a power cut, the first look brings back what the files lack (`redo_log`).
"""

from __future__ import annotations

import os
import time

from dibs.errors import DibsError, StoreUnavailable
from dibs.store.sqlite.engine import Engine
from dibs.store.vault import vault_root
from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.index import IndexFile, VaultTransaction, vault_transaction
from dibs.store.vault.late_saves import merge_late_saves, merge_saves_to_old_paths
from dibs.store.vault.layout import ARCHIVE, FOLDERS, HIDDEN, SUFFIX, name_of
from dibs.store.vault.plan import SILENT, Application, Unwritable, contents, render
from dibs.store.vault.redo_log import RedoLog
from dibs.store.vault.scan import ScanPolicy
from dibs.store.vault.taskfile import task_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import apsw

    from dibs.config import Settings
    from dibs.rules.decision import Step
    from dibs.store.sqlite.group_commit import PendingWrite
    from dibs.store.sqlite.transaction import SqliteTransaction
    from dibs.store.vault.git.sync import Sync
    from dibs.store.vault.plan import Change
    from dibs.store.vault.safe_fs import Stamp

#: The least time between two looks for late saves: a second or, if a look takes much CPU, so many times that, up to a
#: maximum. And the file in `.dibs` whose time is that of the last one.
LATE_SAVES_SECONDS, LATE_SAVES_TIMES, LATE_SAVES_SECONDS_MAX = 1.0, 20.0, 10.0
LATE_SAVES_MARK = "late-saves-looked-for"
#: The WAL of a process that runs more than a command: more pages than a SQLite board has, for fewer syncs. Nobody has
#: to read the WAL while the process is there, and it truncates the WAL when it closes the index.
CHECKPOINT_PAGES = 1000
#: The most times that one write is decided again because another program changed a file first.
RACES_MAX = 50
#: Steps that are pushed together with later ones: callers of different clones do not compete for them, except for
#: the resources of a claimed item.
UNCONFIRMED = frozenset({"added", "edited", "progress", *SILENT})


class WriteCycle:
    def __init__(self, root: str, settings: Settings, clock: Callable[[], int], *, brief: bool) -> None:
        self.root, self._is_brief = root, brief
        self._index = IndexFile(root)
        self._index.make_folder()
        self.disk = Disk(root)
        self.policy = ScanPolicy(self.disk, brief=brief)
        self._remote = vault_root.RemoteLookup(root)
        #: Steps to write into files, and items whose files are written in any case.
        self._steps: list[Step] = []
        self._stale: set[str] = set()
        #: Items that cannot be claimed in this write, because their files cannot be written.
        self._unwritable: set[str] = set()
        #: Whether the files may lack logged changes, because the power was cut.
        self._may_lack_changes = True
        self._late_saves_seconds = LATE_SAVES_SECONDS
        #: See `UndoLog.visited`.
        self._visited: dict[str, str] = {}
        self.engine = Engine(
            self._index.path,
            settings,
            clock,
            connect=self._connect,
            reopen=self._reopen_index,
            new_transaction=self._new_transaction,
            transact=self._transact,
            commit=self._commit,
            # A write changes several files, and an interrupt between them would have the effect of a crash.
            in_caller_thread=False,
        )

    def close(self) -> None:
        self.engine.close()
        self.policy.close()
        self.disk.close()
        self._remote.close()

    @property
    def remote(self) -> Sync | None:
        """The git remote, if there is one: its accepted pushes decide which of two clones gets an item."""
        return self._remote.get()

    def find_remote_again(self) -> None:
        self._remote.recheck()

    def needs_look(self) -> bool:
        """Whether the files may differ from the index; found without the lock."""
        return not self._has_just_looked() and self.engine.read_in_turn(
            lambda t: self.policy.may_differ(vault_transaction(t))
        )

    # Hooks of the engine

    def _transact(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        self._unwritable = set()
        self.find_remote_again()
        for _ in range(RACES_MAX):
            try:
                if self.remote is not None:
                    self.remote.prepare()
                self._look(connection)
                self._steps, self._stale = [], set()
                self.engine.transact(connection, writes)
                return
            except Raced as raced:
                path = str(raced)
                self.policy.expire()
                self.engine.rollback(connection)
            except Unwritable as failed:
                path = failed.item
                self.engine.rollback(connection)
                if len(writes) > 1:
                    self._transact_each(connection, writes)
                    return
                if failed.item in self._unwritable:
                    raise failed.error from None
                self._unwritable.add(failed.item)
            for write in writes:
                write.reset()
        if path.endswith(SUFFIX) and self.disk.stamp(path) is None:
            why = "is missing; put it back, or wait until its item counts as removed"
        else:
            why = "keeps changing"
        raise StoreUnavailable(f"{path} {why}; try again", path=path, retry_after_seconds=1)

    def _transact_each(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        """Run every write in a transaction of its own, because one of them cannot be written."""
        for write in writes:
            write.reset()
            try:
                self._transact(connection, [write])
            except DibsError as error:
                self.engine.rollback(connection)
                write.error = error

    def _commit(self, connection: apsw.Connection, transactions: list[SqliteTransaction]) -> None:
        for t in map(vault_transaction, transactions):
            self._steps += t.steps
            self._stale |= t.stale
        remote = self.remote
        if remote is None or not any(map(_is_decided_between_clones, self._steps)):
            self.write_files(connection)
            return
        plan = self._render(connection, to_push=True)
        remote.confirm(contents(plan))
        connection.execute("SAVEPOINT accepted")
        try:
            self._apply(connection, plan)
        except Raced:
            # The push was accepted: its changes are merged into the files like any other change of the remote.
            connection.execute("ROLLBACK TO accepted")
            self.engine.commit(connection)
            remote.merge_accepted()
        else:
            remote.finish()

    def _new_transaction(
        self, cursor: apsw.Cursor, now: int, settings: Settings, *, writable: bool
    ) -> VaultTransaction:
        t = VaultTransaction(cursor, now, settings, writable=writable)
        t.passed_over = frozenset(self._unwritable)
        t.clone_name = self.remote.clone_name if writable and self.remote is not None else None
        return t

    def _connect(self, create: bool) -> apsw.Connection:
        self.policy.reset()
        self._may_lack_changes = True
        connection = self._index.connect(lambda: self.engine.open_database(create))
        if not self._is_brief:
            connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        return connection

    def _reopen_index(self) -> None:
        if not vault_root.has_ready(self.root):
            raise vault_root.missing(self.root, [])  # perhaps an unmounted drive: create no index there
        self._index.make_folder()
        self.engine.reopen(create=True)

    # Look and reconcile

    def reconcile(self, connection: apsw.Connection) -> bool:
        """Reconcile the index with the files now; return whether that wrote files."""
        self._steps, self._stale = [], set()
        for _ in range(RACES_MAX):
            try:
                self._look(connection)
                return bool(self._steps or self._stale)
            except Raced:
                self.engine.rollback(connection)
            except StoreUnavailable:
                self.engine.rollback(connection)
                raise
        return False

    def _look(self, connection: apsw.Connection) -> None:
        """Reconcile the index with changes to the files since the last look, in a separate transaction."""
        self._merge_late_saves()
        if self._visited:
            self._note_visited(connection)
        if self._has_just_looked():
            return
        connection.execute("BEGIN IMMEDIATE")
        t = self.transaction(connection)
        is_complete = vault_root.has_ready(self.root)
        if is_complete and (not self.policy.needs_scan(t) or self.disk.checksum() == t.checksum()):
            self._end_look(connection)
            return
        seen, unfit = self.disk.scan()
        if not is_complete and FOLDERS["ready"] not in unfit:
            vault_root.restore_ready_folder(self.root, t.entries(), seen, self._were_removed)
        if self.remote is not None and t.differs_from(seen):
            if self.remote.is_on_other_branch() and t.query("any_file")[0][0]:
                self.engine.rollback(connection)
                return
            if self.remote.restore_after_reset():
                seen, unfit = self.disk.scan()
        if t.differs_from(seen):
            if self._may_lack_changes and self._replay(connection, seen):
                raise Raced("changes were brought back after a power cut")
            from dibs.store.vault.reconcile import Reconciler

            known = t.entries()
            if not known:
                # The log of the former index, if there was one, is lost.
                self.disk.sync_all()
                t.run("raise_floor", {"name": "token_floor", "value": self._highest_archived_token()})
            if merge_saves_to_old_paths(self.disk, seen, t.vacated()):
                raise Raced("a late save was merged")
            self._steps = Reconciler(t, self.disk, seen, known, unfit, self.remote).reconcile()
            self._stale = t.stale
            t.close()
            self.write_files(connection)
            self.engine.bell.ring()
        self._end_look(connection)

    def _replay(self, connection: apsw.Connection, seen: Mapping[str, Stamp]) -> bool:
        """Bring back logged changes that are not in the files; return whether there were any."""
        t = self.transaction(connection)
        log = RedoLog(t, self.disk)
        lost = log.find_lost(seen)
        if lost:
            log.mark_lost(lost)
            self.engine.commit(connection)  # before the files change: a crash in between must find the marks
            connection.execute("BEGIN IMMEDIATE")
            log.replay(lost)
            t.close()
            self.engine.commit(connection)
        return bool(lost)

    def _end_look(self, connection: apsw.Connection) -> None:
        self._may_lack_changes = False
        self.policy.mark_clean()
        self.engine.rollback(connection)

    def _has_just_looked(self) -> bool:
        """Whether a command can rely on its last look. Not in a clone, where a merge may change files at any time."""
        return not self._remote.is_clone and self.policy.is_recent()

    def _were_removed(self, paths: list[str]) -> bool:
        return self.remote is not None and self.remote.were_removed(paths)

    def _highest_archived_token(self) -> int:
        """The highest token of pruned items: a rebuilt index must not give it again."""
        archive = Disk(self.root, folders=(ARCHIVE,))
        highest = 0
        for path in archive.scan_unlocked()[0]:
            try:
                facts = task_text.read(archive.read(path)[0].decode(), name_of(path)).facts
            except (OSError, UnicodeDecodeError, Raced, Unfit, task_text.Unreadable):
                continue
            highest = max(highest, 0 if facts is None else facts.token)
        archive.close()
        return highest

    def _note_visited(self, connection: apsw.Connection) -> None:
        """Record the paths at which files were until a write was undone, because an editor may still save there."""
        connection.execute("BEGIN IMMEDIATE")
        t = self.transaction(connection)
        for to, path in self._visited.items():
            t.query("vacate_visited", to=to, path=path, now=t.now)
        t.close()
        connection.execute("COMMIT")
        self._visited.clear()

    def _merge_late_saves(self) -> None:
        """Merge late saves, seldom among all processes: a fleet leaves tens of thousands of files to stat."""
        mark = os.path.join(self.root, HIDDEN, LATE_SAVES_MARK)
        now = time.time()
        try:
            recently = 0 <= now - os.stat(mark).st_mtime < self._late_saves_seconds
        except FileNotFoundError:
            recently = False
        if not recently:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(mark, flags, 0o600)
            os.utime(descriptor)
            os.close(descriptor)
            start = time.thread_time()
            merge_late_saves(self.disk)
            seconds = LATE_SAVES_TIMES * (time.thread_time() - start)
            self._late_saves_seconds = min(max(LATE_SAVES_SECONDS, seconds), LATE_SAVES_SECONDS_MAX)

    # Plan and apply

    def write_files(self, connection: apsw.Connection, *, whole: bool = False) -> None:
        """Write the steps into the files, then commit the index."""
        self._apply(connection, self._render(connection, whole=whole))

    def mark_place(self, connection: apsw.Connection) -> None:
        """Record that the index belongs to this vault, whatever it contains."""
        self._index.mark_place(connection)

    def write_all_files(self, connection: apsw.Connection) -> None:
        """Write every item into its file, and commit the open transaction. Here the files follow the index."""
        t = self.transaction(connection)
        self._steps, self._stale = [], {item for (item,) in (*t.query("item_ids"), *t.query("pruned_items"))}
        t.close()
        self.policy.expire()
        self.write_files(connection, whole=True)

    def _render(self, connection: apsw.Connection, *, whole: bool = False, to_push: bool = False) -> list[Change]:
        t = self.transaction(connection)
        try:
            return render(t, self.disk, self._steps, self._stale, whole=whole, to_push=to_push)
        except BaseException:
            self.policy.expire()
            raise
        finally:
            t.close()

    def _apply(self, connection: apsw.Connection, plan: list[Change]) -> None:
        t = self.transaction(connection)
        application = Application(t, self.disk, plan)
        try:
            # In a clone, git writes files too, and does not know the log.
            application.apply(may_log=not self._remote.is_clone)
            t.close()
            self.engine.commit(connection)
        except BaseException:
            t.close()
            self.policy.expire()
            application.undo()
            self._visited |= application.log.visited
            raise

    def transaction(self, connection: apsw.Connection) -> VaultTransaction:
        return vault_transaction(self.engine.transaction(connection, writable=True))


def _is_decided_between_clones(step: Step) -> bool:
    is_reservation = step.event.kind == "edited" and step.claim is not None and "resources" in step.event.data
    return is_reservation or step.event.kind not in UNCONFIRMED
