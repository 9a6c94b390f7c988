"""The verbs of sessions: claims, heartbeats, ends of runs, and queues."""

from __future__ import annotations

import time

from dibs import check
from dibs.board import base
from dibs.board.base import BoardBase
from dibs.errors import Invalid, ItemAlreadyClaimed, ItemNotClaimable, StoreUnavailable
from dibs.model import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from dibs.model import Ended, Finished, Grant, Heartbeat, Reason, Renewal, SoftClaim, Waiting


class WorkVerbs(BoardBase):
    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        on_wait: Callable[[Waiting], None] | None = None,
        request_id: str | None = None,
    ) -> Grant:
        """Claim by id. The claim of a dead owner process is ended first.

        With `wait_seconds`, queue for an item that cannot be claimed now, and claim it when it is offered; `on_wait` is
        called with the session's position. The ticket is closed when the time is up or an exception interrupts.
        """
        item = check.item(item)
        given: dict[str, Any] = {"session": check.session_id(session), "agent": agent}
        given |= {"ttl_seconds": ttl_seconds, "request_id": request_id}

        def claim() -> Grant:
            return self._call(self.store.claim, item, **given)

        return self._claim_or_wait(claim, given["session"], item, wait_seconds, on_wait)

    def claim_subject(
        self,
        subject: str,
        *,
        session: str,
        title: str | None = None,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        on_wait: Callable[[Waiting], None] | None = None,
        request_id: str | None = None,
        **fields: Any,
    ) -> Grant:
        """Claim the item of this subject, which is added if there is none. `title` (the subject, unless given) and
        `fields`, those of `NewItem`, are for a new item. `wait_seconds` and `on_wait` are as in `claim`."""
        from dibs.board import subjects

        asked = subjects.checked(subject, title, fields, session, agent, ttl_seconds, request_id)

        def claim() -> Grant:
            return self.store.claim_subject(**asked)

        return self._claim_or_wait(claim, asked["session"], None, wait_seconds, on_wait)

    def _claim_or_wait(
        self,
        claim: Callable[[], Grant],
        session: str,
        item: str | None,
        wait_seconds: float,
        on_wait: Callable[[Waiting], None] | None,
    ) -> Grant:
        """Call `claim`. With `wait_seconds`, queue for the item, by default the one that the refusal names."""
        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        if on_wait is not None and not callable(on_wait):
            raise Invalid("on_wait must be a function of a Waiting", field="on_wait")

        try:
            return claim()
        except (ItemAlreadyClaimed, ItemNotClaimable) as error:
            item = item or error.facts.get("item")
            if not wait_seconds or item is None or error.facts.get("status") in ENDED:
                raise
        from dibs.sdk import waiting

        place = (self.store, item, session, claim, wait_seconds, on_wait)
        if self.store.waits:
            return waiting.claim_from_server(*place, self.wait)
        return waiting.claim_in_turn(*place, self._watch(session), self.settings.accept_seconds, self.reap_dead_owners)

    def hand(
        self,
        item: str,
        *,
        to: str,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        ttl_seconds: float | None = None,
        request_id: str | None = None,
    ) -> Grant:
        """Hand the claim over to the live session `to`, under a new token; `ttl_seconds` is that of its claim."""
        parameters: dict[str, Any] = {"token": token, "reason": reason, "ttl_seconds": ttl_seconds}
        parameters |= {"to": check.name(to, "to"), "session": check.session_id(session)}
        return self._call(self.store.hand, item, **parameters, request_id=request_id)

    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request_id: str | None = None,
    ) -> Grant:
        parameters: dict[str, Any] = {"session": check.session_id(session), "token": token, "ttl_seconds": ttl_seconds}
        return self._call(self.store.recover, item, **parameters, request_id=request_id)

    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Iterable[str] = (),
        projects: Iterable[str] = (),
        labels: Iterable[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        done: Mapping[str, int] | None = None,
        request_id: str | None = None,
    ) -> tuple[Grant, ...]:
        """Claim the best items for this session that have all of `labels`. With `wait_seconds`, block until there is
        one or the time is up.

        `done` maps items that the session has finished to their tokens: all of them or none end as done in the same
        transaction, before the search.
        """
        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        wanted = {"types": types, "projects": projects, "labels": labels, "n": n, "ttl_seconds": ttl_seconds}
        finished = {} if done is None else check.finished(done)
        checked = self._checked(
            self.store.next,
            (),
            request_id,
            {"session": check.session_id(session), "agent": agent, **wanted, "done": finished},
        )
        grants = self.store.next(**checked)
        if grants or wait_seconds <= 0:
            return grants
        del checked["done"]
        end = time.monotonic() + wait_seconds
        if self.store.waits:
            try:
                return _until(end, lambda left: self.store.next_in_time(left, **checked))
            except StoreUnavailable as error:
                if request_id is None and error.facts.get("outcome") == "unknown":
                    raise  # an item may have been granted: another call could claim more
                # This process watches instead; an error that persists then reaches the caller.
        return self._wait_for(lambda: self.store.next(**checked), end)

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Heartbeat:
        """Renew the claims of a session; with `holding`, release those not in it. `known_event` is the `event` of an
        earlier answer, so that a late heartbeat does not release newer claims. With `at_most_every_seconds`, a claim
        that was renewed less than that ago is left as it is. `meta` is merged into the session's (null removes a name),
        by a heartbeat that renews something or whose session holds nothing."""
        if known_event is not None and holding is None:
            raise Invalid("known_event requires holding", field="known_event")
        found = check.optional_object(meta, "meta", check.META_BYTES_MAX)
        changes: dict[str, Any] = {"meta": found} if found else {}
        return self._call(
            self.store.heartbeat,
            session=check.session_id(session),
            holding=holding,
            known_event=known_event,
            at_most_every_seconds=at_most_every_seconds,
            **changes,
        )

    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        return self._call_as_holder(
            self.store.renew,
            item,
            session=session,
            token=token,
            ttl_seconds=ttl_seconds,
            at_most_every_seconds=at_most_every_seconds,
        )

    def progress(
        self,
        item: str,
        note: str,
        *,
        session: str,
        token: int | None = None,
        meta: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Renewal:
        parameters: dict[str, Any] = {
            "token": token,
            "note": check.text(note, "note", check.NOTE_BYTES_MAX),
            "meta": meta,
        }
        return self._call_as_holder(
            self.store.progress, item, session=session, recover=recover, request_id=request_id, **parameters
        )

    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        parameters: dict[str, Any] = {"token": token, "reason": reason, "park": park}
        return self._call_as_holder(self.store.release, item, session=session, request_id=request_id, **parameters)

    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        """End the item as done. With `recover`, also if the claim expired and no other session claimed the item."""
        parameters: dict[str, Any] = {"token": token, "note": note, "links": links, "cost": cost}
        return self._call_as_holder(
            self.store.done, item, session=session, recover=recover, request_id=request_id, **parameters
        )

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request_id: str | None = None) -> Finished:
        """`done` for each item, given with its token (None: not known), in one transaction. An item that cannot be done
        is answered as lost; an expired claim is not recovered."""
        parameters: dict[str, Any] = {"holding": check.holding(holding), "session": check.session_id(session)}
        return self._call(self.store.done_many, **parameters, request_id=request_id)

    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        parameters: dict[str, Any] = {"token": token, "reason": reason, "links": links, "cost": cost}
        return self._call_as_holder(
            self.store.fail, item, session=session, recover=recover, request_id=request_id, **parameters
        )

    def submit(
        self,
        item: str,
        *,
        session: str,
        draft: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        """End the run with a draft for a person to approve."""
        parameters: dict[str, Any] = {
            "token": token,
            "draft": check.text(draft, "draft"),
            "note": note,
            "links": links,
            "cost": cost,
        }
        return self._call_as_holder(
            self.store.submit, item, session=session, recover=recover, request_id=request_id, **parameters
        )

    # Waiting for one item

    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None, wait_seconds: float = 0) -> Waiting:
        """Take a ticket in the item's queue, or renew it. With `wait_seconds`, answer when it gets an offer or another
        position, or when the time is up."""
        item, session, ttl_seconds = check.item(item), check.session_id(session), check.ttl_seconds(ttl_seconds)
        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)

        def ticket() -> Waiting:
            return self.store.wait(item, session=session, ttl_seconds=ttl_seconds)

        if not wait_seconds:
            return ticket()
        if self.store.waits:
            try:
                return self.store.wait_in_time(wait_seconds, item, session=session, ttl_seconds=ttl_seconds)
            except StoreUnavailable:
                pass  # this process watches instead; an error that persists then reaches the caller
        from dibs.sdk import waiting

        return waiting.wait_for_change(self.store, self.watch(), ticket, wait_seconds, self.reap_dead_owners)

    def leave(self, item: str, *, session: str, request_id: str | None = None) -> Waiting:
        return self._call(self.store.leave, item, session=check.session_id(session), request_id=request_id)

    def ticket(self, item: str, *, session: str) -> Waiting:
        return self._call(self.store.ticket, item, session=check.session_id(session))

    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        return self._call(self.store.soft_claim, item, session=check.session_id(session), ttl_seconds=ttl_seconds)

    def soft_release(self, item: str, *, session: str, request_id: str | None = None) -> SoftClaim:
        return self._call(self.store.soft_release, item, session=check.session_id(session), request_id=request_id)

    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        """Every reason that keeps the item from this session (or from a new session of this agent, or of any agent), or
        why `claim` and `next` would give it."""
        return self._call(self.store.why, item, session=session, agent=agent)

    def _wait_for(self, look: Callable[[], tuple[Grant, ...]], end: float) -> tuple[Grant, ...]:
        """Call `look` after each change and when a step is due, until it returns grants or the time is up."""
        watch = self.watch()
        reaped = time.monotonic()
        try:
            while True:
                # The first look comes after the watch was opened, so that no change is missed.
                grants = look()
                left = end - time.monotonic()
                if grants or left <= 0:
                    return grants
                due = self.store.due_seconds()
                pause = base.OWNER_LOOK_SECONDS
                woken = watch.wait(min(left, pause if due is None else min(due, pause)))
                # After a wake-up, look first: reaping can wait.
                if not woken or time.monotonic() - reaped > pause:
                    self.reap_dead_owners()
                    reaped = time.monotonic()
        finally:
            watch.close()


def _until(end: float, look: Callable[[float], tuple[Grant, ...]]) -> tuple[Grant, ...]:
    """Call `look` with the time left until it returns grants or the time is up."""
    while (left := end - time.monotonic()) > 0:
        grants = look(left)
        if grants:
            return grants
    return ()
