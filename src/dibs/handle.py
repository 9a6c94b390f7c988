"""A claim in the hands of who works on it: leaving it is done, an exception is fail, and it knows when it is lost.

with me.claim("fix-login") as claim:
    work_on(claim.item)
    claim.progress("half of it")
    claim.check()          # raises if somebody else may have it by now
"""

from __future__ import annotations

import threading

from dibs.errors import ClaimExpired, DibsError, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound
from dibs.heart import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from dibs.model import Ended, Grant, Item, Previous, Renewal
    from dibs.session import LiveSession

#: Before its claim can have expired by the board's clock, a holder that cannot renew it stops: by this share of what
#: was left of it when it was last renewed, and by no more than this.
MARGIN_SHARE = 0.1
MARGIN_SECONDS_MAX = 10.0
REASON_CHARACTERS_MAX = 2000
#: Refusals that say that the claim is gone.
LOSSES = (ClaimExpired, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound)


class ClaimHandle:
    def __init__(self, session: LiveSession, grant: Grant, asked_at: float) -> None:
        self.item: Item = grant.item
        self.token: int = grant.claim.token
        #: Where the last holder stopped.
        self.previous: Previous | None = grant.previous
        #: Set when the claim is lost, and before it can have expired unnoticed.
        self.lost = threading.Event()
        #: Why, once it is.
        self.lost_by: DibsError | None = None
        #: How the run ended, once it has: `done`, `failed`, `submitted`, `released`, `rejected`.
        self.outcome: str | None = None
        self._session = session
        self._ending = False
        self._lock = threading.Lock()
        self._kept(asked_at, (grant.claim.expires_at - grant.claim.renewed_at) / 1000)

    def __repr__(self) -> str:
        state = self.outcome or ("lost" if self.lost.is_set() else "held")
        return f"<claim of {self.item.id} under {self.token}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self.outcome is not None:
            return
        if error is None:
            self.done()
            return
        try:
            if isinstance(error, Exception):
                self.fail(summary(error))
            else:
                # Told to stop: the item is as good as it was.
                self.release(f"interrupted: {type(error).__name__}")
        except DibsError as refusal:
            error.add_note(f"dibs: and the claim of {self.item.id} could not be given back: {refusal.message}")

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
        self._session.give_up_late(clock())
        if self.lost_by is not None:
            raise self.lost_by

    def progress(self, note: str, *, meta: Mapping[str, Any] | None = None) -> Renewal:
        asked_at = clock()
        renewal: Renewal = self._session.hold(self, "progress", note=note, meta=meta)
        self._kept(asked_at, renewal.remaining_seconds)
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
        item: Item = self._end("reject", reason=reason)
        self.outcome, self.item = item.status, item
        return item

    def recover(self) -> None:
        """Have it again after it was lost, if nobody was given it since; under a new token, with what was done."""
        asked_at = clock()
        grant = self._session.recover(self)
        self.regained(grant, asked_at)

    # For the worker and the session

    def cut_short(self, verb: str, reason: str, patience_seconds: float) -> None:
        """End it from outside, by `fail` or `release`; whoever works on it finds it lost."""
        over = ClaimExpired(
            f"{self.item.id}: {reason}", item=self.item.id, token=self.token, how=reason, taken_over_by=None
        )
        try:
            self._ended(self._end(verb, reason=reason, patience_seconds=patience_seconds))
        finally:
            self.lost_by = self.lost_by or over
            self.lost.set()

    @property
    def is_at_stake(self) -> bool:
        return self.outcome is None and not self.lost.is_set() and not self._ending

    @property
    def losing_at(self) -> float:
        return self._losing_at

    def renewed(self, token: int, asked_at: float, seconds: float) -> None:
        with self._lock:
            if token == self.token:
                self._kept(asked_at, seconds)

    def regained(self, grant: Grant, asked_at: float) -> None:
        with self._lock:
            self.item, self.token = grant.item, grant.claim.token
            self._kept(asked_at, (grant.claim.expires_at - grant.claim.renewed_at) / 1000)
            self.lost_by = None
            self.lost.clear()

    def lose(self, error: DibsError) -> None:
        with self._lock:
            if self.is_at_stake:
                self.lost_by = error
                self.lost.set()

    def give_up_if_late(self, now: float) -> None:
        if now >= self._losing_at:
            self.lose(
                ClaimExpired(
                    f"no heartbeat for {self.item.id} got through in time: by now somebody else may have it",
                    item=self.item.id,
                    token=self.token,
                    how="unheard",
                    taken_over_by=None,
                )
            )

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
        return answer

    def _ended(self, ended: Ended) -> Ended:
        self.outcome, self.item = ended.run.outcome, ended.item
        return ended

    def _kept(self, asked_at: float, seconds: float) -> None:
        """It goes on for so long since before this was asked: what the board's clock says, told by this machine's."""
        self._losing_at = asked_at + seconds - min(MARGIN_SECONDS_MAX, MARGIN_SHARE * seconds)


def summary(error: BaseException) -> str:
    """An exception in a line or two: what, and where."""
    import traceback

    what = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
    return f"{what}{where}"[:REASON_CHARACTERS_MAX]
