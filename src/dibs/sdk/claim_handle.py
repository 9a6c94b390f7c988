"""A claim in the hands of who works on it: leaving it is done, an exception is fail, and it knows when it is lost.

with me.claim("fix-login") as claim:
    work_on(claim.item)
    claim.progress("half of it")
    claim.check()          # raises if somebody else may have it by now
"""

from __future__ import annotations

import os
import threading

from dibs.errors import ClaimExpired, DibsError, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound
from dibs.files import token_file
from dibs.sdk.heartbeat import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    from dibs.model import Approval, Ended, Grant, Item, Previous, Renewal
    from dibs.sdk.session import LiveSession

#: Before its claim can have expired by the board's clock, a holder that cannot renew it stops: by this share of what
#: was left of it when it was last renewed, and by no more than this.
MARGIN_SHARE = 0.1
MARGIN_SECONDS_MAX = 10.0
REASON_CHARACTERS_MAX = 2000
#: Refusals that say that the claim is gone.
LOSSES = (ClaimExpired, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound)


class ClaimHandle:
    item: Item
    token: int
    ttl_seconds: float
    approval: Approval | None

    def __init__(self, session: LiveSession, grant: Grant, asked_at: float) -> None:
        #: Where the last holder stopped.
        self.previous: Previous | None = grant.previous
        #: Set when the claim is lost, and before it can have expired unnoticed.
        self.lost = threading.Event()
        #: Why, once it is.
        self.lost_by: DibsError | None = None
        #: How the run ended, once it has: `done`, `failed`, `submitted`, `released`, `rejected`.
        self.outcome: str | None = None
        #: Where its tokens are written down, for who works for it in another process.
        self.token_file: str | None = None
        #: What was said of that, unless it is done.
        self.why_ended = ""
        self._regaining: tuple[str, float] | None = None
        self._session = session
        self._ending = False
        self._tell: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._have(grant, asked_at)

    def __repr__(self) -> str:
        state = self.outcome or ("lost" if self.lost.is_set() else "held")
        return f"<claim of {self.item.id} under {self.token}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self.outcome is not None or not self._session.is_here:
            return  # a forked child leaves what its parent goes on with
        if error is None:
            self.done()
            return
        if error is self.lost_by:
            return  # it stopped because it was told to
        try:
            if isinstance(error, Exception):
                self.fail(summary(error))
            else:
                # Told to stop: the item is as good as it was.
                self.release(f"interrupted: {type(error).__name__}")
        except DibsError as refusal:
            error.add_note(f"dibs: and the claim of {self.item.id} could not be given back: {refusal.message}")

    @property
    def approved_draft(self) -> str | None:
        """What a person has said yes to, word for word; None unless one has."""
        run = None if self.approval is None else self.approval.run
        return None if run is None else run.draft

    @property
    def session(self) -> LiveSession:
        """Whose claim it is."""
        return self._session

    @property
    def seconds_left(self) -> float:
        """How long the claim can be counted on without another heartbeat."""
        return max(0.0, self._losing_at - clock())

    def check(self) -> None:
        """Go on only if the claim is still held."""
        if self.is_at_stake and clock() >= self._losing_at:
            self._session.keep_if_possible()
        if self.lost_by is not None:
            raise self.lost_by

    def verify(self) -> None:
        """Go on only if the board says so, too: asked at once, by renewing it."""
        self.check()
        asked_at = clock()
        renewal = self._session.board.renew(self.item.id, session=self._session.id, token=self.token)
        self.renewed(renewal, asked_at)

    def progress(self, note: str, *, meta: Mapping[str, Any] | None = None) -> Renewal:
        asked_at = clock()
        renewal: Renewal = self._session.hold(self, "progress", note=note, meta=meta)
        self.renewed(renewal, asked_at)
        return renewal

    def done(
        self,
        note: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return self._ended(self._end("done", note=note, links=links, cost=cost))

    def fail(
        self,
        reason: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return self._ended(self._end("fail", reason=reason, links=links, cost=cost))

    def submit(
        self,
        draft: str,
        note: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        """End the run with a draft for a person to approve."""
        return self._ended(self._end("submit", draft=draft, note=note, links=links, cost=cost))

    def release(self, reason: str | None = None, *, park: bool = False) -> Ended:
        return self._ended(self._end("release", reason=reason, park=park))

    def reject(self, reason: str) -> Item:
        """The item is not to be done, by anyone."""
        rejected: Item = self._end("reject", reason=reason)
        self.outcome, self.item = rejected.status, rejected
        return rejected

    def recover(self) -> None:
        """Have it again after it was lost, if nobody was given it since; under a new token, with what was done."""
        self._session.recover(self)

    # For the worker and the session

    def cut_short(self, verb: str, reason: str, patience_seconds: float) -> None:
        """End it from outside, by `fail` or `release`; whoever works on it finds it lost."""
        over = ClaimExpired(
            f"{self.item.id}: {reason}", item=self.item.id, token=self.token, how=reason, taken_over_by=None
        )
        try:
            self._ended(self._end(verb, reason=reason, patience_seconds=patience_seconds))
        finally:
            self.give_up(over)

    def give_up(self, error: DibsError) -> None:
        """Whatever became of it, nobody works on it: it is renewed no more."""
        self._session.forget(self)
        self.lost_by = self.lost_by or error
        self.lost.set()
        self._tell_all()

    @property
    def is_at_stake(self) -> bool:
        return self.outcome is None and not self.lost.is_set() and not self._ending

    @property
    def losing_at(self) -> float:
        return self._losing_at

    @property
    def is_out_of_time(self) -> bool:
        """Whether it cannot be renewed any more: the item's own time for a claim is over."""
        return self._expires_at >= self._deadline_at

    def renewed(self, renewal: Renewal, asked_at: float) -> None:
        with self._lock:
            if renewal.token == self.token and asked_at >= self._asked_at:
                self._kept(asked_at, renewal.remaining_seconds, renewal.expires_at)

    def regaining(self) -> tuple[str, float]:
        """The request under which it is claimed again, and when that was first asked: if an answer is lost, what was
        given is found by asking again."""
        with self._lock:
            if self._regaining is None:
                self._regaining = os.urandom(12).hex(), clock()
            return self._regaining

    @property
    def is_regaining(self) -> bool:
        return self._regaining is not None

    def not_regained(self) -> None:
        self._regaining = None

    def regained(self, grant: Grant, asked_at: float, *, revives: bool) -> bool:
        """Whether it is held again. Who was told that it is lost has stopped, and goes on only if it asked for that."""
        with self._lock:
            self._regaining = None
            if self.lost.is_set() and not revives:
                return False
            self._have(grant, asked_at)
            self.lost_by = None
            self.lost.clear()
        if self.token_file is not None:
            token_file.write_down(self.token_file, self.token)
        return True

    def was_recovered_under(self, token: int) -> bool:
        """Whether who works for it has said so."""
        return self.token_file is not None and token in token_file.written(self.token_file)

    def lose(self, error: DibsError, token: int | None = None) -> None:
        """It is lost, if it is still the claim under this token."""
        with self._lock:
            self._lose(error, token)

    def give_up_if_late(self, now: float) -> None:
        with self._lock:
            if now >= self._losing_at:
                self._lose(self._late())

    def when_lost(self, tell: Callable[[], None]) -> Callable[[], None]:
        """`tell` is called once it is lost, by whoever notices, and at once if it is; what is returned takes that
        back."""
        with self._lock:
            self._tell.append(tell)
            is_lost = self.lost.is_set()
        if is_lost:
            tell()
        return lambda: self._tell.remove(tell)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _end(self, verb: str, **said: Any) -> Any:
        with self._lock:
            if self.outcome is not None:
                raise ClaimExpired(
                    f"the claim of {self.item.id} has ended already: {self.outcome}",
                    item=self.item.id,
                    token=self.token,
                    how=self.outcome,
                    taken_over_by=None,
                )
            self._ending = True
        try:
            answer = self._session.hold(self, verb, **said)
        except BaseException as error:
            self._ending = False
            if isinstance(error, LOSSES):
                self.lose(error)
            raise
        self._session.forget(self)
        self.lost_by = None
        self.lost.clear()
        return answer

    def _ended(self, ended: Ended) -> Ended:
        self.outcome, self.item = ended.run.outcome, ended.item
        self.why_ended = "" if self.outcome == "done" else ended.run.reason or ""
        return ended

    def _have(self, grant: Grant, asked_at: float) -> None:
        claim = grant.claim
        self.item, self.token, self.ttl_seconds = grant.item, claim.token, claim.ttl_seconds
        #: The yes that the item has, if it has one, and the run whose draft it was said to.
        self.approval = grant.approval
        self._deadline_at = claim.deadline_at
        self._kept(asked_at, (claim.expires_at - claim.renewed_at) / 1000, claim.expires_at)

    def _kept(self, asked_at: float, seconds: float, expires_at: int) -> None:
        """It goes on for so long since before this was asked: what the board's clock says, told by this machine's."""
        self._asked_at, self._expires_at = asked_at, expires_at
        self._losing_at = asked_at + seconds - min(MARGIN_SECONDS_MAX, MARGIN_SHARE * seconds)

    def _lose(self, error: DibsError, token: int | None = None) -> None:
        if self.is_at_stake and token in (None, self.token):
            self.lost_by = error
            self.lost.set()
            self._session.forget(self)
            self._tell_all()

    def _tell_all(self) -> None:
        for tell in list(self._tell):
            tell()

    def _late(self) -> ClaimExpired:
        id = self.item.id
        why = (
            f"the time that {id} gives a claim is over"
            if self.is_out_of_time
            else f"no heartbeat for {id} got through in time"
        )
        return ClaimExpired(
            f"{why}: by now somebody else may have it",
            item=id,
            token=self.token,
            how="timeout" if self.is_out_of_time else "unheard",
            taken_over_by=None,
        )


def summary(error: BaseException) -> str:
    """An exception in a line or two: what, and where."""
    import traceback

    what = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
    return keepable(f"{what}{where}"[:REASON_CHARACTERS_MAX])


def keepable(text: str) -> str:
    """A text as every store can keep it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()
