"""Starting the keeper of a session, and telling whether it runs: it holds a lock on a file in the state folder."""

from __future__ import annotations

import os
import sys

from dibs.agents.state import KEEPER, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.state import Record


def ensure(state: State, record: Record | None = None) -> bool:
    """Start the keeper unless it runs; return whether it ran. It needs the agent's process, since it lives as long as
    that. A subagent is looked after by the keeper of its parent."""
    record = record or state.record()
    if record is not None and record.parent is not None:
        state = State(record.parent)
        record = state.record()
    if record is None or record.owner is None:
        return False
    lock = take_lock(state)
    if lock is None:
        return True
    os.close(lock)
    _start(state.session)
    return False


def take_lock(state: State, name: str = KEEPER) -> int | None:
    """The locked descriptor; None if another process holds the lock, or the folder is gone."""
    from dibs.system import locks

    try:
        return locks.take(os.path.join(state.path, name))
    except OSError:
        return None


def _start(session: str) -> None:
    """Start a process of its own session, which keeps none of the client's pipes open."""
    # -P: the folder of the agent is not searched for modules.
    words = [sys.executable, "-P", "-m", "dibs.cli.main", "hook", "keep", "--session", session]
    nothing = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    try:
        os.posix_spawn(sys.executable, words, os.environ, file_actions=nothing, setsid=True)
    except (OSError, NotImplementedError):
        pass  # without a keeper the hooks themselves look, when the state is no longer fresh
