"""One item in full, `show`, and why it can or cannot be claimed, `why`."""

from __future__ import annotations

import sys

from dibs import when
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import (
    ELLIPSIS,
    OUTCOME_COLOURS,
    STATUS_COLOURS,
    ago,
    clean,
    clock,
    held_until,
    number_of,
    paragraphs,
    table,
    terminal_columns,
    until,
)
from dibs.cli.telling import decided, kind_of, latest_decision, notes, will_not_move
from dibs.errors import SessionNotFound
from dibs.model import BLOCKED, PENDING_APPROVAL, SCHEDULED, Detail

INDENT = "  "


def show_options(parser: Parser) -> None:
    parser.item()


def show(cli: Cli) -> None:
    detail = cli.board.get(cli.args.item)
    return cli.answer(detail) if cli.json else cli.say(*in_full(cli, detail))


def why_options(parser: Parser) -> None:
    parser.item()
    parser.identity()


def why(cli: Cli) -> None:
    """A line for each reason why this session cannot claim the item now; or why it can, and what `next` would do.
    Where no session is known, or none has begun, what a new one would meet."""
    item, caller = cli.args.item, identity.caller(cli)
    try:
        reasons = cli.board.why(item, session=caller.session, agent=caller.agent)
    except SessionNotFound:
        reasons = cli.board.why(item, agent=caller.agent)
    if cli.json:
        return cli.answer({"reasons": reasons})
    claimable = any(reason.claimable for reason in reasons)
    for reason in reasons:
        mark = cli.paint("✓", "green") if reason.claimable else cli.paint("·" if claimable else "✗", "yellow")
        cli.say(f"{mark} {clean(reason.text)}")
    return None


def in_full(cli: Cli, detail: Detail) -> list[str]:
    item, paint = detail.item, cli.paint
    lines = [
        f"{paint(item.id, 'bold')}  {clean(item.title)}",
        f"  {paint(item.status, STATUS_COLOURS.get(item.status, ''))} · {kind_of(item)}"
        + (f" · {clean(item.phase)}" if item.phase else ""),
        paint(f"  added {ago(item.created_at)} by {clean(item.created_by)}, changed {ago(item.updated_at)}", "dim"),
        *(INDENT + line for line in _circumstances(cli, detail)),
    ]
    if item.body:
        lines += ["", *paragraphs(item.body, INDENT)]
    if item.payload:
        import json

        lines += ["", *paragraphs(json.dumps(item.payload, indent=2), INDENT)]
    lines += _draft(cli, detail)
    if detail.runs:
        lines += ["", *_run_rows(cli, detail), *_came_of(cli, detail)]
    lines += _said(cli, detail)
    if detail.notes:
        lines += ["", f"  notes of {paint.agent(detail.runs[0].agent)}", *notes(detail.notes, paint, INDENT)]
    return lines


def _circumstances(cli: Cli, detail: Detail) -> list[str]:
    """Who has the item or waits for it, what it waits for itself, and what it touches."""
    item, claim, paint = detail.item, detail.claim, cli.paint
    lines = []
    if claim is not None:
        held = f"held by {paint.agent(claim.agent)} (session {clean(claim.session)}) since {clock(claim.claimed_at)}"
        lines.append(f"{held}, {held_until(claim.expires_at)} · token {claim.token}")
    if item.offered_to is not None and item.offer_expires_at is not None:
        left = when.span(max(0, item.offer_expires_at - _now()) / 1000)
        lines.append(f"offered to session {clean(item.offered_to)} for {left}")
    lines += _needs(cli, detail)
    if item.status == SCHEDULED and item.not_before is not None:
        lines.append(f"scheduled until {until(item.not_before)}")
    elif item.not_before is not None and item.not_before > _now():
        lines.append(f"not before {until(item.not_before)}")
    if item.approved or any(run.outcome == "submitted" for run in detail.runs):
        decision = latest_decision(cli.board, item)
        lines += [] if decision is None else [decided(decision, paint)]
    if item.status == PENDING_APPROVAL:
        lines.append(f"waits for approval: dibs approve {item.id} --revision {item.revision}, or send-back, or reject")
    if item.resources:
        lines.append(f"touches {clean(', '.join(item.resources))}")
    if item.failures:
        lines.append(paint(f"failed {number_of(item.failures, 'time')}; tried again up to {item.retries}", "yellow"))
    if item.strikes:
        lines.append(paint(number_of(item.strikes, "strike"), "yellow"))
    return lines + _waiters(cli, detail)


def _needs(cli: Cli, detail: Detail) -> list[str]:
    """What has to be done before, each with its status, and what helps where that will not come by itself."""
    item, paint = detail.item, cli.paint
    if not item.depends_on:
        return []
    blockers = {blocker.item: blocker for blocker in detail.blockers}
    statuses = {needs: blockers[needs].status if needs in blockers else "done" for needs in item.depends_on}
    named = [f"{needs} ({paint(status, STATUS_COLOURS.get(status, ''))})" for needs, status in statuses.items()]
    needed = f"{'blocked: it ' if item.status == BLOCKED else ''}needs {', '.join(named)}"
    return [needed, *will_not_move(item, detail.blockers, paint)]


def _waiters(cli: Cli, detail: Detail) -> list[str]:
    if not detail.waiters:
        return []
    rows = [
        [f"{number}.", ticket.agent, f"session {ticket.session}", f"since {clock(ticket.since_at)}"]
        for number, ticket in enumerate(detail.waiters, start=1)
    ]
    columns = terminal_columns(sys.stdout)
    room = None if columns is None else columns - len(INDENT)
    shown = table(rows, shrink=(2, 1), right=(0,), columns=room, paint=cli.paint, indent=INDENT)
    return [f"{len(rows)} waiting for it", *shown]


def _draft(cli: Cli, detail: Detail) -> list[str]:
    """The latest draft, while it is to be decided about or was."""
    run = next((run for run in detail.runs if run.draft is not None), None)
    if run is None or run.draft is None:
        return []
    heading = f"draft of {cli.paint.agent(run.agent)} {cli.paint(f'{ago(run.ended_at)} · token {run.token}', 'dim')}"
    return ["", INDENT + heading, *paragraphs(run.draft, INDENT * 2)]


def _said(cli: Cli, detail: Detail) -> list[str]:
    """What was said at the latest end, if that is more than a line."""
    run = next((run for run in detail.runs if run.outcome is not None), None)
    said = paragraphs((run.reason if run else None) or "", INDENT * 2)
    if run is None or len(said) < 2:
        return []
    return ["", f"{INDENT}said at the end of {cli.paint(f'token {run.token}', 'dim')}", *said]


def _came_of(cli: Cli, detail: Detail) -> list[str]:
    """Links, checks and costs of each run that has any."""
    from dibs.cli.eventlines import came_of

    lines = []
    for run in detail.runs:
        told = [*(f"{name}: {target}" for name, target in run.links.items()), *came_of(run.checks, run.cost)]
        if told:
            lines += ["", f"{INDENT}came of {cli.paint(f'token {run.token}', 'dim')}"]
            lines += [line for one in told for line in paragraphs(one, INDENT * 2)]
    return lines


def _run_rows(cli: Cli, detail: Detail) -> list[str]:
    rows, styles = [], []
    for run in detail.runs:
        took = when.span(((run.ended_at or run.started_at) - run.started_at) / 1000) if run.ended_at else ""
        outcome = run.outcome or "running"
        first, *more = paragraphs(run.reason or "", "") or [""]
        why = f"{first} {ELLIPSIS}" if more else first
        rows.append([f"token {run.token}", run.agent, outcome, took, ago(run.ended_at), why])
        styles.append(["dim", "", OUTCOME_COLOURS.get(outcome, "")])
    columns = terminal_columns(sys.stdout)
    return table(rows, styles=styles, shrink=(5, 1), columns=columns, paint=cli.paint, indent=INDENT)


def _now() -> int:
    """This machine's clock, which is good enough for reading."""
    import time

    return int(time.time() * 1000)
