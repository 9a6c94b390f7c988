"""What a model's client pays: the start and the memory of the MCP server, the bytes of its tools and of one item, the
latency of a claim. Beside it the command line with `--brief`, and rhizome-mcp where npm has it.

Bytes are those that a model reads: of the tools (of the command line, `dibs prime`), and of the answers about one item,
from its claim over a note to its end.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dibs
from tests.kit import npm

RHIZOME = "1.5.1"
STARTS = 21
CLAIMS = 200
TITLE, BODY, NOTE = "Fix login", "The login fails with a redirect loop.\nSee src/login.py.", "the cause is in auth.py"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

Row = dict[str, object]


class Client:
    """A server on stdio, and the seconds until its first answer."""

    def __init__(self, command: list[str], folder: str, environment: dict[str, str]) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._ids = itertools.count(1)
        self.ask("initialize", **HELLO)
        self.first_ms = (time.perf_counter() - began) * 1000
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        id = next(self._ids)
        self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            if answer.get("id") == id:
                return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        assert not result.get("isError"), result
        return result

    def tools_bytes(self) -> int:
        return len(json.dumps(self.ask("tools/list")["result"]["tools"], separators=(",", ":")))

    @property
    def megabytes(self) -> float:
        """The most that it has had in memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def measure() -> tuple[str, list[Row]]:
    rows = [_dibs_row(), _board_row(), _command_row()]
    folder, why_not = npm.packages(f"rhizome-{RHIZOME}", f"@rhizome-mcp/linux-x64@{RHIZOME}")
    program = folder / "@rhizome-mcp" / "linux-x64" / "bin" / "rhizome-mcp"
    rows.append(_rhizome_row(str(program)) if not why_not else _row(f"rhizome-mcp: {why_not}"))
    return "MCP on stdio, a local board (medians; start in bare interpreters of this machine)", rows


def _row(name: str, **figures: object) -> Row:
    columns = ("first answer ms", "of bare", "MB at first", "MB", "tools bytes", "claim ms", "item bytes")
    return {"": name, **dict.fromkeys(columns), **{name.replace("_", " "): value for name, value in figures.items()}}


def _dibs_row() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        environment = _board(folder, CLAIMS)

        def start() -> Client:
            return Client([_script(), "mcp"], folder, environment)

        first, ratio, megabytes = _starts(start)
        client = start()
        claims = [_timed(partial(client.call, "claim", item=f"item-{n}")) for n in range(CLAIMS)]
        size = _seen(client.call("next"))
        size += _seen(client.call("progress", item="whole", note=NOTE))
        size += _seen(client.call("done", item="whole", note=NOTE))
        row = _row(
            "dibs mcp",
            first_answer_ms=first,
            of_bare=ratio,
            MB_at_first=megabytes,
            MB=client.megabytes,
            tools_bytes=client.tools_bytes(),
            claim_ms=statistics.median(claims),
            item_bytes=size,
        )
        client.close()
        return row


def _board_row() -> Row:
    """What the store takes of a claim, which syncs the disk; the rest is the protocol."""
    with tempfile.TemporaryDirectory() as folder:
        with dibs.connect(_board(folder, CLAIMS)["DIBS_STORE"]) as board:
            claims = [_timed(partial(board.claim, f"item-{n}", session="bench")) for n in range(CLAIMS)]
        return _row("board.claim()", claim_ms=statistics.median(claims))


def _command_row() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        environment = _board(folder, STARTS)

        def run(*words: str) -> bytes:
            return subprocess.run(
                [_script(), *words, "--brief"], env=environment, check=True, capture_output=True
            ).stdout

        claims = [_timed(partial(run, "claim", f"item-{n}")) for n in range(STARTS)]
        size = len(run("next")) + len(run("progress", "whole", NOTE)) + len(run("done", "whole", "--note", NOTE))
        prime = len(subprocess.run([_script(), "prime"], env=environment, check=True, capture_output=True).stdout)
        return _row("dibs ... --brief", tools_bytes=prime, claim_ms=statistics.median(claims), item_bytes=size)


def _rhizome_row(program: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        project, environment = os.path.join(folder, "project"), {**os.environ, "HOME": folder}
        subprocess.run(["git", "init", "--quiet", project], check=True)
        command = [program, "--data-root", os.path.join(folder, "data")]
        subprocess.run([*command, "init"], cwd=project, env=environment, check=True, capture_output=True)

        def start() -> Client:
            return Client([*command, "serve", "--profile", "agent"], project, environment)

        first, ratio, megabytes = _starts(start)
        client = start()
        me = client.call("create_agent_session", client_name="bench")["structuredContent"]["agent_session_handle"]
        new = {"type": "task", "title": TITLE, "description": BODY, "status": "ready", "agent_session_handle": me}
        ids = [client.call("create_issue", **new)["structuredContent"]["id"] for _ in range(CLAIMS + 1)]
        claims = [_timed(partial(client.call, "claim_issue", issue_id=id, agent_session_handle=me)) for id in ids[1:]]
        listed = client.call("list_issues", is_claimable=True, limit=1)
        # Its claim does not answer with the text of the issue.
        shown = client.call("get_issue", issue_id=ids[0])
        claimed = client.call("claim_issue", issue_id=ids[0], agent_session_handle=me)
        held = claimed["structuredContent"]
        holder = {
            "attempt_id": held["attempt"]["id"],
            "lease_token": held["lease_token"],
            "agent_session_handle": me,
        }
        noted = client.call("save_attempt_note", kind="finding", content=NOTE, **holder)
        done = {"outcome": "completed", "target_issue_status": "done", "result_summary": NOTE}
        ended = client.call("finish_attempt", **done, **holder)
        row = _row(
            f"rhizome-mcp {RHIZOME}",
            first_answer_ms=first,
            of_bare=ratio,
            MB_at_first=megabytes,
            MB=client.megabytes,
            tools_bytes=client.tools_bytes(),
            claim_ms=statistics.median(claims),
            item_bytes=sum(map(_seen, (listed, shown, claimed, noted, ended))),
        )
        client.close()
        return row


def _board(folder: str, items: int) -> dict[str, str]:
    """A board with so many items, and one more of low priority for the whole way; the environment of its client."""
    path = os.path.join(folder, "board.db")
    with dibs.connect(path, create=True) as board:
        board.start_session("bench", id="bench")
        for n in range(items):
            board.add(TITLE, id=f"item-{n}", body=BODY)
        board.add(TITLE, id="whole", body=BODY, priority="low")
    return {**os.environ, "DIBS_STORE": path, "DIBS_SESSION": "bench", "DIBS_AGENT": "bench"}


def _starts(start: Callable[[], Client]) -> tuple[float, float, float]:
    """The median of first answers and of their ratios to a bare interpreter, interleaved; the memory of one."""
    firsts, ratios, megabytes = [], [], 0.0
    for _ in range(STARTS):
        bare = _timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        client = start()
        firsts.append(client.first_ms)
        ratios.append(client.first_ms / bare)
        megabytes = client.megabytes
        client.close()
    return statistics.median(firsts), statistics.median(ratios), megabytes


def _seen(result: dict[str, Any]) -> int:
    """The bytes that a model is shown of an answer: its structured content, if there is one."""
    if "structuredContent" in result:
        return len(json.dumps(result["structuredContent"], separators=(",", ":")))
    return sum(len(content["text"].encode()) for content in result["content"])


def _script() -> str:
    found = shutil.which("dibs", path=os.path.dirname(sys.executable))
    assert found is not None
    return found


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000
