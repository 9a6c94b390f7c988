"""The changes of a transaction to the files: rendered once into a plan, which is pushed, applied to the disk, or
undone.

`render` computes the changes from the transaction's rows and the texts that it reads, and changes no file. A claim is
written into the text first, and then the file is moved; an end moves the file first. So after a crash between the two,
the file is in the folder of unclaimed items, or in that of its holder. A claim in its text that does not match the
folder is void.
"""

from __future__ import annotations

from dibs.errors import Invalid, StoreUnavailable
from dibs.store.sql import rows
from dibs.store.vault.disk import Disk, Raced, Unfit, similar_names
from dibs.store.vault.index import UNSEEN, Entry
from dibs.store.vault.layout import ARCHIVE, CONFLICTS, HELD, SUFFIX, folder_of, name_of
from dibs.store.vault.redo_log import RedoLog, folders_of
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, ROOM_BYTES
from dibs.store.vault.taskfile import facts, task_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from dibs.errors import DibsError
    from dibs.model import Approval, Claim, Item
    from dibs.rules.decision import Step
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.safe_fs import Stamp
    from dibs.store.vault.taskfile.run_annotations import Annotation

#: Events that leave no trace in a file: they are about the queue.
SILENT = frozenset({"claimable", "offered", "offer_lapsed"})
#: Events that no caller asked for. If such an item's file cannot be written now, it is written later.
UNASKED = SILENT | {"expired", "owner_died", "unblocked", "due"}


class Unwritable(Exception):
    """The file of one item cannot be written, because of `error`. The other items are not affected."""

    def __init__(self, item: str, error: DibsError) -> None:
        super().__init__(item)
        self.item, self.error = item, error


class Change(Value):
    """One file goes from `path` (None: it is new) to `to`, and its content from `was` to `new`.

    `entry` is the index entry of an item's file (None: the item was pruned), `keep` a path to which the old content is
    copied first. `asked`: a caller waits for this item.
    """

    path: str | None
    to: str
    was: bytes
    new: bytes
    entry: Entry | None = None
    keep: str | None = None
    asked: bool = False


def contents(plan: Iterable[Change]) -> dict[str, bytes | None]:
    """The content of every changed path after the plan; None if there is no file."""
    found: dict[str, bytes | None] = {}
    for change in plan:
        if change.path is not None:
            found[change.path] = None
        if change.keep is not None:
            found[change.keep] = change.was
        found[change.to] = change.new
    return found


def render(
    t: VaultTransaction,
    disk: Disk,
    steps: Iterable[Step],
    stale: set[str],
    *,
    whole: bool = False,
    to_push: bool = False,
) -> list[Change]:
    """The changes that give the files of all changed items their new paths and contents.

    `t` has applied all steps and is about to commit. With `whole`, every field in a file is written. With `to_push`, a
    path that is taken on disk is found now, not only when the plan is applied.
    """
    changed: dict[str, list[Step]] = {item: [] for item in stale}
    for step in steps:
        changed.setdefault(step.item.id, []).append(step)
    rendering = _Rendering(t, disk, whole, to_push)
    for item, moves in changed.items():
        asked = item not in stale and not all(step.event.kind in UNASKED for step in moves)
        try:
            rendering.add(item, moves, forced=item in stale, asked=asked)
        except (StoreUnavailable, Unfit, task_text.Unreadable) as error:
            report_unwritable(t, item, error, asked=asked)
    rendering.archive_pruned()
    return rendering.plan


def report_unwritable(t: VaultTransaction, item: str, error: Exception, *, asked: bool) -> None:
    """Raise Unwritable if a caller asked for the item; otherwise note the problem in the index."""
    why = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error), item=item)
    if asked:
        raise Unwritable(item, why) from error
    entry = t.entry_of(item)
    if entry is not None:
        t.put_entry(entry.replace(problem=why.message))


class _Rendering:
    def __init__(self, t: VaultTransaction, disk: Disk, whole: bool, to_push: bool) -> None:
        self.t, self.disk, self.whole, self.to_push = t, disk, whole, to_push
        self.plan: list[Change] = []
        #: The paths that the plan so far leaves empty, and those that it fills.
        self._vacated: set[str] = set()
        self._taken: set[str] = set()
        self._pruned: list[str] = []

    def add(self, id: str, steps: list[Step], *, forced: bool, asked: bool) -> None:
        row = self.t.one("item_by_id", id=id)
        if row is None:
            self._pruned.append(id)
            return
        item, claim = rows.item(row), self.t.claim_of(id)
        entry = self.t.entry_of(id)
        if entry is not None and not forced and all(step.event.kind in SILENT for step in steps):
            return
        name = f"{id}{SUFFIX}" if entry is None else name_of(entry.path)
        folder = folder_of(item.status, None if claim is None else claim.agent)
        to = f"{folder}/{name}"
        was = b"" if entry is None else self._read(entry)
        new = self._text(None if entry is None else was.decode(), name, item, claim, steps, folder)
        draft = self.t.draft(id) if forced and entry is not None else None
        redrafted = None if draft is None else task_text.restore_draft(new, draft)
        new = new if redrafted is None else redrafted
        is_annotated = any(step.event.kind == "annotated" for step in steps)
        is_ended = any(step.run is not None and step.run.outcome is not None for step in steps)
        if is_annotated or is_ended or forced:
            new = self._with_annotations(new, id, folder)
        data = new.encode()
        if is_annotated and not forced and len(data) > FILE_BYTES_MAX - ROOM_BYTES:
            raise Unwritable(id, _no_room(to, len(data)))
        keep = None
        if redrafted is not None or (self.whole and entry is not None and task_text.loses_text(was.decode(), new)):
            keep = self._keep(name, was)
        path = None if entry is None else entry.path
        if to != path and (to in self._taken or (self.to_push and not self._is_free(to))):
            raise _collision(self.t, self.disk, path, to, is_planned=to in self._taken)
        entry = entry or Entry(path=to, item=id, stamp=UNSEEN)
        self._put(Change(path=path, to=to, was=was, new=data, entry=entry, keep=keep, asked=asked))

    def archive_pruned(self) -> None:
        """Move the files of items that were pruned."""
        for path in [entry.path for entry in map(self.t.entry_of, self._pruned) if entry is not None]:
            to = f"{ARCHIVE}/{name_of(path)}"
            if not self._is_free(to):
                to = f"{ARCHIVE}/{name_of(path).removesuffix(SUFFIX)}.{self.t.now}{SUFFIX}"
            try:
                data, _ = self.disk.read(path)
            except FileNotFoundError as error:
                raise Raced(path) from error
            self._put(Change(path=path, to=to, was=data, new=data))

    def _put(self, change: Change) -> None:
        self.plan.append(change)
        if change.path is not None:
            self._vacated.add(change.path)
            self._taken.discard(change.path)
        if change.keep is not None:
            self._taken.add(change.keep)
        self._taken.add(change.to)

    def _read(self, entry: Entry) -> bytes:
        """The content of a file, if it is the one on which the decision was made."""
        if entry.problem is not None:
            raise _unreadable(entry.path, entry.problem)
        try:
            data, stamp = self.disk.read(entry.path)
        except FileNotFoundError as error:
            raise Raced(entry.path) from error
        except Unfit as error:
            raise _unreadable(entry.path, str(error)) from error
        if stamp != entry.stamp:
            raise Raced(entry.path)
        return data

    def _text(
        self, text: str | None, name: str, item: Item, claim: Claim | None, steps: list[Step], folder: str
    ) -> str:
        return task_text.write(
            text,
            name,
            item,
            claim,
            steps,
            next_state=folder.partition("/")[0],
            approval=_approval(self.t.approval(item)),
            whole=self.whole,
            floor=self.t.token_floor() if self.whole else 0,
        )

    def _with_annotations(self, text: str, item: str, folder: str) -> str:
        by_run: dict[int, list[Annotation]] = {}
        for annotation in self.t.annotations(item):
            by_run.setdefault(annotation.token, []).append(annotation)
        for token, known in by_run.items():
            run = self.t.run_of(item, token)
            assert run is not None, "every annotation is of a run"
            text = task_text.annotate(text, run, known, folder.partition("/")[0])
        return text

    def _keep(self, name: str, data: bytes) -> str | None:
        """The path at which to keep a person's text that dibs replaces; None if the text is kept already, as when two
        clones disagree repeatedly."""
        if self.disk.holds(CONFLICTS, name, data):
            return None
        return next(path for similar in similar_names(name) if self._is_free(path := f"{CONFLICTS}/{similar}"))

    def _is_free(self, path: str) -> bool:
        return path not in self._taken and (path in self._vacated or not self.disk.exists(path))


class UndoLog:
    """Changes to files, each with its inverse, in case that a later one fails."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        #: Paths at which files were for a moment, with their own paths: an editor may still save there.
        self.visited: dict[str, str] = {}
        #: Files of `visited` that could not be moved back, because their paths were taken.
        self._stranded: dict[str, str] = {}
        self._undo: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return len(self._undo)

    def change(self, path: str, to: str, was: bytes, new: bytes, read: Stamp | None = None) -> Stamp | None:
        """Bring one file to its path and content; return the stamp of the new content, or None if it did not change.
        `read` is as for `Disk.exchange`."""
        if to.startswith(HELD):
            stamp = self.exchange(path, new, was, read)
            self.move(path, to)
            return stamp
        self.move(path, to)
        return self.exchange(to, new, was, read)

    def create(self, path: str, data: bytes) -> Stamp:
        stamp = self.disk.create(path, data)
        self._undo.append(lambda: self.disk.discard(path, data))
        return stamp

    def exchange(self, path: str, new: bytes, was: bytes, read: Stamp | None) -> Stamp | None:
        if new == was:
            return None
        stamp = self.disk.exchange(path, new, was, read)
        self._undo.append(lambda: self.disk.exchange(self._stranded.get(path, path), was, new))
        return stamp

    def move(self, path: str, to: str) -> None:
        if path != to:
            self.disk.move(path, to)
            self._undo.append(lambda: self._move_back(to, path))

    def undo(self, down_to: int = 0) -> None:
        """Undo the changes, as far as no other program changed the files since. The next scan finds the rest."""
        while len(self._undo) > down_to:
            try:
                self._undo.pop()()
            except (Raced, Unfit, OSError):
                pass

    def _move_back(self, to: str, path: str) -> None:
        self.visited[to] = path
        try:
            self.disk.move(to, path)
        except FileExistsError:
            self._stranded[path] = to


class Application:
    """A plan as it is applied to the disk and, in the same transaction, to the index."""

    def __init__(self, t: VaultTransaction, disk: Disk, plan: list[Change]) -> None:
        self.t, self.disk, self._plan = t, disk, plan
        self.log = UndoLog(disk)
        self.redo_log = RedoLog(t, disk)
        self._written: list[tuple[Change, Entry]] = []

    def apply(self, *, may_log: bool) -> None:
        """Apply all changes, durably: either the folders are synced, or with `may_log` the COMMIT that follows has what
        brings the files back."""
        may_log = may_log and not self.disk.touched
        for change in self._plan:
            before = len(self.log)
            try:
                self._apply(change)
            except (StoreUnavailable, Unfit) as error:
                if change.entry is None or change.entry.item is None:
                    raise
                self.log.undo(before)
                report_unwritable(self.t, change.entry.item, error, asked=change.asked)
        may_log = may_log and len(self.log) > 0 and len(self._written) == len(self._plan)
        is_logged = may_log and self.redo_log.covers(self._plan)
        if len(self.log) and not is_logged:
            self.redo_log.settle()
        for change, entry in self._written:
            stamp = self.disk.stamp(entry.path)
            if stamp is None and entry.path.startswith(HELD):
                raise Raced(entry.path)
            # Have the file read again if it was saved just now, or if an ignored field may be valid by now.
            if stamp is None or stamp.content != entry.stamp.content or entry.remark is not None:
                stamp = UNSEEN
            self.t.put_entry(entry.replace(stamp=stamp))
            if is_logged and (stamp == UNSEEN or not self.redo_log.put(change, stamp)):
                is_logged = False
                self.redo_log.settle()
        if is_logged:
            self.disk.touched.clear()

    def undo(self) -> None:
        if len(self.log):
            self.log.undo()
            try:
                self.disk.sync(folders_of(self._plan))
            except OSError:
                pass

    def _apply(self, change: Change) -> None:
        path, to, entry = change.path, change.to, change.entry
        try:
            if change.keep is not None:
                self.log.create(change.keep, change.was)
            if entry is None:
                assert path is not None
                self.log.move(path, to)
                self.t.forget_entry(path)
                return
        except FileExistsError as error:
            raise Raced(str(error)) from error  # the next plan chooses another name
        before = len(self.log)
        try:
            if path is None:
                stamp = self.log.create(to, change.new)
            else:
                stamp = self.log.change(path, to, change.was, change.new, entry.stamp) or entry.stamp
        except FileExistsError as error:
            raise _collision(self.t, self.disk, path, to) from error
        except Raced:
            is_at_target = path == to or len(self.log) > before
            if to.startswith(HELD) or not is_at_target or self.disk.stamp(to) is not None:
                raise
            # Another program claimed the file by a rename right after this move: the next scan finds it.
            self.t.put_entry(entry.replace(path=to, stamp=UNSEEN))
            return
        self._written.append((change, entry.replace(path=to, stamp=stamp)))


def _collision(
    t: VaultTransaction, disk: Disk, path: str | None, to: str, *, is_planned: bool = False
) -> Raced | StoreUnavailable:
    """The error for a file whose target path is taken."""
    if not is_planned and (path is None or (disk.stamp(to) is not None and not t.has_file_at(to))):
        return Raced(to)  # a file that appeared since the scan, most likely a late save
    return StoreUnavailable(f"{to} is in the way of {path}; rename one of them", path=to)


def _unreadable(path: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"{path} cannot be read: {why}; mend the file and try again", path=path)


def _no_room(path: str, size: int) -> Invalid:
    limit = FILE_BYTES_MAX - ROOM_BYTES
    return Invalid(
        f"{path} would have {size} bytes with this annotation; the limit is {limit}, to leave room for the next run",
        field="links",
        bytes_max=limit,
    )


def _approval(approval: Approval | None) -> dict[str, Any] | None:
    if approval is None:
        return None
    found = {"actor": approval.actor, "at": approval.at, "comment": approval.comment}
    if approval.run is None:
        return found | {"token": None}
    return found | {"token": approval.run.token, "draft": facts.digest(approval.run.draft)}
