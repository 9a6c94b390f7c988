"""Owner processes: dead only if proven, from the same namespace, and whoever has the pid now is not the one before."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dibs
from dibs.errors import Invalid
from dibs.system import owner


def test_a_running_process_is_not_dead() -> None:
    me = owner.of(os.getpid())
    assert (me.boot_id, me.pid_namespace) == owner.namespace()
    assert owner.find_dead([("s", me)]) == []


def test_a_process_that_ended_is_dead() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    theirs = owner.of(child.pid)
    assert owner.find_dead([("s", theirs)]) == []
    child.communicate()
    assert owner.find_dead([("s", theirs)]) == [("s", theirs)]
    with pytest.raises(Invalid, match="no process"):
        owner.of(child.pid)


def test_what_cannot_be_a_pid_is_not_proven_dead() -> None:
    """Also of a board that was filled from a file, past every check."""
    assert owner.find_dead([("s", owner.of(os.getpid()).replace(pid=2**40))]) == []


def test_a_process_that_only_waits_to_be_reaped_is_dead() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    theirs = owner.of(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.find_dead([("s", theirs)]) == [("s", theirs)]
    with pytest.raises(Invalid, match="no process"):
        owner.of(child.pid)
    child.communicate()


def test_a_stopped_process_is_not_dead() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    theirs = owner.of(child.pid)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert owner.find_dead([("s", theirs)]) == []
    child.kill()
    child.communicate()


def test_another_start_time_is_another_process() -> None:
    me = owner.of(os.getpid())
    before = me.replace(start_time=me.start_time - 1)
    assert owner.find_dead([("s", before), ("t", me)]) == [("s", before)]


def test_another_namespace_or_boot_is_never_judged() -> None:
    me = owner.of(os.getpid())
    gone = me.replace(pid=2**22 + 1)
    elsewhere = gone.replace(pid_namespace=gone.pid_namespace + 1)
    earlier = gone.replace(boot_id="another boot")
    assert owner.find_dead([("s", elsewhere), ("t", earlier)]) == []
    assert owner.find_dead([("u", gone)]) == [("u", gone)]


def test_a_process_of_any_name_is_read_right() -> None:
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') R (x) 1 2', 0, 0, 0); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    theirs = owner.of(child.pid)
    assert theirs.start_time >= owner.of(os.getpid()).start_time
    assert owner.find_dead([("s", theirs)]) == []
    child.communicate(b"\n")


def test_only_transactions_look_for_dead_owners() -> None:
    """So that a read finds what a claim finds, and no caller of a store has to."""
    package = Path(dibs.__file__).parent
    sources = ((path, path.read_text(encoding="utf-8")) for path in package.rglob("*.py"))
    looking = {str(path.relative_to(package)) for path, source in sources if re.search(r"\bowners?\.dead\(", source)}
    assert looking == {"store/sql/transaction.py"}
