"""Accepts connections within the limit of open files: every socket counts from the moment that it is accepted.

Who connects and sends nothing costs a socket and a timer: a connection with its buffers, under TLS a quarter of a
megabyte, is made once there is a first byte. If there is no room, the socket that was silent the longest is closed; if
none is silent, the kernel keeps new ones in its queue. A TLS handshake has a time-out, and only so many go on at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from dibs.errors import StoreUnavailable
from dibs.server.ops.open_files import FileLimit

#: More at once would hold up the event loop.
ACCEPTED_AT_ONCE = 64
#: How long a socket may be silent, and how long at least if others need its place. Clients speak first, so that their
#: first byte usually comes with the connection.
SILENT_SECONDS, SILENT_SECONDS_MIN = 10.0, 0.05
HANDSHAKE_SECONDS, HANDSHAKE_SECONDS_MIN = 10.0, 1.0
#: How many handshakes go on at once: each has buffers of a quarter of a megabyte.
HANDSHAKES_MAX = 128
#: How often it is looked whether there is room again.
RETRY_SECONDS = 0.005
#: How long there must have been room before the log says so, so that the log cannot be filled.
QUIET_SECONDS = 10.0
#: When a client whose connection was refused may try again.
RETRY_AFTER_SECONDS = 5
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Room:
    """How many connections are open, in all and of each key; whether one more has room. Used in the event loop only."""

    def __init__(self, limit: FileLimit) -> None:
        self.limit = limit
        self.open = 0
        self._of_keys: Counter[str] = Counter()
        self._is_told = False

    @property
    def is_full(self) -> bool:
        return self.open > self.limit.connections_max

    @property
    def has_place(self) -> bool:
        """Beyond a full room there are a few places more: for refusals, and for keys with less than their share."""
        return self.open < self.limit.connections_max + self.limit.refused_max

    def leave(self, key: str | None) -> None:
        self.open -= 1
        self.move(key, None)

    def move(self, before: str | None, after: str | None) -> None:
        """A connection that had its last request from one key has one from another."""
        if after is not None:
            self._of_keys[after] += 1
        if before is not None:
            self._of_keys[before] -= 1
            if not self._of_keys[before]:
                del self._of_keys[before]

    def require_share(self, key: str) -> None:
        """Of a full room each key has half."""
        share = self.limit.connections_max // 2
        if self.is_full and self._of_keys[key] > share:
            self.tell_full()
            text = f"the server has too many connections, and this key more than its {share}"
            raise StoreUnavailable(text, limit=share, retry_after_seconds=RETRY_AFTER_SECONDS)

    def tell_full(self) -> None:
        """In the log, once, until there has been room for a while."""
        if not self._is_told:
            self._is_told = True
            text = "all %d connections that the limit of open files allows are in use; more are refused or wait"
            logging.warning(text, self.limit.connections_max)
            asyncio.get_running_loop().call_later(QUIET_SECONDS, self._tell_room)

    def _tell_room(self) -> None:
        if self.is_full:
            asyncio.get_running_loop().call_later(QUIET_SECONDS, self._tell_room)
        else:
            self._is_told = False
            logging.warning("there is room for new connections again")


class Acceptor:
    """Of one listener. `make` makes the protocol of a connection, which leaves the room when the connection is lost."""

    def __init__(
        self,
        listener: socket.socket,
        room: Room,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener, self._room, self._make, self._context = listener, room, make, context
        #: Sockets without a first byte, with the instant at which each was accepted; the longest silent first.
        self._silent: dict[socket.socket, float] = {}
        #: Those with one, for which there is no handshake to be had yet.
        self._ready: dict[socket.socket, None] = {}
        #: Connections that are being made, with the instant at which that began.
        self._starting: dict[asyncio.Task[None], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = self._is_closed = False

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept_some)

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()
        for waiting in (self._silent, self._ready):
            while waiting:
                self._drop(next(iter(waiting)))

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            needs_room = self._room.open >= self._room.limit.connections_max
            if needs_room and not self._make_room() and not self._room.has_place:
                self._pause()
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                self._room.tell_full()
                self._pause()
                return
            accepted.setblocking(False)
            self._room.open += 1
            self._silent[accepted] = self._loop.time()
            if _has_spoken(accepted):
                self._begin(accepted)
            else:
                # By its number: the loop would otherwise describe the socket, with its addresses, in errors of its own.
                self._loop.add_reader(accepted.fileno(), self._end_silence, accepted)
                self._look_later(SILENT_SECONDS)

    def _end_silence(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted.fileno())
        self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        """There is a first byte, or the other side has closed."""
        del self._silent[accepted]
        self._ready[accepted] = None
        self._start_ready()

    def _start_ready(self) -> None:
        while self._ready and (self._context is None or len(self._starting) < HANDSHAKES_MAX):
            accepted = next(iter(self._ready))
            del self._ready[accepted]
            task = self._loop.create_task(self._connect(accepted))
            self._starting[task] = self._loop.time()
            task.add_done_callback(self._on_started)
        if self._ready:
            self._look_later(HANDSHAKE_SECONDS_MIN)

    async def _connect(self, accepted: socket.socket) -> None:
        protocol = self._make()
        seconds = None if self._context is None else HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except OSError:
            pass  # the handshake failed, or took too long: asyncio has closed the socket
        finally:
            if getattr(protocol, "transport", None) is None:
                self._room.leave(None)

    def _on_started(self, task: asyncio.Task[None]) -> None:
        del self._starting[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            logging.error("a connection could not be made", exc_info=error)
        self._start_ready()

    def _make_room(self) -> bool:
        """Close the socket that was silent the longest, unless it has just come."""
        self._room.tell_full()
        for accepted, since in self._silent.items():
            if since > self._loop.time() - SILENT_SECONDS_MIN:
                return False
            self._drop(accepted)
            return True
        return False

    def _drop(self, accepted: socket.socket) -> None:
        """Of a socket that is no connection yet."""
        self._loop.remove_reader(accepted.fileno())
        self._silent.pop(accepted, None)
        self._ready.pop(accepted, None)
        accepted.close()
        self._room.leave(None)

    def _pause(self) -> None:
        """The kernel would report new connections again and again."""
        if not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._listener)
            self._loop.call_later(RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        self._is_paused = False
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept_some)

    def _look_later(self, seconds: float) -> None:
        if self._timer is None or self._timer.when() > self._loop.time() + seconds:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Close who was silent for too long, and end handshakes that others wait for."""
        self._timer = None
        now = self._loop.time()
        for accepted in [one for one, since in self._silent.items() if since <= now - SILENT_SECONDS]:
            self._drop(accepted)
        if self._ready:
            for task in [one for one, since in self._starting.items() if since <= now - HANDSHAKE_SECONDS_MIN]:
                task.cancel()
            self._look_later(HANDSHAKE_SECONDS_MIN)
        if self._silent:
            self._look_later(max(0.0, next(iter(self._silent.values())) + SILENT_SECONDS - now))


def _has_spoken(accepted: socket.socket) -> bool:
    """Whether there is a first byte, or the other side has closed."""
    try:
        accepted.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        pass  # the connection that is made of it will find out
    return True
