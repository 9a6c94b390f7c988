"""A claim as a program holds it. Leaving the `with` block marks the item done; an exception marks it failed.

with me.claim("fix-login") as claim:
    work_on(claim.item)
    claim.progress("half of it")
    claim.check()          # raises if the claim may be lost
"""

from __future__ import annotations

import threading

from dibs import randomness
from dibs.errors import ClaimExpired, DibsError, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound
from dibs.sdk.heartbeat import clock
from dibs.system import token_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    from dibs.model import Approval, Edited, Ended, Grant, Item, Previous, Renewal
    from dibs.sdk.session import LiveSession

#: A holder that cannot renew its claim stops before the claim can have expired by the store's clock: earlier by
#: MARGIN_SHARE of the time that was left at the last renewal, but by at most MARGIN_SECONDS_MAX.
MARGIN_SHARE = 0.1
MARGIN_SECONDS_MAX = 10.0
REASON_CHARACTERS_MAX = 2000
#: Refusals that mean that the claim is gone.
LOSSES = (ClaimExpired, ItemNotClaimed, ItemNotFound, NotClaimOwner, SessionNotFound)


class ClaimHandle:
    item: Item
    token: int
    ttl_seconds: float
    #: When, by this machine's clock, the claim can no longer be relied on.
    safe_until: float
    #: The approval of the item, if a person gave one, with the run whose draft was approved.
    approval: Approval | None

    def __init__(self, session: LiveSession, grant: Grant, sent_at: float) -> None:
        self.session = session
        #: The previous run, for the holder to continue from.
        self.previous: Previous | None = grant.previous
        #: Set when the claim is lost, or may have expired.
        self.lost = threading.Event()
        #: Why the claim was lost.
        self.lost_by: DibsError | None = None
        #: How the run ended: `done`, `failed`, `submitted`, `released`, `rejected`. None while it goes on.
        self.outcome: str | None = None
        #: The reason of an end other than done.
        self.end_reason = ""
        #: A file with the tokens of this claim, for a process that works on the item on this program's behalf.
        self.token_file: str | None = None
        self._recovery: tuple[str, float] | None = None
        self._ending = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._set_claim(grant, sent_at)

    def __repr__(self) -> str:
        state = self.outcome or ("lost" if self.lost.is_set() else "held")
        return f"<claim of {self.item.id} under {self.token}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self.outcome is not None or self.session.is_inherited:
            return  # after a fork, the parent goes on with the claim
        if error is None:
            self.done()
            return
        if error is self.lost_by:
            return  # the work stopped because the claim was lost
        try:
            if isinstance(error, Exception):
                self.fail(summary(error))
            else:
                # An interrupt says nothing about the item.
                self.release(f"interrupted: {type(error).__name__}")
        except DibsError as refusal:
            error.add_note(f"dibs: also, the claim of {self.item.id} could not be ended: {refusal.message}")

    @property
    def approved_draft(self) -> str | None:
        """The exact text that a person approved; None without an approved draft."""
        run = None if self.approval is None else self.approval.run
        return None if run is None else run.draft

    @property
    def seconds_left(self) -> float:
        """How long the claim can be relied on without another heartbeat."""
        return max(0.0, self.safe_until - clock())

    def check(self) -> None:
        """Raise if the claim is lost, as far as this process knows."""
        if self.is_held and clock() >= self.safe_until:
            self.session.renew_or_lose()
        if self.lost_by is not None:
            raise self.lost_by

    def verify(self) -> None:
        """Raise if the claim is lost according to the board, which renews it otherwise."""
        self.check()
        sent_at = clock()
        renewal = self.session.board.renew(self.item.id, session=self.session.id, token=self.token)
        self.record_renewal(renewal, sent_at)

    def progress(self, note: str, *, meta: Mapping[str, Any] | None = None) -> Renewal:
        """Leave a note for watchers and for the next holder, and renew the claim."""
        sent_at = clock()
        renewal: Renewal = self.session.call_as_holder(self, "progress", note=note, meta=meta)
        self.record_renewal(renewal, sent_at)
        return renewal

    def reserve(self, *resources: str) -> Item:
        """Add resources to the item, for as long as the claim lasts and for the next holder. If another session holds
        one of them, nothing changes: `ResourceBusy`."""
        edited: Edited = self.session.call_as_holder(self, "edit", add_resources=resources)
        self.item = edited.item
        return self.item

    def done(
        self, note: str | None = None, *, links: Mapping[str, Any] | None = None, cost: Mapping[str, Any] | None = None
    ) -> Ended:
        return self._end_run("done", note=note, links=links, cost=cost)

    def fail(
        self,
        reason: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        return self._end_run("fail", reason=reason, links=links, cost=cost)

    def submit(
        self,
        draft: str,
        note: str | None = None,
        *,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        """End the run with a draft for a person to approve."""
        return self._end_run("submit", draft=draft, note=note, links=links, cost=cost)

    def release(self, reason: str | None = None, *, park: bool = False) -> Ended:
        return self._end_run("release", reason=reason, park=park)

    def hand(self, to: str, reason: str | None = None) -> Grant:
        """Hand the claim over to another session, which works on the item from now on."""
        grant: Grant = self._end("hand", to=to, reason=reason)
        self.outcome, self.item, self.end_reason = "handed", grant.item, reason or ""
        return grant

    def reject(self, reason: str) -> Item:
        """Mark the item as never to be done."""
        rejected: Item = self._end("reject", reason=reason)
        self.outcome, self.item = rejected.status, rejected
        return rejected

    def recover(self) -> None:
        """Claim the lost item again, under a new token, unless it was given to another session since."""
        self.session.recover(self)

    # For the worker and the session

    def end_early(self, verb: str, reason: str, patience_seconds: float) -> None:
        """End the claim from another thread, by `fail` or `release`. Its handler finds the claim lost."""
        over = ClaimExpired(
            f"{self.item.id}: {reason}", item=self.item.id, token=self.token, how=reason, taken_over_by=None
        )
        try:
            self._end_run(verb, reason=reason, patience_seconds=patience_seconds)
        finally:
            self.stop_renewing(over)

    def stop_renewing(self, error: DibsError) -> None:
        """Nothing works on the item any more: the claim expires unless it has ended already."""
        self.session.forget(self)
        self.lost_by = self.lost_by or error
        self.lost.set()
        self._run_callbacks()

    @property
    def is_held(self) -> bool:
        return self.outcome is None and not self.lost.is_set() and not self._ending

    @property
    def is_at_deadline(self) -> bool:
        """Whether the claim cannot be extended: it lasts until the item's own deadline for a claim."""
        return self._expires_at >= self._deadline_at

    def record_renewal(self, renewal: Renewal, sent_at: float) -> None:
        with self._lock:
            if renewal.token == self.token and sent_at >= self._sent_at:
                self._set_expiry(sent_at, renewal.remaining_seconds, renewal.expires_at)

    def begin_recovery(self) -> tuple[str, float]:
        """The request id of the recovery, and when it was first sent. Both stay the same until there is an answer, so
        that a repeated request finds the grant whose answer was lost."""
        with self._lock:
            if self._recovery is None:
                self._recovery = randomness.request_id(), clock()
            return self._recovery

    @property
    def is_recovering(self) -> bool:
        return self._recovery is not None

    def recovery_refused(self) -> None:
        self._recovery = None

    def recovered(self, grant: Grant, sent_at: float, *, revives: bool) -> bool:
        """Hold the claim again, and return whether it is held. A handler that saw the loss has stopped, so a lost claim
        comes back only if the handler asked for that: `revives`."""
        with self._lock:
            self._recovery = None
            if self.lost.is_set() and not revives:
                return False
            self._set_claim(grant, sent_at)
            self.lost_by = None
            self.lost.clear()
        if self.token_file is not None:
            token_file.append(self.token_file, self.token)
        return True

    def was_recovered_under(self, token: int) -> bool:
        """Whether a process that works on this program's behalf has recovered the claim under this token."""
        return self.token_file is not None and token in token_file.read(self.token_file)

    def lose(self, error: DibsError, token: int | None = None) -> None:
        """Mark the claim as lost, if it still has this token."""
        with self._lock:
            self._lose(error, token)

    def lose_if_expired(self, now: float) -> None:
        with self._lock:
            if now >= self.safe_until:
                self._lose(self._expired())

    def on_lost(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once the claim is lost, from the thread that notices it; at once if it is lost already. The
        returned function unsubscribes."""
        with self._lock:
            self._callbacks.append(callback)
            is_lost = self.lost.is_set()
        if is_lost:
            callback()
        return lambda: self._callbacks.remove(callback)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _end_run(self, verb: str, **parameters: Any) -> Ended:
        ended: Ended = self._end(verb, **parameters)
        self.outcome, self.item = ended.run.outcome, ended.item
        self.end_reason = "" if self.outcome == "done" else ended.run.reason or ""
        return ended

    def _end(self, verb: str, **parameters: Any) -> Any:
        with self._lock:
            if self.outcome is not None:
                raise ClaimExpired(
                    f"the claim of {self.item.id} has already ended: {self.outcome}",
                    item=self.item.id,
                    token=self.token,
                    how=self.outcome,
                    taken_over_by=None,
                )
            self._ending = True
        try:
            answer = self.session.call_as_holder(self, verb, **parameters)
        except BaseException as error:
            self._ending = False
            if isinstance(error, LOSSES):
                self.lose(error)
            raise
        self.session.forget(self)
        self.lost_by = None
        self.lost.clear()
        return answer

    def _set_claim(self, grant: Grant, sent_at: float) -> None:
        claim = grant.claim
        self.item, self.token, self.ttl_seconds = grant.item, claim.token, claim.ttl_seconds
        self.approval = grant.approval
        self._deadline_at = claim.deadline_at
        self._set_expiry(sent_at, (claim.expires_at - claim.renewed_at) / 1000, claim.expires_at)

    def _set_expiry(self, sent_at: float, seconds: float, expires_at: int) -> None:
        """The claim lasts for `seconds` from its renewal. Counted from before the request was sent, they end too early
        rather than too late."""
        self._sent_at, self._expires_at = sent_at, expires_at
        self.safe_until = sent_at + seconds - min(MARGIN_SECONDS_MAX, MARGIN_SHARE * seconds)

    def _lose(self, error: DibsError, token: int | None = None) -> None:
        if self.is_held and token in (None, self.token):
            self.lost_by = error
            self.lost.set()
            self.session.forget(self)
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        for callback in list(self._callbacks):
            callback()

    def _expired(self) -> ClaimExpired:
        id = self.item.id
        if self.is_at_deadline:
            why, how = f"the claim of {id} reached the item's timeout", "timeout"
        else:
            why, how = f"no heartbeat for {id} got through in time", "unheard"
        return ClaimExpired(
            f"{why}: another session may have the item by now", item=id, token=self.token, how=how, taken_over_by=None
        )


def summary(error: BaseException) -> str:
    """An exception in a line or two: its type, its message, and where it was raised."""
    import traceback

    what = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
    return storable(f"{what}{where}"[:REASON_CHARACTERS_MAX])


def storable(text: str) -> str:
    """The text without characters that some store cannot keep."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()
