"""Writing steps into the blocks of their runs.

A block is found by its token. A block that was removed is written again at the end.
"""

from __future__ import annotations

from dibs.model import PENDING_APPROVAL, READY, Run
from dibs.store.vault.layout import FOLDERS, MOVED, is_by_move
from dibs.store.vault.taskfile import run_annotations
from dibs.store.vault.taskfile.front_matter import json
from dibs.store.vault.taskfile.parsing import Pattern
from dibs.store.vault.taskfile.run_blocks import (
    COMPLETION,
    DRAFT,
    HEADING,
    HINT,
    META,
    PROCESSING,
    PROGRESS,
    RESULTS,
    REVIEW_LABELS,
    Block,
    blocks,
    find,
    foreign,
    has_marker,
    note_lines,
    read_block,
    reviews,
)
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Claim, Event
    from dibs.rules.decision import Step
    from dibs.store.vault.taskfile.run_annotations import Annotation

FENCE = "\n```"
#: The outcomes of a run that a program ends by moving the file; it writes the completion itself.
ENDS_BY_MOVE = frozenset({"done", "submitted", "rejected", "failed"})
_BACKTICKS = Pattern(r"`+")


def write(text: str, steps: Sequence[Step], next_state: str, human: str) -> str:
    """The blocks after these steps, the last of which led to `next_state`. A claim by a move gets its block when it
    ends, and none if the program that moved the file wrote one, which may be in the part for people, `human`."""
    steps = [step for step in steps if step.event.kind != "annotated"]
    start = _start(text, steps)
    lines = text[start:].split("\n")
    void = {step.event.number for step in steps if "void_from" in step.event.data}
    for step in steps:
        event = step.event
        if step.run is not None and any(event.number < number for number in void):
            if step.run.outcome is not None:
                _add_lost(lines, step.run)
        elif step.run is not None and is_by_move(step.run.session) and _has_foreign_block(step.run, lines, human):
            pass
        elif event.kind == "claimed" and step.run is not None:
            _block_of(lines, step.run)
        elif event.kind == "progress" and step.claim is not None:
            _add_note(lines, step.claim, event)
        elif step.run is not None:
            state = next_state if step is steps[-1] or step.item.status == steps[-1].item.status else None
            _end(lines, step.run, state or FOLDERS[event.status])
        elif event.kind in REVIEW_LABELS:
            _add_review(lines, event)
    return text[:start] + "\n".join(lines)


def restore_draft(text: str, run: Run) -> str:
    """The blocks with this run's draft in its block. A block without a completion, or with a draft whose fence is not
    closed, is written anew."""
    lines = text.split("\n")
    block = _block_of(lines, run)
    is_complete = block.completion >= 0
    if is_complete and block.fence is not None:
        lines[block.fence[0] : block.fence[1] + 1] = _as_in(lines, block, _fenced(run.draft or ""))
        return "\n".join(lines)
    if is_complete and not any(line.rstrip() == DRAFT for line in lines[block.start : block.stop]):
        _insert(lines, block.completion, DRAFT, "", *_fenced(run.draft or ""), like=block)
        return "\n".join(lines)
    del lines[block.start : block.stop]
    _end(lines, run, FOLDERS[PENDING_APPROVAL])
    return "\n".join(lines)


def annotate(text: str, run: Run, known: Sequence[Annotation], next_state: str) -> str:
    """The blocks with one line for all `known` annotations of a run, oldest first: a line for each would fill the
    file. Lines of annotations that are not known stay. A run without a block, because another program wrote one, gets
    one."""
    lines = text.split("\n")
    values = {"run": run.token, **run_annotations.current(run, run_annotations.merge(known)[run.token])}
    line = f"**{run_annotations.LABEL}**: {_one_line(known[-1].actor)} {times.iso(known[-1].at)}: {json(values)}"
    keys = {one.key for one in known}
    old = [at for at, one in run_annotations.read(lines) if one.key in keys]
    if [lines[at].removesuffix("\r") for at in old] == [line]:
        return text
    for at in reversed(old):
        del lines[at - 1 if at and not lines[at - 1].strip() else at : at + 1]
    if find(lines, run.token) is None and run.outcome is not None:
        _end(lines, run, next_state)
    block = _block_of(lines, run)
    _insert(lines, block.stop, line, like=block)
    return "\n".join(lines)


def concerns_run(step: Step) -> bool:
    """Whether `write` writes a step into the block of a run."""
    if step.event.kind == "annotated":
        return False  # see `annotate`
    return step.run is not None or step.event.kind in ("progress", *REVIEW_LABELS)


def _start(text: str, steps: Sequence[Step]) -> int:
    """Where the text begins that these steps may change. An item may have a thousand blocks, and nearly always the
    steps are about the last one, or a new one after it."""
    tokens = {(step.run or step.claim or step.event).token for step in steps if concerns_run(step)}
    if any(step.event.kind in REVIEW_LABELS or _is_by_move(step) for step in steps) or len(tokens) != 1:
        return 0
    line = f"\n**Token**: {tokens.pop()}"
    if any(step.event.kind == "claimed" for step in steps) and line not in text:
        return text.rfind("\n", 0, len(text.rstrip())) + 1
    last = text.rfind(f"\n{HEADING}") + 1
    # After a fence, the heading may be one within a draft.
    is_of_last = text.find(line, last) >= 0 and text.find(line, 0, last) < 0
    return last if is_of_last and text.find(FENCE, last) < 0 else 0


def _block_of(lines: list[str], run: Run | Claim) -> Block:
    """The block of a run; begin one at the end if there is none."""
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
        f"**Claimed At**: {times.iso(started_at)}",
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


def _has_foreign_block(run: Run, lines: list[str], human: str) -> bool:
    """Whether a run that was claimed by a move needs no block of dibs: it has just begun, and the program that moved it
    may be writing to the file; or that program wrote a block, which dibs completes if the program does not."""
    if run.outcome is None:
        return True
    block = foreign(lines)
    above = human.split("\n")
    if block is None and next(blocks(lines), None) is None:
        block, where = foreign(above), above
    else:
        where = lines
    if block is None:
        return False
    is_completed = any(line.rstrip() == COMPLETION for line in where[block.start :])
    if not is_completed and (run.reason != MOVED or run.outcome not in ENDS_BY_MOVE):
        _insert(lines, len(lines), *_completion(run, FOLDERS[READY]))
    return True


def _add_lost(lines: list[str], run: Run) -> None:
    """Add a block for a claim that the remote did not accept: without a token, since another claim has that token."""
    assert run.ended_at is not None
    _insert(
        lines,
        len(lines),
        f"{HEADING}{run.item}",
        "",
        f"**Claimed By**: {run.agent}",
        f"**Claimed At**: {times.iso(run.started_at)}",
        "**Status**: lost",
        "",
        COMPLETION,
        "",
        f"**Completed At**: {times.iso(run.ended_at)}",
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
    at, new = _end_of_notes(lines, block), [f"- {times.iso(event.at)}: {first}", *(f"  {line}" for line in more)]
    lines[at:at] = _as_in(lines, block, new) if at < len(lines) else [*new, ""]


def _end_of_notes(lines: list[str], block: Block) -> int:
    """The line after the last note, or the line for the first one."""
    if block.progress < 0:
        _insert(lines, block.stop, PROGRESS, "", HINT, like=block)
        block = next(one for one in blocks(lines) if one.start == block.start)
    notes = list(note_lines(lines, block.progress, block.stop))
    if notes:
        return notes[-1][1]
    hint = next((at for at in range(block.progress, block.stop) if lines[at].rstrip() == HINT), None)
    return block.progress + 1 if hint is None else hint + 1


def _end(lines: list[str], run: Run, next_state: str) -> None:
    """Write the end of a run into its block: the draft, if the block does not show it yet, and the completion."""
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
    has_draft = run.draft or (run.draft is not None and not is_by_move(run.session))
    if has_draft and (before is None or before.run.draft != run.draft):
        new = [DRAFT, "", *_fenced(run.draft or ""), ""]
    _insert(lines, block.stop, *new, *_completion(run, next_state), like=block)


def _completion(run: Run, next_state: str) -> list[str]:
    assert run.ended_at is not None
    assert run.outcome is not None
    lines = [
        COMPLETION,
        "",
        f"**Completed At**: {times.iso(run.ended_at)}",
        f"**Duration**: {(run.ended_at - run.started_at) / 1000:.15g}",
        f"**Result**: {RESULTS.get(run.outcome, 'failure')}",
        f"**Next State**: {next_state}",
        f"**Outcome**: {run.outcome}",
    ]
    if run.reason is not None:
        lines.append(f"**Reason**: {_one_line(run.reason)}")
    more = {"Links": run.links, "Cost": run.cost, "Checks": run.checks}
    return lines + [f"**{name}**: {json(data)}" for name, data in more.items() if data]


def _add_review(lines: list[str], event: Event) -> None:
    """Add a review below the run that it is about."""
    comment = event.data.get("comment", event.data.get("reason"))
    review = f"**{REVIEW_LABELS[event.kind]}**: {_one_line(event.actor)} {times.iso(event.at)}"
    if comment is not None:
        review += f": {_one_line(comment)}"
    block = find(lines, event.data.get("draft_token") or event.token)
    shown = [] if block is None else list(reviews(lines[block.start : block.stop], None))
    if shown and (shown[-1].kind, shown[-1].actor, shown[-1].comment) == (event.kind, event.actor, comment):
        return  # the event itself was read from this line
    _insert(lines, len(lines) if block is None else block.stop, review, like=block)


def _insert(lines: list[str], stop: int, *new: str, like: Block | None = None) -> None:
    """Insert lines before `stop`, after the last line that is not empty and one empty line."""
    at = stop
    while at and lines[at - 1] in ("", "\r"):
        at -= 1
    after = [] if at < len(lines) else [""]
    lines[at:at] = [*_as_in(lines, like, ["", *new]), *after]


def _as_in(lines: list[str], block: Block | None, new: list[str]) -> list[str]:
    """Lines with the line ends of the block that they go into."""
    windows = block is not None and lines[block.start].endswith("\r")
    return [line + "\r" for line in new] if windows else new


def _fenced(draft: str) -> list[str]:
    """A draft in a fence that nothing in it can close; as JSON, if it contains the marker."""
    as_json = has_marker(draft)
    text = json(draft) if as_json else draft
    fence = "`" * (max([2, *map(len, _BACKTICKS.findall(text))]) + 1)
    return [fence + ("json" if as_json else ""), *text.split("\n"), fence]


def _one_line(text: str) -> str:
    """Text as the rest of a line; as JSON if it would not be read back unchanged."""
    plain = text and text == text.strip() and "\n" not in text and "\r" not in text and not text.startswith('"')
    return text if plain else json(text)
