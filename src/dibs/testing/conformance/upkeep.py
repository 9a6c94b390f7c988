"""Upkeep of whole boards: pruning that leaves floors, export and load that lose nothing, backup and restore after which
no token of before is worth anything.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from dibs.errors import DibsError, Forbidden, Invalid, ItemNotFound, SessionNotFound
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.history import read_feed
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board

DAY_SECONDS = 86_400.0
CHURNERS, CALLS, ITEMS = 4, 150, 30
#: Far more than a batch of pruning takes; a prune in one piece takes longer.
CLAIM_SECONDS_MAX = 2.0


def finished(board: Board, *items: str, **fields: Any) -> None:
    """Items that were added, claimed and done."""
    added(board, *items, **fields)
    me = session(board, "finisher")
    for item in items:
        board.claim(item, session=me)
        board.done(item, session=me)


def gone(board: Board, item: str) -> bool:
    try:
        board.get(item)
    except ItemNotFound:
        return True
    return False


def used(harness: Harness, board: Board) -> None:
    """A board on which everything has been done that can be done."""
    rate: dict[str, Any] = {"claims_per_minute": 600, "claims_burst": 50}
    board.set_agent("limited", types=["task"], role="local", max_claims=9, max_claims_total=20, **rate)
    board.set_agent("cloud", allowed_actions=["draft"], sensitive_actions=["send"])
    finished(board, "done", "pruned")
    harness.clock.advance(2 * DAY_SECONDS)
    board.prune(older_than_seconds=DAY_SECONDS)
    finished(board, "parent")
    added(board, "x", payload={"deep": [1, {"at": "2026-01-01T00:00:00Z"}]}, labels=["a", "b"], phase="one", retries=3)
    added(board, "child", depends_on=["parent", "x"], resources=["src/api", "port:80"], body="*line*\nünï ☂")
    added(board, "later", not_before=harness.clock.now() + 60_000)
    added(board, "asked", needs_approval=True)
    added(board, "mail", action="send")
    added(board, "held", "queued", "aside", "dropped", "failed", resources=["docs"])
    me = session(board, "limited", kind="autonomous", meta={"context_percent": 40}, owner_pid=os.getpid())
    cloud, over, patient = session(board, "cloud"), session(board), session(board)
    board.claim("mail", session=cloud, request_id="one")
    board.submit("mail", session=cloud, draft="Dear all,", links={"pr": 1}, cost={"usd": 2.5})
    board.claim("x", session=me)
    board.progress("x", "half way", session=me, meta={"lines": 3})
    board.fail("x", session=me, reason="red")
    for item in ("held", "queued", "failed"):
        board.claim(item, session=me, ttl_seconds=TTL_SECONDS, request_id=f"claim-{item}")
    board.fail("failed", session=me)
    board.heartbeat(session=me)
    for waiter in (patient, over):
        board.wait("queued", session=waiter, ttl_seconds=300)
    board.leave("queued", session=over)
    try:
        board.claim("held", session=over)
    except DibsError:
        pass
    board.soft_claim("asked", session=over)
    board.park("aside", reason="later")
    board.cancel("dropped")
    board.release("queued", session=me)
    ended = session(board, "gone")
    board.end_session(ended, reason="over")


def records(board: Board) -> list[tuple[str, dict[str, Any]]]:
    """An export, as it is after a way through JSON."""
    return [(kind, json.loads(json.dumps(data))) for kind, data in board.export()]


class TestPruning:
    def test_only_what_ended_long_enough_ago_is_forgotten(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        me = session(board)
        added(board, "open", "held", "aside")
        board.claim("held", session=me, ttl_seconds=board.settings.ttl_seconds_max)
        board.park("aside")
        finished(board, "old")
        harness.clock.advance(DAY_SECONDS)
        finished(board, "young")
        harness.clock.advance(0.001)
        pruned = board.prune(older_than_seconds=DAY_SECONDS)
        assert pruned.items == 1
        assert sorted(ids(board.list())) == ["aside", "held", "open", "young"]
        assert gone(board, "old")
        assert board.runs(item="old") == ()
        assert {event.item for event in board.events()} == {"open", "held", "aside", "young"}
        assert_sound(board)

    def test_every_end_is_forgotten(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "done", "failed", "rejected", "cancelled")
        me = session(board)
        board.next(session=me, n=3)
        board.done("done", session=me)
        board.fail("failed", session=me)
        board.reject("rejected", session=me, reason="no")
        board.cancel("cancelled")
        harness.clock.advance(1)
        assert board.prune(older_than_seconds=0.5).items == 4
        assert board.list() == ()

    def test_what_somebody_waits_for_in_vain_is_kept(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "failed")
        added(board, "child", depends_on=["failed"])
        me = session(board)
        board.claim("failed", session=me)
        board.fail("failed", session=me)
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 0
        assert board.get("child").item.status == "blocked"
        board.cancel("child")
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 2

    def test_a_dependency_that_was_done_and_pruned_stays_satisfied(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "other")
        finished(board, "parent")
        added(board, "child", depends_on=["parent", "other"])
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 1
        assert board.get("child").item.status == "blocked"
        me = session(board)
        board.claim("other", session=me)
        board.done("other", session=me)
        assert ids(board.next(session=me)) == ["child"]
        board.release("child", session=me)
        assert_sound(board)
        added(board, "parent", body="another under the old name")
        assert board.claim("child", session=me).item.status == "in_progress"

    def test_a_new_item_of_a_pruned_id_goes_on_above_the_floor(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        for _ in range(4):
            board.claim("x", session=me)
            board.release("x", session=me)
        token = board.claim("x", session=me).claim.token
        board.done("x", session=me)
        harness.clock.advance(DAY_SECONDS)
        pruned = board.prune(older_than_seconds=1)
        assert (pruned.items, pruned.token_floor) == (1, token)
        added(board, "x", "y")
        for item in ("x", "y"):
            refused_all(board, item, token, me)
            assert board.claim(item, session=me).claim.token == token + 1
            refused_all(board, item, token, me)
        assert_sound(board)

    def test_floors_never_sink(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, "x")
        harness.clock.advance(DAY_SECONDS)
        first = board.prune(older_than_seconds=1)
        again = board.prune(older_than_seconds=1)
        assert (again.items, again.events) == (0, 0)
        assert (again.token_floor, again.event_floor) == (first.token_floor, first.event_floor)

    def test_a_cursor_from_before_what_was_pruned_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, "old")
        cursor = board.events()[-1].id
        added(board, "young")
        harness.clock.advance(DAY_SECONDS)
        pruned = board.prune(older_than_seconds=1)
        assert pruned.event_floor == cursor
        refusal = refused(Invalid, board.events, after=cursor - 1)
        assert refusal.facts["event_floor"] == cursor
        assert {event.item for event in board.events(after=cursor)} == {"young"}
        assert {event.item for event in board.events()} == {"young"}
        me = session(board)
        board.claim("young", session=me)
        assert [event.kind for event in board.events(after=cursor)][-1] == "claimed"

    def test_pruning_is_bounded_batch_by_batch(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, *(f"item-{number}" for number in range(7)))
        harness.clock.advance(DAY_SECONDS)
        assert board.store.prune(older_than_seconds=1, limit=3).items == 3
        assert board.store.prune(older_than_seconds=1, limit=3).items == 3
        assert board.prune(older_than_seconds=1).items == 1

    def test_claims_go_on_while_a_board_is_pruned(self, harness: Harness) -> None:
        board = harness.board()
        many = [f"old-{number:04}" for number in range(1500)]
        added(board, *many)
        for item in many:
            board.cancel(item)
        added(board, *(f"new-{number:03}" for number in range(100)))
        harness.clock.advance(DAY_SECONDS)
        me, pruner = session(board), harness.actor()
        pruner.send("prune", older_than_seconds=1)
        worst, claimed = 0.0, 0
        for _ in range(100):
            begun = time.monotonic()
            claimed += len(board.next(session=me))
            worst = max(worst, time.monotonic() - begun)
        assert pruner.answer().reply["items"] == len(many)
        print(f"{len(many)} items pruned beside {claimed} claims, of which the slowest took {worst * 1000:.0f} ms")
        assert claimed == 100
        assert worst < CLAIM_SECONDS_MAX
        assert_sound(board)


class TestExport:
    def test_a_board_comes_back_record_for_record(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        used(harness, board)
        taken = records(board)
        kinds = {kind for kind, _ in taken}
        assert kinds >= {"board", "agent", "session", "item", "claim", "soft_claim", "ticket", "run", "event"}, kinds
        assert kinds >= {"activity", "request", "bucket"}, kinds
        with harness.elsewhere() as other:
            copy = other.board()
            assert copy.load(taken) == len(taken)
            assert records(copy) == taken

    def test_a_loaded_board_reads_and_goes_on_as_the_first(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        used(harness, board)
        taken = records(board)
        with harness.elsewhere() as other:
            copy = other.board()
            copy.load(taken)
            assert copy.list() == board.list()
            for item in board.list():
                assert whole(copy, item.id) == whole(board, item.id)
            assert (copy.who(), copy.stats(), copy.agents()) == (board.who(), board.stats(), board.agents())
            assert copy.sessions(ended=True) == board.sessions(ended=True)
            assert copy.activity() == board.activity()
            assert_sound(copy)
            for one in (board, copy):
                holder = next(line.claim for line in one.who() if line.claim is not None)
                done = one.done(holder.item, session=holder.session, token=holder.token, request_id="r-done")
                assert done.item.status == "done"
                waiter = one.get("queued").item.offered_to or ""
                assert one.claim("queued", session=waiter, request_id="r-claim").claim.token == 3
            assert records(copy) == records(board)

    def test_a_loaded_board_numbers_on_past_what_was_pruned(self, harness: Harness) -> None:
        board = harness.board()
        finished(board, "x")
        harness.clock.advance(DAY_SECONDS)
        pruned = board.prune(older_than_seconds=1)
        with harness.elsewhere() as other:
            copy = other.board()
            copy.load(records(board))
            added(copy, "x")
            me = session(copy)
            assert copy.claim("x", session=me).claim.token > pruned.token_floor
            assert {event.item for event in copy.events(after=pruned.event_floor)} == {"x"}, "a reader would miss it"

    def test_an_export_is_of_one_instant(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        feed = board.export()
        first = next(iter(feed))
        board.claim("x", session=me)
        board.add("later", id="y")
        rest = list(feed)
        items = [data for kind, data in [first, *rest] if kind == "item"]
        assert [(data["id"], data["status"]) for data in items] == [("x", "ready")]
        assert "claim" not in {kind for kind, _ in rest}

    def test_a_board_with_something_on_it_is_not_loaded_into(self, harness: Harness) -> None:
        board = harness.board()
        used(harness, board)
        taken = records(board)
        refused(Invalid, board.load, taken)
        assert records(board) == taken
        with harness.elsewhere() as other:
            copy = other.board()
            session(copy, "somebody")
            refused(Invalid, copy.load, taken)
            assert copy.list() == ()

    def test_agents_that_were_named_before_are_as_the_import_says(self, harness: Harness) -> None:
        """A `dibs.toml` may have named them on a board that is otherwise empty."""
        board = harness.board()
        board.set_agent("coder", types=["task"], max_claims=3)
        harness.clock.advance(60)
        with harness.elsewhere() as other:
            copy = other.board()
            copy.set_agent("coder", role="other", max_claims=9)
            copy.load(records(board))
            assert copy.agents() == board.agents()
            assert records(copy) == records(board)

    def test_a_broken_record_is_refused_and_nothing_is_kept(self, harness: Harness) -> None:
        board = harness.board()
        used(harness, board)
        taken = records(board)
        place = max(number for number, (kind, _) in enumerate(taken) if kind == "event")
        kind, data = taken[place]
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("nonsense", data),
            (kind, {name: value for name, value in data.items() if name != "number"}),
            (kind, {**data, "unknown": 1}),
            (kind, {**data, "number": "many"}),
            (kind, {**data, "at": "yesterday"}),
            (kind, {**data, "item": None}),
            taken[place - 1],
            ("board", {**taken[0][1], "format": 99}),
            # Numbers that cannot be counted on from.
            (kind, {**data, "id": 2**63 - 1}),
            (kind, {**data, "token": 2**63 - 1}),
            ("item", {**_item_of(taken), "id": "spent", "token": 2**63 - 1}),
            ("board", {**taken[0][1], "token_floor": 2**63 - 1}),
            ("board", {**taken[0][1], "event_floor": 2**63 - 1}),
        ]
        with harness.elsewhere() as other:
            copy = other.board()
            before = records(copy)
            for record in wrong:
                refused(Invalid, copy.load, [*taken[:place], record, *taken[place + 1 :]])
                assert records(copy) == before, f"something was kept of an import with {record}"
            assert copy.load(taken) == len(taken)

    def test_a_record_that_no_verb_could_have_written_is_refused(self, harness: Harness) -> None:
        """An export is a file that anybody may have written: ids become words in a shell, file names and lines on a
        terminal, and a number close to the largest one would be the last that the board can give."""
        board = harness.board()
        used(harness, board)
        taken = records(board)
        first = dict(reversed(taken))
        with harness.elsewhere() as other:
            copy = other.board()
            before = records(copy)
            for kind, field, value in STRANGE:
                record = (kind, {**first[kind], field: value})
                refusal = refused(Invalid, copy.load, [taken[0], record])
                assert "record 2" in refusal.message, (kind, field, refusal.message)
                assert refusal.message.isprintable()
                assert records(copy) == before, f"something was kept of an import with {record}"
            assert copy.load(taken) == len(taken)

    def test_records_that_name_what_is_not_there_are_refused(self, harness: Harness) -> None:
        """A verb relies on it that a session's agent is there, and the claim of what is in progress."""
        board = harness.board()
        me = board.start_session("coder").id
        board.add("held", id="held")
        board.claim("held", session=me)
        taken = records(board)
        with harness.elsewhere() as other:
            copy = other.board()
            before = records(copy)
            for left_out in ("agent", "session", "claim", "item"):
                refusal = refused(Invalid, copy.load, [one for one in taken if one[0] != left_out])
                assert "do not fit together" in refusal.message, (left_out, refusal.message)
                assert records(copy) == before, f"something was kept of an import without any {left_out}"
            assert copy.load(taken) == len(taken)


#: Kind, field and value of records that are well formed and that no verb would have let in.
STRANGE: list[tuple[str, str, Any]] = [
    *(("item", "id", id) for id in ("../../x", "--help", "a b", "a\x1b[2J", "a\nb", "", "x" * 200, 7)),
    ("item", "title", "two\nlines"),
    ("item", "title", "nul \0"),
    ("item", "payload", [1]),
    ("item", "priority", 10**9),
    ("item", "resources", ["src/../src/api"]),
    ("item", "labels", ["a", "a"]),
    ("item", "depends_on", ["../x"]),
    ("item", "timeout_seconds", -1),
    ("item", "retries", "many"),
    ("item", "needs_approval", 1),
    ("item", "status", "stolen"),
    ("item", "token", -1),
    ("item", "token", 2**52),
    ("item", "revision", 2**62),
    ("item", "offered_to", "\x1b]0;x\x07"),
    ("item", "created_at", -1),
    ("agent", "name", "../x"),
    ("agent", "max_claims", -5),
    ("session", "id", "--help"),
    ("session", "agent", "\x1b[2J"),
    ("session", "meta", "text"),
    ("session", "owner", {"boot_id": "b", "pid_namespace": 1, "pid": -1, "start_time": 1}),
    ("claim", "ttl_seconds", -1),
    ("claim", "item", "../../x"),
    ("run", "outcome", "\x1b[2J"),
    ("run", "links", [1]),
    ("run", "checks", {"ci": "passed"}),
    ("run", "checks", {"ci": {"state": "two\nlines"}}),
    ("ticket", "session", "a\x07"),
    ("soft_claim", "agent", ".."),
    ("event", "item", "--help"),
    ("event", "kind", "\x1b[2J"),
    ("event", "status", "open"),
    ("event", "data", []),
    ("event", "id", 2**62),
    ("activity", "code", "a b"),
    ("dependency", "needs", "../../x"),
    ("bucket", "name", "/etc"),
    ("request", "answer", "no JSON"),
    ("board", "token_floor", 2**62),
    ("board", "event_floor", 2**52),
    ("board", "token_floor", -1),
    ("board", "conflicts", "1"),
]


def _item_of(records: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return next(data for kind, data in records if kind == "item")


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
        previous = board.claim("x", session=session(board)).previous
        assert previous is not None, "the next holder is not told where the last one stopped"
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


def refused_all(board: Board, item: str, token: int, me: str, context: object = "") -> None:
    """Nothing that needs a claim can be done under this token."""
    known: dict[str, Any] = {"session": me, "token": token}
    for verb in (board.renew, board.release, board.done, board.fail):
        try:
            answer = verb(item, **known)
        except DibsError:
            continue
        raise AssertionError(f"{context}: {verb.__name__} of {item} under the old token {token} gave {answer}")
