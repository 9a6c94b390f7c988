"""Applying a merged tree to the work tree, file by file, while people may be writing there.

A file that was changed on both sides is merged by its lines if the changes do not overlap. A person's text that cannot
be merged is kept in Conflicts; text that dibs wrote gives way to the remote's.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

from dibs.store.vault.disk import Raced, Unfit
from dibs.store.vault.git.merge import changes
from dibs.store.vault.git.path_policy import case_twins, fold_case
from dibs.store.vault.git.repository import BLOB_BYTES_MAX
from dibs.store.vault.layout import CONFLICTS, HELD, name_of, split
from dibs.store.vault.plan import UndoLog
from dibs.store.vault.taskfile import task_text
from dibs.system.git import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.store.vault.git.merge import BlobChange, Clash, Merged, Tree
    from dibs.store.vault.git.repository import Repository
    from dibs.store.vault.git.worktree import WorkTree, WorkTreeFiles

#: A file name for texts that are compared independently of their names.
ANY_NAME = "any.md"
#: How much of the remote's changes is in memory at once, unless one file is larger.
BATCH_BYTES_MAX = 4 * BLOB_BYTES_MAX


class TreeApplication:
    """`absent` are paths of the local tree that are not on disk, `skipped` those that could not be written."""

    def __init__(self, files: WorkTreeFiles, repository: Repository, worktree: WorkTree, absent: Iterable[str]) -> None:
        self._files, self._repository, self._worktree, self._absent = files, repository, worktree, frozenset(absent)
        self._texts: dict[str, bytes] = {}
        self.skipped: set[str] = set()
        self.conflicts: list[str] = []
        self.findings: list[str] = []

    def apply(self, local: Tree, merged: Merged) -> None:
        """Bring the files from the local tree to the merged one. Raced: some are not as they were seen."""
        tree = dict(merged.tree)
        kept = {blob for path, blob in local.items() if path.startswith(f"{CONFLICTS}/")}
        for clash in merged.clashes:
            self._resolve(clash, tree, kept)
        todo = [*self._without_case_twins(changes(local, tree), local, tree)]
        resolved = self._texts
        sizes = self._repository.sizes(now for now in (change.now for change in todo) if now and now not in resolved)
        fit = {blob: size for blob, size in sizes.items() if size <= BLOB_BYTES_MAX}
        for batch in _in_batches(todo, fit):
            self._texts = resolved | self._repository.texts(change.now for change in batch if change.now in fit)
            for change in batch:
                self._try_write(change)
        self._files.sync()

    # One change

    def _try_write(self, change: BlobChange) -> None:
        to = change.to
        if to is not None and change.now not in self._texts:
            self._skip(change, f"over {BLOB_BYTES_MAX} bytes")
            return
        try:
            self._write(change)
        except Unfit as unfit:
            self._skip(change, str(unfit))
        except FileExistsError:
            if to is None or (self._files.stamp(to) is not None and not self._worktree.is_ignored(to)):
                raise
            self._skip(change, "not written: something else has its path")

    def _write(self, change: BlobChange) -> None:
        to = change.to
        path = None if change.path in self._absent else change.path
        if path is None:
            if to is not None:
                self._files.create(to, self._text(change.now))
            return
        assert change.was is not None
        if to is None:
            self._discard(path, change.was)
        elif change.now == change.was:
            self._files.move(path, to)
        else:
            UndoLog(self._files).change(path, to, self._worktree.data(path, change.was), self._text(change.now))

    def _discard(self, path: str, was: str) -> None:
        try:
            self._files.discard(path, self._worktree.data(path, was))
        except FileNotFoundError as error:
            raise Raced(path) from error

    def _skip(self, change: BlobChange, why: str) -> None:
        """The remote's file cannot be written here. Remove the old one, which is in the repository."""
        assert change.to is not None
        self.skipped.add(change.to)
        self.findings.append(f"{change.to!r} is {why}")
        if change.path is not None and change.path not in self._absent and self._files.stamp(change.path) is not None:
            assert change.was is not None
            self._discard(change.path, change.was)

    def _without_case_twins(self, todo: list[BlobChange], local: Tree, tree: Tree) -> Iterable[BlobChange]:
        """Skip files whose names differ from another's only by case."""
        twins = case_twins(tree)
        present = {fold_case(path) for path in twins if path in local and path not in self._absent}
        for change in todo:
            if change.to in twins and change.to != change.path:
                assert change.to is not None
                if fold_case(change.to) in present:
                    self._skip(change, "the name of another file, in other case")
                    continue
                present.add(fold_case(change.to))
            yield change

    def _text(self, blob: str | None) -> bytes:
        assert blob is not None
        return self._texts[blob]

    # Files that were changed on both sides

    def _resolve(self, clash: Clash, tree: Tree, kept: set[str]) -> None:
        local = self._worktree.data(clash.here, clash.local) if clash.here not in self._absent else None
        blobs = [blob for blob in (clash.base, clash.remote) if blob is not None]
        texts = self._repository.texts_up_to(BLOB_BYTES_MAX, blobs)
        base, remote = texts.get(clash.base or ""), texts.get(clash.remote)
        if local is None or remote is None:
            return
        name = name_of(clash.here)
        merged = None if base is None else self._merge_lines(base, local, remote)
        if clash.task:
            theirs = None if base is None else _with_edit(base, local, remote, merged, name)
            ours = None if base is None or clash.moved else _with_edit(base, remote, local, merged, name)
            if theirs is not None:
                self._put(tree, clash.there, theirs)
            elif ours is not None:
                # The remote's change is neither a claim nor a release, so the local claim stays.
                del tree[clash.there]
                self._put(tree, clash.here, ours)
            elif _has_human_changes(base, local, remote, name):
                self._keep(name, clash.local, local, kept)
        elif merged is not None:
            self._put(tree, clash.there, merged)
        else:
            self._keep(name, clash.remote, remote, kept)

    def _put(self, tree: Tree, path: str, text: bytes) -> None:
        blob = self._worktree.blob_of(text)
        self._texts[blob] = text
        tree[path] = blob

    def _keep(self, name: str, blob: str, text: bytes, kept: set[str]) -> None:
        if blob not in kept:
            self.conflicts.append(self._files.keep(CONFLICTS, name, text))

    def _merge_lines(self, base: bytes, local: bytes, remote: bytes) -> bytes | None:
        """Both changes, if they are in different lines."""
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


def read_task(text: bytes, name: str) -> task_text.Task | None:
    try:
        return task_text.read(text.decode(), name)
    except (UnicodeDecodeError, task_text.Unreadable):
        return None


def with_tokens_of(remote: bytes, local: bytes, path: str) -> bytes | None:
    """The local text with the remote's facts, if those have a higher token; with its claim only if the file is in the
    folder of its holder."""
    name = name_of(path)
    there, here = read_task(remote, name), read_task(local, name)
    if there is None or there.facts is None or here is None:
        return None
    if here.facts is not None and here.facts.token >= there.facts.token:
        return None
    claim = there.facts.claim
    is_held = claim is not None and split(path)[:2] == (HELD, claim.agent)
    return task_text.with_facts_of(remote.decode(), local.decode(), claimed=is_held).encode()


def _in_batches(todo: list[BlobChange], sizes: dict[str, int]) -> Iterator[list[BlobChange]]:
    batch: list[BlobChange] = []
    total = 0
    for change in todo:
        size = sizes.get(change.now or "", 0)
        if batch and total + size > BATCH_BYTES_MAX:
            yield batch
            batch, total = [], 0
        batch.append(change)
        total += size
    yield batch


def _with_edit(base: bytes, edited: bytes, owner: bytes, merged: bytes | None, name: str) -> bytes | None:
    """The task as `owner` has it, with the text that a person wrote in `edited`, if nothing else was changed there."""
    candidates = [text for text in (merged, _combine(base, edited, owner)) if text is not None]
    return next((text for text in candidates if _is_only_edited(base, edited, owner, text, name)), None)


def _combine(base: bytes, edited: bytes, owner: bytes) -> bytes | None:
    """The person's part of `edited` with the part of dibs of `owner`, if that loses no text."""
    try:
        if _dibs_part(base, ANY_NAME) != _dibs_part(edited, ANY_NAME):
            return None
        combined = task_text.rebase(edited.decode(), owner.decode(), base.decode())
    except (UnicodeDecodeError, task_text.Unreadable):
        return None
    return None if combined is None else combined.encode()


def _is_only_edited(base: bytes, edited: bytes, owner: bytes, merged: bytes, name: str) -> bool:
    """Whether a merged task has all that dibs writes from `owner`, and only its text from `edited`."""
    before, here, there, now = (_dibs_part(text, name) for text in (base, edited, owner, merged))
    return None not in (before, here, there) and before == here and there == now


def _has_human_changes(base: bytes | None, local: bytes, remote: bytes, name: str) -> bool:
    """Whether the local text has changes by a person that the remote does not have."""
    task = read_task(local, name)
    if task is None:
        return True
    others = (read_task(text, name) for text in (base, remote) if text is not None)
    return all(other is None or other.content != task.content for other in others)


def _dibs_part(text: bytes, name: str) -> tuple[Any, ...] | None:
    task = read_task(text, name)
    return None if task is None else (task.id, task.facts, task.runs, task.annotations)
