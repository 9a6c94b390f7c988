"""The verbs about agents, sessions and keys."""

from __future__ import annotations

from dibs.errors import Forbidden, Invalid
from dibs.model import SQL, Agent, SessionEnd
from dibs.rules import ending, fencing
from dibs.rules.sessions import (
    ANCESTORS_MAX,
    KEPT_PREFIXES,
    WAS_SILENT,
    is_silent,
    require_parent,
    require_same_parent,
    silent_since,
)
from dibs.store.sql import rows
from dibs.store.sql.ticket_verbs import close_ticket
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dibs.model import Item, Key, Owner, Session
    from dibs.rules.decision import State, Step
    from dibs.store.sql.transaction import Transaction

#: The last use of a key is noted so often.
KEY_USE_SECONDS = 3600
#: As the limit of `items_of_session`: more claims than a session can have.
EVERY_CLAIM = 2**31


def set_agent(t: Transaction, agent: Agent) -> Agent:
    t.run("put_agent", rows.encode(agent.replace(created_at=t.now, updated_at=t.now)))
    # A new rate starts with a full bucket.
    t.run("set_bucket", {"name": agent.name, "bucket": float(agent.claims_burst), "bucket_at": t.now})
    return t.agent(agent.name)


def take_up(t: Transaction, session: str, *, key: str, agent: str) -> Session:
    found = t.session(session)
    has_valid_key = found.key is not None and _has_valid_key(t, found.key)
    if found.kind != SQL or found.agent != agent or has_valid_key:
        return found
    taken = found.replace(key=key)
    t.run("put_session", rows.encode_session(taken))
    return taken


def start_session(t: Transaction, session: Session) -> Session:
    t.lock("lock_new_session", id=session.id)
    if session.parent is not None:
        t.lock_session(session.parent)  # a parent before its children, as where they end
    t.lock_session(session.id)
    known = find_session(t, session.id)
    if known is not None:
        _refuse_another_caller(t, known, session)
        if known.ended_at is None:
            require_same_parent(known, session)
            return _update_session(t, known, session)
    if session.parent is not None:
        require_parent(session.id, _ancestors(t, session))
    t.run("create_agent", rows.encode(Agent(name=session.agent, created_at=t.now, updated_at=t.now)))
    started = session.replace(started_at=t.now, seen_at=t.now, ended_at=None, end_reason=None)
    t.run("put_session", rows.encode_session(started))
    return started


def end_session(t: Transaction, session: str, *, reason: str | None = None) -> SessionEnd:
    found = t.session(session)
    around = t.all("around_session", session=session)
    children = [child for _, child in around if child is not None]
    descendants = live_descendants(t, [session]) if children else []
    for one in descendants:
        around += t.all("around_session", session=one.id)
    t.lock_items({item for item, _ in around if item is not None})
    # The tickets of all of them first: what one of them releases must not be offered to one that ends, too.
    close_tickets(t, (found, *descendants))
    released = end_claims(t, found, _release, EVERY_CLAIM)
    for one in descendants:
        released += end_claims(t, one, _release_with_parent, EVERY_CLAIM)
        close_session(t, one, ending.PARENT_ENDED)
    ended = close_session(t, found, reason or "ended by its owner")
    return SessionEnd(session=ended, released=tuple(item.id for item in released))


def sessions_of_key(t: Transaction, key: str) -> tuple[int, int]:
    """How many live sessions a key has, and how many characters of meta they have."""
    live, size = t.one("sessions_of_key", key=key) or (0, 0)
    return int(live), int(size)


def silent_sessions(t: Transaction, limit: int, among: Sequence[str] | None = None) -> list[str]:
    """Live sessions that hold nothing, wait for nothing, have no live child and are silent, at most `limit`."""
    asked = None if among is None else json_text.dumps(list(among))
    kept = json_text.dumps(KEPT_PREFIXES)  # here, because what is kept must take no place of what can be ended
    found = t.all("silent_sessions", since=silent_since(t.now), among=asked, kept=kept, limit=limit)
    return [id for (id,) in found]


def end_silent(t: Transaction, found: Sequence[str]) -> tuple[str, ...]:
    """End those of these sessions that are silent still: none of them gets a claim once it is locked."""
    for id in sorted(found):
        t.lock_session(id)
    ended = []
    for id in silent_sessions(t, len(found), found):
        session = find_session(t, id)
        if session is not None and is_silent(session, t.now):
            close_session(t, session, WAS_SILENT)
            ended.append(id)
    return tuple(ended)


def live_descendants(t: Transaction, sessions: Sequence[str]) -> list[Session]:
    """The live children of these sessions, the children of those, and so on, parents first. Each is locked before its
    children are read, so that it gets no other child meanwhile."""
    found: list[Session] = []
    level = list(sessions)
    for _ in range(ANCESTORS_MAX):
        children = t.all("live_children", sessions=json_text.dumps(level)) if level else []
        level = []
        for (id,) in children:
            t.lock_session(id)
            child = find_session(t, id)
            if child is not None and child.ended_at is None:
                found.append(child)
                level.append(id)
    return found


def find_session(t: Transaction, id: str) -> Session | None:
    row = t.one("session_by_id", id=id)
    return None if row is None else rows.session(row)


def end_reason(session: Session, dead: Collection[Owner]) -> str:
    """Why a session ends that has a dead owner, or an ancestor with one."""
    return ending.OWNER_DIED if session.owner in dead else ending.PARENT_ENDED


def _ancestors(t: Transaction, session: Session) -> list[str]:
    """The parent of a new session, which must be live, and its ancestors: nearest first, as far as it matters."""
    assert session.parent is not None
    if session.parent == session.id:
        return [session.id]
    found: list[str] = []
    above: Session | None = t.session(session.parent)
    while above is not None and len(found) <= ANCESTORS_MAX:
        found.append(above.id)
        above = None if above.parent is None else find_session(t, above.parent)
    return found


def _refuse_another_caller(t: Transaction, known: Session, again: Session) -> None:
    """A session belongs to its agent and its key, also after its end: a caller that started it again could recover its
    lapsed claims and read its kept answers. The sessions of a revoked or expired key are free."""

    def is_key_valid() -> bool:
        return known.key is None or _has_valid_key(t, known.key)

    if again.key not in (None, known.key) and (known.ended_at is None or is_key_valid()):
        raise Forbidden(f"session {again.id} was registered by another key; choose another id", session=again.id)
    if known.agent != again.agent:
        belongs = "belongs" if known.ended_at is None else "belonged"
        raise Invalid(
            f"session {again.id} {belongs} to agent {known.agent}; choose another id for {again.agent}",
            field="agent",
            session=again.id,
            agent=known.agent,
        )


def _update_session(t: Transaction, known: Session, again: Session) -> Session:
    """Give a live session that is started again its new owner process and meta."""
    updated = known
    if again.owner is not None and again.owner != known.owner:
        updated = updated.replace(owner=again.owner, host=again.host)
    if again.meta:
        updated = updated.replace(meta=again.meta)
    if updated == known:
        return known
    updated = updated.replace(seen_at=t.now)
    t.run("put_session", rows.encode_session(updated))
    return updated


def end_claims(t: Transaction, session: Session, end: Callable[[Transaction, State], Step], limit: int) -> list[Item]:
    """End the session's claims, at most `limit`: live ones by `end`, lapsed ones as expired. Returns the items whose
    claims were live."""
    ended = []
    for (item,) in t.all("items_of_session", session=session.id, limit=limit):
        state = t.state(item)
        assert state.claim is not None
        live = fencing.live(state.claim, t.now)
        step = end(t, state) if live else ending.expire(t.now, state, t.settings)
        last = t.apply_with_effects(state, step)
        if live:
            ended.append(last.item)
    return ended


def close_session(t: Transaction, session: Session, reason: str) -> Session:
    """End the session itself, and its soft claims."""
    t.run("drop_soft_claims_of_session", {"session": session.id})
    ended = session.replace(ended_at=t.now, end_reason=reason)
    t.run("put_session", rows.encode_session(ended))
    # The end of a session has no event, but a caller that waits for work in it has to wake.
    t.changed = True
    return ended


def close_tickets(t: Transaction, sessions: Sequence[Session]) -> None:
    """Those with an offer last: the offer must not pass to another one of these sessions."""
    tickets = [(item, one.id) for one in sessions for (item,) in t.all("tickets_of_session", session=one.id)]
    for item, session in sorted(tickets, key=lambda ticket: t.state(ticket[0]).item.offered_to == ticket[1]):
        close_ticket(t, t.state(item), session, "its session ended")


def _release(t: Transaction, state: State) -> Step:
    assert state.claim is not None
    return ending.release(t.now, state, state.claim, reason="session ended")


def _release_with_parent(t: Transaction, state: State) -> Step:
    assert state.claim is not None
    return ending.release(t.now, state, state.claim, reason=ending.PARENT_ENDED)


# Keys of a server's callers. The board keeps them, so that every server on it knows them.


def put_key(t: Transaction, key: Key, *, seconds: float | None = None) -> Key:
    known = _key(t, key.id)
    created_at = t.now if known is None else known.created_at
    expires_at = None if seconds is None else created_at + round(seconds * 1000)
    dated = key.replace(created_at=created_at, expires_at=expires_at)
    if known is None:
        t.run("put_key", rows.encode(dated))
        return dated
    if known.replace(revoked_at=None, last_used_at=None) != dated:
        raise Invalid(f"the key {key.id} exists already", field="id", key=key.id)
    return known


def rotate_key(t: Transaction, id: str, key: Key, *, seconds: float | None = None, grace_seconds: float) -> Key:
    before = _key(t, id)
    if before is None:
        raise Invalid(f"the key {id} is not known", field="key", key=id)
    successor = key.replace(role=before.role, agent=before.agent, name=before.name, line=before.line or before.id)
    added = put_key(t, successor, seconds=seconds)
    t.run("end_key", {"id": id, "until": added.created_at + round(grace_seconds * 1000)})
    return added


def note_key_use(t: Transaction, id: str) -> None:
    t.run("note_key_use", {"id": id, "now": t.now, "noted_before": t.now - KEY_USE_SECONDS * 1000})


def _has_valid_key(t: Transaction, line: str) -> bool:
    return t.one("valid_key_of_line", line=line, now=t.now) is not None


def find_key(t: Transaction, id: str) -> Key | None:
    found = _key(t, id)
    if found is None or found.revoked_at is not None:
        return None
    return found if found.expires_at is None or found.expires_at > t.now else None


def keys(t: Transaction) -> tuple[Key, ...]:
    return tuple(rows.key(row) for row in t.all("keys"))


def renew_key(t: Transaction, id: str, *, seconds: float, seconds_max: float) -> Key | None:
    until, longest = t.now + round(seconds * 1000), round(seconds_max * 1000)
    row = t.one("renew_key", id=id, now=t.now, until=until, longest=longest)
    return None if row is None else rows.key(row)


def revoke_key(t: Transaction, id: str) -> Key:
    row = t.one("revoke_key", id=id, now=t.now)
    if row is None:
        how = "is not known" if _key(t, id) is None else "was revoked already"
        raise Invalid(f"the key {id} {how}", field="key", key=id)
    return rows.key(row).replace(digest="")


def _key(t: Transaction, id: str) -> Key | None:
    row = t.one("key_by_id", id=id)
    return None if row is None else rows.key(row)
