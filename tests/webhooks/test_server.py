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
from tests.kit.waiting import until
from tests.server.killable import serving
from tests.server.process import serving as server_process
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


def test_tests_and_dead_letters_are_sent_through_the_server(tmp_path: Path) -> None:
    with server_process(tmp_path, "--quiet") as server, receiving() as receiver:
        receiver.answer = lambda _: (500, {}, b"not yet")
        added = server.dibs("webhook", "add", receiver.url, "--kind", "claimable", "--allow-private", "--give-up", "1s")
        id = added.stdout.split()[2]
        server.dibs("add", "One", "--id", "one")
        tested = server.dibs("webhook", "test", id)
        assert (tested.returncode, tested.stdout) == (75, "failed: 500 Internal Server Error: not yet\n")
        until(lambda: " one " in server.dibs("webhook", "dead", id).stdout)
        receiver.answer = lambda _: (204, {}, b"")
        retried = server.dibs("webhook", "retry", id)
        assert (retried.returncode, retried.stdout.split()[0]) == (0, "delivered"), retried.stderr
        assert receiver.messages[-1].event["item"] == "one"
        assert server.dibs("webhook", "dead", id).stdout == ""
        again = server.dibs("webhook", "retry", id)
        assert (again.returncode, again.stdout, "no dead letters" in again.stderr) == (0, "", True)
