"""Mistakes in replacing the keys of a server's callers, and in noting their use."""

from __future__ import annotations

from dibs.errors import Invalid
from tests.kit.broken.mistake import Mistake, asks, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Key, Session


@caught_by("keys", "test_a_key_is_replaced_by_one_of_its_line")
class LineOfTheLastKeyOnly(Mistake):
    """The successor of a successor does not act for the sessions of the first key."""

    def rotate_key(self, id: str, key: Key, **asked: Any) -> Key:
        made: Key = self.inner.rotate_key(id, key, **asked)
        self.raw("UPDATE keys SET line = :line WHERE id = :id", line=id, id=made.id)
        return made.replace(line=id)


@caught_by("keys", "test_the_very_same_successor_is_kept_once")
class RefusesTheSameSuccessor(Mistake):
    def rotate_key(self, id: str, key: Key, **asked: Any) -> Key:
        there = self.inner.keys()
        if any(known.id == key.id for known in there):
            raise Invalid("there is such a key")
        made: Key = self.inner.rotate_key(id, key, **asked)
        return made


@caught_by("keys", "test_a_session_belongs_to_the_keys_of_a_line")
class FreesSessionsOfAReplacedKey(Mistake):
    """Asks whether the first key is valid, and not whether one of its line is."""

    def start_session(self, session: Session, **asked: Any) -> Session:
        known = self.inner.find_session(session.id)
        if known is not None and known.key is not None and self.inner.find_key(known.key) is None:
            self.raw("UPDATE sessions SET key = :key WHERE id = :id", key=session.key, id=session.id)
        started: Session = self.inner.start_session(session, **asked)
        return started


@caught_by("keys", "test_the_use_of_a_key_is_noted_once_an_hour")
class NotesEveryUse(Mistake):
    def note_key_use(self, id: str) -> None:
        self.raw("UPDATE keys SET last_used_at = NULL WHERE id = :id", id=id)
        self.inner.note_key_use(id)


caught(
    "keys",
    "test_a_key_is_replaced_by_one_of_its_line",
    leaves_the_replaced_key_valid=asks("rotate_key", grace_seconds=1000000000.0),
)
