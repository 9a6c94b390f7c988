"""`dibs hook EVENT`: reads the payload of a client's event, calls the function of the event, returns what to print.

The function of an event takes the payload and an `Access` to the board, and returns the reply for the client, or an
empty text. Whatever goes wrong here, the agent must not notice.
"""

from __future__ import annotations

import os

from dibs import config
from dibs.agents import payload as payloads
from dibs.agents import state as states
from dibs.agents.state import State
from dibs.errors import DibsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.agents.access import Access
    from dibs.agents.payload import Payload

    Handler = Callable[[Payload, Access], str]

#: The module and function of each event. Other events are ignored.
HANDLERS = {
    "SessionStart": ("sessions", "start"),
    "SessionEnd": ("sessions", "end"),
    "SubagentStart": ("sessions", "start_subagent"),
    "SubagentStop": ("sessions", "end_subagent"),
    "UserPromptSubmit": ("turns", "prompt"),
    "Stop": ("turns", "stop"),
    "PreToolUse": ("tools", "before"),
    "PostToolUse": ("tools", "after"),
    "PostToolUseFailure": ("tools", "after"),
    "TaskCreated": ("tasks", "created"),
    "TaskCompleted": ("tasks", "completed"),
    "TeammateIdle": ("tasks", "idle"),
}
#: Events that can start a session.
STARTING = ("SessionStart", "UserPromptSubmit")


def run(text: str, event: str, client: str | None = None) -> str:
    """The reply to an event. Without a board, or in a session that a worker of dibs runs, nothing happens."""
    payload = payloads.parse(text, event, client)
    # A worker holds the claim of the command it runs, renews it, and ends the command when it is lost.
    if payload is None or payload.event not in HANDLERS or os.environ.get(config.ENV_TOKEN):
        return ""
    if payload.event == "SessionStart":
        states.remove_dead()
    record = State(payload.session).record()
    if record is None and payload.event not in STARTING:
        return ""
    from dibs.agents.access import Access

    try:
        # A session that is compacted, or resumed beside another process, keeps its board.
        access = Access(payload.cwd if record is None else record.folder)
    except DibsError:
        return ""  # no board here, or one that is not trusted
    try:
        return _handler(payload.event)(payload, access)
    except DibsError:
        return ""
    finally:
        access.close()


def _handler(event: str) -> Handler:
    import sys

    module, function = HANDLERS[event]
    name = f"dibs.agents.{module}"
    __import__(name)
    found: Handler = getattr(sys.modules[name], function)
    return found
