"""The files of one transaction: written before it commits, or put back as they were.

A claim is written into the text first, and then the file is moved; every end moves the file first. So a crash between
the two leaves a file in the folder of those that nobody holds, or in its holder's, and what its text says beyond that
is void.
"""

from __future__ import annotations

from dibs.errors import Invalid, StoreUnavailable
from dibs.store.tables import rows
from dibs.store.vault import catalog, facts, taskfile
from dibs.store.vault.beneath import FILE_BYTES_MAX, ROOM_BYTES
from dibs.store.vault.catalog import UNSEEN, Entry
from dibs.store.vault.disk import Disk, Raced, Stamp, Unfit
from dibs.store.vault.folders import ARCHIVE, CONFLICTS, HELD, SUFFIX, folder_of, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from dibs.errors import DibsError
    from dibs.model import Approval, Claim, Item
    from dibs.rules.decision import Step
    from dibs.store.vault.runblocks import Annotation
    from dibs.store.vault.transaction import VaultTransaction

#: Events of which a file says nothing: who waits, and who is told.
SILENT = frozenset({"claimable", "offered", "offer_lapsed"})
#: What befalls an item while somebody is at another one: its file may follow later, if it cannot now.
UNASKED = SILENT | {"expired", "owner_died", "unblocked", "due"}


class KeptBack(Exception):
    """An item's file cannot be written, as `error` says: it is the item that cannot be had, not the board."""

    def __init__(self, item: str, error: DibsError) -> None:
        super().__init__(item)
        self.item, self.error = item, error


class Writing:
    """What becomes of the files. `t` is a transaction that has all the steps behind it and is about to commit."""

    def __init__(self, t: VaultTransaction, disk: Disk, *, whole: bool = False) -> None:
        self.t = t
        self.disk = disk
        self.whole = whole
        #: Where files were for a moment, and where they belong, if they were moved back: an editor may have seen it.
        self.visited: dict[str, str] = {}
        #: Those of them that are there still, since something had come to where they belong.
        self._stranded: dict[str, str] = {}
        self._back: list[Callable[[], object]] = []
        #: As they were put there, until it is known how they lie there.
        self._written: list[Entry] = []

    def write(self, steps: Iterable[Step], stale: Iterable[str]) -> None:
        """Bring the files of all items that moved to where and what they are now, durably."""
        changed: dict[str, list[Step]] = {item: [] for item in stale}
        for step in steps:
            changed.setdefault(step.item.id, []).append(step)
        for item, moves in changed.items():
            self._write(item, moves, forced=item in stale)
        if self._back:
            self.disk.sync()
        for entry in self._written:
            stamp = self.disk.stamp(entry.path)
            if stamp is None and entry.path.startswith(HELD):
                raise Raced(entry.path)
            # What was saved over it in this very moment is looked at; and what was not heeded may be by now.
            if stamp is None or stamp.text != entry.stamp.text or entry.remark is not None:
                stamp = UNSEEN
            catalog.put(self.t, entry.replace(stamp=stamp))

    def archive(self) -> None:
        """Put away the files of items that were pruned."""
        for (path,) in self.t.files("files_without_item"):
            try:
                self._move(path, f"{ARCHIVE}/{split(path)[2]}")
            except FileExistsError:
                stem = split(path)[2].removesuffix(SUFFIX)
                self._move(path, f"{ARCHIVE}/{stem}.{self.t.now}{SUFFIX}")
            self.t.files("forget_file", path=path)

    def put_back(self) -> None:
        """Undo what was done, as far as nobody else was at the files since: what is left, the next look finds."""
        if self._back:
            self._undo(0)
            try:
                self.disk.sync()
            except OSError:
                pass

    def _undo(self, down_to: int) -> None:
        while len(self._back) > down_to:
            try:
                self._back.pop()()
            except (Raced, Unfit, OSError):
                pass

    def _write(self, id: str, steps: list[Step], *, forced: bool) -> None:
        """One file; if it cannot be, and nobody has asked for it, it is left and told of."""
        before = len(self._back)
        try:
            self._bring(id, steps, forced=forced)
        except (StoreUnavailable, Unfit, taskfile.Unreadable) as error:
            why = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error), item=id)
            if not forced and not all(step.event.kind in UNASKED for step in steps):
                raise KeptBack(id, why) from error
            self._undo(before)
            entry = catalog.entry_of(self.t, id)
            if entry is not None:
                catalog.put(self.t, entry.replace(problem=why.message))

    def _bring(self, id: str, steps: list[Step], *, forced: bool) -> None:
        row = self.t.one("item_by_id", id=id)
        if row is None:
            return
        item, claim = rows.item(row), self.t.claim_of(id)
        entry = catalog.entry_of(self.t, id)
        if entry is not None and not forced and all(step.event.kind in SILENT for step in steps):
            return
        name = f"{id}{SUFFIX}" if entry is None else split(entry.path)[2]
        folder = folder_of(item.status, None if claim is None else claim.agent)
        path = f"{folder}/{name}"
        if entry is None:
            put = self._create(path, self._text(None, name, item, claim, steps, folder))
            self._written.append(Entry(path=path, item=id, stamp=put))
            return
        was = self._as_known(entry)
        new = self._text(was.decode(), name, item, claim, steps, folder)
        draft = self.t.draft(id) if forced else None
        redrafted = None if draft is None else taskfile.redrafted(new.decode(), draft)
        if redrafted is not None:
            new = redrafted.encode()
        is_annotated = any(step.event.kind == "annotated" for step in steps)
        if is_annotated or forced:
            new = self._with_annotations(new, id, folder)
        if is_annotated and not forced and len(new) > FILE_BYTES_MAX - ROOM_BYTES:
            raise KeptBack(id, _no_room(entry.path, len(new)))
        if redrafted is not None or (self.whole and taskfile.drops_words(was.decode(), new.decode())):
            self._keep(name, was)
        if folder.startswith(HELD):
            put = self._exchange(entry.path, new, was) or entry.stamp
            self._move(entry.path, path)
        else:
            self._move(entry.path, path)
            try:
                put = self._exchange(path, new, was) or entry.stamp
            except Raced:
                if self.disk.stamp(path) is not None:
                    raise
                # The move has let go of it, and somebody who only renames has taken it: that is for the next look.
                catalog.put(self.t, entry.replace(path=path, stamp=UNSEEN))
                return
        self._written.append(entry.replace(path=path, stamp=put))

    def _as_known(self, entry: Entry) -> bytes:
        """The text of a file, if it is as the decision took it to be."""
        if entry.problem is not None:
            raise _unreadable(entry.path, entry.problem)
        try:
            text, stamp = self.disk.read(entry.path)
        except FileNotFoundError as error:
            raise Raced(entry.path) from error
        except Unfit as error:
            raise _unreadable(entry.path, str(error)) from error
        if stamp != entry.stamp:
            raise Raced(entry.path)
        return text

    def _text(
        self, text: str | None, name: str, item: Item, claim: Claim | None, steps: list[Step], folder: str
    ) -> bytes:
        return taskfile.write(
            text,
            name,
            item,
            claim,
            steps,
            next_state=folder.partition("/")[0],
            approval=_approval(self.t.approval(item)),
            whole=self.whole,
            floor=self.t.floor() if self.whole else 0,
        ).encode()

    def _with_annotations(self, text: bytes, item: str, folder: str) -> bytes:
        by_run: dict[int, list[Annotation]] = {}
        for one in self.t.annotations(item):
            by_run.setdefault(one.token, []).append(one)
        for token, known in by_run.items():
            run = self.t.run_of(item, token)
            assert run is not None, "an annotation is of a run"
            text = taskfile.annotated(text.decode(), run, known, folder.partition("/")[0]).encode()
        return text

    def _create(self, path: str, data: bytes) -> Stamp:
        try:
            put = self.disk.create(path, data)
        except FileExistsError as error:
            raise Raced(path) from error
        self._back.append(lambda: self.disk.discard(path, data))
        return put

    def _keep(self, name: str, text: bytes) -> None:
        """A person's text, which ours is about to take the place of. Once: two clones may be at odds for long."""
        if self.disk.holds(CONFLICTS, name, text):
            return
        kept = self.disk.keep(CONFLICTS, name, text)
        self._back.append(lambda: self.disk.discard(kept, text))

    def _exchange(self, path: str, new: bytes, was: bytes) -> Stamp | None:
        """How the text was put there; None if it was there."""
        if new == was:
            return None
        put = self.disk.exchange(path, new, was)
        self._back.append(lambda: self.disk.exchange(self._stranded.get(path, path), was, new))
        return put

    def _move(self, path: str, to: str) -> None:
        if path == to:
            return
        try:
            self.disk.move(path, to)
        except FileExistsError as error:
            if to.startswith(ARCHIVE):
                raise
            if self.disk.stamp(to) is not None and not self.t.files("file_at", path=to):
                raise Raced(to) from error  # a file that has come since the last look: a late save, most likely
            raise StoreUnavailable(f"{to} is in the way of {path}; give one of them another name", path=to) from error
        self._back.append(lambda: self._move_back(to, path))

    def _move_back(self, to: str, path: str) -> None:
        self.visited[to] = path
        try:
            self.disk.move(to, path)
        except FileExistsError:
            self._stranded[path] = to


def _unreadable(path: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"{path} cannot be read: {why}; mend the file and try again", path=path)


def _no_room(path: str, size: int) -> Invalid:
    return Invalid(
        f"{path} would have {size} bytes, and no room for what a run writes into it; {FILE_BYTES_MAX - ROOM_BYTES} is"
        " the most with an annotation",
        field="links",
        bytes_max=FILE_BYTES_MAX - ROOM_BYTES,
    )


def _approval(approval: Approval | None) -> dict[str, Any] | None:
    if approval is None:
        return None
    said = {"actor": approval.actor, "at": approval.at, "comment": approval.comment}
    if approval.run is None:
        return said | {"token": None}
    return said | {"token": approval.run.token, "draft": facts.digest(approval.run.draft)}
