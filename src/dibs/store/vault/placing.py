"""One item whose file lies somewhere: the verbs by which the item comes there.

Whoever moved it (a person, a program that knows only the folders, a dibs elsewhere or one that was killed) says so by
the place alone; what the text says besides, a dibs wrote.
"""

from __future__ import annotations

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
from dibs.rules import approving, claiming, ending, finding, items
from dibs.store.tables import rows
from dibs.store.vault import folders
from dibs.store.vault.beats import ELSEWHERE, NEVER
from dibs.store.vault.folders import MOVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Claim
    from dibs.rules.decision import State, Step
    from dibs.store.vault.taskfile import Task, Word
    from dibs.store.vault.transaction import VaultTransaction

#: Who is held to have done what was done to a file.
ACTOR = "vault"
#: Among these, the board says where an item rests.
FREE = frozenset({READY, BLOCKED, SCHEDULED})


class Placing:
    """`agent` is the one in whose folder the file lies, or who has taken it and moved it on unseen. `claim` is the one
    that the file tells of, if it is good: it lies in the folder of that claim's agent. `tokens_sent`: see
    `Sync.tokens_sent`."""

    def __init__(
        self,
        t: VaultTransaction,
        task: Task,
        folder: str,
        agent: str | None,
        claim: Claim | None,
        tokens_sent: Callable[[], dict[str, int]],
    ) -> None:
        self.t, self.task, self.folder, self.agent, self._claim = t, task, folder, agent, claim
        self._tokens_sent = tokens_sent

    def place(self) -> None:
        state = self._state()
        if self.folder == folders.HELD:
            if self._is_spent(state):
                # Its claim ended while its file could not be written: it is to follow now.
                self._act(("unpark",) if state.item.status == PARKED else ())
            elif not self._is_held_so(state):
                self._act(("force_release", "claim") if state.claim is not None else self._verbs(state) or ("claim",))
            return
        if folders.FOLDERS[state.item.status] != self.folder:
            self._act(self._verbs(state))
        self._find()

    def _verbs(self, state: State) -> tuple[str, ...]:
        row = folders.MOVES.get(state.item.status, {})
        if self.folder in folders.ENDS and self.agent is not None and row.get(folders.HELD) == ("claim",):
            return ("claim", *folders.MOVES[IN_PROGRESS][self.folder])
        return row.get(self.folder, ())

    def _act(self, verbs: tuple[str, ...]) -> None:
        for verb in verbs:
            step = getattr(self, verb)(self._state())
            if step is not None:
                self.t.carry_out(self._state(), step)

    def _is_spent(self, state: State) -> bool:
        """Whether the file tells of a claim that the board has ended."""
        return state.claim is None and self._claim is not None and self._claim.token <= state.item.token

    def _is_held_so(self, state: State) -> bool:
        """Whether the item is claimed already as its file says. A program that knows only the folders says nothing."""
        held = state.claim
        if held is None or held.agent != self.agent:
            return False
        return self._claim is None or self._claim.token <= held.token

    def _find(self) -> None:
        """Whatever the verbs did not say: the folder counts, and a token that was seen is spent."""
        state, facts = self._state(), self.task.facts
        if state.claim is not None:
            return  # it failed, is to be tried again, and so on: the board has an answer of its own
        told = self._told(state) | self._from_floor(state)
        if self.folder == folders.APPROVED:
            status = READY
            told.update(approved=True, needs_approval=False)
        else:
            status = folders.STATUSES[self.folder]
        if state.item.status in FREE and status in FREE:
            status = state.item.status
        elif facts is not None and facts.needs_approval and status == READY:
            status = PENDING_APPROVAL
        step = finding.found(self.t.now, state, status=status, actor=ACTOR, **told)
        if step is not None:
            self.t.carry_out(state, step)

    def _told(self, state: State) -> dict[str, Any]:
        """What a dibs wrote into the file that the index does not have yet."""
        facts, item = self.task.facts, state.item
        if facts is None or facts.token < item.token:
            return {}
        if facts.token == item.token and facts.attempts <= item.attempts:
            return {}
        named = ("token", "attempts", "strikes", "failures", "approved")
        return {name: getattr(facts, name) for name in named}

    def _from_floor(self, state: State) -> dict[str, int]:
        """An item that was over goes on from the board's floor, as if it were new: a backup may have forgotten what it
        was given since."""
        goes_on = self.folder == folders.HELD or folders.STATUSES.get(self.folder, READY) not in ENDED
        return {"token": max(self.t.floor(), self._spent(state))} if state.item.status in ENDED and goes_on else {}

    def _spent(self, state: State) -> int:
        facts = self.task.facts
        return state.item.token if facts is None else max(state.item.token, facts.token)

    def _state(self) -> State:
        return self.t.state(self.task.id)

    def _run(self, state: State) -> Run | None:
        """How the file says that the run ended which is going on."""
        token = None if state.claim is None else state.claim.token
        return next((run for run in self.task.runs if run.token == token and run.outcome is not None), None)

    # The verbs, as somebody says them who moves a file.

    def force_release(self, state: State) -> Step:
        run = self._run(state)
        if run is not None and run.outcome == "released" and state.claim is not None:
            return ending.release(self.t.now, state, state.claim, reason=run.reason)
        reason = MOVED if run is None else run.reason or f"{run.outcome} elsewhere"
        return ending.force_release(self.t.now, state, actor=ACTOR, reason=reason, token=None)

    def claim(self, state: State) -> Step:
        """By the session that the file names, under its token; or by whoever looks after that agent's folder."""
        t = self.t
        named = self._claim if self._claim is not None and self._claim.token > state.item.token else None
        told = self._told(state) | self._from_floor(state)
        if named is not None:
            told["token"] = named.token - 1
        elif t.clone is not None:
            told["token"] = max(told.get("token", 0), self._tokens_sent().get(self.task.name, 0))
        if told.get("attempts"):
            told["attempts"] -= 1  # the claim itself counts for one
        # Set aside for a moment: so it can be taken whatever it waits for. It has been taken already.
        here = state.item.status if state.item.status in (READY, PARKED) else PARKED
        step = finding.found(t.now, state, status=here, actor=ACTOR, **told)
        if step is not None:
            t.take(step)
            state = self._state()
        session = self._session(named)
        t.run("drop_soft_claim", {"item": state.item.id, "session": session.id})
        ttl = claiming.ttl(session.kind, None, t.settings) if named is None else named.ttl_seconds
        step = claiming.grant(t.now, state, session, ttl)
        if named is not None:
            step = _since(min(named.claimed_at, t.now), step)
        if ELSEWHERE in session.meta and step.claim is not None:
            return step.replace(claim=step.claim.replace(expires_at=NEVER, deadline_at=NEVER))
        return step

    def _session(self, claim: Claim | None) -> Session:
        """Whose claim it is. A folder of an agent whose program is unknown to us is looked after by one session."""
        t, agent = self.t, self.agent
        assert agent is not None, "what is held has an agent's folder"
        by_move = folders.session_by_move(agent, t.clone)
        id = by_move if claim is None else claim.session
        row = t.one("session_by_id", id=id)
        known = None if row is None else rows.session(row)
        if known is not None and known.ended_at is None and known.agent == agent:
            return known
        if claim is not None and known is not None:
            return self._session(None)
        t.run("create_agent", rows.encode(Agent(name=agent, created_at=t.now, updated_at=t.now)))
        kind = PERSON if folders.is_by_move(id) else "cli"
        meta = {ELSEWHERE: True} if t.clone is not None and id != by_move else {}
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
        note = MOVED if run is None else run.reason
        return ending.submit(self.t.now, state, state.claim, draft=draft, note=note, links={}, cost={})

    def reject(self, state: State) -> Step:
        if state.claim is None:
            return approving.reject(self.t.now, state, actor=ACTOR, reason=MOVED)
        return ending.reject(self.t.now, state, state.claim, reason=self._reason(state))

    def fail(self, state: State) -> Step:
        """For good, whatever retries the item has: the folder counts."""
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
        said = None if facts is None or not facts.approved else facts.approval
        actor, comment = (ACTOR, MOVED) if said is None else (said["actor"], said["comment"])
        done = self.folder == folders.FOLDERS[DONE]
        draft = self.t.draft(self.task.id)
        return approving.approve(self.t.now, state, draft, actor=actor, comment=comment, done=done)

    def send_back(self, state: State) -> Step:
        facts = self.task.facts
        if facts is not None and facts.approved:
            return self.approve(state)
        word = self.task.sent_back(state.item.token)
        if word is not None:
            return sent_back_with(word, self.t.now, state)
        return approving.send_back(self.t.now, state, actor=ACTOR, comment=MOVED)

    def park(self, state: State) -> Step:
        return items.park(self.t.now, state, actor=ACTOR, reason=MOVED)

    def unpark(self, state: State) -> Step:
        return items.unpark(self.t.now, state, actor=ACTOR, reason=MOVED)

    def retry(self, state: State) -> Step:
        return items.retry(self.t.now, state, actor=ACTOR, reason=MOVED)

    def _reason(self, state: State) -> str:
        run = self._run(state)
        return MOVED if run is None else run.reason or MOVED


def sent_back_with(word: Word, now: int, state: State) -> Step:
    """As somebody did elsewhere, or before the index was lost."""
    return approving.send_back(now, state, actor=word.actor, comment=word.comment or "")


def _since(at: int, claimed: Step) -> Step:
    """A claim that was given then and found now. It expires by this machine's clock, from now on."""
    assert claimed.claim is not None
    assert claimed.run is not None
    return claimed.replace(
        claim=claimed.claim.replace(claimed_at=at),
        run=claimed.run.replace(started_at=at),
        event=claimed.event.replace(at=at),
        item=claimed.item.replace(updated_at=at),
    )
