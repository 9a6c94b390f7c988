"""The runs of an item as people read them below its text: a block for each, in the words of the claim-by-move contract.

A block without a token is some other program's and is left alone; so is whatever people wrote between and after blocks.
Blocks are written with plain line ends. One that came back with those of Windows is read as if it had not.
"""

from __future__ import annotations

from bisect import bisect_right

from dibs import check
from dibs.errors import Invalid
from dibs.model import Note, Run
from dibs.store.vault.pattern import Pattern
from dibs.store.vault.yamltext import json_value
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any


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

KINDS = {said: kind for kind, said in SAID.items()}
#: What was learned of a run since it ended stands in lines of this name, each with the token of the run.
ANNOTATED = "Annotated By"

META = Pattern(r"<!-- meta: (.*) -->")
_FIELD = Pattern(r"\*\*([^*]+)\*\*:(?: (.*))?")
_INSTANT = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"
_NOTE = Pattern(rf"- {_INSTANT}:(?: (.*))?")
_WORD = Pattern(rf"\*\*([^*]+)\*\*: (.+?) {_INSTANT}(?:: (.*))?")
_FENCE = Pattern(r"(`{3,})(json)?")


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


class ForeignClaim(Value):
    """A claim that another program's block tells of. `went_to` is the folder to which that program says that it moved
    the file, if it has said so yet. `mark` tells this block from those before it, and stays while the block grows."""

    agent: str
    went_to: str | None
    mark: str


class Word(Value):
    """What a person said to an item that waited for approval, and the run it stands with (None: with none)."""

    kind: str
    token: int | None
    actor: str
    at: int
    comment: str | None


class Annotation(Value):
    """What was learned of a run since it ended, as a line tells it: `said` are its links, checks and costs."""

    token: int
    actor: str
    at: int
    said: dict[str, dict[str, Any]]

    @property
    def key(self) -> tuple[int, int, str]:
        """By which an annotation is known again, whatever it says by then."""
        return self.token, self.at, self.actor


def read(tail: str, item: str) -> tuple[list[Record], tuple[Word, ...]]:
    """Every run that can be read, each token once, in the order of the file; and what people said to them."""
    if not tail.strip():
        return [], ()
    lines = tail.split("\n")
    found: dict[int, Record] = {}
    said: list[Word] = []
    first = len(lines)
    for block in blocks(lines):
        first = min(first, block.start)
        record = read_block(lines, block, item)
        if record is not None:
            found.setdefault(record.run.token, record)
            behind = max(block.completion, block.progress, block.fence[1] if block.fence else 0)
            said += words(lines[behind : block.stop], record.run.token)
    return list(found.values()), (*words(lines[:first], None), *said)


def annotation_lines(lines: list[str]) -> Iterator[tuple[int, Annotation]]:
    """What lines behind runs tell of them, and which line does. A draft may hold such a line, and is not believed."""
    fenced = {at for block in blocks(lines) if block.fence is not None for at in range(*block.fence)}
    for at, line in enumerate(lines):
        found = _WORD.fullmatch(line.removesuffix("\r")) if line.startswith(f"**{ANNOTATED}**") else None
        data = None if found is None or at in fenced else json_value(found[4] or "", None)
        if found is None or not isinstance(data, dict):
            continue
        try:
            yield (
                at,
                Annotation(
                    token=check.whole(data.get("run"), "run", low=1, high=check.TOKEN_MAX),
                    actor=check.name(_said(found[2]), "actor"),
                    at=_instant(found[3]),
                    said={
                        "links": check.json_object(data.get("links", {}), "links"),
                        "checks": check.checks(data.get("checks", {}), check.JSON_BYTES_MAX),
                        "cost": check.json_object(data.get("cost", {}), "cost"),
                    },
                ),
            )
        except Invalid:
            continue


def merged(known: Iterable[Annotation]) -> dict[int, dict[str, dict[str, Any]]]:
    """By token, all that was learned of each run, oldest first in `known`: of a name the latest value."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for one in known:
        said = found.setdefault(one.token, {})
        said |= {name: {**said.get(name, {}), **values} for name, values in one.said.items() if values}
    return found


def shows_another_draft(shown: Iterable[Run], run: Run) -> bool:
    """Whether a file with these runs shows another draft than this run's, or none where it has one."""
    draft = next((one.draft for one in shown if one.token == run.token and one.outcome is not None), None)
    return plain(draft) != plain(run.draft)


def plain(draft: str | None) -> str:
    """As drafts are compared: some programs save all lines with other ends."""
    return (draft or "").replace("\r\n", "\n")


def has_marker(text: str) -> bool:
    return MARKER in text and any(is_marker(line) for line in text.split("\n"))


def is_marker(line: str) -> bool:
    return line.startswith(MARKER) and line.rstrip() == MARKER


def find(lines: list[str], token: int) -> Block | None:
    """The block of a run."""
    for block in blocks(lines):
        run = _begun(lines[block.start : block.stop], "")
        if run is not None and run.token == token:
            return block
    return None


def foreign(lines: list[str]) -> Block | None:
    """The last block, if it is one that another program wrote."""
    last = list(blocks(lines))[-1:]
    return next((block for block in last if _begun(lines[block.start : block.stop], "") is None), None)


def foreign_claim(lines: list[str]) -> ForeignClaim | None:
    """That of the last block, if another program wrote it. One that dibs has ended, or knows to be lost, is none."""
    block = foreign(lines)
    if block is None:
        return None
    own = [line.removesuffix("\r") for line in lines[block.start : block.stop]]
    said = _claimed(own)
    try:
        agent = check.agent_name(said[0])
    except Invalid:
        return None
    # A program may take an item twice within one second, and its clock may tell no less.
    alike = sum(_claimed(lines[one.start : one.stop]) == said for one in blocks(lines))
    mark = " ".join((*said, str(alike)))
    if block.completion < 0:
        return ForeignClaim(agent=agent, went_to=None, mark=mark)
    end = _fields(own, block.completion + 1 - block.start)
    if "Next State" not in end or "Outcome" in end:
        return None
    return ForeignClaim(agent=agent, went_to=end["Next State"], mark=mark)


def _claimed(own: list[str]) -> tuple[str, str]:
    """By whom and when a block says that the item was claimed."""
    head = _fields([line.removesuffix("\r") for line in own], 1)
    return head.get("Claimed By", ""), head.get("Claimed At", "")


def blocks(lines: list[str]) -> Iterator[Block]:
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


def read_block(lines: list[str], block: Block, item: str) -> Record | None:
    """The run of a block; None if it is not one of ours."""
    own = lines[block.start : block.stop]
    if own[0].endswith("\r"):
        own = [line.removesuffix("\r") for line in own]
    run = _begun(own, item)
    if run is None:
        return None
    if block.completion >= 0:
        run = _completed(run, _fields(own, block.completion + 1 - block.start))
    if block.fence is not None:
        run = run.replace(draft=_draft(own, block.fence[0] - block.start, block.fence[1] - block.start))
    return Record(run=run, notes=tuple(_notes(own, block)))


def _begun(lines: list[str], item: str) -> Run | None:
    """The run as the lines below its heading tell it."""
    head = _fields(lines, 1)
    try:
        return Run(
            item=item,
            token=check.whole(int(head["Token"]), "token", low=1, high=check.TOKEN_MAX),
            session=check.session_id(head["Session"]),
            agent=check.agent_name(head["Claimed By"]),
            started_at=_instant(head["Claimed At"]),
        )
    except (KeyError, ValueError, Invalid):
        return None


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
        said = [found[2] or "", *(line[2:] for line in own[start + 1 : stop])]
        meta = META.fullmatch(said[-1]) if len(said) > 1 else None
        about = None if meta is None else json_value(meta[1], None)
        if isinstance(about, dict):
            yield Note(at=at, note="\n".join(said[:-1]), meta=about)
        else:
            yield Note(at=at, note="\n".join(said))


def note_lines(lines: list[str], progress: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The lines of each note from the heading of progress to the next heading, and when it was told."""
    begin = progress + 1
    while begin < stop and not lines[begin].startswith("#"):
        at, end = _note_at(lines[begin]), begin + 1
        if at is not None:
            while end < stop and lines[end].startswith("  "):
                end += 1
            yield begin, end, at
        begin = end


def _note_at(line: str) -> int | None:
    """When a note was told; None if the line does not begin one."""
    found = _NOTE.fullmatch(line)
    try:
        return None if found is None else _instant(found[1])
    except Invalid:
        return None


def words(lines: list[str], token: int | None) -> Iterator[Word]:
    """What people said to a run, in these lines behind it."""
    for line in lines:
        found = _WORD.fullmatch(line.removesuffix("\r")) if line.startswith("**") else None
        if found is None or found[1] not in KINDS:
            continue
        try:
            at = _instant(found[3])
        except Invalid:
            continue
        comment = None if found[4] is None else _said(found[4].strip())
        yield Word(kind=KINDS[found[1]], token=token, actor=_said(found[2]), at=at, comment=comment)


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


def _checks(text: str | None) -> dict[str, Any]:
    try:
        return check.checks(_object(text), check.JSON_BYTES_MAX)
    except Invalid:
        return {}
