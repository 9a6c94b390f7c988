"""Tool calls of an agent: which are denied, which run as which session, and which need nobody's approval.

Nothing is allowed here that the person would be asked about, except a single harmless call of `dibs` and the tools of
dibs itself. Everything else passes undecided.
"""

from __future__ import annotations

from dibs.agents import answers, fence, files, keeper_process, shell
from dibs.agents.payload import CODEX, GEMINI, TASK_TOOLS
from dibs.agents.state import ACTIVE, State, answered
from dibs.rules.resources import covering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.access import Access
    from dibs.agents.payload import Payload
    from dibs.agents.state import Loss, Record


def before(payload: Payload, access: Access) -> str:
    state = State(payload.dibs_session)
    if payload.subagent is not None and not state.exists():
        from dibs.agents import sessions

        sessions.start_subagent(payload, access)
    record = state.record()
    if record is None:
        return ""
    state.touch(ACTIVE)
    if payload.is_ours:
        return answers.pass_on(payload, allow=True)
    if payload.tool in TASK_TOOLS:
        from dibs.agents import tasks

        return tasks.before(payload, access)
    words = shell.simple_call(payload.command) if payload.is_shell else None
    if words is not None and not shell.runs_others(words):
        return _call_of_dibs(payload, state, words)
    if not (payload.is_shell or payload.is_edit):
        return ""
    is_off = fence.is_off(access.settings)
    why = None if is_off else _lost(payload, access, state, record) or _in_use(payload, access, state, record)
    if isinstance(why, str):
        return answers.deny(payload, why)
    if why is not None:
        return answers.pass_on(payload, context=why[0])
    if _needs_session(payload) and "dibs" in payload.command:
        return answers.pass_on(payload, input=shell.as_session(payload, state.session))
    return ""


def after(payload: Payload, access: Access) -> str:
    state = State(payload.dibs_session)
    if state.exists():
        state.touch(ACTIVE)
    # A command in a sandbox cannot write the state folder itself.
    for word in shell.simple_call(payload.command) or () if payload.is_shell else ():
        answered(state.session, word)
    if payload.tool in TASK_TOOLS:
        from dibs.agents import tasks

        return tasks.after(payload, access)
    return ""


def _call_of_dibs(payload: Payload, state: State, words: list[str]) -> str:
    """A command that is neither harmless nor acts as a session stays as it is: changed, it would no longer be what the
    person has approved."""
    is_harmless = shell.is_harmless(words)
    is_changed = _needs_session(payload) and (is_harmless or (words[1:2] and words[1] in shell.ACTING))
    input = shell.as_session(payload, state.session) if is_changed else None
    return answers.pass_on(payload, input=input, allow=is_harmless)


def _needs_session(payload: Payload) -> bool:
    """Whether the client's shell does not know the session: that of a subagent has its parent's id, that of Gemini CLI
    has none."""
    return payload.is_shell and (payload.client == GEMINI or (payload.subagent is not None and payload.client != CODEX))


def _lost(payload: Payload, access: Access, state: State, record: Record) -> str | None:
    if not state.is_fresh():
        keeper_process.ensure(state, record)
        if access.board is not None:
            access.held(state)
    losses = _losses(state, record)
    if not losses:
        return None
    # Looked up only now: an agent that has lost nothing does not pay for it.
    return fence.denial(payload, losses, holds_others=bool(access.held(state)), folder=record.folder)


def _losses(state: State, record: Record) -> list[Loss]:
    """Those of the session, and those of the parent, for which a subagent works."""
    return state.losses() + (State(record.parent).losses() if record.parent else [])


def _in_use(payload: Payload, access: Access, state: State, record: Record) -> str | tuple[str] | None:
    """Why an edit is denied: another session's claim reserves the file. A session that never claimed in that project
    takes no part in the work there, and is only told, in a tuple."""
    if not payload.is_edit:
        return None
    below = [files.below_top(path, record.folder) for path in files.written(payload)]
    paths = [path for path in below if path is not None]
    for one in access.reserved(state, record) if paths else ():
        path = next((path for path in paths if covering(path, one.resources)), None)
        if path is None:
            continue
        holder = f"{one.agent} (session {one.session}) reserves {path} for {one.item}"
        if one.project in access.projects(state, record):
            return f"dibs: {holder}. Do not edit it before that is done; for other work: dibs next"
        return (f"dibs: {holder}. Two agents may edit one file: see `dibs who`.",)
    return None
