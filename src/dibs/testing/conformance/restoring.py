"""Backup and restore: the board comes back, and no token that was given before is valid."""

from __future__ import annotations

import json
import os

from dibs.board import files
from dibs.errors import DibsError, Forbidden, Invalid, SessionNotFound
from dibs.testing import sizes
from dibs.testing.conformance.asking import added, ids, refused, session, whole
from dibs.testing.conformance.used_board import finished, refused_all
from dibs.testing.harness import Harness
from dibs.testing.history import read_feed
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

CHURNERS, CALLS, ITEMS = 4, 150, 30
#: Far more than a batch of pruning takes; a prune in one piece takes longer.
CLAIM_SECONDS_MAX = 2.0


class TestRestoring:
    def test_a_restored_board_is_the_one_that_was_backed_up(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        finished(board, "done")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        added(board, "later")
        board.cancel("x")
        assert board.restore(path) == 2
        assert {item.id: item.status for item in board.list()} == {"x": "ready", "y": "ready", "done": "done"}
        assert board.get("x").item.title == "do x"
        assert_sound(board)

    def test_a_backup_overwrites_nothing_and_what_is_no_backup_is_not_restored(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        refused(Invalid, board.backup, path)
        refused(Invalid, board.restore, path + "-nowhere")
        nonsense = os.path.join(harness.folder, "nonsense")
        with open(nonsense, "wb") as file:
            file.write(b"no board at all" * 1000)
        before = whole(board, "x")
        try:
            board.restore(nonsense)
        except DibsError:
            pass
        else:
            raise AssertionError("nonsense was restored")
        assert whole(board, "x") == before
        assert board.claim("x", session=session(board))

    def test_an_export_is_restored_as_a_backup_is(self, harness: Harness) -> None:
        """Whoever has lost a board may have no other copy, and perhaps of a store of another kind."""
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        board.claim("x", session=me)
        path = os.path.join(harness.folder, "export")
        with open(path, "w", encoding="ascii") as file:
            for kind, value in board.export():
                file.write(json.dumps({"record": kind, "value": value}) + "\n")
        later = board.claim("y", session=me).claim.token
        assert board.restore(path) == 2
        assert {item.id: item.status for item in board.list()} == {"x": "ready", "y": "ready"}
        refused_all(board, "y", later, me)
        assert board.claim("y", session=me).claim.token > later + 1000
        assert_sound(board)

    def test_a_backup_is_imported_into_an_empty_board(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        board.claim("x", session=session(board))
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        with harness.elsewhere() as other, open(path, "rb") as file:
            copy = other.board()
            with files.records(file) as found:
                assert copy.load(found) == len(list(board.export()))
            assert copy.list() == board.list()
            assert_sound(copy)

    def test_no_token_of_before_is_worth_anything(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", "taken-later", "finished-later")
        me = session(board)
        board.claim("held", session=me)
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        for item in ("taken-later", "finished-later"):
            board.claim(item, session=me)
        board.done("finished-later", session=me)
        given = [(run.item, run.token) for run in board.runs()]
        board.restore(path, actor="admin")
        assert board.who() == ()
        for item, token in given:
            before = whole(board, item)
            refused_all(board, item, token, me)
            assert whole(board, item) == before
        beat = board.heartbeat(session=me, holding=dict(given))
        assert (beat.renewed, len(beat.lost)) == ((), 3)
        for item, token in given:
            claim = board.claim(item, session=me).claim
            assert claim.token > token + 1000
            refused_all(board, item, token, me)
            board.release(item, session=me)
        added(board, "new")
        assert board.claim("new", session=me).claim.token > max(token for _, token in given) + 1000
        assert_sound(board)

    def test_what_was_held_comes_back_without_a_strike_and_says_so(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board, "ann")
        board.claim("x", session=me)
        board.progress("x", "half way", session=me)
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        board.restore(path, actor="admin")
        detail = board.get("x")
        assert (detail.item.status, detail.item.strikes) == ("ready", 0)
        assert (detail.runs[0].outcome, detail.runs[0].agent) == ("restored", "ann")
        event = next(event for event in board.log("x") if event.kind == "restored")
        assert (event.actor, event.session) == ("admin", me)
        next_holder = session(board)
        previous = board.claim("x", session=next_holder).previous
        assert previous is not None, "the next holder is not told where the last one stopped"
        assert board.claim("x", session=next_holder).previous == previous, "tokens have a gap after a restore"
        assert previous.notes[-1].note == "half way"

    def test_event_ids_move_on_past_everything_ever_given(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        added(board, *(f"more-{number}" for number in range(20)))
        cursor = board.events()[-1].id
        board.restore(path)
        assert board.add("after it").status == "ready"
        fresh = board.events(after=cursor)
        assert [event.kind for event in fresh] == ["restored", "added", "claimable"]
        assert all(event.id > cursor for event in fresh)

    def test_queues_and_offers_are_over(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", "offered")
        me, first, second = session(board), session(board), session(board)
        board.claim("held", session=me)
        for waiter in (first, second):
            board.wait("held", session=waiter)
            board.wait("offered", session=waiter)
        board.soft_claim("held", session=first)
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        board.restore(path)
        for item in ("held", "offered"):
            for waiter in (first, second):
                ticket = board.ticket(item, session=waiter).ticket
                assert ticket.closed_at is not None
                assert "restored" in (ticket.reason or "")
            assert board.get(item).item.offered_to is None, item
        assert board.who() == ()
        assert_sound(board)
        assert ids(board.next(session=second, n=5)) == ["held", "offered"]

    def test_requests_are_forgotten(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        token = board.claim("x", session=me, request_id="one").claim.token
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        board.restore(path)
        assert board.claim("x", session=me, request_id="one").claim.token > token

    def test_a_draft_is_still_not_approved_by_who_wrote_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board, "writer")
        board.claim("x", session=me)
        board.submit("x", session=me, draft="Dear all,")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        board.restore(path)
        refused(Forbidden, board.approve, "x", actor="writer")

    def test_a_board_restored_twice_moves_on_twice(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        tokens = []
        for _ in range(3):
            board.restore(path)
            tokens.append(board.claim("x", session=me).claim.token)
        assert tokens == sorted(set(tokens))
        assert_sound(board)

    def test_others_see_the_restored_board_at_once(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        actor = harness.actor()
        added(board, "x")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        added(board, "later")
        me = session(other)
        assert len(other.list()) == 2
        board.restore(path)
        assert ids(other.list()) == ["x"]
        assert [item["id"] for item in actor.ask("list").reply] == ["x"]
        refused(SessionNotFound, other.claim, "x", session=me)
        assert actor.ask("claim", "x", session=session(other)).error is None

    def test_a_backup_under_load_restores_to_a_sound_board_whose_old_tokens_are_all_refused(
        self, harness: Harness
    ) -> None:
        board, seed = harness.board(), sizes.seed()
        added(board, *(f"item-{number:02}" for number in range(ITEMS)), retries=100)
        actors = harness.actors(CHURNERS)
        for number, actor in enumerate(actors):
            asked = {"seed": seed + number, "calls": sizes.times(CALLS), "items": ITEMS}
            actor.play("dibs.testing.turns:churn", **asked)
        for actor in actors:
            actor.read("churning")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        busy_at = read_feed(board)[-1].id
        told = [actor.result() for actor in actors]
        given = [(run.item, run.token, run.session) for run in board.runs(limit=100_000)]
        live = sum(line.claim is not None for line in board.who())
        last = read_feed(board)[-1].id
        assert last > busy_at, f"seed {seed}: nobody was at work during the backup"
        assert_sound(board, f"seed {seed}, before the restore:")
        board.restore(path)
        assert_sound(board, f"seed {seed}, after the restore:")
        for item, token, me in given:
            refused_all(board, item, token, me, f"seed {seed}")
        assert_sound(board, f"seed {seed}, after old tokens were tried:")
        print(f"backup beside {sum(one['answered'] for one in told)} calls: {len(given)} claims, {live} of them live;")
        print(f"all their tokens were refused after the restore, seed {seed}")
        assert live > 0
