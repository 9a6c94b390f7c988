"""Runs follow their pull requests: what GitHub says about a pull request and its checks is remembered with its item,
annotates the run, and decides about a result that waits for review.

Which item they belong to says belonging.py, and what follows for its result verdict.py.

What is known stands in the payload of the item, under `external`: of each pull request its newest state, and of the
commits that matter their checks. Each has a version, and an older one changes nothing. So deliveries may come twice,
late and in any order. `settle` decides on what is known, however it came to be known.
"""

from __future__ import annotations

from functools import partial

from dibs.check import LIST_MAX, NAME_LENGTH_MAX
from dibs.errors import (
    AgentAtCapacity,
    Invalid,
    ItemChanged,
    ItemNotClaimable,
    ItemNotFound,
    ResourceBusy,
    StoreUnavailable,
)
from dibs.github import belonging, place
from dibs.github.apply import OVERTAKEN, Outcome, finish
from dibs.github.decide import SAID, kept, remembered
from dibs.github.payload import MERGED, OPEN, Fact
from dibs.github.policy import ON_CHECKS, ON_MERGE
from dibs.github.pull_memory import checks_of, pulls_of, with_check, with_pull, with_read
from dibs.github.verdict import (
    SHORT,
    Sight,
    ended_checks,
    is_current,
    is_red,
    merged_since,
    pull_of,
    reasons,
    shown_checks,
    verdict,
)
from dibs.github.wiped import is_wiped, restored
from dibs.model import DONE, ENDED, IN_PROGRESS, PARKED, PENDING_APPROVAL, READY
from dibs.rules import table
from dibs.rules.table import EXTERNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.github.checks import Check
    from dibs.github.policy import Policy
    from dibs.github.pull_memory import Found, Known, Pull
    from dibs.github.verdict import MayJudge
    from dibs.model import Detail, Item, Run


#: More than the other callers that change an item in between.
ROUNDS_MAX = 200
EVENTS_MAX = 1000
#: Events after which what is known of a pull request may decide, although GitHub tells nothing new.
LET_GO = frozenset(
    {"submitted", "released", "failed", "expired", "owner_died", "forgotten", "force_released", "sent_back"}
)
#: What completes an item, in words.
CONTRACTS = {ON_MERGE: "its pull request is merged", ON_CHECKS: "the checks of its pull request are green"}


def actor(repository: str) -> str:
    """Who decides in the name of a repository."""
    return f"github:{repository}"[:NAME_LENGTH_MAX]


def pull(
    board: Board, fact: Fact, policy: Policy, message: str = "", *, decides: bool = True
) -> tuple[Fact, Outcome | None]:
    """Remember a pull request with its item, if it has one, and decide, unless others are still to come. The fact is
    answered as `linked` then."""
    found = belonging.item_of(board, fact, policy, message)
    if found is None:
        return fact, None
    item, tokens = found
    did = _remember_pull(board, item, fact, tokens)
    outcome = settle(board, item, policy) if decides else Outcome(subject=fact.subject, item=item)
    return fact.replace(linked=True), outcome.replace(subject=fact.subject, did=(*did, *outcome.did))


def reread(board: Board, item: str, fact: Fact) -> None:
    """Remember a pull request that the item knows already, as it was read."""
    known = pulls_of(board.get(item).item).get(f"{fact.repository}#{fact.number}")
    if known is not None:
        _remember_pull(board, item, fact, known["tokens"])


def _remember_pull(board: Board, item: str, fact: Fact, tokens: Iterable[int]) -> tuple[str, ...]:
    number = f"{fact.repository}#{fact.number}"
    entry = {
        **{"url": fact.url, "branch": fact.branch, "base": fact.base, "head": fact.sha.lower()},
        **{"state": fact.state, "version": fact.version, "tokens": list(tokens)},
    }
    change = partial(with_pull, number=number, entry=entry, is_read=fact.is_read)
    return _remember(board, item, change, f"{number} {fact.state} at {fact.sha[:SHORT]}")


def check(board: Board, told: Check, policy: Policy) -> Outcome | None:
    """Remember a check with the item of its commit, if it has one, and decide."""
    item = belonging.item_of_check(board, told, policy)
    if item is None:
        return None
    said = f"{told.name} {told.state} on {told.sha[:SHORT]}"
    did = _remember(board, item, lambda found: with_check(found, told, policy), said)
    subject = f"{told.repository}@{told.sha[:SHORT]} {told.name}"
    return Outcome(subject=subject, item=item, did=(*did, *settle(board, item, policy).did))


def read(board: Board, item: str, sha: str, found: Found, before: Pull, policy: Policy) -> tuple[bool, tuple[str, ...]]:
    """Remember what a read of the API has found of a commit, by the kind of its checks; whether that is what the item
    knows now, and what was done. `before` is what the item knew when the read began: if something was told meanwhile,
    nobody can say which of both is newer, and the next read decides."""
    is_known = True

    def change(known: Item) -> Known | None:
        nonlocal is_known
        is_known = checks_of(known).get(sha, {}) == before
        return with_read(known, sha, found, policy) if is_known else None

    did = _remember(board, item, change, f"checks of {sha[:SHORT]} read")
    return is_known, did


def waiting(board: Board, repository: str | None = None) -> tuple[Item, ...]:
    """The items whose pull requests, or those in this repository, may still decide something."""
    found = board.list(statuses=[IN_PROGRESS, PENDING_APPROVAL], limit=LIST_MAX)
    if repository is None:
        return tuple(item for item in found if item.review or pulls_of(item))
    return tuple(item for item in found if _has_pull(item, repository))


def open_heads(item: Item, repository: str) -> tuple[str, ...]:
    """The heads of the item's pull requests in this repository that are open."""
    known = pulls_of(item).items()
    found = (one["head"] for name, one in known if name.startswith(f"{repository}#") and one["state"] == OPEN)
    return tuple(dict.fromkeys(found))


def settle(board: Board, item: str, policy: Policy, *, sight: Sight | None = None) -> Outcome:
    """Annotate the latest run with what is known of its pull request, and decide about its result. `sight` is
    that of a watcher. Any other caller reads nothing, and judges what it was told of, unless a watcher follows the
    repository."""
    did: list[str] = []

    def may_judge(repository: str, head: str | None) -> bool:
        if sight is None:
            return not place.is_watched(board, repository)
        return sight.pulls if head is None else head in sight.heads

    restored(board, board.get(item).item)
    for _ in range(ROUNDS_MAX):
        detail = board.get(item)
        try:
            verb = _next_verb(board, detail, policy, may_judge, sight)
            if verb is None:
                return Outcome(subject=detail.item.subject or item, item=item, did=tuple(did))
            did.append(verb)
        except OVERTAKEN:
            continue
    raise StoreUnavailable(f"{item} keeps changing; try again", retry_after_seconds=1)


def settle_changed(
    board: Board,
    policy: Policy,
    after: int | None,
    *,
    repository: str | None = None,
    seen: Callable[[Item], Sight] = lambda item: Sight(),
) -> int:
    """Decide about the results that were submitted since this event, and about items that were let go of; or about all
    of them. For a watcher of `repository`, which decides about results itself, only about items without one that its
    pull requests belong to. The last event read."""
    if after is None:
        newest = board.events(newest=True, limit=1)
        resting = board.list(statuses=[READY, PARKED], limit=LIST_MAX)
        merged = [one.id for one in resting if one.review and _is_merged(one)]
        chosen = [*(item.id for item in waiting(board)), *merged]
        _settle_each(board, chosen, policy, repository, seen)
        return newest[-1].id if newest else 0
    events = board.events(after=after, limit=EVENTS_MAX)
    chosen = [event.item for event in events if event.kind in LET_GO or is_wiped(event)]
    _settle_each(board, chosen, policy, repository, seen)
    return events[-1].id if events else after


def settle_resting(
    board: Board, items: Iterable[str], policy: Policy, repository: str, seen: Callable[[Item], Sight]
) -> None:
    """Decide about those of the items that nobody works on, although no result waits: see `merged_since`."""
    _settle_each(board, tuple(items), policy, repository, seen)


def _is_merged(item: Item) -> bool:
    return any(one["state"] == MERGED for one in pulls_of(item).values())


def _settle_each(
    board: Board,
    items: Sequence[str],
    policy: Policy,
    repository: str | None,
    seen: Callable[[Item], Sight],
) -> None:
    """A failure about one item is raised after the decisions about all others."""
    failure: Exception | None = None
    for item in dict.fromkeys(items):
        try:
            found = restored(board, board.get(item).item)
            if repository is None:
                settle(board, item, policy)
            elif _has_pull(found, repository) and found.status in (READY, PARKED):
                settle(board, item, policy, sight=seen(found))
        except ItemNotFound:
            continue  # it was removed meanwhile
        except StoreUnavailable:
            raise
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure


def _has_pull(item: Item, repository: str) -> bool:
    return any(name.startswith(f"{repository}#") for name in pulls_of(item))


# What is known


def _remember(board: Board, item: str, change: Callable[[Item], Known | None], said: str) -> tuple[str, ...]:
    for _ in range(ROUNDS_MAX):
        found = restored(board, board.get(item).item)
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


def _next_verb(board: Board, detail: Detail, policy: Policy, may_judge: MayJudge, sight: Sight | None) -> str | None:
    """Call the next verb that is left to do; None if there is none."""
    item, runs = detail.item, detail.runs
    if not runs or runs[0].outcome is None or (item.status in ENDED and item.status != DONE):
        return None
    since = merged_since(item, runs, policy, may_judge, sight)
    if since is not None:
        return _finish(board, item, *since)
    if not is_current(item, runs, sight):
        return None
    if _annotate(board, item, runs[0], policy):
        return "annotate"
    decision = verdict(item, runs, policy, may_judge)
    if decision is None:
        return None
    verb, why, repository = decision
    given: dict[str, Any] = {"comment": why, "revision": item.revision, "actor": actor(repository)}
    if verb == "approve":
        board.approve(item.id, done=True, token=runs[0].token, **given)
    elif _was_sent_back(item, runs, policy):
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


def _finish(board: Board, item: Item, reason: str, url: str) -> str | None:
    """Submit a result for work that is merged already; the next round approves it."""
    arguments = {"reason": reason, "revision": item.revision, "status": item.status, "url": url}
    try:
        return "finish" if finish(board, item.id, arguments, None) else None
    except (AgentAtCapacity, Invalid, ResourceBusy):
        return None  # nobody can work on it now; its next event leads to another look
    except OVERTAKEN:
        if board.get(item.id).item.revision == item.revision:
            return None  # it is refused as it is
        raise


def _was_sent_back(item: Item, runs: Sequence[Run], policy: Policy) -> bool:
    """Whether an earlier result was sent back for the same reason, at the same commit. To send it back again would keep
    agents busy for nothing: a check that fails at random is to be run again, or a person decides."""
    name, found = pull_of(item, runs[0])
    told = {} if name is None else reasons(item, name, found, policy)
    same = [one for one in runs[1:] if one.outcome == "submitted" and one.links.get("head") == found.get("head")]
    return any(told.items() <= one.checks.items() for one in same)


def _annotate(board: Board, item: Item, run: Run, policy: Policy) -> bool:
    """Whether the run has learned something. What is not over yet is not worth an event."""
    name, found = pull_of(item, run)
    if name is None:
        return False
    over, told = ended_checks(item, found, policy), shown_checks(item, name, found, policy)
    # Not `pull_request`: by that name the holder of a run says which one is its own.
    links = {"head": found["head"]}
    failed = next((entry["url"] for entry in over.values() if is_red(entry)), "")
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
