"""Answers as short data, for models: what `--brief` prints and the tools of MCP answer.

A model reads every byte of an answer. So a view has what the next step needs, leaves out what is empty or the default,
and keeps the names and the numbers of the full JSON. Text that people or other agents wrote stands under `data` or as
`title`, inside of a JSON string, so that it cannot be taken for a part of the answer.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.model import (
    DEFAULT_PRIORITY,
    DEFAULT_PROJECT,
    DEFAULT_TYPE,
    Added,
    Approval,
    Blocker,
    Claim,
    Detail,
    Edited,
    Ended,
    Grant,
    Heartbeat,
    Holding,
    Item,
    Lost,
    Previous,
    Renewal,
    Run,
    Waiting,
)
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

#: How many of the latest runs and notes an item in full has.
RUNS_SHOWN = 3
NOTES_SHOWN = 5
#: The most characters of resources in a claim and in a line of `who`; an item in full has all of them.
RESOURCE_CHARS_MAX = 200
#: The most characters of the links of the previous run, and of its reason and each of its notes, in a claim.
LINKS_CHARS_MAX = 2000
PREVIOUS_CHARS_MAX = 4000
#: The keys of a payload that hold an item as another tracker exported it: see `maintenance.beads`.
IMPORTED = frozenset({"beads", "beads_import"})
DEFAULTS = {"type": DEFAULT_TYPE, "project": DEFAULT_PROJECT, "priority": DEFAULT_PRIORITY}

#: What to do after a refusal, by its code. Verbs have the same names as commands and as tools.
REMEDIES = {
    "TASK_NOT_FOUND": "list shows the ids",
    "SESSION_NOT_FOUND": "next or claim begins a session",
    "TASK_ALREADY_CLAIMED": "next gives other work; wait queues for this item",
    "TASK_NOT_CLAIMED": "stop working on it, or claim it first",
    "TASK_NOT_CLAIMABLE": "next gives other work; why has every reason",
    "NOT_CLAIM_OWNER": "stop working on it; next gives other work",
    "CLAIM_EXPIRED": "stop working on it; next gives other work",
    "TASK_CHANGED": "show it again, then decide again",
    "AGENT_AT_CAPACITY": "finish or release an item that you hold; who shows them",
    "RESOURCE_BUSY": "next gives other work",
    "RATE_LIMITED": "try again later",
    "FORBIDDEN": "leave this to a person",
    "NOT_TRUSTED": "ask a person",
    "UNAUTHENTICATED": "ask a person for a key",
    "INVALID": "correct it and try again",
    "STORE_UNAVAILABLE": "try again later; if it stays so, tell a person",
}


def encode(value: object, name: str = "") -> Any:
    """A value, a collection of values or plain data, as short plain data. An instant is known by its name."""
    view = _VIEWS.get(type(value))
    if view is not None:
        return view(value)
    if isinstance(value, dict):
        # An empty list is an answer here: nothing to claim, no item that matches.
        return {key: encode(inner, key) for key, inner in value.items() if inner is not None and inner is not False}
    if isinstance(value, list | tuple):
        return [encode(inner, name) for inner in value]
    return _without_empty(wire.encode(value, name))


def handed(grant: Grant) -> Data:
    """A claim that was handed over: another session holds it, and its token is none of the caller's."""
    return {"handed": grant.item.id, "to": grant.claim.session, "agent": grant.claim.agent}


def error(refusal: DibsError) -> Data:
    """A refusal: its code, what is wrong, and what to do."""
    facts = {name: refusal.facts[name] for name in ("field", "retry_after_seconds") if name in refusal.facts}
    remedy = refusal.facts.get("do") or REMEDIES.get(refusal.code)
    return _given(error=refusal.code, message=refusal.message, do=remedy, **wire.encode(facts))


def _given(**fields: Any) -> Data:
    """The fields that say something. A zero does."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ("", [], {})
    }


def _without_empty(data: Any) -> Any:
    if isinstance(data, dict):
        return _given(**{name: _without_empty(value) for name, value in data.items()})
    return [_without_empty(value) for value in data] if isinstance(data, list) else data


def _seconds(milliseconds: int) -> int:
    return round(milliseconds / 1000)


def _words(item: Item) -> Data:
    """What the item is filed under, without defaults."""
    words = _given(type=item.type, priority=item.priority, project=item.project, labels=list(item.labels))
    return {name: value for name, value in words.items() if value != DEFAULTS.get(name)}


def _text(item: Item, **more: Any) -> Data:
    payload = {name: value for name, value in item.payload.items() if name not in IMPORTED}
    return _given(title=item.title, subject=item.subject, body=item.body, payload=payload, **more)


def _resources(item: Item) -> Data:
    """The first resources, and how many more there are."""
    shown, left = list[str](), RESOURCE_CHARS_MAX
    for resource in item.resources:
        left -= len(resource)
        if left < 0:
            break
        shown.append(resource)
    return _given(resources=shown, more_resources=len(item.resources) - len(shown) or None)


def _row(item: Item) -> Data:
    waits = _given(
        needs=list(item.depends_on) if item.status == "blocked" else [],
        not_before=wire.encode(item.not_before, "not_before") if item.status == "scheduled" else None,
        offered_to=item.offered_to,
    )
    return {"id": item.id, "status": item.status, **_words(item), **waits, "title": item.title}


def _grant(grant: Grant) -> Data:
    item, claim = grant.item, grant.claim
    previous = grant.previous and _previous(grant.previous)
    text = _text(item, **_resources(item), previous=previous, approval=_approval(grant.approval))
    return {
        "claimed": item.id,
        "token": claim.token,
        "remaining_seconds": _seconds(claim.expires_at - claim.renewed_at),
        **_given(renewed=grant.renewed),
        **_words(item),
        "data": text,
    }


def _previous(previous: Previous) -> Data:
    run, notes = previous.run, [_shortened(note.note) for note in previous.notes[-NOTES_SHOWN:]]
    said = _given(reason=run.reason and _shortened(run.reason), comment=previous.comment, notes=notes)
    return {"agent": run.agent, "outcome": run.outcome, **said, **_links(run)}


def _shortened(text: str) -> str:
    """The beginning and the end of a long text."""
    left_out, half = len(text) - PREVIOUS_CHARS_MAX, PREVIOUS_CHARS_MAX // 2
    return text if left_out <= 0 else f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


def _links(run: Run) -> Data:
    """The links that fit, and how many more there are."""
    shown: Data = {}
    left = LINKS_CHARS_MAX
    for name, value in run.links.items():
        size = len(json_text.dumps({name: value}))
        if size <= left:
            shown[name], left = value, left - size
    return _given(links=shown, more_links=len(run.links) - len(shown) or None)


def _approval(approval: Approval | None) -> Data | None:
    if approval is None:
        return None
    return _given(by=approval.actor, comment=approval.comment, draft=approval.run and approval.run.draft)


def _ended(ended: Ended) -> Data:
    return {"item": ended.item.id, "outcome": ended.run.outcome, "status": ended.item.status}


def _renewal(renewal: Renewal) -> Data:
    left = {"remaining_seconds": round(renewal.remaining_seconds)}
    return {"item": renewal.item, "token": renewal.token, **left, **_given(warning=renewal.warning)}


def _lost(lost: Lost) -> Data:
    return {"item": lost.item, "how": lost.how, **_given(holder=lost.holder and lost.holder["agent"])}


def _heartbeat(beat: Heartbeat) -> Data:
    return {"renewed": encode(beat.renewed), **_given(lost=encode(beat.lost), forgotten=list(beat.forgotten))}


def _holder(claim: Claim) -> Data:
    return {"agent": claim.agent, "session": claim.session}


def _waiting(waiting: Waiting) -> Data:
    place = {"item": waiting.ticket.item, "ticket": waiting.ticket.id}
    place |= {"position": waiting.position, "status": waiting.status}
    return place | _given(
        offered=waiting.offered, closed=waiting.ticket.reason, holder=waiting.claim and _holder(waiting.claim)
    )


def _changed(item: Added | Edited) -> Data:
    blockers = [blocker.item for blocker in item.blockers]
    existed = isinstance(item, Added) and item.existed
    return {"id": item.id, "status": item.status, **_given(existed=existed, blocked_by=blockers)}


def _holding(holding: Holding) -> Data:
    claim = holding.claim or holding.soft
    who = {} if claim is None else {"agent": claim.agent, "session": claim.session}
    times = {
        "age_seconds": round(holding.age_seconds),
        "remaining_seconds": round(holding.remaining_seconds),
    }
    more = _given(waiters=holding.waiters, data=_resources(holding.item))
    return {"item": holding.item.id, **who, "health": holding.health, **times, **more, "title": holding.item.title}


def _run(run: Run) -> Data:
    said = _given(reason=run.reason, draft=run.draft, links=run.links, checks=run.checks)
    return {"token": run.token, "agent": run.agent, "outcome": run.outcome or "running", **_given(data=said)}


def _detail(detail: Detail) -> Data:
    item, row = detail.item, _row(detail.item)
    del row["title"]
    notes = [note.note for note in detail.notes[-NOTES_SHOWN:]]
    return {
        **row,
        **_given(
            holder=detail.claim and _holder(detail.claim),
            blocked_by=[_blocker(one) for one in detail.blockers],
            waiters=len(detail.waiters) or None,
            approved=item.approved,
            revision=item.revision if item.status == "pending_approval" else None,
            runs=[_run(run) for run in detail.runs[:RUNS_SHOWN]],
        ),
        "data": _text(item, resources=list(item.resources), notes=notes),
    }


def _blocker(blocker: Blocker) -> Data:
    return {"item": blocker.item, "status": blocker.status}


_VIEWS: dict[type, Callable[[Any], Any]] = {
    Added: _changed,
    Edited: _changed,
    Item: _row,
    Grant: _grant,
    Ended: _ended,
    Renewal: _renewal,
    Lost: _lost,
    Heartbeat: _heartbeat,
    Waiting: _waiting,
    Holding: _holding,
    Run: _run,
    Detail: _detail,
}
