"""Racing: real processes at the same item in the same instant: one wins, the others are told, nothing is done twice."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from dibs.testing import history, recording, sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, session
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.testing.actors import Actor
    from dibs.testing.recording import Call

CLAIMERS, ROUNDS = 64, 20 if sizes.FACTOR == 1 else 200
DRAINERS, ITEMS = 16, 800 if sizes.FACTOR == 1 else 2000


def cast_of(harness: Harness, count: int, **kwargs: object) -> list[tuple[Actor, str]]:
    """Processes with a session each."""
    actors = harness.actors(count)
    return [(actor, actor.ask("start_session", f"agent-{n}", **kwargs).reply["id"]) for n, actor in enumerate(actors)]


def assert_explained(calls: list[Call], board: Board, context: object = "") -> None:
    """The answers everybody heard fit together and fit the board, and the board is sound."""
    found = history.check(sorted(calls, key=lambda call: call.start_ns), board)
    assert not found, f"{context} these answers cannot all be true:\n" + "\n".join(found[:20])
    assert_sound(board, context)


class TestRacing:
    def test_of_sixty_four_processes_one_wins_each_round(self, harness: Harness) -> None:
        board, rounds = harness.board(), harness.fewer(ROUNDS)
        items = [f"round-{number:03}" for number in range(rounds)]
        added(board, *items)
        claimers = cast_of(harness, CLAIMERS)
        gate = harness.gate()
        calls: list[Call] = []
        for item in items:
            for actor, me in claimers:
                actor.send("claim", item, session=me, at=gate)
            gate.open()
            answers = [(me, actor.answer()) for actor, me in claimers]
            gate.close()
            winners = [me for me, answer in answers if answer.error is None]
            assert len(winners) == 1, f"{item}: {len(winners)} winners: {winners}"
            for me, answer in answers:
                calls.append(recording.heard(me, "claim", item, None, answer))
                if answer.error is not None:
                    assert answer.code == "TASK_ALREADY_CLAIMED", answer
                    assert answer.error["holder"]["session"] == winners[0], f"{item}: {me} was told {answer.error}"
        won = Counter(call.session for call in calls if call.grants)
        print(
            f"{CLAIMERS} claimers, {rounds} rounds: {len(won)} of them won at least once, {max(won.values())} at most"
        )
        assert len(won) > 1, "the same process won every round: nobody raced"
        assert board.stats().conflicts_avoided == rounds * (CLAIMERS - 1)
        assert_explained(calls, board)

    def test_sixteen_processes_drain_all_items_each_once_and_fairly(self, harness: Harness) -> None:
        board, count = harness.board(), harness.fewer(ITEMS, 10)
        items = [f"item-{number:04}" for number in range(count)]
        added(board, *items)
        gate, actors = harness.gate(), harness.actors(DRAINERS)
        for number, actor in enumerate(actors):
            actor.play("dibs.testing.scenes:drain", agent=f"agent-{number}", folder=harness.folder, gate=gate.path)
            actor.read("at_gate")
        gate.open()
        results = [actor.result() for actor in actors]
        counts = sorted(result["done"] for result in results)
        worst = max(result["worst_seconds"] for result in results)
        print(f"{DRAINERS} processes drained {count} items: {counts[0]} to {counts[-1]} each,")
        print(f"share of the slowest {counts[0] / counts[-1]:.2f}, worst wait {worst * 1000:.0f} ms")
        assert sum(counts) == count, f"{sum(counts)} items were done, of {count}"
        assert {item.status for item in board.list(limit=count)} == {"done"}
        # How large the smallest share is depends on what else the machine does; `bench drain` measures it.
        assert counts[0] > 0, f"a process was given nothing: {counts}"
        assert all(len(board.runs(item=item)) == 1 for item in items)
        assert_explained(recording.read(harness.folder), board)

    def test_a_claim_against_a_release_is_before_or_after_it(self, harness: Harness) -> None:
        board = harness.board()
        (holder, held_by), *others = cast_of(harness, 4)
        gate, codes, calls = harness.gate(), Counter[str | None](), list[recording.Call]()
        for number in range(sizes.times(40)):
            item = f"item-{number}"
            added(board, item)
            first = holder.ask("claim", item, session=held_by)
            holder.send("release", item, session=held_by, token=1, at=gate)
            for actor, me in others:
                actor.send("claim", item, session=me, at=gate)
            gate.open()
            released = holder.answer()
            answers = [(me, actor.answer()) for actor, me in others]
            gate.close()
            assert released.error is None, "its holder could not release it"
            winners = [me for me, answer in answers if answer.error is None]
            assert len(winners) <= 1, f"{item} was given to {winners}"
            for _, answer in answers:
                codes[answer.code] += 1
                if answer.error is not None:
                    assert answer.code == "TASK_ALREADY_CLAIMED", answer
                    assert answer.error["holder"]["session"] in (held_by, *winners)
            calls.append(recording.heard(held_by, "claim", item, None, first))
            calls.append(recording.heard(held_by, "release", item, 1, released))
            calls += [recording.heard(me, "claim", item, None, answer) for me, answer in answers]
        print(f"claims against releases: {dict(codes)}")
        assert set(codes) == {None, "TASK_ALREADY_CLAIMED"}, f"one side won every time: {dict(codes)}"
        assert_explained(calls, board)

    def test_done_against_expiry_ends_in_one_of_the_two(self, harness: Harness) -> None:
        board, seed = harness.board(), sizes.seed()
        draw = random.Random(seed)
        (worker, me), (taker, other), (sweeper, _) = cast_of(harness, 3)
        gate, codes, calls = harness.gate(), Counter[str | None](), list[recording.Call]()
        for number in range(sizes.times(40)):
            item = f"item-{number}"
            added(board, item)
            first = worker.ask("claim", item, session=me, ttl_seconds=TTL_SECONDS)
            worker.send("done", item, session=me, token=1, at=gate)
            taker.send("claim", item, session=other, ttl_seconds=TTL_SECONDS, at=gate)
            sweeper.send("sweep", at=gate)
            # Every fourth time well before the end, every fourth well after, else as close as the clock goes.
            left_seconds = (0.5, -0.5, draw.random() * 0.01, draw.random() * 0.002)[number % 4]
            claim = board.get(item).claim
            assert claim is not None
            harness.clock.advance((claim.expires_at - harness.clock.now()) / 1000 - left_seconds)
            gate.open()
            done, taken, swept = worker.answer(), taker.answer(), sweeper.answer()
            gate.close()
            codes[done.code] += 1
            assert swept.error is None
            after = board.get(item).item
            if done.error is None:
                assert taken.code in ("TASK_ALREADY_CLAIMED", "TASK_NOT_CLAIMABLE"), f"seed {seed}: {taken}"
                assert (after.status, after.strikes) == ("done", 0), f"seed {seed}: {after}"
            else:
                assert done.code == "CLAIM_EXPIRED", f"seed {seed}: {done}"
                assert (after.status, after.strikes) != ("done", 0), f"seed {seed}: {after}"
            calls.append(recording.heard(me, "claim", item, None, first))
            calls.append(recording.heard(me, "done", item, 1, done))
            calls.append(recording.heard(other, "claim", item, None, taken))
        print(f"done against expiry: {dict(codes)}")
        assert set(codes) == {None, "CLAIM_EXPIRED"}, f"seed {seed}: one side won every time: {dict(codes)}"
        assert_explained(calls, board, f"seed {seed}:")

    def test_a_forced_release_against_heartbeats_is_final(self, harness: Harness) -> None:
        board = harness.board()
        (holder, me), (beater, _) = cast_of(harness, 2)
        admin = harness.actor()
        gate, codes, calls = harness.gate(), Counter[str | None](), list[recording.Call]()
        for number in range(sizes.times(40)):
            item = f"item-{number}"
            added(board, item)
            first = holder.ask("claim", item, session=me)
            holder.send("renew", item, session=me, token=1, at=gate)
            beater.send("heartbeat", session=me, holding={item: 1}, at=gate)
            admin.send("force_release", item, reason="race", at=gate)
            gate.open()
            renewed, beat, forced = holder.answer(), beater.answer(), admin.answer()
            gate.close()
            assert forced.error is None, forced
            codes[renewed.code] += 1
            assert renewed.code in (None, "TASK_NOT_CLAIMED")
            assert [one["item"] for one in beat.reply["renewed"] + beat.reply["lost"]] == [item], beat
            for answer in (renewed, beat):
                if answer.start_ns > forced.end_ns:
                    assert answer.error or answer.reply["lost"], "a heartbeat was accepted after the forced release"
            detail = board.get(item)
            assert (detail.item.status, detail.claim) == ("ready", None), "a heartbeat undid a forced release"
            calls.append(recording.heard(me, "claim", item, None, first))
            calls.append(recording.heard(me, "renew", item, 1, renewed))
        print(f"heartbeats against forced releases: {dict(codes)}")
        assert_explained(calls, board)

    def test_one_session_in_many_processes_keeps_its_limit(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", max_claims=3)
        gate, actors = harness.gate(), harness.actors(6)
        for number in range(sizes.times(10)):
            added(board, *(f"item-{number}-{n}" for n in range(8)))
            me = session(board, "coder")
            for actor in actors:
                actor.send("next", session=me, n=2, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            given = len([grant for answer in answers if answer.error is None for grant in answer.reply])
            assert given == 3, f"a session with room for 3 was given {given}"
            assert {answer.code for answer in answers} == {None, "AGENT_AT_CAPACITY"}, [a.error for a in answers]
        assert_sound(board)

    def test_one_id_added_by_many_is_one_item(self, harness: Harness) -> None:
        board = harness.board()
        gate, actors = harness.gate(), harness.actors(4)
        for number in range(sizes.times(10)):
            for actor in actors:
                actor.send("add", "the same", id=f"same-{number}", at=gate)
            gate.open()
            assert all(actor.answer().error is None for actor in actors)
            gate.close()
            for position, actor in enumerate(actors):
                actor.send("add", f"other {position}", id=f"other-{number}", at=gate)
            gate.open()
            codes = sorted(str(actor.answer().code) for actor in actors)
            gate.close()
            assert codes == ["INVALID"] * 3 + ["None"]
        added = [event.item for event in board.events(limit=10_000) if event.kind == "added"]
        assert len(added) == len(set(added)) == 2 * sizes.times(10)
        assert_sound(board)

    def test_threads_of_one_process_share_a_handle(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *(f"item-{number}" for number in range(64)))

        def work(number: int) -> int:
            me, done = session(board, f"agent-{number}"), 0
            while grants := board.next(session=me):
                board.done(grants[0].item.id, session=me, token=grants[0].claim.token)
                done += 1
            return done

        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(work, range(4))) == 64
        assert_sound(board)

    def test_forked_children_and_their_parent_share_a_handle(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *(f"item-{number}" for number in range(40)))
        actor = harness.actor()
        actor.play("dibs.testing.scenes:fork_and_share", children=3, each=10)
        assert actor.result() == [0, 0, 0], actor.errors()
        assert {item.status for item in board.list()} == {"done"}
        assert_sound(board)

    def test_many_sweepers_count_one_strike(self, harness: Harness) -> None:
        board = harness.board()
        gate, actors = harness.gate(), harness.actors(4)
        for number in range(sizes.times(10)):
            added(board, f"item-{number}", project="swept")
            board.claim(f"item-{number}", session=session(board), ttl_seconds=TTL_SECONDS)
            harness.clock.advance(TTL_SECONDS + 1)
            for actor in actors:
                actor.send("sweep", at=gate)
            gate.open()
            expired = [item for actor in actors for item in actor.answer().reply["expired"]]
            gate.close()
            assert expired == [f"item-{number}"]
            assert board.get(f"item-{number}").item.strikes == 1
        assert_sound(board)
