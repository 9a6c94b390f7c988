"""The vault store: markdown files in folders, for people who keep tasks that way.

The files are the truth. Beside them, in `.dibs`, lies a SQLite board that is their index, and has what files have no
place for: sessions, queues, request ids, events. Each write looks at the files first and adopts what was done to them
(`adopting`); then it is decided on the index like on any SQLite board; then the files are written (`writing`), and only
then the index commits. What a crash leaves between the two is adopted by whoever comes next. Among dibs processes the
index's lock decides; against everybody else, the rename that overwrites nothing.
"""

from __future__ import annotations

import os
import stat
import time

from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.store.sqlite.store import SqliteStore, system_clock
from dibs.store.vault import beats, catalog, ground, taskfile
from dibs.store.vault.disk import Disk, Raced, Stamp, Unfit
from dibs.store.vault.folders import ARCHIVE, AT_FIRST, CONFLICTS, FOLDERS, HIDDEN, INDEX, SUFFIX, is_by_move
from dibs.store.vault.looking import Looking, differs
from dibs.store.vault.saves import bring_in_copies, bring_in_late_saves
from dibs.store.vault.transaction import STATEMENTS, VaultTransaction
from dibs.store.vault.writing import SILENT, KeptBack, Writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    import apsw

    from dibs.config import Settings
    from dibs.model import Grant, Holding, Prune, Synced
    from dibs.rules.decision import Step
    from dibs.store.contract import Watch
    from dibs.store.sqlite.group_commit import PendingWrite
    from dibs.store.tables.transaction import Transaction
    from dibs.store.vault.adopting import Adopting
    from dibs.store.vault.syncing import Sync

    T = TypeVar("T")

LATE_LOOK_SECONDS = 1.0
#: How often one write is decided anew because somebody was faster at a file.
RACES_MAX = 50
#: Steps that are told to other clones with the next ones: nobody relies on having been the first to take them.
UNCONFIRMED = frozenset({"added", "edited", "progress", *SILENT})
#: Of sessions that were not seen for so long, nothing is said to other clones.
BEATS_SECONDS = 7 * 86400


class VaultStore(SqliteStore):
    #: A write changes several files, and an interrupt between them would be a crash that the next look has to repair.
    callers_take_turns = False
    more_tables = tuple(STATEMENTS[name] for name in ("make_files", "make_left", "make_told", "make_place"))

    def __init__(
        self,
        root: str,
        settings: Settings,
        *,
        create: bool = False,
        lean: bool = False,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self.root = os.path.realpath(root)
        if create:
            ground.require_fit(self.root)
            for folder in AT_FIRST:
                os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        elif not ground.is_vault(self.root):
            raise StoreUnusable(f"{root} is no vault; make one with: dibs vault init {root}", path=root)
        _refuse_links(os.path.join(self.root, HIDDEN))
        self._disk = Disk(self.root)
        self._steps: list[Step] = []
        self._stale: set[str] = set()
        #: Items that cannot be given now, since their files cannot be written.
        self._passed_over: set[str] = set()
        self._looking = Looking(self._disk, lean=lean)
        self._git_mark = _git_mark(self.root)
        self._is_clone = self._git_mark[0] is not None
        self._arbiter: Sync | None = None
        self._patience = beats.Patience()
        #: See `Writing.visited`.
        self._visited: dict[str, str] = {}
        _hide(os.path.join(self.root, HIDDEN))
        super().__init__(os.path.join(self.root, HIDDEN, INDEX), settings, create=True, clock=clock)

    def read(self, work: Callable[[Transaction], T]) -> T:
        self.look()
        return super().read(work)

    def look(self) -> None:
        """Adopt what was done to the files, if anything was. Reading goes on even where that cannot be written down."""
        try:
            if not self._has_looked() and self._read_in_turn(lambda t: self._looking.may_differ(_of_files(t))):
                self.write(lambda t: None)
        except StoreUnavailable:
            pass

    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        from dibs.store.tables import archive

        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self.look()
        yield from super().export()

    def _restored(self, connection: apsw.Connection) -> None:
        """The files follow the board for once: it was brought back for what they say now to be forgotten. What people
        wrote in them since is kept in Conflicts."""
        seen, _ = self._disk.scan()
        connection.execute("BEGIN IMMEDIATE")
        self._make_tables(connection)
        t = self._transaction(connection, writable=True)
        t.files("forget_files")
        for path, stamp in seen.items():
            self._claim_for_its_item(t, path, stamp)
        self._steps, self._stale = [], {item for (item,) in t.files("item_ids")}
        t.close()
        self._looking.begin_anew()
        self._write_down(connection, whole=True)

    def _claim_for_its_item(self, t: VaultTransaction, path: str, stamp: Stamp) -> None:
        """Which item a file is of; what cannot be told is left to the next look, and a second one is set aside."""
        try:
            text = self._disk.read(path)[0].decode()
            item = taskfile.read(text, path.rpartition("/")[2]).id
        except (FileNotFoundError, UnicodeDecodeError, Unfit, taskfile.Unreadable):
            return
        if not text.strip() and t.one("item_by_id", id=item) is None:
            return  # somebody is about to write it
        if catalog.entry_of(t, item) is None:
            catalog.put(t, catalog.Entry(path=path, item=item, stamp=stamp))

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.tables import archive

        def load(t: Transaction) -> int:
            count = archive.load(t, records)
            assert isinstance(t, VaultTransaction)
            t.stale.update(row[0] for row in t.files("item_ids"))
            return count

        return self.write(load)

    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Files that look like tasks and are none, or cannot be read; names that other machines take for one."""
        from dibs.store.vault import remarks

        found = []
        try:
            self.write(lambda t: None)
        except StoreUnavailable as error:
            found.append(
                (f"the files cannot be looked at: {error.message}", "until then the board is as it was before")
            )
        if self.arbiter is not None:
            found += [
                (f"this clone's git repository is damaged: {what}", "dibs vault sync makes it whole from the remote")
                for what in self.arbiter.damage()
            ]
            found += [
                (f"left alone: {what}", "until then git shows changes that others made")
                for what in self.arbiter.stuck()
            ]
        for item, agent, holder, token in self._read_in_turn(lambda t: _of_files(t).files("lost_claims", now=t.now)):
            who = f", which {holder} holds under token {token}" if holder else ""
            found.append(
                (f"{agent} took {item} by a move{who}: another clone's claim was accepted first", "stop that work")
            )
        seen, unfit = self._disk.glance()
        known = self._read_in_turn(_known)
        kept = self._disk.names_in(CONFLICTS)
        return (*found, *remarks.of_files(seen, unfit, self._disk.folders_within(), known.values(), kept))

    def next(self, *, done: Mapping[str, int] | None = None, **asked: Any) -> tuple[Grant, ...]:
        """There is nothing only if the remote has nothing either."""
        grants = super().next(done=done, **asked)
        if grants or self.arbiter is None:
            return grants
        try:
            has_news = bool(self._exclusively(self._refreshed).news)
        except StoreUnavailable:
            if not done:
                raise
            return ()  # those are ended, and who asked is to know
        return super().next(**asked) if has_news else ()

    def who(self) -> tuple[Holding, ...]:
        """A claim by a move is tentative until the remote has it; one that lost to another clone's is said to have."""
        found = super().who()
        if self.arbiter is None or not any(map(_is_by_move, found)):
            return found
        places = dict(self._read_in_turn(lambda t: _of_files(t).files("claims_by_move")))
        known = self.arbiter.lies_so(places.values())
        unknown = {item for item, path in places.items() if path not in known}
        return tuple(_marked(line, unknown) if _is_by_move(line) else line for line in found)

    def watch(self, *, session: str | None = None) -> Watch:
        from dibs.store.vault.watching import VaultWatch

        self._looking.stay()
        return VaultWatch(super().watch(session=session), self.look, self._disk.eyes(self._bell.path))

    def close(self) -> None:
        super().close()
        self._looking.close()
        self._disk.close()
        if self._arbiter is not None:
            self._arbiter.close()

    # One write

    def _transact(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        self._passed_over = set()
        self._look_for_a_branch()
        for _ in range(RACES_MAX):
            try:
                if self.arbiter is not None:
                    self.arbiter.prepare()
                self._catch_up(connection)
                self._steps, self._stale = [], set()
                super()._transact(connection, writes)
                return
            except Raced as raced:
                path = str(raced)
                self._looking.begin_anew()
                self._finish(connection)
            except KeptBack as kept:
                path = kept.item
                self._finish(connection)
                if len(writes) > 1:
                    self._apart(connection, writes)
                    return
                if kept.item in self._passed_over:
                    raise kept.error from None
                self._passed_over.add(kept.item)
            for write in writes:
                write.reset()
        is_gone = path.endswith(SUFFIX) and self._disk.stamp(path) is None
        what = (
            "is gone, and waited for: put it back, or it is taken away" if is_gone else "is being changed all the time"
        )
        raise StoreUnavailable(f"{path} {what}; try again", path=path, retry_after_seconds=1)

    def _apart(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        """Each for itself: what cannot be written of one is no matter of the others."""
        for write in writes:
            write.reset()
            try:
                self._transact(connection, [write])
            except StoreUnavailable as error:
                self._finish(connection)
                write.error = error

    def _do(self, connection: apsw.Connection, write: PendingWrite) -> None:
        super()._do(connection, write)
        t = self._current
        assert isinstance(t, VaultTransaction)
        self._steps += t.steps
        self._stale |= t.stale

    def _catch_up(self, connection: apsw.Connection) -> None:
        """Adopt what was done to the files since somebody last looked, in a transaction of its own."""
        self._look_for_late_saves()
        if self._visited:
            self._note_visits(connection)
        if self._has_looked():
            return
        connection.execute("BEGIN IMMEDIATE")
        t = self._transaction(connection, writable=True)
        is_whole = ground.has_ready(self.root)
        if is_whole and (not self._looking.is_needed(t) or self._disk.mark() == t.files("mark")[0][0]):
            self._settle(connection)
            return
        seen, unfit = self._disk.scan()
        if not is_whole and FOLDERS["ready"] not in unfit:
            ground.make_again(self.root, _known(t), seen, self._were_removed)
        if differs(t, seen) and self.arbiter is not None:
            if self.arbiter.is_elsewhere() and t.files("any_file")[0][0]:
                self._finish(connection)
                return
            if self.arbiter.mend_reset():
                seen, unfit = self._disk.scan()
        if differs(t, seen):
            known = _known(t)
            if not known:
                t.run("raise_floor", {"name": "token_floor", "value": self._archived_token()})
            if bring_in_copies(self._disk, seen, catalog.left(t)):
                raise Raced("a save came to where a file lay before")
            self._steps, self._stale = self._adopting(t, seen, known, unfit).adopt(), t.stale
            t.close()
            self._write_down(connection)
            self._bell.ring()
        self._settle(connection)

    def _adopting(
        self, t: VaultTransaction, seen: dict[str, Stamp], known: dict[str, catalog.Entry], unfit: dict[str, str]
    ) -> Adopting:
        from dibs.store.vault.adopting import Adopting

        return Adopting(t, self._disk, seen, known, unfit, self.arbiter)

    def _were_removed(self, paths: list[str]) -> bool:
        return self.arbiter is not None and self.arbiter.were_removed(paths)

    def _archived_token(self) -> int:
        """The highest token of what was pruned: an index that is made anew must not give it again."""
        archive = Disk(self.root, folders=(ARCHIVE,))
        highest = 0
        for path in archive.glance()[0]:
            try:
                facts = taskfile.read(archive.read(path)[0].decode(), path.rpartition("/")[2]).facts
            except (OSError, UnicodeDecodeError, Raced, Unfit, taskfile.Unreadable):
                continue
            highest = max(highest, 0 if facts is None else facts.token)
        archive.close()
        return highest

    def _settle(self, connection: apsw.Connection) -> None:
        """All files are as the index knows them."""
        self._looking.all_is_known()
        self._finish(connection)

    def _has_looked(self) -> bool:
        """Whether a command may do without a second look. Other clones bring files at any time."""
        return not self._is_clone and self._looking.is_over()

    def _note_visits(self, connection: apsw.Connection) -> None:
        """Files lay there until a decision was taken back, and saves may still come there."""
        connection.execute("BEGIN IMMEDIATE")
        t = self._transaction(connection, writable=True)
        for to, path in self._visited.items():
            t.files("visit", to=to, path=path, now=t.now)
        t.close()
        connection.execute("COMMIT")
        self._visited.clear()

    def _look_for_late_saves(self) -> None:
        """When one is told of, or now and then, by whoever comes: there may be thousands of files to look at."""
        mark = os.path.join(self.root, HIDDEN, "late-saves-looked-for")
        now = time.time()
        try:
            recently = 0 <= now - os.stat(mark).st_mtime < LATE_LOOK_SECONDS
        except FileNotFoundError:
            recently = False
        if not recently:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(mark, flags, 0o600)
            os.utime(descriptor)
            os.close(descriptor)
            bring_in_late_saves(self._disk)

    def _commit(self, connection: apsw.Connection) -> None:
        arbiter = self.arbiter
        if arbiter is None or all(step.event.kind in UNCONFIRMED for step in self._steps):
            self._write_down(connection)
            return
        arbiter.confirm(self._planned(connection))
        connection.execute("SAVEPOINT accepted")
        try:
            self._write_down(connection)
        except Raced:
            connection.execute("ROLLBACK TO accepted")
            super()._commit(connection)
            arbiter.stand_by()
        else:
            arbiter.settle()

    def _planned(self, connection: apsw.Connection) -> dict[str, bytes | None]:
        """What the files are going to be."""
        from dibs.store.vault.planned import Planned

        planned = Planned(self._disk)
        connection.execute("SAVEPOINT planned")
        t = self._transaction(connection, writable=True)
        try:
            writing = Writing(t, planned)
            writing.write(self._steps, self._stale)
            writing.archive()
        finally:
            t.close()
            connection.execute("ROLLBACK TO planned")
            connection.execute("RELEASE planned")
        return planned.files

    def _write_down(self, connection: apsw.Connection, *, whole: bool = False) -> None:
        """First into the files, then into the index."""
        t = self._transaction(connection, writable=True)
        writing = Writing(t, self._disk, whole=whole)
        try:
            writing.write(self._steps, self._stale)
            writing.archive()
            t.close()
            super()._commit(connection)
        except BaseException:
            t.close()
            self._looking.begin_anew()
            writing.put_back()
            self._visited |= writing.visited
            raise

    # Other clones

    @property
    def arbiter(self) -> Sync | None:
        """Who says which of two clones has an item: the remote, if there is one."""
        if not self._is_clone:
            return None
        if self._arbiter is None:
            from dibs.store.vault import syncing

            self._arbiter = syncing.find(self.root)
            self._is_clone = self._arbiter is not None
        return self._arbiter

    def _look_for_a_branch(self) -> None:
        """A person may have checked one out since (a rebase is over), or have had it follow a remote's."""
        if self._arbiter is not None and self._arbiter.is_astray:
            self._arbiter.close()
            self._arbiter = None
        if self._arbiter is None:
            mark = _git_mark(self.root)
            self._is_clone |= mark != self._git_mark and mark[0] is not None
            self._git_mark = mark

    def sync(self, *, expire: bool = False) -> Synced:
        """Bring what other clones did here, and what was done here to them.

        With `expire`, by a process that does so again and again: claims of sessions elsewhere that have been silent
        for too long are ended.
        """
        self._look_for_a_branch()
        if self.arbiter is None:
            raise Invalid(
                "this vault has no git remote: it is no clone whose branch follows one, or dibs.sync is off",
                field="store",
            )
        synced = self._exclusively(self._synced)
        return synced if not expire else synced.replace(expired=self._end_what_is_silent())

    def _refreshed(self, connection: apsw.Connection) -> Synced:
        arbiter = self.arbiter
        assert arbiter is not None
        refreshed = arbiter.refresh()
        self._adopted(connection)
        return refreshed

    def _synced(self, connection: apsw.Connection) -> Synced:
        arbiter = self.arbiter
        assert arbiter is not None
        try:
            arbiter.mend()
            self._adopted(connection)
            self._show_who_lives(connection, arbiter)
            synced = arbiter.sync()
        finally:
            wrote = self._adopted(connection)
        if not wrote:
            return synced
        from dibs.store.vault.syncing import together

        # What was adopted just now was written into files, and others are to know of it.
        again = arbiter.sync()
        return together([synced, again], again.commit, synced.pushed or again.pushed)

    def _adopted(self, connection: apsw.Connection) -> bool:
        """Whether files were written by that."""
        self._steps, self._stale = [], set()
        for _ in range(RACES_MAX):
            try:
                self._catch_up(connection)
                return bool(self._steps or self._stale)
            except Raced:
                self._finish(connection)
            except StoreUnavailable:
                self._finish(connection)
                raise
        return False

    def _show_who_lives(self, connection: apsw.Connection, arbiter: Sync) -> None:
        t = self._transaction(connection)
        rows = t.files("sessions_here", now=t.now, since=t.now - int(BEATS_SECONDS * 1000))
        t.close()
        holders = [beats.Holder(session=id, agent=agent, host=host, counter=at) for id, agent, host, at, n in rows if n]
        beats.show(arbiter.files, holders, [row[0] for row in rows])

    def _end_what_is_silent(self) -> tuple[str, ...]:
        arbiter = self.arbiter
        assert arbiter is not None
        rows = self._read_in_turn(_claims_elsewhere)
        held = [
            beats.Held(item=item, token=token, session=session, ttl_seconds=ttl) for item, token, session, ttl in rows
        ]
        lost = self._patience.lost([(one, beats.counter(arbiter.files, one.session)) for one in held])

        def end(t: Transaction) -> tuple[str, ...]:
            assert isinstance(t, VaultTransaction)
            ended = []
            for one in lost:
                claim = t.claim_of(one.item)
                if claim is not None and (claim.token, claim.session) == (one.token, one.session):
                    t.files("expire_elsewhere", item=one.item, token=one.token, session=one.session, now=t.now)
                    t.fresh(one.item)
                    ended.append(one.item)
            return tuple(ended)

        return self.write(end) if lost else ()

    def _transaction(self, connection: apsw.Connection, *, writable: bool = False) -> VaultTransaction:
        t = VaultTransaction(connection.cursor(), self._clock(), self.settings, writable=writable)
        t.passed_over = frozenset(self._passed_over)
        t.clone = self.arbiter.clone if writable and self.arbiter is not None else None
        self._current = t
        return t

    def _connected(self) -> apsw.Connection:
        """The index may be taken away at any time: it is made again, from the files."""
        if self._connection is not None and self._pid == os.getpid() and not _is_at(self._index, self.path):
            if not ground.has_ready(self.root):
                raise ground.missing(self.root, [])  # the whole drive, say: no index is to be made in its place
            self._connection.close(True)
            self._lock.forget()
            self._bell.close()
            _refuse_links(os.path.dirname(self.path))
            _hide(os.path.dirname(self.path))
            self._connection = self._open(create=True)
            if self._readers is not None:
                self._readers.open_anew()
        return super()._connected()

    def _open_reader(self) -> apsw.Connection:
        """Of the index as it is: a read has looked before, and whether the index is believed was asked then."""
        return SqliteStore._open(self, create=False)

    def _open(self, create: bool) -> apsw.Connection:
        self._looking.know_nothing()
        connection = super()._open(create)
        # Those that are made last: who finds them finds the others, too. One of them is younger than some indexes.
        last = connection.execute("SELECT 1 FROM sqlite_schema WHERE name IN ('vault_told', 'vault_place')")
        if len(last.fetchall()) < 2:
            self._make_tables(connection)
        if not self._is_of_here(connection):
            connection.close()
            self._forget_index()
            return self._open(create)
        self._index = os.stat(self.path)
        return connection

    def _make_tables(self, connection: apsw.Connection) -> None:
        for statement in self.more_tables:
            connection.execute(statement)

    def _is_of_here(self, connection: apsw.Connection) -> bool:
        """Whether this index was made here. One that came with a clone or a copy is not believed."""
        here = os.stat(os.path.dirname(self.path)).st_ino
        found = connection.execute(STATEMENTS["place"]).fetchall()
        if not found:
            connection.execute(STATEMENTS["put_place"], {"inode": here})
            found = connection.execute(STATEMENTS["place"]).fetchall()
        return bool(found == [(here,)])

    def _forget_index(self) -> None:
        for name in ("", "-wal", "-shm"):
            if os.path.exists(self.path + name):
                os.unlink(self.path + name)


def _git_mark(root: str) -> tuple[tuple[int, int] | None, ...]:
    """What changes when another branch is checked out, or a branch is to follow another; the first: if there is git."""
    head, config = (_stamp(os.path.join(root, ".git", name)) for name in ("HEAD", "config"))
    # As a folder it is touched by every commit.
    return (0, 0) if os.path.lexists(os.path.join(root, ".git")) else None, head, config


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _is_at(known: os.stat_result, path: str) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (known.st_dev, known.st_ino)


def _claims_elsewhere(t: Transaction) -> list[tuple[Any, ...]]:
    return _of_files(t).files("claims_elsewhere")


def _is_by_move(line: Holding) -> bool:
    hold = line.claim or line.soft
    return hold is not None and is_by_move(hold.session)


def _marked(line: Holding, unknown: set[str]) -> Holding:
    if line.soft is not None:
        return line.replace(health="lost")
    return line.replace(health="tentative") if line.item.id in unknown else line


def _known(t: Transaction) -> dict[str, catalog.Entry]:
    return catalog.entries(_of_files(t).files("files"))


def _of_files(t: Transaction) -> VaultTransaction:
    assert isinstance(t, VaultTransaction)
    return t


def _refuse_links(folder: str) -> None:
    """What lies in `.dibs` is written to; a link there, which a clone may bring along, leads to somebody's file."""
    names = ["", *os.listdir(folder)] if os.path.isdir(folder) else [""] if os.path.lexists(folder) else []
    for name in names:
        path = os.path.join(folder, name).rstrip("/")
        try:
            # Looked at once: SQLite makes and removes its journal at any time.
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise StoreUnusable(f"{path} is a link, or no file; a vault's index is its own: remove it", path=path)


def _hide(folder: str) -> None:
    """The index is nobody's but this machine's: never committed."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        # Neither an existing file nor a link is opened by "x".
        with open(os.path.join(folder, ".gitignore"), "x", encoding="utf-8") as file:
            file.write("*\n")
    except FileExistsError:
        pass
