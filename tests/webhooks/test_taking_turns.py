"""Several webhooks, several deliverers, and webhooks that change while they are delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board
from dibs.webhooks import deliverer
from dibs.webhooks.deliverer import Deliverer
from tests.kit.waiting import PATIENCE_SECONDS
from tests.webhooks.receiver import Message, Receiver, receiving
from tests.webhooks.test_delivery import deliver, hook, now

if TYPE_CHECKING:
    from dibs.testing.clock import Clock

    Answer = tuple[int, dict[str, str], bytes]

ACCEPTED: Answer = (204, {}, b"")


@contextmanager
def running(board: Board) -> Iterator[Deliverer]:
    found, watch = Deliverer(board), board.watch(sweeps=True)
    thread = threading.Thread(target=found.run, args=(watch,))
    thread.start()
    try:
        yield found
    finally:
        found.stop()
        thread.join()
        watch.close()


def test_a_receiver_that_hangs_holds_up_neither_other_webhooks_nor_verbs(board: Board, receiver: Receiver) -> None:
    go_on = threading.Event()
    with receiving() as slow:
        hook(board, slow)
        hook(board, receiver, "claimed")
        slow.answer = lambda _: ACCEPTED if go_on.wait(PATIENCE_SECONDS) else (500, {}, b"")
        me = board.start_session("ann").id
        board.add("one", id="one")
        with running(board):
            board.claim("one", session=me)
            receiver.await_messages(1)
            board.add("two", id="two")
            board.claim("two", session=me)
            receiver.await_messages(2)
            assert slow.messages == []
            go_on.set()
            slow.await_messages(2)


def test_a_webhook_with_many_messages_lets_others_have_their_turn(
    board: Board, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer, "THREADS_MAX", 1)
    monkeypatch.setattr(deliverer, "TURN_SECONDS", 0.0, raising=False)
    for id in ("a", "b"):
        hook(board, receiver, id=id)
    for item in ("one", "two"):
        board.add(item, id=item)
    with running(board):
        messages = receiver.await_messages(4)
    told = [(message.id.split("_")[1], message.event["item"]) for message in messages]
    assert told == [("a", "one"), ("b", "one"), ("a", "two"), ("b", "two")]


def test_once_serves_more_webhooks_than_there_are_threads(
    clock: tuple[Board, Clock], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer, "THREADS_MAX", 1)
    board, time = clock
    with receiving() as failing:
        for id, to in {"a": receiver, "b": receiver, "c": failing}.items():
            hook(board, to, id=id)
        failing.answer = lambda _: (503, {}, b"")
        board.add("one", id="one")
        assert not deliver(board)
        failing.answer = lambda _: ACCEPTED
        time.advance(deliverer.RETRY_SECONDS)
        assert deliver(board)
        assert (len(receiver.messages), len(failing.messages)) == (2, 2)


def test_a_deliverer_that_is_stopped_leaves_the_rest_to_the_next_at_once(
    board: Board, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer, "STOP_SECONDS", 0.0)
    hook(board, receiver)
    for item in ("one", "two"):
        board.add(item, id=item)
    stopped = Deliverer(board)

    def answer(_: Message) -> Answer:
        stopped.stop()
        return ACCEPTED

    receiver.answer = answer
    stopped.run_once()
    assert len(receiver.messages) == 1
    assert deliver(board)
    assert [message.event["item"] for message in receiver.messages] == ["one", "two"]


def test_events_that_are_passed_over_do_not_wait_for_a_message_to_be_pruned(board: Board, receiver: Receiver) -> None:
    hook(board, receiver, "parked")
    board.add("one", id="one")
    assert deliver(board)
    assert now(board).cursor == board.events(newest=True, limit=1)[-1].id


def test_the_message_after_a_rotation_is_signed_by_the_new_secret(board: Board, receiver: Receiver) -> None:
    made = board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
    new = made.secret[:-4] + "AAA="
    for item in ("one", "two"):
        board.add(item, id=item)

    def answer(_: Message) -> Answer:
        board.change_webhook(made.webhook.id, secret=new)
        return ACCEPTED

    receiver.answer = answer
    assert deliver(board)
    assert [message.is_signed_with(new) for message in receiver.messages] == [False, True]


def test_a_webhook_that_is_resumed_is_tried_at_once(board: Board, receiver: Receiver) -> None:
    id = hook(board, receiver).id
    board.add("one", id="one")
    receiver.answer = lambda _: (503, {}, b"")
    long_lived = Deliverer(board)
    assert not long_lived.run_once()
    receiver.answer = lambda _: ACCEPTED
    for enabled in (False, True):
        board.change_webhook(id, enabled=enabled)
    assert long_lived.run_once()
    assert len(receiver.messages) == 2


@pytest.mark.parametrize("change", ["remove", "pause"])
def test_a_webhook_that_is_removed_or_paused_while_it_is_delivered_gets_no_more(
    board: Board, receiver: Receiver, change: str
) -> None:
    id = hook(board, receiver).id
    for item in ("one", "two"):
        board.add(item, id=item)

    def answer(_: Message) -> Answer:
        board.remove_webhook(id) if change == "remove" else board.change_webhook(id, enabled=False)
        return ACCEPTED

    receiver.answer = answer
    deliver(board)
    assert len(receiver.messages) == 1
    if change == "pause":
        board.change_webhook(id, enabled=True)
        assert deliver(board)
        assert [message.event["item"] for message in receiver.messages] == ["one", "two"], "none is sent again"
