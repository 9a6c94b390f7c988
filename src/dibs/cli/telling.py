"""What a worker is told in plain words: a claim given, renewed, lost or ended, and what was decided about a draft."""

from __future__ import annotations

from dibs import priority, when
from dibs.cli.render import OUTCOME_COLOURS, STATUS_COLOURS, Paint, ago, clean, clock, number_of, paragraphs
from dibs.model import ENDED, FAILED, IN_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Approval, Blocker, Ended, Event, Grant, Heartbeat, Item, Lost, Note, Previous, Renewal

INDENT = "  "
#: How far back the latest decision about a draft is looked for.
DECISION_EVENTS = 1000


def grant(given: Grant, paint: Paint) -> list[str]:
    """The claim, the work itself, and where the last holder stopped."""
    item, claim = given.item, given.claim
    left = when.span((claim.expires_at - claim.renewed_at) / 1000)
    what = paint("already yours, renewed", "yellow") if given.renewed else paint("claimed", "green")
    lines = [
        f"{what} {paint(item.id, 'bold')}{INDENT}{clean(item.title)}",
        INDENT + paint(f"{kind_of(item)} · token {claim.token} · {left} until {clock(claim.expires_at)}", "dim"),
    ]
    if item.body:
        lines += ["", *paragraphs(item.body, INDENT), ""]
    if item.payload:
        import json

        lines.append(INDENT + paint(json.dumps(item.payload), "dim"))
    return lines + (before_you(given.previous, paint) if given.previous else [])


def decision(board: Board, grant: Grant, paint: Paint) -> list[str]:
    """What was said about the draft that came before this claim, if there was one: it is why there is a next claim."""
    drafted = grant.previous is not None and grant.previous.run.outcome == "submitted"
    found = latest_decision(board, grant.item) if drafted or grant.item.approved else None
    return [] if found is None else [INDENT + decided(found, paint), *_approved_draft(grant.approval, paint)]


def _approved_draft(approval: Approval | None, paint: Paint) -> list[str]:
    """What there is to carry out, and nothing else."""
    run = None if approval is None else approval.run
    if run is None or run.draft is None:
        return []
    heading = f"the draft that was approved, of {paint.agent(run.agent)} {paint(f'· token {run.token}', 'dim')}"
    return ["", INDENT + heading, *paragraphs(run.draft, INDENT * 2)]


def latest_decision(board: Board, item: Item) -> Event | None:
    """The approval that holds, or else the latest time a draft was sent back."""
    events = board.events(item=item.id, newest=True, limit=DECISION_EVENTS)
    kind = "approved" if item.approved else "sent_back"
    return next((event for event in reversed(events) if event.kind == kind), None)


def decided(event: Event, paint: Paint) -> str:
    """`approved by alice 5m ago: shorter next time`."""
    what = paint(event.kind.replace("_", " "), "green" if event.kind == "approved" else "yellow")
    comment = " ".join(paragraphs(event.data.get("comment") or "", ""))
    return f"{what} by {clean(event.actor)} {ago(event.at)}" + (f": {comment}" if comment else "")


def kind_of(item: Item) -> str:
    """An item's type, priority, project and labels, in a few words."""
    words = [item.type, *([item.action] if item.action != item.type else []), priority.name(item.priority)]
    words += [item.project] if item.project != "default" else []
    return " · ".join([*words, *(f"#{label}" for label in item.labels)])


def before_you(previous: Previous, paint: Paint) -> list[str]:
    run = previous.run
    outcome = (run.outcome or "running").replace("_", " ")
    line = f"before you: {run.agent}, {outcome} {ago(run.ended_at)}"
    if run.reason:
        line += f" ({' '.join(paragraphs(run.reason, ''))})"
    lines = [INDENT + paint(line, OUTCOME_COLOURS.get(run.outcome or "", "dim"))]
    lines += notes(previous.notes, paint, INDENT * 2)
    return lines + [f"{INDENT * 2}{clean(name)}: {clean(str(target))}" for name, target in run.links.items()]


def notes(left: tuple[Note, ...], paint: Paint, indent: str) -> list[str]:
    """Notes of progress with their times; those of several lines stay under each other."""
    lines = []
    for note in left:
        first, *more = paragraphs(note.note, "") or [""]
        at = clock(note.at)
        lines.append(f"{indent}{paint(at, 'dim')}  {first}")
        lines += paragraphs("\n".join(more), f"{indent}{' ' * len(at)}  ")
    return lines


def renewal(renewed: Renewal, paint: Paint) -> str:
    left = when.span(renewed.remaining_seconds)
    what = paint("renewed", "green") if renewed.renewed else paint("renewed just now", "dim")
    line = f"{what} {paint(renewed.item, 'bold')}  {left} until {clock(renewed.expires_at)}"
    if renewed.warning:
        line += f"  {paint(renewed.warning, 'red' if renewed.warning == 'expiring' else 'yellow')}"
    return line


def noted(renewed: Renewal, paint: Paint) -> str:
    left = when.span(renewed.remaining_seconds)
    return f"{paint('noted', 'green')} {paint(renewed.item, 'bold')}  {left} until {clock(renewed.expires_at)}"


def end(ended: Ended, paint: Paint) -> str:
    run, item = ended.run, ended.item
    took = when.span(((run.ended_at or run.started_at) - run.started_at) / 1000)
    outcome = (run.outcome or "ended").replace("_", " ")
    line = f"{paint(outcome, OUTCOME_COLOURS.get(run.outcome or '', 'green'))} {paint(item.id, 'bold')}"
    line += f"  {paint(f'after {took}', 'dim')}"
    return line if run.outcome == item.status else f"{line}  {and_now(item, paint)}"


def and_now(item: Item, paint: Paint) -> str:
    """Where an item went."""
    if item.offered_to is not None:
        return f"it is offered to session {clean(item.offered_to)} now"
    return f"it is {paint(item.status, STATUS_COLOURS.get(item.status, ''))} now"


def will_not_move(item: Item, blockers: tuple[Blocker, ...], paint: Paint) -> list[str]:
    """Why the item can never be claimed as things stand, and the commands that help; nothing if it can."""
    ended = never_done(item, blockers)
    if not ended:
        return []
    others = [needs for needs in item.depends_on if needs not in {blocker.item for blocker in ended}]
    helps = [f"dibs retry {blocker.item}" for blocker in ended if blocker.status == FAILED]
    helps.append(f"dibs edit {item.id} {' '.join(f'--needs {needs}' for needs in others) or '--no-needs'}")
    why = ", ".join(f"{blocker.item} is {blocker.status}" for blocker in ended)
    return [paint(f"it will not move: {why}. To go on:", "red"), *(f"  {line}" for line in helps)]


def never_done(item: Item, blockers: tuple[Blocker, ...]) -> list[Blocker]:
    """The dependencies that an item which nobody holds waits for in vain."""
    if item.status in (IN_PROGRESS, *ENDED):
        return []
    return [blocker for blocker in blockers if not blocker.will_move]


def heartbeat(beat: Heartbeat, paint: Paint) -> list[str]:
    lines = [renewal(renewed, paint) for renewed in beat.renewed]
    lines += [f"{paint('let go', 'yellow')} {paint(item, 'bold')}  not among what is held" for item in beat.forgotten]
    lines += [lost(one, paint) for one in beat.lost]
    if not lines:
        return [paint(f"session {clean(beat.session)} is alive and holds nothing", "dim")]
    every = f"next heartbeat within {when.span(beat.heartbeat_seconds)}"
    renewed = sum(one.renewed for one in beat.renewed)
    return [*lines, paint(f"{number_of(renewed, 'claim')} renewed · {every}", "dim")]


def lost(one: Lost, paint: Paint) -> str:
    line = f"{paint('lost', 'red')} {paint(one.item, 'bold')}  {one.how.replace('_', ' ')}"
    if one.holder:
        line += f"; {paint.agent(one.holder['agent'])} (session {clean(one.holder['session'])}) has it now"
    return line
