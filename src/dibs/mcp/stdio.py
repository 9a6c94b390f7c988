"""`dibs mcp`: messages are lines on standard input and output.

The main thread reads, and runs every call that does not wait. A call that waits for other sessions has a thread of its
own, so that it can be cancelled. The server ends when its input is closed, or when its client, the process that started
it, is gone. Until the first call of a tool, nothing is imported that only a board needs.
"""

from __future__ import annotations

import _thread
import os
import select
import time

from dibs.mcp import messages, protocol, tools
from dibs.mcp.messages import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.mcp.local import LocalTools
    from dibs.mcp.messages import Request

READ_BYTES = 65536
#: How many calls may wait at once.
WAITS_MAX = 32
#: How often to look whether the client lives, where the system does not say so.
PARENT_LOOK_MS = 5000
#: How often to look whether there is a board now, where there was none: 3 or 4 stats for each folder above.
BOARD_LOOK_MS = 10_000
SUBSCRIPTIONS_MAX = 32
#: How often a client is told that a call still waits.
PROGRESS_SECONDS = 5.0
#: How long a client may take to read on, once it is leaving.
UNREAD_MS = 3000
#: How long the end of the server waits for a call that was cancelled.
CLOSE_SECONDS = 2.0


class Call:
    """One request that is being answered. `cancelled` ends its wait, and its answer is not sent."""

    def __init__(self, request: Request, send: Callable[[dict[str, Any]], None]) -> None:
        self.request, self._send = request, send
        self.cancelled = False
        self.ended = _thread.allocate_lock()
        self._settling, self._is_settled = _thread.allocate_lock(), False
        #: What it waits for, what the client was told of that and when, and how often.
        self.waits_for = ""
        self._reported, self._reported_at, self._reports = "", 0.0, 0

    def cancel(self) -> None:
        with self._settling:
            self.cancelled = self.cancelled or not self._is_settled

    def settle(self) -> bool:
        """Whether the call was cancelled. It cannot be from here on: what it was given is kept, and its answer sent."""
        with self._settling:
            self._is_settled = True
            return self.cancelled

    def wait_for(self, what: str) -> None:
        self.waits_for = what

    def report(self) -> None:
        """Tell the client that the call waits, if it asked for progress: when it waits for something else than before,
        and every few seconds."""
        token, now = self.request.meta.get("progressToken"), time.monotonic()
        is_due = self.waits_for != self._reported or now >= self._reported_at + PROGRESS_SECONDS
        if isinstance(token, str | int) and is_due and not self.cancelled:
            self._reports += 1
            self._reported, self._reported_at = self.waits_for, now
            self._send(messages.progress(token, self._reports, self.waits_for))


class StdioServer:
    def __init__(
        self, make_tools: Callable[[], LocalTools], has_board: Callable[[], bool], input: int, output: int
    ) -> None:
        """`has_board` looks whether there is a board; `input` and `output` are descriptors."""
        self._make_tools, self._has_board = make_tools, has_board
        #: Whether the client was last offered nothing, because there is no board; and who is told when there is one:
        #: the ids of requests to subscribe, and None for a legacy client.
        self._offers_nothing = False
        self._subscribers: list[str | int | None] = []
        self._tools: LocalTools | None = None
        self._client: str | None = None
        self._input, self._output, self._parent = input, output, os.getppid()
        self._writing = _thread.allocate_lock()
        #: The calls that wait, by the id of their request.
        self._waiting: dict[str | int, Call] = {}

    def run(self) -> None:
        try:
            for line in self._lines():
                self._receive(line)
        except BrokenPipeError:
            pass  # the client no longer reads
        finally:
            self._close()

    def _lines(self) -> Iterator[bytes | None]:
        """The lines of the input, until it or the client ends; None for a line that is too long."""
        poll, client = select.poll(), _watch_parent()
        poll.register(self._input, select.POLLIN | select.POLLHUP)
        if client is not None:
            poll.register(client, select.POLLIN)
        buffer, is_too_long = bytearray(), False
        while True:
            looks = [BOARD_LOOK_MS if self._offers_nothing else None, PARENT_LOOK_MS if client is None else None]
            ready = {descriptor for descriptor, _ in poll.poll(min(filter(None, looks), default=None))}
            self._look_for_board()
            if not ready and os.getppid() == self._parent:
                continue
            data = os.read(self._input, READ_BYTES) if self._input in ready else b""
            *lines, rest = data.split(b"\n")
            for line in lines:
                yield None if is_too_long else bytes(buffer) + line
                buffer.clear()
                is_too_long = False
            buffer += rest
            if len(buffer) > messages.MESSAGE_BYTES_MAX:
                buffer.clear()
                is_too_long = True
            if not data:
                if buffer:
                    yield bytes(buffer)
                return

    def _receive(self, line: bytes | None) -> None:
        message: object = None
        try:
            if line is None:
                raise RpcError(messages.INVALID_REQUEST, f"a message has at most {messages.MESSAGE_BYTES_MAX} bytes")
            if not line.strip():
                return
            message = messages.parse(line)
            request = messages.read(message)
            if request is None:
                return
            if request.id is None:
                self._cancel(request)
                return
            if request.method == "subscriptions/listen" and request.modern:
                protocol.require_version(request)
                self._subscribe(request.id, request.params.get("notifications"))
                return
            call = Call(request, self._send)
            if tools.blocks(request):
                self._start(call)
                return
        except RpcError as error:
            self._send(messages.failure(messages.id_of(message), error))
            return
        self._answer(call)

    def _subscribe(self, id: str | int, asked: object) -> None:
        """Acknowledge a subscription. An answer would end it, and it lasts as long as the connection."""
        if len(self._subscribers) >= SUBSCRIPTIONS_MAX:
            raise RpcError(messages.INTERNAL_ERROR, f"there are {SUBSCRIPTIONS_MAX} subscriptions already")
        wants_tools = isinstance(asked, dict) and asked.get(messages.TOOLS_CHANGED) is True
        if wants_tools:
            self._subscribers.append(id)
        self._send(messages.subscribed(id, {messages.TOOLS_CHANGED: True} if wants_tools else {}))

    def _cancel(self, notification: Request) -> None:
        id = messages.id_of({"id": notification.params.get("requestId")})
        if notification.method != "notifications/cancelled" or id is None:
            return
        if id in self._subscribers:
            self._subscribers.remove(id)
        call = self._waiting.get(id)
        if call is not None:
            call.cancel()

    def _start(self, call: Call) -> None:
        """Answer in a thread."""
        id = call.request.id
        assert id is not None
        if id in self._waiting:
            # With the id, this would look like the answer to the first request.
            self._send(messages.failure(None, RpcError(messages.INVALID_REQUEST, f"the id {id!r} is in use")))
            return
        if len(self._waiting) >= WAITS_MAX:
            raise RpcError(messages.INTERNAL_ERROR, f"{WAITS_MAX} calls wait already; cancel one, or try again later")
        self._waiting[id] = call
        call.ended.acquire()
        self._local()  # made by this thread alone
        _thread.start_new_thread(self._answer_waiting, (id, call))

    def _answer_waiting(self, id: str | int, call: Call) -> None:
        try:
            self._answer(call)
        except BrokenPipeError:
            pass  # the main thread notices it too
        finally:
            self._waiting.pop(id, None)
            call.ended.release()

    def _answer(self, call: Call) -> None:
        """Send an answer, also if a mistake in dibs prevents it; the traceback then goes to stderr."""
        request = call.request
        message = messages.failure(request.id, RpcError(messages.INTERNAL_ERROR, "internal error"))
        try:
            if request.method == "initialize":
                self._client = messages.client_name(request.params.get("clientInfo"))
            found = protocol.answer(
                request,
                lambda tool, given: self._local().call(tool, given, call, self._client),
                lambda: self._offer(request),
            )
            message = messages.result(request.id, found)
        except RpcError as error:
            message = messages.failure(request.id, error)
        finally:
            if not call.cancelled:
                self._send(message)

    def _offer(self, request: Request) -> protocol.Offer:
        offer = protocol.Offer(has_board=self._has_board())
        self._offers_nothing = not offer.has_board
        if request.method == "initialize" and None not in self._subscribers:
            self._subscribers.append(None)
        return offer

    def _look_for_board(self) -> None:
        if self._offers_nothing and self._has_board():
            self._offers_nothing = False
            for id in self._subscribers:
                self._send(messages.tools_changed(id))

    def _local(self) -> LocalTools:
        if self._tools is None:
            self._tools = self._make_tools()
        return self._tools

    def _send(self, message: dict[str, Any]) -> None:
        data = memoryview(messages.line(message))
        with self._writing:
            while data:
                self._await_reader()
                data = data[os.write(self._output, data[: select.PIPE_BUF]) :]

    def _await_reader(self) -> None:
        """Wait until a write does not block. A client that has closed the input or is gone, and does not read, is not
        waited for: the server would hold its claims for ever."""
        poll = select.poll()
        poll.register(self._output, select.POLLOUT)
        while not poll.poll(UNREAD_MS):
            input = select.poll()
            input.register(self._input, select.POLLHUP)
            is_closed = any(state & (select.POLLHUP | select.POLLNVAL) for _, state in input.poll(0))
            if is_closed or os.getppid() != self._parent:
                raise BrokenPipeError

    def _close(self) -> None:
        waiting = list(self._waiting.values())
        for call in waiting:
            call.cancel()
        for call in waiting:
            call.ended.acquire(timeout=CLOSE_SECONDS)
        if self._tools is not None:
            self._tools.close()


def _watch_parent() -> int | None:
    """A descriptor that becomes readable when the parent process ends; None where the system has none."""
    try:
        return os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        return None
