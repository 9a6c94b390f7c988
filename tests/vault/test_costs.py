"""What a claim and its end cost, in a process that watches the files: nothing that grows with their number."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.store.vault import write_cycle
from dibs.store.vault.disk import Disk
from dibs.store.vault.store import VaultStore
from tests.vault.conftest import put


def test_no_statement_of_a_claim_and_its_end_reads_all_files(board: Board, root: Path, tmp_path: Path) -> None:
    if not is_watched(root, tmp_path / "bell"):
        pytest.skip("this folder lies where changes are not told")
    store = board.store
    assert isinstance(store, VaultStore)
    for number in range(3):
        put(root, f"Needs_Action/{number}.md", f"# Item {number}\n")
    session = board.start_session("coder").id
    work(board, session)
    connection = store.engine.call(store.engine.connection)
    seen: set[str] = set()
    # apsw takes a statement that begins with a comment for a trigger, and removes the dashes.
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.add("-- " * event["trigger"] + event["sql"]))
    work(board, session)
    connection.trace_v2(0, None)
    plans = {sql: plan(connection, sql) for sql in seen if "vault_" in sql}
    # The log of file changes is emptied before it is long.
    scans = {sql: line for sql, lines in plans.items() for line in lines if "SCAN vault_" in line}
    assert len(plans) > 5
    assert {line for line in scans.values() if "vault_redo" not in line} == set()


def test_a_long_look_for_late_saves_is_not_repeated_at_once(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.start_session("coder")
    looks = []

    def look(disk: Disk) -> None:
        looks.append(disk)
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    monkeypatch.setattr(write_cycle, "merge_late_saves", look)
    mark = root / ".dibs" / write_cycle.LATE_SAVES_MARK
    for seconds, count in ((2, 1), (3, 1), (12, 2)):
        os.utime(mark, (time.time() - seconds, time.time() - seconds))
        board.start_session("coder")
        assert len(looks) == count


def is_watched(root: Path, bell: Path) -> bool:
    """Whether the system tells of changes of files here. Otherwise each write looks at all of them."""
    bell.write_bytes(b"")
    with contextlib.closing(Disk(str(root))) as disk, contextlib.closing(disk.watch(str(bell))) as watch:
        return watch._inotify is not None


def work(board: Board, session: str) -> None:
    (grant,) = board.next(session=session)
    board.done(grant.item.id, session=session, token=grant.claim.token)


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    return [str(row[3]) for row in connection.execute("EXPLAIN QUERY PLAN " + sql, _Anything())]


class _Anything(dict[str, object]):
    """A value for every parameter: plans do not depend on values."""

    def __missing__(self, name: str) -> object:
        return 1
