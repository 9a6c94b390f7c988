"""A session as a program holds it: registered with its process, kept alive in the background, ended when it leaves.

with board.session(agent="coder") as me:
    while claim := me.next(types=["bug"], wait_seconds=60):
        with claim:
            fix(claim.item)
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
import time
import weakref

from dibs.errors import (
    ClaimExpired,
    DibsError,
    Invalid,
    ItemNotClaimable,
    RateLimited,
    SessionNotFound,
    StoreUnavailable,
    StoreUnusable,
)
from dibs.handle import LOSSES, ClaimHandle
from dibs.heart import RETRY_SECONDS, Heart, clock
from dibs.patience import pause_seconds
from dibs.rules.claiming import recoverable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType
    from typing import Any, Self, TypeVar

    from dibs.board import Board
    from dibs.model import Ended, Grant, Session, Waiting

    T = TypeVar("T")

#: The longest pause before a store that is away is asked again.
BACKOFF_SECONDS_MAX = 5.0
#: For how long a claim, or the end of one that would be lost sooner, is tried while the store is away.
PATIENCE_SECONDS = 10.0
#: One call waits no longer; in between, the heart may tell what is held.
WAIT_SECONDS = 20.0
#: How long somebody who asks lets the heart begin to tell first.
TELLING_SECONDS = 1.0
#: After a call that took longer, it is not known when the claim began.
WAITED_SECONDS = 1.0
#: The verbs that end a claim.
ENDS = frozenset({"done", "fail", "submit", "release", "reject"})
#: A claim is renewed at least so often before it would be over.
BEATS_A_CLAIM = 3


class LiveSession:
    def __init__(
        self,
        board: Board,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "autonomous",
        meta: Mapping[str, Any] | None = None,
        ttl_seconds: float | None = None,
        recover: bool = True,
    ) -> None:
        """`ttl_seconds` is what claims are asked for unless they say otherwise; with `recover`, what expired while the
        process stood still, and nobody was given since, is claimed again in the background."""
        self.board = board
        self.ttl_seconds = ttl_seconds
        self._recovers = recover
        self._claims: dict[str, ClaimHandle] = {}
        self._gate = threading.Condition()
        self._asking = self._queued = 0
        self._telling = self._wants_to_tell = False
        #: Whether a heartbeat was answered, and which event that answer named.
        self._beaten = False
        self._known_event: int | None = None
        self._ended = self._gone = False
        self._pid = os.getpid()
        self._before_sigterm: Any = None
        self.record: Session = board.start_session(agent, id=id, kind=kind, owner_pid=_owner(), meta=meta)
        self._reap_dead_owners()
        self._heart = Heart(self._beat, self._give_up_late, self._losing_at)
        self._heart.start(board.settings.heartbeat_seconds)
        _live.add(self)

    def __repr__(self) -> str:
        return f"<session {self.id} of {self.agent}: {'ended' if self._ended else f'{len(self._claims)} claims'}>"

    def __enter__(self) -> Self:
        self.leave_on_sigterm()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.end(why_left(error))
        self.let_sigterm_be()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def agent(self) -> str:
        return self.record.agent

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or somebody has ended it."""
        return self._ended or self._gone

    @property
    def is_here(self) -> bool:
        """Whether this process started it, and is no fork of the one that did."""
        return self._pid == os.getpid()

    @property
    def claims(self) -> tuple[ClaimHandle, ...]:
        """What this session holds, by what it knows."""
        return tuple(handle for handle in list(self._claims.values()) if handle.is_at_stake)

    def claim(
        self,
        item: str,
        *,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
        on_wait: Callable[[Waiting], None] | None = None,
    ) -> ClaimHandle:
        """Claim this item, in its turn if there is time to wait; `on_wait` is told where this session stands. A store
        that is away, or a rate that was reached, is waited for as well, `patience_seconds` long at most."""

        def ask(left: float, *, request_id: str) -> tuple[Grant, ...]:
            ttl = self.ttl_seconds if ttl_seconds is None else ttl_seconds
            # A ticket is not given up and taken again every now and then: it would lose its place.
            return (
                self.board.claim(
                    item,
                    session=self.id,
                    ttl_seconds=ttl,
                    wait_seconds=max(0.0, left),
                    on_wait=on_wait,
                    request_id=request_id,
                ),
            )

        (handle,) = self._ask(ask, wait_seconds, patience_seconds, at_once=True)
        return handle

    def next(
        self,
        *,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> ClaimHandle | None:
        """The best item there is, or None if none comes in that time."""
        found = self.next_of(
            1,
            types=types,
            projects=projects,
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
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        patience_seconds: float | None = None,
    ) -> list[ClaimHandle]:
        """The best items there are, up to so many."""

        def ask(left: float, *, request_id: str) -> tuple[Grant, ...]:
            return self.board.next(
                session=self.id,
                types=types,
                projects=projects,
                n=n,
                ttl_seconds=self.ttl_seconds if ttl_seconds is None else ttl_seconds,
                wait_seconds=min(WAIT_SECONDS, max(0.0, left)),
                request_id=request_id,
            )

        return self._ask(ask, wait_seconds, patience_seconds)

    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any] | None = None,
        checks: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        """Add to a run of this agent that has ended what was learned since; without a token, to the item's latest."""
        said: dict[str, Any] = {"token": token, "links": links, "checks": checks, "cost": cost}
        request = _request_id()
        return self._patiently(
            lambda: self.board.annotate(item, session=self.id, request_id=request, **said), clock() + PATIENCE_SECONDS
        )

    def end(self, reason: str | None = None) -> None:
        """Nothing more is done in this session; what it still holds is released."""
        if self._ended or not self.is_here:
            return
        self._ended = True
        _live.discard(self)
        self._heart.stop()
        for handle in self.claims:
            handle.lose(self._over())
        with contextlib.suppress(SessionNotFound):
            self._patiently(lambda: self.board.end_session(self.id, reason=reason), clock() + PATIENCE_SECONDS)

    def leave_on_sigterm(self) -> None:
        """So that leaving is what a stopped program does, too; one that has a handler of its own knows better."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._before_sigterm = signal.signal(signal.SIGTERM, _leave)

    def let_sigterm_be(self) -> None:
        if self._before_sigterm is not None:
            signal.signal(signal.SIGTERM, self._before_sigterm)
            self._before_sigterm = None

    def after_fork(self) -> None:
        """In the child: what the parent's threads held at that instant is held for ever."""
        self._gate = threading.Condition()
        for handle in self._claims.values():
            handle.after_fork()

    # For the handles

    def hold(self, handle: ClaimHandle, verb: str, patience_seconds: float | None = None, **said: Any) -> Any:
        """A verb of the holder, asked until it is answered or, unless told otherwise, the claim would be over."""
        if verb in ENDS and not self.is_here:
            raise Invalid(f"{handle.item.id} is for the process to end that claimed it: this is a fork of it")
        request, until = _request_id(), max(handle.losing_at, clock() + PATIENCE_SECONDS)
        if patience_seconds is not None:
            until = clock() + patience_seconds
        recovers = self._recovers and self.is_here and verb not in ("release", "reject")

        def ask() -> Any:
            token = handle.token
            # Another token makes another request: it may have been recovered between two attempts.
            id = f"{request}-{token}"
            return getattr(self.board, verb)(handle.item.id, session=self.id, token=token, request_id=id, **said)

        if recovers and verb == "progress" and handle.lost.is_set():
            self.recover(handle)  # who makes progress has not stopped
        try:
            return self._patiently(ask, until)
        except ClaimExpired as error:
            heir = self._heir(handle, error)
            if not (recovers and (recoverable(error) or heir is not None)):
                raise
        self.recover(handle, heir)
        return self._patiently(ask, until)

    def recover(self, handle: ClaimHandle, token: int | None = None) -> None:
        """Have it again under a new token, unless it is had already."""
        with self._turn():
            lost = handle.token if token is None else token
            self._patiently(lambda: self._regain(handle, lost, revives=True), clock() + PATIENCE_SECONDS)

    def forget(self, handle: ClaimHandle) -> None:
        if self._claims.get(handle.item.id) is handle:
            self._claims.pop(handle.item.id, None)

    def keep_if_possible(self) -> None:
        """Something is late: it is kept by a heartbeat now, or lost."""
        self._heart.keep()

    # The heart's

    def _give_up_late(self, now: float) -> None:
        for handle in self.claims:
            handle.give_up_if_late(now)

    def _losing_at(self) -> float | None:
        return min((handle.losing_at for handle in self.claims), default=None)

    def _beat(self) -> float:
        with self._telling_what_is_held() as holding:
            known = {handle: handle.token for handle in self.claims}
            asked_at = clock()
            try:
                # What is let go must be older than what an earlier answer tells of: this one may arrive late.
                told = holding if self._beaten else None
                event = None if told is None else self._known_event
                answer = self.board.heartbeat(session=self.id, holding=told, known_event=event)
            except SessionNotFound as error:
                self._gone = True
                for handle in self.claims:
                    handle.lose(error)
                raise
        self._beaten, self._known_event = True, answer.event
        renewed = {(renewal.item, renewal.token): renewal for renewal in answer.renewed}
        missing = []
        for handle, token in known.items():
            renewal = renewed.get((handle.item.id, token))
            if renewal is None:
                missing.append((handle, token))
            else:
                handle.renewed(renewal, asked_at)
        for handle, token in missing:
            self._regain_or_lose(handle, token)
        self._reap_dead_owners()
        is_all_known = renewed.keys() <= {(handle.item.id, token) for handle, token in known.items()}
        # A claim whose answer was lost is let go by the next heartbeat, since that can say that it was known of.
        return answer.heartbeat_seconds if is_all_known else min(answer.heartbeat_seconds, RETRY_SECONDS)

    def _reap_dead_owners(self) -> None:
        """Who finds enough to do never asks what became of others: so it is looked at now and then."""
        with contextlib.suppress(StoreUnavailable):
            self.board.reap_dead_owners()

    def _regain_or_lose(self, handle: ClaimHandle, token: int) -> None:
        """It was not renewed, so it is over, or had its end meanwhile."""
        if handle.token != token or not handle.is_at_stake:
            return
        asked_at = clock()
        try:
            if self._recovers and not handle.is_out_of_time:
                self._regain(handle, token, revives=False)
            else:
                handle.renewed(self.board.renew(handle.item.id, session=self.id, token=token), asked_at)
        except (*LOSSES, ItemNotClaimable) as refusal:
            self._inherit_or_lose(handle, token, refusal)

    def _inherit_or_lose(self, handle: ClaimHandle, token: int, refusal: DibsError) -> None:
        heir = self._heir(handle, refusal)
        try:
            if heir is None:
                raise refusal
            self._regain(handle, heir, revives=False)
        except (*LOSSES, ItemNotClaimable):
            handle.lose(refusal, token)

    def _heir(self, handle: ClaimHandle, refusal: DibsError) -> int | None:
        """The token to go on with, if what was refused is because of a recovery in this session's own name: by a
        command that works for it, or by the heart, whose answer is under way."""
        by = refusal.facts.get("taken_over_by") or {}
        if by.get("session") != self.id:
            return None
        if handle.token == by["token"] or handle.was_recovered_under(by["token"]):
            return int(by["token"])
        return handle.token if handle.is_regaining else None

    def _regain(self, handle: ClaimHandle, token: int, *, revives: bool) -> None:
        request, asked_at = handle.regaining()
        try:
            grant = self.board.recover(
                handle.item.id,
                session=self.id,
                token=token,
                ttl_seconds=handle.ttl_seconds,
                request_id=f"{request}-{token}",
            )
        except StoreUnavailable:
            raise
        except DibsError:
            handle.not_regained()
            raise
        if handle.regained(grant, asked_at, revives=revives):
            self._keep(handle, grant)

    @contextlib.contextmanager
    def _telling_what_is_held(self) -> Iterator[dict[str, int] | None]:
        """What is held, to be told while nothing new is being asked for: that would be taken for forgotten. None if
        something is."""
        with self._gate:
            # Who waits for a telling to end goes before the next one.
            told = self._asking == 0 and self._queued == 0
            self._telling, self._wants_to_tell = told, not told
            self._gate.notify_all()
            holding = {handle.item.id: handle.token for handle in list(self._claims.values())}
        try:
            yield holding if told else None
        finally:
            with self._gate:
                self._telling = False
                self._gate.notify_all()

    def _over(self) -> SessionNotFound:
        return SessionNotFound(f"the session {self.id} has ended", session=self.id, ended=True)

    # Asking

    def _ask(
        self,
        ask: Callable[..., tuple[Grant, ...]],
        wait_seconds: float,
        patience_seconds: float | None,
        *,
        at_once: bool = False,
    ) -> list[ClaimHandle]:
        if self._ended:
            raise self._over()
        if not self.is_here:
            raise Invalid("this process was forked from the one whose session this is: start another", field="session")
        end = clock() + wait_seconds
        patience = clock() + (PATIENCE_SECONDS if patience_seconds is None else patience_seconds)
        while True:
            with self._turn():
                asked_at = clock()
                try:
                    grants = self._patiently(functools.partial(_asked, ask, end, _request_id()), max(end, patience))
                except SessionNotFound:
                    self._gone = True
                    raise
                if grants and clock() > asked_at + WAITED_SECONDS:
                    asked_at = self._counted_from(asked_at, grants)
                handles = [self._hold(grant, asked_at) for grant in grants]
            if handles or at_once or clock() >= end:
                return handles

    def _hold(self, grant: Grant, asked_at: float) -> ClaimHandle:
        known = self._claims.get(grant.item.id)
        if known is not None and known.token == grant.claim.token and known.is_at_stake:
            return known  # it asked for what it has
        handle = ClaimHandle(self, grant, asked_at)
        self._keep(handle, grant)
        return handle

    def _keep(self, handle: ClaimHandle, grant: Grant) -> None:
        self._claims[grant.item.id] = handle
        lasts_seconds = (grant.claim.expires_at - grant.claim.renewed_at) / 1000
        self._heart.by(min(self.board.settings.heartbeat_seconds, lasts_seconds / BEATS_A_CLAIM))
        if self._ended:
            handle.lose(self._over())

    def _counted_from(self, asked_at: float, grants: Sequence[Grant]) -> float:
        """Since when claims can be counted that somebody waited for: nobody knows how long ago they began. Renewed,
        they go on from here."""
        now = clock()
        try:
            answer = self.board.heartbeat(session=self.id)
        except DibsError:
            return asked_at
        renewed = {(renewal.item, renewal.token) for renewal in answer.renewed}
        return now if all((grant.item.id, grant.claim.token) in renewed for grant in grants) else asked_at

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self._gate:
            if self._wants_to_tell and self._asking == 0:
                self._heart.by(0)
                self._gate.wait_for(lambda: not self._wants_to_tell, TELLING_SECONDS)
                self._wants_to_tell = False
            self._queued += 1
            try:
                while self._telling:
                    self._gate.wait()
            finally:
                self._queued -= 1
            self._asking += 1
        try:
            yield
        finally:
            with self._gate:
                self._asking -= 1
                self._gate.notify_all()

    def _patiently(self, ask: Callable[[], T], until: float) -> T:
        """Ask until there is an answer: again after a store that is away, and after a rate that was reached."""
        tries = 0
        while True:
            try:
                return ask()
            except (StoreUnavailable, RateLimited) as error:
                if isinstance(error, StoreUnusable):
                    raise
                pause = _pause(tries, error)
                if clock() + pause > until:
                    raise
                tries += 1
            time.sleep(pause)


def why_left(error: BaseException | None) -> str:
    return "ended by its owner" if error is None else f"ended by its owner: {type(error).__name__}"


def _asked(ask: Callable[..., tuple[Grant, ...]], end: float, request_id: str) -> tuple[Grant, ...]:
    return ask(end - clock(), request_id=request_id)


def _pause(tries: int, error: DibsError) -> float:
    told = error.facts.get("retry_after_seconds")
    if isinstance(error, RateLimited) and told is not None:
        return float(told)
    return pause_seconds(tries, BACKOFF_SECONDS_MAX)


def _request_id() -> str:
    return os.urandom(12).hex()


def _owner() -> int | None:
    """This process, where the system lets others see whether it is alive."""
    from dibs import owner

    return None if owner.namespace() is None else os.getpid()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


_live: weakref.WeakSet[LiveSession] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for session in list(_live):
        with contextlib.suppress(DibsError):
            session.end("its process ended")


def _leave_to_the_parent() -> None:
    for session in list(_live):
        session.after_fork()
    _live.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
