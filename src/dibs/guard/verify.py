"""The verdict on commits: one is refused iff its run was lost and no later run of the item builds on it.

A later run builds on a commit if a commit that names the later run descends from it, or is the commit itself: a squash
or an amended commit names both. A commit without a trailer is not judged, and neither is one that names a run which
the board does not know: it may be of another board, or pruned.
"""

from __future__ import annotations

from functools import partial

from dibs.errors import ItemNotFound, StoreUnavailable
from dibs.guard import git
from dibs.guard.trailers import Trailer
from dibs.rules.event_kinds import OUTCOMES
from dibs.rules.lost_runs import UNCHOSEN, Loss, loss
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from dibs.board import Board
    from dibs.guard.git import Commit, Revisions
    from dibs.model import Run
    from dibs.model.kinds import Instant

#: Up to so many items are looked up one by one. For more, the latest runs of the whole board are read first, by pages.
ITEMS_SINGLY = 4
#: Over HTTP, a page takes about as long as so many items one by one: no more pages are read than take as long as these.
ITEMS_PER_PAGE = 50
LATEST_RUNS = 1000
LATEST_BYTES = 4_000_000
ITEM_RUNS_MAX = 100_000
#: Each of so many ranges is read by a git of its own.
RANGES_MAX = 1000


class Refused(Value):
    """A commit that must not be pushed: how the claim it names was lost, and by which run."""

    commit: str
    subject: str
    item: str
    token: int
    how: str
    at: Instant
    by: dict[str, str] | None = None
    reason: str | None = None

    def describe(self) -> str:
        return (
            f"{self.commit[:12]} ({self.subject[:60]}) was made under claim {self.token} of {self.item}, which"
            f" {self._loss()}"
        )

    def _loss(self) -> str:
        if self.by is not None:
            return f"{self.by['agent']} (session {self.by['session']}) took over"
        return f"was {OUTCOMES[self.how].word}" + (f": {self.reason}" if self.reason else "")


class Verdict(Value):
    """`claims` counts the commits that name a claim. `unknown` are runs that the board does not know. `problem` says
    why some commits could not be judged; the verdict on the others stands."""

    claims: int = 0
    refused: tuple[Refused, ...] = ()
    unknown: tuple[str, ...] = ()
    problem: str | None = None


class Runs:
    """The runs of the items that commits name. `problem` is the error after which the board was asked no more: what
    was read before can be judged, because an item is read with all runs after the named one, or not at all."""

    def __init__(self, board: Board, named: Iterable[Trailer]) -> None:
        self.problem: StoreUnavailable | None = None
        self._board = board
        self._oldest: dict[str, int] = {}
        for one in named:
            self._oldest[one.item] = min(one.token, self._oldest.get(one.item, one.token))
        self._runs: dict[str, dict[int, Run]] = {item: {} for item in self._oldest}
        self._status: dict[str, str] = {}
        #: The items of which all named runs were read, or are not on the board.
        self._read: set[str] = set()
        try:
            self._read_latest()
            for item in [one for one in self._oldest if one not in self._read or self._depends_on_status(one)]:
                self._read_item(item)
        except StoreUnavailable as error:
            self.problem = error

    def knows(self, one: Trailer) -> bool:
        return one.token in self._runs[one.item]

    def is_read(self, one: Trailer) -> bool:
        """Whether the board was asked for everything that the verdict on this run depends on."""
        is_there = self.knows(one) or one.item in self._read
        return is_there and (one.item in self._status or not self._depends_on_status(one.item))

    def loss(self, one: Trailer) -> Loss | None:
        runs = self._runs[one.item]
        later = [runs[token] for token in sorted(runs) if token > one.token]
        return loss(runs[one.token], later, self._status.get(one.item, ""))

    def _read_latest(self) -> None:
        """Read the latest runs of the whole board. The pages have the newest first: with a run, they have all later
        runs of its item, and after the last page no item has another run."""
        after, pages = None, 0
        while len(self._oldest) - len(self._read) > max(ITEMS_SINGLY, pages * ITEMS_PER_PAGE):
            page = self._board.runs(after=after, limit=LATEST_RUNS, bytes_max=LATEST_BYTES)
            pages += 1
            for run in page:
                after = f"{run.item}:{run.token}"
                if run.item in self._oldest:
                    self._runs[run.item][run.token] = run
                    self._read |= {run.item} if run.token <= self._oldest[run.item] else set()
            if len(page) < LATEST_RUNS and not page.more:
                self._read.update(self._oldest)

    def _read_item(self, item: str) -> None:
        try:
            detail = self._board.get(item)
            found = detail.runs
            oldest = self._oldest[item]
            if oldest not in [run.token for run in found] and any(run.token > oldest for run in found):
                found = self._board.runs(item=item, limit=ITEM_RUNS_MAX)
            self._status[item] = detail.item.status
            self._runs[item].update((run.token, run) for run in found)
        except ItemNotFound:
            self._status[item] = ""
        self._read.add(item)

    def _depends_on_status(self, item: str) -> bool:
        """Whether the latest run of the item ended in a way that counts as a loss only if the item was cancelled."""
        runs = self._runs[item]
        return bool(runs) and runs[max(runs)].outcome in UNCHOSEN


def verify(board: Callable[[], AbstractContextManager[Board]], ranges: Sequence[Revisions]) -> Verdict:
    """Judge the commits of each range by itself: what builds on a commit in one range does not go where another goes.
    The board is opened only if one of the commits names a claim, and is left before git reads the history."""
    groups = _grouped(ranges)
    found = [(group, git.commits(group)) for group in groups]
    commits = list({commit.sha: commit for _, same in found for commit in same}.values())
    problem = _missing_history(groups)
    if not commits:
        return Verdict(problem=problem)
    named = [(commit, one) for commit in commits for one in commit.trailers]
    with board() as opened:
        runs = Runs(opened, (one for _, one in named))
    unread = {one for _, one in named if not runs.is_read(one)}
    unknown = sorted({str(one) for _, one in named if not runs.knows(one) and one not in unread})
    if runs.problem is not None:
        claims = {one for _, one in named}
        if unread == claims:
            raise runs.problem
        problem = f"{len(unread)} of {len(claims)} claims were not read: {runs.problem.message}"
    refused = [one for group, same in found for one in _judge_group(group, same, runs)]
    each = {(one.commit, one.item, one.token): one for one in refused}
    return Verdict(claims=len(commits), refused=tuple(each.values()), unknown=tuple(unknown), problem=problem)


def _grouped(ranges: Sequence[Revisions]) -> list[Revisions]:
    """The ranges, those that exclude the same as one."""
    groups: dict[Revisions, set[str]] = {}
    for one in ranges:
        groups.setdefault(one.replace(included=()), set()).update(one.included)
    if len(groups) > RANGES_MAX:
        raise git.TooMany(f"over {RANGES_MAX:,} refs have to be judged one by one; push fewer at once", field="git")
    return [group.replace(included=tuple(sorted(included))) for group, included in groups.items()]


def _judge_group(group: Revisions, commits: Sequence[Commit], runs: Runs) -> list[Refused]:
    if len(group.included) <= 1 or not _lost(commits, runs):
        return judge(commits, runs, lambda: git.parents(group))
    if len(group.included) > RANGES_MAX:
        raise git.TooMany(f"over {RANGES_MAX:,} refs have to be judged one by one; push fewer at once", field="git")
    each = [group.replace(included=(one,)) for one in group.included]
    return [refused for one in each for refused in judge(git.commits(one), runs, partial(git.parents, one))]


def judge(commits: Sequence[Commit], runs: Runs, parents: Callable[[], Iterable[Sequence[str]]]) -> list[Refused]:
    """The commits that name a lost run on which no later run builds. `parents` has each commit with its parents, after
    all commits that descend from it; it is called only if a later run may build on a lost one."""
    return _without_heirs(_lost(commits, runs), commits, runs, parents)


def _lost(commits: Sequence[Commit], runs: Runs) -> list[Refused]:
    named = [(commit, one) for commit in commits for one in commit.trailers if runs.knows(one)]
    return [_refused(commit, one, how) for commit, one in named if (how := runs.loss(one)) is not None]


def _missing_history(ranges: Sequence[Revisions]) -> str | None:
    end = git.cut_off(ranges)
    return end and f"a shallow clone left out the commits before {end[:12]}; get them there with: git fetch --unshallow"


def _without_heirs(
    lost: list[Refused], commits: Sequence[Commit], runs: Runs, parents: Callable[[], Iterable[Sequence[str]]]
) -> list[Refused]:
    """Those on which no later run builds.

    Each lost run is a bit. A commit that names a later run saves its ancestors for the earlier ones: the bits are
    handed on from every commit to its parents, in one walk through the history.
    """
    bits: dict[str, dict[int, int]] = {}
    for number, (item, token) in enumerate(dict.fromkeys((one.item, one.token) for one in lost)):
        bits.setdefault(item, {})[token] = 1 << number
    saving: dict[str, int] = {}
    for commit in commits:
        for heir in commit.trailers:
            for token, bit in bits.get(heir.item, {}).items():
                if token < heir.token and runs.knows(heir):
                    saving[commit.sha] = saving.get(commit.sha, 0) | bit
    if not saving:
        return lost
    wanted = {one.commit for one in lost}
    saved: dict[str, int] = {}
    for sha, *before in parents():
        found = saving.pop(sha, 0)
        if sha in wanted:
            saved[sha] = found
        if found:
            for parent in before:
                saving[parent] = saving.get(parent, 0) | found
    return [one for one in lost if not saved.get(one.commit, 0) & bits[one.item][one.token]]


def _refused(commit: Commit, one: Trailer, how: Loss) -> Refused:
    by = None if how.by is None else {"agent": how.by.agent, "session": how.by.session}
    return Refused(
        commit=commit.sha,
        subject=commit.subject,
        item=one.item,
        token=one.token,
        how=how.how,
        at=how.at,
        by=by,
        reason=how.reason,
    )
