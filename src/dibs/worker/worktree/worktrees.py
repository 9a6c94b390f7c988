"""A worktree and a branch for each item that a command works on: made, taken over, kept or removed.

    worktrees = Worktrees(".", base="main")
    tree = worktrees.enter(claim)      # makes it, or takes over the one that the last run left
    ...                                # a command works in tree.folder
    tree.leave("done")                 # removes it, if nothing in it could be lost

Whoever uses a worktree holds the lock of its item, which ends with the process. A worktree is removed only if dibs made
it and nothing in it could be lost. Branches stay.
"""

from __future__ import annotations

import os
import time

from dibs.errors import DibsError, Invalid
from dibs.guard.refs import ITEM_BRANCH_PREFIX
from dibs.model import DONE
from dibs.system import locks, owner
from dibs.worker import guardian, process_group
from dibs.worker.handler_loop import CannotBegin
from dibs.worker.worktree import handover, obstacles
from dibs.worker.worktree.records import Record, Records
from dibs.worker.worktree.repository import GitFailed, GitUnusable, Repository, branch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.sdk.claim_handle import ClaimHandle
    from dibs.system.locks import FileLock
    from dibs.worker.worktree.records import OutputFile
    from dibs.worker.worktree.repository import Tree

#: How many worktrees of dibs a repository may have.
WORKTREES_MAX = 50
#: How long a run waits for the processes of the last one, which a guardian ends.
PATIENCE_SECONDS = 2 * guardian.GRACE_SECONDS
STOPPED = "the run was over before its worktree was free"


class Occupied(Exception):
    """The item's branch cannot be checked out, for a reason that waiting does not cure and a person has to look at.
    Other items do not meet it."""


class Worktrees:
    """The worktrees that dibs made in one repository."""

    def __init__(
        self,
        folder: str,
        *,
        base: str | None = None,
        directory: str | None = None,
        worktrees_max: int = WORKTREES_MAX,
        keeps: bool = False,
    ) -> None:
        """New branches start at `base`, or where the HEAD of `folder` is. New worktrees go into `directory`, or beside
        the repository. `keeps`: no worktree is removed when its run ends."""
        self.repository = Repository(folder)
        self.base = self.repository.current() if base is None else base
        self.directory = os.path.realpath(directory or self.repository.directory())
        self.worktrees_max, self.keeps = worktrees_max, keeps
        self.records = Records(self.repository.common)

    def check(self) -> None:
        """Refuse what would fail for every item, before one is claimed."""
        if self.worktrees_max < 1:
            raise Invalid("worktrees-max must be at least 1", field="worktrees-max")
        if self.repository.commit(self.base) is None:
            raise Invalid(f"there is no commit {self.base!r} to start a branch at; name one: --base main", field="base")
        if self.repository.has_branch(ITEM_BRANCH_PREFIX.rstrip("/")):
            raise Invalid("git cannot make dibs/ITEM beside a branch 'dibs'; rename it: git branch -m dibs NAME")

    # One item

    def enter(self, claim: ClaimHandle, is_over: Callable[[], bool] = lambda: False) -> Worktree:
        """The worktree of the claim's item, for this process alone."""
        try:
            self.records.make_folder()
            lock = self._lock_of(claim.item.id, is_over)
            try:
                return self._entered(claim, lock)
            except BaseException:
                lock.release()
                raise
        except GitUnusable as error:
            raise CannotBegin(f"no worktree could be made: {error}") from error
        except GitFailed as error:
            raise Occupied(f"no worktree could be made: {error}") from error
        except OSError as error:
            raise CannotBegin(f"no worktree could be made: {error.strerror}") from error

    def _lock_of(self, item: str, is_over: Callable[[], bool]) -> FileLock:
        lock, until = self.records.lock(item), time.monotonic() + PATIENCE_SECONDS
        if not locks.within(PATIENCE_SECONDS, lock.acquire, is_over):
            raise CannotBegin(STOPPED) if is_over() else Occupied(f"its worktree is in use by {self._user(item)}")
        while (record := self.records.read(item)) is not None and _is_running(record):
            if time.monotonic() >= until or is_over():
                lock.release()
                left = f"processes of its last run still run in {record.path}: group {record.group}"
                raise CannotBegin(STOPPED) if is_over() else Occupied(left)
            time.sleep(locks.POLL_SECONDS)
        return lock

    def _user(self, item: str) -> str:
        record = self.records.read(item)
        return "another process" if record is None else f"process {record.pid} ({record.agent}) in {record.path}"

    def _entered(self, claim: ClaimHandle, lock: FileLock) -> Worktree:
        before = self.records.read(claim.item.id)
        found = None if before is None else self._found(before)
        record = found or self._made(claim, lock, before)
        previous = None
        if found is not None or self.repository.commit(f"refs/heads/{record.branch}") != record.base_commit:
            previous = self.summary(record, self.records.output(record.item))
        record = record.replace(
            pid=os.getpid(), agent=claim.session.agent, session=claim.session.id, is_kept=self.keeps, outcome=None
        )
        self.records.write(record)
        return Worktree(self, record, lock, previous)

    def _found(self, record: Record) -> Record | None:
        """The record, if its worktree is there. The registration of one that is gone is removed."""
        tree = self._registered(record)
        if tree is None:
            return None
        record = record.replace(path=tree.path)
        if obstacles.is_interrupted(record, tree):
            self.repository.remove(record.path, "-f", "-f")
            return None
        is_missing = not os.path.isdir(record.path)
        reason = obstacles.to_unregistering if is_missing else obstacles.to_entry
        if (why := reason(self.repository, record, tree)) is not None:
            raise Occupied(why)
        if is_missing:
            self.repository.remove(record.path)
            return None
        return record if record.is_complete else self._complete(record)

    def _registered(self, record: Record) -> Tree | None:
        """The worktree of a record, also if it was moved by git."""
        for tree in self.repository.worktrees():
            if tree.item == record.item or obstacles.is_unmarked(record, tree):
                return tree
        return None

    def _made(self, claim: ClaimHandle, lock: FileLock, before: Record | None) -> Record:
        item = claim.item.id
        branch, path = branch_of(item), os.path.join(self.directory, item)
        other = next((tree.path for tree in self.repository.worktrees() if tree.branch == branch), None)
        if other is not None:
            raise Occupied(f"branch {branch} is checked out in {other}, which is not a worktree that dibs made")
        if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
            if before is not None and not before.is_complete:
                self.records.remove(item)  # what is there now is another's
            raise Occupied(f"{path} is in the way: move it, or name another folder with --worktrees-dir")
        base, base_commit = self.base, self.repository.commit(self.base)
        if before is not None and self.repository.has_branch(branch):
            base, base_commit = before.base, before.base_commit
        if base_commit is None:
            raise CannotBegin(f"there is no commit {base!r} to start the branch {branch} at")
        record = Record(
            item=item,
            branch=branch,
            base=base,
            base_commit=base_commit,
            path=path,
            host=obstacles.host(),
            pid=os.getpid(),
            agent=claim.session.agent,
            session=claim.session.id,
            made_at=time.time_ns() // 1_000_000,
        )
        with self.records.counting():
            self._require_room(claim)
            self._prepare_branch(branch, base_commit)
            self.records.write(record)
        try:
            os.makedirs(self.directory, exist_ok=True)
            self.repository.add(path, branch, lock.descriptor)
        except (GitFailed, OSError):
            if self._registered(record) is None:
                self.records.remove(item)
            raise
        return self._complete(record)

    def _prepare_branch(self, branch: str, base_commit: str) -> None:
        if not self.repository.has_branch(branch):
            return self.repository.make_branch(branch, base_commit)
        remote = self.repository.remote_branch(branch)
        if remote is not None and not self.repository.fast_forward(branch, remote):
            other = remote.removeprefix("refs/remotes/")
            raise Occupied(f"branch {branch} and {other} have diverged; merge them, or delete one")
        return None

    def _complete(self, record: Record) -> Record:
        self.repository.mark(record.path, record.item)
        self.repository.init_submodules(record.path)
        record = record.replace(is_complete=True)
        self.records.write(record)
        return record

    def _require_room(self, claim: ClaimHandle) -> None:
        """Refuse one more worktree than there may be. Those of finished work make room."""
        others = [record.item for record in self.records.all() if record.item != claim.item.id]
        surplus = len(others) + 1 - self.worktrees_max
        for item in others:
            if surplus > 0 and _is_done(claim, item) and self.remove(item, only_published=True) is None:
                surplus -= 1
        if surplus > 0:
            raise CannotBegin(
                f"this repository has {len(others)} {'worktree' if len(others) == 1 else 'worktrees'} of dibs, and "
                f"--worktrees-max is {self.worktrees_max}; "
                "to see and remove them: dibs worktree list, dibs worktree clean"
            )

    def summary(self, record: Record, output: str) -> dict[str, Any]:
        """How far the work has come, for the next holder."""
        return handover.summary(self.repository, record, output, self._off_branch(record, self._registered(record)))

    def _off_branch(self, record: Record, tree: Tree | None) -> str | None:
        return None if tree is None else obstacles.off_branch(self.repository, record, tree)

    # All of them

    def all(self) -> list[Record]:
        """The records, with the paths where their worktrees are now."""
        trees = [(record, self._registered(record)) for record in self.records.all()]
        return [record if tree is None else record.replace(path=tree.path) for record, tree in trees]

    def is_there(self, record: Record) -> bool:
        """Whether the worktree exists. Another folder may be where one was that somebody removed."""
        return self._registered(record) is not None and os.path.isdir(record.path)

    def remove(self, item: str, *, is_named: bool = False, only_published: bool = False) -> str | None:
        """Remove the worktree of an item. Returns why it is kept, or None. One that a run was told to keep is removed
        only if it `is_named`."""
        lock = self.records.lock(item)
        if not lock.acquire():
            return f"it is in use by {self._user(item)}"
        try:
            record = self.records.read(item)
            if record is None:
                return None
            if _is_running(record):
                return f"processes of its last run still run: group {record.group}"
            if record.is_kept and not is_named:
                return "a run with --keep used it last; to remove it, name its item"
            return self.remove_unused(record, only_published=only_published)
        finally:
            lock.release()

    def remove_unused(self, record: Record, *, only_published: bool) -> str | None:
        """The same for a worktree whose lock the caller has."""
        try:
            tree = self._registered(record)
            if tree is not None:
                record = record.replace(path=tree.path)
                is_interrupted = obstacles.is_interrupted(record, tree)
                if not is_interrupted:
                    why = obstacles.to_removal(self.repository, record, tree, only_published=only_published)
                    if why is not None:
                        return why
                self.repository.remove(record.path, *(("-f", "-f") if is_interrupted else ()))
        except (GitFailed, OSError) as error:
            return str(error)
        self.records.remove(record.item)
        return None

    def describe(self, record: Record) -> dict[str, Any]:
        """A worktree for `dibs worktree list`."""
        tree = self._registered(record)
        record = record if tree is None else record.replace(path=tree.path)
        found = {name: getattr(record, name) for name in ("item", "branch", "base", "path", "host", "agent", "session")}
        found |= {"made_at": record.made_at, "outcome": record.outcome, "is_kept": record.is_kept}
        lock = self.records.lock(record.item)
        is_free = lock.acquire()
        lock.release()
        found["in_use"] = not is_free or _is_running(record)
        found["exists"] = tree is not None and os.path.isdir(record.path)
        try:
            if tree is not None and found["exists"] and not self.repository.is_linked(tree):
                raise GitFailed("git in it does not lead to this repository")
            found["uncommitted"] = self.repository.changes(record.path) if found["exists"] else 0
            found["published"] = self.repository.is_published(record.branch, record.base)
            if (why := self._off_branch(record, tree)) is not None:
                found["problem"] = why
        except GitFailed as error:
            found |= {"uncommitted": None, "published": None, "problem": str(error)}
        return found


class Worktree:
    """A worktree that this process uses for one run."""

    def __init__(self, worktrees: Worktrees, record: Record, lock: FileLock, previous: dict[str, Any] | None) -> None:
        self._worktrees, self.record, self._lock = worktrees, record, lock
        #: What the next holder is told about the work that was there before this run; None if there was none.
        self.previous = previous
        self.output: OutputFile = worktrees.records.new_output(record.item)
        #: The head of the branch when the command had ended.
        self._commit: str | None = None

    @property
    def folder(self) -> str:
        """Where the command runs: the folder of the worktree that stands for the one where dibs was called."""
        folder = os.path.join(self.record.path, self._worktrees.repository.prefix)
        return folder if os.path.isdir(folder) else self.record.path

    def begun(self, group: int) -> None:
        """Record the process group of the command, before the command runs."""
        try:
            leader = owner.of(group)
        except Invalid:  # the system does not say when a process started
            leader = None
        self._write(group=group, leader=leader)

    def tell_begin(self, claim: ClaimHandle) -> None:
        """Record where the work is: the next holder finds it there if this worker is killed."""
        handover.annotate(claim, self.links)
        where = handover.place(self.record)
        handover.tell(claim, f"works on branch {where['branch']} in {where['path']}", where)

    def tell_end(self, claim: ClaimHandle, output: str) -> None:
        """Note how far the work has come."""
        if claim.is_held:
            found = self._worktrees.summary(self.record, output)
            self._commit = found.get("commit")
            handover.tell(claim, handover.note(found), found)

    @property
    def links(self) -> dict[str, Any]:
        """Links of the run: its branch, base and path, and in the end the commit that it left."""
        return handover.links(self.record) | ({} if self._commit is None else {"commit": self._commit})

    def leave(self, outcome: str | None) -> str | None:
        """Give the worktree back; remove it if the work is done and nothing could be lost. Returns why it is kept."""
        self.output.close()
        try:
            self._write(outcome=outcome, group=None, leader=None)
            if outcome != "done":
                return f"the run ended otherwise: {outcome}"
            if self.record.is_kept:
                return "--keep"
            return self._worktrees.remove_unused(self.record, only_published=True)
        except OSError as error:
            return str(error)
        finally:
            self._lock.release()

    def _write(self, **changes: Any) -> None:
        self.record = self.record.replace(**changes)
        self._worktrees.records.write(self.record)


def _is_done(claim: ClaimHandle, item: str) -> bool:
    """Whether the board says so: a person, or an agent that is no worker, may have ended the item."""
    try:
        return claim.session.board.get(item).item.status == DONE
    except DibsError:
        return False


def _is_running(record: Record) -> bool:
    return record.group is not None and process_group.is_running(record.group, record.leader)
