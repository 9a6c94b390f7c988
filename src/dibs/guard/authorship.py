"""Which runs a commit belongs to, and whose reserved files it touches.

A session that holds one item commits for that item. Of several, the items whose resources cover the files of the
commit decide; if none does, it commits for all that the session holds: a fence errs on the side of safety. Claims that
the session lost count too, as long as it holds nothing else: it may not have noticed. The claims of child sessions
count, because the shell of a subagent may know only the session of its parent.
"""

from __future__ import annotations

from dibs.guard.trailers import Trailer
from dibs.rules.lost_runs import REVOKED, UNCHOSEN
from dibs.rules.resources import covering
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.board import Board
    from dibs.model import Holding, Run

#: How many of its latest runs tell what a session works on.
RUNS_MAX = 20
LOST = REVOKED | UNCHOSEN


class Candidate(Value):
    """A run that the commit may belong to: live or lost, of the session itself or of a child."""

    run: Trailer
    is_live: bool
    is_own: bool
    resources: tuple[str, ...] = ()


class Reserved(Value):
    """A file of the commit that the claim of another session reserves."""

    path: str
    item: str
    agent: str
    session: str


def runs_of_commit(board: Board, session: str, files: Sequence[str]) -> tuple[Trailer, ...]:
    holdings = board.who()
    own = _latest(board.runs(session=session, limit=RUNS_MAX))
    found = [_live(holding, session) for holding in holdings if _is_of(holding, session)]
    lost = [run for run in own if run.outcome in LOST]
    if not found:
        # The latest run alone: an earlier loss is old news to a session that has worked on other items since.
        return tuple(Trailer(item=run.item, token=run.token) for run in own[:1] if run in lost)
    found += [_lost(board, run) for run in lost]
    if len(found) > 1:
        covered = [one for one in found if any(covering(file, one.resources) for file in files)]
        found = covered or [one for one in found if one.is_live]
        found = found if covered or len(found) == 1 else [one for one in found if one.is_own]
    return tuple(one.run for one in found)


def reserved_files(board: Board, session: str | None, files: Sequence[str]) -> list[Reserved]:
    """The files that live claims of other sessions reserve: in the projects of what the session holds, or if it holds
    nothing in any project."""
    holdings = board.who()
    mine = [one for one in holdings if session is not None and _is_of(one, session)]
    parents = {one.parent for one in mine}
    projects = {one.item.project for one in mine}
    return [
        Reserved(path=path, item=one.item.id, agent=one.claim.agent, session=one.claim.session)
        for one in holdings
        if one.claim is not None
        and one not in mine
        and one.claim.session not in parents
        and (not projects or one.item.project in projects)
        for path in files
        if covering(path, one.item.resources)
    ]


def _is_of(holding: Holding, session: str) -> bool:
    return holding.claim is not None and session in (holding.claim.session, holding.parent)


def _live(holding: Holding, session: str) -> Candidate:
    claim = holding.claim
    assert claim is not None, "soft claims were left out"
    run = Trailer(item=claim.item, token=claim.token)
    return Candidate(run=run, is_live=True, is_own=claim.session == session, resources=holding.item.resources)


def _lost(board: Board, run: Run) -> Candidate:
    resources = board.get(run.item).item.resources
    return Candidate(run=Trailer(item=run.item, token=run.token), is_live=False, is_own=True, resources=resources)


def _latest(runs: Sequence[Run]) -> list[Run]:
    """The latest run of each item, newest first."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.item, run)
    return list(found.values())
