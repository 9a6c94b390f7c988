"""One item in full (`show`), and why it can or cannot be claimed (`why`)."""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.claim_lines import INDENT, attributes, decision_line, latest_decision, notes, stuck
from dibs.cli.context import Cli
from dibs.cli.event_lines import OUTCOME_COLOURS, checks_and_cost
from dibs.cli.parser import Parser
from dibs.cli.render import (
    ELLIPSIS,
    MARK,
    STATUS_COLOURS,
    ago,
    clean,
    clock,
    held_until,
    now_ms,
    number_of,
    paragraphs,
    quoted,
    until,
)
from dibs.errors import SessionNotFound
from dibs.model import BLOCKED, PENDING_APPROVAL, SCHEDULED, Detail, Item
from dibs.text import times


def show_options(parser: Parser) -> None:
    parser.item()


def show(cli: Cli) -> None:
    detail = cli.board.get(cli.args.item)
    return cli.print_json(detail) if cli.json else cli.print(*item_lines(cli, detail))


def why_options(parser: Parser) -> None:
    parser.item()
    parser.identity()


def why(cli: Cli) -> None:
    """A line for each reason why the caller's session cannot claim the item now, or for why it can. Where no session is
    known or live, the reasons are those that a new session would meet."""
    item, caller = cli.args.item, identity.caller(cli)
    try:
        reasons = cli.board.why(item, session=caller.session, agent=caller.agent)
    except SessionNotFound:
        reasons = cli.board.why(item, agent=caller.agent)
    if cli.json:
        return cli.print_json({"reasons": reasons})
    claimable = any(reason.claimable for reason in reasons)
    for reason in reasons:
        mark = cli.paint("✓", "green") if reason.claimable else cli.paint("·" if claimable else "✗", "yellow")
        cli.print(f"{mark} {clean(reason.text)}")
    return None


def item_lines(cli: Cli, detail: Detail) -> list[str]:
    item, paint = detail.item, cli.paint
    lines = [
        f"{paint(item.id, 'bold')}  {clean(item.title)}",
        f"  {paint(item.status, STATUS_COLOURS.get(item.status, ''))} · {attributes(item)}"
        + (f" · {clean(item.phase)}" if item.phase else ""),
        paint(f"  added {ago(item.created_at)} by {clean(item.created_by)}, changed {ago(item.updated_at)}", "dim"),
        paint(f"  {_limits(item)} · revision {item.revision}", "dim"),
        *(INDENT + line for line in _state(cli, detail)),
    ]
    if item.body:
        lines += ["", *quoted(item.body, INDENT)]
    if item.payload:
        import json

        lines += ["", *quoted(json.dumps(item.payload, indent=2), INDENT)]
    lines += _draft(cli, detail)
    if detail.runs:
        lines += ["", *_run_rows(cli, detail), *_results(cli, detail)]
    lines += _long_reason(cli, detail)
    if detail.notes:
        lines += ["", f"  notes by {paint.agent(detail.runs[0].agent)}", *notes(detail.notes, paint, INDENT)]
    return lines


def _limits(item: Item) -> str:
    retries = f"up to {number_of(item.retries, 'retry', 'retries')}" if item.retries else "no retries"
    return f"timeout {times.span(item.timeout_seconds)} · {retries}"


def _state(cli: Cli, detail: Detail) -> list[str]:
    """The claim, the offer, the queue, and everything that the item waits for or uses."""
    item, claim, paint = detail.item, detail.claim, cli.paint
    lines = []
    if claim is not None:
        held = f"held by {paint.agent(claim.agent)} (session {clean(claim.session)}) since {clock(claim.claimed_at)}"
        lines.append(f"{held}, {held_until(claim.expires_at)} · token {claim.token}")
    if item.offered_to is not None and item.offer_expires_at is not None:
        left = times.span(max(0, item.offer_expires_at - now_ms()) / 1000)
        lines.append(f"offered to session {clean(item.offered_to)} for {left}")
    lines += _dependencies(cli, detail)
    if item.status == SCHEDULED and item.not_before is not None:
        lines.append(f"scheduled until {until(item.not_before)}")
    elif item.not_before is not None and item.not_before > now_ms():
        lines.append(f"not before {until(item.not_before)}")
    if item.approved or any(run.outcome == "submitted" for run in detail.runs):
        decision = latest_decision(cli.board, item)
        lines += [] if decision is None else [decision_line(decision, paint)]
    if item.status == PENDING_APPROVAL:
        lines.append(f"waits for approval: dibs approve {item.id} --revision {item.revision}, or send-back, or reject")
    elif item.review:
        lines.append("its result is reviewed: done waits for approval")
    if item.subject is not None:
        lines.append(f"subject {paint.link(item.subject, _address(item.subject))}")
    if item.resources:
        lines.append(f"uses {clean(', '.join(item.resources))}")
    if item.failures:
        retries = number_of(item.retries, "retry", "retries")
        lines.append(paint(f"failed {number_of(item.failures, 'time')}; {retries} allowed", "yellow"))
    if item.strikes:
        lines.append(paint(number_of(item.strikes, "strike"), "yellow"))
    return lines + _waiters(cli, detail)


def _address(subject: str) -> str:
    """The page of a subject, if it has one."""
    repository, number, issue = subject.removeprefix("github:").partition("#")
    is_issue = subject.startswith("github:") and bool(number)
    return f"https://github.com/{repository}/issues/{issue}" if is_issue else subject


def _dependencies(cli: Cli, detail: Detail) -> list[str]:
    """Each dependency with its status, and what to do about one that will never be done."""
    item, paint = detail.item, cli.paint
    if not item.depends_on:
        return []
    blockers = {blocker.item: blocker for blocker in detail.blockers}
    statuses = {needs: blockers[needs].status if needs in blockers else "done" for needs in item.depends_on}
    named = [f"{needs} ({paint(status, STATUS_COLOURS.get(status, ''))})" for needs, status in statuses.items()]
    needed = f"{'blocked: ' if item.status == BLOCKED else ''}needs {', '.join(named)}"
    return [needed, *stuck(item, detail.blockers, paint)]


def _waiters(cli: Cli, detail: Detail) -> list[str]:
    if not detail.waiters:
        return []
    rows = [
        [f"{number}.", ticket.agent, f"session {ticket.session}", f"since {clock(ticket.since_at)}"]
        for number, ticket in enumerate(detail.waiters, start=1)
    ]
    # The table is indented twice, here and by the caller; both count against the width.
    shown = cli.table(rows, shrink=(2, 1), right=(0,), indent=INDENT * 2)
    return [f"{len(rows)} waiting for it", *(line.removeprefix(INDENT) for line in shown)]


def _draft(cli: Cli, detail: Detail) -> list[str]:
    """The latest draft."""
    run = next((run for run in detail.runs if run.draft is not None), None)
    if run is None or run.draft is None:
        return []
    heading = f"draft by {cli.paint.agent(run.agent)} {cli.paint(f'{ago(run.ended_at)} · token {run.token}', 'dim')}"
    return ["", INDENT + heading, *quoted(run.draft, INDENT * 2)]


def _long_reason(cli: Cli, detail: Detail) -> list[str]:
    """The reason of the latest ended run, if it has more than the one line that the table of runs shows."""
    run = next((run for run in detail.runs if run.outcome is not None), None)
    reason = quoted((run.reason if run else None) or "", INDENT * 2)
    if run is None or len(reason) < 2:
        return []
    return ["", f"{INDENT}reason of {cli.paint(f'token {run.token}', 'dim')}", *reason]


def _results(cli: Cli, detail: Detail) -> list[str]:
    """Links, checks and costs of each run that has any."""
    lines = []
    for run in detail.runs:
        before = INDENT * 2 + MARK
        links = [f"{before}{clean(name)}: {cli.paint.link(str(url), str(url))}" for name, url in run.links.items()]
        others = [line for one in checks_and_cost(run.checks, run.cost) for line in quoted(one, INDENT * 2)]
        if links or others:
            lines += ["", f"{INDENT}results of {cli.paint(f'token {run.token}', 'dim')}", *links, *others]
    return lines


def _run_rows(cli: Cli, detail: Detail) -> list[str]:
    rows, styles = [], []
    for run in detail.runs:
        took = times.span((run.ended_at - run.started_at) / 1000) if run.ended_at else ""
        outcome = run.outcome or "running"
        first, *more = paragraphs(run.reason or "", "") or [""]
        reason = f"{first} {ELLIPSIS}" if more else first
        rows.append([f"token {run.token}", run.agent, outcome, took, ago(run.ended_at), reason])
        styles.append(["dim", "", OUTCOME_COLOURS.get(outcome, "")])
    return cli.table(rows, styles=styles, shrink=(5, 1), indent=INDENT)
