"""A client of `dibs mcp` that sends what it is told to, valid or not, and reads line by line."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.kit.waiting import PATIENCE_SECONDS

RUN = "import sys; from dibs.cli.main import main; sys.exit(main(sys.argv[1:]))"
MODERN_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


class Connection:
    """The two streams of a server."""

    def __init__(self, input: IO[bytes], output: IO[bytes]) -> None:
        self._input, self._output = input, output
        self._ids = itertools.count(1)
        self._buffer = b""

    def write(self, data: bytes) -> None:
        self._input.write(data)
        self._input.flush()

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def read(self) -> Any:
        """The next message."""
        descriptor = self._output.fileno()
        while b"\n" not in self._buffer:
            assert select.select([descriptor], [], [], PATIENCE_SECONDS)[0], "the server does not answer"
            data = os.read(descriptor, 65536)
            assert data, self.errors()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request."""
        id = next(self._ids)
        self.send(request(id, method, **params))
        found = self.read()
        assert found["id"] == id
        return found

    def start_call(self, tool: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> int:
        """Call a tool, and do not wait for its answer: the id of the request."""
        id = next(self._ids)
        about = {} if meta is None else {"_meta": meta}
        self.send(request(id, "tools/call", name=tool, arguments=arguments, **about))
        return id

    def call(self, tool: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        """The data that a tool answers."""
        id = self.start_call(tool, meta, **arguments)
        found = self.read()
        assert found["id"] == id
        return data_of(found)

    def cancel(self, id: int) -> None:
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    def close(self) -> None:
        for stream in (self._input, self._output):
            stream.close()

    def errors(self) -> str:
        return "the server has ended"


class McpClient(Connection):
    def __init__(self, folder: Path, environment: dict[str, str], *words: str, program: str = RUN) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "mcp", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(self.process.stdin, self.process.stdout)

    def end(self) -> int:
        """Close the connection as a client does; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)

    def errors(self) -> str:
        assert self.process.stderr is not None
        self.process.kill()
        return self.process.stderr.read().decode(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass  # something was left in the buffer


def data_of(answer: Any) -> Any:
    """The data in the answer of a tool. A refusal is marked as such, for the client and in the data."""
    (content,) = answer["result"]["content"]
    data = json.loads(content["text"])
    assert answer["result"].get("isError", False) == ("error" in data)
    return data
