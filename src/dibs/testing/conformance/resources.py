"""Resources: two items that touch the same thing are never held by two sessions at once.

The rule of what touches what is told again here as a table, and the race judges by a reading of its own.
"""

from __future__ import annotations

import random
import subprocess
from itertools import combinations

from dibs.errors import Invalid, ResourceBusy
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board

CLAIMERS = 8
ROUNDS, ROUNDS_SOAK = 60, 300

#: Two resources, and whether they touch.
TOUCHING: tuple[tuple[str, str, bool], ...] = (
    ("src/api", "src/api", True),
    ("src/api", "src/api/login.py", True),
    ("src/api/login.py", "src/api", True),
    ("src/api", "src/apis", False),
    ("src/api", "src/api.py", False),
    ("src/api", "src", True),
    ("src/api", "docs", False),
    ("src/api/a", "src/api/b", False),
    ("api", "src/api", False),
    ("src", "src-old", False),
    ("src/API", "src/api", False),
    ("./src//api/", "src/api", True),
    ("/src/api", "src/api", True),
    ("src/./api", "src/api", True),
    (".", "anything/at/all", True),
    ("/", "src", True),
    (".", ".", True),
    ("src/*.py", "src/login.py", True),
    ("src/*.py", "src", True),
    ("src/*.py", "src/api/deep.py", True),
    ("src/*.py", "docs", False),
    ("src/ap*", "src/other", True),
    ("src/**/test_*.py", "src/api", True),
    ("*", "docs", True),
    ("src/[ab]/x", "src/c", True),
    ("src/api?/x", "src/zebra", True),
    ("port:8080", "port:8080", True),
    ("port:8080", "port:80", False),
    ("port:8080", "port:8080/tcp", False),
    ("port:*", "port:8080", False),
    ("port:8080", ".", False),
    ("db:main", "db", False),
    ("https://example.org/a", "https://example.org/a/b", False),
)


class TestResources:
    def test_what_touches_what(self, harness: Harness) -> None:
        board = harness.board()
        wrong = []
        for number, (one, other, touch) in enumerate(TOUCHING):
            for turn, (mine, theirs) in enumerate(((one, other), (other, one))):
                project = f"case-{number}-{turn}"
                added(board, f"{project}-mine", resources=[mine], project=project)
                added(board, f"{project}-theirs", resources=[theirs], project=project)
                board.claim(f"{project}-mine", session=session(board, "ann"))
                found = bool(board.next(session=session(board, "bob"), projects=[project]))
                if found is touch:
                    wrong.append(f"{mine} held, {theirs} asked for: they touch is {touch}")
        assert not wrong, "\n".join(wrong)

    def test_a_resource_is_kept_in_one_spelling_and_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["./src//api/", "src/api", "src/**/x.py", "*", "port:8080"])
        assert board.get("x").item.resources == ("src/api", "src", ".", "port:8080")

    def test_what_leads_out_of_the_project_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        for resource in ("..", "../other", "src/../../other", "src/..", "a/b/../c"):
            assert refused(Invalid, board.add, "x", resources=[resource]).facts["field"] == "resources"
        for resource in ("", "  ", "two\nlines"):
            refused(Invalid, board.add, "x", resources=[resource])
        assert board.list() == ()

    def test_a_busy_resource_is_refused_with_its_holder_and_item(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src/api"])
        added(board, "y", resources=["docs", "src"])
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann)
        before = whole(board, "y")
        facts = refused(ResourceBusy, board.claim, "y", session=bob).facts
        assert (facts["item"], facts["held_for"], facts["resource"]) == ("y", "x", "src/api")
        assert (facts["holder"]["session"], facts["holder"]["agent"]) == (ann, "ann")
        assert whole(board, "y") == before
        (line,) = board.activity(item="y")
        assert (line.code, line.session) == ("RESOURCE_BUSY", bob)

    def test_all_resources_are_held_or_none(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["a"])
        added(board, "both", resources=["b", "a"])
        added(board, "y", resources=["b"])
        board.claim("x", session=session(board))
        refused(ResourceBusy, board.claim, "both", session=session(board))
        assert board.claim("y", session=session(board))

    def test_next_passes_over_what_is_busy_and_takes_the_next_best(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "held", resources=["src"])
        added(board, "best", priority=10, resources=["src/api"])
        added(board, "second", priority=9, resources=["docs"])
        added(board, "third", priority=8)
        board.claim("held", session=session(board))
        me = session(board)
        assert ids(board.next(session=me)) == ["second"]
        assert ids(board.next(session=me, n=5)) == ["third"]
        assert board.next(session=me) == ()

    def test_a_sessions_own_holds_are_no_conflict(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z", resources=["src"])
        me = session(board, "coder")
        board.claim("x", session=me)
        assert board.claim("y", session=me)
        assert ids(board.next(session=me)) == ["z"]
        added(board, "more", resources=["src"])
        refused(ResourceBusy, board.claim, "more", session=session(board, "coder"))

    def test_one_call_of_next_may_take_several_that_touch(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", resources=["src"])
        assert ids(board.next(session=session(board), n=2)) == ["x", "y"]

    def test_the_scope_of_a_resource_is_its_project(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "here", resources=["src"], project="one")
        added(board, "there", resources=["src"], project="two")
        board.claim("here", session=session(board))
        assert board.claim("there", session=session(board))

    def test_a_hold_ends_with_its_claim_however_that_ends(self, harness: Harness) -> None:
        board = harness.board()

        def swept() -> None:
            expire(harness)
            board.sweep()

        ends: dict[str, Callable[[str, str], object]] = {
            "release": lambda item, me: board.release(item, session=me),
            "park": lambda item, me: board.release(item, session=me, park=True),
            "forgotten": lambda item, me: board.heartbeat(session=me, holding={}),
            "done": lambda item, me: board.done(item, session=me),
            "fail": lambda item, me: board.fail(item, session=me),
            "submit": lambda item, me: board.submit(item, session=me, draft="like this"),
            "reject": lambda item, me: board.reject(item, session=me, reason="no"),
            "force": lambda item, me: board.force_release(item, reason="needed"),
            "cancel": lambda item, me: board.cancel(item),
            "session": lambda item, me: board.end_session(me),
            "expiry": lambda item, me: expire(harness),
            "expiry-swept": lambda item, me: swept(),
        }
        for way, end in ends.items():
            me, other = session(board, "ann"), session(board, "bob")
            added(board, way, f"{way}-other", resources=["src"], project=way)
            board.claim(way, session=me, ttl_seconds=TTL_SECONDS)
            refused(ResourceBusy, board.claim, f"{way}-other", session=other)
            end(way, me)
            assert board.claim(f"{way}-other", session=other), way

    def test_a_hold_ends_with_its_dead_owner(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", resources=["src"])
        owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        board.claim("x", session=session(board, "ann", owner_pid=owner.pid))
        owner.kill()
        owner.communicate()
        board.sweep()
        assert board.claim("y", session=session(board, "bob"))

    def test_what_is_not_claimed_holds_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", resources=["src"])
        board.wait("x", session=session(board, "ann"))
        assert board.claim("y", session=session(board, "bob"))

    def test_resources_and_project_of_a_claimed_item_stay_as_they_are(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src"])
        me = session(board)
        board.claim("x", session=me)
        before = whole(board, "x")
        wrong: tuple[dict[str, Any], ...] = ({"resources": ["docs"]}, {"resources": []}, {"project": "other"})
        for changes in wrong:
            assert refused(Invalid, board.edit, "x", **changes).facts["field"] in changes
        assert whole(board, "x") == before
        board.edit("x", title="otherwise", resources=["src"])
        board.release("x", session=me)
        assert board.edit("x", resources=["docs"]).resources == ("docs",)

    def test_edited_resources_are_the_ones_that_count(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src"])
        added(board, "y", resources=["docs"])
        board.edit("x", resources=["docs/guides"])
        board.claim("x", session=session(board))
        refused(ResourceBusy, board.claim, "y", session=session(board))


def touch(one: str, other: str) -> bool:
    """Of two plain paths: whether one lies at or below the other."""
    mine, theirs = one.split("/"), other.split("/")
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]


class TestTouchingTogether:
    """Real processes."""

    def test_items_that_touch_are_never_held_by_two_sessions(self, harness: Harness) -> None:
        board, seed = harness.board(), sizes.seed()
        draw = random.Random(seed)
        actors, gate = harness.actors(CLAIMERS), harness.gate()
        sessions = [session(board, f"agent-{number}") for number in range(CLAIMERS)]
        given = busy = 0
        for number in range(sizes.rounds(ROUNDS, ROUNDS_SOAK)):
            project = f"round-{number}"
            items = {
                f"{project}-{n}": ["/".join(draw.choice("ab") for _ in range(draw.randint(1, 3)))]
                for n in range(CLAIMERS)
            }
            board.add_many(
                [{"id": id, "title": id, "project": project, "resources": touched} for id, touched in items.items()]
            )
            for actor, me, item in zip(actors, sessions, items, strict=True):
                if draw.random() < 0.7:
                    actor.send("claim", item, session=me, at=gate)
                else:
                    actor.send("next", session=me, projects=[project], n=2, at=gate)
            gate.open()
            answers = [actor.answer() for actor in actors]
            gate.close()
            busy += sum(answer.code == "RESOURCE_BUSY" for answer in answers)
            given += self.judged(board, project, items, f"seed {seed}, round {number}")
        print(
            f"{CLAIMERS} claimers of what touches, {number + 1} rounds: {given} given, {busy} refused as busy,"
            f" seed {seed}"
        )
        assert min(given, busy) > 0
        assert_sound(board, f"seed {seed}:")

    def judged(self, board: Board, project: str, items: dict[str, list[str]], context: str) -> int:
        """How many of these items are held, none of which touch."""
        held = [
            (event.item, event.session)
            for item in board.list(projects=[project], statuses=["in_progress"])
            for event in board.events(item=item.id, newest=True, limit=1)
        ]
        for (one, mine), (other, theirs) in combinations(held, 2):
            if mine != theirs:
                assert not touch(items[one][0], items[other][0]), (
                    f"{context}: {one} and {other} are both held: {items[one]}, {items[other]}"
                )
        return len(held)
