"""What people do: items, agents, sessions, force-release."""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import DibsError, Forbidden, Invalid
from dibs.model import SQL, Added, Agent, Edited, Ended, Item, Session, SessionEnd
from dibs.rules import approving, ending, holding, items
from dibs.store.tables import adding, rows
from dibs.store.tables.keys import find_good_key
from dibs.store.tables.tickets import leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.model import NewItem, Request
    from dibs.rules.decision import State, Step
    from dibs.store.tables.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

EVERY_CLAIM = -1
#: Why a session ended whose owner process is dead.
DIED = "its owner process died"


def ended(step: Step, last: Step) -> Ended:
    assert step.run is not None, "it is about a run"
    return Ended(item=last.item, run=step.run)


class Upkeep:
    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Added, ...]:
        return self.write(lambda t: adding.add(t, items, actor), request, Added)

    def edit(
        self,
        item: str,
        changes: Mapping[str, Any],
        *,
        actor: str,
        revision: int | None = None,
        relabel: bool = True,
        request: Request | None = None,
    ) -> Edited:
        def edit(t: Transaction) -> Edited:
            return adding.edit(t, item, dict(changes), actor, revision, relabel=relabel)

        return self.write(edit, request, Edited)

    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(lambda now, state: ending.cancel(now, state, actor=actor, reason=reason), item, request)

    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        def retry(t: Transaction) -> Item:
            # A claim that has lapsed may have been the last strike.
            state = t.fresh(item)
            return t.carry_out(state, items.retry(t.now, state, actor=actor, reason=reason)).item

        return self.write(retry, request, Item)

    def park(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        def park(t: Transaction) -> Item:
            # An item whose claim has lapsed is nobody's, and can be set aside.
            state = t.fresh(item)
            return t.carry_out(state, items.park(t.now, state, actor=actor, reason=reason)).item

        return self.write(park, request, Item)

    def unpark(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(lambda now, state: items.unpark(now, state, actor=actor, reason=reason), item, request)

    def approve(
        self,
        item: str,
        *,
        actor: str,
        comment: str | None = None,
        done: bool = False,
        token: int | None = None,
        revision: int | None = None,
        request: Request | None = None,
    ) -> Item:
        def approve(t: Transaction) -> Item:
            state = adding.as_read(t, item, revision)
            draft = t.draft(item)
            step = approving.approve(t.now, state, draft, actor=actor, comment=comment, done=done, token=token)
            return t.carry_out(state, step).item

        return self.write(approve, request, Item)

    def send_back(
        self, item: str, *, actor: str, comment: str, revision: int | None = None, request: Request | None = None
    ) -> Item:
        def send_back(t: Transaction) -> Item:
            state = adding.as_read(t, item, revision)
            return t.carry_out(state, approving.send_back(t.now, state, actor=actor, comment=comment)).item

        return self.write(send_back, request, Item)

    def reject(
        self,
        item: str,
        *,
        reason: str,
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Item:
        def reject(t: Transaction) -> Item:
            if session is None:
                state = adding.as_read(t, item, revision)
                return t.carry_out(state, approving.reject(t.now, state, actor=actor, reason=reason)).item
            state, claim = t.fenced(item, session, token)
            t.see(session)
            return t.carry_out(state, ending.reject(t.now, state, claim, reason=reason)).item

        return self.write(reject, request, Item)

    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        def force_release(t: Transaction) -> Ended:
            state = t.fresh(item)
            try:
                step = ending.force_release(t.now, state, actor=actor, reason=reason, token=token)
            except DibsError as refusal:
                # A claim that has lapsed is recorded as expired even so.
                t.refuse(refusal)
            return ended(step, t.carry_out(state, step))

        return self.write(force_release, request, Ended)

    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any],
        checks: Mapping[str, Any],
        cost: Mapping[str, Any],
        session: str | None = None,
        agent: str | None = None,
        key: str | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Ended:
        # Not for a claim to import.
        from dibs.rules import annotating

        said = {"links": dict(links), "checks": dict(checks), "cost": dict(cost)}

        def annotate(t: Transaction) -> Ended:
            whose = agent if session is None else t.session(session).agent
            # A claim that has lapsed is a run that has ended.
            state = t.fresh(item)
            run = state.run if token is None else t.run_of(item, token)
            if run is not None and key is not None:
                row = t.one("session_by_id", id=run.session)
                annotating.need_key(run, None if row is None else rows.session(row), key)
            step = annotating.annotate(
                t.now,
                state,
                run,
                said,
                token=token,
                approved=t.approved_draft(state.item),
                actor=actor if session is None or whose is None else whose,
                agent=whose,
            )
            if session is not None:
                t.see(session)
            if step is None:
                assert run is not None
                return Ended(item=state.item, run=run)
            t.take(step)
            return ended(step, step)

        return self.write(annotate, request, Ended)

    def set_agent(self, agent: Agent) -> Agent:
        def set_agent(t: Transaction) -> Agent:
            t.run("put_agent", rows.encode(agent.replace(created_at=t.now, updated_at=t.now)))
            # A new rate starts with a full bucket.
            full = {"name": agent.name, "bucket": float(agent.claims_burst), "bucket_at": t.now}
            t.run("set_bucket", full)
            return t.agent(agent.name)

        return self.write(set_agent)

    def start_session(self, session: Session) -> Session:
        return self.write(lambda t: _start_session(t, session))

    def take_up(self, session: str, *, key: str, agent: str) -> Session:
        def take_up(t: Transaction) -> Session:
            found = t.session(session)
            is_anothers = found.key is not None and find_good_key(t, found.key) is not None
            if found.kind != SQL or found.agent != agent or is_anothers:
                return found
            taken = found.replace(key=key)
            t.run("put_session", rows.encode_session(taken))
            return taken

        return self.write(take_up)

    def end_session(self, session: str, *, reason: str | None = None, request: Request | None = None) -> SessionEnd:
        def end_session(t: Transaction) -> SessionEnd:
            found = t.session(session)
            t.lock_items(item for (item,) in t.all("items_around_session", session=session))
            released = let_go(t, found, _release, EVERY_CLAIM)
            over = close(t, found, reason or "ended by its owner")
            return SessionEnd(session=over, released=tuple(item.id for item in released))

        return self.write(end_session, request, SessionEnd)

    def _move(self, move: Callable[[int, State], Step], item: str, request: Request | None) -> Item:
        def work(t: Transaction) -> Item:
            state = t.state(item)
            return t.carry_out(state, move(t.now, state)).item

        return self.write(work, request, Item)


def _start_session(t: Transaction, session: Session) -> Session:
    t.lock_new_session(session.id)
    t.lock_session(session.id)
    row = t.one("session_by_id", id=session.id)
    known = None if row is None else rows.session(row)
    if known is not None:
        _refuse_another_caller(t, known, session)
    if known is not None and known.ended_at is None:
        return _taken_up(t, known, session)
    nobody_yet = Agent(name=session.agent, created_at=t.now, updated_at=t.now)
    t.run("create_agent", rows.encode(nobody_yet))
    started = session.replace(started_at=t.now, seen_at=t.now, ended_at=None, end_reason=None)
    t.run("put_session", rows.encode_session(started))
    return started


def _refuse_another_caller(t: Transaction, known: Session, again: Session) -> None:
    """A session stays its agent's and its key's, also when it has ended: whoever started it again would recover its
    lapsed claims and be given its kept answers. A key that is good no more has nobody left to protect."""

    def is_good() -> bool:
        return known.key is None or find_good_key(t, known.key) is not None

    if again.key not in (None, known.key) and (known.ended_at is None or is_good()):
        raise Forbidden(f"session {again.id} was registered by another key; take another id", session=again.id)
    if known.agent != again.agent:
        is_its = "is" if known.ended_at is None else "was"
        raise Invalid(
            f"session {again.id} {is_its} {known.agent}'s; take another id for {again.agent}",
            field="agent",
            session=again.id,
            agent=known.agent,
        )


def _taken_up(t: Transaction, known: Session, again: Session) -> Session:
    """A live session started again: as it is, unless another process says that it owns it now, or something else is
    said of it."""
    taken = known
    if again.owner is not None and again.owner != known.owner:
        taken = taken.replace(owner=again.owner, host=again.host)
    if again.meta:
        taken = taken.replace(meta=again.meta)
    if taken == known:
        return known
    taken = taken.replace(seen_at=t.now)
    t.run("put_session", rows.encode_session(taken))
    return taken


def let_go(t: Transaction, session: Session, end: Callable[[Transaction, State], Step], limit: int) -> list[Item]:
    """End what the session holds, at most `limit` claims: live ones by `end`, lapsed ones as expired."""
    given_back = []
    for (item,) in t.all("items_of_session", session=session.id, limit=limit):
        state = t.state(item)
        assert state.claim is not None
        live = holding.live(state.claim, t.now)
        step = end(t, state) if live else ending.expire(t.now, state, t.settings)
        last = t.carry_out(state, step)
        if live:
            given_back.append(last.item)
    return given_back


def close(t: Transaction, session: Session, reason: str) -> Session:
    """End the session itself, with its places in queues and its soft claims."""
    for (item,) in t.all("tickets_of_session", session=session.id):
        leave(t, t.state(item), session.id, "its session ended")
    t.run("drop_soft_claims_of_session", {"session": session.id})
    over = session.replace(ended_at=t.now, end_reason=reason)
    t.run("put_session", rows.encode_session(over))
    # No event tells of it, and a caller that waits for work in this session has to be woken.
    t.changed = True
    return over


def _release(t: Transaction, state: State) -> Step:
    assert state.claim is not None
    return ending.release(t.now, state, state.claim, reason="session ended")
