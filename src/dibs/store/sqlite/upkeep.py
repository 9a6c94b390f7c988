"""What people and the board itself do on SQLite: items, agents, sessions, force-release, the sweep."""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import Invalid
from dibs.model import FAILED, Agent, Ended, Item, Session, SessionEnd, Sweep
from dibs.rules import ending, holding, items
from dibs.store.sqlite import rows
from dibs.store.sqlite.claim_path import ended, expire_lapsed
from dibs.store.sqlite.queries import PATH, UPKEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.model import NewItem, Owner, Request
    from dibs.rules.decision import State, Step
    from dibs.store.sqlite.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

#: How many outdated requests one sweep forgets.
TRIM_BATCH = 1000


class Upkeep:
    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Item, ...]:
        return self.write(lambda t: tuple(_add(t, new, actor) for new in items), request, Item)

    def edit(self, item: str, changes: Mapping[str, Any], *, actor: str, request: Request | None = None) -> Item:
        def edit(t: Transaction) -> Item:
            state = t.state(item)
            step = items.edit(t.now, state, dict(changes), actor=actor)
            if step is None:
                return state.item
            t.take(step)
            return step.item

        return self.write(edit, request, Item)

    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(lambda now, state: ending.cancel(now, state, actor=actor, reason=reason), item, request)

    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(lambda now, state: items.retry(now, state, actor=actor, reason=reason), item, request)

    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        def force_release(t: Transaction) -> Ended:
            step = ending.force_release(t.now, t.state(item), actor=actor, reason=reason, token=token)
            t.take(step)
            return ended(step)

        return self.write(force_release, request, Ended)

    def set_agent(self, agent: Agent) -> Agent:
        def set_agent(t: Transaction) -> Agent:
            t.run(UPKEEP["put_agent"], {**rows.encode(agent), "now": t.now})
            row = t.one(PATH["agent_by_name"], name=agent.name)
            assert row is not None
            return rows.agent(row)

        return self.write(set_agent)

    def start_session(self, session: Session) -> Session:
        return self.write(lambda t: _start_session(t, session))

    def end_session(self, session: str, *, reason: str | None = None) -> SessionEnd:
        def end_session(t: Transaction) -> SessionEnd:
            return _end_session(t, t.session(session), reason or "ended by its owner", _let_go)

        return self.write(end_session)

    def sweep(self, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
        def sweep(t: Transaction) -> Sweep:
            expired = expire_lapsed(t, limit)
            bereaved: list[Item] = []
            for session, owner in dead:
                if len(expired) + len(bereaved) < limit:
                    bereaved += _bury(t, session, owner)
            since = t.now - round(t.settings.request_kept_seconds * 1000)
            t.run(UPKEEP["trim_requests"], {"before": since, "limit": TRIM_BATCH})
            t.run(UPKEEP["trim_activity"], {"kept": t.settings.activity_kept})
            return Sweep(
                expired=tuple(item.id for item in expired),
                owner_died=tuple(item.id for item in bereaved),
                failed=tuple(item.id for item in [*expired, *bereaved] if item.status == FAILED),
                more=len(expired) + len(bereaved) >= limit,
            )

        return self.write(sweep)

    def _move(self, move: Callable[[int, State], Step], item: str, request: Request | None) -> Item:
        def work(t: Transaction) -> Item:
            step = move(t.now, t.state(item))
            t.take(step)
            return step.item

        return self.write(work, request, Item)


def _add(t: Transaction, new: NewItem, actor: str) -> Item:
    row = t.one(PATH["item_by_id"], id=new.id)
    if row is not None:
        old = rows.item(row)
        if items.same(new, old):
            return old
        raise items.taken(new)
    floor = t.one(PATH["meta"], name="token_floor")
    assert floor is not None
    step = items.add(t.now, new, actor=actor, token_floor=floor[0])
    t.take(step)
    return step.item


def _start_session(t: Transaction, session: Session) -> Session:
    row = t.one(PATH["session_by_id"], id=session.id)
    known = None if row is None else rows.session(row)
    if known is not None and known.ended_at is None:
        if known.agent == session.agent:
            return known
        raise Invalid(
            f"session {session.id} is {known.agent}'s; end it, or take another id for {session.agent}",
            field="agent",
            session=session.id,
            agent=known.agent,
        )
    t.run(UPKEEP["create_agent"], {"name": session.agent, "now": t.now})
    started = session.replace(started_at=t.now, seen_at=t.now, ended_at=None, end_reason=None)
    t.run(UPKEEP["put_session"], rows.encode_session(started))
    return started


def _bury(t: Transaction, session: str, owner: Owner) -> list[Item]:
    """End a session whose owner was found dead, unless it has ended or has another owner by now."""
    row = t.one(PATH["session_by_id"], id=session)
    found = None if row is None else rows.session(row)
    if found is None or found.ended_at is not None or found.owner != owner:
        return []
    end = _end_session(t, found, "its owner process died", _lose)
    return [t.state(item).item for item in end.released]


def _end_session(
    t: Transaction, session: Session, reason: str, end: Callable[[Transaction, State], Step]
) -> SessionEnd:
    released = [item for (item,) in t.all(UPKEEP["items_of_session"], session=session.id)]
    for item in released:
        state = t.state(item)
        assert state.claim is not None
        live = holding.live(state.claim, t.now)
        t.take(end(t, state) if live else ending.expire(t.now, state, t.settings))
    over = session.replace(ended_at=t.now, end_reason=reason)
    t.run(UPKEEP["put_session"], rows.encode_session(over))
    return SessionEnd(session=over, released=tuple(released))


def _let_go(t: Transaction, state: State) -> Step:
    assert state.claim is not None
    return ending.release(t.now, state, state.claim, reason="session ended")


def _lose(t: Transaction, state: State) -> Step:
    return ending.owner_died(t.now, state, t.settings)
