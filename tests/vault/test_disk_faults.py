"""Each system call of a file's way through a vault fails, or is the last: the file is there once, old or new."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import select
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.store.vault.disk import Disk
from dibs.system import renaming
from dibs.testing import sizes
from tests.conformance.conftest import folder
from tests.fault.tracing import missing
from tests.kit.soak import nightly
from tests.kit.waiting import PATIENCE_SECONDS

__all__ = ["folder"]
pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

X, MINE = "Needs_Action/x.md", "In_Progress/ann/x.md"
DONE, REFUSED = 0, 10
#: What programs do besides working on files.
UNRELATED = {"poll", "restart_syscall", "exit_group", "brk", "mmap", "munmap", "getrandom", "futex", "rt_sigreturn"}
#: Calls that may need room on the disk.
FILLING = {"openat", "write", "fsync", "mkdirat", "renameat", "renameat2", "linkat"}
#: Calls that change what is on the disk: killed at another one, a process leaves what it leaves at the next of these.
CHANGING = FILLING | {"unlinkat", "unlink", "rmdir"}
#: On x86-64, and on those with the common numbers.
WAIT4 = {"61", "260"}
PR_SET_PTRACER = 0x59616D61


def create(disk: Disk) -> None:
    disk.create(X, b"new")
    disk.sync()


def exchange(disk: Disk) -> None:
    disk.exchange(X, b"new", b"old")
    disk.sync()


def move(disk: Disk) -> None:
    disk.move(X, MINE)
    disk.sync()


#: What is done; where the file may be afterwards, with which text, or that there may be none; and where if it is done.
DEEDS: dict[str, tuple[Callable[[Disk], None], list[dict[str, bytes]], dict[str, bytes]]] = {
    "create": (create, [{}, {X: b"new"}], {X: b"new"}),
    "exchange": (exchange, [{X: b"old"}, {X: b"new"}], {X: b"new"}),
    "move": (move, [{X: b"old"}, {MINE: b"old"}], {MINE: b"old"}),
}


class Run:
    """One deed in a process of its own, which strace holds while it is done."""

    def __init__(self, root: Path, deed: str, native: bool, fault: str | None) -> None:
        self.root, self.fault, self.deed, self.native = root, fault, deed, native
        self.log = root.with_suffix(".log")
        root.mkdir()
        if deed != "create":
            (root / X).parent.mkdir()
            (root / X).write_bytes(b"old")
        self.status = self._done()

    def calls(self) -> Counter[str]:
        named = re.findall(r"^(?:\d+ +)?(\w+)\(", self.log.read_text(errors="replace"), re.MULTILINE)
        return Counter(name for name in named if name not in UNRELATED)

    def fired(self) -> bool:
        text = self.log.read_text(errors="replace")
        return "(INJECTED)" in text or "killed by SIGKILL" in text

    def judged(self) -> str | None:
        """What is wrong with what is left; None if nothing is."""
        _, allowed, done = DEEDS[self.deed]
        disk = Disk(str(self.root), native=self.native)
        try:
            found, refused = disk.scan()
            texts = {path: disk.read(path)[0] for path in found}
            late = disk.late_saves()
        finally:
            disk.close()
        paths = [path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file()]
        outside = {str(path) for path in paths if path.parts[0] != ".dibs"}
        if texts not in ([done] if self.status == DONE else allowed):
            return f"{self.fault}: status {self.status}, left {texts}"
        if outside != set(texts) or refused or late:
            return f"{self.fault}: status {self.status}, {outside} lie about, {refused} are refused, {late} are late"
        if self.status not in (DONE, REFUSED, -9):
            return f"{self.fault}: ended with {self.status}"
        return None

    def _done(self) -> int:
        waiting, begin = os.pipe()
        hearing, ready = os.pipe()
        child = os.fork()
        if child == 0:
            self._act(waiting, ready)
        os.close(waiting)
        os.read(hearing, 1)
        os.close(hearing)
        os.close(ready)
        inject = () if self.fault is None else ("-e", f"inject={self.fault}")
        trace = "all" if self.fault is None else self.fault.partition(":")[0]
        tracer = subprocess.Popen(
            ["strace", "-qq", "-o", str(self.log), "-e", f"trace={trace}", *inject, "-p", str(child)]
        )
        try:
            self._await_tracer(child, tracer.pid)
        finally:
            os.write(begin, b"!")
            os.close(begin)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            tracer.wait(PATIENCE_SECONDS)
        return status

    def _act(self, waiting: int, ready: int) -> None:
        """In the child: no way leads out of here but the end of the process."""
        status = 1
        gc.disable()  # what it throws away makes calls, too
        try:
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
            disk = Disk(str(self.root), native=self.native)
            poll = select.poll()
            poll.register(waiting, select.POLLIN)
            # The last call before the deed that strace could count; it begins to look when this is heard.
            os.write(ready, b"!")
            poll.poll(PATIENCE_SECONDS * 1000)
            try:
                DEEDS[self.deed][0](disk)
                status = DONE
            except OSError:
                status = REFUSED
        finally:
            os._exit(status)

    def _await_tracer(self, child: int, tracer: int) -> None:
        """Until strace has the child in its hands and waits for its next call. Bounded polling: nobody tells."""
        end = time.monotonic() + PATIENCE_SECONDS
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text() or not _waits(tracer):
            assert time.monotonic() < end, "strace does not come to trace"
            time.sleep(0.001)


def _waits(tracer: int) -> bool:
    return Path(f"/proc/{tracer}/syscall").read_text().split()[0] in WAIT4


def ends_of(call: str) -> tuple[str, ...]:
    """What is done to it. A full disk is one more error, and a death between changes is one more death: in a soak."""
    if sizes.FACTOR > 1:
        return ("error=EIO", "signal=KILL", *(("error=ENOSPC",) if call in FILLING else ()))
    return ("error=EIO", *(("signal=KILL",) if call in CHANGING else ()))


@pytest.mark.parametrize("native", [True, *nightly(False)], ids=["native", "in-steps"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_failing_system_call_leaves_the_file_there_once(folder: Path, deed: str, native: bool) -> None:
    renaming._call()
    rehearsal = Run(folder / "rehearsal", deed, native, None)
    assert (rehearsal.status, rehearsal.judged()) == (DONE, None)
    faults = [
        f"{call}:{what}:when={when}"
        for call, count in rehearsal.calls().items()
        for what in ends_of(call)
        for when in range(1, count + 1)
    ]
    assert {"renameat2" if native else "linkat", "fsync", "openat"} <= rehearsal.calls().keys()
    met: Counter[str] = Counter()
    wrong = []
    for number, fault in enumerate(faults):
        run = Run(folder / str(number), deed, native, fault)
        assert run.fired(), f"{fault} never was"
        met[str(run.status)] += 1
        judgement = run.judged()
        if judgement is not None:
            wrong.append(judgement)
    print(f"{deed}: {len(faults)} faults, ended as {dict(met)}")
    assert not wrong, f"{len(wrong)} of {len(faults)}:\n" + "\n".join(wrong[:20])
    assert met[str(REFUSED)] > 0
    assert met["-9"] > 0
