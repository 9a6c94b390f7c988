"""The past of a board: the runs of a stretch of time, and figures over time."""

from __future__ import annotations

from typing import Any

from dibs.errors import Invalid, ItemAlreadyClaimed
from dibs.testing.conformance.asking import TTL_SECONDS, added, refused, session
from dibs.testing.harness import Harness

MINUTE = 60_000


class TestWindow:
    def test_a_window_has_every_run_that_it_touches(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "before", "into", "inside", "long", "lapsed", "after", project="web")
        ann, bob = session(board, "ann"), session(board, "bob")
        start = harness.clock.now()

        def at(minutes: float) -> int:
            harness.clock.advance((start + minutes * MINUTE - harness.clock.now()) / 1000)
            return harness.clock.now()

        for item, me in (("before", ann), ("into", ann), ("long", bob)):
            board.claim(item, session=me, ttl_seconds=7200)
        at(10)
        board.done("before", session=ann)
        begin = at(20)
        at(25)
        board.done("into", session=ann)
        board.claim("lapsed", session=bob, ttl_seconds=TTL_SECONDS)
        board.claim("inside", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "inside", session=bob)
        board.fail("inside", session=ann)
        end = at(60)
        board.claim("after", session=ann)
        at(61)
        window = board.window(from_=begin, to=end)
        minutes = {run[0]: [at and (at - start) // MINUTE for at in run[4:6]] + run[6:] for run in window.runs}
        assert minutes == {
            "into": [0, 25, "done"],
            "long": [0, None, None],
            "inside": [25, 25, "failed"],
            "lapsed": [25, 35, "expired"],
        }
        assert window.runs[0][:4] == ["inside", 1, ann, "ann"], "the newest first"
        assert [line[1:] for line in window.refused] == [["inside", bob, "TASK_ALREADY_CLAIMED"]]
        assert not window.truncated
        for found, expected in (
            (board.window(from_=begin, to=end, agent="bob"), {"long", "lapsed"}),
            (board.window(from_=begin, to=end, session=ann), {"into", "inside"}),
            (board.window(from_=begin, to=end, project="api"), set()),
        ):
            assert {run[0] for run in found.runs} == expected
        assert {run[0] for run in board.window().runs} == {"after", "into", "inside", "long", "lapsed", "before"}
        assert board.window(from_="2020-01-01T00:00:00Z", to="2020-01-02T00:00:00Z").runs == ()

    def test_the_length_of_a_stretch_counts_back_from_the_clock_of_the_board(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "old", "new")
        me = session(board)
        board.claim("old", session=me)
        board.release("old", session=me)
        harness.clock.advance(120)
        board.claim("new", session=me)
        harness.clock.advance(30)
        now = harness.clock.now()
        window = board.window(since=60)
        assert [run[0] for run in window.runs] == ["new"]
        assert (window.from_at, window.to_at) == (now + 1 - MINUTE, now + 1), "an end is not part of its stretch"
        earlier = board.window(to=now - 2 * MINUTE, since=60)
        assert (earlier.from_at, earlier.to_at) == (now - 3 * MINUTE, now - 2 * MINUTE)
        assert [run[0] for run in earlier.runs] == ["old"]
        series = board.series(since=60, step=30)
        assert (series.from_at, series.events["claimed"]) == (now + 1 - MINUTE, [1, 0])
        for verb in (board.window, board.series):
            for asked in ({"since": 0}, {"since": 0.5}, {"since": 4e8}, {"since": "4h"}, {"since": 60, "from_": 1}):
                error = refused(Invalid, verb, **asked)
                assert error.facts["field"] == "since"
                assert "from_" in asked or "e+" not in error.message

    def test_a_window_says_that_it_was_cut(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abc")
        me = session(board)
        for item in "abc":
            board.claim(item, session=me)
            board.release(item, session=me)
        cut = board.window(limit=2)
        assert [run[0] for run in cut.runs] == ["c", "b"]
        assert cut.truncated
        assert not board.window(limit=3).truncated
        for asked, field in (
            ({"limit": 5001}, "limit"),
            ({"from_": "yesterday"}, "from"),
            ({"from_": 2, "to": 1}, "from"),
            ({"to": -1}, "to"),
            ({"from_": 10**14}, "from"),
            ({"project": "a b"}, "project"),
        ):
            assert refused(Invalid, board.window, **asked).facts["field"] == field


class TestSeries:
    def test_a_series_counts_and_measures_each_step(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        start = harness.clock.now()
        added(board, "a", "b", "c", project="web")
        added(board, "other", project="api")
        ann, bob = session(board, "ann"), session(board, "bob")
        harness.clock.advance(30)
        board.claim("a", session=ann)
        harness.clock.advance(40)  # the second minute
        board.done("a", session=ann)
        board.claim("b", session=ann, ttl_seconds=60)
        board.claim("c", session=bob)
        harness.clock.advance(60)  # the third
        board.sweep()
        board.fail("c", session=bob)
        board.claim("other", session=bob)
        harness.clock.advance(50)
        series = board.series(from_=start, to=start + 3 * MINUTE, step=60)
        assert (series.from_at, series.step_seconds, series.truncated) == (start, 60.0, False)
        assert series.events == {"claimed": [1, 2, 1], "done": [0, 1, 0], "failed": [0, 0, 1], "expired": [0, 0, 1]}
        assert {status: line for status, line in series.depth.items() if any(line)} == {
            "ready": [3, 1, 1],
            "in_progress": [1, 2, 1],
        }
        assert series.time_to_claim == {"p50": [30.0, 70.0, 130.0], "p95": [30.0, 70.0, 130.0]}
        assert series.duration == {"p50": [None, 40.0, 60.0], "p95": [None, 40.0, 60.0]}
        web = board.series(from_=start, to=start + 3 * MINUTE, step=60, project="web")
        assert (web.events["claimed"], web.depth["ready"]) == ([1, 2, 0], [2, 0, 1])
        of_ann = board.series(from_=start, to=start + 3 * MINUTE, step=60, agent="ann")
        assert (of_ann.events["claimed"], of_ann.events["failed"]) == ([1, 1, 0], [0, 0, 0])
        assert of_ann.depth == series.depth

    def test_a_series_sums_what_runs_have_cost(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        start = harness.clock.now()
        added(board, *"abcd", project="web")
        added(board, "other", project="api")
        ann, bob = session(board, "ann"), session(board, "bob")

        def ended(item: str, me: str, cost: dict[str, object]) -> None:
            board.claim(item, session=me)
            board.done(item, session=me, cost=cost)

        ended("a", ann, {"usd": 0.1, "tokens": 1200, "model": "m", "cached": True, "none": None, "by": {"usd": 9}})
        harness.clock.advance(60)  # the second minute
        ended("b", ann, {"usd": 0.2, "huge": 10**400, "x" * 65: 1})
        ended("other", bob, {"usd": 2})
        board.claim("c", session=bob)
        board.fail("c", session=bob, cost={"usd": 0.1, "spent_at": -3})
        board.claim("d", session=bob)
        harness.clock.advance(60)  # the third
        board.annotate("b", cost={"tokens": 300})

        def costs(**chosen: Any) -> dict[str, list[float]]:
            return board.series(from_=start, to=start + 3 * MINUTE, step=60, **chosen).cost

        assert costs() == {"usd": [0.1, 2.3, 0], "tokens": [1200, 300, 0], "spent_at": [0, -3, 0]}
        assert costs(project="api") == {"usd": [0, 2, 0]}
        assert costs(agent="ann") == {"usd": [0.1, 0.2, 0], "tokens": [1200, 300, 0]}
        assert board.series(from_=start - MINUTE, to=start, step=60).cost == {}
        assert board.stats().cost == {"usd": 2.4, "tokens": 1500, "spent_at": -3}
        assert board.stats(agent="ann").cost == {"usd": 0.3, "tokens": 1500}
        board.done("d", session=bob, cost={f"name-{n}": n for n in range(20)})
        many = costs()
        assert len(many) == 10
        assert {"usd", "tokens"} < set(many), "those that the most runs have"

    def test_a_series_ends_in_what_there_is_now(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcdef")
        added(board, "later", not_before=harness.clock.now() + 3_600_000)
        added(board, "asked", needs_approval=True)
        added(board, "waits", depends_on=["a"])
        me = session(board)
        for item in "ab":
            board.claim(item, session=me)
        board.park("c")
        board.cancel("d")
        harness.clock.advance(1)
        series = board.series()
        counts = board.stats().items
        assert {status: line[-1] for status, line in series.depth.items()} == {
            status: count for status, count in counts.items() if status in series.depth
        }
        assert all(line[0] == 0 for line in series.depth.values())
        assert len(series.events["claimed"]) == 100
        for asked, field in (
            ({"from_": 0, "step": 1}, "step"),
            ({"step": 0}, "step"),
            ({"from_": 5, "to": 5}, "from"),
            ({"from_": "x"}, "from"),
        ):
            assert refused(Invalid, board.series, **asked).facts["field"] == field
