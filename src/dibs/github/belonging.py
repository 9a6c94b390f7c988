"""Which item a pull request, or the check of a commit, belongs to.

A pull request belongs to an item by its branch (`dibs/ITEM`), or by a line in its text or in the message of its head:
`Dibs-Claim: ITEM/TOKEN`, or `Dibs-Item: ITEM`. Only one whose head is in the repository itself, or whose author is a
member, belongs to anything, and only to an item of a project that the repository maps to.
"""

from __future__ import annotations

import re

from dibs.check import LIST_MAX
from dibs.errors import Invalid, ItemNotFound
from dibs.github.decide import remembered
from dibs.github.payload import MEMBERS, PULL_REQUEST, WORKFLOW_RUN, Fact
from dibs.github.pull_memory import pulls_of
from dibs.guard import trailers
from dibs.model import DONE, ENDED, IN_PROGRESS, PENDING_APPROVAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from dibs.board import Board
    from dibs.github.checks import Check
    from dibs.github.policy import Policy
    from dibs.model import Item

BRANCH_PREFIX = "dibs/"
_LINE = re.compile(rf"^[ \t]*Dibs-Item[ \t]*:[ \t]*({trailers.ITEM})[ \t]*$", re.MULTILINE | re.IGNORECASE)


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
    for found in board.list(statuses=[IN_PROGRESS, PENDING_APPROVAL], limit=LIST_MAX):
        for name, one in pulls_of(found).items():
            is_same = name.rpartition("#")[0] == told.repository and one["head"] == told.sha
            if (name in numbers or is_same) and is_run_for(told, {one["branch"].rpartition(":")[0]}):
                return found.id
    return None


def lacks_pull(board: Board, item: str, repository: str, policy: Policy) -> bool:
    """Whether a result waits for a pull request that may be of this repository, and none is known."""
    found = board.get(item).item
    return found.review and not pulls_of(found) and _is_followed(board, item, repository, policy)


def forks(item: Item, repository: str, sha: str) -> frozenset[str]:
    """The owners of the forks from which the item's pull requests at this commit come; empty for the repository."""
    known = pulls_of(item).items()
    found = [one for name, one in known if name.startswith(f"{repository}#") and one["head"] == sha]
    return frozenset(one["branch"].rpartition(":")[0] for one in found)


def is_run_for(told: Check, forks: Collection[str]) -> bool:
    """A stranger may open a pull request with the very same commit, and have workflows run for it."""
    return told.kind != WORKFLOW_RUN or told.fork in forks
