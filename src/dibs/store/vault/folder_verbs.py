"""The verbs that bring an item to the folder in which its file was found.

The folder alone shows what the person or program that moved the file did. Facts and runs in the text were written by a
dibs process, of this clone or another.

In a clone, a claim by a move is tentative until the remote has it: see `void_runs`.
"""

from __future__ import annotations

from dibs.errors import ResourceBusy
from dibs.model import (
    BLOCKED,
    DONE,
    ENDED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    PERSON,
    READY,
    SCHEDULED,
    Agent,
    Run,
    Session,
)
from dibs.rules import claiming, ending, items, reviewing
from dibs.rules.resources import with_more
from dibs.store.sql import rows
from dibs.store.vault import layout
from dibs.store.vault.index import ELSEWHERE, NEVER
from dibs.store.vault.layout import MOVED, is_by_move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from dibs.model import Claim
    from dibs.rules.decision import State, Step
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.taskfile.task_text import Review, Task

#: The actor of the events that a change to a file causes.
ACTOR = "vault"
#: Among these statuses the board decides, not the folder.
FREE = frozenset({READY, BLOCKED, SCHEDULED})


class FolderVerbs:
    """`agent` is the one whose folder holds the file, or who claimed it and moved it on between two looks. `claim` is
    the claim in the file, if the file is in the folder of its agent. `records` finds what the remote has of the task,
    and `tokens_sent` is that of `Sync`."""

    def __init__(
        self,
        t: VaultTransaction,
        task: Task,
        folder: str,
        agent: str | None,
        claim: Claim | None,
        tokens_sent: Callable[[], dict[str, int]],
        records: Callable[[], Iterable[Task]],
    ) -> None:
        self.t, self.task, self.folder, self.agent, self._claim = t, task, folder, agent, claim
        self._tokens_sent, self._records = tokens_sent, records

    def run(self) -> list[str]:
        """Return why something that the file shows is refused."""
        refused = self._import_reservation()
        state = self._state()
        if self.folder == layout.HELD:
            if self._is_spent(state):
                # The claim ended while the file could not be written; the file is written now.
                self._act(("unpark",) if state.item.status == PARKED else ())
            elif not self._is_claimed_as_shown(state):
                self._act(("force_release", "claim") if state.claim is not None else self._verbs(state) or ("claim",))
            return refused
        if layout.FOLDERS[state.item.status] != self.folder:
            self._act(self._verbs(state))
        self._apply_found()
        return refused

    def _import_reservation(self) -> list[str]:
        """Add the resources that the item's holder added in another clone, or just before a crash. An accepted push
        decides between clones; otherwise what another session holds is refused as for the verb, and written back."""
        t, state, facts, shown = self.t, self._state(), self.task.facts, self._claim
        if facts is None or shown is None or state.claim is None or state.item.approved:
            return []
        resources = with_more(state.item.resources, facts.reserved)
        is_same = (shown.token, shown.session) == (state.claim.token, state.claim.session)
        if not is_same or resources == state.item.resources:
            return []
        is_accepted = any(one.facts is not None and one.facts.reserved == facts.reserved for one in self._records())
        holds = () if is_accepted else t.holds(state.item.project)
        try:
            step = items.edit(
                t.now, state, {"resources": resources}, actor=shown.agent, holder=state.claim, holds=holds
            )
        except ResourceBusy as error:
            t.stale.add(self.task.id)
            return [error.message]
        assert step is not None, "there are more resources"
        t.apply(step)
        return []

    def _verbs(self, state: State) -> tuple[str, ...]:
        row = layout.MOVES.get(state.item.status, {})
        if self.folder in layout.ENDS and self.agent is not None and row.get(layout.HELD) == ("claim",):
            return ("claim", *layout.MOVES[IN_PROGRESS][self.folder])
        return row.get(self.folder, ())

    def _act(self, verbs: tuple[str, ...]) -> None:
        for verb in verbs:
            step = getattr(self, verb)(self._state())
            if step is not None:
                self.t.apply_with_effects(self._state(), step)

    def _is_spent(self, state: State) -> bool:
        """Whether the file shows a claim that the board has ended."""
        return state.claim is None and self._claim is not None and self._claim.token <= state.item.token

    def _is_claimed_as_shown(self, state: State) -> bool:
        """Whether the item is claimed already as its file shows. A program that knows only the folders writes no
        claim."""
        held = state.claim
        if held is None or held.agent != self.agent:
            return False
        return self._claim is None or self._claim.token <= held.token

    def _apply_found(self) -> None:
        """Apply the rest of the file's state after the verbs: the status of its folder, and its tokens as spent."""
        state, facts = self._state(), self.task.facts
        if state.claim is not None:
            return  # the board decided otherwise: a failed item is retried, for instance
        facts_now = self._newer_facts(state) | self._from_floor(state)
        if self.folder == layout.APPROVED:
            status = READY
            facts_now.update(approved=True, needs_approval=False)
        else:
            status = layout.STATUSES[self.folder]
        if state.item.status in FREE and status in FREE:
            status = state.item.status
        elif facts is not None and facts.needs_approval and status == READY:
            status = PENDING_APPROVAL
        step = items.found(self.t.now, state, status=status, actor=ACTOR, **facts_now)
        if step is not None:
            self.t.apply_with_effects(state, step)

    def _newer_facts(self, state: State) -> dict[str, Any]:
        """The facts in the file that the index does not have yet."""
        facts, item = self.task.facts, state.item
        if facts is None or facts.token < item.token:
            return {}
        if facts.token == item.token and facts.attempts <= item.attempts:
            return {}
        named = ("token", "attempts", "strikes", "failures", "approved")
        return {name: getattr(facts, name) for name in named}

    def _from_floor(self, state: State) -> dict[str, int]:
        """An ended item that is reopened continues from the board's token floor, like a new one: a restored backup may
        not know the tokens that were given since."""
        goes_on = self.folder == layout.HELD or layout.STATUSES.get(self.folder, READY) not in ENDED
        if state.item.status not in ENDED or not goes_on:
            return {}
        return {"token": max(self.t.token_floor(), self._highest_token(state))}

    def _highest_token(self, state: State) -> int:
        facts = self.task.facts
        return state.item.token if facts is None else max(state.item.token, facts.token)

    def _state(self) -> State:
        return self.t.state(self.task.id)

    def _run(self, state: State) -> Run | None:
        """The end of the current run, as the file shows it."""
        token = None if state.claim is None else state.claim.token
        return next((run for run in self.task.runs if run.token == token and run.outcome is not None), None)

    # The verbs of `layout.MOVES`

    def force_release(self, state: State) -> Step:
        run = self._run(state)
        if run is not None and run.outcome == "released" and state.claim is not None:
            return ending.release(self.t.now, state, state.claim, reason=run.reason)
        reason = MOVED if run is None else run.reason or f"{run.outcome} elsewhere"
        return ending.force_release(self.t.now, state, actor=ACTOR, reason=reason, token=None)

    def claim(self, state: State) -> Step:
        """Claim for the session in the file, under its token; or for the session that stands for the agent's folder."""
        t = self.t
        named = self._claim if self._claim is not None and self._claim.token > state.item.token else None
        facts_now = self._newer_facts(state) | self._from_floor(state)
        if named is not None:
            facts_now["token"] = named.token - 1
        elif t.clone_name is not None:
            facts_now["token"] = max(facts_now.get("token", 0), self._tokens_sent().get(self.task.name, 0))
        if facts_now.get("attempts"):
            facts_now["attempts"] -= 1  # the claim itself counts for one
        # Parked first, because a parked item can be claimed whatever it waits for: its file was taken already.
        here = state.item.status if state.item.status in (READY, PARKED) else PARKED
        step = items.found(t.now, state, status=here, actor=ACTOR, **facts_now)
        if step is not None:
            t.apply(step)
            state = self._state()
        session = self._session(named)
        t.run("drop_soft_claim", {"item": state.item.id, "session": session.id})
        ttl = claiming.ttl(session.kind, None, t.settings) if named is None else named.ttl_seconds
        step = claiming.grant(t.now, state, session, ttl)
        if named is not None:
            step = _claimed_since(min(named.claimed_at, t.now), step)
        if ELSEWHERE in session.meta and step.claim is not None:
            return step.replace(claim=step.claim.replace(expires_at=NEVER, deadline_at=NEVER))
        return step

    def _session(self, claim: Claim | None) -> Session:
        """The session of a claim. One session stands for all claims by moves into an agent's folder."""
        t, agent = self.t, self.agent
        assert agent is not None, "a held file is in an agent's folder"
        by_move = layout.session_by_move(agent, t.clone_name)
        id = by_move if claim is None else claim.session
        row = t.one("session_by_id", id=id)
        known = None if row is None else rows.session(row)
        if known is not None and known.ended_at is None and known.agent == agent:
            return known
        if claim is not None and known is not None:
            return self._session(None)
        t.run("create_agent", rows.encode(Agent(name=agent, created_at=t.now, updated_at=t.now)))
        kind = PERSON if is_by_move(id) else "cli"
        meta = {ELSEWHERE: True} if t.clone_name is not None and id != by_move else {}
        session = Session(id=id, agent=agent, kind=kind, meta=meta, started_at=t.now, seen_at=t.now)
        t.run("put_session", rows.encode_session(session))
        return session

    def done(self, state: State) -> Step:
        assert state.claim is not None
        run = self._run(state) or Run(item="", token=0, session="", agent="", started_at=0, reason=MOVED)
        return ending.done(self.t.now, state, state.claim, note=run.reason, links=run.links, cost=run.cost)

    def submit(self, state: State) -> Step:
        assert state.claim is not None
        run = self._run(state)
        draft = "" if run is None else run.draft or ""
        if state.item.review and not draft:
            return self.done(state)
        note = MOVED if run is None else run.reason
        return ending.submit(self.t.now, state, state.claim, draft=draft, note=note, links={}, cost={})

    def reject(self, state: State) -> Step:
        if state.claim is None:
            return reviewing.reject(self.t.now, state, actor=ACTOR, reason=MOVED)
        return ending.reject(self.t.now, state, state.claim, reason=self._reason(state))

    def fail(self, state: State) -> Step:
        """Fail the item without a retry: its file is in the folder of failed items."""
        assert state.claim is not None
        return ending.fail(
            self.t.now,
            state,
            state.claim,
            reason=self._reason(state),
            links={},
            cost={},
            settings=self.t.settings,
            uniform=0,
            is_final=True,
        )

    def cancel(self, state: State) -> Step:
        return ending.cancel(self.t.now, state, actor=ACTOR, reason=MOVED)

    def approve(self, state: State) -> Step:
        facts = self.task.facts
        approval = None if facts is None or not facts.approved else facts.approval
        actor, comment = (ACTOR, MOVED) if approval is None else (approval["actor"], approval["comment"])
        done = self.folder == layout.FOLDERS[DONE]
        draft = self.t.draft(self.task.id)
        return reviewing.approve(self.t.now, state, draft, actor=actor, comment=comment, done=done)

    def send_back(self, state: State) -> Step:
        facts = self.task.facts
        if facts is not None and facts.approved:
            return self.approve(state)
        review = self.task.sent_back(state.item.token)
        if review is not None:
            return send_back(review, self.t.now, state)
        return reviewing.send_back(self.t.now, state, actor=ACTOR, comment=MOVED)

    def park(self, state: State) -> Step:
        return items.park(self.t.now, state, actor=ACTOR, reason=MOVED)

    def unpark(self, state: State) -> Step:
        return items.unpark(self.t.now, state, actor=ACTOR, reason=MOVED)

    def retry(self, state: State) -> Step:
        return items.retry(self.t.now, state, actor=ACTOR, reason=MOVED)

    def reopen(self, state: State) -> Step:
        """Not refused because of what depends on the item: the file is there already, perhaps because the remote
        accepted it. Dependents that are held or have ended stay as they are."""
        facts = self.task.facts
        return items.reopen(
            self.t.now,
            state,
            actor=ACTOR,
            reason=MOVED,
            token_floor=self.t.token_floor(),
            keeps_approval=facts is not None and facts.approved,
        )

    def _reason(self, state: State) -> str:
        run = self._run(state)
        return MOVED if run is None else run.reason or MOVED


def send_back(review: Review, now: int, state: State) -> Step:
    """Repeat a review that was made in another clone, or before the index was rebuilt."""
    return reviewing.send_back(now, state, actor=review.actor, comment=review.comment or "")


def _claimed_since(at: int, claimed: Step) -> Step:
    """A claim that was made at `at` and is found now. It expires from now on, by this machine's clock."""
    assert claimed.claim is not None
    assert claimed.run is not None
    return claimed.replace(
        claim=claimed.claim.replace(claimed_at=at),
        run=claimed.run.replace(started_at=at),
        event=claimed.event.replace(at=at),
        item=claimed.item.replace(updated_at=at),
    )
