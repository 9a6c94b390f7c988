"""The part of the state machine that is about subjects: one subject, one item, whoever asks for it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.kit.machine.driving import Driven, items, sessions, ttls
from tests.kit.machine.items import ITEMS_MAX

subjects = st.sampled_from(("github:acme/shop#1", "github:acme/shop#2", "https://example.org/3"))


class Subjects(Driven):
    @rule(subject=subjects, session=sessions, ttl_seconds=ttls)
    def claim_subject(self, subject: str, session: str, ttl_seconds: float | None) -> None:
        if not self._has_room_for(subject):
            return
        new = self.both.new_id()

        def claim() -> tuple[str, int]:
            grant = self.other.claim_subject(subject, id=new, title=new, session=session, ttl_seconds=ttl_seconds)
            return grant.item.id, grant.claim.token

        self.agree(
            "claim_subject", lambda: self.model.claim_subject(subject, session, ttl_seconds, new), claim, told=True
        )

    @rule(subject=subjects)
    def add_with_subject(self, subject: str) -> None:
        if not self._has_room_for(subject):
            return
        new = self.both.new_id()
        self.agree(
            "add",
            lambda: self.model.add(new, subject=subject),
            lambda: self.board.add(new, id=new, subject=subject).id,
            told=True,
        )

    @rule(item=items, subject=st.none() | subjects)
    def edit_subject(self, item: int, subject: str | None) -> None:
        id = self.both.item(item)
        self.agree("edit", lambda: self.model.edit(id, subject=subject), lambda: self.board.edit(id, subject=subject))

    def _has_room_for(self, subject: str) -> bool:
        return len(self.model.items) < ITEMS_MAX or self.model.of_subject(subject) is not None
