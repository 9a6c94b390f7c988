"""Runs follow their pull requests: what GitHub says about a pull request and its checks is remembered with its item,
annotates the run, and decides about a result that waits for review.

A pull request belongs to an item by its branch (`dibs/ITEM`), or by a line in its text or in the message of its head:
`Dibs-Claim: ITEM/TOKEN`, or `Dibs-Item: ITEM`. Only one whose head is in the repository itself, or whose author is a
member, belongs to anything, and only to an item of a project that the repository maps to.

What is known stands in the payload of the item, under `external`: of each pull request its newest state, and of the
commits that matter their checks. Each has a version, and an older one changes nothing. So deliveries may come twice,
late and in any order. `settle` decides on what is known, however it came to be known.
"""

from __future__ import annotations

import re

from dibs.check import LIST_MAX, NAME_LENGTH_MAX
from dibs.errors import Invalid, ItemChanged, ItemNotClaimable, ItemNotFound, StoreUnavailable
from dibs.github import checks
from dibs.github import policy as policies
from dibs.github.apply import OVERTAKEN, Outcome
from dibs.github.decide import COMPLETE, SAID, kept, remembered
from dibs.github.payload import CLOSED, MEMBERS, MERGED, OPEN, PULL_REQUEST, Fact
from dibs.github.policy import NEVER, ON_CHECKS, ON_MERGE
from dibs.github.pull_memory import checks_of, pulls_of, with_check, with_pull
from dibs.guard import trailers
from dibs.model import DONE, ENDED, IN_PROGRESS, PENDING_APPROVAL
from dibs.rules import table
from dibs.rules.table import EXTERNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.github.checks import Check
    from dibs.github.policy import Policy
    from dibs.github.pull_memory import Known, Pull
    from dibs.model import Detail, Item, Run


BRANCH_PREFIX = "dibs/"
#: More than the other callers that change an item in between.
ROUNDS_MAX = 200
FAILURES_SHOWN = 3
SHORT = 7
EVENTS_MAX = 1000
_LINE = re.compile(rf"^[ \t]*Dibs-Item[ \t]*:[ \t]*({trailers.ITEM})[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PULL_LINK = re.compile(r"(?:https?://[^/\s]+/)?(?:([\w.-]+/[\w.-]+)(?:/pull/|#)|#)?([1-9]\d*)(?:[/?#].*)?", re.ASCII)
#: What completes an item, in words.
CONTRACTS = {ON_MERGE: "its pull request is merged", ON_CHECKS: "the checks of its pull request are green"}


def actor(repository: str) -> str:
    """Who decides in the name of a repository."""
    return f"github:{repository}"[:NAME_LENGTH_MAX]


def item_of(board: Board, fact: Fact, policy: Policy, message: str = "") -> tuple[str, tuple[int, ...]] | None:
    """The item that a pull request belongs to, and the tokens that its lines name. `message` is that of its head."""
    if fact.event != PULL_REQUEST or not is_trusted(fact):
        return None
    text = f"{fact.body}\n{message}".replace("\r", "")
    claims = trailers.of(text)
    named = [one.item for one in claims] + _LINE.findall(text)
    branch = _item_of_branch(fact.branch)
    for item in dict.fromkeys([*([branch] if branch else []), *named]):
        if _is_followed(board, item, fact.repository, policy):
            return item, tuple(sorted({one.token for one in claims if one.item == item}))
    return None


def pull(board: Board, fact: Fact, policy: Policy, message: str = "") -> tuple[Fact, Outcome | None]:
    """Remember a pull request with its item, if it has one, and decide. The fact is answered as `linked` then."""
    found = item_of(board, fact, policy, message)
    if found is None:
        return fact, None
    item, tokens = found
    number = f"{fact.repository}#{fact.number}"
    entry = {
        **{"url": fact.url, "branch": fact.branch, "base": fact.base, "head": fact.sha.lower()},
        **{"state": fact.state, "version": fact.version, "tokens": list(tokens)},
    }
    said = f"{number} {fact.state} at {fact.sha[:SHORT]}"
    did = _remember(board, item, lambda found: with_pull(found, number, entry), said)
    outcome = settle(board, item, policy)
    return fact.replace(linked=True), outcome.replace(subject=fact.subject, did=(*did, *outcome.did))


def check(board: Board, told: Check, policy: Policy, *, decides: bool = True) -> Outcome | None:
    """Remember a check with the item of its commit, if it has one, and decide, unless others are still to come."""
    item = item_of_check(board, told, policy)
    if item is None:
        return None
    said = f"{told.name} {told.state} on {told.sha[:SHORT]}"
    did = _remember(board, item, lambda found: with_check(found, told), said)
    outcome = Outcome(subject=f"{told.repository}@{told.sha[:SHORT]} {told.name}", item=item, did=did)
    return outcome.replace(did=(*did, *settle(board, item, policy).did)) if decides else outcome


def waiting(board: Board, repository: str | None = None) -> tuple[Item, ...]:
    """The items whose pull requests, or those in this repository, may still decide something."""
    found = board.list(statuses=[IN_PROGRESS, PENDING_APPROVAL], limit=LIST_MAX)
    if repository is None:
        return tuple(item for item in found if item.review or pulls_of(item))
    return tuple(item for item in found if any(name.startswith(f"{repository}#") for name in pulls_of(item)))


def open_heads(item: Item, repository: str) -> tuple[str, ...]:
    """The heads of the item's pull requests in this repository that are open."""
    known = pulls_of(item).items()
    return tuple(one["head"] for name, one in known if name.startswith(f"{repository}#") and one["state"] == OPEN)


def settle(board: Board, item: str, policy: Policy) -> Outcome:
    """Annotate the latest run with what is known of its pull request, and decide about its result."""
    did: list[str] = []
    for _ in range(ROUNDS_MAX):
        detail = board.get(item)
        try:
            verb = _next_verb(board, detail, policy)
            if verb is None:
                return Outcome(subject=detail.item.subject or item, item=item, did=tuple(did))
            did.append(verb)
        except OVERTAKEN:
            continue
    raise StoreUnavailable(f"{item} keeps changing; try again", retry_after_seconds=1)


def settle_submitted(board: Board, policy: Policy, after: int | None) -> int:
    """Decide about the results that were submitted since this event, or about all that wait; the last event read."""
    if after is None:
        newest = board.events(newest=True, limit=1)
        _settle_each(board, [item.id for item in waiting(board)], policy)
        return newest[-1].id if newest else 0
    events = board.events(after=after, limit=EVENTS_MAX)
    _settle_each(board, [event.item for event in events if event.kind == "submitted"], policy)
    return events[-1].id if events else after


def _settle_each(board: Board, items: Sequence[str], policy: Policy) -> None:
    """A failure about one item is raised after the decisions about all others."""
    failure: Exception | None = None
    for item in dict.fromkeys(items):
        try:
            settle(board, item, policy)
        except ItemNotFound:
            continue  # it was removed meanwhile
        except StoreUnavailable:
            raise
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure


def verdict(item: Item, run: Run, policy: Policy) -> tuple[str, str, str] | None:
    """The verb that decides about the result of the run, why, and the repository that says so; None for not yet."""
    is_result = item.review and run.outcome == "submitted" and not run.draft and run.token == item.token
    if item.status != PENDING_APPROVAL or not is_result or contract(item, policy) == NEVER:
        return None
    name, found = _pull_of(item, run)
    if name is None:
        return None
    repository, short = name.rpartition("#")[0], found["head"][:SHORT]
    if found["state"] == MERGED:
        return "approve", f"{name} was merged into {found['base']} at {short}: {found['url']}", repository
    if found["state"] == CLOSED:
        return "send_back", f"{name} was closed without a merge: {found['url']}", repository
    counted = _counted(item, found["head"], policy)
    red = [f"{one}: {entry['state']} {entry['url']}".strip() for one, entry in counted.items() if _is_red(entry)]
    if red:
        more = f" and {len(red) - FAILURES_SHOWN} more" if len(red) > FAILURES_SHOWN else ""
        return "send_back", f"{name} fails at {short}: {', '.join(red[:FAILURES_SHOWN])}{more}", repository
    if contract(item, policy) == ON_CHECKS and _is_green(counted, policy):
        return "approve", f"the checks of {name} are green at {short}: {found['url']}", repository
    return None


def is_current(item: Item, runs: Sequence[Run]) -> bool:
    """Whether what is known is about the work of the latest run. Its last push may not have been told of yet: then the
    pull request has the head that an earlier run left, with checks that were judged then."""
    run, (name, found) = runs[0], _pull_of(item, runs[0])
    if name is None or found["state"] == MERGED:
        return True
    if isinstance(run.links.get("commit"), str):
        return bool(found["head"] == run.links["commit"] or found["after"] == run.token)
    return found["head"] not in [one.links.get("head") for one in runs[1:]]


def contract(item: Item, policy: Policy) -> str:
    """What completes the item: what its rule says, or else the policy."""
    own = remembered(item).get(COMPLETE)
    return own if own in policies.CONTRACTS else policy.complete


# Which item


def is_trusted(fact: Fact) -> bool:
    """Whoever can push to the repository is a member; of a fork, the author has to be one."""
    return ":" not in fact.branch or fact.association in MEMBERS


def _item_of_branch(branch: str) -> str | None:
    """The item that a worker's branch is named after: see `branch_of` in worker/worktree/repository.py."""
    name = branch.removeprefix(BRANCH_PREFIX).replace("%2E", ".")
    return name if branch.startswith(BRANCH_PREFIX) and re.fullmatch(trailers.ITEM, name) else None


def _is_followed(board: Board, item: str, repository: str, policy: Policy) -> bool:
    try:
        found = board.get(item).item
    except (ItemNotFound, Invalid):
        return False
    is_open = found.status not in ENDED or found.status == DONE
    about = remembered(found).get("repository")
    # Repositories that share the default project by chance do not decide about each other's issues.
    is_mapped = about is None or policy.is_mapped(repository)
    return is_open and (about == repository or (is_mapped and found.project in policy.projects_of(repository)))


def item_of_check(board: Board, told: Check, policy: Policy) -> str | None:
    for branch in told.branches:
        item = _item_of_branch(branch)
        if item is not None and _is_followed(board, item, told.repository, policy):
            return item
    numbers = {f"{told.repository}#{number}" for number in told.pulls}
    for found in waiting(board):
        for name, one in pulls_of(found).items():
            is_same = name.rpartition("#")[0] == told.repository and one["head"] == told.sha
            # A stranger may open a pull request with the very same commit, and have workflows run for it.
            if (name in numbers or is_same) and told.fork == one["branch"].rpartition(":")[0]:
                return found.id
    return None


def _pull_of(item: Item, run: Run) -> tuple[str | None, Pull]:
    """The pull request that decides about this run: of those that belong to it the one with the commit that the run
    left, or else the newest, and one that was closed without a merge only if there is no other."""
    own = {name: one for name, one in pulls_of(item).items() if _belongs(name, one, run)}
    alive = [name for name, one in own.items() if one["state"] != CLOSED]
    commit = run.links.get("commit")

    def rank(name: str) -> tuple[bool, int]:
        return own[name]["head"] == commit, int(name.rpartition("#")[2])

    best = max(alive or own, key=rank, default=None)
    return best, own.get(best or "", {})


def _belongs(name: str, one: Pull, run: Run) -> bool:
    """A run that names its pull request or its branch has no other. Otherwise the lines of the pull request say whose
    it is, and without one that names a token it is the item's."""
    links = run.links
    named = [links[key] for key in ("pull_request", "pr") if isinstance(links.get(key), str)]
    if named:
        return any(link == one["url"] or _is_link(link, name) for link in named)
    if isinstance(links.get("branch"), str):
        return bool(one["branch"] == links["branch"]) or run.token in one["tokens"]
    return max(one["tokens"]) == run.token if one["tokens"] else True


def _is_link(link: str, name: str) -> bool:
    """Whether it names the pull request, as people do: `#12`, `acme/shop#12`, or the address of one of its pages."""
    found = _PULL_LINK.fullmatch(link.strip())
    repository, _, number = name.rpartition("#")
    return found is not None and found[2] == number and (found[1] or repository).lower() == repository


# What is known


def _remember(board: Board, item: str, change: Callable[[Item], Known | None], said: str) -> tuple[str, ...]:
    for _ in range(ROUNDS_MAX):
        found = board.get(item).item
        changed = change(found)
        if changed is None:
            return ()
        payload = {**found.payload, EXTERNAL: kept(found, {**remembered(found), **changed, SAID: said})}
        try:
            board.edit(item, payload=payload, revision=found.revision, actor="github")
            return ("edit",)
        except OVERTAKEN:
            continue
    raise StoreUnavailable(f"{item} keeps changing; try again", retry_after_seconds=1)


# What follows from it


def _next_verb(board: Board, detail: Detail, policy: Policy) -> str | None:
    """Call the next verb that is left to do; None if there is none."""
    item = detail.item
    run = detail.runs[0] if detail.runs else None
    if run is None or run.outcome is None or (item.status in ENDED and item.status != DONE):
        return None
    if not is_current(item, detail.runs):
        return None
    if _annotate(board, item, run, policy):
        return "annotate"
    decision = verdict(item, run, policy)
    if decision is None:
        return None
    verb, why, repository = decision
    given: dict[str, Any] = {"comment": why, "revision": item.revision, "actor": actor(repository)}
    if verb == "approve":
        board.approve(item.id, done=True, token=run.token, **given)
    elif _was_sent_back(item, detail.runs, policy):
        return None
    elif (over := table.over(item)) is not None:
        # Nobody needs another run.
        chosen = [{"id": item.id, "revision": item.revision}]
        reason = {"reason": f"{over}; {why}"}
        if not board.bulk("cancel", args=reason, items=chosen, actor=actor(repository)).done:
            raise ItemChanged(f"{item.id} has changed", item=item.id)
        return "cancel"
    else:
        board.send_back(item.id, **given)
    return verb


def _was_sent_back(item: Item, runs: Sequence[Run], policy: Policy) -> bool:
    """Whether an earlier result was sent back for the same reason, at the same commit. To send it back again would keep
    agents busy for nothing: a check that fails at random is to be run again, or a person decides."""
    name, found = _pull_of(item, runs[0])
    told = {} if name is None else _told(item, name, found, policy)
    same = [one for one in runs[1:] if one.outcome == "submitted" and one.links.get("head") == found.get("head")]
    return any(told.items() <= one.checks.items() for one in same)


def _annotate(board: Board, item: Item, run: Run, policy: Policy) -> bool:
    """Whether the run has learned something. What is not over yet is not worth an event."""
    name, found = _pull_of(item, run)
    if name is None:
        return False
    over = _over(item, found, policy)
    told = _told(item, name, found, policy)
    # Not `pull_request`: by that name the holder of a run says which one is its own.
    links = {"head": found["head"]}
    failed = next((entry["url"] for entry in over.values() if _is_red(entry)), "")
    artifacts = next((entry["artifacts"] for entry in over.values() if entry.get("artifacts")), "")
    links |= {one: value for one, value in (("failed_log", failed), ("artifacts", artifacts)) if value}
    new_checks = {one: value for one, value in told.items() if run.checks.get(one) != value}
    new_links = {one: value for one, value in links.items() if run.links.get(one) != value}
    if not new_checks and not new_links:
        return False
    try:
        by = actor(name.rpartition("#")[0])
        board.annotate(item.id, token=run.token, links=new_links, checks=new_checks, actor=by)
    except (ItemNotClaimable, Invalid):
        return False  # its draft was approved as it is, or it has no room for more
    return True


def _over(item: Item, found: Pull, policy: Policy) -> dict[str, dict[str, Any]]:
    """The checks of the head that have ended."""
    counted = _counted(item, found["head"], policy)
    return {one: entry for one, entry in counted.items() if entry["state"] != checks.PENDING}


def _told(item: Item, name: str, found: Pull, policy: Policy) -> dict[str, dict[str, str]]:
    """What a run is annotated with."""
    return {name: _shown(found), **{one: _shown(entry) for one, entry in _over(item, found, policy).items()}}


def _shown(entry: dict[str, Any]) -> dict[str, str]:
    return {"state": entry["state"], **({"url": entry["url"]} if entry["url"] else {})}


def _counted(item: Item, sha: str, policy: Policy) -> dict[str, dict[str, Any]]:
    """The checks of this very commit that count."""
    found = checks_of(item).get(sha, {})
    return {name: entry for name, entry in found.items() if policy.counts(name)}


def _is_red(entry: dict[str, Any]) -> bool:
    return entry["state"] in checks.RED


def _is_green(counted: dict[str, dict[str, Any]], policy: Policy) -> bool:
    """All of them, and at least one for each that the policy names."""
    if not counted or not all(entry["state"] in checks.GREEN for entry in counted.values()):
        return False
    return all(any(policy.is_named(pattern, name) for name in counted) for pattern in policy.checks)
