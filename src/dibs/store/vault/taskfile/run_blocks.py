"""Reading the blocks of runs below an item's text, in the format of the claim-by-move contract.

A block without a token is another program's and is left alone; so is text between and after blocks. Blocks are written
with plain line ends, and read with those of Windows as well.
"""

from __future__ import annotations

from bisect import bisect_right

from dibs import check, run_checks
from dibs.errors import Invalid
from dibs.model import Note, Run
from dibs.store.vault.taskfile.parsing import Pattern, json_value
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.model.kinds import Instant


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
    "handed": "released",
    "force_released": "released",
    "restored": "released",
    "failed": "failure",
    "rejected": "failure",
    "expired": "failure",
    "owner_died": "failure",
    "cancelled": "failure",
}
#: The outcome of a completion without one, as another program writes it.
OUTCOMES = {"success": "done", "released": "released", "failure": "failed"}
REVIEW_LABELS = {"approved": "Approved By", "sent_back": "Sent Back By", "rejected": "Rejected By"}
REVIEW_KINDS = {label: kind for kind, label in REVIEW_LABELS.items()}

META = Pattern(r"<!-- meta: (.*) -->")
_FIELD = Pattern(r"\*\*([^*]+)\*\*:(?: (.*))?")
_INSTANT = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"
_NOTE = Pattern(rf"- {_INSTANT}:(?: (.*))?")
#: Label, name, instant, and the rest of a line about a run.
SIGNED_LINE = Pattern(rf"\*\*([^*]+)\*\*: (.+?) {_INSTANT}(?:: (.*))?")
_FENCE = Pattern(r"(`{3,})(json)?")


class Block(Value):
    """The line numbers of a block, from its heading to the next one, and of its sections (-1: none).

    `fence` are the two lines around its draft.
    """

    start: int
    stop: int
    progress: int = -1
    fence: tuple[int, int] | None = None
    completion: int = -1


class Record(Value):
    run: Run
    notes: tuple[Note, ...]


class ForeignClaim(Value):
    """A claim in another program's block. `moved_to` is the folder to which that program moved the file, if the block
    names it. `key` tells the block from earlier ones and does not change while the program adds to the block."""

    agent: str
    moved_to: str | None
    key: str


class Review(Value):
    """A person's answer to a draft: approved, sent back or rejected. `token` is that of the run, if there is one."""

    kind: str
    token: int | None
    actor: str
    at: Instant
    comment: str | None


def read(text: str, item: str) -> tuple[list[Record], tuple[Review, ...]]:
    """Every readable run, each token once, in the order of the file; and the reviews."""
    if not text.strip():
        return [], ()
    lines = text.split("\n")
    found: dict[int, Record] = {}
    found_reviews: list[Review] = []
    first = len(lines)
    for block in blocks(lines):
        first = min(first, block.start)
        record = read_block(lines, block, item)
        if record is not None:
            found.setdefault(record.run.token, record)
            end = max(block.completion, block.progress, block.fence[1] if block.fence else 0)
            found_reviews += reviews(lines[end : block.stop], record.run.token)
    return list(found.values()), (*reviews(lines[:first], None), *found_reviews)


def shows_another_draft(shown: Iterable[Run], run: Run) -> bool:
    """Whether a file with the runs `shown` shows another draft than `run` has."""
    draft = next((one.draft for one in shown if one.token == run.token and one.outcome is not None), None)
    return plain(draft) != plain(run.draft)


def plain(draft: str | None) -> str:
    """A draft for comparison: with plain line ends, because some programs change them when they save."""
    return (draft or "").replace("\r\n", "\n")


def has_marker(text: str) -> bool:
    return MARKER in text and any(is_marker(line) for line in text.split("\n"))


def is_marker(line: str) -> bool:
    return line.startswith(MARKER) and line.rstrip() == MARKER


def find(lines: list[str], token: int) -> Block | None:
    for block in blocks(lines):
        run = _run_from_head(lines[block.start : block.stop], "")
        if run is not None and run.token == token:
            return block
    return None


def foreign(lines: list[str]) -> Block | None:
    """The last block, if another program wrote it."""
    last = list(blocks(lines))[-1:]
    return next((block for block in last if _run_from_head(lines[block.start : block.stop], "") is None), None)


def foreign_claim(lines: list[str]) -> ForeignClaim | None:
    """The claim of the last block, if another program wrote it. None for a claim that dibs has ended, or knows to be
    lost."""
    block = foreign(lines)
    if block is None:
        return None
    own = [line.removesuffix("\r") for line in lines[block.start : block.stop]]
    claimed = _claimed(own)
    try:
        agent = check.agent_name(claimed[0])
    except Invalid:
        return None
    # A program may claim an item twice within one second, the precision of its clock.
    count = sum(_claimed(lines[one.start : one.stop]) == claimed for one in blocks(lines))
    key = " ".join((*claimed, str(count)))
    if block.completion < 0:
        return ForeignClaim(agent=agent, moved_to=None, key=key)
    end = _fields(own, block.completion + 1 - block.start)
    if "Next State" not in end or "Outcome" in end:
        return None
    return ForeignClaim(agent=agent, moved_to=end["Next State"], key=key)


def _claimed(block: list[str]) -> tuple[str, str]:
    """The agent and the time of a claim, as a block has them."""
    head = _fields([line.removesuffix("\r") for line in block], 1)
    return head.get("Claimed By", ""), head.get("Claimed At", "")


def blocks(lines: list[str]) -> Iterator[Block]:
    """The blocks in order. A line within the fence of a draft is never a heading."""
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
    """The lines of all fences, by their backticks, so that no text makes reading quadratic."""
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


def read_block(lines: list[str], block: Block, item: str) -> Record | None:
    """The run of a block; None if another program wrote the block."""
    own = lines[block.start : block.stop]
    if own[0].endswith("\r"):
        own = [line.removesuffix("\r") for line in own]
    run = _run_from_head(own, item)
    if run is None:
        return None
    if block.completion >= 0:
        run = _completed(run, _fields(own, block.completion + 1 - block.start))
    if block.fence is not None:
        run = run.replace(draft=_draft(own, block.fence[0] - block.start, block.fence[1] - block.start))
    return Record(run=run, notes=tuple(_notes(own, block)))


def _run_from_head(lines: list[str], item: str) -> Run | None:
    """The run, without its end, from the fields below the heading; None if another program wrote them."""
    head = _fields(lines, 1)
    try:
        return Run(
            item=item,
            token=check.whole(int(head["Token"]), "token", low=1, high=check.TOKEN_MAX),
            session=check.session_id(head["Session"]),
            agent=check.agent_name(head["Claimed By"]),
            started_at=instant(head["Claimed At"]),
        )
    except (KeyError, ValueError, Invalid):
        return None


def _completed(run: Run, fields: dict[str, str]) -> Run:
    """The run with its end; unchanged if the end cannot be read."""
    outcome = fields.get("Outcome", "")
    if outcome not in RESULTS:
        outcome = OUTCOMES.get(fields.get("Result", ""), "")
    try:
        ended_at = instant(fields["Completed At"])
    except (KeyError, Invalid):
        return run
    if not outcome:
        return run
    return run.replace(
        ended_at=ended_at,
        outcome=outcome,
        reason=unquoted(fields["Reason"]) if "Reason" in fields else None,
        links=_object(fields.get("Links")),
        cost=_object(fields.get("Cost")),
        checks=_checks(fields.get("Checks")),
    )


def _draft(lines: list[str], opening: int, closing: int) -> str:
    text = "\n".join(lines[opening + 1 : closing])
    if lines[opening].rstrip().endswith("json"):
        value = json_value(text, text)
        return value if isinstance(value, str) else text
    return text


def _notes(own: list[str], block: Block) -> Iterator[Note]:
    for start, stop, at in note_lines(own, block.progress - block.start if block.progress >= 0 else len(own), len(own)):
        found = _NOTE.fullmatch(own[start])
        assert found is not None
        note = [found[2] or "", *(line[2:] for line in own[start + 1 : stop])]
        meta = META.fullmatch(note[-1]) if len(note) > 1 else None
        about = None if meta is None else json_value(meta[1], None)
        if isinstance(about, dict):
            yield Note(at=at, note="\n".join(note[:-1]), meta=about)
        else:
            yield Note(at=at, note="\n".join(note))


def note_lines(lines: list[str], progress: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The first line, the line after the last, and the time of each note under the heading `progress`."""
    begin = progress + 1
    while begin < stop and not lines[begin].startswith("#"):
        at, end = _note_at(lines[begin]), begin + 1
        if at is not None:
            while end < stop and lines[end].startswith("  "):
                end += 1
            yield begin, end, at
        begin = end


def _note_at(line: str) -> int | None:
    """The time of a note; None if the line does not begin one."""
    found = _NOTE.fullmatch(line)
    try:
        return None if found is None else instant(found[1])
    except Invalid:
        return None


def reviews(lines: list[str], token: int | None) -> Iterator[Review]:
    """The reviews in the lines after a run."""
    for line in lines:
        found = SIGNED_LINE.fullmatch(line.removesuffix("\r")) if line.startswith("**") else None
        if found is None or found[1] not in REVIEW_KINDS:
            continue
        try:
            at = instant(found[3])
        except Invalid:
            continue
        comment = None if found[4] is None else unquoted(found[4].strip())
        yield Review(kind=REVIEW_KINDS[found[1]], token=token, actor=unquoted(found[2]), at=at, comment=comment)


def _fields(lines: Sequence[str], at: int) -> dict[str, str]:
    """The values of consecutive lines `**Name**: value`, the first of each name."""
    found: dict[str, str] = {}
    while at < len(lines) and not lines[at].strip():
        at += 1
    while at < len(lines) and (field := _FIELD.fullmatch(lines[at])) is not None:
        found.setdefault(field[1], (field[2] or "").strip())
        at += 1
    return found


def instant(text: str) -> int:
    found = check.instant(times.parse_instant(text), "time")
    assert found is not None
    return found


def unquoted(text: str) -> str:
    value = json_value(text, text) if text.startswith('"') else text
    return value if isinstance(value, str) else text


def _object(text: str | None) -> dict[str, Any]:
    value = {} if text is None else json_value(text, {})
    try:
        return check.json_object(value, "links")
    except Invalid:
        return {}


def _checks(text: str | None) -> dict[str, Any]:
    try:
        return run_checks.checked(_object(text), check.JSON_BYTES_MAX)
    except Invalid:
        return {}
