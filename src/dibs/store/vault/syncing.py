"""A vault and its git remote. The remote's accepted push is the arbiter between clones.

`confirm` sends off what is to be written; if the remote has moved on, nothing was confirmed, and whoever asked decides
anew after `refresh` has brought the remote's changes here. So whatever is confirmed was decided on exactly the state it
was put on top of. Files are changed one by one with the care of `disk`; never by merge, checkout or reset. Everything
here is done with the board's lock held.
"""

from __future__ import annotations

import random
import time
from functools import cache

from dibs.errors import StoreUnavailable
from dibs.model import Synced
from dibs.store.vault import repair
from dibs.store.vault import repository as repositories
from dibs.store.vault.applying import Applying, read_task, with_tokens_of
from dibs.store.vault.disk import Raced
from dibs.store.vault.files import Files
from dibs.store.vault.git import GitFailed
from dibs.store.vault.gitindex import GitIndex
from dibs.store.vault.locks import in_the_way, remove_dead
from dibs.store.vault.merging import Merged, merge, put_back
from dibs.store.vault.places import folders_above, task_name
from dibs.store.vault.repository import BLOB_BYTES_MAX, PENDING_MAX, Astray, Elsewhere, Refused, Rejected, Unreachable
from dibs.store.vault.worktree import WorkTree
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from dibs.store.vault.merging import Tree
    from dibs.store.vault.repository import Listing, Refs, Repository
    from dibs.store.vault.taskfile import Task

    T = TypeVar("T")

#: How often files that somebody changes meanwhile are looked at anew, and how often a push is tried in a row.
LOOKS_MAX = 20
PUSHES_MAX = 20
#: Between tries, so that clones which race do not keep step; it grows up to the second figure.
PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.5
#: A clone that was confirmed so often in a row pauses for so many times as long as a push took, and up to twice that:
#: others need it to fetch and to push. If nobody came, the next pause is after twice as many, up to the second figure.
IN_A_ROW = 4
IN_A_ROW_MAX = 64
TURNS = 4.0
#: As long as none was measured.
TURN_SECONDS = 0.1
#: A remote that says so often in a row that it has moved on, and has not, takes nothing: a lock was left in it, say.
STILL_MAX = 10
NAMES_MAX = 10
#: So many locks of killed gits are taken away in a row.
LOCKS_MAX = 5


class Damaged(StoreUnavailable):
    """Git cannot read what it has written here."""


class _View(Value):
    """The work tree, beside what it began with. `held` are paths that stand in the tree and are not on disk."""

    tree: Tree
    held: frozenset[str]


def find(root: str) -> Sync | None:
    """The remote of the vault in this folder, if it is a clone whose branch has one."""
    repository = repositories.find(root)
    return None if repository is None else Sync(root, repository)


class Sync:
    def __init__(self, root: str, repository: Repository) -> None:
        self._repository = repository
        self.files = Files(root)
        self._index = GitIndex(repository.git, repository.git_dir)
        self._worktree = WorkTree(self.files, repository.git, root, repository.algorithm)
        self._rejections = 0
        self._still = 0
        self._turn_seconds = TURN_SECONDS
        self._behind = False
        self._overtaken = False
        self._planned: dict[str, bytes | None] = {}
        self._due: tuple[Refs, str, frozenset[str]] | None = None

    def close(self) -> None:
        self.files.close()

    @property
    def is_astray(self) -> bool:
        """Whether nothing can be asked until it is found anew."""
        return isinstance(self._repository, Astray)

    def prepare(self) -> Synced | None:
        """Before something is decided: bring the remote's changes, if it is known that there are some."""
        if self._behind:
            return self.refresh()
        self.mend()
        return None

    def mend(self) -> None:
        """Before the files are believed: bring again what the person's git has put back."""
        if self._repository.trails():
            self._mend()

    def mend_reset(self) -> bool:
        """The same where files are not as they were: the branch may have been put back, too. Whether any were."""
        return self._mend()

    def _mend(self) -> bool:
        if self._index.begun() is not None:
            return False
        try:
            return _tried(self._bring_again)
        except (Elsewhere, GitFailed):
            return False  # whoever needs the remote will be told

    def is_elsewhere(self) -> bool:
        """Whether the files are those of another branch, or of none: how they lie there is nobody's doing."""
        try:
            self._repository.refs()
        except Elsewhere:
            return True
        except GitFailed:
            pass
        return False

    def were_removed(self, paths: Iterable[str]) -> bool:
        """Whether commits of the person's branch have taken all of these away."""
        repository = self._repository
        try:
            refs = repository.refs()
            had = {path for path, _ in repository.had(refs.base, refs.head)}
            return set(paths) <= had - repository.listing(refs.head).files.keys()
        except (Elsewhere, GitFailed):
            return False

    @property
    def clone(self) -> str:
        return self._repository.clone()

    def lies_so(self, paths: Iterable[str]) -> set[str]:
        """Those of these paths that the remote has, as far as it is known here."""
        try:
            return set(paths) & self._repository.listing(self._repository.refs().base).files.keys()
        except (Elsewhere, GitFailed):
            return set()

    def records(self, name: str) -> list[Task]:
        """The task of that file name as the remote has it: as it was brought here, and as it was last fetched."""
        return self._tasks_in(lambda refs: (refs.base, refs.hub), {name})

    def tokens_sent(self, names: set[str]) -> dict[str, int]:
        """The highest token, by file name, that the remote has or may have from this clone. A dibs that was killed
        after a push has written it neither into the file nor into the index."""
        found: dict[str, int] = {}
        for task in self._tasks_in(lambda refs: (refs.base, *refs.pending), names):
            token = 0 if task.facts is None else task.facts.token
            found[task.name] = max(token, found.get(task.name, 0))
        return found

    def _tasks_in(self, commits: Callable[[Refs], Iterable[str | None]], names: set[str]) -> list[Task]:
        repository = self._repository
        try:
            trees = [repository.listing(commit).files for commit in dict.fromkeys(commits(repository.refs()))]
            blobs = {blob: name for tree in trees for path, blob in tree.items() if (name := task_name(path)) in names}
            sizes = repository.sizes(blobs)
            texts = repository.texts(blob for blob, size in sizes.items() if size <= BLOB_BYTES_MAX)
        except (Elsewhere, GitFailed):
            return []
        found = (read_task(text, blobs[blob] or "") for blob, text in texts.items())
        return [task for task in found if task is not None]

    def _require_rest(self) -> None:
        begun = self._index.begun_for_long()
        if begun is not None:
            raise StoreUnavailable(
                f"in this vault's repository a {begun} is begun: end it, say with git {begun} --abort",
                retry_after_seconds=1,
            )

    def confirm(self, planned: Mapping[str, bytes | None] | None = None) -> None:
        """Have the remote accept the tasks as they are here, but for what is planned: a path's text, or none.

        Raced: it has moved on, and nothing is confirmed; StoreUnavailable: it is away. What is accepted is to be
        written now, and `settle` told.
        """
        self._planned = dict(planned or {})
        self._due = None
        self._let_others_go_first()
        began = time.monotonic()
        try:
            self._said(self._offer)
            self._turn_seconds = time.monotonic() - began
        except Rejected as rejected:
            self._step_back()
            if self._still >= STILL_MAX:
                raise _unwanted(rejected) from rejected
            raise Raced(f"the remote has moved on: {rejected}") from rejected
        finally:
            self._planned = {}
        if planned is None:
            self.settle()

    def _let_others_go_first(self) -> None:
        """Who pushes without a pause is never overtaken: the others are still fetching what it pushed before."""
        count, most = self._repository.turns() or (0, IN_A_ROW)
        if count >= most:
            self._pause(min(PAUSE_SECONDS_MAX, TURNS * self._turn_seconds) * random.uniform(1, 2))
            count, most = 0, min(IN_A_ROW_MAX, 2 * most)
        self._repository.put_turns(count + 1, most)

    def settle(self) -> None:
        """What was confirmed has been written: the person's branch and index may follow."""
        due, self._due = self._due, None
        if due is None:
            return
        self._overtaken = False
        try:
            self._written(due)
            if self._overtaken:
                self._catch_the_branch()
        except GitFailed:
            pass  # some other time

    def stand_by(self) -> None:
        """What was confirmed could not be written, since somebody has moved or saved a file meanwhile. It is decided
        all the same: it is brought here like any change of the remote's, which counts more than what was done here."""
        assert self._due is not None
        refs, _, _ = self._due
        self._due, self._behind = None, True
        try:
            self._said(lambda: self._repository.put_base(refs.base))
            self._said(self._bring)
            self._behind = False
        except StoreUnavailable:
            pass  # before anything else is decided here

    def _written(self, due: tuple[Refs, str, frozenset[str]]) -> None:
        self._repository.trail(True)
        self._follow(*due, "")

    def _catch_the_branch(self) -> None:
        """A commit of the person's was made meanwhile. The sooner ours is on top of it, the less there is to merge."""
        try:
            self._said(self._join)
            if self._due is not None:
                self._written(self._due)
        except (Rejected, Raced, StoreUnavailable, GitFailed):
            pass  # it is confirmed all the same, and the branch follows some other time
        self._due = None

    def refresh(self) -> Synced:
        """Bring the remote's changes here."""
        return self._said(self._refresh)

    def sync(self) -> Synced:
        """Bring the remote's changes here, and send off what was changed here; after a repair, if that is needed."""
        repaired = not self._repository.is_checked() and self._repair()
        try:
            synced = self._synced()
        except Damaged:
            if repaired or not self._repair():
                raise
            repaired, synced = True, self._synced()
        return synced.replace(repaired=repaired)

    def _repair(self) -> bool:
        """Whether that was needed."""

        def work() -> bool:
            for lock in self._repository.locks():
                raise GitFailed("fsck", None, f"Unable to create '{lock}': File exists")
            return repair.repair(self._repository, self._worktree.look({}).tree)

        needed = self._said(work)
        self._repository.check(True)
        return needed

    def damage(self) -> list[str]:
        """What is wrong with the repository itself."""
        found = repair.findings(self._repository)
        if found:
            self._repository.check(False)
        return found

    def _synced(self) -> Synced:
        told: list[Synced] = []
        reason = ""
        for _ in range(PUSHES_MAX):
            told.append(self.refresh())
            try:
                commit, pushed = self._said(self._send_off)
            except Rejected as rejected:
                reason = str(rejected)
                self._step_back()
            else:
                self._repository.tidy()
                told.append(Synced(findings=tuple(self.stuck())))
                return together(told, commit, pushed)
        raise StoreUnavailable(f"the remote does not take what is pushed: {reason}", retry_after_seconds=1)

    def stuck(self) -> list[str]:
        """What dibs does nothing with until the person has helped it, and why."""
        if self.is_elsewhere():
            return [f"the files, since {self._where()}"]
        try:
            unmerged = self._index.unmerged()
        except GitFailed as failed:
            return [f"git's index: {failed}"]
        if not unmerged:
            return []
        names = ", ".join(unmerged[:NAMES_MAX]) + (", ..." if len(unmerged) > NAMES_MAX else "")
        return [f"your branch, since git's index has unmerged files: {names}; end that with git add or git checkout"]

    def _step_back(self) -> None:
        self._behind = True
        self._repository.put_turns(0, IN_A_ROW)
        self._rejections += 1
        most = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2 ** min(self._rejections - 1, 8))
        if self._rejections > 1:
            self._pause(random.uniform(0, most))

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _said(self, work: Callable[[], T]) -> T:
        """Do it once the person's git is at rest; what goes wrong, in words."""
        try:
            self._index.mend()
            self._unlock(self._repository.locks())
            self._require_rest()
            return self._unlocked(work)
        except Elsewhere as error:
            raise StoreUnavailable(self._where(), retry_after_seconds=1) from error
        except Refused as error:
            raise _unwanted(error) from error
        except (Unreachable, GitFailed) as error:
            if repair.is_damage(str(error)):
                raise Damaged(
                    f"this clone's git repository is damaged: {error}; repair it with: dibs vault sync",
                    retry_after_seconds=1,
                ) from error
            if isinstance(error, Unreachable):
                raise StoreUnavailable(f"the vault's git remote is away: {error}", retry_after_seconds=5) from error
            raise StoreUnavailable(str(error), retry_after_seconds=1) from error

    def _unlocked(self, work: Callable[[], T]) -> T:
        """Do it; again, without a lock in its way that a killed git has left."""
        for _ in range(LOCKS_MAX):
            try:
                return _tried(work)
            except (Unreachable, GitFailed) as error:
                if not self._unlock(in_the_way(str(error))):
                    raise
        return _tried(work)

    def _unlock(self, locks: list[str]) -> bool:
        return bool(locks and remove_dead(self._repository.common_dir, self.files.root, locks))

    def _where(self) -> str:
        repository = self._repository
        gone = f"not on the branch {repository.branch} any more: open it anew"
        return f"this vault's repository is {repository.why if isinstance(repository, Astray) else gone}"

    # From the remote to here

    def _refresh(self) -> Synced:
        self._repository.fetch()
        told = self._bring()
        self._behind = False
        return told

    def _bring(self) -> Synced:
        repository, refs = self._repository, self._repository.refs()
        if refs.hub is None or refs.hub == refs.base:
            self._still += self._behind
            self._bring_again()
            # What is pending may still arrive, as long as the remote has not moved on.
            self._follow(refs, refs.base, frozenset(repository.skipped()), "")
            return Synced(commit=refs.base)
        self._still = 0
        theirs = repository.listing(refs.hub)
        bases = [repository.listing(commit) for commit in self._bases(refs)]
        view = self._look(refs, bases[0] if bases else repositories.EMPTY)
        merged = merge([base.files for base in bases], self._meant(refs, view.tree), theirs.files)
        applying = Applying(self.files, repository, self._worktree, view.held)
        applying.apply(view.tree, merged)
        held = view.held | applying.skipped
        repository.skip(held & theirs.files.keys())
        self._follow(refs, refs.hub, held, repository.noted(base=refs.hub, drop=refs.names))
        return Synced(
            commit=refs.hub,
            news=tuple(sorted(name.removesuffix(".md") for name in merged.news)),
            conflicts=tuple(applying.conflicts),
            findings=tuple(applying.findings + _unfit_news(bases, theirs)),
        )

    def _bring_again(self) -> bool:
        """Whether there was anything to bring."""
        repository, refs = self._repository, self._repository.refs()
        if not self._is_put_back(refs):
            return False
        view = self._look(refs, repository.listing(refs.base))
        meant = self._meant(refs, view.tree)
        if meant == view.tree:
            return False
        applying = Applying(self.files, repository, self._worktree, view.held)
        applying.apply(view.tree, Merged(tree=meant, clashes=(), news=frozenset()))
        if not repository.trails():
            # The branch was put back as well. Until it is where it was, no file that is removed stays so.
            self._follow(refs, refs.base, view.held | applying.skipped, "")
        return True

    def _meant(self, refs: Refs, tree: Tree) -> Tree:
        """The files as they lie here, but for what the person's git has put back."""
        repository = self._repository
        if not self._is_put_back(refs):
            return tree
        own, theirs = repository.listing(refs.head).files, repository.listing(refs.base).files
        lost: Tree = {}
        if refs.got is not None and refs.head is not None and repository.is_ancestor(refs.head, refs.got):
            # Of files that the branch had, git removes those that it has no more; of no others.
            lost = repository.listing(refs.got).files
        common = repository.merge_bases(refs.head, refs.base)
        was = cache(lambda: repository.had(common[0] if common else None, refs.base))
        return put_back(own, theirs, tree, lost, was)

    def _is_put_back(self, refs: Refs) -> bool:
        """Whether the branch, or the files alone, may have been: it has not got to `base` yet, or has it no more."""
        repository = self._repository
        is_behind = refs.got is not None and refs.head is not None and not repository.is_ancestor(refs.got, refs.head)
        return is_behind or repository.trails()

    def _bases(self, refs: Refs) -> list[str]:
        """What the work tree and the remote have in common: the newest of all that is in both.

        That is `base` even if the remote has rewritten its past since: to there the work tree was brought.
        """
        repository, hub = self._repository, refs.hub
        assert hub is not None
        common = [commit for commit in refs.pending if repository.is_ancestor(commit, hub)]
        if refs.base is not None:
            common.append(refs.base)
        if refs.head != refs.base:
            common += repository.merge_bases(refs.head, hub)
        return repository.newest(common)

    # From here to the remote

    def _send_off(self) -> tuple[str | None, bool]:
        """The same, where nobody waits for a decision: the person's own commits will do."""
        return self._offer(theirs=True)

    def _join(self) -> tuple[str | None, bool]:
        """What was committed here and what was confirmed; not how the files lie: their git may be at them just now."""
        return self._offer(committed=True)

    def _offer(self, *, theirs: bool = False, committed: bool = False) -> tuple[str | None, bool]:
        """The commit that the remote has now, and whether it was sent.

        It is one of our own: of the person's the remote might say that it has it already, and also what came with it.
        """
        repository, refs = self._repository, self._repository.refs()
        if refs.hub != refs.base or (refs.hub is None and not self._is_new()):
            raise Rejected("its changes are not here yet")
        base, mine = repository.listing(refs.base), repository.listing(refs.head)
        view = self._look(refs, base)
        if self._meant(refs, view.tree) != view.tree:
            raise Rejected("what it has was put back here")
        self._require_memory(base.files, view)
        if committed:
            view = view.replace(tree=self._joined(refs))
        elif not theirs:
            view = view.replace(tree=self._with_plans(self._with_tasks_only(refs, view.tree)))
        extra = self._extra(refs)
        known = refs.head is None or (refs.base is not None and repository.is_ancestor(refs.head, refs.base))
        if theirs and known and not extra and view.tree == base.files:
            self._follow(refs, refs.base, view.held, "")
            return refs.base, False
        if len(refs.names) > PENDING_MAX:
            # Of the oldest it is known then that they did not arrive: if one had, the remote would not be as it was.
            repository.fetch()
            if repository.refs().hub != refs.base:
                raise Rejected("one of those before has arrived, or somebody else's")
            repository.note(repository.noted(drop=refs.names[: -PENDING_MAX // 2]))
            refs = repository.refs()
        ahead = refs.base is None or (refs.head is not None and repository.is_ancestor(refs.base, refs.head))
        if theirs and not known and ahead and not extra and view.tree == mine.files:
            assert refs.head is not None
            commit, name = refs.head, repository.remember(refs.head)
        else:
            parents = [parent for parent in (refs.base, None if known else refs.head) if parent is not None]
            message = _message(base.files, view.tree)
            commit, name = repository.commit(parents, view.tree, extra, message, self._data)
        hub = self._send(commit, refs.base)
        self._rejections = self._still = 0
        self._behind = hub != commit
        moves = repository.noted(base=commit, hub=hub, drop=[*refs.names, name])
        if theirs:
            self._follow(refs, commit, view.held, moves)
        else:
            # Until it is written, how the files lie is how they were, and not what somebody has put back.
            repository.trail(False)
            repository.note(moves)
            self._due = (refs, commit, view.held)
        return commit, True

    def _require_memory(self, base: Tree, view: _View) -> None:
        """No task here may tell of fewer tokens than the remote has given: somebody wrote over what dibs had written,
        or took a file before what was accepted of it could be written. Such a file is told of them first."""
        before = {task_name(path): blob for path, blob in base.items()}
        here = {task_name(path): (path, blob) for path, blob in view.tree.items() if path not in view.held}
        changed = [name for name in before.keys() & here.keys() if name and before[name] != here[name][1]]
        sizes = self._repository.sizes(before[name] for name in changed)
        texts = self._repository.texts(blob for blob, size in sizes.items() if size <= BLOB_BYTES_MAX)
        for name in changed:
            path, blob = here[name]
            local = self._worktree.data(path, blob)
            reminded = with_tokens_of(texts.get(before[name], b""), local, path)
            if reminded is not None:
                self.files.exchange(path, reminded, local)
                raise Raced(path)

    def _with_plans(self, tree: Tree) -> Tree:
        tree = {path: blob for path, blob in tree.items() if path not in self._planned}
        texts = {path: text for path, text in self._planned.items() if text is not None}
        return {**tree, **{path: self._worktree.blob_of(text) for path, text in texts.items()}}

    def _data(self, path: str, blob: str) -> bytes:
        text = self._planned.get(path)
        return self._worktree.data(path, blob) if text is None else text

    def _with_tasks_only(self, refs: Refs, tree: Tree) -> Tree:
        """The tasks as they lie here, and all else as it was committed: what a person has not committed may be half of
        what they are about to, and git would have to merge the two halves."""
        chosen: Tree = {}
        own, theirs, then = self._committed(refs)
        for path in own.keys() | theirs.keys() | tree.keys():
            mine, base, began = own.get(path), theirs.get(path), then.get(path)
            if task_name(path) is not None or (mine != base and began not in (mine, base)):
                blob = tree.get(path)
            else:
                blob = base if mine == began else mine
            if blob is not None:
                chosen[path] = blob
        return chosen

    def _joined(self, refs: Refs) -> Tree:
        """What was confirmed, and in it what was committed here of anything but tasks."""
        joined: Tree = {}
        own, theirs, then = self._committed(refs)
        for path in own.keys() | theirs.keys():
            mine, base, began = own.get(path), theirs.get(path), then.get(path)
            if mine not in (base, began) and (task_name(path) is not None or base != began):
                raise Rejected(f"{path} was changed twice")
            blob = base if mine == began else mine
            if blob is not None:
                joined[path] = blob
        return joined

    def _committed(self, refs: Refs) -> tuple[Tree, Tree, Tree]:
        """The person's last commit, the remote's, and what both began with."""
        repository = self._repository
        common = repository.merge_bases(refs.head, refs.base)
        commits = (refs.head, refs.base, common[0] if common else None)
        own, theirs, then = (repository.listing(commit).files for commit in commits)
        return own, theirs, then

    def _is_new(self) -> bool:
        """Whether the remote has no such branch yet."""
        self._repository.fetch()
        return self._repository.refs().hub is None

    def _send(self, commit: str, base: str | None) -> str:
        """What the remote has once it has this commit."""
        try:
            self._repository.push(commit, base)
        except Unreachable:
            # The answer is lost, or was never given: the remote itself knows.
            self._repository.fetch()
            hub = self._repository.refs().hub
            if hub is None or not self._repository.is_ancestor(commit, hub):
                raise
            return hub
        return commit

    def _extra(self, refs: Refs) -> dict[str, tuple[str, str] | None]:
        """What the person has committed of the things that we neither read nor write."""
        repository = self._repository
        if refs.head == refs.base or refs.head is None:
            return {}
        common = repository.merge_bases(refs.head, refs.base)
        began = repository.listing(common[0] if common else None).unfit
        mine, base = repository.listing(refs.head).unfit, repository.listing(refs.base).unfit
        changed = {path for path in mine.keys() | began.keys() if mine.get(path) != began.get(path)}
        return {
            path: None if path not in mine else mine[path][:2]
            for path in sorted(changed)
            if base.get(path) == began.get(path) and path.isprintable()
        }

    # What lies here

    def _look(self, refs: Refs, base: Listing) -> _View:
        """The work tree. What is not on disk because it cannot be is taken to be as it was."""
        repository = self._repository
        mine = repository.listing(refs.head)
        ahead = refs.head is not None and (refs.base is None or repository.is_ancestor(refs.base, refs.head))
        skipped = repository.skipped()
        # A file of the person's alone does not become the remote's by lying where one of the remote's should be.
        theirs = {path: blob for path, blob in base.files.items() if path not in skipped}
        tracked = mine.files if ahead else {**theirs, **mine.files}
        sight = self._worktree.look(tracked)
        missing = (base.files.keys() | mine.files.keys()) - sight.tree.keys()
        held = _covered(missing, sight.unfit, sight.tree) | (missing & skipped)
        common = repository.merge_bases(refs.head, refs.base) if held else []
        began = repository.listing(common[0] if common else None).files
        tree = dict(sight.tree)
        for path in held:
            own = mine.files.get(path)
            stays = base.files.get(path) if own == began.get(path) else own
            if stays is not None:
                tree[path] = stays
        return _View(tree=tree, held=frozenset(held))

    def _follow(self, refs: Refs, commit: str | None, held: frozenset[str], moves: str) -> None:
        """Move refs of our own; and the person's branch and index too, if all that changes by that is on disk."""
        repository = self._repository
        if commit is not None and commit != refs.head and self._may_follow(refs, commit, held):
            if self._index.follow(commit, refs.head, moves + repository.noted(got=commit)):
                repository.trail(False)
                return
            self._overtaken = True
        if commit is None or (refs.head is not None and repository.is_ancestor(commit, refs.head)):
            repository.trail(False)
            moves += repository.noted(got=commit if commit != refs.got else None)
        elif moves:
            repository.trail(True)
        repository.note(moves)

    def _may_follow(self, refs: Refs, commit: str, held: frozenset[str]) -> bool:
        repository = self._repository
        mine, then = repository.listing(refs.head), repository.listing(commit)
        if mine.unfit != then.unfit or any(mine.files.get(path) != then.files.get(path) for path in held):
            return False
        return refs.head is None or repository.is_ancestor(refs.head, commit)


def _unwanted(why: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the vault's git remote does not take what is pushed: {why}", retry_after_seconds=5)


def _tried(work: Callable[[], T]) -> T:
    path = ""
    for _ in range(LOOKS_MAX):
        try:
            return work()
        except (Raced, FileExistsError) as raced:
            path = str(raced)
    raise StoreUnavailable(f"files are being changed all the time: {path}", retry_after_seconds=1)


def _covered(paths: Iterable[str], unfit: Iterable[str], tree: Iterable[str]) -> set[str]:
    """Those at whose place, or above it, lies something that is no file of ours."""
    walls = {*unfit, *tree}
    return {path for path in paths if path in walls or any(above in walls for above in folders_above(path))}


def _unfit_news(bases: list[Listing], theirs: Listing) -> list[str]:
    known = {(path, *entry) for base in bases for path, entry in base.unfit.items()}
    return [f"{path!r} is {entry[2]}" for path, entry in theirs.unfit.items() if (path, *entry) not in known]


def _message(base: Tree, tree: Tree) -> str:
    changed = {path for path in base.keys() | tree.keys() if base.get(path) != tree.get(path)}
    names = sorted({name.removesuffix(".md") for path in changed if (name := task_name(path)) is not None})
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"dibs: {', '.join(names[:NAMES_MAX]) or 'sync'}{more}\n"


def together(told: list[Synced], commit: str | None, pushed: bool) -> Synced:
    """Several as one: what came of all, and the commit that both sides have by now."""
    return Synced(
        commit=commit,
        news=tuple(sorted({name for one in told for name in one.news})),
        pushed=pushed,
        conflicts=tuple(path for one in told for path in one.conflicts),
        findings=tuple(dict.fromkeys(finding for one in told for finding in one.findings)),
        repaired=any(one.repaired for one in told),
    )
