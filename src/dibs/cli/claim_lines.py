"""Claims as lines for people: granted, renewed, lost or ended, and the decision about a draft."""

from __future__ import annotations

from dibs.cli.render import (
    MARK,
    STATUS_COLOURS,
    Paint,
    ago,
    clean,
    clock,
    number_of,
    paragraphs,
    quoted,
)
from dibs.model import ENDED, FAILED, IN_PROGRESS
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Approval, Blocker, Ended, Event, Grant, Heartbeat, Item, Lost, Note, Previous, Renewal

INDENT = "  "
#: How many events back the latest decision about a draft is searched.
DECISION_EVENTS = 1000


def grant(given: Grant, paint: Paint) -> list[str]:
    """The claim, the item, and the previous run."""
    item, claim = given.item, given.claim
    left = times.span((claim.expires_at - claim.renewed_at) / 1000)
    what = paint("already yours, renewed", "yellow") if given.renewed else paint("claimed", "green")
    lines = [
        f"{what} {paint(item.id, 'bold')}{INDENT}{clean(item.title)}",
        INDENT + paint(f"{attributes(item)} · token {claim.token} · {left} until {clock(claim.expires_at)}", "dim"),
    ]
    if item.body:
        lines += ["", *quoted(item.body, INDENT), ""]
    if item.payload:
        import json

        lines.append(INDENT + MARK + paint(json.dumps(item.payload), "dim"))
    return lines + (_previous_run(given.previous, paint) if given.previous else [])


def handed(given: Grant, paint: Paint) -> str:
    """The claim that another session has now."""
    item, claim = given.item, given.claim
    to = f"to {paint.agent(claim.agent)} (session {clean(claim.session)})"
    return f"{paint('handed', 'cyan')} {paint(item.id, 'bold')} {to}{INDENT}{paint(f'token {claim.token}', 'dim')}"


def decision(board: Board, grant: Grant, paint: Paint) -> list[str]:
    """The decision about the draft that preceded this claim, if there was one, and the approved draft."""
    drafted = grant.previous is not None and grant.previous.run.outcome == "submitted"
    found = latest_decision(board, grant.item) if drafted or grant.item.approved else None
    return [] if found is None else [INDENT + decision_line(found, paint), *_approved_draft(grant.approval, paint)]


def _approved_draft(approval: Approval | None, paint: Paint) -> list[str]:
    run = None if approval is None else approval.run
    if run is None or run.draft is None:
        return []
    heading = f"the approved draft, by {paint.agent(run.agent)} {paint(f'· token {run.token}', 'dim')}"
    return ["", INDENT + heading, *quoted(run.draft, INDENT * 2)]


def latest_decision(board: Board, item: Item) -> Event | None:
    """The approval in force, or else the latest time that a draft was sent back."""
    events = board.events(item=item.id, newest=True, limit=DECISION_EVENTS)
    kind = "approved" if item.approved else "sent_back"
    return next((event for event in reversed(events) if event.kind == kind), None)


def decision_line(event: Event, paint: Paint) -> str:
    """`approved by alice 5m ago: shorter next time`."""
    what = paint(event.kind.replace("_", " "), "green" if event.kind == "approved" else "yellow")
    comment = " ".join(paragraphs(event.data.get("comment") or "", ""))
    return f"{what} by {clean(event.actor)} {ago(event.at)}" + (f": {comment}" if comment else "")


def attributes(item: Item) -> str:
    """`bug · high · #ui`: an item's type, action, priority, project and labels, leaving out defaults."""
    words = [item.type, *([item.action] if item.action != item.type else []), priorities.name(item.priority)]
    words += [item.project] if item.project != "default" else []
    return " · ".join([*words, *(f"#{label}" for label in item.labels)])


def _previous_run(previous: Previous, paint: Paint) -> list[str]:
    run = previous.run
    outcome = (run.outcome or "running").replace("_", " ")
    line = f"previous run: {run.agent}, {outcome} {ago(run.ended_at)}"
    if run.reason:
        line += f" ({' '.join(paragraphs(run.reason, ''))})"
    lines = [INDENT + paint.outcome(line, run.outcome, "dim")]
    lines += notes(previous.notes, paint, INDENT * 2)
    return lines + [f"{INDENT * 2}{MARK}{clean(name)}: {clean(str(target))}" for name, target in run.links.items()]


def notes(of_run: tuple[Note, ...], paint: Paint, indent: str) -> list[str]:
    """Progress notes with their times; the lines of one note are aligned."""
    lines = []
    for note in of_run:
        first, *more = quoted(note.note, "") or [MARK.rstrip()]
        at = clock(note.at)
        lines.append(f"{indent}{paint(at, 'dim')}  {first}")
        lines += [f"{indent}{' ' * len(at)}  {line}" for line in more]
    return lines


def renewal(renewed: Renewal, paint: Paint) -> str:
    what = paint("renewed", "green") if renewed.renewed else paint("renewed recently", "dim")
    line = f"{what} {_lease(renewed, paint)}"
    if renewed.warning:
        line += f"  {paint(renewed.warning, 'red' if renewed.warning == 'expiring' else 'yellow')}"
    return line


def noted(renewed: Renewal, paint: Paint) -> str:
    return f"{paint('noted', 'green')} {_lease(renewed, paint)}"


def _lease(renewed: Renewal, paint: Paint) -> str:
    left = times.span(renewed.remaining_seconds)
    return f"{paint(renewed.item, 'bold')}  {left} until {clock(renewed.expires_at)}"


def end(ended: Ended, paint: Paint) -> str:
    run, item = ended.run, ended.item
    took = times.span(((run.ended_at or run.started_at) - run.started_at) / 1000)
    outcome = (run.outcome or "ended").replace("_", " ")
    line = f"{paint.outcome(outcome, run.outcome, 'green')} {paint(item.id, 'bold')}"
    line += f"  {paint(f'after {took}', 'dim')}"
    return line if run.outcome == item.status else f"{line}  {new_status(item, paint)}"


def new_status(item: Item, paint: Paint) -> str:
    if item.offered_to is not None:
        return f"now offered to session {clean(item.offered_to)}"
    return f"now {paint(item.status, STATUS_COLOURS.get(item.status, ''))}"


def stuck(item: Item, blockers: tuple[Blocker, ...], paint: Paint) -> list[str]:
    """Why the item cannot become claimable (a dependency ended without being done), and the commands that unblock it;
    empty if it can."""
    ended = unsatisfiable(item, blockers)
    if not ended:
        return []
    others = [needs for needs in item.depends_on if needs not in {blocker.item for blocker in ended}]
    helps = [f"dibs retry {blocker.item}" for blocker in ended if blocker.status == FAILED]
    helps.append(f"dibs edit {item.id} {' '.join(f'--needs {needs}' for needs in others) or '--no-needs'}")
    why = ", ".join(f"{blocker.item} is {blocker.status}" for blocker in ended)
    return [paint(f"it stays blocked, because {why}. To unblock it:", "red"), *(f"  {line}" for line in helps)]


def unsatisfiable(item: Item, blockers: tuple[Blocker, ...]) -> list[Blocker]:
    """The dependencies of an unclaimed, open item that have ended without being done."""
    if item.status in (IN_PROGRESS, *ENDED):
        return []
    return [blocker for blocker in blockers if not blocker.will_move]


def heartbeat(beat: Heartbeat, paint: Paint) -> list[str]:
    lines = [renewal(renewed, paint) for renewed in beat.renewed]
    lines += [f"{paint('released', 'yellow')} {paint(item, 'bold')}  not in --holding" for item in beat.forgotten]
    lines += [_lost(one, paint) for one in beat.lost]
    if not lines:
        return [paint(f"session {clean(beat.session)} is live and holds no claim", "dim")]
    every = f"next heartbeat within {times.span(beat.heartbeat_seconds)}"
    renewed = sum(one.renewed for one in beat.renewed)
    return [*lines, paint(f"{number_of(renewed, 'claim')} renewed · {every}", "dim")]


def _lost(one: Lost, paint: Paint) -> str:
    line = f"{paint('lost', 'red')} {paint(one.item, 'bold')}  {one.how.replace('_', ' ')}"
    if one.holder:
        line += f"; now held by {paint.agent(one.holder['agent'])} (session {clean(one.holder['session'])})"
    return line
