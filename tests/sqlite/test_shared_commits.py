"""Calls of many requests in one commit: each gets its own answer, after the commit, and a failed commit is nobody's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from dibs.board import Board
from dibs.errors import ItemAlreadyClaimed, ItemNotFound, StoreUnavailable
from dibs.store.contract import SharedCommits
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.invariants import assert_sound
from tests.kit.waiting import PATIENCE_SECONDS
from tests.sqlite.test_group_commit import Held


class Sharing:
    """Those who call verbs of `board` together."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._commits: SharedCommits = store.shared_commits()
        self.board = Board(self._commits.store, actor="tester")

    def call(self, *calls: Callable[[], Any]) -> list[Any]:
        """The answers, or what was raised, of calls that share a commit."""
        held = Held(self._store)
        ended = [Ended() for _ in calls]
        for work, end in zip(calls, ended, strict=True):
            self._commits.call(work, end)
        held.until_waiting(len(calls))
        held.end()
        return [end.wait() for end in ended]


class Ended:
    def __init__(self) -> None:
        self._ended = threading.Event()
        self._result: Callable[[], Any] | None = None

    def __call__(self, result: Callable[[], Any]) -> None:
        self._result = result
        self._ended.set()

    def wait(self) -> Any:
        assert self._ended.wait(PATIENCE_SECONDS)
        assert self._result is not None
        try:
            return self._result()
        except BaseException as error:
            return error


@pytest.fixture
def sharing(store: SqliteStore) -> Sharing:
    return Sharing(store)


def test_calls_that_wait_share_one_commit(board: Board, store: SqliteStore, sharing: Sharing) -> None:
    board.add_many({"id": f"item-{n}", "title": "x"} for n in range(20))
    sessions = [board.start_session("coder").id for _ in range(20)]
    before = store.engine.commits
    answers = sharing.call(*(lambda one=one: sharing.board.next(session=one) for one in sessions))
    # One of whoever held them up, one of theirs.
    assert store.engine.commits - before == 2
    assert {grant.item.id for (grant,) in answers} == {f"item-{n}" for n in range(20)}
    assert [grant.claim.session for (grant,) in answers] == sessions
    assert_sound(board)


def test_a_refusal_is_the_answer_of_its_call_alone(board: Board, sharing: Sharing) -> None:
    board.add("T", id="t")
    one, other = board.start_session("coder").id, board.start_session("tester").id
    mine, theirs, nothing, mistake = sharing.call(
        lambda: sharing.board.claim("t", session=one),
        lambda: sharing.board.claim("t", session=other),
        lambda: sharing.board.claim("nothing", session=other),
        lambda: 1 // 0,
    )
    assert mine.claim.session == one
    assert isinstance(theirs, ItemAlreadyClaimed)
    assert isinstance(nothing, ItemNotFound)
    assert isinstance(mistake, ZeroDivisionError)
    assert [event.kind for event in board.log("t")] == ["added", "claimable", "claimed"]
    # A refused claim is recorded, although its caller got a refusal.
    assert [one.session for one in board.activity()] == [other]


def test_what_a_call_wrote_before_it_was_refused_stays(board: Board, sharing: Sharing) -> None:
    """As it does if it has the store to itself: each verb is a transaction."""
    session = board.start_session("coder").id

    def add_and_fail() -> None:
        sharing.board.add("T", id="t")
        sharing.board.claim("nothing", session=session)

    (refusal,) = sharing.call(add_and_fail)
    assert isinstance(refusal, ItemNotFound)
    assert board.get("t").item.title == "T"


def test_if_the_commit_fails_every_call_is_told_and_nothing_has_changed(
    board: Board, store: SqliteStore, sharing: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.add("T", id="t")
    session = board.start_session("coder").id

    def fail(connection: apsw.Connection) -> None:
        raise StoreUnavailable("the disk is full")

    def claim() -> Any:
        # From now on: whoever held the calls up has committed.
        monkeypatch.setattr(store.engine, "commit", fail)
        return sharing.board.claim("t", session=session)

    answers = sharing.call(claim, lambda: sharing.board.add("U", id="u"), lambda: 1 // 0)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    monkeypatch.undo()
    assert board.get("t").item.status == "ready"
    with pytest.raises(ItemNotFound):
        board.get("u")
    (granted,) = sharing.call(lambda: sharing.board.claim("t", session=session))
    assert granted.claim.session == session


@pytest.mark.parametrize("goes_on", [True, False])
def test_if_the_store_fails_in_one_call_no_other_is_told_of_success(
    board: Board, store: SqliteStore, sharing: Sharing, goes_on: bool
) -> None:
    """The failure may have rolled back what the calls before it wrote."""

    def fail(t: Any) -> None:
        raise apsw.FullError("database or disk is full")

    def add_and_fail() -> None:
        try:
            sharing.board.store.write(fail)  # type: ignore[attr-defined]
        except apsw.FullError:
            if not goes_on:
                raise

    answers = sharing.call(lambda: sharing.board.add("T", id="t"), add_and_fail)
    assert [isinstance(answer, StoreUnavailable) for answer in answers] == [True, True], answers
    with pytest.raises(ItemNotFound):
        board.get("t")


def test_waiters_are_woken_after_the_commit(board: Board, store: SqliteStore, sharing: Sharing) -> None:
    seen: list[int] = []
    store.on_freed = lambda: seen.append(store.engine.commits)
    before = store.engine.commits
    sharing.call(lambda: sharing.board.add("T", id="t"), lambda: sharing.board.add("U", id="u"))
    assert seen == [before + 2, before + 2]
