"""A server delivers by itself; of a server and `dibs deliver` on one board, one sends each message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dibs.board import connect
from tests.kit import postgres
from tests.kit.soak import in_a_soak
from tests.server.killable import serving
from tests.webhooks.receiver import receiving


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        with postgres.harness(request.getfixturevalue("postgres_server"), tmp_path) as harness:
            yield harness.recipe()["kwargs"]["url"]
    else:
        path = tmp_path / "board.db"
        connect(str(path), create=True, folder=str(tmp_path)).close()
        yield str(path)


DELIVER = [sys.executable, "-m", "dibs.cli.main", "deliver", "--store"]


@contextmanager
def delivering(store: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*DELIVER, store], stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("store", ["sqlite", *in_a_soak("postgres")], indirect=True)
def test_of_a_server_and_a_deliverer_one_sends_each_message(store: str, tmp_path: Path) -> None:
    with closing(connect(store, folder=str(tmp_path))) as board, receiving() as receiver:
        board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
        with delivering(store):
            board.add("item 0", id="item-0")
            receiver.await_messages(1)
            with serving(store) as server:
                for number in range(1, 5):
                    board.add(f"item {number}", id=f"item-{number}")
                receiver.await_messages(5)
                server.kill()
            board.add_webhook(receiver.url, kinds=["parked"], allow_private=True)
            board.park("item-0")
            receiver.await_messages(6)
    items = [(message.event["kind"], message.event["item"]) for message in receiver.messages]
    assert items == [*(("claimable", f"item-{number}") for number in range(5)), ("parked", "item-0")]
