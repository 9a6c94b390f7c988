"""What a client's transcript tells about the use of the model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dibs.agents import usage
from dibs.agents.state import Record


def answer(tokens: int, **fields: Any) -> str:
    return json.dumps({"type": "assistant", "message": {"model": "m", "usage": {"input_tokens": tokens}}} | fields)


def count(tokens: int, **info: Any) -> str:
    info |= {"last_token_usage": {"total_tokens": tokens}}
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}})


@pytest.mark.parametrize(
    ("client", "lines", "expected"),
    [
        ("claude", [answer(1), answer(20)], {"model": "m", "context_tokens": 20}),
        (
            "claude",
            [answer(20), answer(1, isSidechain=True), '{"usage": 1}', '{"usage'],
            {"model": "m", "context_tokens": 20},
        ),
        ("claude", [json.dumps({"message": {"usage": {"input_tokens": "x"}, "model": 1}})], {}),
        ("codex", [count(50, model_context_window=200)], {"context_tokens": 50, "context_percent": 25}),
        ("codex", [count(50), '{"payload": {"info": null}, "x": "token_count"}'], {"context_tokens": 50}),
        ("gemini", [answer(1)], {}),
        ("claude", ["x" * (1 << 20), answer(7)], {"model": "m", "context_tokens": 7}),
    ],
)
def test_the_last_answer_counts(tmp_path: Path, client: str, lines: list[str], expected: dict[str, Any]) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert usage.read(Record(session="s", agent="a", client=client, folder="/", transcript=str(path))) == expected


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        record = Record(session="s", agent="a", client="claude", folder="/", transcript=str(tmp_path / name))
        assert usage.read(record) == {}
