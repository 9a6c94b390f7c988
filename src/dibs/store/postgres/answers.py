"""The answers of the SQL functions, as values, and their refusals, as errors.

A function that refuses returns the rows that it decided on. The rules decide on the same rows again and word the
refusal, so that it reads the same on every store. If the rules find no reason, function and rules disagree: a bug.
"""

from __future__ import annotations

from dibs.errors import BY_CODE, DibsError, ItemNotClaimable
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
from dibs.rules import claiming, ending, fencing, limits, refusals
from dibs.rules.decision import State
from dibs.rules.limits import Load
from dibs.rules.resources import Hold
from dibs.text import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Lost
    from dibs.value import Value

    V = TypeVar("V", bound=Value)
    Answer = dict[str, Any]

#: What converts the JSON of a field, by its kind: a list is a tuple, and a float may have come without its fraction.
CONVERT: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("Names", "ItemIds", "Resources"), tuple),
    **dict.fromkeys(("Seconds", "Number"), float),
}
_CONVERTED: dict[type[Value], list[tuple[str, Callable[[Any], Any]]]] = {
    kind: [(name, CONVERT[word]) for name, word in kind._kinds.items() if word in CONVERT]
    for kind in (Item, Claim, Run, Agent)
}


def _value(kind: type[V], row: Answer) -> V:
    # An answer that was kept by an older version lacks the newest fields.
    known = kind.defaults() | row
    return _typed(kind, {name: known[name] for name in kind._fields})


def _typed(kind: type[V], fields: Answer) -> V:
    for name, convert in _CONVERTED[kind]:
        if fields[name] is not None:
            fields[name] = convert(fields[name])
    return kind.of(fields)


def item(row: Answer) -> Item:
    return _value(Item, row)


def claim(row: Answer) -> Claim:
    return _value(Claim, row)


def run(row: Answer) -> Run:
    return _value(Run, row)


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
    notes = tuple(map(Note.of_known, before["notes"]))
    return Previous(run=run(before["run"]), notes=notes, comment=before["comment"])


def _approval(given: Answer | None) -> Approval | None:
    if given is None:
        return None
    return Approval.of_known({**given, "run": None if given["run"] is None else run(given["run"])})


def grants(answer: Answer) -> tuple[Grant, ...]:
    """The grants of `next`. Its claims share session, agent and TTL, which the answer has once."""
    if "rows" in answer:
        return tuple(_granted(row, answer) for row in answer["rows"])
    return tuple(_grant(one, _claimed(one["item"], one["item"], answer)) for one in answer["grants"])


def _granted(row: list[Any], answer: Answer) -> Grant:
    expires_at, deadline_at, before, given, *values = row
    fields = dict(zip(Item._fields, values, strict=False))  # a newer schema may add columns
    taken = _claimed(fields, {"expires_at": expires_at, "deadline_at": deadline_at}, answer)
    return Grant.of(
        {
            "item": _typed(Item, fields),
            "claim": taken,
            "previous": _previous(before),
            "approval": _approval(given),
            "renewed": False,
        }
    )


def _claimed(row: Answer, ends: Answer, answer: Answer) -> Claim:
    return Claim.of(
        {
            "item": row["id"],
            "token": row["token"],
            "session": answer["session"],
            "agent": answer["agent"],
            "claimed_at": row["updated_at"],
            "renewed_at": row["updated_at"],
            "expires_at": ends["expires_at"],
            "deadline_at": ends["deadline_at"],
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
    return fencing.renewal(claim(answer["claim"]), answer["now"], settings, renewed=renewed)


def heartbeat(answer: Answer, session: str, settings: Settings) -> Heartbeat:
    now, kept, due = answer["now"], [claim(row) for row in answer["renewed"]], answer["due"]
    return Heartbeat(
        session=session,
        renewed=tuple(fencing.renewal(one, now, settings, renewed=one.item in due) for one in kept),
        lost=tuple(sorted((_lost(one, session) for one in answer["lost"]), key=lambda lost: lost.item)),
        forgotten=tuple(answer["forgotten"]),
        heartbeat_seconds=min([settings.heartbeat_seconds, *(fencing.interval_seconds(one, settings) for one in kept)]),
        event=answer["event"],
    )


def sweep(answer: Answer) -> Sweep:
    return Sweep.of_known({name: value if name == "more" else tuple(value) for name, value in answer.items()})


#: How the kept answer of each function is read.
SHAPES: dict[str, Callable[[Answer, Settings], object]] = {
    "claim": lambda answer, _: grant(answer),
    "next": lambda answer, _: grants(answer),
    "finish": lambda answer, _: ended(answer),
    "done": lambda answer, _: ended(answer["each"][0]["answer"]),
    "done_many": lambda answer, _: finished(answer),
    "progress": renewal,
}


def kept(answer: Answer, kind: type[V]) -> V | None:
    """The answer, if it was kept in wire format, as on a board that was copied from another store."""
    return wire.decode(kind, answer["wire"]) if "wire" in answer else None


def kept_many(answer: Answer, kind: type[V]) -> tuple[V, ...] | None:
    return tuple(wire.decode(kind, one) for one in answer["wire"]) if "wire" in answer else None


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
    """The error for the code in "no"."""
    code, facts = answer["no"], answer.get("facts", answer)
    if code == "TASK_NOT_FOUND":
        return refusals.item_not_found(item_id)
    if code == "SESSION_NOT_FOUND":
        return _session_not_found(facts, session)
    if code == "WRONG_AGENT":
        return refusals.wrong_agent(session, facts["session"]["agent"], agent)
    if code == "META":
        from dibs.check import META_BYTES_MAX
        from dibs.rules.sessions import meta_too_large

        return meta_too_large(answer["size"], META_BYTES_MAX)
    if code == "TTL":
        return _raised(lambda: claiming.ttl(facts["session"]["kind"], ttl_seconds, settings))
    if code == "FENCED":
        return _fenced(facts, session, token)
    if code == "MUST_SUBMIT":
        return limits.must_submit(_agent(facts), item(facts["item"]))
    return _claim_refused(answer, facts)


def force_release_refusal(answer: Answer, *, actor: str, reason: str, token: int | None, item_id: str) -> DibsError:
    if answer["no"] == "TASK_NOT_FOUND":
        return refusals.item_not_found(item_id)
    state = _state(answer)
    return _raised(lambda: ending.force_release(answer["now"], state, actor=actor, reason=reason, token=token))


def _fenced(facts: Answer, session: str, token: int | None) -> DibsError:
    asked = None if facts["asked"] is None else run(facts["asked"])
    is_over = facts["session"] is None or facts["session"]["ended_at"] is not None
    if (asked is None or asked.session != session) and is_over:
        return _session_not_found(facts, session)
    state = _state(facts)
    return _raised(lambda: fencing.fence(facts["now"], state, session=session, token=token, asked=asked))


def _session_not_found(facts: Answer, session: str) -> DibsError:
    found = facts["session"]
    reason = None if found is None else found["end_reason"]
    return refusals.session_not_found(session, ended=found is not None, reason=reason)


def _claim_refused(answer: Answer, facts: Answer) -> DibsError:
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
        claimant = claiming.Claimant(session=session(facts["session"]), agent=agent, load=load, holds=holds)
        reasons = claiming.reasons(now, _state(facts), claimant)
        found = next((one for one in reasons if one.code == answer["no"]), None)
    return found or _unexplained(answer["no"], facts)


def _unexplained(code: str, facts: Answer) -> DibsError:
    """A refusal whose reason was gone when the function read the facts, a moment after its decision; or whose reason is
    of a newer schema than these rules."""
    kind = BY_CODE.get(code, ItemNotClaimable)
    what = "an item" if facts["item"] is None else facts["item"]["id"]
    return kind(
        f"{what} could not be claimed a moment ago; the reason may be gone: try again",
        item=None if facts["item"] is None else what,
        agent=facts["agent"]["name"],
        retry_after_seconds=0,
    )


def _lost(lost: Answer, session: str) -> Lost:
    facts = lost["facts"]
    if facts["no"] == "MUST_SUBMIT":
        error: DibsError = limits.must_submit(_agent(facts), item(facts["item"]))
    elif facts.get("item") is None:
        error = refusals.item_not_found(lost["item"])
    else:
        error = _fenced(facts, session, lost["token"])
    return fencing.lost(lost["item"], lost["token"], error)


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


def _raised(decide: Callable[[], object]) -> DibsError:
    try:
        decide()
    except DibsError as error:
        return error
    raise AssertionError("the function refuses and the rules find no reason")
