"""Many threads on one handle: their writes share commits, and what goes wrong in one of them is that one's alone."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError, ItemNotFound, StoreUnusable
from dibs.model import Item
from dibs.store.sql.transaction import Transaction
from dibs.store.sqlite.store import SqliteStore
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.testing.invariants import assert_sound
from tests.kit.waiting import PATIENCE_SECONDS

THREADS, EACH = 16, 12
DAMAGE = "UPDATE items SET title = CAST(x'ff41' AS TEXT) WHERE id = 'damaged'"


class Asked:
    """A call in a thread of its own, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.answer: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def over(self) -> Asked:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        return self

    def _run(self) -> None:
        try:
            self.answer = self._call()
        except BaseException as error:
            self.error = error


class Held:
    """The lead, in the hand of a thread that does nothing with it until it is told how to end."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._begun, self._go = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self.asked = Asked(lambda: store.write(self._wait))
        assert self._begun.wait(PATIENCE_SECONDS)

    def until_waiting(self, count: int) -> None:
        """Wait until so many stand in the row behind it."""
        end = threading.Event()
        for _ in range(3000):
            if len(self._store.engine.queue.writes) == count:
                return
            end.wait(0.01)  # bounded polling: a row tells nobody
        raise AssertionError("they never came")

    def end(self, error: BaseException | None = None) -> None:
        self._error = error
        self._go.set()

    def _wait(self, t: Transaction) -> None:
        self._begun.set()
        assert self._go.wait(PATIENCE_SECONDS)
        if self._error is not None:
            raise self._error


def test_threads_share_commits_and_no_item_is_given_twice(board: Board, store: SqliteStore) -> None:
    board.add_many({"id": f"item-{n}", "title": "x"} for n in range(THREADS * EACH))
    sessions = [board.start_session("coder").id for _ in range(THREADS)]
    before, given = store.engine.commits, []

    def work(session: str) -> None:
        for _ in range(EACH):
            (grant,) = board.next(session=session)
            given.append(grant.item.id)
            board.done(grant.item.id, session=session, token=grant.claim.token)

    asked = [Asked(partial(work, session)) for session in sessions]
    assert [one.over().error for one in asked] == [None] * THREADS
    assert len(given) == len(set(given)) == THREADS * EACH
    assert store.engine.commits - before < 2 * THREADS * EACH, "each had a commit of its own"
    assert_sound(board)


def test_a_damaged_row_is_the_refusal_of_who_reads_it_alone(board: Board, store: SqliteStore) -> None:
    board.add_many({"id": id, "title": "x"} for id in ("damaged", "x", "y"))
    store.write(lambda t: cast("SqliteTransaction", t)._cursor.execute(DAMAGE) and None)
    sessions = [board.start_session("coder").id for _ in range(3)]
    held = Held(store)
    claims = [
        Asked(partial(board.claim, item, session=session))
        for item, session in zip(("x", "damaged", "y"), sessions, strict=True)
    ]
    held.until_waiting(len(claims))
    held.end()
    errors = [one.over().error for one in claims]
    assert (errors[0], type(errors[1]), errors[2]) == (None, StoreUnusable, None)
    assert {line.item.id for line in board.who()} == {"x", "y"}


def test_what_goes_wrong_in_one_is_undone_and_the_others_are_there(board: Board, store: SqliteStore) -> None:
    def add_and_stumble(t: Transaction) -> None:
        from dibs.check import new_item
        from dibs.store.sql import item_verbs

        item_verbs.add(t, [new_item({"id": "half", "title": "half"})], actor="tester")
        raise ZeroDivisionError

    held, before = Held(store), store.engine.commits
    good = [Asked(partial(board.add, "x", id=id)) for id in ("a", "b")]
    held.until_waiting(2)
    stumbles = Asked(lambda: store.write(add_and_stumble))
    refused = Asked(lambda: board.cancel("nowhere"))
    held.until_waiting(4)
    held.end()
    assert held.asked.over().error is None
    assert isinstance(stumbles.over().error, ZeroDivisionError)
    assert isinstance(refused.over().error, ItemNotFound)
    assert [isinstance(one.over().answer, Item) for one in good] == [True, True]
    assert store.engine.commits == before + 2, "the one that was held, and all others together"
    assert [item.id for item in board.list()] == ["a", "b"]
    assert_sound(board)


def test_others_are_done_although_who_led_was_interrupted(board: Board, store: SqliteStore) -> None:
    held = Held(store)
    asked = Asked(lambda: board.add("x", id="x"))
    held.until_waiting(1)
    held.end(KeyboardInterrupt())
    assert isinstance(held.asked.over().error, KeyboardInterrupt)
    assert asked.over().answer.id == "x"
    assert board.add("y", id="y").id == "y"


def _add_and_wait(board: Board, id: str) -> None:
    """Its answer may come before the signal is seen."""
    board.add("y", id=id)
    threading.Event().wait(PATIENCE_SECONDS)


def test_an_interrupt_right_after_the_commit_does_nothing_of_the_others_again(
    board: Board, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes in the main thread, whose write is committed together with another thread's."""
    board.add("x", id="x")
    session = board.start_session("coder").id
    board.claim("x", session=session)
    commit, interrupted_at = store.engine.commit, -1

    def commit_and_interrupt(connection: Any) -> None:
        commit(connection)
        if store.engine.commits == interrupted_at:
            _thread.interrupt_main()

    monkeypatch.setattr(store.engine, "commit", commit_and_interrupt)
    for number in range(20):
        held = Held(store)

        def note_behind_main(held: Held = held, note: str = f"note-{number}") -> None:
            nonlocal interrupted_at
            held.until_waiting(1)
            noted = Asked(partial(board.progress, "x", note, session=session))
            held.until_waiting(2)
            interrupted_at = store.engine.commits + 2  # the one that is held, and the next
            held.end()
            assert noted.over().error is None

        other = Asked(note_behind_main)
        with pytest.raises(KeyboardInterrupt):
            _add_and_wait(board, f"y-{number}")
        assert (other.over().error, held.asked.over().error) == (None, None)
    notes = [event.data["note"] for event in board.log("x") if event.kind == "progress"]
    assert notes == [f"note-{number}" for number in range(20)]
    assert_sound(board)


def test_who_has_waited_long_enough_is_told_and_nothing_of_it_is_done(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "other.db"), DEFAULTS.replace(lock_wait_seconds=0.2), create=True)
    board = Board(store, actor="tester")
    held = Held(store)
    asked = Asked(lambda: board.add("x", id="x"))
    held.until_waiting(1)
    error = asked.over().error
    held.end()
    held.asked.over()
    assert isinstance(error, DibsError)
    assert error.code == "STORE_UNAVAILABLE"
    assert board.list() == ()
    assert board.add("y", id="y").id == "y"
    store.close()
