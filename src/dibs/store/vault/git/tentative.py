"""Claims by a move in a clone: tentative until the hub has them, and void where the hub has another's.

Whoever moves a file claims its item at once, also while the remote is away. The claim gets the next token that this
clone knows of, and a session named after this clone. If another clone's claim is accepted under that token first, the
hub's record counts whatever its number is: the runs of this clone from that token on are void, and the item goes on
from the hub's.
"""

from __future__ import annotations

from dibs.errors import ItemAlreadyClaimed
from dibs.model import PERSON, SoftClaim
from dibs.rules import claiming, ending, items
from dibs.store.sql import rows
from dibs.store.vault.layout import is_by_move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Claim, Run
    from dibs.rules.decision import State
    from dibs.store.vault.taskfile.task_text import Task
    from dibs.store.vault.transaction import VaultTransaction


def is_contradicted(t: VaultTransaction, task: Task, state: State) -> bool:
    """Whether a file tells of a run under a token that this index gave to another, or knows only the number of."""
    return _first_contradicted(t, task, state) is not None


def give_way(t: VaultTransaction, task: Task, actor: str) -> None:
    """Make void what this clone gave by itself from the first token on that the hub's record gives to another."""
    state = t.state(task.id)
    first = _first_contradicted(t, task, state)
    assert first is not None
    holder = _holder(task, first)
    runs = [rows.run(row) for row in t.files("runs_from", item=task.id, token=first)]
    if state.claim is not None:
        reason = f"the hub has the claim of {holder} under token {first}, which was accepted first"
        t.apply_with_effects(state, ending.force_release(t.now, state, actor=actor, reason=reason, token=None))
        state = t.state(task.id)
    t.files("forget_runs_from", item=task.id, token=first)
    attempts = max(0, state.item.attempts - len(runs))
    step = items.found(t.now, state, status=state.item.status, actor=actor, attempts=attempts, void_from=first)
    assert step is not None
    t.apply_with_effects(state, step)
    if runs and _is_at_work(runs[-1]):
        _remember_as_lost(t, state, runs[-1], holder)
    t.stale.add(task.id)


def _first_contradicted(t: VaultTransaction, task: Task, state: State) -> int | None:
    told: dict[int, str] = {run.token: run.session for run in task.runs}
    live = None if task.facts is None else task.facts.claim
    if live is not None:
        told[live.token] = live.session
    for token in sorted(told):
        if token > state.item.token:
            break
        known = t.run_of(task.id, token)
        if known.session != told[token] if known is not None else live is not None and live.token == token:
            return token
    return None


def _holder(task: Task, token: int) -> str:
    claim = None if task.facts is None else task.facts.claim
    held: Iterable[Run | Claim] = (*task.runs, *([] if claim is None else [claim]))
    return next(one.agent for one in held if one.token == token)


def _is_at_work(run: Run) -> bool:
    """Whether it was void before its agent knew: not one whose file had been moved back."""
    return is_by_move(run.session) and run.outcome in (None, "done", "submitted", "rejected", "failed")


def _remember_as_lost(t: VaultTransaction, state: State, run: Run, holder: str) -> None:
    """A refusal that nobody could be given, counted as one; and shown for as long as the claim would have lasted."""
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
