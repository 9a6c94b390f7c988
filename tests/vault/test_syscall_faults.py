"""System calls of the verbs on a vault fail, or are the last: no item is lost, without an owner, or there twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dibs.testing.sizes import rounds
from tests.conformance.conftest import folder
from tests.fault.tracing import missing
from tests.vault.faults import Run

__all__ = ["folder"]

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

#: Folders whose descriptors and names the filtered calls are about: Python itself opens and looks at many files.
FOLDERS = (
    *("", "Needs_Action", "In_Progress", "In_Progress/ann", "Done", "Pending_Approval", "Failed"),
    *(".dibs", ".dibs/tmp", ".dibs/displaced"),
)
KILL = "signal=KILL"
#: At every commit, the first and the last call; of those that kill, a middle one, too.
FEW, FEW_KILLS = 2, 3
#: (system call, what strace does to it, folders it is about or all, how many calls are tried in a soak, multiplied)
FAULTS = [
    ("renameat2", "error=EIO", (), 5),
    ("renameat2", "error=ENOSPC", (), 4),
    ("renameat2", KILL, (), 8),
    ("fsync", "error=EIO", (), 6),
    ("fsync", KILL, (), 6),
    ("write", "error=ENOSPC", (), 6),
    ("write", "error=EIO", (), 4),
    ("write", KILL, (), 6),
    ("mkdirat", "error=ENOSPC", (), 2),
    ("mkdirat", KILL, (), 3),
    ("openat", "error=EIO", FOLDERS, 6),
    ("openat", "error=EMFILE", FOLDERS, 4),
    ("openat", KILL, FOLDERS, 6),
    ("getdents64", "error=EIO", FOLDERS, 3),
    ("pwrite64", "error=EIO", (), 5),
    ("pwrite64", "error=ENOSPC", (), 3),
    ("pwrite64", KILL, (), 6),
    ("fdatasync", "error=EIO", (), 3),
    ("fdatasync", KILL, (), 4),
]
#: These wait for the night: the index is SQLite's, which tests/fault/test_syscall_faults.py makes fail at every commit,
#: and of each kind of call on the files one fault stays.
AT_NIGHT = (
    ("fsync", "error=EIO"),
    ("mkdirat", "error=ENOSPC"),
    ("mkdirat", KILL),
    ("openat", KILL),
    ("getdents64", "error=EIO"),
    ("pwrite64", "error=EIO"),
    ("fdatasync", "error=EIO"),
    ("fdatasync", KILL),
)
#: The same calls as others here, failing with another error number: these run in a soak.
ALIKE = (
    ("renameat2", "error=ENOSPC"),
    ("write", "error=EIO"),
    ("openat", "error=EMFILE"),
    ("pwrite64", "error=ENOSPC"),
)


def marks(fault: tuple[str, str]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.soak] * (fault in ALIKE) + [pytest.mark.nightly] * (fault in AT_NIGHT)


REHEARSED: dict[tuple[str, tuple[str, ...]], int] = {}


def chosen(total: int, count: int) -> list[int]:
    """That many of the calls 1 to `total`, evenly, the first and the last among them."""
    if count >= total:
        return list(range(1, total + 1))
    return sorted({1 + round(position * (total - 1) / (count - 1)) for position in range(count)})


def rehearsed(folder: Path, syscall: str, only: tuple[str, ...]) -> int:
    """How often the script makes this call. What is done to the call then does not matter: one rehearsal for all."""
    if (syscall, only) not in REHEARSED:
        rehearsal = Run(folder / "rehearsal", None, syscall, only=only).perform()
        assert (rehearsal.refusals, rehearsal.died) == (0, False)
        REHEARSED[syscall, only] = rehearsal.count(syscall)
        assert REHEARSED[syscall, only] > 0, f"the script never calls {syscall}"
    return REHEARSED[syscall, only]


@pytest.mark.parametrize(
    ("syscall", "what", "only", "count"),
    [pytest.param(*fault, id=f"{fault[0]}-{fault[1]}", marks=marks(fault[:2])) for fault in FAULTS],
)
def test_a_fault_leaves_every_file_available_or_owned(
    folder: Path, syscall: str, what: str, only: tuple[str, ...], count: int
) -> None:
    total = rehearsed(folder, syscall, only)
    met: Counter[str] = Counter()
    wrong = []
    for when in chosen(total, rounds(FEW_KILLS if what == KILL else FEW, count)):
        run = Run(folder / str(when), f"{syscall}:{what}:when={when}", syscall, only=only)
        try:
            run.perform()
        except AssertionError as failure:
            wrong.append(str(failure))
        met["fired"] += run.fired()
        met["died"] += run.died
        met["refused"] += run.refusals
    print(f"{syscall} {what}: {dict(met)} of {total} calls")
    assert not wrong, f"{len(wrong)} of {met['fired']}:\n" + "\n".join(line[:2500] for line in wrong[:5])
    assert met["fired"] > 0
    assert met["died"] or what != KILL, "nobody was killed"


def test_a_move_that_is_a_copy_and_a_removal_is_found_out(folder: Path) -> None:
    broken = "tests.vault.broken:copying"
    total = Run(folder / "rehearsal", None, "unlinkat", call=broken).perform().count("unlinkat")
    faults = [f"unlinkat:{KILL}:when={when}" for when in range(1, total + 1)]
    runs = [Run(folder / str(number), fault, "unlinkat", call=broken) for number, fault in enumerate(faults)]
    with pytest.raises(AssertionError, match="lies at"):
        list(map(Run.perform, runs))
