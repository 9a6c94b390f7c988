"""GitHub on the command line: watch a repository, show what a payload would do, import a list of issues."""

from __future__ import annotations

import json
import sys
import time

from dibs.cli.context import Cli
from dibs.cli.items import open_input
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean, number_of
from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.github import belonging, checks, follow, issue_list, payload, policy, policy_file, verdict
from dibs.github.apply import converge, look
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.github.apply import Outcome
    from dibs.github.decide import Step
    from dibs.github.out import Wrote
    from dibs.github.watch import Round, Watcher

EVERY_SECONDS = 60.0
EVERY_SECONDS_MIN = 1.0
#: Changes of the board within this time are written to GitHub together.
COALESCE_SECONDS = 1.0
#: When this part is left of what GitHub allows in an hour, it is little.
LOW_PART = 0.25
FILE_BYTES_MAX = 500_000_000
#: How a verb is told to people.
DID = {"add": "added", "edit": "updated", "cancel": "cancelled", "finish": "done", "approve": "approved"}
DID |= {"annotate": "annotated", "send_back": "sent back"}


def github_watch_options(parser: Parser) -> None:
    parser.argument("repository", "the repository: OWNER/NAME")
    parser.duration("--every", "every", "the time between two looks (default: 60s)")
    parser.option("--once", help="look once, then exit")


def github_watch(cli: Cli) -> None:
    """Look once, or until interrupted."""
    from dibs.github.api import ENV_TOKEN, Api, find_token
    from dibs.github.watch import Watcher

    repository = payload.repository_name(cli.args.repository)
    if repository is None:
        raise Invalid("name a repository as OWNER/NAME, such as acme/shop", field="repository")
    every = EVERY_SECONDS if cli.args.every is None else cli.args.every
    if every < EVERY_SECONDS_MIN:
        raise Invalid(f"--every must be {EVERY_SECONDS_MIN:g}s or more", field="every")
    rules, token = policy_file.load(cli.place), find_token()
    if token is None:
        cli.notice(f"no token: GitHub allows 60 requests an hour; set {ENV_TOKEN}, or type: gh auth login")
    watcher = Watcher(cli.board, Api(token), repository, rules, every=None if cli.args.once else every)
    try:
        if cli.args.once:
            _print_round(cli, watcher.look(), quiet=False)
        else:
            _watch(cli, watcher, every)
    except KeyboardInterrupt:
        pass
    finally:
        watcher.close()


def _watch(cli: Cli, watcher: Watcher, every: float) -> None:
    """Look at GitHub again and again. In between, write there what changes on the board, if the policy says so."""
    watch = cli.board.watch(sweeps=True) if watcher.writes else None
    look_at, is_away, was_low = 0.0, False, None
    try:
        while True:
            try:
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + every
                    found = watcher.look()
                    _print_round(cli, found, quiet=True)
                    was_low = _print_budget(cli, found.budget, was_low)
                else:
                    _print_written(cli, watcher.show())
                is_away = False
            except StoreUnusable:
                raise
            except StoreUnavailable as error:
                look_at = time.monotonic() + max(every, float(error.facts.get("retry_after_seconds") or 0))
                if not is_away:
                    cli.notice(f"{error.message}; trying again")
                is_away = True
            sys.stdout.flush()
            _pause(look_at, None if is_away or watch is None else watch.wait)
    finally:
        if watch is not None:
            watch.close()


def _pause(until: float, wait_for_change: Callable[[float], bool] | None) -> None:
    """Wait, at most until the board changes if that can be waited for."""
    if wait_for_change is not None:
        time.sleep(min(COALESCE_SECONDS, max(0.0, until - time.monotonic())))
        try:
            wait_for_change(max(0.0, until - time.monotonic()))
            return
        except StoreUnavailable:
            pass
    time.sleep(max(0.0, until - time.monotonic()))


def _print_budget(cli: Cli, budget: dict[str, Any] | None, was_low: bool | None) -> bool | None:
    """Say what GitHub allows at first, and when it becomes little or enough again; whether it is little."""
    if budget is None:
        return was_low
    is_low: bool = budget["remaining"] < budget["limit"] * LOW_PART
    if is_low != was_low:
        cli.notice(_allowed(budget))
    return is_low


def _allowed(budget: dict[str, Any]) -> str:
    until = times.iso(1000 * budget["reset_at"])
    allowed = f"GitHub allows {budget['remaining']:,} of {budget['limit']:,} requests until {until}"
    return f"{allowed}; dibs leaves {budget['reserve']:,} of them to other programs with this token"


def _print_round(cli: Cli, found: Round, *, quiet: bool) -> None:
    for name in found.unreadable:
        if not quiet:
            cli.notice(f"the token may not read the {name} of this repository")
    changed = [one for one in found.outcomes if one.did]
    if cli.json:
        _print_problems(cli, found.wrote)
        if changed or found.wrote.written or not quiet:
            plain = [_plain(one) for one in changed]
            told = {"read": found.read, "changed": plain, "written": list(found.wrote.written)}
            cli.print_json(told if found.budget is None else {**told, "budget": found.budget})
        return
    cli.print(*(_line(cli, one) for one in changed))
    _print_written(cli, found.wrote)
    if not quiet:
        cli.print(f"read {number_of(found.read, 'change')}, {number_of(len(changed), 'item')} changed")
        if found.budget is not None:
            cli.print(_allowed(found.budget))


def _print_written(cli: Cli, wrote: Wrote) -> None:
    _print_problems(cli, wrote)
    if cli.json and wrote.written:
        cli.print_json({"read": 0, "changed": [], "written": list(wrote.written)})
    elif wrote.written:
        cli.print(*(f"{cli.paint('wrote', 'green')} {one}" for one in wrote.written))


def _print_problems(cli: Cli, wrote: Wrote) -> None:
    for problem in wrote.problems:
        cli.notice(clean(problem))


def github_test_options(parser: Parser) -> None:
    parser.argument("file", "the payload of a delivery, in JSON (- reads stdin)")
    parser.option("--event", metavar="NAME", help="the event: issues, pull_request, check_run, ...", required=True)


def github_test(cli: Cli) -> None:
    """Show what a delivery with this payload would do. Nothing is changed."""
    event = cli.args.event
    known = tuple(dict.fromkeys((*payload.EVENTS, *checks.EVENTS)))
    if event not in known:
        raise UsageError(f"dibs follows {', '.join(known)}; {event!r} changes nothing", field="event")
    rules = policy_file.load(cli.place, acts=False)
    try:
        data = json.loads(_read(cli.args.file))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the payload is not JSON: {error}", field="file") from error
    fact = payload.from_webhook(event, data, rules.approve_label)
    check = checks.from_webhook(event, data)
    followed = None if check is None else belonging.item_of_check(cli.board, check, rules)
    if check is not None and (fact is None or followed is not None):
        return _print_check(cli, check, followed, rules)
    linked = None if fact is None else belonging.item_of(cli.board, fact, rules)
    if fact is None:
        why = f"it has no {event} that says something new, or no repository"
        return cli.reply({"fact": None, "rule": "", "steps": [], "why": why}, f"nothing to do: {why}")
    fact = fact.replace(linked=linked is not None)
    _, decision = look(cli.board, fact, rules)
    steps = [_step(one) for one in decision.steps]
    answer = {"fact": fact.as_dict(), "rule": decision.rule, "steps": steps, "why": decision.why}
    lines = [f"{clean(fact.subject)}  {clean(fact.state)}, by {clean(fact.author)} ({clean(fact.association)})"]
    lines += [f"  {decision.rule}"] if decision.rule else []
    lines += [f"  would {cli.paint(one.verb, 'green')} {_shown(one)}" for one in decision.steps]
    lines += [] if steps else [f"  nothing to do: {clean(decision.why)}"]
    if linked is not None:
        answer["follows"] = linked[0]
        lines.append(f"  it is the pull request of {linked[0]}{_contract(cli, linked[0], rules)}")
    return cli.reply(answer, *lines)


def _print_check(cli: Cli, check: checks.Check, item: str | None, rules: policy.Policy) -> None:
    answer: dict[str, Any] = {"fact": check.as_dict(), "rule": "", "steps": [], "follows": item, "why": ""}
    lines = [f"{clean(check.name)}  {clean(check.state)} on {check.sha[: verdict.SHORT]} of {check.repository}"]
    if item is None:
        answer["why"] = "its commit is the head of no pull request of an item"
        lines.append(f"  nothing to do: {answer['why']}")
    else:
        ignored = "" if rules.counts(check.name) else "; it does not count, by the policy's checks"
        lines.append(f"  would be noted with {item}{_contract(cli, item, rules)}{ignored}")
    cli.reply(answer, *lines)


def _contract(cli: Cli, item: str, rules: policy.Policy) -> str:
    """What GitHub decides about the item."""
    found = cli.board.get(item).item
    words = follow.CONTRACTS.get(verdict.contract(found, rules))
    return f", which is done when {words}" if found.review and words else ", and decides nothing"


def import_issues(cli: Cli, path: str, *, dry_run: bool) -> None:
    """Bring the board up to date with a list of issues or pull requests."""
    rules, facts = policy_file.load(cli.place, acts=False), issue_list.read(_read(path))
    outcomes: list[tuple[str, tuple[str, ...]]] = []
    for fact in facts:
        if dry_run:
            outcomes.append((fact.subject, tuple(one.verb for one in look(cli.board, fact, rules)[1].steps)))
        else:
            outcomes.append((fact.subject, converge(cli.board, fact, rules).did))
    by_verb = {name: [subject for subject, did in outcomes if verb in did] for verb, name in DID.items()}
    unchanged = sum(not did for _, did in outcomes)
    answer: dict[str, Any] = {**by_verb, "unchanged": unchanged, "dry_run": dry_run}
    verb = cli.paint("would add" if dry_run else "added", "green")
    lines = [f"{verb} {number_of(len(by_verb['added']), 'item')}"]
    lines += [f"  {name}: {len(found)}" for name, found in by_verb.items() if found and name != "added"]
    if unchanged:
        lines.append(cli.paint(f"  {unchanged} with nothing to do: closed, or up to date", "dim"))
    strangers = sum(fact.is_outsiders and fact.is_work for fact in facts)
    if strangers and rules.outsiders == policy.APPROVAL and by_verb["added"]:
        lines.append(cli.paint("  what is not known to be a member's waits for approval: dibs approve ITEM", "dim"))
    cli.reply(answer, *lines)


def _read(path: str) -> bytes:
    with open_input(path) as file:
        found = file.read(FILE_BYTES_MAX + 1)
    if len(found) > FILE_BYTES_MAX:
        raise Invalid(f"{path} has more than {FILE_BYTES_MAX} bytes", field="file")
    return found


def _step(step: Step) -> dict[str, Any]:
    return {"verb": step.verb, "item": step.item, "arguments": step.arguments}


def _shown(step: Step) -> str:
    given = step.arguments
    if step.verb == "add":
        wait = ", waiting for approval" if given["needs_approval"] else ""
        return clean(f"{given['type']} with priority {given['priority']} to {given['project']}{wait}: {given['title']}")
    names = ", ".join(name for name in given if name not in ("revision", "status", "url"))
    return clean(f"{step.item} ({names})")


def _line(cli: Cli, outcome: Outcome) -> str:
    did = ", ".join(DID[one] for one in outcome.did)
    return f"{cli.paint(did, 'green')} {clean(outcome.item or '')}  {clean(outcome.subject)}"


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {**outcome.as_dict(), "did": list(outcome.did)}
