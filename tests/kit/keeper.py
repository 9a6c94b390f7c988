"""A place for servers of a test: a folder, and processes that end with its owner, however the owner ends.

The owner holds a lock on the folder's `owner` file. Beside each process stands a keeper, `python -m
tests.kit.keeper`, that waits for that lock: the kernel lets go of it when the owner is gone, killed or not, and then
the keeper ends its process and removes the folder. A folder is removed only if it bears the mark that was written when
it was made, which names that very folder.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEMORY = "/dev/shm"
MARK = "dibs-made-this"
#: How long a process may take to end when it is told to, before it is killed.
END_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 30.0
POLL_SECONDS = 0.01


class Place:
    """A folder of a test run. Its owner closes it; with `Place.of` others put processes there, too."""

    def __init__(self, folder: str, locks: tuple[int, int] | None) -> None:
        self.folder = folder
        self._locks = locks

    @classmethod
    def new(cls, *, on_disk: bool = False) -> Place:
        """In memory if the machine has such a place, unless what is written must be as on a disk."""
        folder = tempfile.mkdtemp(prefix="dibs-", dir=_reachable_folder(on_disk))
        os.chmod(folder, 0o755)
        with open(_path(folder, MARK), "x", encoding="utf-8") as file:
            file.write(_mark(folder))
        owner, kept = (os.open(_path(folder, name), os.O_RDWR | os.O_CREAT, 0o600) for name in ("owner", "kept"))
        fcntl.flock(owner, fcntl.LOCK_EX)
        return cls(folder, (owner, kept))

    @classmethod
    def of(cls, folder: str) -> Place:
        """A place that somebody else owns."""
        return cls(folder, None)

    def subfolder(self, name: str) -> str:
        """A new folder in it, of the user that servers run as."""
        made = tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)
        if os.geteuid() == 0:
            user = _unprivileged()
            os.chown(made, user.pw_uid, user.pw_gid)
        return made

    def run(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        """Start a server here. What is returned is its keeper, which ends when the server has."""
        with open(log, "ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", __name__, self.folder, *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                # An interrupt at the terminal is for the tests.
                start_new_session=True,
            )

    def close(self) -> None:
        """End what still runs here and remove the folder."""
        if self._locks is None:
            return
        owner, kept = self._locks
        self._locks = None
        os.close(owner)
        _await_keepers(kept)
        os.close(kept)
        _remove(self.folder)


def as_server_user() -> dict[str, Any]:
    """What makes `subprocess` run a server: not as root, which servers refuse, and without this process's settings."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if os.geteuid() != 0:
        return {"env": environment, "cwd": "/"}
    user = _unprivileged()
    return {"env": environment, "cwd": "/", "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def open_to_all(path: str) -> bool:
    """Whether any user can come to this path."""
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


def main() -> None:
    """Run a command until it ends or the owner of the folder is gone."""
    folder, *command = sys.argv[1:]
    kept = os.open(_path(folder, "kept"), os.O_RDWR)
    fcntl.flock(kept, fcntl.LOCK_SH)
    child = subprocess.Popen(command, start_new_session=True, **as_server_user())
    ended, alone = threading.Event(), threading.Event()
    watching = threading.Thread(target=_end_with_owner, args=(folder, child, ended, alone), daemon=True)
    watching.start()
    status = child.wait()
    ended.set()
    if alone.is_set():
        _remove(folder)
    sys.exit(status if status >= 0 else 128 - status)


def _end_with_owner(
    folder: str, child: subprocess.Popen[bytes], ended: threading.Event, alone: threading.Event
) -> None:
    fcntl.flock(os.open(_path(folder, "owner"), os.O_RDWR), fcntl.LOCK_SH)
    alone.set()
    child.send_signal(signal.SIGQUIT)
    if not ended.wait(END_SECONDS_MAX):
        child.kill()


def _await_keepers(kept: int) -> None:
    end = time.monotonic() + CLOSE_SECONDS_MAX
    while time.monotonic() < end:
        try:
            return fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)  # bounded polling: waiting for a lock has no time limit
    raise AssertionError(f"servers of this test did not end within {CLOSE_SECONDS_MAX:g} s")


def _reachable_folder(on_disk: bool) -> str:
    memory = [] if on_disk or not os.access(MEMORY, os.W_OK) else [MEMORY]
    places = [*memory, os.path.realpath(tempfile.gettempdir()), "/var/tmp", "/tmp"]
    return next(place for place in places if os.geteuid() != 0 or open_to_all(place))


def _unprivileged() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, if it was made by `Place.new` and by nobody else."""
    try:
        with open(_path(folder, MARK), encoding="utf-8") as file:
            is_ours = file.read() == _mark(folder) and os.fstat(file.fileno()).st_uid == os.geteuid()
    except OSError:
        is_ours = False
    if is_ours:
        shutil.rmtree(folder, ignore_errors=True)


def _mark(folder: str) -> str:
    """What only the folder itself can say: a copy of it, or one of another name, is another folder."""
    assert os.path.isabs(folder)
    found = os.lstat(folder)
    return f"made by {__package__}.keeper: {folder} {found.st_dev}:{found.st_ino}\n"


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, name)


if __name__ == "__main__":
    main()
