"""Receivers that mean harm: they hang, drip, answer without an end, or their name does not resolve."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dibs.webhooks import addresses, sending
from tests.webhooks.receiver import receiving

SECONDS = 0.3


class Stopped(Exception):
    """The test is over."""


@contextmanager
def serving(talk: Callable[[socket.socket, Callable[[], None]], None]) -> Iterator[str]:
    """The URL of a receiver of one connection, which calls its second argument between two steps."""
    over = threading.Event()

    def pause() -> None:
        if over.wait(0.02):
            raise Stopped

    def accept() -> None:
        with server.accept()[0] as connection:
            try:
                talk(connection, pause)
            except (OSError, Stopped):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            thread.join()


def post(url: str, **more: Any) -> sending.Outcome:
    return sending.post(url, b"{}", {}, allow_private=True, **more)


@pytest.mark.parametrize("reply", [b"", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_receiver_that_hangs_or_drips_ends_at_the_deadline(reply: bytes) -> None:
    def drip(connection: socket.socket, pause: Callable[[], None]) -> None:
        while True:
            connection.sendall(reply)
            pause()

    with serving(drip) as url:
        assert post(url, seconds=SECONDS).failure == "no answer within 0.3s"


@pytest.mark.parametrize("size", [b"-1", b"-5", b"ffffffffffff"])
def test_an_answer_without_an_end_is_a_failure_and_little_of_it_is_received(size: bytes) -> None:
    """A chunk of -1 bytes would let the standard library read until the end of the connection."""
    sent = 0

    def flood(connection: socket.socket, pause: Callable[[], None]) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")
        while sent < 100_000_000:
            sent += connection.send(b"x" * 65536)

    with serving(flood) as url:
        assert (post(url).failure or "").startswith("500 Oops")
    assert sent < 50_000_000


def test_headers_without_an_end_are_a_failure() -> None:
    def flood(connection: socket.socket, pause: Callable[[], None]) -> None:
        connection.sendall(b"HTTP/1.1 204 No Content\r\n")
        for number in range(10_000_000):
            connection.sendall(b"X: %d\r\n" % number * 1000)

    with serving(flood) as url:
        assert post(url).failure == "got more than 100 headers"


def test_a_resolver_that_hangs_ends_at_the_deadline_and_has_one_thread_for_a_host() -> None:
    asked, answers = [], threading.Event()

    def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
        asked.append(host)
        answers.wait()
        return addresses.resolve("127.0.0.1", port)

    with receiving() as receiver:
        url = receiver.url.replace("127.0.0.1", "slow.example")
        for _ in range(3):
            failure = post(url, resolve=resolve, seconds=0.05).failure
            assert failure == "slow.example was not resolved within 0.05s"
        assert asked == ["slow.example"]
        answers.set()
        headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": ""}
        outcome = sending.post(url, b"{}", headers, allow_private=True, resolve=resolve)
        assert outcome.failure is None, "the thread that hung has ended"


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would resolve the name itself, after the check."""
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert post("http://127.0.0.1:1/").failure is not None
        assert proxy.messages == []
