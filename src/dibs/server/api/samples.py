"""A sample of each kind of answer, for the OpenAPI document: what the rules make of the verbs' own examples.

They are one story: an item is added, claimed and done by one session, while another one waits for it.
"""

from __future__ import annotations

from typing import Any

from dibs.config import DEFAULTS
from dibs.model import (
    ADMIN,
    STATUSES,
    Added,
    Agent,
    Detail,
    Edited,
    Ended,
    Finished,
    Grant,
    Heartbeat,
    Holding,
    Key,
    NewItem,
    Note,
    Prune,
    Pulse,
    Reason,
    Session,
    SessionEnd,
    SessionView,
    SoftClaim,
    Stats,
    Sweep,
)
from dibs.rules import claiming, ending, fencing, items, queueing
from dibs.rules.decision import State
from dibs.server.api.examples import EXAMPLES as _SAID
from dibs.server.api.openapi import marked
from dibs.server.api.schemas import NOON
from dibs.text import times, wire
from dibs.value import Value

JSON = "application/json"
_AT = times.parse_instant(NOON)
_CLAIMED_AT, _NOW = _AT + 60_000, _AT + 180_000

SESSION = Session(**_SAID["start_session"], host="build-7", started_at=_AT, seen_at=_CLAIMED_AT)
_OTHER = Session(id="fixer-1", agent="fixer", started_at=_AT, seen_at=_NOW)
_AGENT = Agent(
    name=SESSION.agent,
    types=tuple(_SAID["set_agent"]["types"]),
    max_claims=_SAID["set_agent"]["max_claims"],
    created_at=_AT,
    updated_at=_AT,
)
_ADDED = items.add(
    _AT, NewItem(**{**_SAID["add"], "labels": tuple(_SAID["add"]["labels"])}), actor=SESSION.agent, token_floor=0
)
_CLAIMED = claiming.grant(_CLAIMED_AT, State(item=_ADDED.item), SESSION, DEFAULTS.ttl_seconds)
assert _CLAIMED.claim is not None
CLAIM = fencing.renew(_CLAIMED.claim, _NOW)
_RUNNING = _CLAIMED.run
assert _RUNNING is not None
_HELD = _CLAIMED.after(State(item=_ADDED.item)).replace(claim=CLAIM)
_DONE = ending.done(_NOW, _HELD, CLAIM, note=None, links=_SAID["done"]["links"], cost={})
assert _DONE.run is not None
_RUN = _DONE.run
#: What the session did before.
EARLIER = _RUN.replace(item=_SAID["add_many"]["items"][0]["id"], started_at=_AT, ended_at=_CLAIMED_AT)
_NOTE = Note(at=_NOW, note=_SAID["progress"]["note"])
_TICKET = queueing.wait(_NOW, _HELD, _OTHER, None, DEFAULTS).replace(id=1)
_RENEWAL = fencing.renewal(CLAIM, _NOW, DEFAULTS)
_ENDED = Ended(item=_DONE.item, run=_RUN)
_READY = {"type": _ADDED.item.type, "priority": _ADDED.item.priority, "count": 1}
#: What another session is told while the item is held.
REFUSAL = claiming.already_claimed(_NOW, CLAIM)
KEY = Key(id="3f9a1c", role=ADMIN, agent=SESSION.agent, digest="", created_at=_AT)
HOLDING = Holding(
    item=_CLAIMED.item,
    claim=CLAIM,
    kind=SESSION.kind,
    health=fencing.health(CLAIM, _NOW, DEFAULTS),
    age_seconds=(_NOW - CLAIM.claimed_at) / 1000,
    remaining_seconds=fencing.remaining_seconds(CLAIM, _NOW),
    waiters=1,
)
STATS = Stats(
    items=dict.fromkeys(STATUSES, 0) | {_CLAIMED.item.status: 1, _DONE.item.status: 3},
    ready=[],
    active_claims=1,
    waiters=1,
    live_sessions=2,
    total_claims=4,
    outcomes={"running": 1, "done": 3},
    conflicts_avoided=1,
    claim_success_rate=0.8,
    failure_rate=0.0,
    time_to_claim_seconds=60.0,
    claim_duration_seconds=120.0,
)
_SAMPLES: dict[str, Value] = {
    type(sample).__name__: sample
    for sample in (
        _ADDED.item,
        _ADDED.event.replace(id=1),
        Added(**_ADDED.item.as_dict()),
        Edited(
            **_ADDED.item.replace(**_SAID["edit"], updated_at=_CLAIMED_AT, revision=3).as_dict(),
            before={name: getattr(_ADDED.item, name) for name in _SAID["edit"]},
        ),
        _AGENT,
        SESSION,
        CLAIM,
        _RUN,
        claiming.refused(_NOW, _CLAIMED.item, _OTHER, REFUSAL).replace(id=1),
        Detail(item=_CLAIMED.item, claim=CLAIM, runs=(_RUNNING,), notes=(_NOTE,), waiters=(_TICKET,)),
        Grant(item=_CLAIMED.item, claim=CLAIM),
        _RENEWAL,
        Heartbeat(
            session=SESSION.id,
            renewed=(_RENEWAL,),
            lost=(),
            forgotten=(),
            heartbeat_seconds=_RENEWAL.heartbeat_seconds,
        ),
        queueing.waiting(_NOW, _HELD.replace(tickets=(_TICKET,)), _TICKET),
        SoftClaim(**{name: getattr(CLAIM, name) for name in SoftClaim._fields}),
        Reason(code=REFUSAL.code, text=REFUSAL.message),
        _ENDED,
        Finished(ended=(_ENDED,), lost=()),
        SessionView(session=SESSION, claims=1, recent=(_RUNNING, EARLIER)),
        SessionEnd(session=SESSION.replace(ended_at=_NOW, end_reason="ended by its owner"), released=(CLAIM.item,)),
        Sweep(expired=(CLAIM.item,), owner_died=(), failed=()),
        HOLDING,
        STATS,
        Pulse(
            ready=[_READY],
            ready_total=1,
            active_claims=1,
            heartbeat_lag_seconds=12.5,
            sessions={"expiring": 0, "warning": 0, "orphaned": 0, "stale": 0, "healthy": 1, "idle": 1},
            waiters=0,
            conflicts_avoided=1,
        ),
        KEY,
        Prune(items=12, events=48, token_floor=3, event_floor=480),
    )
}
#: What `check` finds, if anything.
_FINDING = f"{CLAIM.item} is in progress and has no claim"


def of(answer: Any) -> Any:
    """A sample of this answer as it is sent: a model's own example, or that of the value it is made of."""
    if getattr(answer, "__origin__", None) is list:
        return [of(answer.__args__[0])]
    if answer is str:
        return _FINDING
    own = (answer.model_config.get("json_schema_extra") or {}).get("examples")
    return own[0] if own else wire.encode(_SAMPLES[answer.__name__])


def described(answer: Any) -> dict[str, Any]:
    """A good answer, as a route describes it."""
    return {"model": answer, "content": {JSON: {"example": marked(of(answer))}}}
