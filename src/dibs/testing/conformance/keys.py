"""The keys of a server's callers: one is replaced by another, which acts for its sessions, and their use is noted."""

from __future__ import annotations

from dibs import api_keys
from dibs.errors import Forbidden, Invalid
from dibs.testing.conformance.asking import TTL_SECONDS, expire, refused
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


class TestKeys:
    def test_a_key_is_replaced_by_one_of_its_line(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        first, _ = board.create_key("agent", agent="coder", name="night runs")
        second, secret = board.rotate_key(first.id, grace_seconds=TTL_SECONDS)
        assert secret is not None
        assert (second.role, second.agent, second.name, second.line) == ("agent", "coder", "night runs", first.id)
        assert board.store.find_key(first.id) is not None, "so that its holder can be given the new one"
        expire(harness)
        assert board.store.find_key(first.id) is None
        assert board.store.find_key(second.id) is not None
        board.revoke_key(second.id)
        third, _ = board.rotate_key(second.id, seconds=TTL_SECONDS, grace_seconds=0)
        assert third.line == first.id
        assert third.expires_at == harness.clock.now() + TTL_SECONDS * 1000
        soon, _ = board.create_key("agent", seconds=TTL_SECONDS)
        board.rotate_key(soon.id, grace_seconds=10 * TTL_SECONDS)
        expire(harness)
        assert board.store.find_key(soon.id) is None, "it does not last longer than it would have"
        refused(Invalid, board.rotate_key, "nobody")

    def test_the_very_same_successor_is_kept_once(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        first, _ = board.create_key("agent", agent="coder")
        own, _ = api_keys.new("agent", None)
        made, secret = board.rotate_key(first.id, id=own.id, digest=own.digest)
        assert secret is None
        assert other.rotate_key(first.id, id=own.id, digest=own.digest) == (made, None)
        there = board.keys()
        assert len([key for key in there if key.line == first.id]) == 1

    def test_a_session_belongs_to_the_keys_of_a_line(self, harness: Harness) -> None:
        board = harness.board()
        if board.store.waits:
            return  # its server says whose session it is
        first, _ = board.create_key("agent", agent="coder")
        second, _ = board.rotate_key(first.id, grace_seconds=60)
        board.revoke_key(first.id)
        board.start_session("coder", id="night", key=first.id)
        board.end_session("night")
        stranger, _ = board.create_key("agent", agent="coder")
        refused(Forbidden, board.start_session, "coder", id="night", key=stranger.id)
        board.revoke_key(second.id)
        assert board.start_session("coder", id="night", key=stranger.id).key == stranger.id

    def test_the_use_of_a_key_is_noted_once_an_hour(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        key, _ = board.create_key("viewer")
        if board.store.waits:
            return  # its server notes it
        assert used_at(board, key.id) is None
        board.store.note_key_use(key.id)
        first = used_at(board, key.id)
        assert first == harness.clock.now()
        harness.clock.advance(3599)
        board.store.note_key_use(key.id)
        assert used_at(board, key.id) == first
        harness.clock.advance(1)
        board.store.note_key_use(key.id)
        assert used_at(board, key.id) == harness.clock.now()


def used_at(board: Board, id: str) -> int | None:
    there = board.keys()
    return next(key.last_used_at for key in there if key.id == id)
