"""What the functions answer, as values; and their refusals, put into words by the rules that decide everywhere else.

A function that says no brings the rows it looked at. The rules are asked about those rows again, so that whoever is
refused reads the same sentence on every store; should they see no reason, function and rules disagree, which is a bug
to be told.
"""

from __future__ import annotations

from dibs import wire
from dibs.errors import (
    AgentAtCapacity,
    DibsError,
    Forbidden,
    Invalid,
    ItemNotFound,
    RateLimited,
    ResourceBusy,
    SessionNotFound,
)
from dibs.model import (
    ENDED,
    Agent,
    Approval,
    Blocker,
    Claim,
    Ended,
    Finished,
    Grant,
    Heartbeat,
    Item,
    Note,
    Owner,
    Previous,
    Renewal,
    Run,
    Session,
    Sweep,
)
from dibs.rules import claiming, ending, holding, limits
from dibs.rules.decision import State
from dibs.rules.limits import Load
from dibs.rules.resources import Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Lost
    from dibs.value import Value

    V = TypeVar("V", bound=Value)
    Answer = dict[str, Any]

#: What JSON tells otherwise than the model: a float without a fraction, and lists.
_FLOATS = frozenset({"timeout_seconds", "ttl_seconds", "claims_per_minute"})
_LISTS = frozenset({"labels", "depends_on", "resources", "types", "allowed_actions", "sensitive_actions"})


def _value(kind: type[V], row: Answer) -> V:
    fields = {name: row[name] for name in kind._fields}
    for name in _FLOATS & kind._names:
        if fields[name] is not None:
            fields[name] = float(fields[name])
    for name in _LISTS & kind._names:
        fields[name] = tuple(fields[name])
    return kind.of(fields)


def item(row: Answer) -> Item:
    return _value(Item, row)


def claim(row: Answer) -> Claim:
    return _value(Claim, row)


def run(row: Answer) -> Run:
    # An answer that was kept before runs had checks says nothing of them.
    return _value(Run, {"checks": {}, **row})


def session(row: Answer) -> Session:
    owner = None
    if row["boot_id"] is not None:
        owner = Owner(**{name: row[name] for name in Owner._fields})
    return Session(owner=owner, **{name: row[name] for name in Session._fields if name != "owner"})


def grant(answer: Answer) -> Grant:
    return _grant(answer, claim(answer["claim"])).replace(renewed=answer.get("renewed", False))


def _grant(answer: Answer, taken: Claim) -> Grant:
    previous, approval = _previous(answer["previous"]), _approval(answer["approval"])
    return Grant(item=item(answer["item"]), claim=taken, previous=previous, approval=approval)


def _previous(before: Answer | None) -> Previous | None:
    if before is None:
        return None
    notes = tuple(Note(**note) for note in before["notes"])
    return Previous(run=run(before["run"]), notes=notes, comment=before["comment"])


def _approval(given: Answer | None) -> Approval | None:
    if given is None:
        return None
    return Approval(**{**given, "run": None if given["run"] is None else run(given["run"])})


def grants(answer: Answer) -> tuple[Grant, ...]:
    """What `next` gave: the claims were all made by one session at once, so they are told by what they differ in."""
    return tuple(_grant(one, _claimed(one["item"], answer)) for one in answer["grants"])


def _claimed(row: Answer, answer: Answer) -> Claim:
    return Claim.of(
        {
            "item": row["id"],
            "token": row["token"],
            "session": answer["session"],
            "agent": answer["agent"],
            "claimed_at": row["updated_at"],
            "renewed_at": row["updated_at"],
            "expires_at": row["expires_at"],
            "deadline_at": row["deadline_at"],
            "ttl_seconds": float(answer["ttl_seconds"]),
            "heartbeat_count": 0,
        }
    )


def ended(answer: Answer) -> Ended:
    return Ended(item=item(answer["item"]), run=run(answer["run"]))


def finished(answer: Answer) -> Finished:
    ends, lost = [], []
    for one in answer["each"]:
        if "no" in one["answer"]:
            lost.append(_lost({**one, "facts": one["answer"]}, answer["session"]))
        else:
            ends.append(ended(one["answer"]))
    return Finished(ended=tuple(ends), lost=tuple(lost))


def renewal(answer: Answer, settings: Settings) -> Renewal:
    renewed = answer.get("renewed", True)
    return holding.renewal(claim(answer["claim"]), answer["now"], settings, renewed=renewed)


def heartbeat(answer: Answer, session: str, settings: Settings) -> Heartbeat:
    now, kept, due = answer["now"], [claim(row) for row in answer["renewed"]], answer["due"]
    return Heartbeat(
        session=session,
        renewed=tuple(holding.renewal(one, now, settings, renewed=one.item in due) for one in kept),
        lost=tuple(sorted((_lost(one, session) for one in answer["lost"]), key=lambda lost: lost.item)),
        forgotten=tuple(answer["forgotten"]),
        heartbeat_seconds=min([settings.heartbeat_seconds, *(holding.interval_seconds(one, settings) for one in kept)]),
        event=answer["event"],
    )


def sweep(answer: Answer) -> Sweep:
    lists = {name: tuple(value) for name, value in answer.items() if name != "more"}
    return Sweep(more=answer["more"], **lists)


#: How a kept answer is read again, by the name it was kept under.
SHAPES: dict[str, Callable[[Answer, Settings], object]] = {
    "claim": lambda answer, _: grant(answer),
    "next": lambda answer, _: grants(answer),
    "finish": lambda answer, _: ended(answer),
    "done": lambda answer, _: ended(answer["each"][0]["answer"]),
    "done_many": lambda answer, _: finished(answer),
    "progress": renewal,
}


def kept(answer: Answer, kind: type[Value]) -> Any:
    """An answer that was kept as the wire has it: by another store, from which this board was copied."""
    found = answer["wire"]
    if isinstance(found, list):
        return tuple(wire.decode(kind, one) for one in found)
    return wire.decode(kind, found)


# Refusals


def refusal(
    answer: Answer,
    *,
    session: str,
    token: int | None = None,
    ttl_seconds: float | None = None,
    agent: str | None = None,
    item_id: str | None = None,
    settings: Settings,
) -> DibsError:
    """The error that this "no" stands for."""
    no, facts = answer["no"], answer.get("facts", answer)
    if no == "TASK_NOT_FOUND":
        return ItemNotFound(f"there is no item {item_id}", item=item_id)
    if no == "SESSION_NOT_FOUND":
        return session_not_found(facts, session)
    if no == "WRONG_AGENT":
        return wrong_agent(session, facts["session"]["agent"], agent)
    if no == "TTL":
        return _raised(lambda: claiming.ttl(facts["session"]["kind"], ttl_seconds, settings))
    if no == "FENCED":
        return fenced(facts, session, token)
    if no == "MUST_SUBMIT":
        return limits.must_submit(_agent(facts), item(facts["item"]))
    return _not_given(answer, facts)


def forced(answer: Answer, *, actor: str, reason: str, token: int | None, item_id: str) -> DibsError:
    if answer["no"] == "TASK_NOT_FOUND":
        return ItemNotFound(f"there is no item {item_id}", item=item_id)
    state = _state(answer)
    return _raised(lambda: ending.force_release(answer["now"], state, actor=actor, reason=reason, token=token))


def fenced(facts: Answer, session: str, token: int | None) -> DibsError:
    asked = None if facts["asked"] is None else run(facts["asked"])
    if facts["item"] is None:
        raise AssertionError("a fence is around an item")
    if (asked is None or asked.session != session) and _is_over(facts):
        return session_not_found(facts, session)
    state = _state(facts)
    return _raised(lambda: holding.fence(facts["now"], state, session=session, token=token, asked=asked))


def session_not_found(facts: Answer, session: str) -> SessionNotFound:
    found = facts["session"]
    how = "is not known" if found is None else f"has ended ({found['end_reason'] or 'no reason given'})"
    return SessionNotFound(f"the session {session} {how}", session=session, ended=found is not None)


def wrong_agent(session: str, its: str, agent: str | None) -> Invalid:
    return Invalid(
        f"session {session} is {its}'s, not {agent}'s; start another session for {agent}",
        field="agent",
        session=session,
        agent=its,
    )


def _not_given(answer: Answer, facts: Answer) -> DibsError:
    load = Load(
        held=answer["held"],
        held_total=answer["held_total"],
        bucket=answer["bucket"],
        bucket_at=answer["bucket_at"],
        next_expiry_at=answer["next_expiry_at"],
    )
    agent, now = _agent(facts), facts["now"]
    if facts["item"] is None:
        found = limits.refusal(now, agent, load)
    else:
        holds = tuple(Hold(resource=r, item=i, session=s, agent=a) for r, i, s, a in facts["holds"])
        asker = claiming.Asker(session=session(facts["session"]), agent=agent, load=load, holds=holds)
        reasons = claiming.reasons(now, _state(facts), asker)
        found = next((one for one in reasons if one.code == answer["no"]), None)
    return found or _gone_since(answer["no"], facts)


def _gone_since(code: str, facts: Answer) -> DibsError:
    """What stood in the way when it was decided, and not any more when the facts were read."""
    kind = next(kind for kind in (ResourceBusy, Forbidden, AgentAtCapacity, RateLimited) if kind.code == code)
    what = "this" if facts["item"] is None else facts["item"]["id"]
    return kind(
        f"{what} could not be had a moment ago, and by now perhaps it can: ask again",
        item=None if facts["item"] is None else what,
        agent=facts["agent"]["name"],
        retry_after_seconds=0,
    )


def _lost(lost: Answer, session: str) -> Lost:
    facts = lost["facts"]
    if facts["no"] == "MUST_SUBMIT":
        error: DibsError = limits.must_submit(_agent(facts), item(facts["item"]))
    elif facts.get("item") is None:
        error = ItemNotFound(f"there is no item {lost['item']}", item=lost["item"])
    else:
        error = fenced(facts, session, lost["token"])
    return holding.lost(lost["item"], lost["token"], error)


def _state(facts: Answer) -> State:
    return State(
        item=item(facts["item"]),
        claim=None if facts["claim"] is None else claim(facts["claim"]),
        run=None if facts["run"] is None else run(facts["run"]),
        blockers=tuple(
            Blocker(item=needs, status=status, will_move=status not in ENDED) for needs, status in facts["blockers"]
        ),
    )


def _agent(facts: Answer) -> Agent:
    return _value(Agent, facts["agent"])


def _is_over(facts: Answer) -> bool:
    return facts["session"] is None or facts["session"]["ended_at"] is not None


def _raised(decide: Callable[[], object]) -> DibsError:
    try:
        decide()
    except DibsError as error:
        return error
    raise AssertionError("the database refuses and the rules see no reason")
