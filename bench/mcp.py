"""What a model and its client pay: the start and the memory of the MCP server, the bytes of its tools and of one item,
the latency of a claim. Beside it rhizome-mcp where npm has it, the command line with `--brief`, and hooks.

Bytes are those that a model reads: of the tools (of the command line, `dibs prime`; of hooks, what they say when a
session starts), and of the answers about one item, from its claim over a note to its end. All contestants take turns in
every round, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import contextlib
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
ROUNDS = 7
STARTS, CLAIMS, COMMANDS = 3, 30, 3  # of each in a round
TITLE, BODY, NOTE = "Fix login", "The login fails with a redirect loop.\nSee src/login.py.", "the cause is in auth.py"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
SESSION = "40099e16-bce1-4c1c-bfb8-631ecdceaf04"
HOOK = Path(__file__).parent.parent / "plugins" / "dibs" / "hooks" / "dibs-hook.sh"

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
        return _megabytes(self._process.pid)

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


class Contestant:
    """One way to a board. Each turn adds to the figures of the turns before."""

    name = ""
    #: How many claims a turn makes.
    claims = CLAIMS

    def __init__(self) -> None:
        self._folder = contextlib.ExitStack()
        self.folder = self._folder.enter_context(tempfile.TemporaryDirectory())
        self.first_ms: list[float] = []
        self.of_bare: list[float] = []
        self.claim_ms: list[float] = []
        self.megabytes_at_first: float | None = None

    def turn(self, items: list[str]) -> None:
        self.starts()
        self.claim_ms += [_timed(partial(self.claim, item)) for item in items]

    def starts(self) -> None:
        """Start it a few times, in turn with a bare interpreter."""

    def claim(self, item: str) -> object:
        raise NotImplementedError

    def tools_bytes(self) -> int | None:
        return None

    def item_bytes(self) -> int | None:
        return None

    def megabytes(self) -> float | None:
        return None

    def close(self) -> None:
        self._folder.close()

    def row(self) -> Row:
        return {
            "": self.name,
            "first answer ms": _median(self.first_ms),
            "of bare": _median(self.of_bare),
            "MB at first": self.megabytes_at_first,
            "MB": self.megabytes(),
            "tools bytes": self.tools_bytes(),
            "claim ms": _median(self.claim_ms),
            "item bytes": self.item_bytes(),
        }

    def _add_start(self, start: Callable[[], float]) -> None:
        bare = _timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        self.first_ms.append(start())
        self.of_bare.append(self.first_ms[-1] / bare)


class Server(Contestant):
    """An MCP server on stdio; the last one that was started goes on."""

    command: list[str]
    place: str
    environment: dict[str, str]

    def begin(self) -> None:
        self.client = Client(self.command, self.place, self.environment)

    def starts(self) -> None:
        def start() -> float:
            client = Client(self.command, self.place, self.environment)
            self.megabytes_at_first = client.megabytes
            client.close()
            return client.first_ms

        for _ in range(STARTS):
            self._add_start(start)

    def megabytes(self) -> float:
        return self.client.megabytes

    def tools_bytes(self) -> int:
        return self.client.tools_bytes()

    def close(self) -> None:
        self.client.close()
        super().close()


class DibsMcp(Server):
    name = "dibs mcp"

    def __init__(self) -> None:
        super().__init__()
        self.command, self.place, self.environment = [_script(), "mcp"], self.folder, _board(self.folder)
        self.begin()

    def claim(self, item: str) -> object:
        return self.client.call("claim", item=item)

    def item_bytes(self) -> int:
        answers = [self.client.call("next")]
        answers.append(self.client.call("progress", item="whole", note=NOTE))
        answers.append(self.client.call("done", item="whole", note=NOTE))
        return sum(map(_seen, answers))


class Rhizome(Server):
    name = f"rhizome-mcp {RHIZOME}"

    def __init__(self, program: str) -> None:
        super().__init__()
        self.place, self.environment = os.path.join(self.folder, "project"), {**os.environ, "HOME": self.folder}
        subprocess.run(["git", "init", "--quiet", self.place], check=True)
        command = [program, "--data-root", os.path.join(self.folder, "data")]
        subprocess.run([*command, "init"], cwd=self.place, env=self.environment, check=True, capture_output=True)
        self.command = [*command, "serve", "--profile", "agent"]
        self.begin()
        me = self.client.call("create_agent_session", client_name="bench")["structuredContent"]
        self._me = me["agent_session_handle"]
        self._ids = {item: self._add() for item in (*_items(), "whole")}

    def _add(self) -> str:
        new = {"type": "task", "title": TITLE, "description": BODY, "status": "ready"}
        return str(self.client.call("create_issue", **new, agent_session_handle=self._me)["structuredContent"]["id"])

    def claim(self, item: str) -> dict[str, Any]:
        return self.client.call("claim_issue", issue_id=self._ids[item], agent_session_handle=self._me)

    def item_bytes(self) -> int:
        """Its claim does not answer with the text of the issue."""
        answers = [self.client.call("list_issues", is_claimable=True, limit=1)]
        answers += [self.client.call("get_issue", issue_id=self._ids["whole"]), self.claim("whole")]
        held = answers[-1]["structuredContent"]
        holder = {"attempt_id": held["attempt"]["id"], "lease_token": held["lease_token"]}
        holder["agent_session_handle"] = self._me
        answers.append(self.client.call("save_attempt_note", kind="finding", content=NOTE, **holder))
        done = {"outcome": "completed", "target_issue_status": "done", "result_summary": NOTE}
        answers.append(self.client.call("finish_attempt", **done, **holder))
        return sum(map(_seen, answers))


class Commands(Contestant):
    name = "dibs ... --brief"
    claims = COMMANDS

    def __init__(self) -> None:
        super().__init__()
        self.environment = _board(self.folder)

    def run(self, *words: str) -> bytes:
        return subprocess.run([_script(), *words], env=self.environment, check=True, capture_output=True).stdout

    def claim(self, item: str) -> object:
        return self.run("claim", item, "--brief")

    def starts(self) -> None:
        for _ in range(STARTS):
            self._add_start(lambda: _timed(lambda: self.run("who", "--brief")))

    def tools_bytes(self) -> int:
        return len(self.run("prime"))

    def item_bytes(self) -> int:
        calls = [("next",), ("progress", "whole", NOTE), ("done", "whole", "--note", NOTE)]
        return sum(len(self.run(*words, "--brief")) for words in calls)


class Hooks(Commands):
    """The same commands in the shell of an agent with hooks: each has a hook before it and one after it. The first
    answer is that of the hook at the start of a session, the memory that of the process that keeps its claims."""

    name = "the same with hooks"

    def __init__(self) -> None:
        super().__init__()
        self.environment["DIBS_SESSION"] = SESSION
        self.environment |= {"XDG_STATE_HOME": os.path.join(self.folder, "state"), "CLAUDE_PID": str(os.getpid())}
        self.environment["PATH"] = f"{os.path.dirname(sys.executable)}:{self.environment['PATH']}"
        self._said = self._hook("SessionStart")

    def starts(self) -> None:
        for _ in range(STARTS):
            self._add_start(lambda: _timed(lambda: self._hook("SessionStart")))

    def run(self, *words: str) -> bytes:
        command = {"tool_name": "Bash", "tool_input": {"command": " ".join(("dibs", *words))}}
        self._hook("PreToolUse", **command)
        found = super().run(*words)
        self._hook("PostToolUse", **command)
        return found

    def megabytes(self) -> float:
        state = Path(self.environment["XDG_STATE_HOME"], "dibs", "agents", SESSION)
        return _megabytes(int((state / "keeper").read_text()))

    def tools_bytes(self) -> int:
        return len(json.loads(self._said)["hookSpecificOutput"]["additionalContext"])

    def close(self) -> None:
        self._hook("SessionEnd")
        super().close()

    def _hook(self, event: str, **about: Any) -> bytes:
        payload = {"session_id": SESSION, "cwd": self.folder, "hook_event_name": event, **about}
        return subprocess.run(
            ["sh", str(HOOK), event],
            input=json.dumps(payload).encode(),
            env=self.environment,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout


class Store(Contestant):
    """What the store takes of a claim, which syncs the disk; the rest is the protocol."""

    name = "board.claim()"

    def __init__(self) -> None:
        super().__init__()
        self._board = dibs.connect(_board(self.folder)["DIBS_STORE"])

    def claim(self, item: str) -> object:
        return self._board.claim(item, session=SESSION)

    def close(self) -> None:
        self._board.close()
        super().close()


def measure() -> tuple[str, list[Row]]:
    contestants: list[Contestant] = [DibsMcp(), Commands(), Hooks(), Store()]
    folder, why_not = npm.packages(f"rhizome-{RHIZOME}", f"@rhizome-mcp/linux-x64@{RHIZOME}")
    if why_not:
        print(f"rhizome-mcp: {why_not}", file=sys.stderr)
    else:
        program = folder / "@rhizome-mcp" / "linux-x64" / "bin" / "rhizome-mcp"
        contestants.insert(1, Rhizome(str(program)))
    items, load = iter(_items()), os.getloadavg()[0]
    for _ in range(ROUNDS):
        turn = list(itertools.islice(items, CLAIMS))
        for one in contestants:
            one.turn(turn[: one.claims])
    rows = [one.row() for one in contestants]
    for one in contestants:
        one.close()
    return f"MCP on stdio, a local board (medians of {ROUNDS} rounds in turn; load {load:.1f} before)", rows


def _items() -> list[str]:
    return [f"item-{n}" for n in range(ROUNDS * CLAIMS)]


def _board(folder: str) -> dict[str, str]:
    """A board with items to claim, and one for the whole way, which `next` gives; the environment of its client."""
    os.mkdir(os.path.join(folder, ".dibs"))
    path = os.path.join(folder, ".dibs", "board.db")
    with dibs.connect(path, create=True) as board:
        board.start_session("bench", id=SESSION)
        for item in _items():
            board.add(TITLE, id=item, body=BODY)
        board.add(TITLE, id="whole", body=BODY, priority="high")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DIBS_", "CLAUDE", "CODEX"))}
    return {**own, "DIBS_STORE": path, "DIBS_SESSION": SESSION, "DIBS_AGENT": "bench"}


def _seen(result: dict[str, Any]) -> int:
    """The bytes that a model is shown of an answer: its structured content, if there is one."""
    if "structuredContent" in result:
        return len(json.dumps(result["structuredContent"], separators=(",", ":")))
    return sum(len(content["text"].encode()) for content in result["content"])


def _megabytes(pid: int) -> float:
    """The most that a process has had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _script() -> str:
    found = shutil.which("dibs", path=os.path.dirname(sys.executable))
    assert found is not None
    return found


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
