"""Whether the files have to be looked at before something is decided: all of them, those that were touched, or none.

A process that stays is told by the kernel what was touched. A command is not, but it is over soon: one look counts for
all of it. What is done to a file after that look is as if it were done later; if it is the very file that is written,
that is found out in writing it.
"""

from __future__ import annotations

import time

from dibs.store.vault import file_index
from dibs.store.vault.displaced_texts import FOLDER as LATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.vault.disk import Disk, Stamp
    from dibs.store.vault.inotify_watch import Eyes
    from dibs.store.vault.transaction import VaultTransaction

#: For so long a command that has looked at all files need not do so again.
ONE_LOOK_SECONDS = 0.25


class Looking:
    def __init__(self, disk: Disk, *, lean: bool) -> None:
        self._disk = disk
        self._is_brief = lean
        self._is_watchful = not lean
        #: Files that may not be as the index knows them; None: any.
        self._doubtful: set[str] | None = None
        self._eyes: Eyes | None = None
        #: When all files were last looked at, whatever the kernel has told since.
        self._scanned_at = 0.0
        #: When a command has looked at all files, and found or made them as the index knows them.
        self._looked_at: float | None = None

    def close(self) -> None:
        if self._eyes is not None:
            self._eyes.close()

    def is_over(self) -> bool:
        """Whether a command has looked, a moment ago."""
        if not self._is_brief or self._looked_at is None:
            return False
        return time.monotonic() - self._looked_at < ONE_LOOK_SECONDS

    def begin_anew(self) -> None:
        """Something is not as it was found."""
        self._looked_at = None

    def know_nothing(self) -> None:
        """The index is another one: that no file was touched since says nothing."""
        self._looked_at = self._doubtful = None

    def stay(self) -> None:
        """It is no short command after all: it waits for what others do."""
        self._is_brief = False

    def may_differ(self, t: VaultTransaction) -> bool:
        """Whether there may be anything to adopt, by a look without the lock."""
        if not self.is_needed(t):
            return False
        if differs(t, self._disk.glance()[0]) if not self._is_brief else not self._is_as_marked(t):
            return True
        self.all_is_known()
        return False

    def all_is_known(self) -> None:
        """All files are as the index knows them. What changes from here on is told."""
        self._looked_at = time.monotonic()
        if self._eyes is not None:
            self._doubtful = set()

    def is_needed(self, t: VaultTransaction) -> bool:
        """Whether all files are to be looked at: not, if those that were touched are as the index knows them."""
        told = self._told()
        if told is None or self._doubtful is None:
            self._doubtful = None
            return True
        self._doubtful |= told
        known = {path: tuple(row[0]) for path in self._doubtful if (row := t.files("stamp", path=path))}
        seen = {path: stamp for path in self._doubtful if (stamp := self._disk.stamp(path)) is not None}
        if known != seen or t.files("any_gone")[0][0]:
            return True
        self._doubtful = set()
        return False

    def _is_as_marked(self, t: VaultTransaction) -> bool:
        """Whether all files are as the index knows them, which is cheaper to tell than how they are."""
        return not t.files("any_gone")[0][0] and bool(self._disk.glimpse() == t.files("mark")[0][0])

    def _told(self) -> set[str] | None:
        """What the kernel tells of, for a process that stays."""
        if not self._is_watchful:
            return None
        from dibs.store.vault import inotify_watch

        if self._eyes is None:
            self._eyes = self._disk.eyes()
            self._scanned_at = time.monotonic()
        told = self._eyes.look()
        if time.monotonic() - self._scanned_at >= inotify_watch.SCAN_SECONDS:
            self._scanned_at = time.monotonic()
            return None
        return None if told is None else told - {LATE}


def differs(t: VaultTransaction, seen: dict[str, Stamp]) -> bool:
    """Whether there is anything to adopt."""
    return file_index.stamps(t.files("stamps")) != seen or bool(t.files("any_gone")[0][0])
