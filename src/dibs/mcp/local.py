"""Calls of tools on the board of this process, for its one client: who acts, and which claims are kept alive.

A call names its session by the argument `session`, which the hooks of a client inject; else by `_meta`, where Codex has
its thread; else the session is that of the environment; else this process has one of its own. Hooks keep the claims of
the sessions that they name. The claims of the others are renewed here while the client lives, and released when it
closes the connection.
"""

from __future__ import annotations

import os
import time

from dibs.board import Board
from dibs.errors import DibsError, Invalid, StoreUnavailable, StoreUnusable
from dibs.mcp import calls
from dibs.mcp.keeper import Keeper
from dibs.sdk import owner
from dibs.store.contract import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.mcp.stdio import Call
    from dibs.mcp.tools import Tool

#: How soon a waiting call notices that it was cancelled.
CANCEL_SECONDS = 0.25


class Cancelled(StoreUnavailable):
    """The client has cancelled the call."""


class LocalTools:
    def __init__(self, open_board: Callable[[], Board], *, session: str | None, agent: str | None) -> None:
        """`session` and `agent` are those of the environment. The first call of a tool opens the board: a client may
        list the tools where there is none."""
        self._open_board = open_board
        self._board: Board | None = None
        self._session, self._agent = session, agent
        self._parent = os.getppid()
        self._keeper = Keeper(self._opened)

    def call(self, tool: Tool, arguments: Any, call: Call, client: str | None) -> tuple[str, bool]:
        """The text of the answer, and whether it is a refusal."""
        try:
            acting, by_argument = self._acting(arguments, call, client)
        except DibsError as error:
            return calls.refusal(error), True
        text, is_error = calls.answer(tool, arguments, acting)
        if call.cancelled:
            self._give_back(acting)
        elif not by_argument:
            self._keep(tool, arguments, acting, is_error)
        return text, is_error

    def close(self) -> None:
        self._keeper.close()
        if self._board is not None:
            self._board.close()

    def _opened(self) -> Board:
        if self._board is None:
            self._board = self._open_board()
        return self._board

    def _acting(self, arguments: object, call: Call, client: str | None) -> tuple[calls.Acting, bool]:
        session, by_argument = calls.named_session(arguments, call.request)
        agent = self._agent or calls.agent_of(call.request.client or client)
        if session is None:
            self._session = session = self._session or f"{agent}-mcp-{os.urandom(6).hex()}"
        owner_pid = None if by_argument else self._client_pid()
        board = self._opened()

        def verb(name: str, **given: Any) -> Any:
            waits = bool(given.get("wait_seconds"))
            try:
                return getattr(_cancellable(board, call) if waits else board, name)(**given)
            except OSError as error:
                raise StoreUnusable(
                    ": ".join(str(part) for part in (error.filename, error.strerror) if part)
                ) from error

        return calls.Acting(verb, session, agent, owner_pid=owner_pid, on_wait=call.report), by_argument

    def _client_pid(self) -> int | None:
        """The process that started this one, if it is still there: a launcher that ends at once is not the client."""
        if self._parent <= 1 or os.getppid() != self._parent:
            return None
        try:
            owner.of(self._parent)
        except Invalid:
            return None  # only Linux has owner processes
        return self._parent

    def _keep(self, tool: Tool, arguments: Any, acting: calls.Acting, is_error: bool) -> None:
        assert acting.session is not None
        for grant in acting.granted:
            self._keeper.keep(acting.session, grant.item.id)
        if tool.name in calls.ENDS and not is_error:
            self._keeper.forget(acting.session, arguments["item"])

    def _give_back(self, acting: calls.Acting) -> None:
        """Release what a call was given whose answer nobody will read."""
        for grant in acting.granted:
            if not grant.renewed:
                try:
                    acting.call("release", item=grant.item.id, session=acting.session, token=grant.claim.token)
                except DibsError:
                    pass  # it expires by itself


def _cancellable(board: Board, call: Call) -> Board:
    """The board with waits that end when the call is cancelled."""

    def watch(session: str | None) -> Watch:
        return _CancellableWatch(board.store.watch(session=session), call)

    return Board(board.store, board.settings, actor=board.actor, watch=watch)


class _CancellableWatch(Watch):
    def __init__(self, inner: Watch, call: Call) -> None:
        self._inner, self._call = inner, call

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            if self._call.cancelled:
                raise Cancelled("the call was cancelled")
            left = end - time.monotonic()
            if self._inner.wait(max(0.0, min(left, CANCEL_SECONDS))):
                return True
            if left <= CANCEL_SECONDS:
                return False

    def close(self) -> None:
        self._inner.close()
