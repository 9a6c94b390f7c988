"""What steps tell of runs, written into their blocks and nowhere else.

A block is found by its token. One that somebody took out is begun again at the end, so that what follows has its place.
"""

from __future__ import annotations

from dibs import when
from dibs.model import PENDING_APPROVAL, READY, Run
from dibs.store.vault.folders import FOLDERS, MOVED, is_by_move
from dibs.store.vault.frontmatter import json
from dibs.store.vault.pattern import Pattern
from dibs.store.vault.runblocks import (
    ANNOTATED,
    COMPLETION,
    DRAFT,
    HEADING,
    HINT,
    META,
    PROCESSING,
    PROGRESS,
    RESULTS,
    SAID,
    Annotation,
    Block,
    annotation_lines,
    blocks,
    find,
    foreign,
    has_marker,
    merged,
    note_lines,
    read_block,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Claim, Event
    from dibs.rules.decision import Step

FENCE = "\n```"
#: How a run ends that a program ends by moving the file on, as it then says itself.
ENDS_BY_MOVE = frozenset({"done", "submitted", "rejected", "failed"})
_BACKTICKS = Pattern(r"`+")


def write(tail: str, steps: Sequence[Step], next_state: str, human: str) -> str:
    """The blocks with what these steps tell of runs; the last of them led to `next_state`. What was claimed by a move
    gets its block when it ends, and none if the program that moved it has written one, which may be in `human`."""
    steps = [step for step in steps if step.event.kind != "annotated"]
    start = _start(tail, steps)
    lines = tail[start:].split("\n")
    void = {step.event.number for step in steps if "void_from" in step.event.data}
    for step in steps:
        event = step.event
        if step.run is not None and any(event.number < number for number in void):
            if step.run.outcome is not None:
                _tell_of_lost(lines, step.run)
        elif step.run is not None and is_by_move(step.run.session) and _is_told_elsewhere(step.run, lines, human):
            pass
        elif event.kind == "claimed" and step.run is not None:
            _block_of(lines, step.run)
        elif event.kind == "progress" and step.claim is not None:
            _add_note(lines, step.claim, event)
        elif step.run is not None:
            state = next_state if step is steps[-1] or step.item.status == steps[-1].item.status else None
            _end(lines, step.run, state or FOLDERS[event.status])
        elif event.kind in SAID:
            _add_word(lines, event)
    return tail[:start] + "\n".join(lines)


def redraft(tail: str, run: Run) -> str:
    """The blocks with the draft of this run in its own. A block that lacks an end, or its draft one, is begun again."""
    lines = tail.split("\n")
    block = _block_of(lines, run)
    is_whole = block.completion >= 0
    if is_whole and block.fence is not None:
        lines[block.fence[0] : block.fence[1] + 1] = _as_in(lines, block, _fenced(run.draft or ""))
        return "\n".join(lines)
    if is_whole and not any(line.rstrip() == DRAFT for line in lines[block.start : block.stop]):
        _insert(lines, block.completion, DRAFT, "", *_fenced(run.draft or ""), like=block)
        return "\n".join(lines)
    del lines[block.start : block.stop]
    _end(lines, run, FOLDERS[PENDING_APPROVAL])
    return "\n".join(lines)


def annotate(tail: str, run: Run, known: Sequence[Annotation], next_state: str) -> str:
    """The blocks with one line of all that was learned of a run, oldest first in `known`: one line for each would fill
    the file. Lines that are not known stay. A run that has no block, since another program told of it, gets one."""
    lines = tail.split("\n")
    said = {"run": run.token, **merged(known)[run.token]}
    line = f"**{ANNOTATED}**: {_one_line(known[-1].actor)} {when.iso(known[-1].at)}: {json(said)}"
    keys = {one.key for one in known}
    old = [at for at, one in annotation_lines(lines) if one.key in keys]
    if [lines[at].removesuffix("\r") for at in old] == [line]:
        return tail
    for at in reversed(old):
        del lines[at - 1 if at and not lines[at - 1].strip() else at : at + 1]
    if find(lines, run.token) is None:
        _end(lines, run, next_state)
    block = find(lines, run.token)
    assert block is not None, "a block was begun"
    _insert(lines, block.stop, line, like=block)
    return "\n".join(lines)


def tells(step: Step) -> bool:
    """Whether a step is about a run, and so to be read in its block."""
    if step.event.kind == "annotated":
        return False  # told by `annotate`
    return step.run is not None or step.event.kind in ("progress", *SAID)


def _start(tail: str, steps: Sequence[Step]) -> int:
    """Where that begins which these steps may change: an item that changed hands a thousand times has as many blocks,
    and nearly always it is about the last one, or a new one behind it."""
    tokens = {(step.run or step.claim or step.event).token for step in steps if tells(step)}
    if any(step.event.kind in SAID or _is_by_move(step) for step in steps) or len(tokens) != 1:
        return 0
    line = f"\n**Token**: {tokens.pop()}"
    if any(step.event.kind == "claimed" for step in steps) and line not in tail:
        return tail.rfind("\n", 0, len(tail.rstrip())) + 1
    last = tail.rfind(f"\n{HEADING}") + 1
    # Behind a fence the heading may be one within a draft.
    is_of_last = tail.find(line, last) >= 0 and tail.find(line, 0, last) < 0
    return last if is_of_last and tail.find(FENCE, last) < 0 else 0


def _block_of(lines: list[str], run: Run | Claim) -> Block:
    """The block of a run; one is begun at the end if there is none, or none any more."""
    block = find(lines, run.token)
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
    return list(blocks(lines))[-1]


def _is_by_move(step: Step) -> bool:
    return step.run is not None and is_by_move(step.run.session)


def _is_told_elsewhere(run: Run, lines: list[str], human: str) -> bool:
    """Whether a run that was claimed by a move needs no block: it has just begun, and whoever moved the file may be
    writing to it; or that program tells of it by a block of its own, which is completed here only if it does not."""
    if run.outcome is None:
        return True
    block = foreign(lines)
    above = human.split("\n")
    if block is None and next(blocks(lines), None) is None:
        block, told = foreign(above), above
    else:
        told = lines
    if block is None:
        return False
    is_completed = any(line.rstrip() == COMPLETION for line in told[block.start :])
    if not is_completed and (run.reason != MOVED or run.outcome not in ENDS_BY_MOVE):
        _insert(lines, len(lines), *_completion(run, FOLDERS[READY]))
    return True


def _tell_of_lost(lines: list[str], run: Run) -> None:
    """A claim that the hub never had: a block without a token, since its token is another's."""
    assert run.ended_at is not None
    _insert(
        lines,
        len(lines),
        f"{HEADING}{run.item}",
        "",
        f"**Claimed By**: {run.agent}",
        f"**Claimed At**: {when.iso(run.started_at)}",
        "**Status**: lost",
        "",
        COMPLETION,
        "",
        f"**Completed At**: {when.iso(run.ended_at)}",
        "**Result**: failure",
        f"**Reason**: {_one_line(run.reason or '')}",
    )


def _add_note(lines: list[str], claim: Claim, event: Event) -> None:
    block = _block_of(lines, claim)
    first, *more = str(event.data["note"]).split("\n")
    meta = event.data.get("meta") or {}
    if meta or (more and META.fullmatch(more[-1])):
        about = json(meta).replace(">", "\\u003e")
        more.append(f"<!-- meta: {about} -->")
    at, new = _end_of_notes(lines, block), [f"- {when.iso(event.at)}: {first}", *(f"  {line}" for line in more)]
    lines[at:at] = _as_in(lines, block, new) if at < len(lines) else [*new, ""]


def _end_of_notes(lines: list[str], block: Block) -> int:
    """Behind the last note, or where the first one belongs."""
    if block.progress < 0:
        _insert(lines, block.stop, PROGRESS, "", HINT, like=block)
        block = next(one for one in blocks(lines) if one.start == block.start)
    notes = list(note_lines(lines, block.progress, block.stop))
    if notes:
        return notes[-1][1]
    hint = next((at for at in range(block.progress, block.stop) if lines[at].rstrip() == HINT), None)
    return block.progress + 1 if hint is None else hint + 1


def _end(lines: list[str], run: Run, next_state: str) -> None:
    """The end of a run in its block: its draft, if there is one that does not stand there yet, and its completion."""
    assert run.ended_at is not None
    assert run.outcome is not None
    block = _block_of(lines, run)
    before = read_block(lines, block, run.item)
    if before is not None and before.run == run:
        return
    for at in range(block.start, block.progress if block.progress > 0 else block.stop):
        if lines[at].startswith("**Status**:"):
            lines[at : at + 1] = _as_in(lines, block, [f"**Status**: {run.outcome}"])
            break
    new = []
    is_told = run.draft or (run.draft is not None and not is_by_move(run.session))
    if is_told and (before is None or before.run.draft != run.draft):
        new = [DRAFT, "", *_fenced(run.draft or ""), ""]
    _insert(lines, block.stop, *new, *_completion(run, next_state), like=block)


def _completion(run: Run, next_state: str) -> list[str]:
    assert run.ended_at is not None
    assert run.outcome is not None
    lines = [
        COMPLETION,
        "",
        f"**Completed At**: {when.iso(run.ended_at)}",
        f"**Duration**: {(run.ended_at - run.started_at) / 1000:.15g}",
        f"**Result**: {RESULTS.get(run.outcome, 'failure')}",
        f"**Next State**: {next_state}",
        f"**Outcome**: {run.outcome}",
    ]
    if run.reason is not None:
        lines.append(f"**Reason**: {_one_line(run.reason)}")
    more = {"Links": run.links, "Cost": run.cost, "Checks": run.checks}
    return lines + [f"**{name}**: {json(data)}" for name, data in more.items() if data]


def _add_word(lines: list[str], event: Event) -> None:
    """What a person said to a draft, below the run that it is of."""
    comment = event.data.get("comment", event.data.get("reason"))
    word = f"**{SAID[event.kind]}**: {_one_line(event.actor)} {when.iso(event.at)}"
    if comment is not None:
        word += f": {_one_line(comment)}"
    block = find(lines, event.data.get("draft_token") or event.token)
    said = [] if block is None else list(words(lines[block.start : block.stop], None))
    if said and (said[-1].kind, said[-1].actor, said[-1].comment) == (event.kind, event.actor, comment):
        return  # read here, and told again by who had not known
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


def _one_line(text: str) -> str:
    """Text as the rest of a line: as it is, or, where it would not come back so, as JSON."""
    plain = text and text == text.strip() and "\n" not in text and "\r" not in text and not text.startswith('"')
    return text if plain else json(text)
