"""Issues of beads as items, and items as issues: JSON lines, as `bd export` writes them and `bd import` reads them.

Fields that an item has no place for travel in its payload, under `beads`, and return to the file with it. An issue that
nobody changed on the board is written as it was read.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from dibs import check
from dibs.errors import Invalid
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, PARKED, REJECTED
from dibs.text import priorities, times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dibs.model import Item

    Issue = dict[str, Any]

#: The key of an item's payload under which the other fields of its issue are.
KEPT = "beads"
#: The key under which the digest of its whole issue is: whether an export says anything new.
DIGEST = "beads_digest"
CLOSED, DEFERRED, OPEN, HELD = "closed", "deferred", "open", ("in_progress", "hooked")
EPIC = "epic"
#: Dependencies that keep an issue from being ready; the others are relations.
BLOCKING = ("blocks", "conditional-blocks", "waits-for")
#: The sections of an item's body, after the description, that are fields of an issue.
SECTIONS = {"design": "Design", "acceptance_criteria": "Acceptance criteria", "notes": "Notes"}
#: What an item has of an issue. The sections are kept besides, so that an export can tell them from the description.
CARRIED = frozenset({"id", "title", "description", "priority", "labels"})
#: The fields of an issue that an item has no use for, but that lose nothing while they are in its payload.
UNREMARKABLE = frozenset({*SECTIONS, "_type", "status", "issue_type", "defer_until", "dependencies"})
UNREMARKABLE |= {"created_at", "created_by", "updated_at", "closed_at", "close_reason", "content_hash"}
#: Lines that are not work: what tells them, and what they are called in the report.
NOT_WORK = {"is_template": "template", "ephemeral": "ephemeral", "pinned": "pinned"}
NOT_WORK_TYPES = frozenset({"message", "event", "gate", "agent", "role", "rig", "slot", "molecule", "convoy"})
DELETED = "tombstone"
#: An item that is to be parked becomes ready only so much later, so that nobody claims it before it is parked.
PARKING_MS = 600_000
#: How each status of an item that ended, or that people have to look at, is written.
STATUS_WORDS = {IN_PROGRESS: HELD[0], PARKED: DEFERRED, FAILED: "blocked"}
STATUS_WORDS |= {DONE: CLOSED, REJECTED: CLOSED, CANCELLED: CLOSED}
#: How our numbers become P0 to P4: the first that a priority reaches.
_LEVELS = tuple((priorities.NAMES[f"p{level}"], level) for level in range(4))
LEVEL_LOWEST = 4


class Import(Value):
    """Items to add, in the order of the file; of them, those that end as done and those that are parked."""

    items: tuple[dict[str, Any], ...]
    done: frozenset[str]
    parked: frozenset[str]
    #: What was left out, and what an item has no place for: how many lines of each.
    skipped: dict[str, int]
    kept: dict[str, int]


def read(lines: Iterable[bytes], known: frozenset[str], now: int) -> Import:
    """The items of a file. `known` are the ids on the board. An item that is to be parked is not ready when `now` is
    the time."""
    skipped: Counter[str] = Counter()
    issues = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            issue = _parse(line, number)
            reason = _reason_to_skip(issue)
            skipped.update([reason] if reason else [])
            issues += [] if reason else [(number, issue)]
    ids = known | {issue["id"] for _, issue in issues}
    kept: Counter[str] = Counter()
    items, done, parked = [], set(), set()
    for number, issue in issues:
        try:
            items.append(_item(issue, ids, kept, now))
        except Invalid as error:
            raise Invalid(f"line {number}: {error.message}; nothing was added", field="file", line=number) from error
        if issue.get("status") == CLOSED:
            done.add(issue["id"])
        elif is_parked(issue):
            parked.add(issue["id"])
    return Import(
        items=tuple(items),
        done=frozenset(done),
        parked=frozenset(parked),
        skipped=dict(sorted(skipped.items())),
        kept=dict(sorted(kept.items())),
    )


def is_parked(issue: Mapping[str, Any]) -> bool:
    """An epic is not work, its children are; what was deferred without a time waits for a person."""
    return issue.get("issue_type") == EPIC or (issue.get("status") == DEFERRED and not issue.get("defer_until"))


def _parse(line: bytes, number: int) -> Issue:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"line {number} is not JSON: {error}; nothing was added", field="file", line=number) from error
    if not isinstance(found, dict) or not isinstance(found.get("id"), str) or not isinstance(found.get("title"), str):
        problem = f"line {number} is not an issue of beads: an object with an id and a title"
        raise Invalid(f"{problem}; nothing was added", field="file", line=number)
    return found


def _reason_to_skip(issue: Issue) -> str | None:
    if issue.get("_type", "issue") != "issue":
        return str(issue["_type"])
    if issue.get("status") == DELETED:
        return "deleted"
    if issue.get("issue_type") in NOT_WORK_TYPES:
        return str(issue["issue_type"])
    return next((word for field, word in NOT_WORK.items() if issue.get(field)), None)


def _item(issue: Issue, ids: frozenset[str], kept: Counter[str], now: int) -> dict[str, Any]:
    """The fields of an item; counts in `kept` what only its payload has."""
    level = issue.get("priority", 2)
    if level not in range(LEVEL_LOWEST + 1):
        raise Invalid(f"priority {level!r} is not one of 0 (highest) to {LEVEL_LOWEST}", field="priority")
    labels = [label for label in issue.get("labels") or () if _is_name(label)][: check.ENTRIES_MAX]
    needs = [id for id in _blockers(issue) if id in ids and id != issue["id"]][: check.ENTRIES_MAX]
    kind = issue.get("issue_type") or "task"
    fields: dict[str, Any] = {
        "id": issue["id"],
        "title": issue["title"],
        "body": (issue.get("description") or "") + _sections(issue),
        "type": kind if _is_name(kind) else "task",
        "priority": priorities.NAMES[f"p{level}"],
        "labels": labels,
        "depends_on": needs,
        "not_before": now + PARKING_MS if is_parked(issue) else _instant(issue),
        "needs_approval": issue.get("status") == CLOSED,
        "payload": {
            KEPT: {name: value for name, value in issue.items() if name not in CARRIED},
            DIGEST: _digest(issue),
        },
    }
    if len(labels) < len(issue.get("labels") or ()):
        fields["payload"][KEPT]["labels"] = issue["labels"]
        kept["labels that are not names"] += 1
    kept.update(name for name, value in issue.items() if name not in CARRIED | UNREMARKABLE and value)
    kept.update({f"dependencies: {kind}" for kind, _ in _relations(issue)})
    kept["dependencies on issues that are not here"] += len(set(_blockers(issue)) - ids) > 0
    kept[f"status {issue.get('status')}"] += issue.get("status", OPEN) not in (OPEN, CLOSED, DEFERRED)
    for name in [name for name, count in kept.items() if not count]:
        del kept[name]
    check.new_item(fields)
    return fields


def _is_name(given: object) -> bool:
    try:
        return bool(check.name(given, "label"))
    except Invalid:
        return False


def _sections(issue: Mapping[str, Any]) -> str:
    return "".join(f"\n\n## {title}\n\n{issue[name]}" for name, title in SECTIONS.items() if issue.get(name))


def _instant(issue: Issue) -> int | None:
    given = issue.get("defer_until")
    return times.parse_instant(given, "defer_until") if isinstance(given, str) and given else None


def _edges(issue: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = issue.get("dependencies") or []
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and isinstance(one.get("depends_on_id"), str) for one in given
    ):
        raise Invalid("dependencies must be a list of objects with depends_on_id", field="dependencies")
    return given


def _blockers(issue: Mapping[str, Any]) -> list[str]:
    found = [one["depends_on_id"] for one in _edges(issue) if one.get("type", BLOCKING[0]) in BLOCKING]
    return list(dict.fromkeys(found))


def _relations(issue: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (str(one["type"]), one["depends_on_id"]) for one in _edges(issue) if one.get("type") not in (None, *BLOCKING)
    ]


def issue(item: Item, ids: frozenset[str], holder: str | None) -> Issue:
    """An item as an issue. `ids` are all ids on the board, `holder` is the agent that works on this one."""
    kept = item.payload.get(KEPT)
    was: Issue = kept if isinstance(kept, dict) else {}
    sections = _sections(was)
    is_split = bool(sections) and item.body.endswith(sections)
    made: Issue = {name: value for name, value in was.items() if name not in (() if is_split else SECTIONS)}
    for name in ("dependencies", "closed_at", "close_reason", "assignee"):
        made.pop(name, None)
    made |= {"id": item.id, "title": item.title, "priority": level(item.priority)}
    made |= _given("description", item.body.removesuffix(sections) if is_split else item.body)
    made |= _given("labels", was.get("labels") or list(item.labels))
    made |= _given("dependencies", _dependencies(item, was, ids))
    made["issue_type"] = was.get("issue_type", item.type)
    created, updated = times.iso(item.created_at), times.iso(item.updated_at)
    made |= {"created_at": was.get("created_at", created), "created_by": was.get("created_by", item.created_by)}
    made |= _status(item, was, holder, updated)
    if item.payload.get(DIGEST) != _digest(made):
        made["updated_at"] = updated
    return made


def _digest(issue: Issue) -> str:
    """Of an issue as it is compared: apart from when it was updated."""
    content = {name: value for name, value in issue.items() if name != "updated_at"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def level(priority: int) -> int:
    return next((level for number, level in _LEVELS if priority >= number), LEVEL_LOWEST)


def _given(name: str, value: Any) -> Issue:
    return {name: value} if value else {}


def _status(item: Item, was: Issue, holder: str | None, updated: str) -> Issue:
    """The status and the fields that go with it; of an item that nobody has claimed, as they were in the file."""
    word = STATUS_WORDS.get(item.status, OPEN)
    before = was.get("status", OPEN)
    if item.token == 0 and word == (CLOSED if before == CLOSED else DEFERRED if is_parked(was) else OPEN):
        word = before
    made = {"status": word, **_given("assignee", holder or was.get("assignee"))}
    if word == CLOSED:
        reason = was.get("close_reason") or (item.status if item.status != DONE else "")
        made |= {"closed_at": was.get("closed_at", updated), **_given("close_reason", reason)}
    return made


def _dependencies(item: Item, was: Issue, ids: frozenset[str]) -> list[dict[str, Any]]:
    """Those of the file that still hold, or that the board has no place for, and those that were added here."""
    old = [
        one
        for one in _edges(was)
        if one.get("type", BLOCKING[0]) not in BLOCKING
        or one["depends_on_id"] not in ids
        or one["depends_on_id"] in item.depends_on
        or len(item.depends_on) >= check.ENTRIES_MAX
    ]
    have = set(_blockers({"dependencies": old}))
    new = [id for id in item.depends_on if id not in have]
    return old + [{"issue_id": item.id, "depends_on_id": id, "type": BLOCKING[0]} for id in new]
