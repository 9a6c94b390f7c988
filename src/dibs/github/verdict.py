"""The verdict on a result that waits for review, from what its item remembers of pull requests and their checks.

Deliveries may come late or never: a check was run again since, a pull request was opened again, or a newer one belongs
to the item. Where a watcher follows the repository, only what it has just read decides.
"""

from __future__ import annotations

import re

from dibs.github import checks
from dibs.github import policy as policies
from dibs.github.decide import COMPLETE, remembered
from dibs.github.payload import CLOSED, MERGED, OPEN
from dibs.github.policy import NEVER, ON_CHECKS
from dibs.github.pull_memory import checks_of, pulls_of
from dibs.model import PARKED, PENDING_APPROVAL, READY
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.github.policy import Policy
    from dibs.github.pull_memory import Pull
    from dibs.model import Item, Run

    #: Whether what is known decides, by the repository and the head: of the checks there, or without a head of the
    #: pull requests of the repository.
    MayJudge = Callable[[str, str | None], bool]

FAILURES_SHOWN = 3
SHORT = 7
#: As people and git abbreviate a commit.
_COMMIT = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_PULL_LINK = re.compile(r"(?:https?://[^/\s]+/)?(?:([\w.-]+/[\w.-]+)(?:/pull/|#)|#)?([1-9]\d*)(?:[/?#].*)?", re.ASCII)


class Sight(Value):
    """What a watcher has just read: whether the pull requests, after the run had ended; heads with their checks; and
    pairs of a head and a commit that it has."""

    pulls: bool = True
    heads: frozenset[str] = frozenset()
    contained: frozenset[tuple[str, str]] = frozenset()


def verdict(item: Item, runs: Sequence[Run], policy: Policy, may_judge: MayJudge) -> tuple[str, str, str] | None:
    """The verb that decides about the result of the latest run, why, and the repository that says so; None for not yet.
    A merge of the very commit that the run left decides in any case: nothing that is told later changes it."""
    run = runs[0]
    is_result = item.review and is_submitted(run) and run.token == item.token
    if item.status != PENDING_APPROVAL or not is_result or contract(item, policy) == NEVER:
        return None
    name, found = pull_of(item, run)
    if name is None:
        return None
    repository, short = name.rpartition("#")[0], found["head"][:SHORT]
    if found["state"] == MERGED and _names(run, found):
        return "approve", _merged(name, found), repository
    if not may_judge(repository, None):
        return None
    if found["state"] == MERGED:
        return "approve", _merged(name, found), repository
    if found["state"] == CLOSED:
        return "send_back", f"{name} was closed without a merge: {found['url']}", repository
    if not may_judge(repository, found["head"]):
        return None
    counted = _counted(item, found["head"], policy)
    red = [f"{one}: {entry['state']} {entry['url']}".strip() for one, entry in counted.items() if is_red(entry)]
    if red:
        more = f" and {len(red) - FAILURES_SHOWN} more" if len(red) > FAILURES_SHOWN else ""
        return "send_back", f"{name} fails at {short}: {', '.join(red[:FAILURES_SHOWN])}{more}", repository
    if contract(item, policy) == ON_CHECKS and _is_green(counted, policy):
        return "approve", f"the checks of {name} are green at {short}: {found['url']}", repository
    return None


def merged_since(
    item: Item, runs: Sequence[Run], policy: Policy, may_judge: MayJudge, sight: Sight | None
) -> tuple[str, str] | None:
    """Why the item is done although nobody waits for a verdict on it, and the address of the pull request: it was sent
    back, and the pull request of the result that was sent back was merged since. The run shows what its reviewer saw:
    who sends back a result that was merged already wants more."""
    run = next((one for one in runs if is_submitted(one)), None)
    if run is None or not item.review or item.status not in (READY, PARKED) or contract(item, policy) == NEVER:
        return None
    name, found = pull_of(item, run)
    if name is None or found["state"] != MERGED or not is_left_by(run, found, sight, is_told_later=True):
        return None
    if not _names(run, found) and not may_judge(name.rpartition("#")[0], None):
        return None
    seen = run.checks.get(name)
    was_open = isinstance(seen, dict) and seen.get("state") in (OPEN, CLOSED)
    return (_merged(name, found), found["url"]) if was_open else None


def is_submitted(run: Run) -> bool:
    return run.outcome == "submitted" and not run.draft


def is_current(item: Item, runs: Sequence[Run], sight: Sight | None) -> bool:
    """Whether what is known is about the work of the latest run. Its last push may not have been told of yet: then the
    pull request has the head that an earlier run left, with checks that were judged then. What a watcher has
    read since the end of the run has all that the run pushed."""
    run, (name, found) = runs[0], pull_of(item, runs[0])
    if name is None:
        return True
    if isinstance(run.links.get("commit"), str) or found["state"] == MERGED:
        return is_left_by(run, found, sight)
    return (sight is not None and sight.pulls) or found["head"] not in [one.links.get("head") for one in runs[1:]]


def to_compare(item: Item, runs: Sequence[Run]) -> tuple[str, str] | None:
    """The head that decides about the latest result, and the commit that the run left, if the head may have it."""
    run = next((one for one in runs if is_submitted(one)), None)
    name, found = (None, {}) if run is None else pull_of(item, run)
    commit = None if run is None else run.links.get("commit")
    if run is None or name is None or not isinstance(commit, str) or _names(run, found):
        return None
    return (found["head"], commit.lower()) if _COMMIT.fullmatch(commit) else None


def _names(run: Run, found: Pull) -> bool:
    """Whether the run says that it left the head."""
    commit = run.links.get("commit")
    return isinstance(commit, str) and _is_commit(commit, found["head"])


def is_left_by(run: Run, found: Pull, sight: Sight | None, *, is_told_later: bool = False) -> bool:
    """Whether the head has what the run left: it is its commit, or has it, which a watcher finds out; without one, it
    was told of after the end of the run. A run that does not say which commit it left has left the head."""
    commit = run.links.get("commit")
    if not isinstance(commit, str) or _names(run, found):
        return True
    if sight is not None:
        return (found["head"], commit.lower()) in sight.contained
    return bool(found["after"] >= run.token if is_told_later else found["after"] == run.token)


def _is_commit(commit: str, head: str) -> bool:
    return _COMMIT.fullmatch(commit) is not None and head.startswith(commit.lower())


def _merged(name: str, found: Pull) -> str:
    return f"{name} was merged into {found['base']} at {found['head'][:SHORT]}: {found['url']}"


def contract(item: Item, policy: Policy) -> str:
    """What completes the item: what its rule says, or else the policy."""
    own = remembered(item).get(COMPLETE)
    return own if own in policies.CONTRACTS else policy.complete


def pull_of(item: Item, run: Run) -> tuple[str | None, Pull]:
    """The pull request that decides about this run: of those that belong to it the one with the commit that the run
    left, or else the newest, and one that was closed without a merge only if there is no other."""
    own = {name: one for name, one in pulls_of(item).items() if _belongs(name, one, run)}
    alive = [name for name, one in own.items() if one["state"] != CLOSED]
    commit = run.links.get("commit")

    def rank(name: str) -> tuple[bool, int]:
        is_its = isinstance(commit, str) and _is_commit(commit, own[name]["head"])
        return is_its, int(name.rpartition("#")[2])

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


def ended_checks(item: Item, found: Pull, policy: Policy) -> dict[str, dict[str, Any]]:
    """The checks of the head that have ended."""
    counted = _counted(item, found["head"], policy)
    return {one: entry for one, entry in counted.items() if entry["state"] != checks.PENDING}


def shown_checks(item: Item, name: str, found: Pull, policy: Policy) -> dict[str, dict[str, str]]:
    """What a run is annotated with."""
    return {name: _shown(found), **{one: _shown(entry) for one, entry in ended_checks(item, found, policy).items()}}


def reasons(item: Item, name: str, found: Pull, policy: Policy) -> dict[str, dict[str, str]]:
    """Of what a run is annotated with, that for which it is sent back. What is green is no reason."""
    if found["state"] == CLOSED:
        return {name: _shown(found)}
    return {one: _shown(entry) for one, entry in ended_checks(item, found, policy).items() if is_red(entry)}


def _shown(entry: dict[str, Any]) -> dict[str, str]:
    return {"state": entry["state"], **({"url": entry["url"]} if entry["url"] else {})}


def _counted(item: Item, sha: str, policy: Policy) -> dict[str, dict[str, Any]]:
    """The checks of this very commit that count."""
    found = checks_of(item).get(sha, {})
    return {name: entry for name, entry in found.items() if policy.counts(name)}


def is_red(entry: dict[str, Any]) -> bool:
    return entry["state"] in checks.RED


def _is_green(counted: dict[str, dict[str, Any]], policy: Policy) -> bool:
    """All of them, and at least one for each that the policy names."""
    if not counted or not all(entry["state"] in checks.GREEN for entry in counted.values()):
        return False
    return all(any(policy.is_named(pattern, name) for name in counted) for pattern in policy.checks)
