"""`dibs hook EVENT`: reads the payload of a client's event, calls the function of the event, returns what to print.

The function of an event takes the payload and an `Access` to the board, and returns the reply for the client, or an
empty text. Whatever goes wrong here, the agent must not notice, with one exception: a tool is denied also without the
board if the state folder of the session has a loss.
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
    from dibs.agents.state import Record

    Handler = Callable[[Payload, Access], str]

BEFORE = "PreToolUse"
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
#: How long a hook before a tool may take. Clients wait for five seconds, and then run the tool; `dibs-hook.sh` ends
#: this process after four, if it hangs where no signal reaches it.
ANSWER_SECONDS = 3.0
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
    if payload.event != BEFORE:
        try:
            return _with_board(payload, record)
        except DibsError:
            return ""  # no board here, one that is not trusted, or one that does not answer
    try:
        return _in_time(lambda: _with_board(payload, record))
    except Exception:  # whatever it is: what is known to be lost must not depend on it
        from dibs.agents import tools

        return tools.before_without_board(payload)


def _with_board(payload: Payload, record: Record | None) -> str:
    from dibs.agents.access import Access

    # A session that is compacted, or resumed beside another process, keeps its board.
    access = Access(payload.cwd if record is None else record.folder)
    try:
        return _handler(payload.event)(payload, access)
    finally:
        access.close()


def _in_time(answer: Callable[[], str]) -> str:
    """The answer, or `TimeoutError` when its time is up."""
    import _signal as signals  # type: ignore[import-not-found]  # `signal` imports more, before every tool call

    def end(*_: object) -> None:
        raise TimeoutError

    former = signals.signal(signals.SIGALRM, end)
    signals.setitimer(signals.ITIMER_REAL, ANSWER_SECONDS)
    try:
        return answer()
    finally:
        signals.setitimer(signals.ITIMER_REAL, 0)
        signals.signal(signals.SIGALRM, former)


def _handler(event: str) -> Handler:
    import sys

    module, function = HANDLERS[event]
    name = f"dibs.agents.{module}"
    __import__(name)
    found: Handler = getattr(sys.modules[name], function)
    return found
