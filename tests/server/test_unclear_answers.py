"""What a caller over HTTP is told when an answer does not say what became of its call."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.server.api import problems
from dibs.store.http.store import HttpStore

JOIN_SECONDS = 10.0
LOST = b""
BY_A_GATEWAY = b"<html>bad gateway</html>"


@contextmanager
def answered_with(*replies: tuple[int, bytes]) -> Iterator[HttpStore]:
    """A store behind something that answers so, one connection after the other; a lost answer is a hang-up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for status, body in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    if body != LOST:
                        head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                        connection.sendall(head.encode() + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        store = HttpStore(f"http://127.0.0.1:{listener.getsockname()[1]}", DEFAULTS, None)
        yield store
        store.close()
        thread.join(JOIN_SECONDS)


def problem(error: DibsError) -> tuple[int, bytes]:
    return error.http_status, json.dumps(problems.body(error.http_status, error.code, str(error), error.facts)).encode()


AWAY = problem(StoreUnavailable("the store is away", retry_after_seconds=1))
CRASHED = problem(DibsError("something went wrong here; the server's log says what"))


def test_what_a_server_says_for_itself_is_told_in_its_own_words() -> None:
    sentence = "this server does not go by that name"
    said = json.dumps(problems.body(421, problems.CODES[421], sentence)).encode()
    with answered_with((421, said)) as store, pytest.raises(StoreUnusable, match=f"answers 421: {sentence}"):
        store.get("x")
    others = json.dumps({"code": problems.CODES[421], "detail": "pay here", "type": "about:blank"}).encode()
    with answered_with((421, others)) as store, pytest.raises(StoreUnavailable, match=r"the server answers 421$"):
        store.get("x")


@pytest.mark.parametrize(
    "replies",
    [[(0, LOST), AWAY], [(502, BY_A_GATEWAY)], [(504, BY_A_GATEWAY)], [CRASHED]],
    ids=["heard, and away when it was asked again", "bad gateway", "gateway timeout", "crashed"],
)
def test_a_write_whose_fate_no_answer_tells_is_unknown(replies: list[tuple[int, bytes]]) -> None:
    with answered_with(*replies) as store, pytest.raises(StoreUnavailable) as refusal:
        store.cancel("x", actor="tester")
    assert refusal.value.facts["outcome"] == "unknown"
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize(
    "reply", [AWAY, (413, BY_A_GATEWAY), (404, BY_A_GATEWAY)], ids=["away", "too large for a gateway", "not there"]
)
def test_a_write_that_was_refused_is_told_as_that(reply: tuple[int, bytes]) -> None:
    with answered_with(reply) as store, pytest.raises(StoreUnavailable) as refusal:
        store.cancel("x", actor="tester")
    assert "outcome" not in refusal.value.facts


@pytest.mark.parametrize("replies", [[(0, LOST), AWAY], [(502, BY_A_GATEWAY)]], ids=["away", "bad gateway"])
def test_of_a_read_nothing_is_unknown(replies: list[tuple[int, bytes]]) -> None:
    with answered_with(*replies) as store, pytest.raises(StoreUnavailable) as refusal:
        store.get("x")
    assert "outcome" not in refusal.value.facts


def test_a_next_that_may_have_been_given_something_while_it_waited_does_not_ask_for_more() -> None:
    with answered_with((200, b"[]"), (0, LOST), AWAY) as store, pytest.raises(StoreUnavailable) as refusal:
        Board(store).next(session="me", wait_seconds=5)
    assert refusal.value.facts["outcome"] == "unknown"
