"""A vault and its git remote, whose accepted pushes decide between clones.

`confirm` pushes a decision before it is on disk. If the remote has moved on, nothing is confirmed, and the caller
decides again after `refresh` has merged the remote's changes. So a confirmed decision was made on exactly the state
that it was pushed onto. The caller holds the board's lock.
"""

from __future__ import annotations

import time

from dibs import randomness
from dibs.errors import StoreUnavailable
from dibs.model import Synced
from dibs.store.vault.disk import Raced
from dibs.store.vault.git import locate, repair
from dibs.store.vault.git.apply import read_task
from dibs.store.vault.git.clone import Clone, has_news
from dibs.store.vault.git.locate import NoBranch
from dibs.store.vault.git.path_policy import task_name
from dibs.store.vault.git.push import Pusher
from dibs.store.vault.git.repository import BLOB_BYTES_MAX, Refused, Rejected, Unreachable, WrongBranch
from dibs.store.vault.git.user_git import remove_stale, taken_locks
from dibs.system.git import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from dibs.store.vault.git.push import Pushed
    from dibs.store.vault.git.repository import Refs, Repository
    from dibs.store.vault.git.worktree import WorkTreeFiles
    from dibs.store.vault.taskfile.task_text import Task

    T = TypeVar("T")

#: The number of looks at files that another program keeps changing, and the number of pushes that `sync` tries.
LOOKS_MAX = 20
PUSHES_MAX = 20
#: Backoff after a rejected push, with jitter, so that racing clones do not stay in step.
PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.5
#: After this many confirmed pushes in a row, a clone pauses for a multiple of the time that a push takes, so that other
#: clones can fetch and push. If no other clone pushed, the next pause is after twice as many, up to `IN_A_ROW_MAX`.
IN_A_ROW = 4
IN_A_ROW_MAX = 64
PAUSE_PUSHES = 4.0
#: The time that a push takes, before one was measured.
PUSH_SECONDS = 0.1
#: A remote that rejects this many pushes in a row, and has no news, is stuck, perhaps by a stale lock.
STUCK_REJECTIONS = 10
NAMES_MAX = 10
#: The most stale locks that are removed for one operation.
LOCKS_MAX = 5


class Damaged(StoreUnavailable):
    """Git cannot read its own repository."""


def find(root: str) -> Sync | None:
    """The remote of the vault in this folder, if the folder is a clone whose branch has an upstream."""
    repository = locate.find(root)
    return None if repository is None else Sync(root, repository)


class Sync:
    def __init__(self, root: str, repository: Repository) -> None:
        self.repository = repository
        self.clone = Clone(root, repository)
        self._pusher = Pusher(self.clone)
        self._rejections = 0
        self._stuck = 0
        self._push_seconds = PUSH_SECONDS
        #: Whether the remote is known to have news.
        self._behind = False
        #: The confirmed push whose changes are not on disk yet.
        self._unfinished: Pushed | None = None

    @property
    def files(self) -> WorkTreeFiles:
        return self.clone.files

    @property
    def clone_name(self) -> str:
        return self.repository.state.clone_name()

    @property
    def has_no_branch(self) -> bool:
        """Whether no branch with an upstream is checked out. The remote must be found again then."""
        return isinstance(self.repository, NoBranch)

    def close(self) -> None:
        self.files.close()

    # Confirming decisions

    def prepare(self) -> Synced | None:
        """Before a decision: merge the remote's changes, if it is known to have some."""
        if self._behind:
            return self.refresh()
        self.restore_reverted()
        return None

    def confirm(self, contents: Mapping[str, bytes | None] | None = None) -> None:
        """Push the tasks as they are here, changed by `contents` (path to content; None: removed).

        Raced: the remote has moved on, and nothing is confirmed. StoreUnavailable: it is unreachable. The caller writes
        accepted contents to disk and then calls `finish`.
        """
        self._unfinished = None
        self._let_others_push()
        began = time.monotonic()
        try:
            self._unfinished = self._push(lambda: self._pusher.push_decision(contents or {}))
            self._push_seconds = time.monotonic() - began
        except Rejected as rejected:
            self._back_off()
            if self._stuck >= STUCK_REJECTIONS:
                raise _not_accepted(rejected) from rejected
            raise Raced(f"the remote has moved on: {rejected}") from rejected
        if contents is None:
            self.finish()

    def finish(self) -> None:
        """The confirmed changes are on disk: the user's branch and index may follow."""
        pushed, self._unfinished = self._unfinished, None
        if pushed is None:
            return
        self.clone.branch_moved = False
        try:
            self._follow(pushed)
            if self.clone.branch_moved:
                # The user committed meanwhile. The sooner a commit joins both, the less the user's git has to merge.
                self._follow(self._push(self._pusher.push_commits))
        except (Rejected, Raced, StoreUnavailable, GitFailed):
            pass  # the decision is confirmed nevertheless, and the branch follows later

    def _follow(self, pushed: Pushed) -> None:
        self.repository.state.set_branch_behind(True)
        self.clone.follow(pushed.refs, pushed.commit, pushed.absent, "")

    def merge_accepted(self) -> None:
        """The confirmed changes cannot be written, because another program moved or saved a file meanwhile. Merge them
        like any change of the remote, which overrides the local change."""
        assert self._unfinished is not None
        base = self._unfinished.refs.base
        self._unfinished, self._behind = None, True
        try:
            self._run(lambda: self.repository.put_base(base))
            self._run(self._merge)
            self._behind = False
        except StoreUnavailable:
            pass  # `prepare` merges them before the next decision

    def _push(self, push: Callable[[], Pushed]) -> Pushed:
        pushed = self._run(push)
        if pushed.is_new:
            self._rejections = self._stuck = 0
            self._behind = not pushed.is_newest
        return pushed

    def _let_others_push(self) -> None:
        """Pause after many pushes in a row: other clones may still be fetching the last one."""
        count, most = self.repository.state.pushes_in_a_row() or (0, IN_A_ROW)
        if count >= most:
            self._pause(min(PAUSE_SECONDS_MAX, PAUSE_PUSHES * self._push_seconds) * randomness.uniform(1, 2))
            count, most = 0, min(IN_A_ROW_MAX, 2 * most)
        self.repository.state.put_pushes_in_a_row(count + 1, most)

    def _back_off(self) -> None:
        self._behind = True
        self.repository.state.put_pushes_in_a_row(0, IN_A_ROW)
        self._rejections += 1
        most = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2 ** min(self._rejections - 1, 8))
        if self._rejections > 1:
            self._pause(randomness.uniform(0, most))

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    # Merging and syncing

    def refresh(self) -> Synced:
        """Fetch and merge the remote's changes."""
        return self._run(self._refresh)

    def _refresh(self) -> Synced:
        self.repository.fetch()
        merged = self._merge()
        self._behind = False
        return merged

    def _merge(self) -> Synced:
        refs = self.repository.refs()
        self._stuck = 0 if has_news(refs) else self._stuck + self._behind
        return self.clone.merge_remote(refs)

    def sync(self) -> Synced:
        """Merge the remote's changes and push those that were made here; repair the repository first if needed."""
        repaired = not self.repository.state.is_checked() and self._repair()
        try:
            synced = self._sync()
        except Damaged:
            if repaired or not self._repair():
                raise
            repaired, synced = True, self._sync()
        return synced.replace(repaired=repaired)

    def _sync(self) -> Synced:
        parts: list[Synced] = []
        reason = ""
        for _ in range(PUSHES_MAX):
            parts.append(self.refresh())
            try:
                pushed = self._push(self._pusher.push_everything)
            except Rejected as rejected:
                reason = str(rejected)
                self._back_off()
            else:
                self.repository.collect_garbage()
                parts.append(Synced(findings=tuple(self.blocked())))
                return combine(parts, pushed.commit, pushed.is_new)
        raise StoreUnavailable(f"the remote does not accept pushes: {reason}", retry_after_seconds=1)

    def restore_reverted(self) -> None:
        """Bring back files that the user's git has reverted; called before the files are read."""
        if self.repository.state.branch_is_behind():
            self.restore_after_reset()

    def restore_after_reset(self) -> bool:
        """Bring back files that the user's git has reverted, also by a reset of the branch; return whether there were
        any."""
        if self.clone.index.begun() is not None:
            return False
        try:
            return _retry_races(self.clone.restore_reverted)
        except (WrongBranch, GitFailed):
            return False  # the next verb that needs the remote reports it

    # State of the remote

    def is_on_other_branch(self) -> bool:
        """Whether the files belong to another branch, so that their folders do not show the statuses of items."""
        try:
            self.repository.refs()
        except WrongBranch:
            return True
        except GitFailed:
            pass
        return False

    def were_removed(self, paths: Iterable[str]) -> bool:
        """Whether commits on the user's branch have removed all of these files."""
        repository = self.repository
        try:
            refs = repository.refs()
            had = {path for path, _ in repository.history(refs.base, refs.head)}
            return set(paths) <= had - repository.listing(refs.head).files.keys()
        except (WrongBranch, GitFailed):
            return False

    def known_paths(self, paths: Iterable[str]) -> set[str]:
        """The paths among these that the remote had at the last merge."""
        try:
            return set(paths) & self.repository.listing(self.repository.refs().base).files.keys()
        except (WrongBranch, GitFailed):
            return set()

    def records(self, name: str) -> list[Task]:
        """The task of this file name on the remote, as of the last merge and as of the last fetch."""
        return self._tasks_in(lambda refs: (refs.base, refs.hub), {name})

    def tokens_sent(self, names: set[str]) -> dict[str, int]:
        """By file name, the highest token that the remote has or may have from this clone. A process that was killed
        after its push wrote the token neither into the file nor into the index."""
        found: dict[str, int] = {}
        for task in self._tasks_in(lambda refs: (refs.base, *refs.pending), names):
            token = 0 if task.facts is None else task.facts.token
            found[task.name] = max(token, found.get(task.name, 0))
        return found

    def _tasks_in(self, commits: Callable[[Refs], Iterable[str | None]], names: set[str]) -> list[Task]:
        repository = self.repository
        try:
            trees = [repository.listing(commit).files for commit in dict.fromkeys(commits(repository.refs()))]
            blobs = {blob: name for tree in trees for path, blob in tree.items() if (name := task_name(path)) in names}
            texts = repository.texts_up_to(BLOB_BYTES_MAX, blobs)
        except (WrongBranch, GitFailed):
            return []
        found = (read_task(text, blobs[blob] or "") for blob, text in texts.items())
        return [task for task in found if task is not None]

    # Health

    def damage(self) -> list[str]:
        """Faults of the repository itself."""
        found = repair.findings(self.repository)
        if found:
            self.repository.state.set_checked(False)
        return found

    def blocked(self) -> list[str]:
        """Things that dibs does not touch until the user acts, each with the reason."""
        if self.is_on_other_branch():
            return [f"the files, since {self._wrong_branch()}"]
        try:
            unmerged = self.clone.index.unmerged()
        except GitFailed as failed:
            return [f"git's index: {failed}"]
        if not unmerged:
            return []
        names = ", ".join(unmerged[:NAMES_MAX]) + (", ..." if len(unmerged) > NAMES_MAX else "")
        return [
            f"your branch, since git's index has unmerged files: {names}; resolve them with git add or git checkout"
        ]

    def _repair(self) -> bool:
        """Repair the repository; return whether it was damaged."""

        def work() -> bool:
            for lock in self.repository.locks():
                raise GitFailed("fsck", None, f"Unable to create '{lock}': File exists")
            return repair.repair(self.repository, self.clone.worktree.look({}).tree)

        was_damaged = self._run(work)
        self.repository.state.set_checked(True)
        return was_damaged

    def _run(self, work: Callable[[], T]) -> T:
        """Run `work` once the user's git is idle, and translate its errors into those of a store."""
        try:
            self.clone.index.remove_own_lock()
            self._remove_stale(self.repository.locks())
            self._require_idle()
            return self._run_past_stale_locks(work)
        except WrongBranch as error:
            raise StoreUnavailable(self._wrong_branch(), retry_after_seconds=1) from error
        except Refused as error:
            raise _not_accepted(error) from error
        except (Unreachable, GitFailed) as error:
            if repair.is_damage(str(error)):
                raise Damaged(
                    f"this clone's git repository is damaged: {error}; repair it with: dibs vault sync",
                    retry_after_seconds=1,
                ) from error
            if isinstance(error, Unreachable):
                raise StoreUnavailable(f"the git remote cannot be reached: {error}", retry_after_seconds=5) from error
            raise StoreUnavailable(str(error), retry_after_seconds=1) from error

    def _run_past_stale_locks(self, work: Callable[[], T]) -> T:
        for _ in range(LOCKS_MAX):
            try:
                return _retry_races(work)
            except (Unreachable, GitFailed) as error:
                if not self._remove_stale(taken_locks(str(error))):
                    raise
        return _retry_races(work)

    def _remove_stale(self, locks: list[str]) -> bool:
        return bool(locks and remove_stale(self.repository.common_dir, self.files.root, locks))

    def _require_idle(self) -> None:
        begun = self.clone.index.begun_for_long()
        if begun is not None:
            raise StoreUnavailable(
                f"a {begun} is in progress in this vault's repository: finish it, or abort it with git {begun} --abort",
                retry_after_seconds=1,
            )

    def _wrong_branch(self) -> str:
        moved = f"no longer on the branch {self.repository.branch}: check it out again"
        return f"this vault's repository is {self.repository.why if isinstance(self.repository, NoBranch) else moved}"


def combine(parts: list[Synced], commit: str | None, pushed: bool) -> Synced:
    """Several results as one."""
    return Synced(
        commit=commit,
        news=tuple(sorted({name for one in parts for name in one.news})),
        pushed=pushed,
        conflicts=tuple(path for one in parts for path in one.conflicts),
        findings=tuple(dict.fromkeys(finding for one in parts for finding in one.findings)),
        repaired=any(one.repaired for one in parts),
    )


def _not_accepted(why: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the vault's git remote does not accept pushes: {why}", retry_after_seconds=5)


def _retry_races(work: Callable[[], T]) -> T:
    path = ""
    for _ in range(LOOKS_MAX):
        try:
            return work()
        except (Raced, FileExistsError) as raced:
            path = str(raced)
    raise StoreUnavailable(f"files keep changing: {path}; try again", retry_after_seconds=1)
