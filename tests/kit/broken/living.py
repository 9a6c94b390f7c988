"""Mistakes about who is alive, who waits, and what survives."""

from __future__ import annotations

import json
import threading
import time

from dibs.errors import AgentAtCapacity, DibsError, Invalid, ResourceBusy, StoreUnavailable
from dibs.model import Ended, Owner
from dibs.rules.sessions import KEPT_PREFIXES, WAS_SILENT, is_silent
from dibs.store.sql import rows
from dibs.store.sql.session_verbs import find_session
from dibs.store.sqlite.sweep import sweep
from dibs.system import owner
from tests.kit.broken.mistake import Mistake, MistakenTransactions, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Grant, Heartbeat, Renewal, Session, SessionEnd, Sweep
    from dibs.store.contract import Store
    from dibs.store.sql.transaction import Transaction


class Misjudges(MistakenTransactions):
    """Shows owners otherwise than they are; a verdict on what was shown is taken for one on the true owner."""

    def shown(self, true: Owner, boot_id: str, pid_namespace: int) -> Owner:
        raise NotImplementedError

    def mistake(self, t: Transaction) -> None:
        def dead_owners(among: object = None) -> list[tuple[str, Owner]]:
            sessions = map(rows.session, t.all("list_sessions", ended=False, limit=1000))
            true = {session.id: session.owner for session in sessions if session.owner is not None}
            dead = owner.dead(lambda *here: [(id, self.shown(one, *here)) for id, one in true.items()])
            return [(id, true[id]) for id, _ in dead]

        vars(t)["dead_owners"] = dead_owners


@caught_by("sessions")
class JudgesFromAnotherNamespace(Misjudges):
    def shown(self, true: Owner, boot_id: str, pid_namespace: int) -> Owner:
        return true.replace(boot_id=boot_id, pid_namespace=pid_namespace)


@caught_by("sessions")
class JudgesByPidAlone(Misjudges):
    """Takes whoever has the pid now for the owner."""

    def shown(self, true: Owner, boot_id: str, pid_namespace: int) -> Owner:
        start = owner._start_time(true.pid)
        return true if start is None else true.replace(start_time=start)


@caught_by("sessions")
class BuriesTheNewOwner(Mistake):
    """Does not ask whether the owner that was found dead still is the session's."""

    def sweep(self, *, limit: int) -> Sweep:
        store: Any = self.inner
        dead = store.read(lambda t: t.dead_owners())

        def end(t: Transaction) -> Sweep:
            sessions = [find_session(t, session) for session, _ in dead]
            return sweep(t, dead=[(one.id, one.owner) for one in sessions if one and one.owner], limit=limit)

        swept: Sweep = store.write(end)
        return swept


class OverlooksTheDead(Mistake):
    """After a refusal of this kind nobody seems to have died."""

    refusal: type[DibsError]
    _overlooks = False

    def __init__(self, inner: Store, raw: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(inner, raw)
        self._write, self._reap = inner.write, inner.reap_dead_owners  # type: ignore[attr-defined]
        vars(inner).update(write=self._noting_refusals, reap_dead_owners=self._reap_unless_refused)

    def _noting_refusals(self, *how: Any) -> Any:
        try:
            return self._write(*how)
        except self.refusal:
            self._overlooks = True
            raise

    def _reap_unless_refused(self) -> bool:
        overlooks, self._overlooks = self._overlooks, False
        return not overlooks and self._reap()


@caught_by("dead_owners")
class OverlooksDeadHoldersOfResources(OverlooksTheDead):
    refusal = ResourceBusy


@caught_by("dead_owners")
class OverlooksDeadHoldersOfRoom(OverlooksTheDead):
    refusal = AgentAtCapacity


@caught_by("dead_owners")
class OverlooksDeadHoldersWhenEditing(OverlooksTheDead):
    refusal = Invalid


@caught_by("sessions")
class EndKeepsClaims(Mistake):
    """The end of a session leaves its items in progress."""

    def end_session(self, session: str, **asked: Any) -> SessionEnd:
        held = {line.item.id: line for line in self.inner.who() if line.claim and line.claim.session == session}
        end = self.inner.end_session(session, **asked)
        for item in held:
            self.raw("UPDATE items SET status = 'in_progress' WHERE id = :item", item=item)
        return end


@caught_by("sessions")
class TakesOthersSessions(Mistake):
    def start_session(self, session: Session) -> Session:
        for known in self.inner.sessions(limit=1000):
            if known.session.id == session.id:
                return known.session.replace(agent=session.agent)
        return self.inner.start_session(session)


@caught_by("sessions", "test_an_ended_session_stays_its_agents")
class TakesOthersEndedSessions(Mistake):
    def start_session(self, session: Session) -> Session:
        self.raw(
            "UPDATE sessions SET agent = :agent WHERE id = :id AND ended_at IS NOT NULL",
            id=session.id,
            agent=session.agent,
        )
        return self.inner.start_session(session)


@caught_by("sessions", "test_what_a_live_session_says_of_itself_anew_replaces_what_it_said")
class KeepsTheFirstMeta(Mistake):
    def start_session(self, session: Session) -> Session:
        known = self.inner.find_session(session.id)
        goes_on = known is not None and known.ended_at is None
        return self.inner.start_session(session.replace(meta={}) if goes_on else session)


@caught_by("sessions", "test_what_a_live_session_says_of_itself_anew_replaces_what_it_said")
class AddsToTheMeta(Mistake):
    def start_session(self, session: Session) -> Session:
        known = self.inner.find_session(session.id)
        before = {} if known is None or not session.meta else known.meta
        return self.inner.start_session(session.replace(meta={**before, **session.meta}))


@caught_by("sessions", "test_what_a_live_session_says_of_itself_anew_replaces_what_it_said")
class TakesSilenceForNothing(Mistake):
    """Who starts a session again and says nothing of it takes back what was said."""

    def start_session(self, session: Session) -> Session:
        started = self.inner.start_session(session)
        if not session.meta:
            self.raw("UPDATE sessions SET meta = '{}' WHERE id = :id", id=session.id)
        return started.replace(meta=session.meta)


class Beats(Mistake):
    """Does something else with what a heartbeat says of its session."""

    def heartbeat(self, *, meta: dict[str, Any] | None = None, **asked: Any) -> Heartbeat:
        return self.beat(meta, asked) if meta else self.inner.heartbeat(**asked)

    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        raise NotImplementedError

    def put(self, session: str, meta: dict[str, Any]) -> None:
        self.raw("UPDATE sessions SET meta = :meta WHERE id = :id", id=session, meta=json.dumps(meta))

    def known(self, session: str) -> dict[str, Any]:
        found = self.inner.find_session(session)
        return {} if found is None else found.meta


@caught_by("heartbeats", "test_a_heartbeat_merges_meta_into_the_sessions")
class ReplacesMetaWithEachBeat(Beats):
    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        beat = self.inner.heartbeat(**asked, meta=meta)
        self.put(asked["session"], meta)
        return beat


@caught_by("heartbeats", "test_a_heartbeat_merges_meta_into_the_sessions")
class KeepsNullInMeta(Beats):
    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        beat = self.inner.heartbeat(**asked, meta=meta)
        self.put(asked["session"], {**self.known(asked["session"]), **meta})
        return beat


@caught_by("heartbeats", "test_meta_that_would_be_too_large_is_refused_and_nothing_is_renewed")
class RenewsBeforeItLooksAtMeta(Beats):
    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        self.inner.heartbeat(**asked)
        return self.inner.heartbeat(**asked, meta=meta)


@caught_by("heartbeats", "test_meta_is_stored_by_a_heartbeat_that_renews")
class StoresMetaAllTheTime(Beats):
    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        beat = self.inner.heartbeat(**asked)
        self.put(asked["session"], {**self.known(asked["session"]), **meta})
        return beat


@caught_by("heartbeats", "test_meta_of_a_session_without_claims_is_stored_at_the_same_interval")
class SeesASessionWithoutStoringItsMeta(Beats):
    """Each beat puts off the next that stores something."""

    def beat(self, meta: dict[str, Any], asked: dict[str, Any]) -> Heartbeat:
        beat = self.inner.heartbeat(**asked, meta=meta)
        self.inner.heartbeat(session=asked["session"])
        return beat


class Deaf:
    """A watch that hears nothing, and says so when the time is up."""

    def wait(self, timeout_seconds: float) -> bool:
        time.sleep(timeout_seconds)
        return False

    def close(self) -> None:
        pass


class Nervous(Deaf):
    """A watch that hears something all the time."""

    def wait(self, timeout_seconds: float) -> bool:
        time.sleep(0.001)
        return True


@caught_by("waiting", "test_a_waiter_is_woken_by_an_add")
class NeverWakes(Mistake):
    def watch(self, *, session: str | None = None) -> Deaf:
        return Deaf()


@caught_by("waiting", "test_a_waiter_does_not_ask_over_and_over")
class AsksOverAndOver(Mistake):
    def watch(self, *, session: str | None = None) -> Nervous:
        return Nervous()


@caught_by("waiting", "test_a_waiter_gets_what_expires_while_it_waits")
class KnowsNoDueTime(Mistake):
    def due_seconds(self, item: str | None = None) -> float | None:
        return None


@caught_by("crash", "test_each_verb_acknowledged_as_the_last_survives")
class AnswersBeforeItWrites(Mistake):
    """Says done, and does it when it is next asked something."""

    later: Callable[[], object] | None = None

    def done(self, item: str, **asked: Any) -> Ended:
        detail = self.inner.get(item)
        if detail.claim is None or detail.claim.session != asked["session"]:
            return self.inner.done(item, **asked)
        self.later = lambda: self.inner.done(item, **asked)
        return Ended(item=detail.item.replace(status="done"), run=detail.runs[0].replace(outcome="done"))

    def __getattr__(self, name: str) -> Any:
        later, self.later = self.later, None
        if later is not None:
            later()
        return getattr(self.inner, name)


@caught_by("crash", "test_a_gust_of_kills_leaves_a_sound_board")
class EndsInTwoSteps(Mistake):
    """Writes the end of a run beside, not with, the change of the item: a kill comes between."""

    def done(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.done(item, **asked)
        self.raw("UPDATE items SET status = 'in_progress' WHERE id = :item", item=item)
        time.sleep(0.002)
        self.raw("UPDATE items SET status = 'done' WHERE id = :item", item=item)
        return ended


@caught_by("interruptions", "test_an_interrupted_verb_is_done_once_or_not_at_all")
class RedoesWhatWasInterrupted(Mistake):
    """Takes an interrupt for proof that nothing was done."""

    def progress(self, item: str, **asked: Any) -> Renewal:
        try:
            return self.inner.progress(item, **asked)
        except KeyboardInterrupt:
            self.inner.progress(item, **asked)
            raise


@caught_by("interruptions", "test_an_interrupted_verb_that_is_asked_again_is_done_once")
class KeepsItsLockWhenInterrupted(Mistake):
    """Releases what it holds only if nothing comes in between."""

    _lock = threading.Lock()

    def start_session(self, session: Session) -> Session:
        self._acquire()
        started = self.inner.start_session(session)
        self._lock.release()
        return started

    def claim(self, item: str, **asked: Any) -> Grant:
        self._acquire()
        grant = self.inner.claim(item, **asked)
        self._lock.release()
        return grant

    def _acquire(self) -> None:
        if not self._lock.acquire(timeout=1):
            raise StoreUnavailable("somebody has the lock")


@caught_by("interruptions", "test_an_interrupted_verb_that_is_asked_again_is_done_once")
class KeepsAnswersAfterwards(Mistake):
    """Keeps the answer of a request once the verb is done, and not together with it."""

    _answers: dict[str, Renewal] = {}

    def progress(self, item: str, **asked: Any) -> Renewal:
        request = asked.pop("request", None)
        if request is not None and request.id in self._answers:
            return self._answers[request.id]
        renewal = self.inner.progress(item, **asked)
        if request is not None:
            self._answers[request.id] = renewal
        return renewal


@caught_by("sessions")
class EndsWhoIsSilentWhateverItHolds(Mistake):
    """Also a session with a claim, a ticket or a live child."""

    def end_silent(self, *, limit: int) -> tuple[str, ...]:
        silent = [one.session for one in self.inner.sessions(limit=limit) if is_silent(one.session, self._latest_at())]
        for one in silent:
            self.inner.end_session(one.id, reason=WAS_SILENT)
        return tuple(one.id for one in silent)

    def _latest_at(self) -> int:
        return self.inner.view().at


@caught_by("sessions")
class ForgetsWhoFoundNothing(Mistake):
    """A session whose `next` finds nothing ends after a day, whatever it asks."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        before = {one.session.id: one.session.seen_at for one in self.inner.sessions(limit=1000)}
        found: tuple[Grant, ...] = self.inner.next(**asked)
        if not found:
            self.raw(
                "UPDATE sessions SET seen_at = :at WHERE id = :id", at=before[asked["session"]], id=asked["session"]
            )
        return found


@caught_by("sessions")
class SweepsWithoutMovingOn(Mistake):
    """What `end_silent` keeps takes the places of what it could end."""

    def end_silent(self, *, limit: int) -> tuple[str, ...]:
        kept = [one for one in self.inner.sessions(limit=1000) if one.session.id.startswith(KEPT_PREFIXES)]
        ended: tuple[str, ...] = self.inner.end_silent(limit=limit - len(kept)) if limit > len(kept) else ()
        return ended
