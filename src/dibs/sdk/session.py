"""A session as a program holds it: registered with its process, kept alive in the background, ended with its `with`
block.

with board.session(agent="coder") as me:
    while claim := me.next(types=["bug"], wait_seconds=60):
        with claim:
            fix(claim.item)
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import weakref

from dibs import check, randomness
from dibs.errors import (
    ClaimExpired,
    DibsError,
    Invalid,
    RateLimited,
    SessionNotFound,
    StoreUnavailable,
    StoreUnusable,
)
from dibs.rules.claiming import recoverable
from dibs.sdk import retries
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.claim_keeper import ClaimKeeper
from dibs.sdk.heartbeat import clock
from dibs.system.fork import ForkAware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn, Self, TypeVar

    from dibs.board import Board
    from dibs.model import Ended, Grant, Session, Waiting

    T = TypeVar("T")

#: The longest delay between attempts to reach a store.
BACKOFF_SECONDS_MAX = 5.0
#: How long a request for claims is retried while the store is unavailable. A verb of a holder is retried at least as
#: long, even if its claim expires sooner.
PATIENCE_SECONDS = 10.0
#: The longest wait of one call to the store: heartbeats report the held claims only between calls.
WAIT_SECONDS = 20.0
#: After a call that took longer, this process cannot tell when the claim was granted, and renews it.
WAITED_SECONDS = 1.0
#: The verbs that end a claim.
ENDS = frozenset({"done", "fail", "submit", "release", "hand", "reject"})


class LiveSession(ForkAware):
    def __init__(
        self,
        board: Board,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "autonomous",
        meta: Mapping[str, Any] | None = None,
        parent: str | None = None,
        ttl_seconds: float | None = None,
        recover: bool = True,
    ) -> None:
        """`parent` is the id of the session that this one is a child of. `ttl_seconds` is the default for claims. With
        `recover`, a claim that expired while the process was stopped is claimed again in the background, unless the
        item was given to another session since."""
        self.board = board
        self.ttl_seconds, self._recovers = check.ttl_seconds(ttl_seconds), check.flag(recover, "recover")
        self._ended = False
        self._before_sigterm: Any = None
        self.record: Session = board.start_session(
            agent, id=id, kind=kind, owner_pid=_owner_pid(), meta=meta, parent=parent
        )
        self._keeper = ClaimKeeper(board, self.id, recovers=recover)
        _live.add(self)
        self.track_forks()

    def __repr__(self) -> str:
        return f"<session {self.id} of {self.agent}: {'ended' if self._ended else f'{len(self.claims)} claims'}>"

    def __enter__(self) -> Self:
        self.exit_on_sigterm()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.end(end_reason(error))
        self.restore_sigterm()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def agent(self) -> str:
        return self.record.agent

    @property
    def is_over(self) -> bool:
        """Whether the session has ended, here or on the board."""
        return self._ended or self._keeper.is_session_gone

    @property
    def claims(self) -> tuple[ClaimHandle, ...]:
        """The claims that this session holds, as far as this process knows."""
        return self._keeper.claims

    def claim(
        self,
        item: str,
        *,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
        on_wait: Callable[[Waiting], None] | None = None,
    ) -> ClaimHandle:
        """Claim this item. With `wait_seconds`, queue for it, and `on_wait` is called with the ticket's position. While
        the store is unavailable or a rate limit applies, retry for `patience_seconds`."""
        asked: dict[str, Any] = {"ttl_seconds": ttl_seconds, "on_wait": on_wait}
        return self._claim(self.board.claim, item, asked, wait_seconds, patience_seconds)

    def claim_subject(
        self,
        subject: str,
        *,
        title: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
        on_wait: Callable[[Waiting], None] | None = None,
        **fields: Any,
    ) -> ClaimHandle:
        """Claim the item of this subject, which is added, with `title` and `fields`, if there is none; otherwise as
        `claim`."""
        asked: dict[str, Any] = {"title": title, "ttl_seconds": ttl_seconds, "on_wait": on_wait, **fields}
        return self._claim(self.board.claim_subject, subject, asked, wait_seconds, patience_seconds)

    def _claim(
        self,
        verb: Callable[..., Grant],
        what: str,
        asked: dict[str, Any],
        wait_seconds: float,
        patience_seconds: float | None,
    ) -> ClaimHandle:
        if asked["ttl_seconds"] is None:
            asked["ttl_seconds"] = self.ttl_seconds

        def ask(left: float, request_id: str) -> tuple[Grant, ...]:
            # One call for the whole wait: a ticket that is given up and taken again loses its place.
            return (verb(what, session=self.id, wait_seconds=left, request_id=request_id, **asked),)

        (handle,) = self._request(ask, *_ends(wait_seconds, patience_seconds))
        return handle

    def next(
        self,
        *,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        labels: Sequence[str] = (),
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> ClaimHandle | None:
        """Claim the best item; None if there is none within `wait_seconds`."""
        found = self.next_of(
            1,
            types=types,
            projects=projects,
            labels=labels,
            ttl_seconds=ttl_seconds,
            wait_seconds=wait_seconds,
            patience_seconds=patience_seconds,
        )
        return found[0] if found else None

    def next_of(
        self,
        n: int,
        *,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        labels: Sequence[str] = (),
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> list[ClaimHandle]:
        """Claim the best items, at most `n`."""

        def ask(left: float, request_id: str) -> tuple[Grant, ...]:
            return self.board.next(
                session=self.id,
                types=types,
                projects=projects,
                labels=labels,
                n=n,
                ttl_seconds=self.ttl_seconds if ttl_seconds is None else ttl_seconds,
                wait_seconds=min(WAIT_SECONDS, left),
                request_id=request_id,
            )

        end, until = _ends(wait_seconds, patience_seconds)
        while True:
            handles = self._request(ask, end, until)
            if handles or clock() >= end:
                return handles

    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any] | None = None,
        checks: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        """Add links, checks and costs to a run of this agent that has ended, or that this session holds; without a
        token, to the item's latest run."""
        added: dict[str, Any] = {"token": token, "links": links, "checks": checks, "cost": cost}
        request = randomness.request_id()
        return _retry(
            lambda: self.board.annotate(item, session=self.id, request_id=request, **added), clock() + PATIENCE_SECONDS
        )

    def end(self, reason: str | None = None) -> None:
        """End the session and release the claims that it still holds."""
        if self._ended or self.is_inherited:
            return
        self._ended = True
        _live.discard(self)
        self._keeper.stop(self._session_ended())
        with contextlib.suppress(SessionNotFound):
            _retry(lambda: self.board.end_session(self.id, reason=reason), clock() + PATIENCE_SECONDS)

    def exit_on_sigterm(self, call: Callable[[Callable[[], NoReturn]], object] = lambda exit: exit()) -> None:
        """Let SIGTERM exit the program in the usual way, which ends the session; unless the program handles it. `call`
        runs the function that exits: an event loop runs it as a callback."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._before_sigterm = signal.signal(signal.SIGTERM, lambda *_: call(_exit))

    def restore_sigterm(self) -> None:
        if self._before_sigterm is not None:
            signal.signal(signal.SIGTERM, self._before_sigterm)
            self._before_sigterm = None

    def after_fork_in_child(self) -> None:
        """The session and its claims stay the parent's."""
        _live.discard(self)
        self._keeper.after_fork_in_child()

    # For the handles

    def call_as_holder(
        self, handle: ClaimHandle, verb: str, patience_seconds: float | None = None, **parameters: Any
    ) -> Any:
        """Call a verb of the holder, and retry until there is an answer or, without `patience_seconds`, the claim would
        expire. Except by `release`, `hand` and `reject`, a claim that expired is recovered first, unless another
        session claimed the item since."""
        if verb in ENDS and self.is_inherited:
            raise Invalid(f"only the process that claimed {handle.item.id} can end the claim: this is a fork of it")
        request_id, until = randomness.request_id(), max(handle.safe_until, clock() + PATIENCE_SECONDS)
        if patience_seconds is not None:
            until = clock() + patience_seconds
        recovers = self._recovers and not self.is_inherited and verb not in ("release", "reject", "hand")

        def ask() -> Any:
            token = handle.token
            # A recovery between two attempts changes the token, which makes it another request.
            id = f"{request_id}-{token}"
            return getattr(self.board, verb)(handle.item.id, session=self.id, token=token, request_id=id, **parameters)

        if recovers and verb == "progress" and handle.lost.is_set():
            self.recover(handle)  # the handler continues although the claim was lost
        try:
            return _retry(ask, until)
        except ClaimExpired as error:
            successor = self._keeper.successor(handle, error)
            if not (recovers and (recoverable(error) or successor is not None)):
                raise
        self.recover(handle, successor)
        return _retry(ask, until)

    def recover(self, handle: ClaimHandle, token: int | None = None) -> None:
        """Claim the item again under a new token, or adopt the claim that a recovery has already got."""
        with self._keeper.gate.requesting():
            lost = handle.token if token is None else token
            _retry(lambda: self._keeper.recover(handle, lost, revives=True), clock() + PATIENCE_SECONDS)

    def forget(self, handle: ClaimHandle) -> None:
        self._keeper.forget(handle)

    def renew_or_lose(self) -> None:
        """Some claim can no longer be relied on: renew it with a heartbeat now, or mark it as lost."""
        self._keeper.renew_or_lose(has_threads=not self.is_inherited)

    # Requests for claims

    def _request(self, ask: Callable[[float, str], tuple[Grant, ...]], end: float, until: float) -> list[ClaimHandle]:
        """Ask with the time left until `end`, and retry until `until`."""
        if self._ended:
            raise self._session_ended()
        if self.is_inherited:
            raise Invalid("this session belongs to the parent process; start another one after a fork", field="session")
        request_id = randomness.request_id()
        with self._keeper.gate.requesting():
            sent_at = clock()
            try:
                grants = _retry(lambda: ask(max(0.0, end - clock()), request_id), until)
            except SessionNotFound:
                self._keeper.is_session_gone = True
                raise
            if grants and clock() > sent_at + WAITED_SECONDS:
                sent_at = self._renewed_at(grants) or sent_at
            return [self._hold(grant, sent_at) for grant in grants]

    def _renewed_at(self, grants: Sequence[Grant]) -> float | None:
        """Renew claims that were granted at an unknown moment of a wait. Return when the renewal was sent; None if it
        failed."""
        sent_at = clock()
        try:
            answer = self.board.heartbeat(session=self.id)
        except DibsError:
            return None
        renewed = {(renewal.item, renewal.token) for renewal in answer.renewed}
        return sent_at if all((grant.item.id, grant.claim.token) in renewed for grant in grants) else None

    def _hold(self, grant: Grant, sent_at: float) -> ClaimHandle:
        known = self._keeper.find(grant)
        if known is not None:
            return known  # the session claimed an item that it holds
        handle = ClaimHandle(self, grant, sent_at)
        self._keeper.keep(handle, grant)
        return handle

    def _session_ended(self) -> SessionNotFound:
        return SessionNotFound(f"session {self.id} has ended", session=self.id, ended=True)


def _ends(wait_seconds: float, patience_seconds: float | None) -> tuple[float, float]:
    """When the wait for an item ends, and when the retries do."""
    patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
    now, end = clock(), clock() + check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
    return end, max(end, now + check.number(patience, "patience_seconds", low=0, high=1e9))


def end_reason(error: BaseException | None) -> str:
    return "ended by its owner" if error is None else f"ended by its owner: {type(error).__name__}"


def _retry(ask: Callable[[], T], until: float) -> T:
    """Ask until there is an answer: again while the store is unavailable, and after a rate limit."""
    attempt = 0
    while True:
        try:
            return ask()
        except (StoreUnavailable, RateLimited) as error:
            if isinstance(error, StoreUnusable):
                raise
            pause = retries.delay_seconds(attempt, BACKOFF_SECONDS_MAX)
            retry_after = error.facts.get("retry_after_seconds")
            if isinstance(error, RateLimited) and retry_after is not None:
                pause = float(retry_after)
            if clock() + pause > until:
                raise
            attempt += 1
        time.sleep(pause)


def _owner_pid() -> int | None:
    """This process, where the system lets others see whether it is alive."""
    from dibs.system import owner

    return None if owner.namespace() is None else os.getpid()


def _exit() -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


_live: weakref.WeakSet[LiveSession] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for session in list(_live):
        with contextlib.suppress(DibsError):
            session.end("its process ended")
