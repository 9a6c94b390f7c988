"""Examples for the OpenAPI document: a request for each verb, and an answer of each type.

The requests can be sent as they are to a board with these items. The rules compute the answers from the requests, in
one story: a session adds, claims and finishes an item while another session waits for it.
"""

from __future__ import annotations

from typing import Any

from dibs import model
from dibs.config import DEFAULTS
from dibs.model import ADMIN, STATUSES, dashboard, webhooks
from dibs.rules import claiming, ending, fencing, health, items, queueing
from dibs.rules.decision import State
from dibs.server.api.schemas import NOON
from dibs.text import times, wire
from dibs.value import Value

_ME = "coder-1"
_BY_HOLDER = {"session": _ME, "token": 1}

#: For each verb with a body or a query.
REQUESTS: dict[str, dict[str, Any]] = {
    "add": {"id": "fix-login", "title": "Fix the login", "type": "bug", "priority": 8, "labels": ["web"]},
    "add_many": {"items": [{"id": "plan", "title": "Plan"}, {"id": "build", "title": "Build", "depends_on": ["plan"]}]},
    "bulk": {"verb": "park", "args": {"reason": "later"}, "items": [{"id": "fix-login", "revision": 4}]},
    "list": {"statuses": ["ready"], "limit": 50},
    "edit": {"priority": 9},
    "park": {"reason": "later"},
    "cancel": {"reason": "a duplicate"},
    "retry": {"reason": "the network is back"},
    "reopen": {"reason": "it fails on Windows"},
    "approve": {"comment": "go ahead", "revision": 4},
    "send_back": {"comment": "shorter, please"},
    "reject": {**_BY_HOLDER, "reason": "we do not do that"},
    "annotate": {"session": _ME, "links": {"pr": "https://example.org/pull/7"}, "checks": {"ci": "passed"}},
    "force_release": {"reason": "its machine is gone"},
    "set_agent": {"types": ["bug"], "max_claims": 2},
    "start_session": {"agent": "coder", "id": _ME, "kind": "autonomous"},
    "sessions": {"ended": False},
    "add_webhook": {"url": "https://example.org/hook", "kinds": ["claimable", "expired"], "projects": ["web"]},
    "change_webhook": {"enabled": False},
    "send_webhook": {"event": 7},
    "claim": {"session": _ME},
    "recover": _BY_HOLDER,
    "next": {"session": _ME, "types": ["bug"], "n": 1},
    "heartbeat": {"session": _ME, "holding": {"fix-login": 1}, "meta": {"context_percent": 40}},
    "renew": _BY_HOLDER,
    "progress": {**_BY_HOLDER, "note": "the cause is in auth.py"},
    "claim_subject": {"subject": "github:acme/shop#12", "session": _ME, "title": "Fix the login", "type": "bug"},
    "hand": {**_BY_HOLDER, "to": "fixer-1", "reason": "the tests are written"},
    "release": {**_BY_HOLDER, "reason": "needs a designer"},
    "done": {**_BY_HOLDER, "links": {"pr": "https://example.org/pull/7"}},
    "done_many": {"session": _ME, "holding": {"fix-login": 1}},
    "fail": {**_BY_HOLDER, "reason": "cannot be reproduced"},
    "submit": {**_BY_HOLDER, "draft": "Dear customer, ..."},
    "sweep": {"limit": 100},
    "wait": {"session": _ME, "ttl_seconds": 60},
    "leave": {"session": _ME},
    "ticket": {"session": _ME},
    "soft_claim": {"session": _ME},
    "soft_release": {"session": _ME},
    "why": {"session": _ME},
    "events": {"after": 0, "limit": 100},
    "runs": {"agent": "coder", "limit": 20},
    "activity": {"limit": 20},
    "window": {"from": "2026-11-15T12:00:00Z", "limit": 1000},
    "series": {"from": "2026-11-15T12:00:00Z", "to": "2026-11-15T16:00:00Z", "step": 600},
    "ids": {"prefix": "fix", "limit": 20},
    "preview": {"session": _ME, "labels": ["web"], "n": 3},
    "page": {"status": ["ready"], "q": "login", "sort": "updated", "limit": 50},
}

_AT = times.parse_instant(NOON)
_CLAIMED_AT, _NOW = _AT + 60_000, _AT + 180_000

SESSION = model.Session(**REQUESTS["start_session"], host="build-7", started_at=_AT, seen_at=_CLAIMED_AT)
_OTHER = model.Session(id="fixer-1", agent="fixer", started_at=_AT, seen_at=_NOW)
_AGENT = model.Agent(
    name=SESSION.agent,
    types=tuple(REQUESTS["set_agent"]["types"]),
    max_claims=REQUESTS["set_agent"]["max_claims"],
    created_at=_AT,
    updated_at=_AT,
)
_ADDED = items.add(
    _AT,
    model.NewItem(**{**REQUESTS["add"], "labels": tuple(REQUESTS["add"]["labels"])}),
    actor=SESSION.agent,
    token_floor=0,
)
_CLAIMED = claiming.grant(_CLAIMED_AT, State(item=_ADDED.item), SESSION, DEFAULTS.ttl_seconds)
assert _CLAIMED.claim is not None
CLAIM = fencing.renew(_CLAIMED.claim, _NOW)
_RUNNING = _CLAIMED.run
assert _RUNNING is not None
_STATE = _CLAIMED.after(State(item=_ADDED.item)).replace(claim=CLAIM)
_DONE = ending.done(_NOW, _STATE, CLAIM, note=None, links=REQUESTS["done"]["links"], cost={})
assert _DONE.run is not None
_RUN = _DONE.run
#: An earlier run of the session.
EARLIER = _RUN.replace(item=REQUESTS["add_many"]["items"][0]["id"], started_at=_AT, ended_at=_CLAIMED_AT)
_NOTE = model.Note(at=_NOW, note=REQUESTS["progress"]["note"])
_TICKET = queueing.wait(_NOW, _STATE, _OTHER, None, DEFAULTS).replace(id=1)
_RENEWAL = fencing.renewal(CLAIM, _NOW, DEFAULTS)
_ENDED = model.Ended(item=_DONE.item, run=_RUN)
_READY = {"type": _ADDED.item.type, "priority": _ADDED.item.priority, "count": 1}
#: The refusal that another session gets while the item is claimed.
REFUSAL = claiming.already_claimed(_NOW, CLAIM)
_WEBHOOK = webhooks.Webhook(
    id="wh-5f0c2a91d3",
    url=REQUESTS["add_webhook"]["url"],
    kinds=tuple(REQUESTS["add_webhook"]["kinds"]),
    projects=("web",),
    created_by="ann",
    created_at=_AT,
    cursor=6,
)
KEY = model.Key(id="3f9a1c", role=ADMIN, agent=SESSION.agent, digest="", created_at=_AT)
HOLDING = model.Holding(
    item=_CLAIMED.item,
    claim=CLAIM,
    kind=SESSION.kind,
    health=fencing.health(CLAIM, _NOW, DEFAULTS),
    age_seconds=(_NOW - CLAIM.claimed_at) / 1000,
    remaining_seconds=fencing.remaining_seconds(CLAIM, _NOW),
    waiters=1,
)
STATS = model.Stats(
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
    cost={"usd": 1.25, "tokens": 48200},
)
_SCORE, _REASONS = health.score(_NOW, SESSION, [CLAIM], [], DEFAULTS)
_BRIEF = dashboard.Brief(
    **{name: value for name, value in _CLAIMED.item.as_dict().items() if name in dashboard.Brief._fields}, waiters=1
)
_SEAT = dashboard.Seat(
    **{name: getattr(SESSION, name) for name in dashboard.Seat._fields if name in SESSION._fields},
    score=_SCORE,
    reasons=_REASONS,
    holding=(CLAIM.item,),
    ended={"done": 1},
    recent=tuple(
        dashboard.PastRun(item=run.item, outcome=run.outcome, started_at=run.started_at, ended_at=run.ended_at)
        for run in (_RUNNING, EARLIER)
    ),
)
_VIEW = dashboard.View(
    event=480,
    at=_NOW,
    me={"role": ADMIN, "actor": SESSION.agent},
    settings={"stale_seconds": DEFAULTS.stale_seconds, "orphan_seconds": DEFAULTS.orphan_seconds},
    counts=STATS.items,
    items=(_BRIEF,),
    holdings=(
        dashboard.Held(
            **{name: value for name, value in CLAIM.as_dict().items() if name in dashboard.Held._fields},
            kind=SESSION.kind,
            health=HOLDING.health,
            note=dashboard.Remark(at=_NOTE.at, note=_NOTE.note),
            waiters=(
                dashboard.Waiter(
                    **{name: getattr(_TICKET, name) for name in ("session", "agent", "since_at", "expires_at")}
                ),
            ),
        ),
    ),
    sessions=(_SEAT,),
    left_off=0,
)
_VALUES: dict[str, Value] = {
    type(value).__name__: value
    for value in (
        _ADDED.item,
        _ADDED.event.replace(id=1),
        model.Added(**_ADDED.item.as_dict()),
        model.Edited(
            **_ADDED.item.replace(**REQUESTS["edit"], updated_at=_CLAIMED_AT, revision=3).as_dict(),
            before={name: getattr(_ADDED.item, name) for name in REQUESTS["edit"]},
        ),
        _AGENT,
        SESSION,
        CLAIM,
        _RUN,
        claiming.refused(_NOW, _CLAIMED.item, _OTHER, REFUSAL).replace(id=1),
        model.Detail(item=_CLAIMED.item, claim=CLAIM, runs=(_RUNNING,), notes=(_NOTE,), waiters=(_TICKET,)),
        model.Grant(item=_CLAIMED.item, claim=CLAIM),
        _RENEWAL,
        model.Heartbeat(
            session=SESSION.id,
            renewed=(_RENEWAL,),
            lost=(),
            forgotten=(),
            heartbeat_seconds=_RENEWAL.heartbeat_seconds,
        ),
        queueing.waiting(_NOW, _STATE.replace(tickets=(_TICKET,)), _TICKET),
        model.SoftClaim(**{name: getattr(CLAIM, name) for name in model.SoftClaim._fields}),
        model.Reason(code=REFUSAL.code, text=REFUSAL.message),
        _ENDED,
        model.Finished(ended=(_ENDED,), lost=()),
        model.SessionView(session=SESSION, claims=1, recent=(_RUNNING, EARLIER)),
        model.SessionEnd(
            session=SESSION.replace(ended_at=_NOW, end_reason="ended by its owner"), released=(CLAIM.item,)
        ),
        model.Sweep(expired=(CLAIM.item,), owner_died=(), failed=()),
        HOLDING,
        STATS,
        _VIEW,
        dashboard.Window(
            from_at=_AT,
            to_at=_NOW,
            runs=([_RUN.item, _RUN.token, _RUN.session, _RUN.agent, _RUN.started_at, _RUN.ended_at, _RUN.outcome],),
            refused=([_NOW, CLAIM.item, _OTHER.id, REFUSAL.code],),
            truncated=False,
        ),
        dashboard.Series(
            from_at=_AT,
            step_seconds=60.0,
            events={"claimed": [0, 1], "done": [0, 0], "failed": [0, 0], "expired": [0, 0]},
            depth={"ready": [1, 0], "in_progress": [0, 1]},
            time_to_claim={"p50": [None, 60.0], "p95": [None, 60.0]},
            duration={"p50": [None, None], "p95": [None, None]},
            cost={"usd": [0, 1.4]},
            truncated=False,
        ),
        dashboard.Bulk(
            done=(CLAIM.item,), refused=(dashboard.BulkRefusal(item="plan", code=REFUSAL.code, detail=REFUSAL.message),)
        ),
        dashboard.Paged(
            items=(_BRIEF,),
            next="-8.12",
            total=240,
            counts={"status": STATS.items, "type": {_BRIEF.type: 4}},
            left_off=0,
        ),
        model.Pulse(
            ready=[_READY],
            ready_total=1,
            active_claims=1,
            heartbeat_lag_seconds=12.5,
            sessions={"expiring": 0, "warning": 0, "orphaned": 0, "stale": 0, "healthy": 1, "idle": 1},
            waiters=0,
            conflicts_avoided=1,
            last_backup_at=_AT,
        ),
        KEY,
        _WEBHOOK,
        webhooks.NewWebhook(webhook=_WEBHOOK, secret="whsec_..."),
        webhooks.DeadLetter(
            webhook=_WEBHOOK.id, event=_CLAIMED.event, dead_at=_NOW, attempts=31, failure="503 Service Unavailable"
        ),
        webhooks.Delivery(webhook=_WEBHOOK.id, event=7, delivered=True, answer="204 No Content"),
        model.Prune(items=12, events=48, token_floor=3, event_floor=480),
    )
}


def answer_example(answer: Any) -> Any:
    """The example of a model, or that of the value which the model describes, as JSON data."""
    if getattr(answer, "__origin__", None) is list:
        return [answer_example(answer.__args__[0])]
    if answer is str:  # what `check` finds
        return f"{CLAIM.item} is in progress and has no claim"
    own = (answer.model_config.get("json_schema_extra") or {}).get("examples")
    return own[0] if own else wire.encode(_VALUES[answer.__name__])
