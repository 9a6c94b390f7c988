"""Mistakes about sessions that are children of others."""

from __future__ import annotations

import time

from dibs.errors import Invalid
from dibs.model import Sweep
from tests.kit.broken.mistake import Mistake, MistakenTransactions, answers, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.model import Heartbeat, Owner, Session, SessionEnd
    from dibs.store.sql.transaction import Transaction


@caught_by("children", "test_the_parent_must_be_another_live_session")
class TakesAnEndedParent(Mistake):
    def start_session(self, session: Session) -> Session:
        self.raw("UPDATE sessions SET ended_at = NULL WHERE id = :id", id=session.parent)
        return self.inner.start_session(session)


@caught_by("children", "test_a_live_session_keeps_its_parent")
class MovesToAnotherParent(Mistake):
    def start_session(self, session: Session) -> Session:
        try:
            return self.inner.start_session(session)
        except Invalid:
            self.raw("UPDATE sessions SET parent = :parent WHERE id = :id", id=session.id, parent=session.parent)
            return session


@caught_by("children", "test_sessions_are_nested_to_a_bound")
class NestsWithoutEnd(Mistake):
    def start_session(self, session: Session) -> Session:
        started = self.inner.start_session(session.replace(parent=None))
        self.raw("UPDATE sessions SET parent = :parent WHERE id = :id", id=session.id, parent=session.parent)
        return started.replace(parent=session.parent)


@caught_by("children", "test_no_child_outlives_a_parent_that_ends_meanwhile")
class OverlooksANewChild(Mistake):
    """Looks at the parent before, and not when, the child starts."""

    def start_session(self, session: Session) -> Session:
        if session.parent is None:
            return self.inner.start_session(session)
        time.sleep(0.1)
        started = self.inner.start_session(session.replace(parent=None))
        self.raw("UPDATE sessions SET parent = :parent WHERE id = :id", id=session.id, parent=session.parent)
        return started.replace(parent=session.parent)


@caught_by("children", "test_nothing_is_offered_within_a_family_that_ends")
class EndsOneAfterTheOther(Mistake):
    def end_session(self, session: str, **asked: Any) -> SessionEnd:
        children = [view.session.id for view in self.inner.sessions(limit=1000) if view.session.parent == session]
        released: tuple[str, ...] = ()
        for child in children:
            released += self.inner.end_session(child, **asked).released
        end = self.inner.end_session(session, **asked)
        return end.replace(released=end.released + released)


@caught_by("children", "test_each_of_a_family_has_heartbeats_and_limits_of_its_own")
class BeatsForItsChildren(Mistake):
    def heartbeat(self, *, session: str, **asked: Any) -> Heartbeat:
        for view in self.inner.sessions(limit=1000):
            if view.session.parent == session:
                self.inner.heartbeat(session=view.session.id)
        return self.inner.heartbeat(session=session, **asked)


@caught_by("children", "test_children_end_when_the_owner_of_their_parent_dies")
class OverlooksDeadParents(MistakenTransactions):
    """Finds only owners of sessions that hold something themselves."""

    def mistake(self, t: Transaction) -> None:
        dead_owners = t.dead_owners

        def of_holders(among: Iterable[str] | None = None) -> list[tuple[str, Owner]]:
            return [one for one in dead_owners(among) if t.one("items_of_session", session=one[0], limit=1)]

        vars(t)["dead_owners"] = of_holders


@caught_by("children", "test_a_sweep_of_a_dead_family_is_bounded")
class SweepsEachSessionToTheBound(Mistake):
    """Ends as many claims of each session as one sweep may end in all."""

    def sweep(self, *, limit: int) -> Sweep:
        first = self.inner.sweep(limit=limit)
        again = self.inner.sweep(limit=limit)
        return first.replace(owner_died=first.owner_died + again.owner_died)


@caught_by("children", "test_parents_are_exported_and_checked")
class LoadsAnyParent(Mistake):
    def load(self, records: Any) -> int:
        given = list(records)
        count = self.inner.load((kind, {**data, "parent": None} if kind == "session" else data) for kind, data in given)
        for kind, data in given:
            if kind == "session":
                self.raw("UPDATE sessions SET parent = :parent WHERE id = :id", id=data["id"], parent=data["parent"])
        return count


caught("children", "test_a_session_shows_its_parent", hides_the_parent_of_a_holder=answers("who", parent=None))
caught(
    "children",
    "test_children_end_with_their_parent",
    leaves_its_children=before("end_session", "UPDATE sessions SET parent = NULL WHERE parent = :session"),
)
