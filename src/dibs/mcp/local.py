"""Calls of tools on the board of this process, for its one client: who acts, and which claims are kept alive.

A call names its session by the argument `session`, which the hooks of a client inject; else by `_meta`, where Codex has
its thread; else the session is that of the environment; else this process has one of its own. A model may write the
argument too, so it is accepted only for sessions that belong to this client. Hooks keep the claims of the sessions that
they tend. The claims of the others are renewed here while the client lives, and released when it closes the connection.
"""

from __future__ import annotations

import _thread
import os
import time

from dibs.board import Board
from dibs.errors import DibsError, Forbidden, Invalid, SessionNotFound, StoreUnavailable, StoreUnusable
from dibs.mcp import calls, tools
from dibs.mcp.keeper import Keeper
from dibs.rules.ending import OWNER_DIED
from dibs.store.contract import Watch
from dibs.system import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.mcp.messages import Request
    from dibs.mcp.stdio import Call
    from dibs.mcp.tools import Tool
    from dibs.model import Renewal

#: How soon a waiting call notices that it was cancelled.
CANCEL_SECONDS = 0.25
#: How long one request to a server waits.
REQUEST_SECONDS = 2.0
#: What to do when the session of a call has ended, if another connection or only another conversation has another one.
RECONNECT = "ask a person to reconnect the server dibs (Claude Code: /mcp), or to begin a new conversation"
BEGIN_ANOTHER = "ask a person to begin a new conversation"
LEAVE_OUT = "leave out the argument session, and call it again"


class Hooks:
    """What the hooks of the client know of sessions; here, of a client without hooks."""

    def tend(self, session: str) -> bool:
        """Whether they keep its claims, and end it."""
        return False

    def has_agent_above(self, session: str) -> bool:
        """Whether they tend it, for an agent whose process is above this one."""
        return False

    def start_fields(self, session: str) -> dict[str, Any]:
        """What they know of a session that is to be started."""
        return {}

    def answered(self, board: Board, session: str, item: str, refusal: DibsError | None) -> None:
        """The board has answered a call of this session that names the item, or refused it."""

    def handed(self, session: str, item: str, token: int) -> None:
        """The session has handed its claim over."""


class Cancelled(StoreUnavailable):
    """The client has cancelled the call."""


class LocalTools:
    def __init__(
        self, open_board: Callable[[], Board], hooks: Hooks, *, session: str | None, agent: str | None, client_pid: int
    ) -> None:
        """`session` and `agent` are those of the environment. The first call of a tool opens the board: a client may
        list the tools where there is none."""
        self._open_board = open_board
        self._board: Board | None = None
        self._hooks = hooks
        self._session, self._agent = session, agent
        self._client_process = client_pid
        self._keeper = Keeper(self._opened)
        #: One call at a time opens the board and starts sessions.
        self._beginning = _thread.allocate_lock()
        #: The sessions that claimed through this process.
        self._taken_up: set[str] = set()

    def call(self, tool: Tool, arguments: Any, call: Call, client: str | None) -> tuple[str, bool]:
        """The text of the answer, and whether it is a refusal."""
        try:
            with self._beginning:
                agent = self._agent or calls.agent_of(call.request.client or client)
                session, when_ended = self._acting_session(arguments, call.request, agent)
                board = self._opened()
                if tool.name in calls.CLAIMS:
                    self._take_up(board, session, agent)
        except DibsError as error:
            return calls.refusal(error), True
        answered: dict[str, DibsError | None] = {}
        renewals: list[Renewal] = []

        def verb(name: str, **given: Any) -> Any:
            try:
                found = _verb(board, call, name, given)
            except (StoreUnavailable, Invalid):
                raise  # the board did not decide
            except DibsError as refusal:
                answered[given.get("item", "")] = refusal
                raise
            answered[found.item.id if name == "claim_subject" else given.get("item", "")] = None
            if name == "hand":
                self._hooks.handed(session, given["item"], found.claim.token - 1)
            if name == "progress":
                renewals.append(found)
            return found

        acting = calls.Acting(verb, session, agent, when_ended=when_ended, on_wait=call.wait_for)
        text, is_error = calls.answer(tool, arguments, acting)
        if call.settle():
            _undo(tool, arguments, acting)
            return text, is_error
        for item, refusal in answered.items():
            if item:
                self._hooks.answered(board, session, item, refusal)
        if not self._hooks.tend(session):
            for grant in acting.granted:
                self._keeper.keep(session, grant.item.id, grant.claim.token, is_new=not grant.renewed)
            for renewal in renewals:  # an expired claim was recovered, or the session had it before
                self._keeper.keep(session, renewal.item, renewal.token, is_new=False)
            if tool.name in calls.ENDS and not is_error:
                self._keeper.forget(session, arguments["item"])
        return text, is_error

    def close(self) -> None:
        self._keeper.close()
        if self._board is not None:
            self._board.close()

    def _opened(self) -> Board:
        if self._board is None:
            self._board = self._open_board()
        return self._board

    def _acting_session(self, arguments: Any, request: Request, agent: str) -> tuple[str, str]:
        """The session that a call acts as, and what to do if that has ended."""
        by_client = calls.session_of_meta(request)
        given = calls.session_of_argument(arguments)
        known = (by_client, self._session, *self._taken_up)
        if given is not None and given not in known and not self._hooks.has_agent_above(given):
            problem = f"{given} is not the session of this conversation, so calls here cannot act as it"
            raise Forbidden(problem, field=tools.SESSION, do=LEAVE_OUT)
        session = given or by_client
        if session is None or session == self._session:
            self._session = self._session or f"{agent}-mcp-{os.urandom(6).hex()}"
            return self._session, RECONNECT
        return session, BEGIN_ANOTHER

    def _take_up(self, board: Board, session: str, agent: str) -> None:
        """Before the first claim, start a session that the board does not know, and take over one whose process is
        dead: its client goes on in another process. One that was ended, other than by that death, stays so."""
        if session in self._taken_up:
            return
        try:
            known = board.find_session(session)
        except SessionNotFound:
            about = {"agent": agent, **(self._hooks.start_fields(session) or {"owner_pid": self._client_pid()})}
            board.start_session(**about, id=session, kind=calls.KIND)
        else:
            is_ended = known.ended_at is not None and known.end_reason != OWNER_DIED
            if not is_ended and known.owner is not None and owner.find_dead([(session, known.owner)]):
                board.start_session(known.agent, id=session, kind=known.kind, owner_pid=self._client_pid())
        self._taken_up.add(session)

    def _client_pid(self) -> int | None:
        """The process that started this one, if it is still there: a launcher that ends at once is not the client."""
        if self._client_process <= 1 or os.getppid() != self._client_process:
            return None
        try:
            owner.of(self._client_process)
        except Invalid:
            return None  # only Linux has owner processes
        return self._client_process


def _verb(board: Board, call: Call, name: str, given: dict[str, Any]) -> Any:
    try:
        if given.get("wait_seconds"):
            return _wait(board, call, name, given)
        return getattr(board, name)(**given)
    except OSError as error:
        parts = [str(part) for part in (error.filename, error.strerror) if part]
        raise StoreUnusable(": ".join(parts)) from error


def _wait(board: Board, call: Call, name: str, given: dict[str, Any]) -> Any:
    """A verb that waits, until the call is cancelled. A server that waits for its clients is asked again and again:
    a request that is under way cannot be taken back."""
    if not board.store.waits:
        return getattr(_cancellable(board, call), name)(**given)
    end = time.monotonic() + given["wait_seconds"]
    while not call.cancelled:
        call.report()
        left = end - time.monotonic()
        found = getattr(board, name)(**{**given, "wait_seconds": max(0.0, min(left, REQUEST_SECONDS))})
        # A ticket is an answer at any time; the caller asks again.
        if found or left <= REQUEST_SECONDS:
            return found
    raise Cancelled("the call was cancelled")


def _undo(tool: Tool, arguments: Any, acting: calls.Acting) -> None:
    """Give back what a call was given whose answer nobody will read."""
    verbs = [("release", {"item": one.item.id, "token": one.claim.token}) for one in acting.granted if not one.renewed]
    if tool.name == "wait" and isinstance(arguments, dict) and not acting.granted:
        verbs.append(("leave", {"item": arguments.get("item")}))
    for verb, given in verbs:
        try:
            acting.call(verb, **given, session=acting.session)
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
            self._call.report()
            left = end - time.monotonic()
            if self._inner.wait(max(0.0, min(left, CANCEL_SECONDS))):
                return True
            if left <= CANCEL_SECONDS:
                return False

    def close(self) -> None:
        self._inner.close()
