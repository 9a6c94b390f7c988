"""Subjects that ended, or whose item a rule ends, without an item; kept on the board.

An item remembers the version that it was made from. If a subject has none, such as an issue whose `closed` overtook its
`opened`, a delivery of before would make one for work that is over. So the end is noted first, in the meta of a session
of the repository. A heartbeat merges it name by name, so that several processes note ends at once and lose none. Only
deliveries are noted: what is read from the API is in order, and the next read mends what an old one did.
`converge` looks at the notes before and after it adds an item, and for an item after it noted an end: of two processes
that do so at the same time, at least one sees what the other did.
"""

from __future__ import annotations

from dibs.errors import SessionNotFound
from dibs.github.payload import CLOSED, STATES, WORK_STATES, WORKFLOW_RUN, Fact, digest, session_id
from dibs.rules.sessions import ENDS_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

AGENT = "github"
#: The most notes of a repository about issues and pull requests, and about builds. The oldest make room.
NOTES_MAX = 100
#: How often a session that somebody ends meanwhile is started again.
ATTEMPTS_MAX = 3


def newest(board: Board, fact: Fact) -> Fact:
    """The fact, or the end of its subject if a later one is noted."""
    state, _, version = _notes(board, fact).get(_name(fact), "").partition(" ")
    is_end = state in STATES and state not in WORK_STATES
    return fact.replace(state=state, version=version) if is_end and version > fact.version else fact


def note(board: Board, fact: Fact) -> None:
    """Note that the subject is over; or, while it is open, that a rule ends its item."""
    name, known = _name(fact), _notes(board, fact)
    state = CLOSED if fact.is_work else fact.state
    if known.get(name, "").partition(" ")[2] >= fact.version:
        return
    same_kind = [one for one in known if one[0] == name[0] and one != name]
    room = dict.fromkeys(same_kind[: max(0, len(same_kind) + 1 - NOTES_MAX)])
    for _ in range(ATTEMPTS_MAX):
        try:
            board.start_session(AGENT, id=_session(fact), kind="autonomous", meta=_kept(board, fact))
            board.heartbeat(session=_session(fact), meta={**room, name: f"{state} {fact.version}"})
            return
        except SessionNotFound:
            continue


def _session(fact: Fact) -> str:
    return session_id(ENDS_PREFIX, fact.repository)


def _name(fact: Fact) -> str:
    return f"run:{digest(fact.subject)}" if fact.event == WORKFLOW_RUN else f"#{fact.number}"


def _notes(board: Board, fact: Fact) -> dict[str, str]:
    try:
        meta = board.find_session(_session(fact)).meta
    except SessionNotFound:
        return {}
    return {name: value for name, value in meta.items() if isinstance(value, str)}


def _kept(board: Board, fact: Fact) -> dict[str, str] | None:
    """What a session that was ended had; a live one keeps its meta."""
    try:
        found = board.find_session(_session(fact))
    except SessionNotFound:
        return None
    return None if found.ended_at is None else found.meta
