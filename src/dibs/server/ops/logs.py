"""The server's log on stderr: a line for each request, and warnings and crashes in the same form, without secrets."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import sys
import time
from collections.abc import MutableMapping
from typing import Any, TextIO

from dibs import api_keys
from dibs.errors import Unauthenticated
from dibs.server.ops.refused_keys import RefusedKeys, presented_key

UNAUTHENTICATED = Unauthenticated.http_status


class AccessLog:
    def __init__(self, stream: TextIO | None, as_json: bool) -> None:
        self._stream, self._as_json = stream, as_json
        self._lines: list[str] = []
        self.refused_keys = RefusedKeys()

    def write(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """Write the line of a request, in the event loop. Leaves out the query, which may be private."""
        client, refused = (scope.get("client") or ("-",))[0], None
        if status == UNAUTHENTICATED:
            refused = presented_key(scope)
            if not self.refused_keys.note(refused, client):
                return
        if self._stream is None:
            return
        at, method, path = timestamp(time.time()), scope["method"], api_keys.without_secrets(scope["path"])
        key = scope.get("state", {}).get("caller", "-")
        if self._as_json:
            milliseconds = round(seconds * 1000, 1)
            request = {"at": at, "method": method, "path": path, "status": status, "ms": milliseconds}
            if refused is not None:
                request["refused_key"] = refused
            line = json.dumps({**request, "client": client, "key": key})
        else:
            if " " in path or not path.isprintable():
                path = "".join(char if char.isprintable() and char != " " else "?" for char in path)
            key = key if refused is None else f"refused:{refused}"
            line = f"{at} {method} {path} {status} {seconds * 1000:.1f}ms {client} {key}"
        # Lines of requests that end together are written together.
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush, self._stream)
        self._lines.append(line + "\n")

    def _flush(self, stream: TextIO) -> None:
        text = "".join(self._lines)
        self._lines.clear()
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass  # the stream is closed; the server goes on without a log


class LogFormatter(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """One line, except for tracebacks outside of JSON."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        text = api_keys.without_secrets(text)
        at, level = timestamp(record.created), record.levelname.lower()
        if not self._as_json:
            return f"{at} {level} {text}"
        facts: dict[str, Any] = getattr(record, "facts", {})
        return json.dumps({"at": at, "level": level, "message": text, **facts})


def install(as_json: bool) -> None:
    """Replaces the handlers of the root logger: nothing else in this process logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def timestamp(seconds: float) -> str:
    return _timestamp(int(seconds))


@functools.lru_cache(16)
def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
