"""The server of a scripted model, on loopback: it answers every client in that client's own wire format.

The first part of a request's path names the agent that sent it (`/NAME/v1/messages`), so that a test can ask what the
model of one agent was sent. The server is also the proxy of the agents: a request for any other host is recorded as an
escape, and refused.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.kit.agents import script
from tests.kit.agents.apis import Api
from tests.kit.agents.apis.anthropic import Messages
from tests.kit.agents.apis.gemini import Gemini
from tests.kit.agents.apis.openai import Chat, Responses
from tests.kit.agents.script import Json, Turn
from tests.kit.waiting import PATIENCE_SECONDS

APIS: dict[str, type[Api]] = {
    "/messages": Messages,
    "/responses": Responses,
    "/chat/completions": Chat,
    ":generateContent": Gemini,
    ":streamGenerateContent": Gemini,
}
#: How long closing a server waits for its thread.
CLOSE_SECONDS_MAX = 0.1


@dataclass(frozen=True)
class Request:
    """What a model was sent, and the step of the script that it answered with."""

    agent: str
    body: Json
    turns: list[Turn]
    step: Json

    @property
    def results(self) -> list[str]:
        """The results of all calls so far, as the model sees them."""
        return [turn.text for turn in self.turns if turn.role == "result"]

    @property
    def texts(self) -> list[str]:
        """What the model sees beside results: prompts, and what hooks and the client add to them."""
        return [turn.text for turn in self.turns if turn.role == "user"]


class Model:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._escapes: list[str] = []
        self._reached: set[tuple[str, str]] = set()
        self._opened: set[tuple[str, str]] = set()
        self._closed = False
        self._numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(CLOSE_SECONDS_MAX,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def requests(self, agent: str) -> list[Request]:
        with self._changed:
            return [request for request in self._requests if request.agent == agent]

    @property
    def escapes(self) -> list[str]:
        """Hosts outside of this machine that an agent asked for."""
        with self._changed:
            return list(self._escapes)

    def await_pause(self, agent: str, name: str) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: (agent, name) in self._reached, PATIENCE_SECONDS)
        assert reached, f"{agent} never came to the pause {name!r}"

    def go_on(self, agent: str, name: str) -> None:
        with self._changed:
            self._opened.add((agent, name))
            self._changed.notify_all()

    def answer(self, agent: str, api: type[Api], body: Json) -> tuple[Json, int]:
        """The next step of the script, once the test lets it through, and a number for the ids in the answer."""
        turns = list(api.turns(body))
        step = script.next_step(turns)
        with self._changed:
            self._requests.append(Request(agent, body, turns, step))
            if "pause" in step:
                pause = (agent, step["pause"])
                self._reached.add(pause)
                self._changed.notify_all()
                self._changed.wait_for(lambda: pause in self._opened or self._closed, PATIENCE_SECONDS)
            return step, next(self._numbers)

    def escaped(self, target: str) -> None:
        with self._changed:
            self._escapes.append(target)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def handle(self) -> None:
        # A killed agent resets its connections.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            super().handle()

    def do_POST(self) -> None:
        raw = self._body()
        path = self.path.partition("?")[0]
        agent = path.split("/")[1]
        api = next((api for ending, api in APIS.items() if path.endswith(ending)), None)
        if path.startswith("http"):
            self._refuse()
        elif path.endswith(("/count_tokens", ":countTokens")):
            self._send(200, {"input_tokens": 10, "totalTokens": 10})
        elif api is None:
            self._send(404, _error(f"no such path: {path}"))
        else:
            body = json.loads(raw)
            step, number = self.model.answer(agent, api, body)
            if body.get("stream") or path.endswith(":streamGenerateContent"):
                self._stream(api, step, body, number)
            else:
                self._send(200, api.whole(step, body, number))

    def do_GET(self) -> None:
        if self.path.startswith("http"):
            self._refuse()
        elif "/models" in self.path:
            self._send(200, {"object": "list", "data": [], "models": []})
        else:
            self._send(404, _error(f"no such path: {self.path}"))

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_CONNECT(self) -> None:
        self._refuse()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _refuse(self) -> None:
        self.model.escaped(self.path)
        self._send(403, _error("only loopback"))

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send(self, status: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, api: type[Api], step: Json, body: Json, number: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, data in api.events(step, body, number):
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())
        self.close_connection = True


def _error(message: str) -> Json:
    return {"type": "error", "error": {"type": "scripted", "message": message}}
