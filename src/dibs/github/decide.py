"""From a fact, the policy and the item of the fact's subject to the verbs that are left to do.

The decision depends on the state alone, not on how it was reached. The item remembers in its payload, under `external`,
which version it was made from; an older fact changes nothing. It also remembers what was written: a field that a person
has changed on the board since is the person's, and stays.
"""

from __future__ import annotations

from dibs.check import ENTRIES_MAX
from dibs.github import policy as policies
from dibs.github.payload import ISSUES, WORK_STATES, WORKFLOW_RUN, Fact, digest, label_name
from dibs.model import DONE, ENDED, IN_PROGRESS, PARKED, PENDING_APPROVAL, READY
from dibs.rules.table import EXTERNAL
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.github.policy import Policy, Rule
    from dibs.model import Item

#: What the item remembers of its pull requests and their checks, the last of it as a line, and what completes the item.
PULLS, CHECKS, SAID, COMPLETE = "pull_requests", "checks", "said", "complete"
#: Where the payload's `external` has what dibs wrote to GitHub. Facts neither read nor change it.
OUT = "out"
#: The length of an instant, with which the version of an issue begins.
INSTANT_LENGTH = len("2026-11-16T09:30:00Z")


class Step(Value):
    """One verb: `add`, `edit`, `cancel`, `approve` or `finish` (to end an unclaimed item as done)."""

    verb: str
    item: str | None
    arguments: dict[str, Any]


class Decision(Value):
    """What is left to do, in this order; without steps, `why` there is nothing. `is_end`: the item would end, but there
    is none."""

    steps: tuple[Step, ...] = ()
    rule: str = ""
    why: str = ""
    is_end: bool = False


def decide(fact: Fact, policy: Policy, item: Item | None, dependents: Sequence[Item] = ()) -> Decision:
    """`dependents` are the items that are blocked by the item, if that is to end: see `frees`."""
    if policy.out.label is not None:
        # The label that dibs writes says nothing about the issue.
        own = policy.out.label.casefold()
        fact = fact.replace(labels=tuple(one for one in fact.labels if one.casefold() != own))
    rule, ruling = policy.rule(fact), policy.ruling(fact)
    if rule is None:
        return Decision(why="no rule is about it")
    if ruling is not None and ruling.do == policies.IGNORE:
        # Nor is it reprioritised or unblocked: an ignored fact leaves no version, by which an older one is known.
        return Decision(why=f"{ruling.name} ignores it")
    is_besides = rule.is_besides(fact)
    if item is None:
        return decide(fact, policy.after(rule), None) if is_besides else _without_item(fact, policy, rule)
    known = remembered(item)
    if known.get("version", "") > fact.version:
        # A label approves a text, whatever else was told of the issue meanwhile.
        late = _approve(fact, policy, item, item) if rule.do == policies.MAKE else []
        return Decision(
            steps=tuple(late), rule=rule.name, why="" if late else f"{item.id} was made from a newer version"
        )
    if rule.do == policies.MAKE:
        steps = _follow(fact, policy, rule, item, known)
    elif rule.do == policies.REPRIORITISE:
        steps = _reprioritise(rule, item, known)
    else:
        steps = [_edit(one, depends_on=[id for id in one.depends_on if id != item.id]) for one in dependents]
        steps += [] if is_besides else _end(fact, rule, item, known)
    if is_besides and not steps:
        return decide(fact, policy.after(rule), item, dependents)
    return Decision(steps=tuple(steps), rule=rule.name, why="" if steps else f"{item.id} is up to date")


def frees(fact: Fact, policy: Policy, item: Item) -> bool:
    """Whether what depends on the item waits for it no more. Of an item that its holder may still give back, and that
    is cancelled then, the success that closes it has to free them now."""
    rule = policy.rule(fact)
    if rule is None or rule.do == policies.UNBLOCK:
        return rule is not None
    if rule.is_besides(fact):
        return frees(fact, policy.after(rule), item)
    return rule.do == policies.CLOSE and item.status == IN_PROGRESS


def approval(fact: Fact, policy: Policy) -> str:
    """What is recorded of a label that approves. It is that of one instant: each approves once."""
    at = fact.version[:INSTANT_LENGTH]
    return f"labeled {policy.approve_label} by {fact.approved_by} on GitHub at {at}"


def remembered(item: Item) -> dict[str, Any]:
    """What the item was last made from; nothing, if another program wrote it in another shape."""
    known = {name: value for name, value in external_of(item).items() if name != OUT}
    is_ours = isinstance(known.get("version", ""), str) and isinstance(known.get("labels", []), list)
    return known if is_ours else {}


def external_of(item: Item) -> dict[str, Any]:
    found = item.payload.get(EXTERNAL)
    return found if isinstance(found, dict) else {}


def kept(item: Item, found: dict[str, Any]) -> dict[str, Any]:
    """What is to stand under `external`, with what dibs wrote to GitHub."""
    out = external_of(item).get(OUT)
    return _without_none({**found, OUT: out})


def new_item(fact: Fact, policy: Policy, rule: Rule) -> dict[str, Any]:
    """The fields of the item of a fact."""
    priority, label = policy.priority(fact, rule)
    labels = _labels(fact, rule)
    external = _external(fact, priority, labels)
    if rule.complete is not None:
        external[COMPLETE] = rule.complete
    return {
        "title": fact.title,
        "body": fact.body,
        "type": rule.type,
        "project": policy.project(fact, rule),
        "priority": priority,
        "labels": labels,
        "payload": {**_details(fact, label), EXTERNAL: external},
        "subject": fact.subject,
        "needs_approval": fact.is_outsiders and policy.outsiders == policies.APPROVAL,
        "review": policy.contract(rule) != policies.NEVER,
    }


def _without_item(fact: Fact, policy: Policy, rule: Rule) -> Decision:
    if rule.do != policies.MAKE:
        return Decision(rule=rule.name, why=f"no item has the subject {fact.subject}", is_end=True)
    if fact.is_outsiders and policy.outsiders == policies.IGNORE:
        return Decision(rule=rule.name, why=f"{fact.author} is no member, and outsiders are ignored")
    return Decision(steps=(Step(verb="add", item=None, arguments=new_item(fact, policy, rule)),), rule=rule.name)


def _follow(fact: Fact, policy: Policy, rule: Rule, item: Item, known: dict[str, Any]) -> list[Step]:
    """The item of a subject that is to be worked on."""
    if item.status in ENDED:
        if _is_again(fact, item, known):
            # One subject, one item: the old one gives the subject up.
            retired = f"{fact.subject}@{known['version'][:INSTANT_LENGTH]}"
            return [
                _edit(item, subject=retired),
                Step(verb="add", item=None, arguments=new_item(fact, policy, rule)),
            ]
        return _remember(item, known, {**known, **_external(fact), **dict.fromkeys(("note", "over"))})
    changes = _changes(fact, policy, rule, item, known)
    after = item.replace(**{name: value for name, value in changes.items() if name in ("title", "body", "payload")})
    return [*([_edit(item, **changes)] if changes else []), *_approve(fact, policy, item, after)]


def _approve(fact: Fact, policy: Policy, item: Item, after: Item) -> list[Step]:
    """The approval by a label, if nobody has worked on the item and it has the text and the code that were approved."""
    is_unread = item.status == PENDING_APPROVAL and item.attempts == 0
    approved, there = (fact.title, fact.body, fact.sha), (after.title, after.body, after.payload.get("sha", fact.sha))
    if not fact.approved_by or not is_unread or approved != there:
        return []
    arguments = {"comment": approval(fact, policy), "revision": item.revision}
    return [Step(verb="approve", item=item.id, arguments=arguments)]


def _is_again(fact: Fact, item: Item, known: dict[str, Any]) -> bool:
    """Whether there is something to do again: it was over and is not, or what is said to be done fails once more."""
    if known.get("version", "") >= fact.version or not known:
        return False
    fails_again = fact.event == WORKFLOW_RUN and item.status == DONE
    return fails_again or known.get("ended") is True or known.get("state") not in WORK_STATES


def _changes(fact: Fact, policy: Policy, rule: Rule, item: Item, known: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    priority, label = policy.priority(fact, rule)
    if known.get("priority") == item.priority != priority:
        changes["priority"] = priority
    labels = _labels(fact, rule)
    own = [one for one in item.labels if one not in known.get("labels", ())]
    merged = [*own, *(one for one in labels if one not in own)][:ENTRIES_MAX]
    if sorted(merged) != sorted(item.labels):
        changes["labels"] = merged
    text: dict[str, Any] = {}
    if item.title == item.payload.get("title") and item.title != fact.title:
        text["title"] = fact.title
    if digest(item.body) == known.get("body") and item.body != fact.body:
        text["body"] = fact.body
    followed = {name: known[name] for name in (PULLS, CHECKS, SAID, COMPLETE) if name in known}
    external = {**followed, **_external(fact, priority, labels)}
    if "version" not in known:
        # An agent may have claimed the subject before GitHub told of it.
        external[COMPLETE] = rule.complete
        changes |= {"review": True} if policy.contract(rule) != policies.NEVER and not item.review else {}
    # What was not written from GitHub in the first place is the board's own.
    external |= {name: None for name in ("priority", "body") if name not in known}
    details = _details(fact, label)
    is_other = bool(text) or item.payload.get("sha", fact.sha) != fact.sha
    if item.approved and not is_other:
        details = {}  # only text and code were approved, and they are the same
    if is_other and item.approved and item.status in (IN_PROGRESS, PENDING_APPROVAL):
        # The holder, or who reviews its result, goes on with what was approved. The version stays, so that the next
        # look brings the new text.
        note = "its text or its code was changed on GitHub after it was approved"
        external, details = {**known, "note": note, "over": None}, {}
    else:
        changes |= text
    payload = {**item.payload, **details, EXTERNAL: kept(item, external)}
    return changes if not changes and _is_same(item.payload, payload) else {**changes, "payload": payload}


def _end(fact: Fact, rule: Rule, item: Item, known: dict[str, Any]) -> list[Step]:
    """The item of a subject that is over, or that a rule ends: an unclaimed item ends, the holder of a claimed one
    decides."""
    why = f"ended by {rule.name}" if fact.is_work else f"{fact.state} on GitHub"
    is_held = item.status == IN_PROGRESS
    is_drafted = item.status == PENDING_APPROVAL and item.attempts > 0
    note = f"{why} while it was held; its holder decides" if is_held else None
    if is_drafted:
        note = f"{why} while its draft waited for approval"
    reason = why + (f": {fact.url}" if fact.url else "")
    # The board cancels an item with `over` when its holder lets go of it.
    over = reason if is_held or is_drafted else None
    ended = True if fact.is_work else None
    steps = _remember(item, known, {**known, **_external(fact), "note": note, "over": over, "ended": ended})
    if item.status in ENDED or is_held or is_drafted:
        return steps
    ends = rule.do == policies.CLOSE and item.status in (READY, PARKED, PENDING_APPROVAL)
    arguments = {"reason": reason, "revision": item.revision, "status": item.status, "url": fact.url}
    return [*steps, Step(verb="finish" if ends else "cancel", item=item.id, arguments=arguments)]


def _reprioritise(rule: Rule, item: Item, known: dict[str, Any]) -> list[Step]:
    """Once: a person may choose another priority afterwards."""
    if item.status in ENDED or known.get("priority") == rule.priority:
        return []
    payload = {**item.payload, EXTERNAL: kept(item, {**known, "priority": rule.priority})}
    return [_edit(item, priority=rule.priority, payload=payload)]


def _remember(item: Item, known: dict[str, Any], external: dict[str, Any]) -> list[Step]:
    payload = {**item.payload, EXTERNAL: kept(item, external)}
    return [] if _is_same(item.payload, payload) else [_edit(item, payload=payload)]


def _is_same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether nothing changed but the rank within one second, which is not worth an event."""
    before, after = old.get(EXTERNAL, {}), new[EXTERNAL]
    if not isinstance(before, dict):
        return False
    versions = [str(one.get("version", ""))[:INSTANT_LENGTH] for one in (before, after)]
    return versions[0] == versions[1] and {**old, EXTERNAL: {**before, "version": ""}} == {
        **new,
        EXTERNAL: {**after, "version": ""},
    }


def _edit(item: Item, **changes: Any) -> Step:
    return Step(verb="edit", item=item.id, arguments={**changes, "revision": item.revision})


def _labels(fact: Fact, rule: Rule) -> list[str]:
    names = [name for label in fact.labels if (name := label_name(label))]
    return list(dict.fromkeys([*rule.add_labels, *names]))[:ENTRIES_MAX]


def _details(fact: Fact, label: str | None) -> dict[str, Any]:
    """What the item is about, in the words of the contract that dibs implements."""
    if fact.event == WORKFLOW_RUN:
        return {
            "event_type": "workflow_run.failed",
            "workflow": fact.workflow,
            "branch": fact.branch,
            "sha": fact.sha,
            "title": fact.title,
        }
    found: dict[str, Any] = {
        "event_type": f"{fact.event}.{'labeled' if fact.labels else 'opened'}",
        "issue_number": fact.number,
        "label": label or next(iter(fact.labels), None),
        "title": fact.title,
    }
    return found if fact.event == ISSUES else {**found, "branch": fact.branch, "base": fact.base, "sha": fact.sha}


def _external(fact: Fact, priority: int | None = None, labels: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": "github",
        "event": fact.event,
        "repository": fact.repository,
        "state": fact.state,
        "version": fact.version,
        "url": fact.url,
        "author": fact.author or None,
    }
    if labels is not None:
        found |= {"priority": priority, "labels": list(labels), "body": digest(fact.body)}
    return _without_none(found)


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
