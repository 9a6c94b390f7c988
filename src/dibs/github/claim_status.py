"""The commit status `dibs/claim`: whether a commit on the head of a branch was made under a claim that was lost.

Judged are the heads of all open pull requests, so that the status can be required, and those of the branches
`dibs/ITEM` of items that have not ended: a branch without a pull request cannot be merged, and old ones may be many.
The rule is that of `dibs guard`, on the commits that the head has and its base has not, and on the runs that their
trailers name. A head of which no run is known is not refused.

A status is that of a commit, whatever branch is at it. So what is known of commits is kept with their items:

- `commits`: those of a branch that names an item, and that have no trailer, were made by the run that was the item's
  latest when they were first seen. They stay so under every branch, and when a later run has begun.
- `green`: heads whose status is a success. If their claim is lost after the last branch has left them, the status fails
  all the same, before another branch brings them back.
"""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import quote

from dibs import check
from dibs.errors import ItemNotFound
from dibs.github.api import PAGE_SIZE, PAGES_MAX
from dibs.github.out_memory import memory, remember, tokens_of, with_tokens
from dibs.github.out_policy import CLAIM_STATUS
from dibs.github.payload import as_list, as_object
from dibs.guard import trailers
from dibs.guard.git import Commit
from dibs.guard.trailers import Trailer
from dibs.guard.verify import Runs, judge
from dibs.model import ENDED
from dibs.rules.event_kinds import OUTCOMES
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.model import Item

BRANCH_PREFIX = "dibs/"
#: The worst first.
STATES = FAILURE, ERROR, SUCCESS = "failure", "error", "success"
DESCRIPTION_LENGTH_MAX = 140
HEADS_MAX = 1000
COMMITS_MAX = PAGES_MAX * PAGE_SIZE
#: What an item remembers, as `external.out` names it, and how many commits of each, the latest.
COMMITS, GREEN = "commits", "green"
KEPT_MAX = 100
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
    """The commits of a head that its base has not, and the head. `parents` has each commit with its parents, after all
    commits that descend from it; `commits` are those that name runs."""

    commits: tuple[Commit, ...] = ()
    parents: tuple[tuple[str, ...], ...] = ()
    is_whole: bool = True


class ClaimStatuses:
    def __init__(
        self, board: Board, api: Api, repository: str, attempt: Callable[[str, Callable[[], Any]], Any]
    ) -> None:
        """`attempt` does what is about one subject, or notes why it fails."""
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
        #: What items remember of commits, by commit: the runs that made it, and the runs that its success names.
        self._made: dict[str, set[Trailer]] = {}
        self._green: dict[str, set[Trailer]] = {}
        self._is_begun = False

    def look(self, touched: frozenset[str] | None, *, heads: bool) -> None:
        """`touched` are items that have changed, None stands for all."""
        self._learn(touched)
        # Before anything is read: if GitHub does not answer, they are due at the next look.
        self._due |= {
            head.sha
            for head in self._histories
            if touched is None or not touched.isdisjoint(one.item for one in self._named(head))
        }
        if heads:
            self._read_heads()
        found = self._heads()
        left = self._left_behind(touched, found)
        # What may have been lost first: new heads can be many, and each takes a second.
        order = [*left, *(sha for sha in found if sha in self._due)]
        if heads:
            order += [sha for sha, same in found.items() if not self._histories.keys() >= set(same)]
        found |= {sha: [Head(sha=sha)] for sha in left}
        self._due = set(order)
        for sha in dict.fromkeys(order):
            if self._attempt(sha, partial(self._settle, sha, found[sha])):
                self._due.discard(sha)
                if sha in left:
                    # Its status says so. It is judged again if a branch brings it back.
                    del self._green[sha]

    # What items remember

    def _learn(self, touched: frozenset[str] | None) -> None:
        if touched is None or not self._is_begun:
            for item in self._board.list(limit=check.LIST_MAX):
                self._learn_of(item)
            self._is_begun = True
        for id in touched or ():
            try:
                self._learn_of(self._board.get(id).item)
            except ItemNotFound:
                continue

    def _learn_of(self, item: Item) -> None:
        for name, known in ((COMMITS, self._made), (GREEN, self._green)):
            for sha, token in tokens_of(memory(item), name).items():
                known.setdefault(sha, set()).add(Trailer(item=item.id, token=token))

    def _left_behind(self, touched: frozenset[str] | None, found: dict[str, list[Head]]) -> list[str]:
        """Commits with a success that no branch is at any more, and whose claim was lost since."""
        left = {
            sha: named
            for sha, named in self._green.items()
            if sha not in found and (touched is None or any(one.item in touched for one in named) or sha in self._due)
        }
        if not left:
            return []
        runs = Runs(self._board, {one for named in left.values() for one in named})
        if runs.problem is not None:
            raise runs.problem
        return [sha for sha, named in left.items() if any(runs.knows(one) and runs.loss(one) for one in named)]

    def _keep(self, name: str, item: str, tokens: dict[str, int], known: dict[str, set[Trailer]]) -> None:
        new = {sha: one for sha, one in tokens.items() if Trailer(item=item, token=one) not in known.get(sha, ())}
        if not new:
            return
        try:
            remember(self._board, item, lambda memory: with_tokens(memory, name, new, KEPT_MAX))
        except ItemNotFound:
            return
        for sha, token in new.items():
            known.setdefault(sha, set()).add(Trailer(item=item, token=token))

    # The heads

    def _heads(self) -> dict[str, list[Head]]:
        """By commit. Pull requests with one head may go to several bases; without any, the branch counts. The item of
        a branch is that of the commit, whatever other branch a pull request comes from."""
        found: dict[str, list[Head]] = {}
        for head in self._pulls:
            found.setdefault(head.sha, []).append(head)
        for branch in self._branches:
            same = found.get(branch.sha, [])
            if branch.item not in [one.item for one in same]:
                bases = dict.fromkeys(one.base for one in same) or [None]
                found.setdefault(branch.sha, []).extend(branch.replace(base=base) for base in bases)
        return found

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
        """The entries, or None if they have not changed or could not be read."""

        def read() -> list[dict[str, Any]] | None:
            try:
                pages = list(self._api.pages(path, query=query))
            except BaseException:
                self._api.forget(path)  # the other pages were not read
                raise
            return [one for page in pages for one in page] if pages else None

        found: list[dict[str, Any]] | None = self._attempt(path, read)
        return found

    # One head

    def _settle(self, sha: str, heads: Sequence[Head]) -> bool:
        """Write the status of a commit, unless it is there. What is refused for one base is refused."""
        for head in heads:
            if head not in self._histories:
                try:
                    self._histories[head] = self._history(head)
                except ItemNotFound:
                    return True  # it was pushed over meanwhile
            self._attribute(head)
        if sha not in self._there:
            self._there[sha] = self._read_status(sha)
        wanted = sorted((self._judge(head) for head in heads), key=lambda one: STATES.index(one.state))[0]
        if wanted.state == SUCCESS:
            # Before it is written: a success that nobody remembers could outlive its claim.
            for one in {one for head in heads for one in self._named(head) if one.token}:
                self._keep(GREEN, one.item, {sha: one.token}, self._green)
        if wanted != self._there[sha]:
            # Forgotten first: after a failure nobody knows whether it was written.
            del self._there[sha]
            sent = {"state": wanted.state, "description": wanted.description, "context": CLAIM_STATUS}
            self._api.write("POST", f"{self._path}/statuses/{sha}", sent, repeatable=False)
            self._there[sha] = wanted
        return True

    def _attribute(self, head: Head) -> None:
        """The commits of a branch that names an item, and that have no trailer, are its latest run's."""
        latest = None if head.item is None else self._latest(head.item)
        if head.item is None or latest is None:
            return
        signed = {commit.sha for commit in self._histories[head].commits}
        mine = [sha for sha, *_ in self._histories[head].parents if sha not in signed]
        known = {sha for sha in mine if any(one.item == head.item for one in self._made.get(sha, ()))}
        # The newest last, which stay.
        tokens = {sha: latest.token for sha in reversed(mine) if sha not in known}
        self._keep(COMMITS, head.item, tokens, self._made)

    def _history(self, head: Head) -> History:
        base = quote(head.base or self._default(), safe="")
        path = f"{self._path}/compare/{base}...{head.sha}"
        found = [one for page in self._api.pages(path, conditional=False) for one in page]
        if head.sha not in [one.get("sha") for one in found]:
            # The base has it. A status is that of the commit all the same.
            found.append(self._api.one(f"{self._path}/commits/{head.sha}"))
        commits, parents = [], {}
        for one in found:
            sha, message = str(one.get("sha")), str(as_object(one.get("commit")).get("message"))
            parents[sha] = tuple(str(as_object(parent).get("sha")) for parent in as_list(one.get("parents")))
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

    def _trailers(self, head: Head) -> set[Trailer]:
        return {one for commit in self._histories[head].commits for one in commit.trailers}

    def _commits(self, head: Head) -> list[Commit]:
        """The commits of a head that name runs, or were made by runs."""
        return [*self._histories[head].commits, *self._made_by_runs(head)]

    def _made_by_runs(self, head: Head) -> list[Commit]:
        return [
            Commit(sha=sha, subject="", trailers=(one,))
            for sha, *_ in self._histories[head].parents
            for one in sorted(self._made.get(sha, ()), key=str)
        ]

    def _named(self, head: Head) -> set[Trailer]:
        """The runs that made commits of the head; of its branch's item, if none of them did, token 0."""
        named = {one for commit in self._commits(head) for one in commit.trailers}
        if head.item is not None and head.item not in {one.item for one in named}:
            named.add(Trailer(item=head.item, token=0))
        return named

    def _judge(self, head: Head) -> Status:
        history = self._histories[head]
        if not history.is_whole:
            return Status(state=ERROR, description=f"there are more than {COMMITS_MAX} commits to judge")
        named = {one for one in self._named(head) if one.token}
        runs = Runs(self._board, named)
        if runs.problem is not None:
            raise runs.problem
        signed = {one.item for one in self._trailers(head)}

        def counts(commit: Commit) -> bool:
            """Where the item's commits have trailers, one without may be anybody's: it mends no lost one."""
            return not all(one.item in signed and runs.loss(one) is None for one in commit.trailers if runs.knows(one))

        commits = [*self._histories[head].commits, *filter(counts, self._made_by_runs(head))]
        refused = judge(commits, runs, lambda: history.parents)
        known = sorted(str(one) for one in named if runs.knows(one))
        if refused:
            lost = refused[0]
            # Without the reason, which is not for everybody who reads the repository.
            how = OUTCOMES[lost.how].word if lost.by is None else f"{lost.by['agent']} took over"
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
    return _head(as_object(found.get("object")).get("sha"), None, branch)


def _pull_head(repository: str, found: dict[str, Any]) -> Head | None:
    head, base = as_object(found.get("head")), as_object(found.get("base"))
    # The branch of a fork can have any name.
    is_own = str(as_object(head.get("repo")).get("full_name")).lower() == repository
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
