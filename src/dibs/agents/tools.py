"""Tool calls of an agent: which are denied, which run as which session, and which need nobody's approval.

Nothing is allowed here that the person would be asked about, except a single harmless call of `dibs` and the tools of
the plugin's own server. The client's own task tools, which ask nobody, are allowed with a changed input. Everything
else passes undecided.
"""

from __future__ import annotations

from dibs.agents import answers, fence, files, keeper_process, shell
from dibs.agents.payload import CODEX, GEMINI, TASK_TOOLS_AFTER, TASK_TOOLS_BEFORE
from dibs.agents.state import ACTIVE, State
from dibs.rules.resources import covering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.access import Access
    from dibs.agents.payload import Payload
    from dibs.agents.state import Record

#: The argument of the tools of dibs that names the session: see `dibs.mcp.tools`.
SESSION = "session"


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
        return _tool_of_dibs(payload, state)
    if payload.tool in TASK_TOOLS_BEFORE:
        from dibs.agents import tasks

        return tasks.before(payload, access)
    words = shell.simple_call(payload.command) if payload.is_shell else None
    if words is not None and not shell.runs_others(words):
        return _call_of_dibs(payload, state, words)
    if not (payload.is_shell or payload.is_edit):
        return ""
    if not (fence.is_off() or (payload.is_shell and shell.is_list_of_calls(payload.command))):
        why, is_denial = _objection(payload, access, state, record)
        if why:
            return answers.deny(payload, why) if is_denial else answers.pass_on(payload, context=why)
    if _needs_session(payload) and "dibs" in payload.command:
        return answers.pass_on(payload, input=shell.as_session(payload, state.session))
    return ""


def before_without_board(payload: Payload) -> str:
    """The answer to a tool call if the board could not be asked: what the session is known to have lost is denied, also
    if it holds another item, which is not known here."""
    state = State(payload.dibs_session)
    if not state.exists():
        state = State(payload.session)
    if state.record() is None:
        return ""
    if payload.is_ours:
        return _tool_of_dibs(payload, state)
    words = shell.simple_call(payload.command) if payload.is_shell else None
    if words is not None and not shell.runs_others(words):
        return _call_of_dibs(payload, state, words)
    is_free = fence.is_off() or shell.is_list_of_calls(payload.command)
    if is_free or not (payload.is_shell or payload.is_edit):
        return ""
    why = fence.denial(state.losses() or state.losses_of_parent(), holds_others=False, places=[])
    return "" if why is None else answers.deny(payload, why)


def after(payload: Payload, access: Access) -> str:
    state = State(payload.dibs_session)
    if not state.exists():
        return ""
    state.touch(ACTIVE)
    if payload.tool in TASK_TOOLS_AFTER:
        from dibs.agents import tasks

        return tasks.after(payload, access)
    return ""


def _tool_of_dibs(payload: Payload, state: State) -> str:
    """The call acts as this session, whatever the model wrote. Codex takes no changed input; it tells the server by
    itself which thread calls."""
    if payload.client != CODEX:
        return answers.pass_on(payload, input={**payload.input, SESSION: state.session}, allow=payload.is_of_plugin)
    if payload.input.get(SESSION, state.session) == state.session:
        return ""
    return answers.deny(payload, f"dibs: you are session {state.session}; call it again without the argument session")


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


def _objection(payload: Payload, access: Access, state: State, record: Record) -> tuple[str, bool]:
    """What speaks against a command or an edit, and whether it is denied for that; an empty text if nothing does."""
    written = files.written(payload)
    reach = files.Reach(record.folder, access.url) if written or payload.is_edit else None
    places = [place for path in written for place in reach.places(path)] if reach is not None else []
    lost = _lost(payload, access, state, record, places)
    if lost is not None or reach is None:
        return lost or "", True
    why, is_denial = _in_use(access, state, record, places, is_shared=reach.is_shared)
    from dibs.agents import reserve

    if places and not is_denial and reserve.is_on() and (busy := reserve.objection(access, state, record, places)):
        return busy, True
    return why, is_denial


def _lost(payload: Payload, access: Access, state: State, record: Record, places: list[str]) -> str | None:
    """A subagent also answers for what its parent lost, for which it works."""
    parent = State(record.parent) if record.parent else None
    # An edit takes its time for what a command leaves to the keeper: to find out that the keeper is dead.
    is_fresh = state.is_fresh()
    if (payload.is_edit or not is_fresh) and not (keeper_process.ensure(state, record) and is_fresh):
        for one in (state, parent) if access.board is not None else ():
            if one is not None:
                access.held(one)
    # What is held is looked up only after a loss: an agent that has lost nothing does not pay for it.
    if losses := state.losses():
        why = fence.denial(losses, holds_others=bool(access.held(state)), places=places)
        if why is not None:
            return why
    if parent is not None and (losses := state.losses_of_parent()):
        holds_others = bool(access.held(state) or access.held(parent))
        return fence.denial(losses, holds_others=holds_others, places=places)
    return None


def _in_use(access: Access, state: State, record: Record, places: list[str], *, is_shared: bool) -> tuple[str, bool]:
    """Another session's claim reserves the file. A session that takes no part in the work there is only told: one that
    never claimed an item of this board, or, where repositories share the board, of that item's project."""
    for one in access.reserved(state, record) if places else ():
        place = next((place for place in places if covering(place, one.resources)), None)
        if place is None:
            continue
        holder = f"{one.agent} (session {one.session}) reserves {place} for {one.item}"
        projects = access.projects(state, record)
        if one.project in projects or (projects and not is_shared):
            return f"dibs: {holder}. Do not edit it before that is done; for other work: dibs next", True
        return f"dibs: {holder}. Two agents may edit one file: see `dibs who`.", False
    return "", False
