"""How long the hooks of a coding agent take: those that end in the shell part, and those that start Python."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dibs

ROUNDS = 30
SESSION = "40099e16-bce1-4c1c-bfb8-631ecdceaf04"
HOOK = Path(__file__).parent.parent / "plugins" / "dibs" / "hooks" / "dibs-hook.sh"
LARGE = "x" * 1_000_000


def measure() -> tuple[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, ".dibs"))
        board = dibs.connect(os.path.join(folder, ".dibs", "board.db"), create=True)
        place = {name: value for name, value in os.environ.items() if not name.startswith(("DIBS_", "CLAUDE"))}
        place["PATH"] = f"{os.path.dirname(sys.executable)}:{place['PATH']}"
        place |= {"XDG_STATE_HOME": os.path.join(folder, "state"), "CLAUDE_PID": str(os.getpid())}
        tools = {
            "Bash, shell part": ("PreToolUse", "Bash", {"command": "make test"}),
            "after a tool, shell part": ("PostToolUse", "Bash", {"command": "make test"}),
            "after a tool with 1 MB of output": ("PostToolUse", "Bash", {"command": "x", "output": LARGE}),
            "a call of dibs": ("PreToolUse", "Bash", {"command": "dibs who"}),
            "Write": ("PreToolUse", "Write", {"file_path": os.path.join(folder, "x.py"), "content": "x"}),
            "prompt": ("UserPromptSubmit", "", {}),
            "stop": ("Stop", "", {}),
            "start": ("SessionStart", "", {}),
        }
        _timed(_payload(folder, "SessionStart", "", {}), "SessionStart", place)
        board.add("an item", id="held", resources=["src"])
        board.claim("held", session=SESSION)
        rows: list[dict[str, object]] = []
        for name, (event, tool, given) in tools.items():
            text = _payload(folder, event, tool, given)
            times, bare = [], []
            for _ in range(ROUNDS):
                bare.append(_timed("", "", place, [sys.executable, "-c", "pass"]))
                times.append(_timed(text, event, place))
            ratios = [one / other for one, other in zip(times, bare, strict=True)]
            rows.append(
                {
                    "hook": name,
                    "median": statistics.median(times),
                    "bare python": statistics.median(bare),
                    "median of ratios": statistics.median(ratios),
                }
            )
        _timed(_payload(folder, "SessionEnd", "", {}), "SessionEnd", place)
        board.close()
    return "Hooks of a coding agent on SQLite (ms, median of interleaved runs)", rows


def _payload(folder: str, event: str, tool: str, given: dict[str, str]) -> str:
    return json.dumps(
        {"session_id": SESSION, "cwd": folder, "hook_event_name": event, "tool_name": tool, "tool_input": given}
    )


def _timed(text: str, event: str, place: dict[str, str], command: list[str] | None = None) -> float:
    data = text.encode()
    start = time.perf_counter()
    subprocess.run(command or ["sh", str(HOOK), event], input=data, env=place, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000
