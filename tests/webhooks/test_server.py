"""A server delivers by itself, and of two servers on one board one sends each message."""

from __future__ import annotations

from pathlib import Path

from dibs.board import connect
from tests.server.killable import serving
from tests.webhooks.receiver import receiving


def test_two_servers_of_a_board_send_each_message_once(tmp_path: Path) -> None:
    store = str(tmp_path / "board.db")
    with connect(store, create=True, folder=str(tmp_path)) as board, receiving() as receiver:
        board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
        with serving(store), serving(store) as other:
            for number in range(5):
                board.add(f"item {number}", id=f"item-{number}")
            receiver.await_messages(5)
            other.kill()
            board.add_webhook(receiver.url, kinds=["parked"], allow_private=True)
            board.park("item-0")
            receiver.await_messages(6)
    items = [(message.event["kind"], message.event["item"]) for message in receiver.messages]
    assert items == [*(("claimable", f"item-{number}") for number in range(5)), ("parked", "item-0")]
