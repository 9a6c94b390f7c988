"""Issues of beads as items, and items as issues: JSON lines, as `bd export` writes them and `bd import` reads them.

An item keeps in its payload the fields of its issue that it has no place for (`KEPT`), and what the others became
(`IMPORTED`). So an export can tell what was changed on the board from what the file said, and an issue that nobody
changed is written as it was read: without fields that were empty, and with the default priority if it had none.
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
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from dibs.model import Item

    Issue = dict[str, Any]

KEPT, IMPORTED = "beads", "beads_import"
OPEN, BLOCKED, DEFERRED, CLOSED, DELETED = "open", "blocked", "deferred", "closed", "tombstone"
EPIC = "epic"
#: Dependencies that keep an issue from being ready; the others are relations.
BLOCKING = ("blocks", "conditional-blocks", "waits-for")
#: The sections of an item's body, after the description, that are fields of an issue. They are kept besides, so that an
#: export can tell them from the description.
SECTIONS = {"design": "Design", "acceptance_criteria": "Acceptance criteria", "notes": "Notes"}
#: What an item has of an issue, and the payload need not keep.
CARRIED = frozenset({"id", "title", "description", "priority", "labels"})
#: Kept, but nothing that a user has to be told about.
UNREMARKABLE = frozenset({*SECTIONS, "_type", "status", "issue_type", "defer_until", "dependencies"})
UNREMARKABLE |= {"created_at", "created_by", "updated_at", "closed_at", "close_reason", "content_hash"}
#: The fields that are read here, and which of them are text. Any other field may hold anything.
TEXTS = ("description", *SECTIONS, "status", "issue_type", "close_reason", "defer_until", "assignee")
TEXTS += ("_type", "created_at", "created_by", "updated_at", "closed_at")
#: Lines that are not work: the field that tells so, and the word for it in the report.
NOT_WORK = {"is_template": "template", "ephemeral": "ephemeral", "pinned": "pinned"}
NOT_WORK_TYPES = frozenset({"message", "event", "gate", "agent", "role", "rig", "slot", "molecule", "convoy"})
#: The status of an issue for each status of an item; `open` for the others.
STATUS_WORDS = {IN_PROGRESS: "in_progress", PARKED: DEFERRED, FAILED: BLOCKED}
STATUS_WORDS |= {DONE: CLOSED, REJECTED: CLOSED, CANCELLED: CLOSED}
#: Our numbers as P0 to P3, highest first; what is below all of them is P4.
_LEVELS = tuple((priorities.NAMES[f"p{level}"], level) for level in range(4))
LEVEL_LOWEST, LEVEL_DEFAULT = 4, 2
#: How many issues of a cycle a refusal names.
CYCLE_SHOWN = 5
#: When an item becomes ready that is to be parked and is not yet: never.
NEVER = check.INSTANT_MAX


class Import(Value):
    """Items to add, in the order of the file; of them, those that end as done and those that are parked."""

    items: tuple[dict[str, Any], ...]
    done: frozenset[str]
    parked: frozenset[str]
    #: What was left out, and what an item has no place for: how many lines of each.
    skipped: dict[str, int]
    kept: dict[str, int]


def read(lines: Iterable[bytes], known: frozenset[str]) -> Import:
    """The items of a file. `known` are the ids on the board."""
    skipped: Counter[str] = Counter()
    issues = _by_id(lines, skipped)
    closed = {id for id, (_, issue) in issues.items() if issue.get("status") == CLOSED}
    ids = known | issues.keys()
    kept: Counter[str] = Counter()
    items = [_at_line(number, _item, issue, ids, closed, kept) for number, issue in issues.values()]
    _refuse_cycle(items, known, {id: number for id, (number, _) in issues.items()})
    return Import(
        items=tuple(items),
        done=frozenset(closed),
        parked=frozenset(item["id"] for item in items if item["not_before"] == NEVER),
        skipped=dict(sorted(skipped.items())),
        kept={name: count for name, count in sorted(kept.items()) if count},
    )


def _by_id(lines: Iterable[bytes], skipped: Counter[str]) -> dict[str, tuple[int, Issue]]:
    """Each issue with the number of its line; counts in `skipped` what is not work."""
    found: dict[str, tuple[int, Issue]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        issue = _at_line(number, _parse, line)
        if reason := _reason_to_skip(issue):
            skipped[reason] += 1
            continue
        first, _ = found.setdefault(issue["id"], (number, issue))
        if first != number:
            problem = f"line {number}: {issue['id']} is on line {first} already; nothing was added"
            raise Invalid(problem, field="file", line=number)
    return found


def _refuse_cycle(items: list[dict[str, Any]], known: frozenset[str], lines: Mapping[str, int]) -> None:
    """Only new items can be in one: no item on the board depends on an id that the board does not have."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter({one["id"]: one["depends_on"] for one in items if one["id"] not in known}).prepare()
    except CycleError as error:
        cycle = error.args[1]
        first = min(cycle, key=lambda id: lines[id])
        others = [id for id in dict.fromkeys(cycle) if id != first]
        named = ", ".join(others[:CYCLE_SHOWN]) + (
            f" and {len(others) - CYCLE_SHOWN} more" * (len(others) > CYCLE_SHOWN)
        )
        problem = f"line {lines[first]}: {first} depends on itself, through {named}; nothing was added"
        raise Invalid(problem, field="file", line=lines[first]) from None


def _at_line(number: int, work: Callable[..., Any], *given: Any) -> Any:
    """Call `work`; a refusal names the line."""
    try:
        return work(*given)
    except Invalid as error:
        raise Invalid(f"line {number}: {error.message}; nothing was added", field="file", line=number) from error


def _parse(line: bytes) -> Issue:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not JSON: {error}", field="file") from error
    if not isinstance(found, dict):
        raise Invalid("an issue of beads is an object", field="file")
    return found if found.get("_type", "issue") != "issue" else _checked(found)


def _checked(issue: Issue) -> Issue:
    """The issue, whose fields that are read here have the types of beads."""
    for name in ("id", "title"):
        if not isinstance(issue.get(name), str):
            raise Invalid(f"an issue of beads has a text as its {name}", field=name)
    for name in TEXTS:
        if not isinstance(issue.get(name), str | None):
            raise Invalid(f"{name} must be a text", field=name)
    level = _level_of(issue)
    if type(level) is not int or not 0 <= level <= LEVEL_LOWEST:
        raise Invalid(f"priority {level!r} is not one of 0 (highest) to {LEVEL_LOWEST}", field="priority")
    labels = issue.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise Invalid("labels must be a list of texts", field="labels")
    edges = issue.get("dependencies") or []
    if not isinstance(edges, list) or not all(map(_is_edge, edges)):
        raise Invalid("dependencies must be a list of objects with depends_on_id and type", field="dependencies")
    return issue


def _is_edge(one: object) -> bool:
    return (
        isinstance(one, dict) and isinstance(one.get("depends_on_id"), str) and isinstance(one.get("type"), str | None)
    )


def _reason_to_skip(issue: Issue) -> str | None:
    if issue.get("_type", "issue") != "issue":
        return f"line of type {str(issue['_type'])[:40]}"
    if issue.get("status") == DELETED:
        return "deleted"
    if issue.get("issue_type") in NOT_WORK_TYPES:
        return str(issue["issue_type"])
    return next((word for field, word in NOT_WORK.items() if issue.get(field)), None)


def _item(issue: Issue, ids: frozenset[str], closed: set[str], kept: Counter[str]) -> dict[str, Any]:
    """The fields of an item; counts in `kept` what only its payload has."""
    status, level = issue.get("status") or OPEN, _level_of(issue)
    labels = [label for label in issue.get("labels") or () if _is_name(label)][: check.ENTRIES_MAX]
    blockers = _blockers(issue)
    needs = [id for id in blockers if id in ids and id != issue["id"]]
    kind = issue.get("issue_type") or "task"
    imported = {"type": kind if _is_name(kind) else "task", "labels": labels, "not_before": _defer_until(issue)}
    is_parked = status != CLOSED and (
        # Its children are the work; or a person has to say when, or that it is no longer blocked.
        kind == EPIC
        or (status == DEFERRED and imported["not_before"] is None)
        or (status == BLOCKED and all(id in closed for id in needs))
        or imported["not_before"] == NEVER
        or len(needs) > check.ENTRIES_MAX
    )
    if is_parked:
        imported["not_before"] = None
    content = {name: value for name, value in issue.items() if name not in CARRIED}
    if len(labels) < len(issue.get("labels") or ()):
        content["labels"] = issue["labels"]
        kept["labels that are not names, or too many"] += 1
    imported |= {"status": DONE if status == CLOSED else PARKED if is_parked else OPEN, "digest": _digest(issue)}
    fields: dict[str, Any] = {
        "id": issue["id"],
        "title": issue["title"],
        "body": (issue.get("description") or "") + _sections(issue),
        "type": imported["type"],
        "priority": priorities.NAMES[f"p{level}"],
        "labels": labels,
        "depends_on": needs[: check.ENTRIES_MAX],
        "not_before": NEVER if is_parked else imported["not_before"],
        # Only an approval ends an item that nobody has claimed; until then nobody can claim it.
        "needs_approval": status == CLOSED,
        "payload": {KEPT: content, IMPORTED: imported},
    }
    kept.update(name for name, value in issue.items() if name not in CARRIED | UNREMARKABLE and value)
    kept.update({f"dependencies of type {kind}" for kind in _relations(issue)})
    kept["dependencies on issues that are not here"] += any(id not in ids for id in blockers)
    kept[f"dependencies beyond {check.ENTRIES_MAX}"] += len(needs) > check.ENTRIES_MAX
    kept[f"status {status}"] += status not in (OPEN, CLOSED, DEFERRED)
    check.new_item(fields)
    return fields


def _is_name(given: str) -> bool:
    try:
        return bool(check.name(given, "label"))
    except Invalid:
        return False


def _sections(issue: Mapping[str, Any]) -> str:
    return "".join(f"\n\n## {title}\n\n{issue[name]}" for name, title in SECTIONS.items() if issue.get(name))


def _defer_until(issue: Issue) -> int | None:
    given = issue.get("defer_until")
    return min(NEVER, max(0, times.parse_instant(given, "defer_until"))) if given else None


def _is_blocking(edge: Mapping[str, Any]) -> bool:
    return (edge.get("type") or BLOCKING[0]) in BLOCKING


def _blockers(issue: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(one["depends_on_id"] for one in issue.get("dependencies") or () if _is_blocking(one)))


def _relations(issue: Mapping[str, Any]) -> set[str]:
    return {one["type"] for one in issue.get("dependencies") or () if not _is_blocking(one)}


def _digest(issue: Issue) -> str:
    """Of an issue as it is compared: apart from when it was updated, and with an empty field as one that is absent."""
    content = {name: value for name, value in issue.items() if name != "updated_at" and value not in (None, "", [], {})}
    content["priority"] = _level_of(issue)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def issue(item: Item, ids: frozenset[str], holder: str | None) -> Issue:
    """An item as an issue. `ids` are all ids on the board, `holder` is the agent that works on this one."""
    was, imported = _origin(item)
    sections = _sections(was)
    is_split = bool(sections) and item.body.endswith(sections)
    made: Issue = {name: value for name, value in was.items() if is_split or name not in SECTIONS}
    for name in ("labels", "dependencies", "defer_until", "closed_at", "close_reason", "assignee"):
        made.pop(name, None)
    made |= {"id": item.id, "title": item.title, "priority": _level(item.priority)}
    made |= _given("description", item.body.removesuffix(sections) if is_split else item.body)
    is_same = list(item.labels) == imported.get("labels")
    made |= _given("labels", was["labels"] if is_same and "labels" in was else list(item.labels))
    made |= _given("dependencies", _dependencies(item, was, ids))
    if item.not_before == imported.get("not_before"):
        made |= _given("defer_until", was.get("defer_until"))
    elif item.not_before is not None and item.not_before != NEVER:
        made["defer_until"] = times.iso(item.not_before)
    if item.type != imported.get("type"):
        made["issue_type"] = item.type
    made |= _status(item, was, imported, holder)
    if not was:
        made |= {"created_at": times.iso(item.created_at), "created_by": item.created_by}
    if imported.get("digest") != _digest(made):
        made["updated_at"] = times.iso(item.updated_at)
    return made


def is_closed(item: Item) -> bool:
    """Whether an export writes the item as closed."""
    return STATUS_WORDS.get(item.status) == CLOSED


def _origin(item: Item) -> tuple[Issue, dict[str, Any]]:
    """What the payload has of the issue that the item was made from. Anybody may have written it: if it is not as an
    import writes it, there is none."""
    was, imported = item.payload.get(KEPT), item.payload.get(IMPORTED)
    try:
        if isinstance(was, dict) and isinstance(imported, dict) and was.get("_type", "issue") == "issue":
            _checked({**was, "id": item.id, "title": item.title, "priority": LEVEL_DEFAULT})
            return was, imported
    except Invalid:
        pass
    return {}, {}


def _level_of(issue: Mapping[str, Any]) -> Any:
    level = issue.get("priority")
    return LEVEL_DEFAULT if level is None else level


def _level(priority: int) -> int:
    return next((level for number, level in _LEVELS if priority >= number), LEVEL_LOWEST)


def _given(name: str, value: Any) -> Issue:
    return {name: value} if value else {}


def _status(item: Item, was: Issue, imported: dict[str, Any], holder: str | None) -> Issue:
    """The status and the fields that go with it. They are those of the file while nobody has claimed the item, and it
    is still what it was imported as."""
    word = STATUS_WORDS.get(item.status, OPEN)
    as_imported = imported.get("status")
    is_same = item.token == 0 and as_imported is not None and STATUS_WORDS.get(as_imported, OPEN) == word
    made = _given("assignee", holder or was.get("assignee"))
    if is_same:
        given = {name: was.get(name) for name in ("status", "closed_at", "close_reason")}
        return made | {name: value for name, value in given.items() if value is not None}
    made["status"] = word
    if word == CLOSED:
        made["closed_at"] = times.iso(item.updated_at)
        made |= _given("close_reason", "" if item.status == DONE else item.status)
    return made


def _dependencies(item: Item, was: Issue, ids: frozenset[str]) -> list[dict[str, Any]]:
    """Those of the file that still hold, or that the board has no place for, and those that were added here."""
    is_cut = len(item.depends_on) >= check.ENTRIES_MAX
    old = [
        one
        for one in was.get("dependencies") or ()
        if not _is_blocking(one) or one["depends_on_id"] in item.depends_on or one["depends_on_id"] not in ids or is_cut
    ]
    have = {one["depends_on_id"] for one in old if _is_blocking(one)} | {item.id}
    new = [id for id in item.depends_on if id not in have]
    return old + [{"issue_id": item.id, "depends_on_id": id, "type": BLOCKING[0]} for id in new]
