"""Forks: which objects were inherited from the parent process, and what each of them does about that.

Only the forking thread lives on in the child. A lock that another thread held stays locked there, and sockets, locked
files and inotify queues are still the parent's.
"""

from __future__ import annotations

import os
from _weakref import ref  # the interpreter has imported this already; `weakref` costs a millisecond

_tracked: list[ref[ForkAware]] = []


class ForkAware:
    """Base of the objects that must not be used in a forked child as they are. `track_forks` registers one, weakly."""

    #: Whether this process inherited the object by a fork. An object that has reset itself clears it.
    is_inherited = False

    def track_forks(self) -> None:
        _tracked.append(ref(self, _tracked.remove))

    def before_fork(self) -> None:
        """Called in the parent, by the thread that forks."""

    def after_fork_in_parent(self) -> None:
        pass

    def after_fork_in_child(self) -> None:
        """Called once `is_inherited` is set."""


def _live() -> list[ForkAware]:
    return [found for reference in list(_tracked) if (found := reference()) is not None]


def _before() -> None:
    for one in _live():
        one.before_fork()


def _in_parent() -> None:
    for one in _live():
        one.after_fork_in_parent()


def _in_child() -> None:
    for one in _live():
        one.is_inherited = True
        one.after_fork_in_child()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
