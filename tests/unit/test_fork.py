"""Objects that survive a fork: the child knows that it inherited them, and the parent goes on with them."""

from __future__ import annotations

import gc
import os

from dibs.system import fork
from dibs.system.fork import ForkAware


class Noted(ForkAware):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.track_forks()

    def before_fork(self) -> None:
        self.calls.append("before")

    def after_fork_in_parent(self) -> None:
        self.calls.append("parent")

    def after_fork_in_child(self) -> None:
        self.calls.append(f"child {self.is_inherited}")


def in_child(tell: object) -> str:
    """What `tell` says in a forked child."""
    assert callable(tell)
    ends, begins = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begins, str(tell()).encode())
        os._exit(0)
    os.close(begins)
    with open(ends, encoding="utf-8") as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


def test_a_forked_child_knows_what_it_inherited_and_the_parent_goes_on() -> None:
    noted = Noted()
    assert in_child(lambda: (noted.calls, noted.is_inherited)) == "(['before', 'child True'], True)"
    assert (noted.calls, noted.is_inherited) == (["before", "parent"], False)


def test_an_object_that_has_reset_itself_is_inherited_by_its_own_child_again() -> None:
    noted = Noted()

    def grandchild() -> str:
        noted.is_inherited = False
        return in_child(lambda: noted.is_inherited)

    assert in_child(grandchild) == "True"


def test_what_is_tracked_is_not_kept_alive() -> None:
    noted = Noted()
    assert noted in fork._live()
    before = len(fork._tracked)
    del noted
    gc.collect()
    assert len(fork._tracked) < before
