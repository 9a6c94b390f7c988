"""The turns of an agent: a prompt begins one, and the agent's wish to stop ends it."""

from __future__ import annotations

from dibs.agents import answers, keeper_process
from dibs.agents.fence import describe
from dibs.agents.payload import OPENCODE
from dibs.agents.state import ACTIVE, ASKED, State
from dibs.errors import DibsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.access import Access
    from dibs.agents.payload import Payload

#: How often an agent is asked about its claims in one turn, however often it claims anew.
ASKS_MAX = 5
QUESTION = "dibs: you still hold "
#: Clients that only report that a turn has ended.
UNASKED = (OPENCODE,)
#: How prompts begin that no person typed: a client's note that a subagent or a hook has ended, and our own question,
#: which Gemini CLI and Copilot CLI send to the model as a prompt.
NOT_TYPED = ("<task-notification>", QUESTION)


def prompt(payload: Payload, access: Access) -> str:
    """The person has seen what happened: losses are told once more, and deny nothing from now on. The prompt of a
    subagent comes from its parent, and a prompt that no person typed answers nothing."""
    state = State(payload.dibs_session)
    record = state.record()
    if record is None:
        from dibs.agents import sessions

        return "" if payload.subagent is not None else sessions.start_late(payload, access)
    state.touch(ACTIVE)
    state.tell(payload.meta)
    keeper_process.ensure(state, record)
    if payload.subagent is not None or payload.prompt.lstrip().startswith(NOT_TYPED):
        return ""
    state.discard(ASKED)
    try:
        access.held(state)
    except DibsError:
        pass  # what is known already is answered all the same
    losses = state.losses()
    state.answer(losses)
    return answers.tell(payload, " ".join(describe(loss) for loss in losses))


def stop(payload: Payload, access: Access) -> str:
    """Ask an agent that holds items to finish, release or note them: once about each claim. Without a claim to ask
    about, or in a client that cannot be asked, the turn is over, and the claims are not renewed until the next one."""
    state = State(payload.dibs_session)
    if payload.subagent is not None or state.record() is None:
        return ""
    held = () if payload.client in UNASKED else access.held(state)
    asked = state.noted(ASKED)
    new = [claim for claim in held if claim not in asked]
    if not new or len(asked) >= ASKS_MAX:
        state.discard(ACTIVE)
        return ""
    for item, token in new:
        state.note(ASKED, item, token)
    items = ", ".join(item for item, _ in held)
    return answers.go_on(
        payload,
        f"{QUESTION}{items}. Finish it with `dibs done ITEM`, give it back with `dibs release ITEM`, or, if "
        'you will go on later, leave a note with `dibs progress ITEM "..."`. Then stop.',
    )
