"""Keeps the claims of a session alive: heartbeats renew them, expired ones are recovered or marked as lost."""

from __future__ import annotations

import contextlib

from dibs.errors import DibsError, ItemNotClaimable, SessionNotFound, StoreUnavailable
from dibs.sdk.claim_handle import LOSSES
from dibs.sdk.heartbeat import RETRY_SECONDS, HeartbeatLoop, ReportGate, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Grant
    from dibs.sdk.claim_handle import ClaimHandle

#: A claim is renewed at least this many times before it would expire.
HEARTBEATS_A_CLAIM = 3


class ClaimKeeper:
    def __init__(self, board: Board, session: str, *, recovers: bool) -> None:
        self._board, self._session, self._recovers = board, session, recovers
        self._claims: dict[str, ClaimHandle] = {}
        #: Whether a heartbeat was answered, and the latest event that the answer named.
        self._was_answered = False
        self._known_event: int | None = None
        self._stopped_by: DibsError | None = None
        #: Whether the board has ended the session.
        self.is_session_gone = False
        self._reap_dead_owners()
        self.heartbeat = HeartbeatLoop(self._beat, self._lose_expired, self._first_expiry)
        self.gate = self._new_gate()
        self.heartbeat.start(board.settings.heartbeat_seconds)

    @property
    def claims(self) -> tuple[ClaimHandle, ...]:
        return tuple(handle for handle in list(self._claims.values()) if handle.is_held)

    def keep(self, handle: ClaimHandle, grant: Grant) -> None:
        self._claims[grant.item.id] = handle
        lasts_seconds = (grant.claim.expires_at - grant.claim.renewed_at) / 1000
        self.heartbeat.beat_within(min(self._board.settings.heartbeat_seconds, lasts_seconds / HEARTBEATS_A_CLAIM))
        if self._stopped_by is not None:
            handle.lose(self._stopped_by)

    def find(self, grant: Grant) -> ClaimHandle | None:
        """The handle of this very claim, if it is held."""
        known = self._claims.get(grant.item.id)
        return known if known is not None and known.token == grant.claim.token and known.is_held else None

    def forget(self, handle: ClaimHandle) -> None:
        if self._claims.get(handle.item.id) is handle:
            self._claims.pop(handle.item.id, None)

    def stop(self, error: DibsError) -> None:
        """Renew nothing any more. The error is why every claim is lost."""
        self._stopped_by = error
        self.heartbeat.stop()
        for handle in self.claims:
            handle.lose(error)

    def after_fork_in_child(self) -> None:
        self.gate = self._new_gate()
        for handle in self._claims.values():
            handle.after_fork()

    def renew_or_lose(self, *, has_threads: bool) -> None:
        if has_threads:
            self.heartbeat.try_to_renew()
        self._lose_expired(clock())

    def recover(self, handle: ClaimHandle, token: int, *, revives: bool = False) -> None:
        request_id, sent_at = handle.begin_recovery()
        try:
            grant = self._board.recover(
                handle.item.id,
                session=self._session,
                token=token,
                ttl_seconds=handle.ttl_seconds,
                request_id=f"{request_id}-{token}",
            )
        except StoreUnavailable:
            raise
        except DibsError:
            handle.recovery_refused()
            raise
        if handle.recovered(grant, sent_at, revives=revives):
            self.keep(handle, grant)

    def successor(self, handle: ClaimHandle, refusal: DibsError) -> int | None:
        """The token to recover from, if this session itself has recovered the claim already: a command that works on
        its behalf did, or the heartbeat thread, whose answer has not arrived yet. None if another session has it."""
        by = refusal.facts.get("taken_over_by") or {}
        if by.get("session") != self._session:
            return None
        if handle.token == by["token"] or handle.was_recovered_under(by["token"]):
            return int(by["token"])
        return handle.token if handle.is_recovering else None

    def _new_gate(self) -> ReportGate:
        return ReportGate(lambda: self.heartbeat.beat_within(0))

    def _lose_expired(self, now: float) -> None:
        for handle in self.claims:
            handle.lose_if_expired(now)

    def _first_expiry(self) -> float | None:
        return min((handle.safe_until for handle in self.claims), default=None)

    def _beat(self) -> float:
        with self.gate.reporting() as may_report:
            holding = known_event = None
            # This heartbeat may arrive late. It must release only claims that are older than an event that an earlier
            # answer named.
            if may_report and self._was_answered:
                holding = {handle.item.id: handle.token for handle in list(self._claims.values())}
                known_event = self._known_event
            held = {handle: handle.token for handle in self.claims}
            sent_at = clock()
            try:
                answer = self._board.heartbeat(session=self._session, holding=holding, known_event=known_event)
            except SessionNotFound as error:
                self.is_session_gone = True
                for handle in self.claims:
                    handle.lose(error)
                raise
        self._was_answered, self._known_event = True, answer.event
        renewed = {(renewal.item, renewal.token): renewal for renewal in answer.renewed}
        missing = []
        for handle, token in held.items():
            renewal = renewed.get((handle.item.id, token))
            if renewal is None:
                missing.append((handle, token))
            else:
                handle.record_renewal(renewal, sent_at)
        for handle, token in missing:
            self._recover_or_lose(handle, token)
        self._reap_dead_owners()
        are_all_known = renewed.keys() <= {(handle.item.id, token) for handle, token in held.items()}
        # A claim whose grant was lost on the way is released by the next report, which follows soon.
        return answer.heartbeat_seconds if are_all_known else min(answer.heartbeat_seconds, RETRY_SECONDS)

    def _reap_dead_owners(self) -> None:
        """A session that always finds items never waits, and would never notice that owners of other claims died."""
        with contextlib.suppress(StoreUnavailable):
            self._board.reap_dead_owners()

    def _recover_or_lose(self, handle: ClaimHandle, token: int) -> None:
        """The claim was not renewed: it has expired, or its handler ended it meanwhile."""
        if handle.token != token or not handle.is_held:
            return
        sent_at = clock()
        try:
            if self._recovers and not handle.is_at_deadline:
                self.recover(handle, token)
            else:
                handle.record_renewal(self._board.renew(handle.item.id, session=self._session, token=token), sent_at)
        except (*LOSSES, ItemNotClaimable) as refusal:
            successor = self.successor(handle, refusal)
            try:
                if successor is None:
                    raise
                self.recover(handle, successor)
            except (*LOSSES, ItemNotClaimable):
                handle.lose(refusal, token)
