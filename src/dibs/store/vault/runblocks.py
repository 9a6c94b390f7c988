"""The runs of an item as people read them below its text: a block for each, in the words of the claim-by-move contract.

A block without a token is some other program's and is left alone; so is whatever people wrote between and after blocks.
Blocks are written with plain line ends. One that came back with those of Windows is read as if it had not.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from dibs import check, when
from dibs.errors import Invalid
from dibs.model import Note, Run
from dibs.store.vault.frontmatter import json
from dibs.store.vault.yamltext import json_value
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from dibs.model import Claim, Event
    from dibs.rules.decision import Step

MARKER = "<!-- dibs: runs -->"
HEADING = "# Claimed Task: "
PROGRESS = "## Progress"
DRAFT = "## Draft"
COMPLETION = "## Completion"
HINT = "<!-- Agent adds progress notes here -->"
PROCESSING = "processing"
RESULTS = {
    "done": "success",
    "submitted": "success",
    "released": "released",
    "forgotten": "released",
    "force_released": "released",
    "restored": "released",
    "failed": "failure",
    "rejected": "failure",
    "expired": "failure",
    "owner_died": "failure",
    "cancelled": "failure",
}
#: What a result means where no outcome is told, as in a completion that another program wrote.
OUTCOMES = {"success": "done", "released": "released", "failure": "failed"}
SAID = {"approved": "Approved By", "sent_back": "Sent Back By", "rejected": "Rejected By"}

_FIELD = re.compile(r"\*\*([^*]+)\*\*:(?: (.*))?")
_NOTE = re.compile(r"- (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z):(?: (.*))?")
_META = re.compile(r"<!-- meta: (.*) -->")
_FENCE = re.compile(r"(`{3,})(json)?")
_BACKTICKS = re.compile(r"`+")


class Block(Value):
    """Where a block stands: the lines from its heading to the next one, and those of its sections (-1: none).

    `fence` are the two lines around its draft.
    """

    start: int
    stop: int
    progress: int = -1
    fence: tuple[int, int] | None = None
    completion: int = -1


class Record(Value):
    """A run as its block tells it, with its notes."""

    run: Run
    notes: tuple[Note, ...]


def read(tail: str, item: str) -> list[Record]:
    """Every run that can be read, each token once, in the order of the file."""
    lines = tail.split("\n")
    found: dict[int, Record] = {}
    for block in _blocks(lines):
        record = _record(lines, block, item)
        if record is not None:
            found.setdefault(record.run.token, record)
    return list(found.values())


def write(tail: str, steps: Sequence[Step], next_state: str) -> str:
    """The blocks with what these steps tell of runs; the last of them led to `next_state`."""
    lines = tail.split("\n")
    for step in steps:
        event = step.event
        if event.kind == "claimed" and step.run is not None:
            _block_of(lines, step.run)
        elif event.kind == "progress" and step.claim is not None:
            _add_note(lines, step.claim, event)
        elif step.run is not None:
            state = next_state if step is steps[-1] or step.item.status == steps[-1].item.status else None
            _end(lines, step.run, state or folder(event.status))
        elif event.kind in SAID:
            _add_word(lines, event)
    return "\n".join(lines)


def tells(step: Step) -> bool:
    """Whether a step is about a run, and so to be read in its block."""
    return step.run is not None or step.event.kind in ("progress", *SAID)


def folder(status: str) -> str:
    """The name of the folder in which items of a status lie."""
    return "Needs_Action" if status == "ready" else "_".join(word.capitalize() for word in status.split("_"))


def _blocks(lines: list[str]) -> Iterator[Block]:
    """The blocks in order. What stands within the fence of a draft is never a heading."""
    fences = _fences(lines)
    block: Block | None = None
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        if line.startswith(HEADING):
            if block is not None:
                yield block.replace(stop=at)
            block = Block(start=at, stop=len(lines))
        elif block is not None and line == PROGRESS and block.progress < 0:
            block = block.replace(progress=at)
        elif block is not None and line == COMPLETION:
            block = block.replace(completion=at)
        elif block is not None and line == DRAFT:
            fence = _fence_after(lines, at, fences)
            if fence is not None:
                block = block.replace(fence=fence)
                at = fence[1]
        at += 1
    if block is not None:
        yield block


def _fences(lines: list[str]) -> dict[str, list[int]]:
    """Where each fence stands, by its backticks: looked up, so that no text makes reading slow."""
    found: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        bare = line.rstrip()
        if bare.startswith("```") and not bare.strip("`"):
            found.setdefault(bare, []).append(at)
    return found


def _fence_after(lines: list[str], at: int, fences: dict[str, list[int]]) -> tuple[int, int] | None:
    """The two fences of the draft under this heading."""
    at += 1
    while at < len(lines) and not lines[at].strip():
        at += 1
    opening = _FENCE.fullmatch(lines[at].rstrip()) if at < len(lines) else None
    if opening is None:
        return None
    closing = fences.get(opening[1], [])
    after = bisect_right(closing, at)
    return (at, closing[after]) if after < len(closing) else None


def _record(lines: list[str], block: Block, item: str) -> Record | None:
    own = lines[block.start : block.stop]
    if own[0].endswith("\r"):
        own = [line.removesuffix("\r") for line in own]
    block = block.replace(
        start=0,
        stop=len(own),
        progress=block.progress - block.start if block.progress >= 0 else -1,
        completion=block.completion - block.start if block.completion >= 0 else -1,
        fence=None if block.fence is None else (block.fence[0] - block.start, block.fence[1] - block.start),
    )
    try:
        head = _fields(own, 1)
        run = Run(
            item=item,
            token=check.whole(int(head["Token"]), "token", low=1, high=check.TOKEN_MAX),
            session=check.session_id(head["Session"]),
            agent=check.agent_name(head["Claimed By"]),
            started_at=_instant(head["Claimed At"]),
        )
    except (KeyError, ValueError, Invalid):
        return None
    if block.completion >= 0:
        run = _completed(run, _fields(own, block.completion + 1))
    if block.fence is not None:
        run = run.replace(draft=_draft(own, *block.fence))
    return Record(run=run, notes=tuple(_notes(own, block)))


def _completed(run: Run, fields: dict[str, str]) -> Run:
    """The run with its end; still going on, if that cannot be read."""
    outcome = fields.get("Outcome", "")
    if outcome not in RESULTS:
        outcome = OUTCOMES.get(fields.get("Result", ""), "")
    try:
        ended_at = _instant(fields["Completed At"])
    except (KeyError, Invalid):
        return run
    if not outcome:
        return run
    return run.replace(
        ended_at=ended_at,
        outcome=outcome,
        reason=_said(fields["Reason"]) if "Reason" in fields else None,
        links=_object(fields.get("Links")),
        cost=_object(fields.get("Cost")),
    )


def _draft(lines: list[str], opening: int, closing: int) -> str:
    text = "\n".join(lines[opening + 1 : closing])
    if lines[opening].rstrip().endswith("json"):
        value = json_value(text, text)
        return value if isinstance(value, str) else text
    return text


def _notes(lines: list[str], block: Block) -> Iterator[Note]:
    for start, stop in _note_lines(lines, block):
        found = _NOTE.fullmatch(lines[start])
        assert found is not None
        said = [found[2] or "", *(line[2:] for line in lines[start + 1 : stop])]
        meta = _META.fullmatch(said[-1]) if len(said) > 1 else None
        if meta is not None and isinstance(about := json_value(meta[1], None), dict):
            yield Note(at=when.parse_instant(found[1]), note="\n".join(said[:-1]), meta=about)
        else:
            yield Note(at=when.parse_instant(found[1]), note="\n".join(said))


def _note_lines(lines: list[str], block: Block) -> Iterator[tuple[int, int]]:
    """The lines of each note under the heading of progress, up to the next heading."""
    if block.progress < 0:
        return
    at = block.progress + 1
    while at < block.stop and not lines[at].startswith("#"):
        if not _is_note(lines[at]):
            at += 1
            continue
        stop = at + 1
        while stop < block.stop and lines[stop].startswith("  "):
            stop += 1
        yield at, stop
        at = stop


def _is_note(line: str) -> bool:
    found = _NOTE.fullmatch(line)
    if found is None:
        return False
    try:
        when.parse_instant(found[1])
    except Invalid:
        return False
    return True


def _fields(lines: Sequence[str], at: int) -> dict[str, str]:
    """The lines `**Name**: value` that stand together from here on, the first of each name."""
    found: dict[str, str] = {}
    while at < len(lines) and not lines[at].strip():
        at += 1
    while at < len(lines) and (field := _FIELD.fullmatch(lines[at])) is not None:
        found.setdefault(field[1], (field[2] or "").strip())
        at += 1
    return found


def _instant(text: str) -> int:
    found = check.instant(text, "time")
    assert found is not None
    return found


def _said(text: str) -> str:
    value = json_value(text, text) if text.startswith('"') else text
    return value if isinstance(value, str) else text


def _object(text: str | None) -> dict[str, Any]:
    value = {} if text is None else json_value(text, {})
    try:
        return check.json_object(value, "links")
    except Invalid:
        return {}


def _block_of(lines: list[str], run: Run | Claim) -> Block:
    """The block of a run; one is begun at the end if there is none, or none any more."""
    block = _find(lines, run.token)
    if block is not None:
        return block
    started_at = run.started_at if isinstance(run, Run) else run.claimed_at
    _insert(
        lines,
        len(lines),
        f"{HEADING}{run.item}",
        "",
        f"**Claimed By**: {run.agent}",
        f"**Claimed At**: {when.iso(started_at)}",
        f"**Status**: {PROCESSING}",
        f"**Session**: {run.session}",
        f"**Token**: {run.token}",
        "",
        PROGRESS,
        "",
        HINT,
    )
    return list(_blocks(lines))[-1]


def _find(lines: list[str], token: int) -> Block | None:
    for block in _blocks(lines):
        record = _record(lines, block, "")
        if record is not None and record.run.token == token:
            return block
    return None


def _add_note(lines: list[str], claim: Claim, event: Event) -> None:
    block = _block_of(lines, claim)
    first, *more = str(event.data["note"]).split("\n")
    meta = event.data.get("meta") or {}
    if meta or (more and _META.fullmatch(more[-1])):
        about = json(meta).replace(">", "\\u003e")
        more.append(f"<!-- meta: {about} -->")
    at, new = _end_of_notes(lines, block), [f"- {when.iso(event.at)}: {first}", *(f"  {line}" for line in more)]
    lines[at:at] = _as_in(lines, block, new) if at < len(lines) else [*new, ""]


def _end_of_notes(lines: list[str], block: Block) -> int:
    """Behind the last note, or where the first one belongs."""
    notes = list(_note_lines(lines, block))
    if notes:
        return notes[-1][1]
    if block.progress < 0:
        _insert(lines, block.stop, PROGRESS, "", HINT, like=block)
        return _end_of_notes(lines, next(one for one in _blocks(lines) if one.start == block.start))
    hint = next((at for at in range(block.progress, block.stop) if lines[at].rstrip() == HINT), None)
    return block.progress + 1 if hint is None else hint + 1


def _end(lines: list[str], run: Run, next_state: str) -> None:
    """The end of a run in its block: its draft, if there is one that does not stand there yet, and its completion."""
    assert run.ended_at is not None
    assert run.outcome is not None
    block = _block_of(lines, run)
    before = _record(lines, block, run.item)
    if before is not None and before.run == run:
        return
    for at in range(block.start, block.progress if block.progress > 0 else block.stop):
        if lines[at].startswith("**Status**:"):
            lines[at : at + 1] = _as_in(lines, block, [f"**Status**: {run.outcome}"])
            break
    new = []
    if run.draft is not None and (before is None or before.run.draft != run.draft):
        new = [DRAFT, "", *_fenced(run.draft), ""]
    new += [
        COMPLETION,
        "",
        f"**Completed At**: {when.iso(run.ended_at)}",
        f"**Duration**: {(run.ended_at - run.started_at) / 1000:.15g}",
        f"**Result**: {RESULTS.get(run.outcome, 'failure')}",
        f"**Next State**: {next_state}",
        f"**Outcome**: {run.outcome}",
    ]
    if run.reason is not None:
        new.append(f"**Reason**: {_one_line(run.reason)}")
    new += [f"**{name}**: {json(data)}" for name, data in (("Links", run.links), ("Cost", run.cost)) if data]
    _insert(lines, block.stop, *new, like=block)


def _add_word(lines: list[str], event: Event) -> None:
    """What a person said to a draft, below the run that it is of."""
    comment = event.data.get("comment", event.data.get("reason"))
    word = f"**{SAID[event.kind]}**: {_one_line(event.actor)} {when.iso(event.at)}"
    if comment is not None:
        word += f": {_one_line(comment)}"
    block = _find(lines, event.data.get("draft_token") or event.token)
    _insert(lines, len(lines) if block is None else block.stop, word, like=block)


def _insert(lines: list[str], stop: int, *new: str, like: Block | None = None) -> None:
    """New lines before `stop`, an empty line behind the last one before it that is not empty."""
    at = stop
    while at and lines[at - 1] in ("", "\r"):
        at -= 1
    after = [] if at < len(lines) else [""]
    lines[at:at] = [*_as_in(lines, like, ["", *new]), *after]


def _as_in(lines: list[str], block: Block | None, new: list[str]) -> list[str]:
    """New lines with the line ends of the block they go into."""
    windows = block is not None and lines[block.start].endswith("\r")
    return [line + "\r" for line in new] if windows else new


def _fenced(draft: str) -> list[str]:
    """A draft in a fence that nothing in it can close. One that would be taken for our marker is written as JSON."""
    as_json = has_marker(draft)
    text = json(draft) if as_json else draft
    fence = "`" * (max([2, *map(len, _BACKTICKS.findall(text))]) + 1)
    return [fence + ("json" if as_json else ""), *text.split("\n"), fence]


def has_marker(text: str) -> bool:
    return MARKER in text and any(is_marker(line) for line in text.split("\n"))


def is_marker(line: str) -> bool:
    return line.startswith(MARKER) and line.rstrip() == MARKER


def _one_line(text: str) -> str:
    """Text as the rest of a line: as it is, or, where it would not come back so, as JSON."""
    plain = text and text == text.strip() and "\n" not in text and "\r" not in text and not text.startswith('"')
    return text if plain else json(text)
