"""The start and the end of an agent's session, and of its subagents' sessions.

The session on the board has the client's session id. A start, a clear and a fork come with a new id, and so with a new
identity; a resume and a compaction come with the old one. A subagent has a session of its own, a child of the agent's.

The state folder comes first: what a busy board does not let a hook do now, the keeper does later.
"""

from __future__ import annotations

import os

from dibs import check, config
from dibs.agents import answers, keeper_process, look, process
from dibs.agents import state as states
from dibs.agents.payload import CLAUDE, CODEX
from dibs.agents.state import ACTIVE, ASKED, BEGIN, CHILD, END, ENDED, META, Record, State
from dibs.errors import DibsError, Invalid, SessionNotFound, StoreUnavailable, StoreUnusable
from dibs.model import AGENT, READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dibs.agents.access import Access
    from dibs.agents.payload import Payload
    from dibs.board import Board
    from dibs.model import Owner, Session

#: Where Claude Code takes the environment of the agent's shell from, before every command.
ENV_FILE = "CLAUDE_ENV_FILE"
#: How many characters of the client's session id name the agent, if nothing else does. Those of Codex begin with the
#: time, which agents that start together share, so there the last ones are taken.
AGENT_LENGTH = 8
#: The reason for which a session ends in one process and goes on: the person resumes another session there.
RESUME = "resume"
CONTEXT_LENGTH_MAX = 800
#: How many of the items that wait are counted.
READY_MAX = 100
#: How many items of a list are named.
NAMED_MAX = 5
HOW_TO = (
    "Before you work on an item, claim it: `dibs next`, or `dibs claim ITEM`. Note progress with `dibs progress ITEM "
    '"..."`, end with `dibs done ITEM`, or give it back with `dibs release ITEM`. Your claims are renewed for you. If '
    "a claim is refused or lost, stop working on that item and look for another."
)


def start(payload: Payload, access: Access) -> str:
    state = State(payload.session)
    known, owner = state.record(), process.find(payload.client, os.environ)
    record = Record(
        session=payload.session,
        agent=_agent_name(payload),
        client=payload.client,
        folder=os.path.abspath(access.folder),
        owner=owner,
        earlier=states.living(one for one in (known.owners if known is not None else ()) if one != owner),
        host=states.host(),
        transcript=payload.transcript,
        outer=_outer_sessions(payload),
    )
    state.make(record)
    try:
        is_begun = _begin_now(access, state, record, payload.meta)
    except DibsError:
        if known is None:
            state.remove()
        raise
    record = state.record() or record
    state.tell(payload.meta)
    for name in (ASKED, END):
        state.discard(name)
    _write_environment(record)
    keeper_process.ensure(state, record)
    return answers.tell(payload, _context(access.board if is_begun else None, state, record))


def start_late(payload: Payload, access: Access) -> str:
    """Start a session at a prompt, if there was no board when it began, or no room for its state. One that lives on the
    board was started by hooks, and a person has removed its state with `dibs setup --remove`."""
    known = None if access.board is None else _find(access.board, payload.session)
    if access.board is None or (known is not None and known.ended_at is None and known.kind == AGENT):
        return ""
    told = start(payload, access)
    State(payload.session).touch(ACTIVE)
    return told


def start_subagent(payload: Payload, access: Access) -> str:
    """Start the session of a subagent, if it has not been started."""
    parent = State(payload.session).record()
    if payload.subagent is None or parent is None:
        return ""
    state = State(payload.dibs_session)
    record = parent.replace(session=payload.dibs_session, parent=payload.session, transcript="", earlier=())
    state.make(record)
    _begin_now(access, state, record, {"type": payload.raw.get("agent_type") or ""})
    state.touch(ACTIVE)
    State(payload.session).touch(CHILD + record.session)
    keeper_process.ensure(state, record)
    return ""


def end_subagent(payload: Payload, access: Access) -> str:
    """End the session of a subagent, which releases its claims. A compaction also ends a subagent, which never
    started."""
    state, parent = State(payload.dibs_session), State(payload.session)
    if payload.subagent is None or not state.exists():
        return ""
    try:
        is_ended = access.board is not None and finish(access.board, payload.dibs_session, "the subagent stopped")
    except DibsError:
        is_ended = False
    if not is_ended:
        parent.touch(ENDED + payload.dibs_session)
        keeper_process.ensure(parent)
    state.remove()
    parent.discard(CHILD + payload.dibs_session)
    return ""


def end(payload: Payload, access: Access) -> str:
    """End the session, which releases its claims, unless it goes on elsewhere: resumed later, or open in another
    process."""
    state = State(payload.session)
    record, owner = state.record(), process.find(payload.client, os.environ)
    if payload.reason == RESUME or record is None or (owner != record.owner and owner not in record.earlier):
        return ""
    if others := states.living(one for one in record.owners if one != owner):
        record = give_back(state, record, others)
        keeper_process.ensure(state, record)
        if state.has(BEGIN):
            _begin_now(access, state, record, state.load(META))
        return ""
    reason = f"{payload.client}: {payload.reason or 'ended'}"[:100]
    try:
        board = access.board
        if board is not None:
            known = _find(board, payload.session)
            if known is not None and known.owner == record.owner:
                finish(board, payload.session, reason)
            remove(state)
            return ""
    except DibsError:
        pass  # the keeper tries again
    state.write(END, reason)
    keeper_process.ensure(state, record)
    return ""


def give_back(state: State, record: Record, owners: tuple[Owner, ...]) -> Record:
    """The session goes on in these processes, the latest first; the board has yet to be told."""
    given = record.replace(owner=owners[0], earlier=owners[1:])
    state.save(given)
    if given.owner != record.owner:
        state.touch(BEGIN)
    return given


def begin(board: Board, record: Record, meta: dict[str, object]) -> str:
    """Start the session on the board, or start it again; return its agent. A session stays its agent's for ever, so one
    that is resumed under another name keeps its own."""
    given: dict[str, Any] = {"parent": record.parent} if record.parent else {}
    try:
        return board.start_session(
            record.agent, id=record.session, kind=AGENT, owner=record.owner, meta=meta, **given
        ).agent
    except Invalid as refusal:
        agent = refusal.facts.get("agent")
        if refusal.facts.get("field") != "agent" or not agent or agent == record.agent:
            raise
    return begin(board, record.replace(agent=agent), meta)


def _begin_now(access: Access, state: State, record: Record, meta: dict[str, object]) -> bool:
    """Whether the session was started on the board now. If a hook must not open the board, if the board is busy, or if
    the parent has not been started there yet, the keeper starts it."""
    try:
        if access.board is not None:
            agent = begin(access.board, record, {"client": record.client, **meta})
            if agent != record.agent:
                state.save(record.replace(agent=agent))
            state.discard(BEGIN)
            return True
    except StoreUnusable:
        raise
    except (StoreUnavailable, SessionNotFound):
        pass
    state.touch(BEGIN)
    return False


def finish(board: Board, session: str, reason: str) -> bool:
    """End a session on the board; it may have ended."""
    try:
        board.end_session(session, reason=reason)
    except SessionNotFound:
        pass
    return True


def remove(state: State) -> None:
    """Remove the folder of a session and those of its subagents."""
    for child in state.names(CHILD):
        State(child).remove()
    state.remove()


def _outer_sessions(payload: Payload) -> tuple[str, ...]:
    """The other sessions that the environment of the agent names."""
    found = {os.environ.get(name, "") for name in (config.ENV_SESSION, *config.CLIENT_SESSIONS)}
    return tuple(sorted(found - {"", payload.session}))


def _agent_name(payload: Payload) -> str:
    named = os.environ.get(config.ENV_AGENT)
    outer = (State(session).record() for session in _outer_sessions(payload) if "/" not in session)
    try:
        if not any(record is not None and record.agent == named for record in outer):
            return check.agent_name(named)
    except Invalid:
        pass  # none was given, or one that a board would refuse
    id = payload.session
    return (id[-AGENT_LENGTH:].lstrip("._-") if payload.client == CODEX else "") or id[:AGENT_LENGTH]


def _find(board: Board, session: str) -> Session | None:
    try:
        return board.find_session(session)
    except SessionNotFound:
        return None


def _write_environment(record: Record) -> None:
    """Tell the agent's shell who it is. The file of a session that was resumed or forked may name another session, so
    it is replaced. A client that runs in the shell of Claude Code may have inherited the variable."""
    path = os.environ.get(ENV_FILE)
    if path and record.client == CLAUDE:
        import shlex

        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"export {config.ENV_SESSION}={shlex.quote(record.session)}\n")
                file.write(f"export {config.ENV_AGENT}={shlex.quote(record.agent)}\n")
        except OSError:
            pass  # commands find the session by the client's own variable


def _context(board: Board | None, state: State, record: Record) -> str:
    """What the model reads when its session starts: what it holds, what waits for it, how to take work. What does not
    fit is counted, and what does not fit then is left out."""
    who = f"session {record.session}, agent {record.agent}"
    text = f"dibs: this folder has a shared board of work items. You are {who}."
    for before, items, after in (*_elsewhere(record), *(() if board is None else _facts(board, state))):
        for listed in _listings(items):
            longer = f"{text} {before}{listed}{after}"
            if len(longer) + len(HOW_TO) < CONTEXT_LENGTH_MAX:
                text = longer
                break
    return f"{text} {HOW_TO}"


def _elsewhere(record: Record) -> Iterator[tuple[str, list[str], str]]:
    if record.earlier:
        pids = ", ".join(str(one.pid) for one in record.earlier)
        yield f"This session is also open in another process (pid {pids}), which shares its claims.", [], ""


def _facts(board: Board, state: State) -> list[tuple[str, list[str], str]]:
    """Sentences, each in two parts, and the items that are named between them."""
    held = look.losses_and_held(board, state, recovers=True)
    losses = state.losses()
    state.answer(losses)
    ready = board.list(statuses=[READY], limit=READY_MAX)
    count = f"{READY_MAX} or more items are" if len(ready) == READY_MAX else f"{len(ready)} items are"
    facts = [
        ("You have lost ", [loss.item for loss in losses], ": do not work on that."),
        ("You hold ", [item for item, _ in held], "."),
        ("Offered to you, claim it soon: ", [item.id for item in ready if item.offered_to == state.session], "."),
    ]
    waiting = "1 item is ready." if len(ready) == 1 else f"{count} ready." if ready else "No item is ready."
    return [*(fact for fact in facts if fact[1]), (waiting, [], "")]


def _listings(items: list[str]) -> Iterator[str]:
    """Ways to name the items, the shortest last."""
    for named in range(min(len(items), NAMED_MAX), 0, -1):
        more = f" and {len(items) - named} more" if named < len(items) else ""
        yield ", ".join(items[:named]) + more
    yield f"{len(items)} items" if items else ""
