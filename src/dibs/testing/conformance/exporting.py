"""Export and load: a board comes back record for record, and a record that no verb could write is refused."""

from __future__ import annotations

from typing import Any

from dibs.errors import Invalid
from dibs.store.contract import histories
from dibs.testing.conformance.asking import added, refused, session, whole
from dibs.testing.conformance.used_board import DAY_SECONDS, finished, records, used
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

CHURNERS, CALLS, ITEMS = 4, 150, 30
#: The characters of a text that stores may keep beside its object.
LONG = 3000
#: Far more than a batch of pruning takes; a prune in one piece takes longer.
CLAIM_SECONDS_MAX = 2.0


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

    def test_the_histories_of_items_are_those_of_the_export(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        used(harness, board)
        found = list(board.store.histories())
        assert found == list(histories.of_export(board.export()))
        ids = [value.id for kind, value in found if kind == "item"]
        assert ids == sorted(item.id for item in board.list())
        assert {kind for kind, _ in found} >= {"board", "session", *histories.OF_ITEM}

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
            for one in (board, copy):
                assert_sound(one)
                holder = next(line.claim for line in one.who() if line.claim is not None)
                done = one.done(holder.item, session=holder.session, token=holder.token, request_id="r-done")
                assert done.item.status == "done"
                waiter = one.get("queued").item.offered_to or ""
                assert one.claim("queued", session=waiter, request_id="r-claim").claim.token == 3
            assert records(copy) == records(board)

    def test_a_record_that_was_changed_on_its_way_is_loaded_as_changed(self, harness: Harness) -> None:
        board = harness.board()
        board.add("t", id="x", payload={"log": "v" * LONG, "of": "the first"})
        taken = list(board.export())
        for kind, data in taken:
            found = {"item": data, "event": data.get("data", {})}.get(kind, {}).get("payload")
            if found is not None:
                found["of"] = "the second"
        with harness.elsewhere() as other:
            copy = other.board()
            copy.load(taken)
            assert copy.get("x").item.payload["of"] == "the second"
            assert_sound(copy)

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
                assert "are inconsistent" in refusal.message, (left_out, refusal.message)
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
