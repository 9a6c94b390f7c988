"""The process of the coding agent: the owner of its session, and what a keeper lives as long as.

It is an ancestor of the hook, or of the command in the agent's shell. A variable alone proves nothing, since every
process below the agent inherits it.
"""

from __future__ import annotations

import os

from dibs.agents.payload import CLAUDE, CURSOR
from dibs.agents.state import State
from dibs.errors import Invalid
from dibs.model import AGENT
from dibs.system import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from dibs.model import Owner

#: Where a client names its own process.
PID_VARIABLES = {CLAUDE: "CLAUDE_PID"}
#: The programs of clients that are not called as the client.
PROGRAMS = {CURSOR: "cursor-agent"}
ANCESTORS_MAX = 64
#: How many words of a command line can be the program: `node --option /usr/bin/gemini`.
WORDS_MAX = 3
#: The most that is read of a command line.
BYTES_MAX = 4096


def find(client: str, environment: Mapping[str, str]) -> Owner | None:
    """The client's process above this one; None if there is none, or where processes cannot be named."""
    named = environment.get(PID_VARIABLES.get(client, ""), "")
    for pid in _ancestors():
        if str(pid) == named if named else _is_program(pid, client):
            try:
                return owner.of(pid)
            except Invalid:
                return None
    return None


def of_session(session: str, environment: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, Any]:
    """What is known about the session of a coding agent that a command is about to start: its owner, and from its state
    folder its agent, its kind and its parent. `variables` are those that hold a session id, with the client of each."""
    record = State(session).record()
    if record is not None:
        known = {"agent": record.agent, "kind": AGENT, "owner": record.owner, "parent": record.parent}
        return {name: value for name, value in known.items() if value is not None}
    client = next(client for name, client in variables.items() if environment.get(name) == session)
    owner = find(client, environment)
    return {} if owner is None else {"owner": owner}


def is_above(agents: tuple[Owner, ...]) -> bool:
    """Whether a process of these is above this one. If none is known, nothing tells otherwise: the client runs under
    another name, or processes cannot be named here."""
    above = set(_ancestors()) if agents else set()
    return not agents or any(_is_running(one) for one in agents if one.pid in above)


def _is_running(agent: Owner) -> bool:
    try:
        return owner.of(agent.pid) == agent
    except Invalid:
        return False


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    for _ in range(ANCESTORS_MAX):
        if pid <= 1:
            return
        yield pid
        stat = _read(f"/proc/{pid}/stat")
        # The command's name is in parentheses and may itself contain parentheses.
        fields = stat[stat.rfind(b")") + 1 :].split()
        pid = int(fields[1]) if len(fields) > 1 else 0


def _is_program(pid: int, client: str) -> bool:
    """Whether one of the first words of its command line is the client: `codex`, `gemini.js`. A client's helper, such
    as `codex-linux-sandbox`, may end with the command that it runs."""
    words = _read(f"/proc/{pid}/cmdline").split(b"\0")[:WORDS_MAX]
    stems = {os.path.basename(word).partition(b".")[0] for word in words}
    return PROGRAMS.get(client, client).encode() in stems


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(BYTES_MAX)
    except OSError:
        return b""
