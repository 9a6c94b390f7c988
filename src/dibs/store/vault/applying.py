"""The remote's changes, file by file, into a work tree in which people may be writing at this moment.

What was changed on both sides is settled here by its text: two changes at different lines are both made, as in any
merge; a person's text that cannot be put in is kept under Conflicts. What dibs wrote gives way to the remote's.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

from dibs.store.vault import taskfile
from dibs.store.vault.disk import Raced, Unfit
from dibs.store.vault.folders import CONFLICTS, HELD, split
from dibs.store.vault.git import GitFailed
from dibs.store.vault.merging import changes
from dibs.store.vault.places import folded, twins
from dibs.store.vault.repository import BLOB_BYTES_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.store.vault.files import Files
    from dibs.store.vault.merging import Change, Clash, Merged, Tree
    from dibs.store.vault.repository import Repository
    from dibs.store.vault.worktree import WorkTree

    Todo = list[Change]

#: Of texts that are compared with each other, whatever the file is called.
ANY_NAME = "any.md"
#: Of what the remote changed, no more than this is in memory at once; one file may be as large as any.
BATCH_BYTES_MAX = 4 * BLOB_BYTES_MAX


class Applying:
    """`held` are paths that stand in the tree and not on disk, `skipped` those that could not be written now."""

    def __init__(self, files: Files, repository: Repository, worktree: WorkTree, held: Iterable[str]) -> None:
        self._files, self._repository, self._worktree, self._held = files, repository, worktree, frozenset(held)
        self._texts: dict[str, bytes] = {}
        self.skipped: set[str] = set()
        self.conflicts: list[str] = []
        self.findings: list[str] = []

    def apply(self, local: Tree, merged: Merged) -> None:
        """Bring the files from how they lie here to how they were merged. Raced: some are not as they were seen."""
        tree = dict(merged.tree)
        kept = {blob for path, blob in local.items() if path.startswith(f"{CONFLICTS}/")}
        for clash in merged.clashes:
            self._settle(clash, tree, kept)
        todo = [*self._without_twins(changes(local, tree), local, tree)]
        mended = self._texts
        sizes = self._repository.sizes(now for now in (change.now for change in todo) if now and now not in mended)
        fit = {blob: size for blob, size in sizes.items() if size <= BLOB_BYTES_MAX}
        for some in _in_batches(todo, fit):
            self._texts = mended | self._repository.texts(change.now for change in some if change.now in fit)
            for change in some:
                self._make(change)
        self._files.sync()

    # One change

    def _make(self, change: Change) -> None:
        to = change.to
        if to is not None and change.now not in self._texts:
            self._skip(change, f"over {BLOB_BYTES_MAX} bytes")
            return
        try:
            self._write(change)
        except Unfit as unfit:
            self._skip(change, str(unfit))
        except FileExistsError:
            if to is None or (self._files.stamp(to) is not None and not self._worktree.is_private(to)):
                raise
            self._skip(change, "not to be written: something else is in its place")

    def _write(self, change: Change) -> None:
        files, to = self._files, change.to
        path = None if change.path in self._held else change.path
        if path is None:
            if to is not None:
                files.create(to, self._text(change.now))
            return
        assert change.was is not None
        if to is None:
            self._discard(path, change.was)
        elif change.now == change.was:
            files.move(path, to)
        elif to == path:
            self._exchange(path, change)
        elif to.startswith(f"{HELD}/"):
            self._exchange(path, change)
            files.move(path, to)
        else:
            files.move(path, to)
            self._exchange(to, change)

    def _exchange(self, path: str, change: Change) -> None:
        assert change.was is not None
        self._files.exchange(path, self._text(change.now), self._worktree.data(path, change.was))

    def _discard(self, path: str, was: str) -> None:
        try:
            self._files.discard(path, self._worktree.data(path, was))
        except FileNotFoundError as error:
            raise Raced(path) from error

    def _skip(self, change: Change, why: str) -> None:
        """It cannot lie here as the remote has it. Then nothing does: what did is in the repository."""
        assert change.to is not None
        self.skipped.add(change.to)
        self.findings.append(f"{change.to!r} is {why}")
        if change.path is not None and change.path not in self._held and self._files.stamp(change.path) is not None:
            assert change.was is not None
            self._discard(change.path, change.was)

    def _without_twins(self, todo: Todo, local: Tree, tree: Tree) -> Iterable[Change]:
        """Names that differ by case only do not come to lie beside each other."""
        alike = twins(tree)
        present = {folded(path) for path in alike if path in local and path not in self._held}
        for change in todo:
            if change.to in alike and change.to != change.path:
                assert change.to is not None
                if folded(change.to) in present:
                    self._skip(change, "another file's name but for case")
                    continue
                present.add(folded(change.to))
            yield change

    def _text(self, blob: str | None) -> bytes:
        assert blob is not None
        return self._texts[blob]

    # What was changed on both sides

    def _settle(self, clash: Clash, tree: Tree, kept: set[str]) -> None:
        local = self._worktree.data(clash.here, clash.local) if clash.here not in self._held else None
        blobs = [blob for blob in (clash.base, clash.remote) if blob is not None]
        sizes = self._repository.sizes(blobs)
        texts = self._repository.texts(blob for blob in blobs if sizes[blob] <= BLOB_BYTES_MAX)
        base, remote = texts.get(clash.base or ""), texts.get(clash.remote)
        if local is None or remote is None:
            return
        name = clash.here.rpartition("/")[2]
        mended = None if base is None else self._merged(base, local, remote)
        if clash.task:
            theirs = None if base is None else _with_text_of(base, local, remote, mended, name)
            ours = None if base is None or clash.moved else _with_text_of(base, remote, local, mended, name)
            if theirs is not None:
                self._put(tree, clash.there, theirs)
            elif ours is not None:
                # Nobody took it there or let go of it: who has it here still has.
                del tree[clash.there]
                self._put(tree, clash.here, ours)
            elif has_persons_text(base, local, remote, name):
                self._keep(name, clash.local, local, kept)
        elif mended is not None:
            self._put(tree, clash.there, mended)
        else:
            self._keep(name, clash.remote, remote, kept)

    def _put(self, tree: Tree, path: str, text: bytes) -> None:
        blob = self._worktree.blob_of(text)
        self._texts[blob] = text
        tree[path] = blob

    def _keep(self, name: str, blob: str, text: bytes, kept: set[str]) -> None:
        if blob not in kept:
            self.conflicts.append(self._files.keep(CONFLICTS, name, text))

    def _merged(self, base: bytes, local: bytes, remote: bytes) -> bytes | None:
        """Both changes, if they are at different lines."""
        with ExitStack() as stack:
            paths = []
            for text in (remote, base, local):
                file = stack.enter_context(tempfile.NamedTemporaryFile())
                file.write(text)
                file.flush()
                paths.append(file.name)
            try:
                return self._repository.git.run("merge-file", "-p", "--quiet", "--", *paths)
            except GitFailed:
                return None


def _in_batches(todo: Todo, sizes: dict[str, int]) -> Iterator[Todo]:
    """In their order, so many at a time that their texts are no more than this machine can hold."""
    batch: Todo = []
    total = 0
    for change in todo:
        size = sizes.get(change.now or "", 0)
        if batch and total + size > BATCH_BYTES_MAX:
            yield batch
            batch, total = [], 0
        batch.append(change)
        total += size
    yield batch


def _with_text_of(base: bytes, edited: bytes, owners: bytes, mended: bytes | None, name: str) -> bytes | None:
    """The task as one side's dibs tells it, with the text that a person wrote on the other side, if that is all that
    was changed there."""
    ways = [way for way in (mended, put_together(base, edited, owners)) if way is not None]
    return next((way for way in ways if is_owners_still(base, edited, owners, way, name)), None)


def put_together(base: bytes, local: bytes, remote: bytes) -> bytes | None:
    """The person's part from here and dibs' part from the remote, if no words are lost by that."""
    try:
        if _facts(base, ANY_NAME) != _facts(local, ANY_NAME):
            return None
        together = taskfile.rebased(local.decode(), remote.decode(), base.decode())
    except (UnicodeDecodeError, taskfile.Unreadable):
        return None
    return None if together is None else together.encode()


def is_owners_still(base: bytes, edited: bytes, owners: bytes, mended: bytes, name: str) -> bool:
    """Whether a merged task is `owners` in all that dibs writes, and only its text is a person's from `edited`."""
    before, here, there, now = (_facts(text, name) for text in (base, edited, owners, mended))
    return None not in (before, here, there) and before == here and there == now


def has_persons_text(base: bytes | None, local: bytes, remote: bytes, name: str) -> bool:
    """Whether there is more in the local text than what dibs has written, and that the remote does not have."""
    content = _content(local, name)
    if content is None:
        return True
    return all(text is None or _content(text, name) != content for text in (base, remote))


def read_task(text: bytes, name: str) -> taskfile.Task | None:
    try:
        return taskfile.read(text.decode(), name)
    except (UnicodeDecodeError, taskfile.Unreadable):
        return None


def with_tokens_of(remote: bytes, local: bytes, path: str) -> bytes | None:
    """The local text with what the remote's says of tokens, if that is more; and of a claim, if it lies with its
    holder."""
    name = path.rpartition("/")[2]
    there, here = read_task(remote, name), read_task(local, name)
    if there is None or there.facts is None or here is None:
        return None
    if here.facts is not None and here.facts.token >= there.facts.token:
        return None
    claim = there.facts.claim
    is_held = claim is not None and split(path)[:2] == (HELD, claim.agent)
    return taskfile.with_facts_of(remote.decode(), local.decode(), claimed=is_held).encode()


def _facts(text: bytes, name: str) -> tuple[Any, ...] | None:
    task = read_task(text, name)
    return None if task is None else (task.id, task.facts, task.runs, task.annotations)


def _content(text: bytes, name: str) -> dict[str, Any] | None:
    task = read_task(text, name)
    return None if task is None else task.content
