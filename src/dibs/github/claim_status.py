"""The commit status `dibs/claim`: whether a commit on the head of a branch was made under a claim that was lost.

Judged are the heads of all open pull requests, so that the status can be required, and those of the branches
`dibs/ITEM` of items that have not ended: a branch without a pull request cannot be merged, and old ones may be many.
The rule is that of `dibs guard`, on the commits that the head has and its base has not, and on the runs that their
trailers name. Where no trailer names the item of a branch, the item's latest run stands for all its commits. A head of
which no run is known is not refused.
"""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import quote

from dibs.errors import ItemNotFound
from dibs.github.api import PAGE_SIZE, PAGES_MAX
from dibs.github.out_policy import CLAIM_STATUS
from dibs.guard import trailers
from dibs.guard.git import Commit
from dibs.guard.trailers import Trailer
from dibs.guard.verify import Runs, judge
from dibs.model import ENDED
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.github.api import Api

BRANCH_PREFIX = "dibs/"
#: The worst first.
STATES = FAILURE, ERROR, SUCCESS = "failure", "error", "success"
DESCRIPTION_LENGTH_MAX = 140
HEADS_MAX = 1000
COMMITS_MAX = PAGES_MAX * PAGE_SIZE
#: Without the reason, which is not for everybody who reads the repository.
_HOW = {"force_released": "force-released", "cancelled": "cancelled"}
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Head(Value):
    """A commit that a branch or a pull request is at. `base` is what it is compared with, None for the default branch;
    `item` is that of the branch, if its name says so."""

    sha: str
    base: str | None = None
    item: str | None = None


class Status(Value):
    state: str
    description: str


class History(Value):
    """The commits of a head that its base has not. `parents` has each commit with its parents, after all commits that
    descend from it."""

    commits: tuple[Commit, ...] = ()
    parents: tuple[tuple[str, ...], ...] = ()
    is_whole: bool = True


class ClaimStatuses:
    def __init__(
        self, board: Board, api: Api, repository: str, attempt: Callable[[str, Callable[[], bool | None]], bool | None]
    ) -> None:
        self._board, self._api, self._attempt = board, api, attempt
        self._repository, self._path = repository, f"/repos/{repository}"
        self._branches: tuple[Head, ...] = ()
        self._pulls: tuple[Head, ...] = ()
        self._default_branch: str | None = None
        self._histories: dict[Head, History] = {}
        #: The status of each commit on GitHub, as far as it is known.
        self._there: dict[str, Status | None] = {}
        #: Heads that were not judged since their items changed.
        self._due: set[str] = set()

    def look(self, touched: frozenset[str] | None, *, heads: bool) -> None:
        """`touched` are items that have changed, None stands for all."""
        # Before anything is read: if GitHub does not answer, they are due at the next look.
        self._due |= {
            head.sha
            for head in self._histories
            if touched is None or not touched.isdisjoint(one.item for one in self._named(head))
        }
        if heads:
            self._read_heads()
        found = self._heads()
        # What may have been lost first: new heads can be many, and each takes a second.
        order = [sha for sha in found if sha in self._due]
        if heads:
            order += [sha for sha, same in found.items() if not self._histories.keys() >= set(same)]
        self._due = set(order)
        for sha in dict.fromkeys(order):
            self._attempt("status", partial(self._settle, sha, found[sha]))
            self._due.discard(sha)

    # The heads

    def _heads(self) -> dict[str, list[Head]]:
        """By commit. Pull requests with one head may go to several bases; without any, the branch counts."""
        found: dict[str, list[Head]] = {}
        for head in self._pulls:
            found.setdefault(head.sha, []).append(head)
        return {head.sha: [head] for head in self._branches} | found

    def _read_heads(self) -> None:
        pulls = self._pages(f"{self._path}/pulls", state="open", sort="updated", direction="desc")
        if pulls is not None:
            self._pulls = _unique(_pull_head(self._repository, one) for one in pulls[:HEADS_MAX])
        branches = self._pages(f"{self._path}/git/matching-refs/heads/{BRANCH_PREFIX}", per_page=None)
        if branches is not None:
            named = _unique(map(_branch_head, branches))
            self._branches = tuple(one for one in named if one in self._histories or self._is_open(one))[:HEADS_MAX]
        heads = self._heads()
        kept = {head for same in heads.values() for head in same}
        self._histories = {head: one for head, one in self._histories.items() if head in kept}
        # A success of a watcher that was stopped before it wrote could hide a loss: what is lost is read again.
        lost = {sha for sha, status in self._there.items() if status is not None and status.state == FAILURE}
        self._there = {sha: one for sha, one in self._there.items() if sha in heads and sha not in lost}
        self._due |= lost

    def _is_open(self, head: Head) -> bool:
        try:
            return head.item is not None and self._board.get(head.item).item.status not in ENDED
        except ItemNotFound:
            return False

    def _pages(self, path: str, **query: str | None) -> list[dict[str, Any]] | None:
        """The entries, or None if they have not changed or the token may not read them."""
        found: list[dict[str, Any]] | None = None

        def read() -> None:
            nonlocal found
            try:
                pages = list(self._api.pages(path, conditional=True, **query))
            except BaseException:
                self._api.forget(path)  # the other pages were not read
                raise
            found = [one for page in pages for one in page] if pages else None

        self._attempt("status", read)
        return found

    # One head

    def _settle(self, sha: str, heads: Sequence[Head]) -> None:
        """Write the status of a commit, unless it is there. What is refused for one base is refused."""
        for head in heads:
            if head not in self._histories:
                try:
                    self._histories[head] = self._history(head)
                except ItemNotFound:
                    return  # it was pushed over meanwhile
        if sha not in self._there:
            self._there[sha] = self._read_status(sha)
        wanted = sorted((self._judge(head) for head in heads), key=lambda one: STATES.index(one.state))[0]
        if wanted != self._there[sha]:
            # Forgotten first: after a failure nobody knows whether it was written.
            del self._there[sha]
            sent = {"state": wanted.state, "description": wanted.description, "context": CLAIM_STATUS}
            self._api.write("POST", f"{self._path}/statuses/{sha}", sent, repeatable=False)
            self._there[sha] = wanted

    def _history(self, head: Head) -> History:
        base = quote(head.base or self._default(), safe="")
        path = f"{self._path}/compare/{base}...{head.sha}"
        found = [one for page in self._api.pages(path, conditional=False) for one in page]
        commits, parents = [], {}
        for one in found:
            sha, message = str(one.get("sha")), str((one.get("commit") or {}).get("message"))
            parents[sha] = tuple(str(parent.get("sha")) for parent in one.get("parents") or ())
            named = trailers.of(message)
            if named:
                commits.append(Commit(sha=sha, subject=message.partition("\n")[0], trailers=named))
        return History(
            commits=tuple(commits),
            parents=tuple((sha, *parents[sha]) for sha in _descendants_first(parents)),
            is_whole=len(found) < COMMITS_MAX,
        )

    def _default(self) -> str:
        if self._default_branch is None:
            self._default_branch = str(self._api.one(self._path).get("default_branch") or "main")
        return self._default_branch

    def _read_status(self, sha: str) -> Status | None:
        """The newest status of ours."""
        for page in self._api.pages(f"{self._path}/commits/{sha}/statuses", conditional=False):
            for one in page:
                if one.get("context") == CLAIM_STATUS:
                    return Status(state=str(one.get("state")), description=str(one.get("description")))
        return None

    def _named(self, head: Head) -> set[Trailer]:
        """The runs that the commits name; of the branch's item token 0, which stands for the latest run."""
        named = {one for commit in self._histories[head].commits for one in commit.trailers}
        if head.item is not None and head.item not in {one.item for one in named}:
            named.add(Trailer(item=head.item, token=0))
        return named

    def _judge(self, head: Head) -> Status:
        history = self._histories[head]
        if not history.is_whole:
            return Status(state=ERROR, description=f"there are more than {COMMITS_MAX} commits to judge")
        commits, named = list(history.commits), self._named(head)
        for one in [one for one in named if one.token == 0]:
            named.discard(one)
            latest = self._latest(one.item)
            if latest is not None:
                named.add(latest)
                commits.append(Commit(sha=head.sha, subject="", trailers=(latest,)))
        runs = Runs(self._board, named)
        if runs.problem is not None:
            raise runs.problem
        refused = judge(commits, runs, lambda: history.parents)
        known = sorted(str(one) for one in named if runs.knows(one))
        if refused:
            lost = refused[0]
            how = _HOW[lost.how] if lost.by is None else f"{lost.by['agent']} took over"
            return _status(FAILURE, f"claim {lost.token} of {lost.item} was lost: {how} (commit {lost.commit[:12]})")
        if known:
            return _status(SUCCESS, f"no claim was lost: {', '.join(known)}")
        return _status(SUCCESS, "no commit names a claim of the board")

    def _latest(self, item: str) -> Trailer | None:
        try:
            runs = self._board.get(item).runs
        except ItemNotFound:
            return None
        return Trailer(item=item, token=runs[0].token) if runs else None


def _status(state: str, description: str) -> Status:
    clean = " ".join("".join(one if one.isprintable() else " " for one in description).split())
    short = clean if len(clean) <= DESCRIPTION_LENGTH_MAX else f"{clean[: DESCRIPTION_LENGTH_MAX - 3]}..."
    return Status(state=state, description=short)


def _unique(heads: Iterable[Head | None]) -> tuple[Head, ...]:
    return tuple(dict.fromkeys(one for one in heads if one is not None))


def _branch_head(found: dict[str, Any]) -> Head | None:
    branch = str(found.get("ref")).removeprefix("refs/heads/")
    return _head((found.get("object") or {}).get("sha"), None, branch)


def _pull_head(repository: str, found: dict[str, Any]) -> Head | None:
    head, base = found.get("head") or {}, found.get("base") or {}
    # The branch of a fork can have any name.
    is_own = str((head.get("repo") or {}).get("full_name")).lower() == repository
    sha = str(base.get("sha"))
    return _head(head.get("sha"), sha if _SHA.fullmatch(sha) else None, str(head.get("ref")) if is_own else "")


def _head(sha: object, base: str | None, branch: str) -> Head | None:
    if not isinstance(sha, str) or not _SHA.fullmatch(sha):
        return None
    # As `dibs work --worktree` names the branch: `%2E` stands for a dot where git allows none.
    item = branch.removeprefix(BRANCH_PREFIX).replace("%2E", ".") if branch.startswith(BRANCH_PREFIX) else ""
    return Head(sha=sha, base=base, item=item if re.fullmatch(trailers.ITEM, item) else None)


def _descendants_first(parents: dict[str, tuple[str, ...]]) -> Iterable[str]:
    """The commits, each after those that descend from it."""
    children = dict.fromkeys(parents, 0)
    for found in parents.values():
        for one in found:
            if one in children:
                children[one] += 1
    ready = [sha for sha, count in children.items() if count == 0]
    while ready:
        sha = ready.pop()
        yield sha
        for one in parents[sha]:
            if one in children:
                children[one] -= 1
                if children[one] == 0:
                    ready.append(one)
