"""How much of its model an agent uses, as its client's transcript says: the model, and how full the context is.

A transcript has one JSON object in each line. Claude Code notes the tokens of each answer, and Codex also the size of
the model's context. Only the end of the file is read. No client tells its hooks or its transcript what a session costs.
"""

from __future__ import annotations

import os

from dibs.agents.payload import CLAUDE, CODEX
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.agents.state import Record

#: How much of the end of a transcript is searched.
BYTES_MAX = 256 << 10
#: The parts of the usage of an answer of Claude that are in the context of the next one.
PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
MODEL_LENGTH_MAX = 200


def read(record: Record) -> dict[str, Any]:
    """`model`, `context_tokens` and `context_percent`, as far as they are known."""
    reader = READERS.get(record.client)
    if reader is None or not record.transcript:
        return {}
    mark, of_line = reader
    for line in reversed(_tail(record.transcript).splitlines()):
        if mark in line:
            try:
                found = of_line(json_text.loads(line.decode("utf-8", "replace")))
            except (ValueError, RecursionError, KeyError, TypeError):
                continue  # cut off, or of another shape
            if found:
                return found
    return {}


def _of_claude(line: Any) -> dict[str, Any]:
    message = line["message"]
    if line.get("isSidechain"):
        return {}  # a subagent's
    tokens = sum(_count(message["usage"].get(part)) for part in PARTS)
    return {"model": str(message["model"])[:MODEL_LENGTH_MAX], "context_tokens": tokens} if tokens else {}


def _of_codex(line: Any) -> dict[str, Any]:
    info = line["payload"]["info"]
    tokens, window = _count(info["last_token_usage"]["total_tokens"]), _count(info.get("model_context_window"))
    return {"context_tokens": tokens} | ({"context_percent": round(100 * tokens / window)} if window else {})


READERS = {CLAUDE: (b'"usage"', _of_claude), CODEX: (b'"token_count"', _of_codex)}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _tail(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(file, BYTES_MAX, max(0, os.fstat(file).st_size - BYTES_MAX))
    except OSError:
        return b""
    finally:
        os.close(file)
