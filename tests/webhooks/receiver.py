"""A receiver of webhooks on loopback: it notes what it is sent, verifies it, and answers as it is told."""

from __future__ import annotations

import hmac
import json
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kit.waiting import PATIENCE_SECONDS


class Message:
    def __init__(self, headers: dict[str, str], body: bytes) -> None:
        self.id, self.timestamp = headers["webhook-id"], headers["webhook-timestamp"]
        self.signatures = headers["webhook-signature"].split(" ")
        self.headers, self.body = headers, body

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def event(self) -> Any:
        return self.data["data"]["event"]

    def is_signed_with(self, secret: str) -> bool:
        """Written after the specification, not after dibs."""
        signed = f"{self.id}.{self.timestamp}.".encode() + self.body
        digest = hmac.new(b64decode(secret.removeprefix("whsec_")), signed, "sha256").digest()
        return "v1," + b64encode(digest).decode() in self.signatures


class Receiver:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.messages: list[Message] = []
        #: How it answers: the status, headers, and the body.
        self.answer: Callable[[Message], tuple[int, dict[str, str], bytes]] = lambda _: (204, {}, b"")
        self.arrived = threading.Condition()

    def take(self, message: Message) -> tuple[int, dict[str, str], bytes]:
        answer = self.answer(message)
        with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()
        return answer

    def await_messages(self, count: int) -> list[Message]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.messages) >= count, PATIENCE_SECONDS), len(self.messages)
            return list(self.messages)

    def firsts(self) -> list[int]:
        """The events, each where it came first."""
        return list(dict.fromkeys(message.event["id"] for message in self.messages))


@contextmanager
def receiving(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, text = receiver.take(Message(headers, body))
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # dibs reads no more of an answer than it needs
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
