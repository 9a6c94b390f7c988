"""Finds the item of each file: the item that the file names, that its path had before, or that it had under another
name.

Renamed and duplicated files keep the lines that dibs wrote. If an item's file is missing, a file with the item's lines
is that file, under whatever name. A second file with these lines is another item, whatever claims and tokens its text
has.
"""

from __future__ import annotations

from dibs import randomness
from dibs.store.sql import rows
from dibs.store.vault import layout
from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.index import UNSEEN, Entry
from dibs.store.vault.layout import name_of
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, ROOM_BYTES
from dibs.store.vault.taskfile import task_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.safe_fs import Stamp
    from dibs.store.vault.taskfile.task_text import Task


class TaskFiles:
    """The files of one scan, of which the changed ones are read. `reject` is called with the path of a file that
    cannot be read, and the reason."""

    def __init__(
        self,
        t: VaultTransaction,
        disk: Disk,
        seen: Mapping[str, Stamp],
        known: Mapping[str, Entry],
        reject: Callable[[str, str], None],
    ) -> None:
        self.t, self.disk, self.seen, self.known, self._reject = t, disk, seen, known, reject
        #: The changed files as they were read.
        self.tasks: dict[str, Task] = {}
        self.stamps: dict[str, Stamp] = {}
        #: Files that are duplicates of other items' files.
        self.copies: set[str] = set()
        self._moved = _moved_files(seen, known)

    def by_item(self) -> dict[str, list[str]]:
        """The paths of all files by item. An unchanged file is not read again."""
        paths: dict[str, list[str]] = {}
        for path, stamp in self.seen.items():
            entry = self.known.get(path)
            item = None if entry is None else entry.item
            if entry is None or item is None or entry.stamp != stamp or entry.must_be_read:
                task = self.read(path, self._moved.get(path) if entry is None else item)
                item = item if task is None else task.id
            if item is not None:
                paths.setdefault(item, []).append(path)
        self._find_renamed(paths)
        return paths

    def main_file(self, paths: list[str], entry: Entry | None) -> str:
        """Of several files that name one item, the known one; unless another has a higher token, because the item was
        claimed elsewhere while this one was renamed."""
        latest = max(paths, key=self._progress)
        if entry is None or entry.item is None:
            return latest
        known = entry.path if entry.path in paths else next((path for path in paths if self._moved.get(path)), None)
        if known is None:
            return latest
        token = max(self._token(entry.item), self._progress(known)[0])
        return known if self._progress(latest)[0] <= token else latest

    def is_another_item(self, path: str, main: str) -> bool:
        """Whether a second file that names the same item is another item: a duplicate, or a new file under a name that
        another file had before."""
        if name_of(path) == name_of(main):
            return False
        task = self.tasks.get(path) or self.read(path, None)
        if task is None:
            return False
        if task.facts is not None and task.facts.id == task.id:
            return task.facts.token <= max(self._token(task.id), self._progress(main)[0])
        return task.facts is None and not task.has_id_line

    def give_own_id(self, path: str, paths: Mapping[str, list[str]]) -> None:
        """Make another item of a file: under the id of its file name, or under a new id if that is taken."""
        name, task = name_of(path), self.tasks[path]
        id = task_text.id_of(name)
        if id in paths or self.t.one("item_by_id", id=id) is not None:
            id = randomness.id_from_title(name.removesuffix(layout.SUFFIX))
        if task.facts is not None:
            self.copies.add(path)
        self.tasks[path] = _as_copy(task, id).replace(has_id_line=False)

    def names_its_item(self, path: str) -> bool:
        """Whether a rebuilt index would find the same item in this file."""
        task = self.tasks[path]
        return path not in self.copies and (task.has_id_line or task_text.id_of(task.name) == task.id)

    def dependencies_first(self, paths: list[str]) -> list[str]:
        """The oldest first, but each after its dependencies. The first of a cycle is refused for it."""
        paths.sort(key=lambda path: (self._created_at(path), path))
        path_of = {self.tasks[path].id: path for path in paths}
        found: dict[str, None] = {}
        begun: set[str] = set()
        for first in paths:
            stack = [first]
            while stack:
                path = stack[-1]
                needed = [path_of[id] for id in self.tasks[path].content["depends_on"] if id in path_of]
                ahead = [one for one in needed if one not in begun] if path not in begun else []
                begun.add(path)
                stack += reversed(ahead)
                if not ahead:
                    found.setdefault(stack.pop())
        return list(found)

    def _created_at(self, path: str) -> int:
        facts = self.tasks[path].facts
        return facts.created_at if facts is not None else self.seen[path][2] // 1_000_000

    def read(self, path: str, item: str | None) -> Task | None:
        """Read a file; `item` is the item that it is known to belong to."""
        try:
            data, stamp = self.disk.read(path)
            if item is None and not data.strip():
                # A program has created the file and is about to write it.
                self.t.put_entry(Entry(path=path, item=None, stamp=stamp))
                return None
            if len(data) > FILE_BYTES_MAX - ROOM_BYTES:
                raise Unfit(f"it has {len(data)} bytes, which leaves no room for what a run writes into it")
            task = task_text.read(data.decode(), name_of(path), item)
        except FileNotFoundError as error:
            raise Raced(path) from error  # it moved on since the scan
        except UnicodeDecodeError:
            self._reject(path, "it is not UTF-8 text")
        except (Unfit, Raced, task_text.Unreadable) as error:
            self._reject(path, str(error))
        except OSError as error:
            self._reject(path, f"it cannot be read: {error.strerror}")
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            # An error in a hostile text must not affect other files.
            self._reject(path, f"it cannot be parsed: {error}")
        else:
            self.tasks[path], self.stamps[path] = task, stamp
            return task
        return None

    def _find_renamed(self, paths: dict[str, list[str]]) -> None:
        """Assign files whose lines are of another item than their names: to that item, if it has no file; otherwise
        they are copies."""
        for path in sorted(self.tasks, key=self._progress, reverse=True):
            task, entry = self.tasks[path], self.known.get(path)
            if task.facts is None or task.facts.id in (None, task.id) or task.has_id_line:
                continue
            if entry is not None and entry.item is not None:
                continue
            item = task.facts.id
            assert item is not None
            if item not in paths and self._token(item) <= task.facts.token:
                paths[task.id].remove(path)
                if not paths[task.id]:
                    del paths[task.id]
                paths[item] = [path]
                self.tasks[path] = _as_item(task, item)
            else:
                self.copies.add(path)
                self.tasks[path] = _as_copy(task, task.id)

    def _progress(self, path: str) -> tuple[int, bool]:
        """The token in a file, and whether the file is held."""
        task = self.tasks.get(path)
        facts = None if task is None else task.facts
        return (-1 if facts is None else facts.token, path.startswith(layout.HELD))

    def _token(self, item: str) -> int:
        row = self.t.one("item_by_id", id=item)
        return -1 if row is None else rows.item(row).token


def _moved_files(seen: Mapping[str, Stamp], known: Mapping[str, Entry]) -> dict[str, str]:
    """Files that were moved, recognized by their stamps: new path to item."""
    missing = {
        entry.stamp.content: entry.item
        for entry in known.values()
        if entry.item is not None and entry.path not in seen and entry.stamp != UNSEEN
    }
    if not missing:
        return {}
    found = ((path, missing.get(stamp.content)) for path, stamp in seen.items() if path not in known)
    return {path: item for path, item in found if item is not None}


def _as_item(task: Task, item: str) -> Task:
    facts = task.facts
    if facts is not None and facts.claim is not None:
        facts = facts.replace(claim=facts.claim.replace(item=item))
    return task.replace(id=item, facts=facts, runs=tuple(run.replace(item=item) for run in task.runs))


def _as_copy(task: Task, item: str) -> Task:
    """A duplicate keeps the text, not the history. The tokens in it are spent."""
    facts = task.facts
    if facts is not None:
        nothing = {"attempts": 0, "strikes": 0, "failures": 0, "needs_approval": False, "approved": False}
        facts = facts.replace(id=item, approval=None, claim=None, **nothing)
    return task.replace(id=item, facts=facts, runs=())
