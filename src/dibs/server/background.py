"""One background server for each board, user and machine, for `dibs open`: finds it, starts it, stops it.

A server holds the lock of a file in the user's state folder, its record, as long as it runs. Of two processes that want
to start one, one gets the lock, and passes it on to the server; the kernel frees the lock of a dead one. Other commands
do not read the record, and the server leaves no key for them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import sha256

from dibs import api_keys, config, location
from dibs.board import Board, open_board
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.server import STOP_SECONDS
from dibs.system import bounded_read, locks, owner
from dibs.value import Value

FOLDER = "background"
RECORD_BYTES_MAX = 64_000
#: When a server ends that has no stream and gets no request.
IDLE_SECONDS = 600.0
START_SECONDS = 30.0
#: How long an end may take: the requests that run, and the process itself.
END_SECONDS = STOP_SECONDS + 10.0
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.05
NETWORK_NAMESPACE = "/proc/self/ns/net"


class Running(Value):
    """`url` is the server's address, `pages` that of its dashboard, under a host name of its own."""

    url: str
    pages: str
    pid: int


def ensure(url: str, code: str, idle_seconds: float = IDLE_SECONDS) -> Running:
    """The server of the board at this absolute URL. It is started unless it runs, and answers a login code of the
    board."""
    path = record_path(url)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        lock = locks.take(path)
        if lock is not None:
            try:
                return _start(lock, path, url, idle_seconds)
            finally:
                os.close(lock)
        found = _read(path)
        if found is not None and _answers(found, code):
            return found
        time.sleep(POLL_SECONDS)
    raise StoreUnavailable("the background server of this board does not answer; end it with: dibs open --stop")


def stop(url: str) -> bool:
    """End the server of the board at this absolute URL, and sign out the browsers that a killed one has left; return
    whether there was one."""
    was_running = _end(record_path(url))
    with open_board(location.look(".", url)) as board:
        sign_out_browsers(board, browser_mark())
    return was_running


def browser_mark() -> str:
    """What the ids of keys have in common whose browsers signed in at this user's background server on this machine.
    It stays the same after a restart of the machine. With a letter that no random id has."""
    return "x" + sha256(repr((config.state_folder(), os.uname().nodename)).encode()).hexdigest()[:8]


def sign_out_browsers(board: Board, mark: str) -> None:
    """Revoke the keys of browsers that signed in at background servers with this mark. A page that is still open sends
    its cookie to whoever listens at the port after the end of the server."""
    try:
        keys = board.keys()
        for key in keys:
            if key.revoked_at is None and key.id.startswith(f"{api_keys.BROWSER_ID}{mark}"):
                board.revoke_key(key.id)
    except DibsError:
        pass  # the board is away, or another process revokes them


def _end(path: str) -> bool:
    try:
        # Its lock is that of the server, also after the server has removed the file.
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        end, found = time.monotonic() + END_SECONDS, None
        while time.monotonic() < end:
            if locks.try_lock(file):
                remove(file, path)
                return found is not None
            if found is None:
                found = _read(path)
                if found is not None:
                    with suppress(ProcessLookupError):
                        os.kill(found.pid, signal.SIGTERM)
            time.sleep(POLL_SECONDS)
    finally:
        os.close(file)
    process = "" if found is None else f"; its process is {found.pid}"
    raise StoreUnavailable(f"the background server of this board does not end{process}")


def publish(lock: int, running: Running) -> None:
    """Write the record of a server that has begun to listen."""
    os.pwrite(lock, json.dumps(running.as_dict()).encode(), 0)


def remove(lock: int, path: str) -> None:
    """Remove the record, whose lock this process holds."""
    if locks.is_at(lock, path):
        os.unlink(path)


def board_file(url: str) -> tuple[str, int] | None:
    """The path of the board's file, and its number, because a board that was made anew is another one; None: the board
    has no file."""
    file = location.file_of(url)
    return None if file is None else (os.path.realpath(file), os.stat(file).st_ino)


def record_path(url: str) -> str:
    """A path for each board and for each machine or container: they may share a home folder, and each has a loopback
    of its own."""
    machine = owner.namespace() or os.uname().nodename
    network = os.stat(NETWORK_NAMESPACE).st_ino if os.path.exists(NETWORK_NAMESPACE) else None
    board = board_file(url) or location.without_password(url)
    name = sha256(repr((board, machine, network)).encode()).hexdigest()[:16]
    return os.path.join(config.state_folder(), FOLDER, f"{name}.json")


def _start(lock: int, path: str, url: str, idle_seconds: float) -> Running:
    os.ftruncate(lock, 0)
    # -P: the current folder is not searched for modules. The URL is in the environment, because it may have a password
    # and other users can read the arguments of a process.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dibs.server.background_process", str(lock), path, str(idle_seconds)],
        env={**os.environ, config.ENV_STORE: url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        ready, _, _ = select.select([output], [], [], START_SECONDS)
        if not ready:
            process.kill()
        # The server closes its output when it has begun to listen, or has failed.
        said = output.read().decode(errors="replace").strip()
    found = _read(path)
    if found is None:
        reason = said.splitlines()[-1] if said else "it did not begin to listen"
        raise StoreUnusable(f"the background server could not be started: {reason}")
    return found


def _read(path: str) -> Running | None:
    try:
        return Running(**json.loads(bounded_read.read(path, RECORD_BYTES_MAX)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _answers(server: Running, code: str) -> bool:
    """Also a use of the server, so that it does not end before a browser comes. At this address a code is not used
    up."""
    from http.client import HTTPConnection, HTTPException

    host, _, port = server.url.rpartition("/")[2].rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", f"/login?code={code}")
        return connection.getresponse().status == 303
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
