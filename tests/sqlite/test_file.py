"""The database file itself: what makes a board, what is refused, and in which words."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.model import NewItem, Session
from dibs.store.sqlite import database as opening
from dibs.store.sqlite import lock as locking
from dibs.store.sqlite.side_files import LOCK
from dibs.store.sqlite.store import SqliteStore
from dibs.system.mounts import filesystem_type


def make(path: Path) -> SqliteStore:
    return SqliteStore(str(path), DEFAULTS, create=True)


def files_open() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_board_is_durable_and_in_wal_mode(tmp_path: Path) -> None:
    connection = make(tmp_path / "board.db").engine.connection()
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2  # FULL: an acknowledged claim survives a power cut
    assert connection.pragma("application_id") == opening.APPLICATION_ID
    assert connection.pragma("user_version") == opening.SCHEMA_VERSION


def test_a_missing_board_is_not_made_by_accident(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="dibs init"):
        SqliteStore(str(tmp_path / "board.db"), DEFAULTS)
    assert os.listdir(tmp_path) == []


def test_making_a_board_twice_keeps_what_is_on_it(tmp_path: Path) -> None:
    make(tmp_path / "board.db").add([NewItem(id="x", title="x")], actor="tester")
    assert make(tmp_path / "board.db").get("x").item.title == "x"


def test_a_closed_board_touches_no_file_again(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True)
    store.close()
    for path in tmp_path.iterdir():
        path.unlink()
    for ask in (store.watch, lambda: store.read(lambda t: None), lambda: store.write(lambda t: None)):
        with pytest.raises(StoreUnavailable, match="was closed"):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_a_board_that_is_dropped_without_being_closed_leaves_no_file_open(tmp_path: Path) -> None:
    before = files_open()
    store = make(tmp_path / "board.db")
    store.add([NewItem(id="x", title="x")], actor="tester")
    watch = store.watch()
    assert files_open() > before
    del watch, store
    assert files_open() == before


def test_a_newer_board_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = make(tmp_path / "board.db")
    store.engine.connection().execute(f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")
    store.close()
    with pytest.raises(StoreUnusable, match="newer dibs"):
        make(tmp_path / "board.db")


def test_a_board_from_before_version_1_is_refused_and_left_alone(tmp_path: Path) -> None:
    connection = make(tmp_path / "board.db").engine.connection()
    connection.execute("PRAGMA application_id = 0x64696273; PRAGMA user_version = 12; PRAGMA journal_mode = DELETE")
    connection.close()
    before = (tmp_path / "board.db").read_bytes()
    for create in (False, True):
        with pytest.raises(StoreUnusable, match=r"before schema 1: .* \(dibs export FILE;.* \(dibs import FILE\)"):
            SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=create)
    assert (tmp_path / "board.db").read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    apsw.Connection(str(tmp_path / "board.db")).execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreUnusable, match="another program"):
        make(tmp_path / "board.db")
    tables = apsw.Connection(str(tmp_path / "board.db")).execute("SELECT name FROM sqlite_schema").fetchall()
    assert tables == [("theirs",)]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "board.db").write_bytes(b"this is not a database at all, however long it may be" * 100)
    with pytest.raises(StoreUnusable, match=r"damaged|no board"):
        make(tmp_path / "board.db")


def test_a_file_that_is_damaged_while_somebody_waits_is_refused(tmp_path: Path) -> None:
    store = make(tmp_path / "board.db")
    store.add([NewItem(id="x", title="x")], actor="tester")
    watch = store.watch()
    for path in tmp_path.glob("board.db*"):
        with open(path, "r+b") as file:
            file.write(os.urandom(path.stat().st_size))
    with pytest.raises(StoreUnusable, match="damaged"):
        watch.wait(0)
    watch.close()


def test_a_lock_that_cannot_be_unlocked_takes_back_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb is done by then. The lock is free all the same: its file was closed."""
    store, other = make(tmp_path / "board.db"), make(tmp_path / "board.db")

    def fail(descriptor: int, part: tuple[bytes, bytes]) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(locking, "_unlock", fail)
        assert store.add([NewItem(id="x", title="x")], actor="tester")[0].id == "x"
    for board in (other, store):
        board.add([NewItem(id=f"{id(board)}", title="x")], actor="tester")
    assert len(store.list(limit=10)) == 3


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "board.db").mkdir()
    with pytest.raises(StoreUnusable, match="is a directory"):
        make(tmp_path / "board.db")


def test_a_migration_killed_half_way_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "migration", lambda number: "CREATE TABLE half (x); SELECT no_such_function()")
    with pytest.raises(StoreUnavailable):
        make(tmp_path / "board.db")
    monkeypatch.undo()
    store = make(tmp_path / "board.db")
    assert store.engine.connection().execute("SELECT 1 FROM sqlite_schema WHERE name = 'half'").fetchall() == []


def test_many_processes_may_make_the_same_board_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from dibs.config import DEFAULTS; from dibs.store.sqlite.store import SqliteStore;"
        "sys.stdin.read(1); SqliteStore(sys.argv[1], DEFAULTS, create=True).agents()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "board.db")]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(6)]
    for maker in makers:
        maker.communicate(b"!", timeout=60)
    assert [maker.returncode for maker in makers] == [0] * 6


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_filesystem_is_refused_unless_overridden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(opening, "filesystem_type", lambda path: kind)
    with pytest.raises(StoreUnusable, match="network filesystem"):
        make(tmp_path / "board.db")
    SqliteStore(str(tmp_path / "board.db"), DEFAULTS.replace(network_filesystem=True), create=True).close()


def test_the_filesystem_of_a_path_is_read_from_the_mount_table() -> None:
    assert filesystem_type("/proc/self") == "proc"
    with open("/proc/self/mountinfo") as table:
        if "/" not in [line.split()[4] for line in table]:
            pytest.skip("in a chroot, the table does not have the mount of /")
    assert filesystem_type("/") not in ("", "proc")


def test_a_stopped_holder_of_the_lock_delays_others_only_so_long(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    store = SqliteStore(str(path), DEFAULTS.replace(lock_wait_seconds=0.2), create=True)
    script = (
        "import sys, os, signal; from dibs.store.sqlite.lock import FairLock;"
        "lock = FairLock(sys.argv[1], 5); lock.acquire();"
        "print('held', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            with pytest.raises(StoreUnavailable, match=f"process {holder.pid} has held"):
                store.add([NewItem(id="x", title="x")], actor="tester")
            assert store.list(limit=10) == (), "readers do not wait"
        finally:
            holder.send_signal(signal.SIGKILL)
    assert store.add([NewItem(id="x", title="x")], actor="tester")[0].id == "x"


def test_who_unlocks_and_locks_again_comes_after_those_who_wait(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    make(path).close()
    mine, other, order = locking.FairLock(str(path), 30), locking.FairLock(str(path), 30), []

    def wait() -> None:
        other.acquire()
        order.append("other")
        other.release()

    mine.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    with open(f"{path}{LOCK}", "r+b") as file:
        while locking._try(file.fileno(), locking.TURN):
            locking._unlock(file.fileno(), locking.TURN)
    mine.release()
    mine.acquire()
    order.append("mine")
    mine.release()
    thread.join()
    assert order == ["other", "mine"]


def test_a_stopped_process_that_has_the_turn_delays_others_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(tmp_path / "board.db")
    monkeypatch.setattr(locking, "TURN_SECONDS_MAX", 0.05)
    with open(f"{tmp_path / 'board.db'}{LOCK}", "r+b") as file:
        assert locking._try(file.fileno(), locking.TURN)
        assert store.add([NewItem(id="x", title="x")], actor="tester")[0].id == "x"
    store.close()


@pytest.mark.parametrize("seconds", [0.3, 7.0])
def test_a_program_that_does_not_take_the_lock_is_waited_for_as_long(tmp_path: Path, seconds: float) -> None:
    store = SqliteStore(str(tmp_path / "board.db"), DEFAULTS.replace(lock_wait_seconds=seconds), create=True)
    assert store.engine.connection().pragma("busy_timeout") == round(seconds * 1000)
    if seconds > 1:
        return  # nobody waits for a test that long
    foreign = apsw.Connection(str(tmp_path / "board.db"))
    foreign.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match="another program"):
        store.add([NewItem(id="x", title="x")], actor="tester")
    assert time.monotonic() - begun >= seconds
    foreign.execute("ROLLBACK")
    assert store.add([NewItem(id="x", title="x")], actor="tester")[0].id == "x"


def test_a_forked_child_neither_keeps_the_lock_nor_the_connection(tmp_path: Path) -> None:
    store = make(tmp_path / "board.db")
    store.add([NewItem(id="x", title="x")], actor="tester")
    store.start_session(Session(id="s", agent="coder"))
    store.engine.lock.acquire()
    child = os.fork()
    if child == 0:
        try:
            # The parent's lock is on the parent's description; the child's own try must find it taken.
            child_store = SqliteStore(store.path, DEFAULTS.replace(lock_wait_seconds=0.1))
            try:
                child_store.claim("x", session="s")
            except StoreUnavailable:
                os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.engine.lock.release()
    child = os.fork()
    if child == 0:
        try:
            store.claim("x", session="s")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get("x").claim is not None


def test_a_child_that_outlives_its_killed_parent_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    store = make(path)
    script = (
        "import os, sys, time; from dibs.config import DEFAULTS; from dibs.store.sqlite.store import SqliteStore\n"
        "store = SqliteStore(sys.argv[1], DEFAULTS); store.engine.lock.acquire()\n"
        "if os.fork() == 0: print(os.getpid(), flush=True); time.sleep(60)\n"
        "else: time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            assert store.add([NewItem(id="x", title="x")], actor="tester")[0].id == "x"
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_board_under_two_names_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "board.db").close()
    os.link(tmp_path / "board.db", tmp_path / "other.db")
    with pytest.raises(StoreUnusable, match="another hard link"):
        make(tmp_path / "other.db")


def test_a_link_leads_to_the_same_lock_and_bell(tmp_path: Path) -> None:
    store = make(tmp_path / "board.db")
    os.symlink(tmp_path / "board.db", tmp_path / "link.db")
    linked = make(tmp_path / "link.db")
    assert (linked.engine.lock.board, linked.engine.bell.board) == (store.engine.lock.board, store.engine.bell.board)


def test_a_forked_child_outlives_its_parents_board(tmp_path: Path) -> None:
    """SQLite must not take the parent's locks for the child's: its shared memory would be cut off under it."""
    store = make(tmp_path / "board.db")
    store.start_session(Session(id="s", agent="coder"))
    stop, started = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.set_blocking(stop[0], False)
            for number in range(100_000):
                store.add([NewItem(id=f"child-{number}", title="x")], actor="child")
                os.write(started[1], b".") if number == 0 else None
                try:
                    os.read(stop[0], 1)
                    os._exit(0)
                except BlockingIOError:
                    pass
        finally:
            os._exit(1)
    os.read(started[0], 1)
    store.close()
    script = (
        "import sys; from dibs.config import DEFAULTS; from dibs.model import NewItem;"
        "from dibs.store.sqlite.store import SqliteStore;"
        "s = SqliteStore(sys.argv[1], DEFAULTS); s.add([NewItem(id=sys.argv[2], title='x')], actor='other'); s.close()"
    )
    for number in range(5):
        command = [sys.executable, "-c", script, str(tmp_path / "board.db"), f"other-{number}"]
        subprocess.run(command, check=True, timeout=60)
    os.write(stop[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert make(tmp_path / "board.db").check() == ()
