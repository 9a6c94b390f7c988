"""Owner processes: naming one so that it can be told from every other, and telling whether it is dead.

A pid alone proves nothing: it is reused, and another namespace counts its own. So an owner is (boot id, pid namespace,
pid, start time), and only an observer in the same namespace of the same boot judges it.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.model import Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Nobody tells of a death, so whoever waits looks this often.
LOOK_SECONDS = 5.0


def of(pid: int) -> Owner:
    """The running process with this pid, in this process's namespace."""
    here = namespace()
    start = _start_time(pid)
    if here is None:
        raise Invalid("owner processes can be recorded on Linux only", field="owner_pid")
    if start is None or start < 0:
        raise Invalid(f"there is no process {pid}", field="owner_pid")
    return Owner(boot_id=here[0], pid_namespace=here[1], pid=pid, start_time=start)


def namespace() -> tuple[str, int] | None:
    """(boot id, pid namespace) of this process; None where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip(), os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def dead(owned: Callable[[str, int], Iterable[tuple[str, Owner]]]) -> list[tuple[str, Owner]]:
    """Of the sessions that `owned` finds in this process's namespace, those whose owner process is proven dead."""
    here = namespace()
    return [] if here is None else find_dead(owned(*here))


def find_dead(owners: Iterable[tuple[str, Owner]]) -> list[tuple[str, Owner]]:
    """Of these sessions and owners, those whose owner is proven dead; one that cannot be judged from here is not."""
    here = namespace()
    return [
        (session, owner)
        for session, owner in owners
        if here == (owner.boot_id, owner.pid_namespace) and _is_dead(owner)
    ]


def _is_dead(owner: Owner) -> bool:
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, and somebody else's
    except OverflowError:
        return False  # no pid at all, from a board that somebody filled by hand
    # None here means that /proc hides other people's processes: no proof of anything.
    return _start_time(owner.pid) not in (None, owner.start_time)


def _start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; -1 if it only waits to be reaped, None if /proc does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything, also parentheses.
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return -1 if state in (b"Z", b"X") else int(fields[18])
