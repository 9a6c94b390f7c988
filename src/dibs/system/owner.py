"""Owner processes: a unique name for each, and a check whether one is dead.

A pid proves nothing: pids are reused, and each pid namespace has its own. So an owner is (boot id, pid namespace, pid,
start time), and only a process in the same namespace of the same boot judges whether it is dead.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.model import Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The states of a process that has exited and that nobody has reaped.
_DEAD = (b"Z", b"X")
#: More than the line about a process ever has.
STAT_BYTES_MAX = 4096


def of(pid: int) -> Owner:
    """The running process with this pid in this namespace."""
    here = namespace()
    start = _start_time(pid)
    if here is None:
        raise Invalid("owner processes can be recorded only on Linux", field="owner_pid")
    if start is None or start < 0:
        raise Invalid(f"there is no process {pid}", field="owner_pid")
    return Owner(boot_id=here[0], pid_namespace=here[1], pid=pid, start_time=start)


def namespace() -> tuple[str, int] | None:
    """(boot id, pid namespace) of this process; None where the system does not say."""
    boot = boot_id()
    try:
        return None if boot is None else (boot, os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return None


def boot_id() -> str | None:
    """Another one after each start of the machine; None where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def dead(owned: Callable[[str, int], Iterable[tuple[str, Owner]]]) -> list[tuple[str, Owner]]:
    """Of the sessions that `owned` finds in this process's namespace, those whose owner process is proven dead."""
    here = namespace()
    return [] if here is None else find_dead(owned(*here))


def find_dead(owners: Iterable[tuple[str, Owner]]) -> list[tuple[str, Owner]]:
    """Of these sessions and owners, those whose owner is proven dead. Owners of other namespaces are not judged."""
    here = namespace()
    return [
        (session, owner)
        for session, owner in owners
        if here == (owner.boot_id, owner.pid_namespace) and _is_dead(owner)
    ]


def is_group_alive(leader: Owner) -> bool:
    """Whether the process group that began with this process has a live process. A group of another machine, boot or
    namespace counts as gone."""
    if namespace() != (leader.boot_id, leader.pid_namespace):
        return False
    # A number is not reused while its group has a process.
    if _start_time(leader.pid) not in (None, -1, leader.start_time):
        return False
    group = str(leader.pid).encode()
    found = (_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return any(stat is not None and stat[2] == group and stat[0] not in _DEAD for stat in found)


def _is_dead(owner: Owner) -> bool:
    started = _start_time(owner.pid)
    if started is not None:
        return started != owner.start_time
    # There is no such process, or /proc hides the processes of other users, which proves nothing.
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, and another user's
    except OverflowError:
        pass  # no possible pid: the row was written by hand
    return False


def _start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; -1 for a zombie, None if /proc does not say."""
    stat = _stat(pid)
    if stat is None:
        return None
    return -1 if stat[0] in _DEAD else int(stat[19])


def _stat(pid: int) -> list[bytes] | None:
    """The state of the process, its parent, its process group and the fields after them; None if /proc does not say."""
    try:
        # Not `open`, which takes three times as long: a read of a board may ask for a thousand processes.
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        stat = os.read(file, STAT_BYTES_MAX)
    except OSError:
        return None  # it ended in between
    finally:
        os.close(file)
    # The command's name is in parentheses and may itself contain parentheses.
    return stat[stat.rindex(b")") + 2 :].split(None, 20)
