"""Waking an idle agent: `dibs hook Wake`, which Claude Code runs in the background when a turn ends (`asyncRewake`).

Only for a person who set `DIBS_WAKE=on`: the model is asked without a prompt of the person. The process waits until the
session is offered an item that it queued for, is handed one, or has lost a claim. Then it ends with exit code 2, and
the client gives the model what the process said. It wakes an agent once for each claim and each offer.
"""

from __future__ import annotations

import os
import time

from dibs import location
from dibs.agents import fence, keeper_process, look
from dibs.agents import payload as payloads
from dibs.agents import state as states
from dibs.agents.payload import CLAUDE
from dibs.agents.state import ACTIVE, WAKER, WOKEN, State
from dibs.board import open_board
from dibs.config import ENV_WAKE
from dibs.errors import DibsError
from dibs.model import READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

#: Changes of the board lead to at most one look in this time; without any there is one in the longer time.
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 1.0, 5.0
READY_MAX = 100


def wait(text: str) -> str:
    """What to tell an idle agent, once there is something. Empty if its session has ended, if its client cannot be
    woken, or if another process waits for the session already."""
    payload = payloads.parse(text, "Stop") if os.environ.get(ENV_WAKE) == "on" else None
    if payload is None or payload.client != CLAUDE or payload.subagent is not None:
        return ""
    state = State(payload.session)
    record = state.record()
    if record is None or keeper_process.take_lock(state, WAKER) is None:
        return ""
    while _is_open(state):
        try:
            with open_board(location.look(record.folder), lean=True, lenient=True) as board:
                return _wait_on(board, state)
        except DibsError:
            time.sleep(LOOK_SECONDS_MAX)
    return ""


def _wait_on(board: Board, state: State) -> str:
    watch = board.watch()
    while _is_open(state):
        # The hook that ends the turn runs beside this one; and when it asked the agent something, the turn goes on.
        if not state.has(ACTIVE) and (found := _news(board, state)):
            return found
        time.sleep(LOOK_SECONDS_MIN)
        watch.wait(LOOK_SECONDS_MAX)
    return ""


def _is_open(state: State) -> bool:
    found = state.record()
    return found is not None and (found.owner is None or bool(states.living(found.owners)))


def _news(board: Board, state: State) -> str:
    held = look.losses_and_held(board, state, recovers=False)
    told = state.noted(WOKEN)
    offers = [item for item in board.list(statuses=[READY], limit=READY_MAX) if item.offered_to == state.session]
    news = [(loss.item, loss.token, fence.describe(loss)) for loss in state.losses()]
    news += [(one.id, one.token, f"dibs: {one.id} is offered to you. Run now: dibs claim {one.id}") for one in offers]
    news += [
        (item, token, f"dibs: {item} was handed to you. Run now: dibs claim {item}")
        for item, token in held
        if (item, token) not in told and look.is_handed(board, item, token)
    ]
    new = [(item, token, line) for item, token, line in news if (item, token) not in told]
    for item, token, _ in new:
        state.note(WOKEN, item, token)
    return "\n".join(line for _, _, line in new)
