"""Webhooks and whole boards: what `dibs doctor` and `dibs prune` say about them."""

from __future__ import annotations

import subprocess
import sys

import apsw
import pytest

from dibs.board import Board
from dibs.maintenance import doctor, webhook_check
from tests.webhooks.receiver import Receiver
from tests.webhooks.test_delivery import deliver, hook, now


def found(board: Board) -> list[tuple[str, bool]]:
    return [(finding.what, finding.late) for finding in doctor.examine(board)]


def test_doctor_says_that_nobody_delivers(board: Board, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = hook(board, receiver, give_up_seconds=1)
    board.add("one", id="one")
    assert found(board) == []
    monkeypatch.setattr(webhook_check, "STALLED_SECONDS", -60.0)  # as if the event were a minute older
    ((what, late),) = found(board)
    assert late, "the board is sound"
    assert what == f"nobody delivers to webhook {stalled.id}: it is at event 0, and nothing after that is pruned"
    assert deliver(board)
    assert found(board) == []


def test_doctor_knows_disabled_webhooks(board: Board, receiver: Receiver) -> None:
    gone = hook(board, receiver)
    board.add("one", id="one")
    receiver.answer = lambda _: (410, {}, b"")
    deliver(board)
    assert found(board) == [(f"webhook {gone.id} is disabled: the receiver answered 410 Gone", True)]


def test_doctor_finds_a_cursor_after_the_last_event(board: Board, store: str, receiver: Receiver) -> None:
    wrong = hook(board, receiver)
    board.add("one", id="one")
    with apsw.Connection(store) as connection:
        connection.execute("UPDATE webhooks SET record = json_set(record, '$.cursor', 900)")
    ((what, late),) = found(board)
    assert not late
    assert what == f"webhook {wrong.id} is at event 900, after the last one, 2: it would skip events"


def test_prune_names_the_webhook_that_keeps_events(board: Board, store: str, receiver: Receiver) -> None:
    def prune() -> str:
        words = [sys.executable, "-m", "dibs.cli.main", "prune", "--older-than", "0s", "--yes", "--store", store]
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stderr

    keeping = hook(board, receiver)
    board.add("one", id="one")
    board.cancel("one")
    assert prune() == f"dibs: items with events after 0 stay until they were sent to the webhook {keeping.id}\n"
    assert deliver(board)
    assert now(board).cursor == 3
    assert prune() == ""
    assert board.list() == ()
