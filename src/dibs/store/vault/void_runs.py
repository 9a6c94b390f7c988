"""Runs of this clone whose tokens the remote gave to other sessions: they are void.

In a clone, a claim by a move is tentative until the remote has it. Moving a file claims its item at once, even while
the remote is unreachable. The claim gets the next token that this clone knows, and a session named after this clone. If
another clone's claim under that token is accepted first, the remote's record counts: the runs of this clone from that
token on are void, and the item continues from the remote's.
"""

from __future__ import annotations

from dibs.errors import ItemAlreadyClaimed
from dibs.model import PERSON, SoftClaim
from dibs.rules import claiming, ending, items
from dibs.store.sql import figures, rows
from dibs.store.vault.layout import is_by_move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Claim, Run
    from dibs.rules.decision import State
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.taskfile.task_text import Task


def is_contradicted(t: VaultTransaction, task: Task, state: State) -> bool:
    """Whether a file shows a run under a token that this index gave to another session, or has no run for."""
    return _first_contradicted(t, task, state) is not None


def void_local_runs(t: VaultTransaction, task: Task, actor: str) -> None:
    """Void the runs of this clone, from the first token on that the remote's record gives to another session."""
    state = t.state(task.id)
    first = _first_contradicted(t, task, state)
    assert first is not None
    holder = _holder(task, first)
    runs = [rows.run(row) for row in t.query("runs_from", item=task.id, token=first)]
    if state.claim is not None:
        reason = f"the remote accepted the claim of {holder} under token {first} first"
        t.apply_with_effects(state, ending.force_release(t.now, state, actor=actor, reason=reason, token=None))
        state = t.state(task.id)
    figures.reset(t)
    t.query("forget_runs_from", item=task.id, token=first)
    attempts = max(0, state.item.attempts - len(runs))
    step = items.found(t.now, state, status=state.item.status, actor=actor, attempts=attempts, void_from=first)
    assert step is not None
    t.apply_with_effects(state, step)
    if runs and _is_at_work(runs[-1]):
        _remember_as_lost(t, state, runs[-1], holder)
    t.stale.add(task.id)


def sessions_of(task: Task) -> dict[int, str]:
    """The session of each run and of the live claim, by token."""
    claim = None if task.facts is None else task.facts.claim
    return {run.token: run.session for run in task.runs} | ({} if claim is None else {claim.token: claim.session})


def _first_contradicted(t: VaultTransaction, task: Task, state: State) -> int | None:
    sessions = sessions_of(task)
    live = None if task.facts is None else task.facts.claim
    for token in sorted(sessions):
        if token > state.item.token:
            break
        known = t.run_of(task.id, token)
        if known.session != sessions[token] if known is not None else live is not None and live.token == token:
            return token
    return None


def _holder(task: Task, token: int) -> str:
    claim = None if task.facts is None else task.facts.claim
    held: Iterable[Run | Claim] = (*task.runs, *([] if claim is None else [claim]))
    return next(one.agent for one in held if one.token == token)


def _is_at_work(run: Run) -> bool:
    """Whether the agent may still work under the void claim: not if the file was moved back."""
    return is_by_move(run.session) and run.outcome in (None, "done", "submitted", "rejected", "failed")


def _remember_as_lost(t: VaultTransaction, state: State, run: Run, holder: str) -> None:
    """Record the void claim as a refused one, because no caller got a refusal, and show it as lost for as long as it
    would have lasted."""
    session = rows.session(t.one("session_by_id", id=run.session) or ())
    seconds = claiming.ttl(PERSON, None, t.settings)
    lost = SoftClaim(
        item=run.item,
        session=run.session,
        agent=run.agent,
        claimed_at=run.started_at,
        expires_at=t.now + claiming.milliseconds(seconds),
        ttl_seconds=seconds,
    )
    t.run("put_soft_claim", rows.encode(lost))
    refusal = ItemAlreadyClaimed(f"{run.item} is claimed by {holder}", item=run.item, holder={"agent": holder})
    t.run("insert_activity", rows.encode(claiming.refused(t.now, state.item, session, refusal)))
    t.run("count_conflict", {})
