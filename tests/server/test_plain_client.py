"""The client over a bare socket: it reads what servers may answer, and takes nothing that broke off for an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dibs.errors import Invalid
from dibs.store.http.plain_socket import PlainSender
from dibs.store.http.tls_socket import TlsSender
from dibs.store.http.transport import NoAnswer, Reply, sender

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n"
SECONDS = 10.0


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[PlainSender, list[bytes]]]:
    """A server that says these things, one to each request, and then hangs up; and what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for answer in answers:
                    heard.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = PlainSender(f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield client, heard
        client.close()
        thread.join(SECONDS)


def asked(client: PlainSender, body: bytes | None = None) -> Reply:
    return client.send("GET" if body is None else "POST", "/v1/who", {"Accept": "application/json"}, body, SECONDS)


def test_answers_with_a_length_and_in_chunks_are_read_on_one_connection() -> None:
    in_chunks = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\nTrailer: z\r\n\r\n"
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    with answering(OK + b"Content-Length: 2\r\n\r\n{}", in_chunks, empty) as (client, heard):
        first = asked(client, b"{}")
        assert (first.status, first.kind, first.body) == (200, "application/json", b"{}")
        assert asked(client).body == b"[1,2]"
        assert (asked(client).status, len(heard)) == (204, 3)
        assert heard[0].startswith(b"POST /v1/who HTTP/1.1\r\nHost: 127.0.0.1:")
        assert heard[0].endswith(b"Content-Length: 2\r\n\r\n{}")


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    with answering(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}") as (client, _):
        assert asked(client).body == b"{}"
        assert client._idle == []


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"HTTP/1.1 200",
        OK,
        OK + b"Content-Length: 5\r\n\r\n{}",
        OK + b"Content-Length: -5\r\n\r\n{}",
        OK + b"Content-Length: many\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n[1",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"\r\n{}",
        OK + b"X: y\r\n" * 500,
        b"SSH-2.0-x\r\n\r\n",
    ],
    ids=lambda broken: broken[-30:].decode(),
)
def test_what_broke_off_is_no_answer_and_may_have_been_heard(broken: bytes) -> None:
    with answering(broken) as (client, _), pytest.raises(NoAnswer) as caught:
        asked(client, b"{}")
    assert caught.value.sent


def test_where_nobody_listens_nothing_was_heard() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(NoAnswer) as caught:
        asked(PlainSender(url))
    assert not caught.value.sent


def test_a_long_answer_comes_line_by_line() -> None:
    said = OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\n[1]\n\r\n3\r\n[2]\r\n5\r\n\n[3]\n\r\n0\r\n\r\n"
    with answering(said) as (client, _):
        assert list(client.stream("/v1/export", {}, SECONDS)) == [b"200", b"[1]\n", b"[2]\n", b"[3]\n"]


def test_a_line_break_in_a_key_makes_no_header() -> None:
    with pytest.raises(Invalid):
        PlainSender("http://127.0.0.1:1").send("GET", "/", {"Authorization": "Bearer x\r\nHost: evil"}, None, SECONDS)


def test_over_http_one_goes_the_short_way_and_over_https_not() -> None:
    assert type(sender("http://127.0.0.1:1")) is PlainSender
    assert type(sender("https://127.0.0.1:1")) is TlsSender


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    with answering(OK + b"Content-Length: 2\r\n\r\n{}") as (client, heard):
        assert asked(client).body == b"{}"
        ((_, connection),) = client._idle
        connection.socket.settimeout(SECONDS)
        assert connection.socket.recv(1, socket.MSG_PEEK) == b""  # hung up
        with socket.create_server(("127.0.0.1", 0)) as gone:
            client._port = gone.getsockname()[1]
        with pytest.raises(NoAnswer) as caught:
            asked(client, b"{}")
        assert (caught.value.sent, len(heard)) == (False, 1)


def test_threads_share_a_client() -> None:
    """Each request is answered by what was asked on its own connection, whoever had that before."""
    count, threads = 50, 8
    found: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo(connection: socket.socket) -> None:
            with connection:
                while heard := connection.recv(65536):
                    body = heard.rpartition(b"\r\n\r\n")[2]
                    connection.sendall(OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

        def serve() -> None:
            for _ in range(threads * count):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        client = PlainSender(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def ask(number: int) -> None:
            for turn in range(count):
                said = b"%d-%d" % (number, turn)
                if asked(client, said).body == said:
                    found.append(said)

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(SECONDS)
        client.close()
    assert len(set(found)) == threads * count
