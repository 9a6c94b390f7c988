"""The vault store: markdown files in folders, for people who keep their tasks that way.

The files are the truth. A SQLite board in `.dibs` is their index, and holds what files have no place for: sessions,
queues, idempotency keys, events. Each write is one pass of `write_cycle`, each read looks at the files first. The lock
of the index decides among dibs processes, the rename without overwriting against all other programs, and the accepted
`git push` between clones. The verbs that differ from a SQLite board are here.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.store.contract import SQLITE, Store
from dibs.store.sqlite.engine import system_clock
from dibs.store.sqlite.store import SqliteStore, SqliteVerbs
from dibs.store.vault import vault_root
from dibs.store.vault.index import ELSEWHERE, NAMES, TABLES, Entry, create_tables, vault_transaction
from dibs.store.vault.layout import FOLDERS, INITIAL, is_by_move, name_of
from dibs.store.vault.write_cycle import WriteCycle
from dibs.system import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    import apsw

    from dibs.config import Settings
    from dibs.model import Grant, Holding, Prune, Request, Synced
    from dibs.model.dashboard import View
    from dibs.store.contract import Watch
    from dibs.store.sql.transaction import Transaction
    from dibs.store.vault.git.liveness import LivenessMonitor
    from dibs.store.vault.git.sync import Sync
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.safe_fs import Stamp
    from dibs.value import Value

    T = TypeVar("T")

#: Sessions that were not seen for this long are not published to other clones.
PUBLISH_SECONDS = 7 * 86400


class VaultStore(SqliteVerbs, Store):
    backup_format = SQLITE

    def __init__(
        self,
        root: str,
        settings: Settings,
        *,
        create: bool = False,
        lean: bool = False,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        """`lean`: the process runs a single command."""
        self.settings = settings
        self.root = os.path.realpath(root)
        if create:
            vault_root.require_suitable(self.root)
            for folder in INITIAL:
                os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        elif not vault_root.is_vault(self.root):
            raise StoreUnusable(f"{root} is not a vault; make one with: dibs vault init {root}", path=root)
        self.cycle = WriteCycle(self.root, settings, clock, brief=lean)
        self.engine = self.cycle.engine
        self._index = SqliteStore(self.path, settings, create=True, lean=lean, engine=self.engine, more_tables=TABLES)
        self._liveness: LivenessMonitor | None = None

    @property
    def path(self) -> str:
        return self.engine.path

    @property
    def remote(self) -> Sync | None:
        return self.cycle.remote

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        self._index.on_freed = self.on_freed
        return self._index.write(work, request, kind)

    def read(self, work: Callable[[Transaction], T]) -> T:
        self.look()
        return self._index.read(work)

    def look(self) -> None:
        """Reconcile the index with the files, if they changed. If that fails, a read answers from the index as it
        is."""
        try:
            if self.cycle.needs_look():
                self.write(lambda t: None)
        except StoreUnavailable:
            pass

    def separate_readers(self) -> None:
        self._index.separate_readers()

    def watch(self, *, session: str | None = None) -> Watch:
        from dibs.store.vault.watch import VaultWatch

        self.cycle.policy.set_long_lived()
        return VaultWatch(self._index.watch(session=session), self.look, self.cycle.disk.watch(self.engine.bell.path))

    def checkpoint_on_close(self) -> None:
        self._index.checkpoint_on_close()

    def close(self) -> None:
        self.cycle.close()

    # Verbs that also use the remote

    def next(self, *, done: Mapping[str, int] | None = None, **asked: Any) -> tuple[Grant, ...]:
        """Answer "nothing" only if the remote has nothing either."""
        grants: tuple[Grant, ...] = super().next(done=done, **asked)
        if grants or self.remote is None:
            return grants
        try:
            has_news = bool(self.engine.exclusively(self._refresh).news)
        except StoreUnavailable:
            if not done:
                raise
            return ()  # the caller must learn that its items were ended
        return super().next(**asked) if has_news else ()

    def end_silent(self, *, limit: int) -> tuple[str, ...]:
        """Not sessions of other clones: only their clone knows what they call, and a merge brings their claims."""
        from dibs.check import LIST_MAX
        from dibs.store.sql.session_verbs import end_silent, silent_sessions

        found = self.read(lambda t: [id for id in silent_sessions(t, LIST_MAX) if not _is_elsewhere(t, id)])[:limit]
        return self.write(lambda t: end_silent(t, found)) if found else ()

    def who(self) -> tuple[Holding, ...]:
        """A claim by a move has the health `tentative` until the remote has it, and `lost` if the remote accepted
        another clone's claim."""
        found: tuple[Holding, ...] = super().who()
        if not any(map(_is_by_move, found)):
            return found
        tentative = self._tentative_claims()
        return tuple(_with_health(line, tentative) if _is_by_move(line) else line for line in found)

    def view(self) -> View:
        """The health of a claim by a move is as in `who`."""
        found: View = super().view()
        if not any(is_by_move(held.session) for held in found.holdings):
            return found
        tentative = self._tentative_claims()
        return found.replace(
            holdings=tuple(
                held.replace(health="tentative") if held.item in tentative else held for held in found.holdings
            )
        )

    def _tentative_claims(self) -> set[str]:
        """Items that are claimed by a move which the remote does not have yet."""
        if self.remote is None:
            return set()
        paths = dict(self.engine.read_in_turn(lambda t: vault_transaction(t).query("claims_by_move")))
        known = self.remote.known_paths(paths.values())
        return {item for item, path in paths.items() if path not in known}

    def sync(self, *, expire: bool = False) -> Synced:
        """Merge the changes of other clones, and push the changes that were made here.

        With `expire`, which only a process that syncs in a loop may set: expire the claims of sessions in other clones
        whose counters have not changed for too long.
        """
        self.cycle.find_remote_again()
        if self.remote is None:
            raise Invalid(
                "this vault has no git remote: it is not a clone, its branch has no upstream, or dibs.sync is off",
                field="store",
            )
        synced = self.engine.exclusively(self._sync)
        return synced if not expire else synced.replace(expired=self._expire_silent(self.remote))

    def _refresh(self, connection: apsw.Connection) -> Synced:
        assert self.remote is not None
        refreshed = self.remote.refresh()
        self.cycle.reconcile(connection)
        return refreshed

    def _sync(self, connection: apsw.Connection) -> Synced:
        remote = self.remote
        assert remote is not None
        from dibs.store.vault.git.repository import SYNC_STEPS
        from dibs.store.vault.git.sync import combine

        progress.report("reading the files", 1, SYNC_STEPS)
        try:
            remote.restore_reverted()
            self.cycle.reconcile(connection)
            self._publish_sessions(connection, remote)
            synced = remote.sync()
            progress.report("writing the files", SYNC_STEPS, SYNC_STEPS)
        finally:
            wrote = self.cycle.reconcile(connection)
        if not wrote:
            return synced
        # Reconciling wrote into files, which other clones are to see.
        again = remote.sync()
        return combine([synced, again], again.commit, synced.pushed or again.pushed)

    def _publish_sessions(self, connection: apsw.Connection, remote: Sync) -> None:
        from dibs.store.vault.git import liveness

        t = vault_transaction(self.engine.transaction(connection))
        rows = t.query("sessions_here", now=t.now, since=t.now - PUBLISH_SECONDS * 1000)
        t.close()
        live = [
            liveness.LiveSession(session=id, agent=agent, host=host, counter=seen_at)
            for id, agent, host, seen_at, claims in rows
            if claims
        ]
        liveness.publish(remote.files, live, [row[0] for row in rows])

    def _expire_silent(self, remote: Sync) -> tuple[str, ...]:
        from dibs.store.vault.git import liveness

        if self._liveness is None:
            self._liveness = liveness.LivenessMonitor()
        claims = [
            liveness.RemoteClaim(item=item, token=token, session=session, ttl_seconds=ttl)
            for item, token, session, ttl in self.engine.read_in_turn(
                lambda t: vault_transaction(t).query("claims_elsewhere")
            )
        ]
        silent = self._liveness.silent([(claim, liveness.counter(remote.files, claim.session)) for claim in claims])

        def expire(t: Transaction) -> tuple[str, ...]:
            expired = []
            for one in silent:
                claim = t.claim_of(one.item)
                if claim is not None and (claim.token, claim.session) == (one.token, one.session):
                    vault_transaction(t).query(
                        "expire_elsewhere", item=one.item, token=one.token, session=one.session, now=t.now
                    )
                    t.record_due(one.item)
                    expired.append(one.item)
            return tuple(expired)

        return self.write(expire) if silent else ()

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        if limit is None or dry_run:
            return self._index.prune(older_than_seconds=older_than_seconds, limit=limit, dry_run=dry_run)
        from dibs.store.sql import archive

        def prune(t: Transaction) -> Prune:
            pruned = archive.prune(t, older_than_seconds, limit)
            vault_transaction(t).stale.update(row[0] for row in vault_transaction(t).query("pruned_items"))
            return pruned

        return self.write(prune)

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self.look()
        yield from self._index.export()

    def histories(self) -> Iterator[tuple[str, Any]]:
        self.look()
        yield from self._index.histories()

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.sql import archive

        def load(t: Transaction) -> int:
            count = archive.load(t, records)
            vault_transaction(t).stale.update(row[0] for row in vault_transaction(t).query("item_ids"))
            return count

        return self.write(load)

    def backup(self, path: str) -> None:
        self._index.backup(path, NAMES)

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sqlite import backups

        return backups.restore(self.engine, path, actor, TABLES, self._write_restored)

    def _write_restored(self, connection: apsw.Connection) -> None:
        """Write the restored board into the files. Text that people wrote since the backup is kept in Conflicts."""
        from dibs.store.vault.taskfile.task_text import id_of

        seen, _ = self.cycle.disk.scan()
        connection.execute("BEGIN IMMEDIATE")
        # Backups lack these tables. A copy that SQLite made has them, about the files of its time and place.
        for table in NAMES:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        create_tables(connection)
        self.cycle.mark_place(connection)
        t = self.cycle.transaction(connection)
        self.cycle.disk.sync_all()
        statuses = dict(connection.execute("SELECT id, status FROM items"))

        def is_elsewhere(path: str) -> bool:
            status = statuses.get(id_of(name_of(path)))
            return status is None or not path.startswith(f"{FOLDERS[status]}/")

        # Of two files of an item, the one where the item is written: the other one would be in its way.
        for path in sorted(seen, key=is_elsewhere):
            self._assign_to_item(t, path, seen[path])
        t.close()
        self.cycle.write_all_files(connection)

    def _assign_to_item(self, t: VaultTransaction, path: str, stamp: Stamp) -> None:
        """Record a file as that of its item. An unreadable file, and a second file of an item, are left to the next
        look."""
        from dibs.store.vault.disk import Unfit
        from dibs.store.vault.taskfile import task_text

        try:
            text = self.cycle.disk.read(path)[0].decode()
            task = task_text.read(text, name_of(path))
        except (FileNotFoundError, UnicodeDecodeError, Unfit, task_text.Unreadable):
            return
        if not text.strip() and t.one("item_by_id", id=task.id) is None:
            return  # a program has created the file and is about to write it
        if t.entry_of(task.id) is None:
            t.put_entry(Entry(path=path, item=task.id, stamp=stamp))
            if task.foreign_claim is not None:
                t.put_foreign_claim(task.id, task.foreign_claim.key)  # made before the restore, which ended it

    # Health

    def check(self) -> tuple[str, ...]:
        return self._index.check()

    def notes(self) -> tuple[tuple[str, str], ...]:
        return self._index.notes()

    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Problems with files, with the git repository, and with claims by a move: (problem, advice)."""
        from dibs.store.vault import findings

        found = []
        try:
            self.write(lambda t: None)
        except StoreUnavailable as error:
            found.append(
                (f"the files cannot be reconciled: {error.message}", "the board stays as it was until that succeeds")
            )
        if self.remote is not None:
            found += findings.of_repository(self.remote)
        lost = self.engine.read_in_turn(lambda t: vault_transaction(t).query("lost_claims", now=t.now))
        found += findings.of_lost_claims(lost)
        noted = self.engine.read_in_turn(lambda t: vault_transaction(t).query("noted_files"))
        found += self._index.remarks()
        return (*found, *findings.of_files(self.cycle.disk, noted, self._is_readable_item))

    def ping(self) -> None:
        self._index.ping()  # a look at all files may take long

    def free_bytes(self) -> int:
        return self._index.free_bytes()

    def _is_readable_item(self, path: str) -> bool:
        return bool(self.engine.read_in_turn(lambda t: vault_transaction(t).query("readable_item_at", path=path)))


def _is_by_move(line: Holding) -> bool:
    hold = line.claim or line.soft
    return hold is not None and is_by_move(hold.session)


def _with_health(line: Holding, tentative: set[str]) -> Holding:
    if line.soft is not None:
        return line.replace(health="lost")
    return line.replace(health="tentative") if line.item.id in tentative else line


def _is_elsewhere(t: Transaction, id: str) -> bool:
    from dibs.store.sql.session_verbs import find_session

    session = find_session(t, id)
    return session is not None and ELSEWHERE in session.meta
